//! Labels of tokens in plots.

/// Label of a token that is a blank.
const BLANK: &str = "␣";

/// Returns the label of a text: one line, without blanks at its ends.
pub(super) fn of_text(text: &str) -> String {
    let word = text.trim_matches(' ');
    if word.is_empty() {
        return BLANK.into();
    }
    let visible = word.chars().map(|c| match c {
        ' ' => BLANK.into(),
        c if c.is_whitespace() || c.is_control() => c.escape_default().to_string(),
        c => c.into(),
    });
    visible.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_one_line_without_blanks_around_them() {
        for (text, label) in [
            (" der", "der"),
            ("", "␣"),
            ("  ", "␣"),
            ("a b", "a␣b"),
            ("\n", "\\n"),
            ("é", "é"),
        ] {
            assert_eq!(of_text(text), label);
        }
    }
}
