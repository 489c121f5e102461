//! Tokenisers before training.

use tokenizers::SplitDelimiterBehavior;
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::models::unigram::{Unigram, UnigramTrainer};
use tokenizers::models::wordlevel::{WordLevel, WordLevelTrainer};
use tokenizers::normalizers::{Lowercase, NFC, NFD, NFKC, NFKD, NormalizerWrapper, Sequence};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{
    AddedToken, ModelWrapper, NormalizedString, Normalizer, PreTokenizerWrapper, Tokenizer as Inner,
};
use transformer::Vocabulary;

use super::config::{Normalization, TokenizerConfig, TokenizerKind};

/// Number of special tokens: padding, begin, end and unknown.
pub(super) const SPECIAL: usize = 4;

/// Returns whether a tokeniser is of the kind `word`, trained here, such as that of an exported folder.
pub(super) fn is_of_words(inner: &Inner) -> bool {
    let parts = inner.get_pre_tokenizer();
    let words = PreTokenizerWrapper::Split(words());
    let is_ours = |parts: &PreTokenizerWrapper| *parts == words;
    matches!(inner.get_model(), ModelWrapper::WordLevel(_)) && parts.is_some_and(is_ours)
}

/// Returns what splits texts into words and punctuation. Punctuation keeps the blanks beside it, so that
/// only the blank between two words is removed, which `Tokenizer::decode` puts back.
fn words() -> Split {
    let tokens = SplitPattern::Regex(r"\w+| *[^\w ] *| {2,}".into());
    Split::new(tokens, SplitDelimiterBehavior::Removed, true).expect("the pattern is valid")
}

/// Returns a tokeniser without tokens, and its trainer. The trainer gives the special tokens the
/// same ids as a [`Vocabulary`], 0 to 3. It makes a vocabulary of at most `size` tokens, if that is
/// possible.
pub(super) fn untrained(
    config: &TokenizerConfig,
    size: usize,
) -> tokenizers::Result<(Inner, TrainerWrapper)> {
    let special = Vocabulary::SPECIAL.map(|name| AddedToken::from(name, true));
    let special = Vec::from(special);
    // A blank belongs to the word after it, and the first word gets one too. As the blank is not
    // replaced by another character, decoding restores every text.
    let with_blanks = Metaspace::new(' ', PrependScheme::Always, true);
    let bpe = |size| {
        BpeTrainerBuilder::new()
            .show_progress(false)
            .special_tokens(special.clone())
            .vocab_size(size)
    };
    let (mut inner, trainer): (Inner, TrainerWrapper) = match config.kind {
        TokenizerKind::Bpe => {
            let mut inner = Inner::new(BPE::default());
            let bytes = ByteLevel::default();
            inner.with_pre_tokenizer(Some(bytes));
            inner.with_decoder(Some(bytes));
            let trainer = bpe(size)
                .min_frequency(2)
                .initial_alphabet(ByteLevel::alphabet().into_iter().collect());
            (inner, trainer.build().into())
        }
        TokenizerKind::Char => {
            let model = BPE::builder().unk_token(Vocabulary::UNK.into()).build()?;
            let mut inner = Inner::new(model);
            inner.with_pre_tokenizer(Some(with_blanks.clone()));
            inner.with_decoder(Some(with_blanks));
            // With a vocabulary size of 0, the trainer keeps only the alphabet and makes no merges.
            let trainer = bpe(0).limit_alphabet(size.saturating_sub(SPECIAL));
            (inner, trainer.build().into())
        }
        TokenizerKind::Unigram => {
            let mut inner = Inner::new(Unigram::default());
            inner.with_pre_tokenizer(Some(with_blanks.clone()));
            inner.with_decoder(Some(with_blanks));
            let trainer = UnigramTrainer::builder()
                .show_progress(false)
                .special_tokens(special.clone())
                .unk_token(Some(Vocabulary::UNK.into()))
                .vocab_size(u32::try_from(size)?)
                .build()?;
            (inner, trainer.into())
        }
        TokenizerKind::Word => {
            let model = WordLevel::builder().unk_token(Vocabulary::UNK.into());
            let mut inner = Inner::new(model.build()?);
            inner.with_pre_tokenizer(Some(words()));
            let trainer = WordLevelTrainer::builder()
                .show_progress(false)
                .special_tokens(special.clone())
                .min_frequency(2)
                .vocab_size(size)
                .build()?;
            (inner, trainer.into())
        }
    };
    if config.normalization.is_some() || config.lower_case {
        inner.with_normalizer(Some(normalizer(config)))?;
    }
    Ok((inner, trainer))
}

/// Returns what brings texts into the normal form and the case of the settings.
fn normalizer(config: &TokenizerConfig) -> Sequence {
    let form = config.normalization.map(|form| match form {
        Normalization::Nfc => NormalizerWrapper::from(NFC),
        Normalization::Nfd => NFD.into(),
        Normalization::Nfkc => NFKC.into(),
        Normalization::Nfkd => NFKD.into(),
    });
    let case = config.lower_case.then(|| Lowercase.into());
    Sequence::new(form.into_iter().chain(case).collect())
}

impl TokenizerConfig {
    /// Returns a text in the normal form and the case that outputs have.
    pub fn normalized(&self, text: &str) -> String {
        let mut text = NormalizedString::from(text);
        let done = normalizer(self).normalize(&mut text);
        done.expect("it is defined for all texts");
        text.get().into()
    }
}
