//! Turns decoded words into one readable line.

/// Returns whether a character ends a line or controls a terminal.
pub(super) fn is_break(c: char) -> bool {
    c.is_control() || ['\u{2028}', '\u{2029}'].contains(&c)
}

/// Attaches punctuation to words: `Hello , world !` becomes `Hello, world!`.
pub(super) fn attach_punctuation(text: &str) -> String {
    const CLOSING: &str = ".,;:!?)]}%…»”’";
    const OPENING: &str = "([{«“‘¿¡";
    const BETWEEN: &str = "'-/";
    let consists_of =
        |word: &str, signs: &str| !word.is_empty() && word.chars().all(|c| signs.contains(c));
    let mut joined = String::with_capacity(text.len());
    let mut attaches = true;
    for word in text.split(' ') {
        if !attaches && !consists_of(word, CLOSING) && !consists_of(word, BETWEEN) {
            joined.push(' ');
        }
        joined.push_str(word);
        attaches = consists_of(word, OPENING) || consists_of(word, BETWEEN);
    }
    joined
}
