//! A check that unit tests share.

use std::fmt::Display;

/// Checks that a text, such as that of an error, contains these parts.
#[track_caller]
pub fn assert_has(text: &impl Display, parts: &[&str]) {
    let text = text.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}
