//! Reads arbitrary bytes as a PyTorch checkpoint: as a whole file and, if they begin like a pickle,
//! as the pickle in an archive.
#![no_main]

#[path = "read.rs"]
mod read;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    read::read(bytes);
    if bytes.first() == Some(&0x80) {
        read::read(&archive(bytes));
    }
});

/// Returns an uncompressed ZIP archive without checksums, with `data.pkl` and one storage.
///
/// The archive is built here, because archives that the fuzzer changes would seldom keep valid
/// checksums.
fn archive(pickle: &[u8]) -> Vec<u8> {
    let (mut bytes, mut directory, mut count) = (Vec::new(), Vec::new(), 0u16);
    for (name, data) in [("a/data.pkl", pickle), ("a/data/0", &[1; 256])] {
        let offset = bytes.len() as u32;
        // These are version, flags, method, time, date and a checksum of 0, which is not checked.
        let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        common.extend((data.len() as u32).to_le_bytes().repeat(2));
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        bytes.extend(b"PK\x03\x04");
        bytes.extend(&common);
        bytes.extend(name.as_bytes());
        bytes.extend(data);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&common);
        directory.extend([0; 10]);
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
        count += 1;
    }
    let start = bytes.len() as u32;
    bytes.extend(&directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend(count.to_le_bytes().repeat(2));
    bytes.extend((directory.len() as u32).to_le_bytes());
    bytes.extend(start.to_le_bytes());
    bytes.extend([0, 0]);
    bytes
}
