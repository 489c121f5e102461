//! Declarations of settings: path, type, default, check, help, flag, and what fixes or derives it.
//!
//! The macro `settings!` declares the settings of a section of the configuration, each of them
//! once. It makes the section's structure and a [`Setting`] for each field, an associated constant
//! with the name of the field. Files, `--set`, flags, errors, presets and reports read these.

use serde::Serialize;
use serde_json::{Value, json};

mod declare;

pub(crate) use declare::{choices, declarations, section, settings};

/// Maximum value of counts that have no limit of their own.
pub(crate) const MANY: u64 = 1_000_000_000;

/// Declaration of a setting, or of a group of settings.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Path in `config.json`, such as `optimization.schedule.warmup`.
    pub path: &'static str,
    /// Lines of the documentation, whose first paragraph is the help.
    pub(crate) doc: &'static [&'static str],
    /// Values that are valid.
    pub kind: Kind,
    /// Whether the setting may be null.
    pub is_optional: bool,
    /// Whether sources and targets have a value each.
    pub has_sides: bool,
    /// Flag of the program; `None` if only `--set` changes the setting.
    pub flag: Option<Flag>,
    /// Whether the setting follows from the data or from a pretrained model.
    pub is_derived: bool,
    /// Whether no preset chooses the setting, because it names a file or the machine.
    pub is_local: bool,
    /// Whether a resumed run may have another value.
    pub may_change: bool,
    /// Setting that, unless it is null, makes this one ineffective.
    pub replaced_by: Option<&'static Setting>,
    /// Setting without which this one has no effect, and the value that it must have; empty if any
    /// value but null, 0 and an empty list will do.
    pub needs: Option<(&'static Setting, &'static str)>,
    /// Tasks that have the setting.
    pub tasks: Tasks,
}

/// Tasks that a setting of all runs has an effect on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tasks {
    /// All tasks.
    All,
    /// Only texts, with advice for other tasks.
    Text(&'static str),
    /// All tasks but texts, with advice for these.
    Synthetic(&'static str),
}

/// Flag of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Name, with its hyphens.
    pub name: &'static str,
    /// Name of its value in the help; empty for a switch.
    pub value: &'static str,
    /// Whether `-h` leaves it out.
    pub is_rare: bool,
}

/// Name in `config.json` and help of each value of a setting.
pub type Choices = Vec<(String, String)>;

/// Values that a setting accepts.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Whole numbers from the first to the second.
    Whole(u64, u64),
    /// Numbers for which the function returns true, with a description of them. They must be in the
    /// range of float32.
    Number(fn(f64) -> bool, &'static str),
    /// True or false.
    Switch,
    /// Some words.
    Choice(fn() -> Choices),
    /// Any text.
    Text,
    /// Values that the function accepts and converts. It gets a text from the command line as it
    /// is.
    Custom(fn(&Value) -> Result<Value, String>),
    /// A group of settings, and the values that they have when an optional group is first needed.
    Group(&'static [&'static Setting], fn() -> Value),
}

/// A structure of settings that `settings!` or `declarations!` declares.
pub trait Section {
    /// The settings and groups of settings, in the order of the fields.
    const SETTINGS: &'static [&'static Setting];
}

/// Returns the declaration of a group whose settings are those of `S`.
pub(crate) const fn group<S: Section + Default + Serialize>() -> Setting {
    Setting::new(Kind::Group(S::SETTINGS, || json(&S::default())))
}

/// Returns the declaration of a group of `settings`, which begins empty.
pub(crate) const fn group_of(settings: &'static [&'static Setting]) -> Setting {
    Setting::new(Kind::Group(settings, || json!({})))
}

/// Returns the declaration of a whole number of at least `least` and at most `most`.
pub(crate) const fn whole(least: u64, most: u64) -> Setting {
    Setting::new(Kind::Whole(least, most))
}

/// Returns the declaration of a number for which `is_valid` returns true. `expected` describes such
/// numbers, as in "a positive number".
pub(crate) const fn number(expected: &'static str, is_valid: fn(f64) -> bool) -> Setting {
    Setting::new(Kind::Number(is_valid, expected))
}

/// Returns the declaration of a positive number.
pub(crate) const fn positive() -> Setting {
    number("a positive number", |x| x > 0.0)
}

/// Returns the declaration of a number that is at least 0 and less than 1.
pub(crate) const fn fraction() -> Setting {
    number("at least 0 and less than 1", |x| (0.0..1.0).contains(&x))
}

