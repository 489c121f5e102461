//! Attention (paper, section 3.2).

pub mod cache;
pub mod multi_head;
pub mod scaled_dot_product;

pub use cache::{KeyValue, KeyValueCache};
pub use multi_head::{CrossAttention, SelfAttention};
pub use scaled_dot_product::{attention_weights, scaled_dot_product_attention};
