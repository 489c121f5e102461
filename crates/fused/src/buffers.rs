//! Memory for results, taken again and again. A training step allocates what the last one has
//! freed; without this, the system would take the pages back, clear them and hand them out anew,
//! and the first pass over each result would be one that writes zeros.

#![allow(unsafe_code)] // two casts, see below

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

use burn_std::{
    AccessError, AccessPolicy, AllocationController, AllocationProperty, Bytes, DType, TensorData,
};

/// Numbers below which the allocator is as good.
const SMALL: usize = 1 << 12;

/// What is free, by size.
static POOL: Mutex<Pool> = Mutex::new(Pool::new());

struct Pool {
    free: BTreeMap<usize, Vec<Vec<f32>>>,
    /// How many numbers these have together.
    free_numbers: usize,
    /// How many the buffers have that are in use, now and at most.
    used: usize,
    most_used: usize,
}

impl Pool {
    const fn new() -> Self {
        Self {
            free: BTreeMap::new(),
            free_numbers: 0,
            used: 0,
            most_used: 0,
        }
    }

    fn take(&mut self, size: usize) -> Vec<f32> {
        self.used += size;
        self.most_used = self.most_used.max(self.used);
        if let Some(values) = self.free.get_mut(&size).and_then(Vec::pop) {
            self.free_numbers -= size;
            return values;
        }
        // Sizes that no longer come make room for those that do.
        let room = (self.most_used + self.most_used / 8).saturating_sub(self.used);
        while self.free_numbers > room {
            let (&size, _) = self
                .free
                .iter()
                .max_by_key(|(size, all)| *size * all.len())
                .expect("something is free");
            self.free.get_mut(&size).and_then(Vec::pop);
            self.free_numbers -= size;
        }
        vec![0.0; size]
    }

    fn give_back(&mut self, values: Vec<f32>) {
        let size = values.len();
        self.used -= size;
        self.free_numbers += size;
        self.free.entry(size).or_default().push(values);
    }
}

fn pool() -> std::sync::MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the memory that results of earlier operations had to the allocator. Without it, fast
/// paths keep as much as they have needed at once, for the results that come.
///
/// ```
/// fused::free_buffers();
/// ```
pub fn free_buffers() {
    let mut pool = pool();
    pool.free.clear();
    pool.free_numbers = 0;
    pool.most_used = pool.used;
}

/// Sizes of which a result wastes at most an eighth.
fn size_for(len: usize) -> usize {
    match len {
        0..SMALL => len,
        _ => len.next_multiple_of(len.next_power_of_two() / 16),
    }
}

/// Room for a result.
pub(crate) struct Buffer {
    /// At least `len` numbers.
    values: Vec<f32>,
    len: usize,
}

impl Buffer {
    /// With numbers of earlier results in it.
    pub(crate) fn arbitrary(len: usize) -> Self {
        let values = match len {
            0..SMALL => vec![0.0; len],
            _ => pool().take(size_for(len)),
        };
        Self { values, len }
    }

    /// With nothing but zeros.
    pub(crate) fn zeros(len: usize) -> Self {
        let mut buffer = Self::arbitrary(len);
        buffer.fill(0.0);
        buffer
    }

    /// As a tensor's data.
    pub(crate) fn into_data(self, shape: &[usize]) -> TensorData {
        let len = self.len * size_of::<f32>();
        // SAFETY: so many bytes of its memory are numbers.
        let bytes = unsafe { Bytes::from_controller(Box::new(self), len) };
        TensorData::from_bytes(bytes, shape.to_vec(), DType::F32)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.len >= SMALL {
            pool().give_back(std::mem::take(&mut self.values));
        }
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.values[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.values[..self.len]
    }
}

impl AllocationController for Buffer {
    fn alloc_align(&self) -> usize {
        align_of::<f32>()
    }

    fn property(&self) -> AllocationProperty {
        AllocationProperty::Other
    }

    unsafe fn memory_mut(
        &mut self,
        _: AccessPolicy,
    ) -> Result<&mut [MaybeUninit<u8>], AccessError> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.values);
        // SAFETY: the same memory; the caller promises to write nothing uninitialised.
        Ok(unsafe { &mut *(std::ptr::from_mut(bytes) as *mut [MaybeUninit<u8>]) })
    }

    fn memory(&self, _: AccessPolicy) -> Result<&[MaybeUninit<u8>], AccessError> {
        let bytes: &[u8] = bytemuck::cast_slice(&self.values);
        // SAFETY: the same memory, which is initialised.
        Ok(unsafe { &*(std::ptr::from_ref(bytes) as *const [MaybeUninit<u8>]) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_waste_an_eighth_at_most() {
        for len in (SMALL..1 << 17).step_by(37) {
            let size = size_for(len);
            assert!(size >= len && size - len <= len / 8, "{len}: {size}");
            assert_eq!(size_for(size), size);
        }
    }

    #[test]
    fn what_was_given_back_is_taken_again() {
        let mut pool = Pool::new();
        let values = pool.take(10_000);
        let place = values.as_ptr();
        pool.give_back(values);
        let again = pool.take(10_000);
        assert_eq!(again.as_ptr(), place);
        assert_eq!((pool.used, pool.free_numbers), (10_000, 0));
    }

    #[test]
    fn no_more_is_kept_than_was_needed_at_once() {
        let mut pool = Pool::new();
        // Ever new sizes, as batches of many lengths bring them.
        for size in (8192..80_000).step_by(512) {
            let (a, b) = (pool.take(size), pool.take(size));
            pool.give_back(a);
            pool.give_back(b);
            let held: usize = pool.free.iter().map(|(size, all)| size * all.len()).sum();
            assert_eq!(held, pool.free_numbers);
            assert!(8 * held <= 9 * pool.most_used, "{size}: {held}");
        }
    }

    #[test]
    fn a_buffer_is_a_tensors_data() {
        let mut buffer = Buffer::zeros(5000);
        buffer[4999] = 2.5;
        let data = buffer.into_data(&[50, 100]);
        assert_eq!(data.as_slice::<f32>().unwrap()[4999], 2.5);
        let mut copy = data.clone();
        copy.as_mut_slice::<f32>().unwrap()[0] = 1.0;
        assert_eq!(data.as_slice::<f32>().unwrap()[0], 0.0);
        assert_eq!(data.try_into_vec::<f32>().unwrap().len(), 5000);
    }
}
