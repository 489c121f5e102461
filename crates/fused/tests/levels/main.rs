//! Runs the kernels for f32 and bfloat16 at every instruction-set level of this machine.
//!
//! All kernels of a process run at the same level. One test therefore runs this program again for
//! each level, with `FUSED_SIMD` set. Most of the other tests compare a kernel with its formula in
//! f64. Shapes are random, and about half of the sizes are at or next to multiples of the sizes in
//! which kernels split their work, such as those of vectors and tiles. Almost all tests also report
//! their results, and the results of all levels must agree.

#[path = "../common/mod.rs"]
mod common;

mod attention;
mod elementwise;
mod losses;
mod matmul;
mod random;
mod rows;

use std::collections::BTreeMap;
use std::process::Command;

use burn::tensor::TensorData;

/// Maximum difference between two levels, relative to the largest absolute value of a report, or to
/// 1 if all values are smaller.
///
/// The levels sum in different orders. The largest measured difference is 5e-7.
const BETWEEN_LEVELS: f64 = 2e-6;

/// Prefix of an output line in which a test reports its results.
const REPORT: &str = "report of ";

/// Prints the bits of all results of a kernel, as one line of hexadecimal numbers.
fn report(name: &str, all: &[&TensorData]) {
    let bits: String = all
        .iter()
        .flat_map(|data| data.iter::<f32>().collect::<Vec<_>>())
        .map(|x| format!(" {:08x}", x.to_bits()))
        .collect();
    println!("\n{REPORT}{name}{bits}");
}

/// The results that one level reported for each kernel, in the order of the cases.
type Reports = BTreeMap<String, Vec<f64>>;

fn reports(stdout: &str) -> Reports {
    let mut reports = Reports::new();
    for line in stdout.lines() {
        let Some(report) = line.strip_prefix(REPORT) else {
            continue;
        };
        let (name, numbers) = report.split_once(' ').unwrap_or((report, ""));
        let numbers = numbers.split(' ').map(|bits| {
            let bits = u32::from_str_radix(bits, 16).expect("bits of a number");
            f64::from(f32::from_bits(bits))
        });
        reports.entry(name.into()).or_default().extend(numbers);
    }
    reports
}

/// Runs all tests of this program except `all_levels_agree` at an instruction-set level.
///
/// Returns the results that the tests reported.
fn run_at(level: &str) -> Reports {
    let program = std::env::current_exe().expect("the program's path");
    let output = Command::new(program)
        .args(["--nocapture", "--skip", "all_levels_agree"])
        .env("FUSED_SIMD", level)
        .output()
        .expect("the program runs");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{level} failed:\n{stdout}\n{stderr}"
    );
    assert!(!stdout.contains(" 0 passed"), "{level} ran no test");
    let reports = reports(&stdout);
    assert!(reports.len() >= 12, "{level} reports {:?}", reports.keys());
    reports
}

#[test]
fn all_levels_agree() {
    let levels = fused::simd_levels();
    let (best, others) = levels.split_last().expect("every CPU runs scalar code");
    let expected = run_at(best);
    let mut is_other = others.is_empty();
    for level in others {
        let found = run_at(level);
        assert!(found.keys().eq(expected.keys()), "{level}: other kernels");
        is_other |= found != expected;
        for (name, found) in &found {
            let expected = &expected[name];
            assert_eq!(found.len(), expected.len(), "{name} at {level}");
            let largest = expected.iter().fold(1.0, |m: f64, x| m.max(x.abs()));
            let differences = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
            let difference = differences.fold(0.0, f64::max) / largest;
            println!("{name}, {level} and {best}: {difference:.1e}");
            assert!(
                difference < BETWEEN_LEVELS,
                "{name}: {level} differs from {best} by {difference}"
            );
        }
    }
    // If `FUSED_SIMD` had no effect, all runs would have the same level, and the comparisons above
    // could not fail.
    assert!(is_other, "all levels have the same bits");
}

#[test]
fn the_level_is_the_one_that_is_asked_for() {
    let best = *fused::simd_levels().last().unwrap();
    let asked = std::env::var("FUSED_SIMD");
    assert_eq!(fused::simd_level(), asked.as_deref().unwrap_or(best));
}
