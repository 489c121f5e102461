//! Names of activations in the `config.json` of the library `transformers`.

use fused::Function;

use crate::choice::Choice;
use crate::config::Activation;
use crate::weights::error::WeightsError;
use crate::weights::fields::Fields;

/// What the name of a gated activation begins with. Only T5 has gated activations.
const GATED: &str = "gated-";

/// Returns the names of a function. The first one is written.
fn names(function: Function) -> &'static [&'static str] {
    match function {
        Function::Relu => &["relu"],
        Function::Sigmoid => &["sigmoid"],
        Function::Swish => &["silu", "swish"],
        Function::Gelu => &["gelu"],
        Function::GeluTanh => &["gelu_new", "gelu_pytorch_tanh"],
    }
}

/// Returns the name of an activation; `None` if it has none.
pub(super) fn name_of(activation: Activation) -> Option<String> {
    let operation = activation.operation();
    let name = names(operation.function)[0];
    match (operation.function, operation.is_gated) {
        (_, false) => Some(name.into()),
        // In T5, "gated-gelu" always means the tanh approximation of GELU.
        (Function::Gelu, true) => None,
        (Function::GeluTanh, true) => Some("gated-gelu".into()),
        (_, true) => Some(format!("{GATED}{name}")),
    }
}

/// Takes the activation in the field `name`, whose usual value is `usual`. It has gates only if
/// `may_be_gated`.
pub(super) fn read(
    fields: &mut Fields,
    name: &str,
    usual: &str,
    may_be_gated: bool,
) -> Result<Activation, WeightsError> {
    let given: Option<String> = fields.optional(name)?;
    let given = given.unwrap_or_else(|| usual.into());
    of_name(&given, may_be_gated).map_err(|expected| fields.refuse(name, &given, &expected))
}

/// Takes the name of a function in the field `name`, which must be that of `activation`.
pub(super) fn expect(
    fields: &mut Fields,
    name: &str,
    activation: Activation,
) -> Result<(), WeightsError> {
    let names = names(activation.operation().function);
    match fields.optional::<String>(name)? {
        Some(given) if !names.contains(&&*given) => Err(fields.refuse(name, &given, &names[0])),
        _ => Ok(()),
    }
}

/// Returns the activation of a name, with gates only if `may_be_gated`.
///
/// # Errors
///
/// If no activation has the name. The error lists the names.
fn of_name(name: &str, may_be_gated: bool) -> Result<Activation, String> {
    let (function, is_gated) = match name.strip_prefix(GATED) {
        Some("gelu") => ("gelu_new", true),
        Some(function) => (function, true),
        None => (name, false),
    };
    let named: Vec<(Activation, String)> = Activation::ALL
        .iter()
        .filter(|one| may_be_gated || !one.is_gated())
        .filter_map(|one| Some((*one, name_of(*one)?)))
        .collect();
    let found = named.iter().find(|(one, _)| {
        let operation = one.operation();
        operation.is_gated == is_gated && names(operation.function).contains(&function)
    });
    found.map(|(one, _)| *one).ok_or_else(|| {
        let names: Vec<&str> = named.iter().map(|(_, name)| name.as_str()).collect();
        let (last, others) = names.split_last().expect("ReLU has a name");
        format!("{} or {last}", others.join(", "))
    })
}
