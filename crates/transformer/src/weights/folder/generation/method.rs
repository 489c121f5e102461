//! The decoding method of a folder.

use crate::generate::{LengthPenalty, Method};
use crate::weights::error::WeightsError;
use crate::weights::fields::Fields;

/// Maximum width of a beam. A wider one is probably a mistake.
const MAX_WIDTH: usize = 1024;

/// Takes the decoding method: a beam, which decodes greedily if its width is 1, or the sample of a decoder
/// alone, such as a chat model.
pub(super) fn read_method(fields: &mut Fields, is_decoder: bool) -> Result<Method, WeightsError> {
    let width: usize = fields.optional("num_beams")?.unwrap_or(1);
    if !(1..=MAX_WIDTH).contains(&width) {
        let expected = format!("at least 1 and at most {MAX_WIDTH}");
        return Err(fields.refuse("num_beams", &width, &expected));
    }
    let alpha: f64 = fields.optional("length_penalty")?.unwrap_or(1.0);
    if !(0.0..=10.0).contains(&alpha) {
        return Err(fields.refuse("length_penalty", &alpha, &"a number from 0 to 10"));
    }
    if !fields.optional("do_sample")?.unwrap_or(false) {
        let length_penalty = LengthPenalty::Power { alpha };
        return Ok(Method::Beam {
            width,
            length_penalty,
        });
    }
    if !is_decoder {
        return Err(fields.refuse("do_sample", &true, &"false for a model with an encoder"));
    }
    if width > 1 {
        return Err(fields.refuse("num_beams", &width, &"1 with do_sample true"));
    }
    for (name, neutral) in [("min_p", 0.0), ("top_h", 1.0), ("typical_p", 1.0)] {
        let value: Option<f64> = fields.optional(name)?;
        if let Some(value) = value.filter(|value| *value != neutral) {
            return Err(fields.refuse(name, &value, &format!("{neutral} with do_sample true")));
        }
    }
    let top_k: Option<usize> = fields.optional("top_k")?;
    let top_p: Option<f64> = fields.optional("top_p")?;
    let temperature: f64 = fields.optional("temperature")?.unwrap_or(1.0);
    if !(temperature > 0.0 && temperature.is_finite()) {
        return Err(fields.refuse(
            "temperature",
            &temperature,
            &"a positive number with do_sample true",
        ));
    }
    if let Some(p) = top_p.filter(|p| !(*p > 0.0 && *p <= 1.0)) {
        return Err(fields.refuse(
            "top_p",
            &p,
            &"a number above 0 and at most 1 with do_sample true",
        ));
    }
    Ok(Method::Sample {
        temperature,
        // The default of `transformers`, where 0 is no limit.
        top_k: Some(top_k.unwrap_or(50)).filter(|&k| k > 0),
        top_p: top_p.filter(|&p| p < 1.0),
        seed: 0,
        first_source: 0,
    })
}
