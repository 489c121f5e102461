//! Attention (paper, section 3.2).

mod attend;
pub mod cache;
pub(crate) mod index;
pub mod multi_head;
pub mod scaled_dot_product;

pub use cache::KeyValueCache;
pub use multi_head::{CrossAttention, SelfAttention};
pub use scaled_dot_product::{attention_weights, scaled_dot_product_attention};
