//! Reads arbitrary bytes as a safetensors file.
#![no_main]

#[path = "read.rs"]
mod read;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // Bytes that begin like an archive or a pickle are left to the fuzz target `pytorch`.
    if !bytes.starts_with(b"PK") && bytes.first() != Some(&0x80) {
        read::read(bytes);
    }
});
