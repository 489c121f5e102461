//! Two invented languages and translations between them, for experiments without a corpus.
//!
//! Both languages express the same sentences with different grammar. The word order of the first is
//! `when? subject verb object where? not?`, with adjectives after their nouns. The word order of
//! the second is `subject object where? verb+not when?`, with adjectives before their nouns. In the
//! second language, each noun belongs to one of three classes, with which articles and adjectives
//! agree. A noun takes one ending as an object and another one in a phrase of place, and the verb
//! is a single word that also expresses tense, number and negation.
//!
//! The examples and tests include this file. It is not part of any library.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

/// A sentence and its translation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The sentence in the first language.
    pub source: String,
    /// The same sentence in the second language.
    pub target: String,
}

/// Each noun in the first and in the second language. In the second language, each block of 12
/// nouns is a class.
const NOUNS: [[&str; 2]; 36] = [
    ["balo", "tirun"],
    ["keme", "solik"],
    ["duna", "parak"],
    ["fira", "menok"],
    ["goli", "vasun"],
    ["hesa", "rudik"],
    ["jono", "kelan"],
    ["kula", "bomir"],
    ["lamo", "fetun"],
    ["mise", "garok"],
    ["nuro", "hilan"],
    ["pelu", "jasik"],
    ["rani", "dovesa"],
    ["seko", "lumira"],
    ["tabu", "neketa"],
    ["vimo", "orisa"],
    ["zaro", "pulema"],
    ["bipe", "ravita"],
    ["cado", "semona"],
    ["dilu", "tagura"],
    ["femo", "uvela"],
    ["guri", "wosina"],
    ["hako", "yelima"],
    ["jelu", "zanota"],
    ["kibo", "athom"],
    ["loma", "brevem"],
    ["muni", "crolum"],
    ["nepo", "dritom"],
    ["pusa", "eslam"],
    ["rolo", "frinem"],
    ["suda", "glotum"],
    ["teki", "hrasom"],
    ["vuna", "islem"],
    ["zemi", "krodum"],
    ["bofa", "plinom"],
    ["cile", "stavem"],
];

const VERBS: [[&str; 2]; 20] = [
    ["amar", "liv"],
    ["beser", "kant"],
    ["codir", "morp"],
    ["dalar", "nist"],
    ["erer", "olg"],
    ["fumir", "pref"],
    ["gatar", "quel"],
    ["hiner", "rost"],
    ["jular", "sind"],
    ["keber", "tolk"],
    ["lomir", "unt"],
    ["mecar", "verd"],
    ["noper", "wist"],
    ["palir", "yarn"],
    ["redar", "zolt"],
    ["sufer", "brin"],
    ["timar", "dresk"],
    ["veler", "flan"],
    ["ximir", "grod"],
    ["zocar", "hulp"],
];

const ADJECTIVES: [[&str; 2]; 16] = [
    ["abi", "snel"],
    ["bero", "traag"],
    ["cuni", "wit"],
    ["dape", "zwor"],
    ["eli", "gril"],
    ["foso", "klen"],
    ["gami", "brud"],
    ["hilo", "stek"],
    ["ivo", "rond"],
    ["jepu", "scarp"],
    ["kori", "plat"],
    ["lime", "vorm"],
    ["moto", "nuw"],
    ["nali", "oud"],
    ["opu", "dorr"],
    ["pire", "fris"],
];

const TIMES: [[&str; 2]; 6] = [
    ["oda", "nuit"],
    ["ieri", "gistan"],
    ["mani", "morun"],
    ["sempe", "altid"],
    ["rare", "zelden"],
    ["presta", "balt"],
];

const PLACES: [[&str; 2]; 4] = [
    ["su", "op"],
    ["pra", "foor"],
    ["tra", "mid"],
    ["sin", "zonner"],
];

/// A noun, with or without an adjective.
struct Phrase {
    noun: usize,
    adjective: Option<usize>,
    is_plural: bool,
}

fn choose(n: usize, rng: &mut ChaCha8Rng) -> usize {
    rng.random_range(0..n)
}

impl Phrase {
    fn draw(rng: &mut ChaCha8Rng) -> Self {
        Self {
            noun: choose(NOUNS.len(), rng),
            adjective: rng.random_bool(0.5).then(|| choose(ADJECTIVES.len(), rng)),
            is_plural: rng.random_bool(0.4),
        }
    }

    /// Returns the phrase in the first language, such as `lo balo abi`, or `los balos abis` in the
    /// plural.
    fn first(&self) -> String {
        let s = if self.is_plural { "s" } else { "" };
        let adjective = self.adjective.map(|index| ADJECTIVES[index][0]);
        let adjective = adjective.map_or(String::new(), |word| format!(" {word}{s}"));
        format!("lo{s} {}{s}{adjective}", NOUNS[self.noun][0])
    }

