//! Formats losses and other measures as text.

use training::config::BestBy;

/// Formats a loss with four decimal places, or with three significant digits if it is small or
/// large.
///
/// A loss between 0 and 0.01 or from 1e6 on has three significant digits, and 0 has no decimal
/// places. Examples: `2.3126`, `0.00312`, `3.12e-5`.
pub fn loss_text(loss: f64) -> String {
    let size = loss.abs();
    if loss == 0.0 {
        "0".into()
    } else if size < 1e-3 || (size >= 1e6 && loss.is_finite()) {
        format!("{loss:.2e}")
    } else if size < 1e-2 {
        format!("{loss:.5}")
    } else {
        format!("{loss:.4}")
    }
}

/// Returns the name and the value of a measure: `loss 0.1235`, `exact match 0.7500`, `BLEU 31.42`.
pub fn measure_text(measure: BestBy, value: f64) -> String {
    match measure {
        BestBy::Loss => format!("loss {}", loss_text(value)),
        BestBy::ExactMatch => format!("exact match {value:.4}"),
        BestBy::Bleu => format!("BLEU {value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_losses_keep_their_digits() {
        for (loss, text) in [
            (0.0, "0"),
            (0.000_031_2, "3.12e-5"),
            (0.003_123, "0.00312"),
            (0.012_345, "0.0123"),
            (0.123_45, "0.1235"),
            (2.312_58, "2.3126"),
            (123.4, "123.4000"),
            (1.5e9, "1.50e9"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(loss_text(loss), text);
        }
    }
}
