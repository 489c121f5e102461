//! Attacks on the program: kills, damaged files, a full disk, hostile files.
//!
//! The random choices of an attack depend only on its test, a seed and its number, so each attack
//! can be repeated alone:
//!
//! - `ATTACK_ROUNDS=10` makes ten times as many attacks;
//! - `ATTACK_SEED=7` makes other attacks (default 1);
//! - `ATTACK_CASE=12` makes only attack number 12 of each test that runs.
//!
//! `deep.rs` has random command lines and damaged folders, which `.ci/deep attacks` runs.
//!
//! A test runs all its attacks, and then lists all findings with the variables that repeat them.
//!
//! Most attacks run the program under `prlimit` of util-linux, which limits its memory and the size
//! of its files.
#![cfg(target_os = "linux")]

#[path = "attacks/answer.rs"]
pub(crate) mod answer;
#[path = "attacks/corpora.rs"]
mod corpora;
#[path = "attacks/damage.rs"]
pub(crate) mod damage;
#[path = "attacks/disk.rs"]
mod disk;
#[path = "attacks/hostile.rs"]
mod hostile;
#[path = "attacks/kills.rs"]
mod kills;
#[path = "attacks/program.rs"]
pub(crate) mod program;
#[path = "attacks/records.rs"]
mod records;
#[path = "attacks/rounds.rs"]
pub(crate) mod rounds;
#[path = "attacks/runs.rs"]
pub(crate) mod runs;
#[path = "attacks/tokenizers.rs"]
mod tokenizers;
#[path = "attacks/weights.rs"]
mod weights;
