//! How BLEU takes a text apart.

use std::sync::LazyLock;

use regex::Regex;

use super::words;

/// How a text becomes tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Tokenizer {
    /// As mteval-v13a, by which published scores are computed
    #[default]
    #[value(name = "13a")]
    Mteval13a,
    /// At whitespace alone, for texts that are tokenised already
    None,
}

impl Tokenizer {
    /// Its name in a signature.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mteval13a => "13a",
            Self::None => "none",
        }
    }

    /// The tokens of a segment.
    pub fn tokens(self, text: &str) -> Vec<String> {
        match self {
            Self::Mteval13a => words(&separated(text)).map(String::from).collect(),
            Self::None => words(text).map(String::from).collect(),
        }
    }
}

/// What stands by itself, and what takes its place, one after the other.
static RULES: LazyLock<[(Regex, &str); 4]> = LazyLock::new(|| {
    let regex = |pattern| Regex::new(pattern).expect("a pattern of ours");
    [
        // All of ASCII's signs but - , . and '
        (regex(r"([\{-~\[-` -&\(-\+:-@/])"), " $1 "),
        // Period and comma, unless after a digit; unless before one.
        (regex(r"([^0-9])([\.,])"), "$1 $2 "),
        (regex(r"([\.,])([^0-9])"), " $1 $2"),
        // A dash after a digit.
        (regex(r"([0-9])(-)"), "$1 $2 "),
    ]
});

fn separated(text: &str) -> String {
    let text = text
        .trim_end_matches(super::is_space)
        .replace("<skipped>", "");
    let text = text.replace("-\n", "").replace('\n', " ");
    let text = text.replace("&quot;", "\"").replace("&amp;", "&");
    let text = text.replace("&lt;", "<").replace("&gt;", ">");
    let mut text = format!(" {text} ");
    for (pattern, by) in RULES.iter() {
        text = pattern.replace_all(&text, *by).into_owned();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_stand_by_themselves() {
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
