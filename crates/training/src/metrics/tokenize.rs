//! Tokenisation of texts for BLEU.

use std::sync::LazyLock;

use regex::Regex;

use super::text::{is_space, words};

/// Tokenisation of texts for BLEU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tokenizer {
    /// Tokenisation of mteval-v13a, which most published scores use.
    #[default]
    Mteval13a,
    /// Splits at white space only, for texts that have been tokenised already.
    None,
}

impl Tokenizer {
    /// All tokenisations.
    pub const ALL: [Self; 2] = [Self::Mteval13a, Self::None];

    /// Returns the name that sacreBLEU's signatures use for this tokenisation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mteval13a => "13a",
            Self::None => "none",
        }
    }

    /// Returns the tokens of a segment.
    pub fn tokens(self, text: &str) -> Vec<String> {
        match self {
            Self::Mteval13a => words(&separated(text)).map(String::from).collect(),
            Self::None => words(text).map(String::from).collect(),
        }
    }
}

/// Patterns and replacements that put blanks around punctuation, in the order of application.
static RULES: LazyLock<[(Regex, &str); 4]> = LazyLock::new(|| {
    let regex = |pattern| Regex::new(pattern).expect("the pattern is valid");
    [
        // All ASCII punctuation except `-`, `,`, `.` and `'`.
        (regex(r"([\{-~\[-` -&\(-\+:-@/])"), " $1 "),
        // A period or comma that does not follow a digit, then one that does not precede a digit.
        (regex(r"([^0-9])([\.,])"), "$1 $2 "),
        (regex(r"([\.,])([^0-9])"), " $1 $2"),
        // A hyphen after a digit.
        (regex(r"([0-9])(-)"), "$1 $2 "),
    ]
});

fn separated(text: &str) -> String {
    let text = text.trim_end_matches(is_space).replace("<skipped>", "");
    let text = text.replace("-\n", "").replace('\n', " ");
    let text = text.replace("&quot;", "\"").replace("&amp;", "&");
    let text = text.replace("&lt;", "<").replace("&gt;", ">");
    let mut text = format!(" {text} ");
    for (pattern, replacement) in RULES.iter() {
        text = pattern.replace_all(&text, *replacement).into_owned();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_tokens() {
        let tokens = |text| Tokenizer::Mteval13a.tokens(text).join(" ");
        assert_eq!(tokens("Hello, world."), "Hello , world .");
        assert_eq!(tokens("1,000.5 it's 3-4 a-b"), "1,000.5 it's 3 - 4 a-b");
        assert_eq!(
            tokens("&quot;A&amp;B&quot; <skipped>(x)"),
            "\" A & B \" ( x )"
        );
        assert_eq!(Tokenizer::None.tokens("a,  b. ").join(" "), "a, b.");
    }
}
