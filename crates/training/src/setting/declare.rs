//! Macros that declare settings.

/// Declares a section of the configuration: a structure, and the [`Setting`] of each field. After
/// the type of a field come its default value and its declaration:
///
/// ```text
/// settings! {
///     /// Settings of checkpoints.
///     #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
///     pub struct CheckpointingConfig in "checkpointing." {
///         /// Number of newest checkpoints that are kept, in addition to the best one.
///         keep: usize = 3, whole(1, MANY).flag("--keep", "N").may_change();
///     }
/// }
/// ```
macro_rules! settings {
    ($(#[$meta:meta])* pub struct $name:ident in $section:literal {$(
        $(#[doc = $doc:literal])*
        $field:ident: $type:ty = $default:expr, $setting:expr;
    )*}) => {
        $(#[$meta])*
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[doc = $doc])* pub $field: $type,)*
        }

        impl $name {
            /// Default values.
            pub const DEFAULT: Self = Self { $($field: $default,)* };
        }

        impl Default for $name {
            fn default() -> Self {
                Self::DEFAULT
            }
        }

        $crate::setting::section! {
            $name in $section {$($(#[doc = $doc])* $field: $type, $setting;)*}
        }
    };
}

/// Declares the settings of a structure that is defined elsewhere, and may have no default.
macro_rules! declarations {
    ($(#[$meta:meta])* pub struct $name:ident for $of:ident in $section:literal {$(
        $(#[doc = $doc:literal])*
        $field:ident: $type:ty, $setting:expr;
    )*}) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        // The compiler rejects a field without a declaration.
        const _: fn(&$of) = |$of { $($field),* }| {
            $(let _: &$type = $field;)*
        };

        $crate::setting::section! {
            $name in $section {$($(#[doc = $doc])* $field: $type, $setting;)*}
        }
    };
}

/// Makes the [`Setting`](crate::setting::Setting) of each field of a section.
macro_rules! section {
    ($name:ident in $section:literal {$(
        $(#[doc = $doc:literal])*
        $field:ident: $type:ty, $setting:expr;
    )*}) => {
        #[allow(non_upper_case_globals)]
        impl $name {
            $(
                #[doc = concat!("Declaration of `", $section, stringify!($field), "`.")]
                pub const $field: &'static $crate::setting::Setting = &$setting.named(
                    concat!($section, stringify!($field)),
                    &[$($doc),*],
                    stringify!($type),
                );
            )*
        }

        impl $crate::setting::Section for $name {
            const SETTINGS: &'static [&'static $crate::setting::Setting] = &[$(Self::$field,)*];
        }
    };
}

/// Declares a setting's values: an enum, whose variants have names in snake case in `config.json`,
/// and with hyphens on the command line. The first paragraph of a variant's documentation is its
/// help.
macro_rules! choices {
    ($(#[$meta:meta])* pub enum $name:ident {$(
        $(#[doc = $doc:literal])* $variant:ident = $word:literal,
    )*}) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[doc = $doc])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// All values, in the order of the help.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the name in `config.json`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }

            /// Returns the name and the help of each value.
            pub fn choices() -> $crate::setting::Choices {
                vec![$(($word.into(), $crate::setting::summary(&[$($doc),*])),)*]
            }
        }
    };
}

pub(crate) use {choices, declarations, section, settings};
