//! Memory for results, reused from step to step.
//!
//! A training step allocates tensors of the same sizes as the step before. A general allocator
//! returns large blocks cleared, either by itself or by the operating system, so that each result
//! would first be filled with zeros. The [`arena`] reuses freed blocks without clearing them. One
//! arena serves the whole process, since any thread may drop a tensor.
//!
//! # What the unsafe code relies on
//!
//! | unsafe code | relies on | fails otherwise |
//! |---|---|---|
//! | `Slab: Send` | a slab is plain memory, which any thread may free | `threads_share_the_arena` with ThreadSanitizer |
//! | `Piece: Send` | a piece is the only access to its elements: pieces do not overlap | `pieces_never_overlap_and_all_join_again` |
//! | `Piece: Sync` | a shared piece is only read, since `elements_mut` needs `&mut` | `threads_share_the_arena` with ThreadSanitizer |
//! | `Arena::take`, the address of a piece | the free list has only ranges inside a slab | `pieces_never_overlap_and_all_join_again`, which also fills every piece under AddressSanitizer |
//! | `Slab::new`, the allocation | a slab has at least one element, since `take` rounds up to a cache line | `a_piece_of_no_elements_has_a_cache_line` |
//! | `Slab::drop` | no piece of the slab is in use, and the layout is that of the allocation | `slabs_with_a_piece_in_use_are_kept` |
//! | `Piece::elements`, `elements_mut` | the slab lives while a piece is in use, and its memory is initialised, since slabs are allocated with zeros | `slabs_with_a_piece_in_use_are_kept`; a slab that is not cleared, with valgrind |
//! | `Buffer::into_data` | the buffer has at least `len` elements, all initialised | `a_buffer_becomes_a_tensors_data` |
//! | `Buffer::memory`, `memory_mut` | the same memory seen as bytes; writers through `memory_mut` keep it initialised, as its contract says | `a_buffer_becomes_a_tensors_data` |
//!
//! A piece that is returned goes to the arena that it came from: there is one arena for all buffers,
//! and only `Memory::drop` returns pieces. AddressSanitizer sees a slab as one block, so that it finds
//! accesses outside slabs and to freed slabs, but not one piece written over another; for that there
//! are the tests above. `.ci/deep` runs the tests under AddressSanitizer, ThreadSanitizer and valgrind.

#![allow(unsafe_code)] // An arena and two casts; the table above has the reasons.

pub(crate) mod arena;
pub(crate) mod buffer;
