//! Attacks that take too long for every commit: random command lines, and damaged folders.
//! `.ci/deep attacks` runs them.
#![cfg(target_os = "linux")]

#[path = "attacks.rs"]
mod attacks;
#[path = "attacks/command_lines.rs"]
mod command_lines;
#[path = "attacks/folders.rs"]
mod folders;
