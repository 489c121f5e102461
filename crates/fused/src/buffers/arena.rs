//! Memory that is handed out in pieces, which join again when they come back.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::BTreeMap;
use std::ptr::NonNull;

use crate::product::LINE;

/// Numbers of the first slab; each further one doubles what there is.
const FIRST: usize = 1 << 18;

/// Slabs of memory, and what is free of them.
pub(super) struct Arena {
    /// How many numbers were ever handed out.
    pub(super) taken: usize,
    slabs: Vec<Option<Slab>>,
    /// The lengths of free pieces, by slab and place. Neighbours are joined.
    free: BTreeMap<(usize, usize), usize>,
}

struct Slab {
    memory: NonNull<f32>,
    len: usize,
}

/// A part of a slab that nobody else has. It must go back to the arena that it is of, and not
/// outlive it: in this crate there is one, which is never dropped.
pub(super) struct Piece {
    slab: usize,
    first: usize,
    len: usize,
    memory: NonNull<f32>,
}

// SAFETY: slabs are memory like any other, freed by whoever drops them.
unsafe impl Send for Slab {}
// SAFETY: a piece is the only way to its numbers.
unsafe impl Send for Piece {}
// SAFETY: a shared piece is read alone.
unsafe impl Sync for Piece {}

impl Arena {
    pub(super) const fn new() -> Self {
        Self {
            taken: 0,
            slabs: Vec::new(),
            free: BTreeMap::new(),
        }
    }

    /// At least `len` numbers, whatever they are, in whole cache lines: the first that are free, so
    /// that what is beyond is never touched.
    pub(super) fn take(&mut self, len: usize) -> Piece {
        let len = len.max(1).next_multiple_of(LINE);
        self.taken += len;
        let fits = self.free.iter().find(|(_, free)| **free >= len);
        let (slab, first) = match fits {
            Some((&place, _)) => place,
            None => self.grow(len),
        };
        let free = self.free.remove(&(slab, first)).expect("it is free");
        if free > len {
            self.free.insert((slab, first + len), free - len);
        }
        let memory = self.slabs[slab].as_ref().expect("it has a free piece");
        Piece {
            slab,
            first,
            len,
            // SAFETY: the piece lies within the slab.
            memory: unsafe { memory.memory.add(first) },
        }
    }

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

    /// Returns the slabs of which no piece is out.
    pub(super) fn shrink(&mut self) {
        for (index, slab) in self.slabs.iter_mut().enumerate() {
            let unused = |slab: &mut Slab| self.free.get(&(index, 0)) == Some(&slab.len);
            if slab.take_if(unused).is_some() {
                self.free.remove(&(index, 0));
            }
        }
    }

    /// A new slab, free as a whole. The system hands out its pages when they are touched.
    fn grow(&mut self, len: usize) -> (usize, usize) {
        let held: usize = self.slabs.iter().flatten().map(|slab| slab.len).sum();
        // Where there is not so much, what is needed.
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
    /// `None` if there is not so much memory.
    fn new(len: usize) -> Option<Self> {
        // SAFETY: it has a size, since `len` is not 0.
        let memory = unsafe { alloc_zeroed(Self::layout(len)) };
        let memory = NonNull::new(memory.cast())?;
        Some(Self { memory, len })
    }

    fn layout(len: usize) -> Layout {
        Layout::array::<f32>(len)
            .and_then(|layout| layout.align_to(LINE * size_of::<f32>()))
            .expect("less than the address space")
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: allocated so; `shrink` takes slabs of which no piece is out, and no arena with a
        // piece out is dropped.
        unsafe { dealloc(self.memory.as_ptr().cast(), Self::layout(self.len)) };
    }
}

impl Piece {
    pub(super) fn numbers(&self) -> &[f32] {
        // SAFETY: inside a slab, which lives while a piece is out (see `Piece`), and initialised,
        // since the slab began with zeros.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.len) }
    }

    pub(super) fn numbers_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above; pieces do not overlap.
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
        /// Every piece is filled with a number of its own; another one in it would be an overlap.
        #[test]
        fn pieces_never_overlap_and_all_join_again(
            turns in prop::collection::vec((any::<bool>(), 1usize..600_000, any::<prop::sample::Index>()), 1..60)
        ) {
            let mut arena = Arena::new();
            let mut out: Vec<(Piece, f32)> = Vec::new();
            for (turn, (take, len, which)) in turns.into_iter().enumerate() {
                if take || out.is_empty() {
                    let mut piece = arena.take(len);
                    prop_assert!(piece.len >= len && piece.len - len < LINE);
                    prop_assert_eq!(piece.memory.as_ptr() as usize % 64, 0);
                    piece.numbers_mut().fill(turn as f32);
                    out.push((piece, turn as f32));
                } else {
                    let (piece, number) = out.swap_remove(which.index(out.len()));
                    prop_assert!(piece.numbers().iter().all(|&x| x == number));
                    arena.give_back(piece);
                }
                let free: usize = arena.free.values().sum();
                let taken: usize = out.iter().map(|(piece, _)| piece.len).sum();
                prop_assert_eq!(free + taken, arena.held());
            }
            for (piece, number) in out {
                prop_assert!(piece.numbers().iter().all(|&x| x == number));
                arena.give_back(piece);
            }
            prop_assert_eq!(arena.free.len(), arena.slabs.len());
            arena.shrink();
            prop_assert_eq!((arena.held(), arena.free.len()), (0, 0));
        }
    }

    #[test]
    fn what_was_given_back_is_taken_again() {
        let mut arena = Arena::new();
        let [a, b] = [10_000, 20_000].map(|len| arena.take(len));
        let place = a.memory;
        arena.give_back(a);
        let c = arena.take(5000);
        assert_eq!(c.memory, place);
        arena.give_back(b);
        arena.give_back(c);
        // Larger than either, where both were.
        let d = arena.take(30_000);
        assert_eq!((d.memory, arena.held()), (place, FIRST));
        arena.give_back(d);
    }

    #[test]
    fn slabs_of_which_a_piece_is_out_stay() {
        let mut arena = Arena::new();
        let mut small = arena.take(100);
        let large = arena.take(2 * FIRST);
        arena.give_back(large);
        small.numbers_mut().fill(3.0);
        arena.shrink();
        assert_eq!(arena.held(), FIRST);
        assert!(small.numbers().iter().all(|&x| x == 3.0));
        let again = arena.take(2 * FIRST);
        assert_eq!((again.slab, arena.held()), (1, 3 * FIRST));
        arena.give_back(again);
        arena.give_back(small);
    }

    #[test]
    fn ever_new_sizes_take_no_more_than_they_need_at_once() {
        let mut arena = Arena::new();
        for len in (8192..80_000).step_by(512) {
            let pieces = [len, 2 * len].map(|len| arena.take(len));
            pieces.into_iter().for_each(|piece| arena.give_back(piece));
        }
        assert_eq!(arena.held(), FIRST);
    }
}
