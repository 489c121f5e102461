//! Rayon's parallel iterators. In WebAssembly, which has no threads, sequential iterators have the
//! same names.

#[cfg(not(target_family = "wasm"))]
pub(crate) use rayon::{current_num_threads, prelude::*};
#[cfg(target_family = "wasm")]
pub(crate) use sequential::*;

/// Runs `f` on a thread of rayon's pool.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn scope<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    rayon::scope(|_| f())
}

#[cfg(target_family = "wasm")]
mod sequential {
    use std::slice::{Chunks, ChunksMut, IterMut};

    pub(crate) const fn current_num_threads() -> usize {
        1
    }

    pub(crate) fn scope<R>(f: impl FnOnce() -> R) -> R {
        f()
    }

    pub(crate) trait IntoParallelIterator: IntoIterator + Sized {
        fn into_par_iter(self) -> Self::IntoIter {
            self.into_iter()
        }
    }

    impl<I: IntoIterator> IntoParallelIterator for I {}

    pub(crate) trait ParallelIterator: Iterator + Sized {
        fn par_bridge(self) -> Self {
            self
        }

        fn with_min_len(self, _: usize) -> Self {
            self
        }
    }

    impl<I: Iterator> ParallelIterator for I {}

    pub(crate) trait ParallelSlice<T> {
        fn par_chunks(&self, length: usize) -> Chunks<'_, T>;
        fn par_chunks_mut(&mut self, length: usize) -> ChunksMut<'_, T>;
        fn par_iter_mut(&mut self) -> IterMut<'_, T>;
    }

    impl<T> ParallelSlice<T> for [T] {
        fn par_chunks(&self, length: usize) -> Chunks<'_, T> {
            self.chunks(length)
        }

        fn par_chunks_mut(&mut self, length: usize) -> ChunksMut<'_, T> {
            self.chunks_mut(length)
        }

        fn par_iter_mut(&mut self) -> IterMut<'_, T> {
            self.iter_mut()
        }
    }
}
