//! Runs the attacks of a test, and lists the findings.

use std::hash::{DefaultHasher, Hash, Hasher};

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

/// Random number generator of an attack.
pub type Random = ChaCha8Rng;

/// Reads a number from an environment variable; `None` if the variable is not set.
fn variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{name}={value} must be a whole number")))
}

fn seed() -> u64 {
    variable("ATTACK_SEED").unwrap_or(1)
}

/// Returns the factor for the number of attacks, `ATTACK_ROUNDS`, which is at least 1.
pub fn rounds() -> u64 {
    variable("ATTACK_ROUNDS").unwrap_or(1).max(1)
}

/// Returns the random number generator of an attack.
///
/// Its seed depends on the name of the test, `ATTACK_SEED` and the number of the attack. Another
/// release of Rust may give other numbers if its `DefaultHasher` differs.
fn random(test: &str, case: u64) -> Random {
    let mut hasher = DefaultHasher::new();
    (test, seed(), case).hash(&mut hasher);
    Random::seed_from_u64(hasher.finish())
}

/// Makes the attacks of a test, `cases` in each round, and panics with a list of all findings if
/// there are any.
///
/// `attack` returns a finding as an error, or `Ok` with a word for the kind of result. The kinds
/// are counted and printed.
pub fn make_attacks(
    test: &str,
    cases: u64,
    mut attack: impl FnMut(u64, &mut Random) -> Result<&'static str, String>,
) {
    let only = variable("ATTACK_CASE");
    let mut findings = Vec::new();
    let mut counts = std::collections::BTreeMap::<&str, u64>::new();
    for case in 0..cases * rounds() {
        if only.is_some_and(|only| only != case) {
            continue;
        }
        match attack(case, &mut random(test, case)) {
            Ok(kind) => *counts.entry(kind).or_default() += 1,
            Err(finding) => {
                let seed = seed();
                let repeat = format!("ATTACK_SEED={seed} ATTACK_CASE={case}");
                println!("{repeat} {test}: {finding}");
                findings.push(format!("{repeat}: {finding}"));
            }
        }
    }
    println!("{test}: {counts:?}, findings: {}", findings.len());
    let (n, list) = (findings.len(), findings.join("\n\n"));
    assert!(
        findings.is_empty(),
        "{n} findings of {test} (repeat one by its variables, ATTACK_ROUNDS={} and the name of the test):\n\n{list}\n",
        rounds()
    );
    assert!(!counts.is_empty(), "ATTACK_CASE names no attack of {test}");
}