/// Returns the declaration of a setting that is true or false.
pub(crate) const fn switch() -> Setting {
    Setting::new(Kind::Switch)
}

/// Returns the declaration of a setting whose value is one of some words.
pub(crate) const fn choice(choices: fn() -> Choices) -> Setting {
    Setting::new(Kind::Choice(choices))
}

/// Returns the declaration of a text, such as the path of a file.
pub(crate) const fn text() -> Setting {
    Setting::new(Kind::Text)
}

/// Returns the declaration of a setting whose values `read` accepts and converts.
pub(crate) const fn custom(read: fn(&Value) -> Result<Value, String>) -> Setting {
    Setting::new(Kind::Custom(read))
}

/// Returns the declaration of a setting that the program computes.
pub(crate) const fn computed() -> Setting {
    custom(|value| Ok(value.clone())).derived()
}

impl Setting {
    const fn new(kind: Kind) -> Self {
        Self {
            path: "",
            doc: &[],
            kind,
            is_optional: false,
            has_sides: false,
            flag: None,
            is_derived: false,
            is_local: false,
            may_change: false,
            replaced_by: None,
            needs: None,
            tasks: Tasks::All,
        }
    }

    /// Completes the declaration of a field of type `kind`.
    pub(crate) const fn named(
        mut self,
        path: &'static str,
        doc: &'static [&'static str],
        kind: &str,
    ) -> Self {
        (self.path, self.doc) = (path, doc);
        let kind = kind.as_bytes();
        self.is_optional = matches!(kind, [b'O', b'p', b't', b'i', b'o', b'n', b'<', ..]);
        self.has_sides = matches!(kind, [b'S', b'i', b'd', b'e', b's', b'<', ..]);
        self
    }

    /// Adds the flag `name`. `value` is the name of its value in the help.
    pub(crate) const fn flag(self, name: &'static str, value: &'static str) -> Self {
        self.with_flag(name, value, false)
    }

    /// Adds a flag that only `--help` shows.
    pub(crate) const fn rare_flag(self, name: &'static str, value: &'static str) -> Self {
        self.with_flag(name, value, true)
    }

    const fn with_flag(mut self, name: &'static str, value: &'static str, is_rare: bool) -> Self {
        self.flag = Some(Flag {
            name,
            value,
            is_rare,
        });
        self
    }

    pub(crate) const fn derived(mut self) -> Self {
        self.is_derived = true;
        self
    }

    pub(crate) const fn local(mut self) -> Self {
        self.is_local = true;
        self
    }

    pub(crate) const fn may_change(mut self) -> Self {
        self.may_change = true;
        self
    }

    pub(crate) const fn replaced_by(mut self, by: &'static Self) -> Self {
        self.replaced_by = Some(by);
        self
    }

    pub(crate) const fn needs(mut self, other: &'static Self, value: &'static str) -> Self {
        self.needs = Some((other, value));
        self
    }

    pub(crate) const fn of(mut self, tasks: Tasks) -> Self {
        self.tasks = tasks;
        self
    }

    /// Returns the help: the first paragraph of the documentation, without its full stop.
    pub fn help(&self) -> String {
        summary(self.doc)
    }

    /// Returns the last part of the path.
    pub fn key(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or_default()
    }

    /// Returns the name for the user of the program: the flag, or the path if there is none.
    pub fn name(&self) -> &'static str {
        self.flag.map_or(self.path, |flag| flag.name)
    }

    /// Converts a text from the command line into a value of `config.json`. Two texts with a comma
    /// between them are the values of sources and targets.
    ///
    /// # Errors
    ///
    /// What the text must be, such as "must be a whole number".
    pub fn read_text(&self, text: &str) -> Result<Value, String> {
        if self.has_sides
            && let Some((source, target)) = text.split_once(',')
        {
            let [source, target] = [source, target].map(|text| self.read_text(text.trim()));
            return self.read(&json!({ "source": source?, "target": target? }));
        }
        let json = serde_json::from_str(text);
        let value = match (&self.kind, json) {
            (_, Ok(Value::Null)) if self.is_optional => Value::Null,
            (Kind::Number(..), _) => {
                let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
                number.map_or(text.into(), Value::from)
            }
            (Kind::Whole(..) | Kind::Switch, Ok(json)) => json,
            (Kind::Custom(_), Ok(json @ (Value::Array(_) | Value::Object(_)))) => json,
            (_, Ok(Value::String(quoted))) => quoted.into(),
            _ => text.into(),
        };
        self.read(&value)
    }

    /// Checks a value of a file, and returns it in the form in which `config.json` has it.
    ///
    /// # Errors
    ///
    /// What the value must be, such as "must be a whole number".
    pub fn read(&self, value: &Value) -> Result<Value, String> {
        if value.is_null() && self.is_optional {
            return Ok(Value::Null);
        }
        if let (true, Value::Object(sides)) = (self.has_sides, value)
            && !sides.is_empty()
        {
            for side in sides.values() {
                if side.is_object() {
                    return Err("must be one value, or SOURCE,TARGET".into());
                }
                self.read(side)?;
            }
            return Ok(value.clone());
        }
        match self.kind {
            Kind::Whole(least, most) => {
                let is_valid = |number| (least..=most).contains(&number);
                if value.as_u64().is_some_and(is_valid) {
                    return Ok(value.clone());
                }
                let is_larger = value.as_f64().is_some_and(|value| value >= u64::MAX as f64);
                let limit = Some(most).filter(|most| *most < u64::MAX || is_larger);
                let limit = limit.map_or(String::new(), |most| format!(" and at most {most}"));
                Err(format!("must be a whole number of at least {least}{limit}"))
            }
            Kind::Number(is_valid, expected) => {
                let number = value.as_f64().filter(|number| is_valid(*number));
                let number = number.ok_or_else(|| format!("must be {expected}"))?;
                let rounded = number as f32;
                if rounded.is_finite() && (rounded != 0.0 || number == 0.0) {
                    Ok(value.clone())
                } else {
                    Err("must be a number in the range of float32".into())
                }
            }
            Kind::Switch if value.is_boolean() => Ok(value.clone()),
            Kind::Switch => Err("must be true or false".into()),
            Kind::Choice(choices) => {
                let word = on_line(value.as_str().unwrap_or_default());
                let choices = choices();
                let names: Vec<String> = choices.iter().map(|(name, _)| on_line(name)).collect();
                match names.iter().position(|name| *name == word) {
                    Some(at) => Ok(choices[at].0.as_str().into()),
                    None => Err(format!("must be one of {}", names.join(", "))),
                }
            }
            Kind::Text if value.is_string() => Ok(value.clone()),
            Kind::Text => Err("must be a text".into()),
            Kind::Custom(read) => read(value),
            Kind::Group(settings, _) => {
                let names: Vec<&str> = settings.iter().map(|setting| setting.key()).collect();
                Err(format!("is a group of settings: {}", names.join(", ")))
            }
        }
    }

    /// Formats a value as on the command line.
    pub fn shown(&self, value: &Value) -> String {
        match self.kind {
            Kind::Choice(_) => on_line(&shown(value)),
            _ => shown(value),
        }
    }
}

