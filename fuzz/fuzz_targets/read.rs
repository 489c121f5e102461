//! Imports arbitrary bytes, for the fuzz targets `pytorch` and `safetensors`.

use transformer::weights::{ImportOptions, WeightsFile, import, recognise};

/// Imports the bytes as a file of weights. The import must return weights or an error, never panic.
pub fn read(bytes: &[u8]) {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), bytes).expect("a temporary file");
    let Ok(file) = WeightsFile::open(file.path()) else {
        return;
    };
    let options = ImportOptions {
        n_heads: Some(1),
        allow_unused: true,
        ..Default::default()
    };
    let _ = recognise(&file, &options);
    if let Ok(imported) = import(&file, &options) {
        let config = imported.stacks.config();
        assert!(config.is_none_or(|config| config.validate().is_ok()));
    }
}
