//! Memory for results, taken again and again. A training step allocates what the last one has
//! freed; from a general allocator, large results come cleared, by it or by the system, and the
//! first pass over each would be one that writes zeros.

#![allow(unsafe_code)] // an arena and two casts, each with its reason

mod arena;

use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use burn_std::{
    AccessError, AccessPolicy, AllocationController, AllocationProperty, Bytes, DType, TensorData,
};

use arena::{Arena, Piece};

/// Numbers below which the allocator is as good.
const SMALL: usize = 1 << 12;

static ARENA: Mutex<Arena> = Mutex::new(Arena::new());

fn arena() -> MutexGuard<'static, Arena> {
    ARENA.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns memory that results of earlier operations had to the allocator, as far as it lies in
/// slabs without any result that is still there. Without it, fast paths keep as much as they have
/// needed at once, for the results that come.
///
/// ```
/// fused::free_buffers();
/// ```
pub fn free_buffers() {
    arena().shrink();
}

/// How many numbers the results of all operations so far had, small ones apart: what tests count.
#[doc(hidden)]
#[must_use]
pub fn numbers_taken() -> usize {
    arena().taken
}

/// Room for a result.
pub(crate) struct Buffer {
    memory: Memory,
    len: usize,
}

enum Memory {
    Small(Vec<f32>),
    /// `None` while it is dropped.
    Large(Option<Piece>),
}

impl Memory {
    fn numbers(&self) -> &[f32] {
        match self {
            Self::Small(values) => values,
            Self::Large(piece) => piece.as_ref().map_or(&[], Piece::numbers),
        }
    }

    fn numbers_mut(&mut self) -> &mut [f32] {
        match self {
            Self::Small(values) => values,
            Self::Large(piece) => piece.as_mut().map_or(&mut [], Piece::numbers_mut),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Self::Large(piece) = self
            && let Some(piece) = piece.take()
        {
            arena().give_back(piece);
        }
    }
}

impl Buffer {
    /// With numbers of earlier results in it.
    pub(crate) fn arbitrary(len: usize) -> Self {
        let memory = match len {
            0..SMALL => Memory::Small(vec![0.0; len]),
            _ => Memory::Large(Some(arena().take(len))),
        };
        Self { memory, len }
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

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.memory.numbers()[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.memory.numbers_mut()[..self.len]
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
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(self.memory.numbers_mut());
        // SAFETY: the same memory; the caller promises to write nothing uninitialised.
        Ok(unsafe { &mut *(std::ptr::from_mut(bytes) as *mut [MaybeUninit<u8>]) })
    }

    fn memory(&self, _: AccessPolicy) -> Result<&[MaybeUninit<u8>], AccessError> {
        let bytes: &[u8] = bytemuck::cast_slice(self.memory.numbers());
        // SAFETY: the same memory, which is initialised.
        Ok(unsafe { &*(std::ptr::from_ref(bytes) as *const [MaybeUninit<u8>]) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