    /// Returns the phrase in the second language, such as `der sneler tirun`. `ending` is appended
    /// to the noun. It marks objects and places.
    fn second(&self, ending: &str) -> String {
        let class = self.noun / 12;
        let (article, agreement) = match (class, self.is_plural) {
            (0, false) => ("der", "er"),
            (1, false) => ("da", "a"),
            (_, false) => ("dem", "um"),
            (0, true) => ("dier", "ern"),
            (1, true) => ("dia", "an"),
            (_, true) => ("diem", "umn"),
        };
        let adjective = self.adjective.map(|index| ADJECTIVES[index][1]);
        let adjective = adjective.map_or(String::new(), |word| format!("{word}{agreement} "));
        let plural = if self.is_plural { "en" } else { "" };
        format!(
            "{article} {adjective}{}{plural}{ending}",
            NOUNS[self.noun][1]
        )
    }
}

/// Returns a sentence and its translation. Both depend only on `seed` and `index`.
pub fn pseudo_language(seed: u64, index: u64) -> Pair {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&index.to_le_bytes());
    let rng = &mut ChaCha8Rng::from_seed(key);
    let subject = Phrase::draw(rng);
    let object = Phrase::draw(rng);
    let place = rng
        .random_bool(0.4)
        .then(|| (PLACES[choose(PLACES.len(), rng)], Phrase::draw(rng)));
    let time = rng
        .random_bool(0.4)
        .then(|| TIMES[choose(TIMES.len(), rng)]);
    let verb = VERBS[choose(VERBS.len(), rng)];
    let is_past = rng.random_bool(0.4);
    let is_negated = rng.random_bool(0.25);
    let end = [".", ".", ".", "?", "!"][choose(5, rng)];

    let stem = &verb[0][..verb[0].len() - 1];
    let verb_1 = match (is_past, subject.is_plural) {
        (false, false) => format!("{stem}t"),
        (false, true) => format!("{stem}nt"),
        (true, false) => format!("{stem}va"),
        (true, true) => format!("{stem}van"),
    };
    let mut first: Vec<String> = Vec::new();
    first.extend(time.map(|[word, _]| word.into()));
    first.extend([subject.first(), verb_1, object.first()]);
    first.extend(
        place
            .as_ref()
            .map(|([word, _], phrase)| format!("{word} {}", phrase.first())),
    );
    first.extend(is_negated.then(|| "nen".into()));

    let past = if is_past { "de" } else { "" };
    let number = if subject.is_plural { "n" } else { "t" };
    let negation = if is_negated { "nie" } else { "" };
    let mut second = vec![subject.second(""), object.second("os")];
    second.extend(
        place
            .as_ref()
            .map(|([_, word], phrase)| format!("{word} {}", phrase.second("im"))),
    );
    second.push(format!("{}{past}{number}{negation}", verb[1]));
    second.extend(time.map(|[_, word]| word.into()));

    let sentence = |words: Vec<String>| {
        let text = words.join(" ") + end;
        text[..1].to_uppercase() + &text[1..]
    };
    Pair {
        source: sentence(first),
        target: sentence(second),
    }
}

/// Returns `pairs` sentences, one per line, and their translations.
pub fn pseudo_corpus(seed: u64, pairs: u64) -> [String; 2] {
    let [mut sources, mut targets] = [String::new(), String::new()];
    for Pair { source, target } in (0..pairs).map(|index| pseudo_language(seed, index)) {
        sources += &(source + "\n");
        targets += &(target + "\n");
    }
    [sources, targets]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn sentences_are_a_function_of_seed_and_index() {
        let pairs = |seed| (0..300).map(move |index| pseudo_language(seed, index));
        assert!(pairs(0).eq(pairs(0)));
        let different: HashSet<String> = pairs(0).chain(pairs(1)).map(|pair| pair.source).collect();
        assert!(different.len() > 595, "{}", different.len());
    }

    #[test]
    fn no_word_has_two_meanings() {
        for side in [0, 1] {
            let nouns = NOUNS.iter().map(|word| word[side]);
            let verbs = VERBS.iter().map(|word| word[side]);
            let others = ADJECTIVES.iter().chain(&TIMES).chain(&PLACES);
            let all: Vec<&str> = nouns.chain(verbs).chain(others.map(|w| w[side])).collect();
            let different: HashSet<&&str> = all.iter().collect();
            assert_eq!(different.len(), all.len());
        }
    }

    #[test]
    fn words_move_and_agree() {
        let pair = (0..)
            .map(|index| pseudo_language(0, index))
            .find(|pair| pair.source.starts_with("Ieri los") && pair.source.ends_with(" nen."))
            .unwrap();
        assert!(pair.target.ends_with(" gistan."), "{pair:?}");
        assert!(pair.target.starts_with("Di"), "{pair:?}");
        assert!(pair.target.contains("nnie "), "{pair:?}");
    }
}
