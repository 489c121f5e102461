//! The trait of settings whose value is one of a few named choices.

use std::fmt;

use crate::error::ConfigError;

/// A setting whose value is one of a few named choices, such as
/// [`NormPlacement`](crate::NormPlacement).
///
/// `Display` writes the name of a choice and `FromStr` parses it. A command line can build the help
/// text of a flag from the names and summaries of all choices:
///
/// ```
/// use transformer::{Choice, Positions};
///
/// let help: Vec<String> = Positions::ALL
///     .iter()
///     .map(|positions| format!("{positions}: {}", positions.summary()))
///     .collect();
/// assert_eq!(help[3], "learned: Trained table, one vector per position");
///
/// assert_eq!("sinusoidal-halves".parse(), Ok(Positions::SinusoidalHalves));
/// let error = "sine".parse::<Positions>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "positions is sine, but must be one of sinusoidal, sinusoidal-halves, sinusoidal-fairseq, learned, rotary, relative, alibi, none"
/// );
/// ```
pub trait Choice: Copy + fmt::Display + std::str::FromStr<Err = ConfigError> + 'static {
    /// Name of the setting, such as `norm_placement`.
    const SETTING: &'static str;

    /// All choices, in the order in which help texts list them.
    const ALL: &'static [Self];

    /// Returns the name of the choice: lower case, words separated by hyphens.
    fn name(self) -> &'static str;

    /// Returns a description of the choice for help texts: one line, without a full stop.
    fn summary(self) -> &'static str;
}

/// Returns the choice of the setting `C` that is called `name`.
///
/// # Errors
///
/// The setting has no choice called `name`.
pub(crate) fn parse<C: Choice>(name: &str) -> Result<C, ConfigError> {
    let found = C::ALL.iter().find(|choice| choice.name() == name);
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = C::ALL.iter().map(|choice| choice.name()).collect();
        ConfigError::new(C::SETTING, name, format!("one of {}", names.join(", ")))
    })
}

/// Implements [`Choice`], `Display` and `FromStr` for an enum, from one table of names and
/// summaries.
macro_rules! choices {
    ($type:ty, $setting:literal, { $($variant:ident: $name:literal, $summary:literal;)+ }) => {
        impl $crate::choice::Choice for $type {
            const SETTING: &'static str = $setting;

            const ALL: &'static [Self] = &[$(Self::$variant),+];

            fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            fn summary(self) -> &'static str {
                match self {
                    $(Self::$variant => $summary,)+
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad($crate::choice::Choice::name(*self))
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::error::ConfigError;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                $crate::choice::parse(name)
            }
        }
    };
}

pub(crate) use choices;
