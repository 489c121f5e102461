//! Reads any bytes as a `tokenizer.json`. A tokeniser that is accepted encodes and decodes texts.
#![no_main]

#[path = "files.rs"]
mod files;

use training::data::parallel::Tokenizer;

const TEXTS: [&str; 5] = [
    "",
    "ab ba",
    "猫 <eos> e\u{301} \0",
    "  x  ",
    "~9\u{10fffd}\u{e000}",
];

// The fuzzer's own panic hook is replaced, because it aborts at each panic, even at one that the
// library catches.
libfuzzer_sys::fuzz_target!(init: std::panic::set_hook(Box::new(|_| ())), |bytes: &[u8]| {
    let Ok(tokenizer) = Tokenizer::read(&files::write("tokenizer.json", bytes)) else {
        return;
    };
    // Large vocabularies are valid, but take long, so only the first 300 ids are decoded.
    let size = tokenizer.vocab_size.min(300) as u32;
    for text in TEXTS {
        let ids = tokenizer.encode(text);
        assert!(ids.iter().all(|&id| (id as usize) < tokenizer.vocab_size));
        let text = tokenizer.decode(&ids);
        assert!(!text.contains('\n'));
    }
    for id in 0..size {
        let _ = (
            tokenizer.token(id),
            tokenizer.label(id),
            tokenizer.decode(&[id, id]),
        );
    }
    if size == tokenizer.vocab_size as u32 {
        let _ = tokenizer.names();
    }
});
