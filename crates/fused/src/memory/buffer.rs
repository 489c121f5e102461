//! A buffer of f32 elements that can become the data of a tensor without a copy.

use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use burn_std::{
    AccessError, AccessPolicy, AllocationController, AllocationProperty, Bytes, DType, TensorData,
};

use super::arena::{Arena, Piece};

/// Minimum number of elements for which a buffer uses the arena. For fewer elements, the general
/// allocator is as fast.
const SMALL: usize = 1 << 12;

static ARENA: Mutex<Arena> = Mutex::new(Arena::new());

fn arena() -> MutexGuard<'static, Arena> {
    ARENA.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns unused memory of earlier large results on flex to the program's allocator.
///
/// Without this call, all memory that large results have ever needed at once is kept for later
/// results. Memory is freed in whole slabs: a slab in which any result is still alive is kept.
///
/// ```
/// fused::free_buffers();
/// ```
pub fn free_buffers() {
    arena().shrink();
}

/// Memory for the elements of an operation's result. A buffer dereferences to these elements.
pub(crate) struct Buffer {
    memory: Memory,
    len: usize,
}

enum Memory {
    Small(Vec<f32>),
    /// A piece of the arena. `None` only inside `drop`, which returns the piece to the arena.
    Large(Option<Piece>),
}

impl Memory {
    fn elements(&self) -> &[f32] {
        match self {
            Self::Small(values) => values,
            Self::Large(piece) => piece.as_ref().map_or(&[], Piece::elements),
        }
    }

    fn elements_mut(&mut self) -> &mut [f32] {
        match self {
            Self::Small(values) => values,
            Self::Large(piece) => piece.as_mut().map_or(&mut [], Piece::elements_mut),
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
    /// Returns a buffer of `len` elements with arbitrary values, such as those of an earlier
    /// result.
    pub(crate) fn arbitrary(len: usize) -> Self {
        let memory = match len {
            0..SMALL => Memory::Small(vec![0.0; len]),
            _ => Memory::Large(Some(arena().take(len))),
        };
        Self { memory, len }
    }

    /// Returns a buffer of `len` zeros.
    pub(crate) fn zeros(len: usize) -> Self {
        let mut buffer = Self::arbitrary(len);
        buffer.fill(0.0);
        buffer
    }

    /// Converts the buffer into tensor data of shape `shape`, without a copy. The shape must have
    /// as many elements as the buffer.
    pub(crate) fn into_data(self, shape: &[usize]) -> TensorData {
        let len = self.len * size_of::<f32>();
        // SAFETY: the buffer has at least `len` bytes of memory, all of which are initialised.
        let bytes = unsafe { Bytes::from_controller(Box::new(self), len) };
        TensorData::from_bytes(bytes, shape.to_vec(), DType::F32)
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.memory.elements()[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.memory.elements_mut()[..self.len]
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
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(self.memory.elements_mut());
        // SAFETY: the returned slice has the same memory and length as `bytes`. The caller promises
        // to write only initialised bytes.
        Ok(unsafe { &mut *(std::ptr::from_mut(bytes) as *mut [MaybeUninit<u8>]) })
    }

    fn memory(&self, _: AccessPolicy) -> Result<&[MaybeUninit<u8>], AccessError> {
        let bytes: &[u8] = bytemuck::cast_slice(self.memory.elements());
        // SAFETY: the returned slice has the same memory and length as `bytes`, all of which are
        // initialised.
        Ok(unsafe { &*(std::ptr::from_ref(bytes) as *const [MaybeUninit<u8>]) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_becomes_a_tensors_data() {
        let mut buffer = Buffer::zeros(5000);
        buffer[4999] = 2.5;
        let mut data = buffer.into_data(&[50, 100]);
        data.as_mut_slice::<f32>().unwrap()[1] = 3.5;
        assert_eq!(data.as_slice::<f32>().unwrap()[1], 3.5);
        assert_eq!(data.as_slice::<f32>().unwrap()[4999], 2.5);
        let mut copy = data.clone();
        copy.as_mut_slice::<f32>().unwrap()[0] = 1.0;
        assert_eq!(data.as_slice::<f32>().unwrap()[0], 0.0);
        assert_eq!(data.try_into_vec::<f32>().unwrap().len(), 5000);
    }

    /// Each thread fills every buffer with a different number, and sends some buffers to the next
    /// thread, which reads and drops them.
    #[test]
    fn threads_share_the_arena() {
        use std::sync::mpsc::channel;

        const THREADS: usize = 4;
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..THREADS).map(|_| channel::<(Buffer, f32)>()).unzip();
        std::thread::scope(|scope| {
            for (thread, receiver) in receivers.into_iter().enumerate() {
                let next = senders[(thread + 1) % THREADS].clone();
                scope.spawn(move || {
                    let check = |(buffer, value): (Buffer, f32)| {
                        assert!(buffer.iter().all(|&x| x == value), "another thread wrote");
                    };
                    let mut held = Vec::new();
                    for turn in 0..60 {
                        let value = (thread * 1000 + turn) as f32;
                        let mut buffer = Buffer::arbitrary(SMALL + (turn * 7919) % 30_000);
                        buffer.fill(value);
                        match turn % 3 {
                            0 => next.send((buffer, value)).expect("the next thread reads"),
                            _ => held.push((buffer, value)),
                        }
                        receiver.try_iter().for_each(check);
                        if turn % 10 == 9 {
                            free_buffers();
                            held.drain(..).for_each(check);
                        }
                    }
                    drop(next);
                    receiver.into_iter().for_each(check);
                });
            }
            drop(senders);
        });
    }
}