impl PartialEq for Setting {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for Setting {}

impl std::fmt::Display for Setting {
    /// Writes the path.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.path)
    }
}

/// Converts settings to JSON, with numbers as short as in a configuration file, such as 0.98.
pub(crate) fn json(settings: &impl Serialize) -> Value {
    // `serde_json::to_value` would convert `f32` numbers to `f64`: 0.98 would become
    // 0.9800000190734863.
    let json = serde_json::to_string(settings).expect("settings are plain data");
    serde_json::from_str(&json).expect("it has just been written")
}

/// Returns the value at a path in the JSON of a `config.json`; `None` if there is none.
pub(crate) fn value_at<'a>(config: &'a Value, path: &str) -> Option<&'a Value> {
    let mut keys = path.split_terminator('.');
    keys.try_fold(config, |value, key| value.get(key))
}

/// Returns the name of a choice on the command line, which has hyphens.
pub fn on_line(name: &str) -> String {
    name.replace('_', "-")
}

/// Formats a value in the form that `--set` reads. Null becomes `-`.
pub fn shown(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => text.clone(),
        Value::Array(elements) => elements.iter().map(shown).collect::<Vec<_>>().join(","),
        Value::Object(sides) if sides.contains_key("target") => {
            let [source, target] = ["source", "target"].map(|side| shown(&sides[side]));
            if source == target {
                source
            } else {
                format!("{source},{target}")
            }
        }
        other => other.to_string(),
    }
}

/// Returns the first paragraph of a documentation, without its full stop.
pub(crate) fn summary(doc: &[&str]) -> String {
    let lines = doc.iter().map(|line| line.trim());
    let lines: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    lines.join(" ").trim_end_matches('.').into()
}
