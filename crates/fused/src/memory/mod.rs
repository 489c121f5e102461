//! Memory for results, reused from step to step.
//!
//! A training step often allocates tensors of the same sizes as earlier steps. A general allocator
//! usually returns large blocks to the operating system. New blocks from the system are then filled
//! with zeros, although results overwrite them. The [`arena`] reuses freed blocks without clearing
//! them. One arena serves the whole process, since any thread may drop a tensor.
//!
//! # What the unsafe code relies on
//!
//! Each entry names an assumption of the unsafe code. It also names a test that fails if the
//! assumption is wrong, or says why the assumption holds. `.ci/deep` runs the tests under
//! AddressSanitizer and ThreadSanitizer, and those of this folder under Valgrind.
//!
//! - `Slab: Send`: a slab is plain memory, which any thread may free. Test:
//!   `threads_share_the_arena`, in which all threads call `free_buffers`, under ThreadSanitizer.
//! - `Piece: Send`: pieces do not overlap, so a piece is the only access to its elements. Test:
//!   `pieces_never_overlap_and_all_join_again`.
//! - `Piece: Sync`: a shared piece is only read, since `elements_mut` needs `&mut`. Test:
//!   `threads_read_a_piece_at_the_same_time` under ThreadSanitizer.
//! - `Arena::take`, the address of a piece: the free list has only ranges inside a slab. Test:
//!   `pieces_never_overlap_and_all_join_again`, which compares the total length of all pieces with
//!   that of the slabs. It also fills every piece under AddressSanitizer.
//! - `Slab::new`, the allocation: the size of the layout is not 0. `Slab::layout` adds a cache line
//!   to the elements, so this holds for any `len`.
//! - `Slab::new`, the address `allocated.add(offset)`: the offset is less than a cache line, which
//!   `Slab::layout` has in addition to the elements. Test:
//!   `pieces_never_overlap_and_all_join_again`, which fills slabs to their end, under
//!   AddressSanitizer. This finds an offset that is larger than a cache line. It finds that the
//!   additional cache line is missing only if an allocation does not begin at a cache line.
//! - `Slab::drop`: no piece of the slab is in use. Test: `slabs_with_a_piece_in_use_are_kept`. The
//!   layout is that of the allocation, since both are `Slab::layout` of the slab's `len`. No test
//!   would find a wrong layout, since the system's allocator frees memory without it.
//! - `Piece::elements` and `elements_mut`: the slab lives while a piece is in use. Test:
//!   `slabs_with_a_piece_in_use_are_kept`. Its memory is initialised, since `Slab::new` allocates
//!   it with zeros. Test: `a_piece_of_no_elements_has_a_cache_line`, which reads elements that no
//!   code has written, under Valgrind.
//! - `Buffer::into_data`: the buffer has at least as many elements as the tensor data, all of them
//!   initialised (see `Piece::elements`). Test: `a_buffer_becomes_a_tensors_data`.
//! - `Buffer::memory`: it returns the buffer's memory as bytes. Test:
//!   `a_buffer_becomes_a_tensors_data`.
//! - `Buffer::memory_mut`: it returns the same bytes. Test:
//!   `blocks_in_a_chain_agree_with_plain_burn` in `tests/residual.rs`, which changes a result in
//!   place. Writers keep the bytes initialised, since the contract of `memory_mut` requires it.
//!
//! A piece is always returned to the arena that it came from: there is one arena for all buffers,
//! and only `Memory::drop` returns pieces.
//!
//! AddressSanitizer sees a slab as one block: it finds accesses outside slabs and to freed slabs,
//! but not a write from one piece into another. The tests above find such writes.

#![allow(unsafe_code)] // The list above gives the reasons.

pub(crate) mod arena;
pub(crate) mod buffer;
