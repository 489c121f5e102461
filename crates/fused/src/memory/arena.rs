//! An arena, which hands out pieces of large slabs of memory. A returned piece is joined with its
//! free neighbours.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::BTreeMap;
use std::ptr::NonNull;

/// Number of f32 elements in a cache line of 64 bytes.
pub(crate) const CACHE_LINE: usize = 16;

/// Minimum number of elements of a slab. Each further slab at least doubles the arena. If there is
/// not enough memory for a slab of this size, the slab is only as large as the piece that needs it.
const FIRST: usize = 1 << 18;

/// Slabs of memory and the free pieces in them.
pub(super) struct Arena {
    /// All slabs. A slab that was freed leaves `None`, so that later slabs keep their index.
    slabs: Vec<Option<Slab>>,
    /// Lengths of the free pieces, by slab index and first element. Neighbouring free pieces are
    /// joined.
    free: BTreeMap<(usize, usize), usize>,
}

struct Slab {
    /// First element, at the beginning of a cache line.
    memory: NonNull<f32>,
    len: usize,
    /// Start of the allocation, which contains the elements.
    allocated: NonNull<u8>,
}

/// Exclusive access to a part of a slab. A piece must be returned to the arena that handed it out,
/// and must not outlive this arena. Outside tests, there is one arena, which is never dropped.
pub(super) struct Piece {
    slab: usize,
    first: usize,
    len: usize,
    memory: NonNull<f32>,
}

// SAFETY: a slab owns plain memory, which any thread may free.
unsafe impl Send for Slab {}
// SAFETY: a piece is the only access to its elements.
unsafe impl Send for Piece {}
// SAFETY: a shared reference to a piece only reads its elements.
unsafe impl Sync for Piece {}

impl Arena {
    pub(super) const fn new() -> Self {
        Self {
            slabs: Vec::new(),
            free: BTreeMap::new(),
        }
    }

    /// Takes a piece of at least `len` elements with arbitrary values. Its length is a whole number
    /// of cache lines. The first free piece that is large enough is used, so that memory at the end
    /// of a slab is used only when it is needed.
    pub(super) fn take(&mut self, len: usize) -> Piece {
        let len = len.max(1).next_multiple_of(CACHE_LINE);
        let fits = self.free.iter().find(|(_, free)| **free >= len);
        let (slab, first) = match fits {
            Some((&place, _)) => place,
            None => self.grow(len),
        };
        let free = self.free.remove(&(slab, first)).expect("the piece is free");
        if free > len {
            self.free.insert((slab, first + len), free - len);
        }
        let memory = self.slabs[slab]
            .as_ref()
            .expect("a slab with a free piece exists");
        Piece {
            slab,
            first,
            len,
            // SAFETY: the piece lies within the slab.
            memory: unsafe { memory.memory.add(first) },
        }
    }

    /// Makes a piece free again, and joins it with the free pieces before and after it.
    pub(super) fn give_back(&mut self, piece: Piece) {
        let Piece {
            slab,
            mut first,
            mut len,
            ..
        } = piece;
        if let Some(after) = self.free.remove(&(slab, first + len)) {
            len += after;
        }
        let before = self.free.range(..(slab, first)).next_back();
        if let Some((&(before_slab, before), &before_len)) = before
            && before_slab == slab
            && before + before_len == first
        {
            first = before;
            len += before_len;
        }
        self.free.insert((slab, first), len);
    }

    /// Frees the memory of every slab that has no piece in use.
    pub(super) fn shrink(&mut self) {
        for (index, slab) in self.slabs.iter_mut().enumerate() {
            let unused = |slab: &mut Slab| self.free.get(&(index, 0)) == Some(&slab.len);
            if slab.take_if(unused).is_some() {
                self.free.remove(&(index, 0));
            }
        }
    }

    /// Adds a slab of at least `len` free elements. Returns the slab's index and the position of
    /// its first free element, which is always 0. The allocator clears the slab. Some allocators do
    /// so without touching its memory pages, which the system then provides when they are used.
    fn grow(&mut self, len: usize) -> (usize, usize) {
        let held: usize = self.slabs.iter().flatten().map(|slab| slab.len).sum();
        // If there is not enough memory for a larger slab, the slab has only `len` elements.
        let slab = Slab::new(len.max(held).max(FIRST)).or_else(|| Slab::new(len));
        let slab = slab.unwrap_or_else(|| handle_alloc_error(Slab::layout(len)));
        let place = self.slabs.iter().position(Option::is_none);
        let index = place.unwrap_or(self.slabs.len());
        self.free.insert((index, 0), slab.len);
        match place {
            Some(index) => self.slabs[index] = Some(slab),
            None => self.slabs.push(Some(slab)),
        }
        (index, 0)
    }
}

impl Slab {
    /// Allocates a slab of `len` elements. Returns `None` if there is not enough memory.
    fn new(len: usize) -> Option<Self> {
        // SAFETY: the layout's size is not 0, since the layout has a cache line more than `len`
        // elements.
        let allocated = NonNull::new(unsafe { alloc_zeroed(Self::layout(len)) })?;
        let offset = allocated.align_offset(CACHE_LINE * size_of::<f32>());
        // SAFETY: the offset is less than a cache line, and the layout has a cache line more than
        // `len` elements.
        let memory = unsafe { allocated.add(offset) }.cast();
        Some(Self {
            memory,
            len,
            allocated,
        })
    }

