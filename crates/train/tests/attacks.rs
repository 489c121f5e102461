//! Attacks on the program: kills, damaged files, a full disk, random command lines, hostile files.
//!
//! The random choices of an attack depend only on its test, a seed and its number, so each attack
//! can be repeated alone:
//!
//! - `ATTACK_ROUNDS=10` makes ten times as many attacks;
//! - `ATTACK_SEED=7` makes other attacks (default 1);
//! - `ATTACK_CASE=12` makes only attack number 12 of each test that runs.
//!
//! Random command lines and damaged folders run with `.ci/deep attacks` only.
//!
//! A test runs all its attacks, and then lists all findings with the variables that repeat them.
//!
//! Most attacks run the program under `prlimit` of util-linux, which limits its memory and the size
//! of its files.
#![cfg(target_os = "linux")]

#[path = "attacks/answer.rs"]
mod answer;
#[path = "attacks/command_lines.rs"]
mod command_lines;
#[path = "attacks/corpora.rs"]
mod corpora;
#[path = "attacks/damage.rs"]
mod damage;
#[path = "attacks/disk.rs"]
mod disk;
#[path = "attacks/folders.rs"]
mod folders;
#[path = "attacks/hostile.rs"]
mod hostile;
#[path = "attacks/kills.rs"]
mod kills;
#[path = "attacks/program.rs"]
mod program;
#[path = "attacks/records.rs"]
mod records;
#[path = "attacks/rounds.rs"]
mod rounds;
#[path = "attacks/runs.rs"]
mod runs;
#[path = "attacks/tokenizers.rs"]
mod tokenizers;
#[path = "attacks/weights.rs"]
mod weights;
