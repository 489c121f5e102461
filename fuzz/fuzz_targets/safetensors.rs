//! Reads any bytes as a safetensors file.
#![no_main]

#[path = "read.rs"]
mod read;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // Archives and pickles are PyTorch checkpoints, which have a fuzz target of their own.
    if !bytes.starts_with(b"PK") && bytes.first() != Some(&0x80) {
        read::read(bytes);
    }
});