    /// Returns the layout of the allocation of a slab of `len` elements. The layout has a cache
    /// line more, so that the elements can begin at a cache line. It does not demand the alignment
    /// of a cache line: for such a layout, the standard library would write the zeros itself, and
    /// so make the whole slab resident at once.
    fn layout(len: usize) -> Layout {
        let elements = len.checked_add(CACHE_LINE);
        let layout = elements.map(Layout::array::<f32>).and_then(Result::ok);
        layout.expect("a slab is smaller than the address space")
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated with this layout. `shrink` drops only slabs without a
        // piece in use, and no arena with a piece in use is dropped.
        unsafe { dealloc(self.allocated.as_ptr(), Self::layout(self.len)) };
    }
}

impl Piece {
    pub(super) fn elements(&self) -> &[f32] {
        // SAFETY: the range is inside a slab, which lives as long as one of its pieces is in use
        // (see `Piece`). The elements are initialised, since slabs are allocated with zeros.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.len) }
    }

    pub(super) fn elements_mut(&mut self) -> &mut [f32] {
        // SAFETY: as in `elements`. Pieces do not overlap, and this one is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Arena {
        fn held(&self) -> usize {
            self.slabs.iter().flatten().map(|slab| slab.len).sum()
        }
    }

    proptest! {
        /// Fills every piece with a different value, so that any other value in the piece reveals
        /// an overlap.
        #[test]
        fn pieces_never_overlap_and_all_join_again(
            turns in prop::collection::vec((any::<bool>(), 1usize..600_000, any::<prop::sample::Index>()), 1..60)
        ) {
            let mut arena = Arena::new();
            let mut out: Vec<(Piece, f32)> = Vec::new();
            for (turn, (take, len, which)) in turns.into_iter().enumerate() {
                if take || out.is_empty() {
                    let mut piece = arena.take(len);
                    prop_assert!(piece.len >= len && piece.len - len < CACHE_LINE);
                    prop_assert_eq!(piece.memory.as_ptr() as usize % 64, 0);
                    piece.elements_mut().fill(turn as f32);
                    out.push((piece, turn as f32));
                } else {
                    let (piece, value) = out.swap_remove(which.index(out.len()));
                    prop_assert!(piece.elements().iter().all(|&x| x == value));
                    arena.give_back(piece);
                }
                let free: usize = arena.free.values().sum();
                let taken: usize = out.iter().map(|(piece, _)| piece.len).sum();
                prop_assert_eq!(free + taken, arena.held());
            }
            for (piece, value) in out {
                prop_assert!(piece.elements().iter().all(|&x| x == value));
                arena.give_back(piece);
            }
            prop_assert_eq!(arena.free.len(), arena.slabs.len());
            arena.shrink();
            prop_assert_eq!((arena.held(), arena.free.len()), (0, 0));
        }
    }

    #[test]
    fn returned_pieces_are_reused() {
        let mut arena = Arena::new();
        let [a, b] = [10_000, 20_000].map(|len| arena.take(len));
        let place = a.memory;
        arena.give_back(a);
        let c = arena.take(5000);
        assert_eq!(c.memory, place);
        arena.give_back(b);
        arena.give_back(c);
        // This piece is larger than each of the two returned pieces, and takes the place of both.
        let d = arena.take(30_000);
        assert_eq!((d.memory, arena.held()), (place, FIRST));
        arena.give_back(d);
    }

    #[test]
    fn slabs_with_a_piece_in_use_are_kept() {
        let mut arena = Arena::new();
        let mut small = arena.take(100);
        let large = arena.take(2 * FIRST);
        arena.give_back(large);
        small.elements_mut().fill(3.0);
        arena.shrink();
        assert_eq!(arena.held(), FIRST);
        assert!(small.elements().iter().all(|&x| x == 3.0));
        let again = arena.take(2 * FIRST);
        assert_eq!((again.slab, arena.held()), (1, 3 * FIRST));
        arena.give_back(again);
        arena.give_back(small);
    }

    #[test]
    fn threads_read_a_piece_at_the_same_time() {
        let mut arena = Arena::new();
        let mut piece = arena.take(5000);
        for value in [1.0, 2.0, 3.0] {
            piece.elements_mut().fill(value);
            let read = || assert!(piece.elements().iter().all(|&x| x == value));
            std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(read))));
        }
        arena.give_back(piece);
    }

    #[test]
    fn a_piece_of_no_elements_has_a_cache_line() {
        let mut arena = Arena::new();
        let pieces = [0, 1].map(|len| arena.take(len));
        assert!(pieces.iter().all(|piece| piece.len == CACHE_LINE));
        assert!(
            pieces
                .iter()
                .all(|piece| piece.elements() == [0.0; CACHE_LINE])
        );
        assert_ne!(pieces[0].memory, pieces[1].memory);
        pieces.into_iter().for_each(|piece| arena.give_back(piece));
    }

    #[test]
    fn growing_sizes_do_not_grow_the_arena() {
        let mut arena = Arena::new();
        for len in (8192..80_000).step_by(512) {
            let pieces = [len, 2 * len].map(|len| arena.take(len));
            pieces.into_iter().for_each(|piece| arena.give_back(piece));
        }
        assert_eq!(arena.held(), FIRST);
    }
}
