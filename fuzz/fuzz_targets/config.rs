//! Reads any bytes as settings, in JSON and in TOML. Settings that pass the checks are the same
//! after they are written and read again.
#![no_main]

#[path = "files.rs"]
mod files;

use training::config::file;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for name in ["a.json", "a.toml"] {
        let Ok(mut config) = file::read(&files::write(name, bytes)) else {
            continue;
        };
        if config.check().is_err() {
            continue;
        }
        let json = serde_json::to_vec(&config).expect("it is plain data");
        let mut again = file::read(&files::write("again.json", &json)).expect("it was checked");
        assert!(again.check().is_ok());
        let again = serde_json::to_vec(&again).expect("it is plain data");
        assert!(again == json, "{}", String::from_utf8_lossy(&json));
    }
});
