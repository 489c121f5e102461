//! Loops that the threads of rayon's pool share. WebAssembly has no threads: there, the calling thread
//! does everything.

use std::sync::{Mutex, PoisonError};

#[cfg(not(target_family = "wasm"))]
pub(crate) use rayon::current_num_threads;

#[cfg(target_family = "wasm")]
pub(crate) const fn current_num_threads() -> usize {
    1
}

/// Runs `f` on a thread of rayon's pool.
pub(crate) fn scope<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    #[cfg(not(target_family = "wasm"))]
    return rayon::scope(|_| f());
    #[cfg(target_family = "wasm")]
    f()
}

/// Runs `f` on each item.
pub(crate) fn for_each<T: Send>(items: impl Iterator<Item = T>, f: impl Fn(T) + Sync) {
    map(items, f);
}

/// Returns `f` of each item, in order.
pub(crate) fn map<T: Send, R: Send>(
    items: impl Iterator<Item = T>,
    f: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    map_if(true, items, f)
}

/// Returns `f` of each item, in order, without the other threads unless `is_large`.
pub(crate) fn map_if<T: Send, R: Send>(
    is_large: bool,
    items: impl Iterator<Item = T>,
    f: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    // As a trait object, `f` is compiled once.
    let f: &(dyn Fn(T) -> R + Sync) = &f;
    let items: Vec<T> = items.collect();
    if items.len() < 2 || !is_large {
        return items.into_iter().map(f).collect();
    }
    let slot = |item| Mutex::new((Some(item), None));
    let slots: Vec<Mutex<(Option<T>, Option<R>)>> = items.into_iter().map(slot).collect();
    run(slots.len(), &|index| {
        let mut slot = slots[index].lock().unwrap_or_else(PoisonError::into_inner);
        slot.1 = slot.0.take().map(f);
    });
    let results = slots.into_iter().map(|slot| {
        let slot = slot.into_inner().unwrap_or_else(PoisonError::into_inner);
        slot.1.expect("every index has run")
    });
    results.collect()
}

/// Runs `f` on each index below `n`. The code of rayon's loops is large, and a closure of any type
/// shares this one.
fn run(n: usize, f: &(dyn Fn(usize) + Sync)) {
    #[cfg(not(target_family = "wasm"))]
    use rayon::prelude::*;
    #[cfg(not(target_family = "wasm"))]
    return (0..n).into_par_iter().for_each(f);
    #[cfg(target_family = "wasm")]
    (0..n).for_each(f);
}
