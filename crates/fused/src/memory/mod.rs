//! Memory for results, reused from step to step.
//!
//! A training step often allocates tensors of the same sizes as earlier steps. A general allocator
//! usually returns large blocks to the operating system. New blocks from the system are then filled
//! with zeros, although results overwrite them. The [`arena`] reuses freed blocks without clearing
//! them. One arena serves the whole process, since any thread may drop a tensor.
//!
//! # What the unsafe code relies on
//!
//! Each entry names an assumption of the unsafe code, and a test that fails if it is wrong.
//! `.ci/deep` runs the tests under AddressSanitizer, ThreadSanitizer and valgrind.
//!
//! - `Slab: Send`: a slab is plain memory, which any thread may free. Test:
//!   `threads_share_the_arena` under ThreadSanitizer.
//! - `Piece: Send`: pieces do not overlap, so a piece is the only access to its elements. Test:
//!   `pieces_never_overlap_and_all_join_again`.
//! - `Piece: Sync`: a shared piece is only read, since `elements_mut` needs `&mut`. Test:
//!   `threads_read_a_piece_at_the_same_time` under ThreadSanitizer.
//! - `Arena::take`, the address of a piece: the free list has only ranges inside a slab. Test:
//!   `pieces_never_overlap_and_all_join_again`, which also fills every piece under
//!   AddressSanitizer.
//! - `Slab::new`, the allocation: a slab has at least one element, since `take` rounds up to a
//!   cache line. Test: `a_piece_of_no_elements_has_a_cache_line`.
//! - `Slab::drop`: no piece of the slab is in use, and the layout is that of the allocation. Test:
//!   `slabs_with_a_piece_in_use_are_kept`.
//! - `Piece::elements` and `elements_mut`: the slab lives while a piece is in use. Its memory is
//!   initialised, since slabs are allocated with zeros. Test: `slabs_with_a_piece_in_use_are_kept`.
//!   Valgrind reports reads of a slab that was allocated without zeros.
//! - `Buffer::into_data`: the buffer has at least as many elements as the tensor data, all of them
//!   initialised. Test: `a_buffer_becomes_a_tensors_data`.
//! - `Buffer::memory` and `memory_mut`: they return the buffer's memory as bytes. The contract of
//!   `memory_mut` requires that writers keep the bytes initialised. Test:
//!   `a_buffer_becomes_a_tensors_data`.
//!
//! A piece is always returned to the arena that it came from: there is one arena for all buffers,
//! and only `Memory::drop` returns pieces.
//!
//! AddressSanitizer sees a slab as one block: it finds accesses outside slabs and to freed slabs,
//! but not a write from one piece into another. The tests above find such writes.

#![allow(unsafe_code)] // The list above gives the reasons.

pub(crate) mod arena;
pub(crate) mod buffer;
