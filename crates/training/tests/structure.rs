//! Checks that no crate of the workspace has an import cycle, in which a file imports itself
//! through other files.
//!
//! `cargo-modules` has such a check, too, but it counts a parent module as importing its children.
//! It also takes longer to install than all tests take to run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module's path within its crate, such as `["data", "synthetic"]`.
type Module = Vec<String>;

#[derive(Debug, Default)]
struct File {
    path: PathBuf,
    /// Every path that the file's code mentions, from the crate's root, and whether the mention is
    /// a re-export. A re-export does not count as an import.
    mentions: Vec<(Vec<String>, bool)>,
    /// Re-exported names and the paths that they stand for.
    exports: BTreeMap<String, Vec<String>>,
}

#[test]
fn no_crate_has_a_cycle_of_files() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut names: Vec<PathBuf> = fs::read_dir(crates)
        .unwrap()
        .map(|entry| entry.unwrap().path().join("src"))
        .filter(|path| path.is_dir())
        .collect();
    names.sort();
    assert!(names.len() >= 4, "{names:?}");
    let cycles: Vec<String> = names.iter().flat_map(|src| cycles(src)).collect();
    assert!(cycles.is_empty(), "cycles of files:\n{}", cycles.join("\n"));
}

#[test]
fn a_cycle_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("lib.rs", "mod a;\nmod b;\npub use a::A;\n");
    write(
        "a.rs",
        "mod inner;\nuse crate::b::{self, B};\npub struct A;\n",
    );
    write(
        "a/inner.rs",
        "//! crate::b::B\nuse super::super::b::{C, D as E};\n",
    );
    write(
        "b.rs",
        "pub struct B;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
    );
    assert_eq!(cycles(folder.path()), Vec::<String>::new());
    // Code that names a re-export by its path also closes a cycle.
    write("b.rs", "fn f() {\n    drop(crate::A);\n}\n");
    let found = cycles(folder.path());
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("a.rs") && found[0].contains("b.rs"));
    write("b.rs", "mod inner {\n    use super::super::a::A;\n}\n");
    assert_eq!(cycles(folder.path()).len(), 1);
    // A parent that calls a function of a child by its path imports the child.
    write("b.rs", "pub struct B;\n");
    write(
        "a.rs",
        "mod inner;\npub struct A;\nfn f() {\n    inner::g();\n}\n",
    );
    write("a/inner.rs", "use super::A;\npub fn g() {}\n");
    assert_eq!(cycles(folder.path()).len(), 1);
}

/// Returns a description of each import cycle of a crate, with the cycle's files.
fn cycles(src: &Path) -> Vec<String> {
    let files = read(src);
    let mut arrows: BTreeMap<&Module, BTreeSet<&Module>> = BTreeMap::new();
    for (module, file) in &files {
        for (path, is_export) in &file.mentions {
            if *is_export {
                continue;
            }
            if let Some(target) = resolve(&files, path, 0)
                && target != module
            {
                arrows.entry(module).or_default().insert(target);
            }
        }
    }
    let mut cycles = Vec::new();
    let mut seen: BTreeSet<&Module> = BTreeSet::new();
    for module in files.keys() {
        if seen.contains(module) {
            continue;
        }
        let reached = reach(&arrows, module);
        let circle: Vec<&Module> = reached
            .iter()
            .copied()
            .filter(|other| reach(&arrows, other).contains(module))
            .collect();
        if circle.contains(&module) {
            let lines = circle.iter().map(|from| {
                let to = arrows[*from].iter().filter(|to| circle.contains(to));
                let to: Vec<String> = to.map(|to| files[*to].path.display().to_string()).collect();
                format!("    {} -> {}", files[*from].path.display(), to.join(", "))
            });
            let lines: Vec<String> = lines.collect();
            cycles.push(format!("  {}:\n{}", src.display(), lines.join("\n")));
            seen.extend(circle);
        }
    }
    cycles
}

/// Returns all modules that a module imports, directly or through others.
fn reach<'a>(
    arrows: &BTreeMap<&'a Module, BTreeSet<&'a Module>>,
    from: &Module,
) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&Module> = arrows.get(from).into_iter().flatten().copied().collect();
    while let Some(module) = open.pop() {
        if reached.insert(*arrows.get_key_value(module).map_or(&module, |(key, _)| key)) {
            open.extend(arrows.get(module).into_iter().flatten().copied());
        }
    }
    reached
}

/// Returns the module that defines the item at a path from the crate's root. Follows re-exports.
fn resolve<'a>(
    files: &'a BTreeMap<Module, File>,
    path: &[String],
    depth: usize,
) -> Option<&'a Module> {
    let length = (0..=path.len())
        .rev()
        .find(|&length| files.contains_key(&path[..length]))?;
    let (module, file) = files.get_key_value(&path[..length])?;
    let export = path.get(length).and_then(|name| file.exports.get(name));
    match export {
        Some(export) if depth < 8 => {
            let rest = path[length + 1..].iter();
            let path: Vec<String> = export.iter().chain(rest).cloned().collect();
            resolve(files, &path, depth + 1).or(Some(module))
        }
        _ => Some(module),
    }
}

fn read(src: &Path) -> BTreeMap<Module, File> {
    let mut files = BTreeMap::new();
    let mut open = vec![src.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") && !is_test {
                let inside = path.strip_prefix(src).unwrap().with_extension("");
                let mut module: Module = inside
                    .iter()
                    .map(|part| part.to_string_lossy().into_owned())
                    .collect();
                if matches!(module.last().unwrap().as_str(), "mod" | "lib" | "main") {
                    module.pop();
                }
                let text = fs::read_to_string(&path).unwrap();
                let path = path.strip_prefix(src).unwrap().to_owned();
                files.insert(module, (path, text));
            }
        }
    }
    let modules: BTreeSet<Module> = files.keys().cloned().collect();
    files
        .into_iter()
        .map(|(module, (path, text))| (module.clone(), parse(&modules, &module, path, &text)))
        .collect()
}

/// Returns the paths that a file's code mentions and the names that it re-exports. A path counts as
/// mentioned if the code imports it, or if it begins with `crate`, `self`, `super` or a child
/// module.
fn parse(modules: &BTreeSet<Module>, module: &Module, path: PathBuf, text: &str) -> File {
    let code = without_comments_and_tests(text);
    let mut file = File {
        path,
        ..File::default()
    };
    // Byte ranges of the bodies of inline modules.
    let mut inner: Vec<(usize, usize)> = Vec::new();
    for (at, _) in code.match_indices("mod ") {
        let rest = &code[at + 4..];
        let name: String = rest
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        if let Some(body) = rest[name.len()..].trim_start().strip_prefix('{') {
            let begin = code.len() - body.len();
            inner.push((begin, begin + matching(body)));
        }
    }
    let absolute = |at: usize, path: Vec<String>| -> Option<Vec<String>> {
        let depth = inner
            .iter()
            .filter(|(begin, end)| (*begin..*end).contains(&at))
            .count();
        let mut base: Vec<String> = module.clone();
        // An inline module adds a level for `super`, but has no file of its own.
        base.extend(std::iter::repeat_n(String::from("{}"), depth));
        let mut segments = path.into_iter().peekable();
        match segments.peek()?.as_str() {
            "crate" => {
                segments.next();
                base.clear();
            }
            "self" => {
                segments.next();
            }
            "super" => {
                while segments.next_if(|segment| segment == "super").is_some() {
                    base.pop();
                }
            }
            first => {
                let mut child = module.clone();
                child.push(first.into());
                if depth > 0 || !modules.contains(&child) {
                    return None;
                }
            }
        }
        base.retain(|segment| segment != "{}");
        Some(base.into_iter().chain(segments).collect())
    };
    let mut rest_of_code = code.clone();
    for (at, _) in code.match_indices("use ") {
        let before = code[..at].trim_end();
        let line = code[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let visibility = code[line..at].trim();
        if !(visibility.is_empty() || visibility.starts_with("pub")) || before.ends_with("::") {
            continue;
        }
        let Some(end) = code[at..].find(';') else {
            continue;
        };
        rest_of_code.replace_range(line..at + end, &" ".repeat(at + end - line));
        let is_public = visibility.starts_with("pub");
        for (path, name) in expand(&code[at + 4..at + end]) {
            let Some(path) = absolute(at, path) else {
                continue;
            };
            if is_public {
                file.exports.insert(name.clone(), path.clone());
            }
            file.mentions.push((path, is_public));
        }
    }
    // A re-export that the file's own code uses is an import, too.
    let statements = rest_of_code.split_inclusive([';', '{', '}']);
    let is_module = |statement: &&str| {
        let line = statement.trim().lines().last().unwrap_or_default();
        line.split_whitespace().any(|word| word == "mod")
    };
    let words: BTreeSet<&str> = statements
        .filter(|statement| !is_module(statement))
        .flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'))
        .collect();
    for (name, path) in &file.exports {
        if words.contains(name.as_str()) {
            file.mentions.push((path.clone(), false));
        }
    }
    let children = modules
        .iter()
        .filter_map(|child| child.split_last())
        .filter(|(_, parent)| *parent == module.as_slice())
        .map(|(name, _)| format!("{name}::"));
    let starts = ["crate::", "self::", "super::"].map(String::from);
    for start in starts.into_iter().chain(children) {
        for (at, _) in rest_of_code.match_indices(&start) {
            let before = &rest_of_code[..at];
            let is_begin = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
            // A path in a visibility, `pub(in path)`, imports nothing.
            if is_begin && !before.ends_with("pub(in ") {
                let is_path = |c: &char| c.is_alphanumeric() || matches!(c, '_' | ':');
                let path: String = rest_of_code[at..].chars().take_while(is_path).collect();
                let segments = path.split("::").filter(|s| !s.is_empty()).map(String::from);
                let path = absolute(at, segments.collect());
                file.mentions.extend(path.map(|path| (path, false)));
            }
        }
    }
    file
}

/// Returns the paths of a `use` tree, each with the name that it introduces.
fn expand(tree: &str) -> Vec<(Vec<String>, String)> {
    let tree = tree.trim();
    if let Some((prefix, group)) = tree.split_once('{') {
        let prefix: Vec<String> = segments(prefix);
        let group = &group[..matching(group)];
        let mut parts = vec![String::new()];
        let mut depth = 0;
        for c in group.chars() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if c == ',' && depth == 0 {
                parts.push(String::new());
            } else {
                parts.last_mut().unwrap().push(c);
            }
        }
        let parts = parts.iter().filter(|part| !part.trim().is_empty());
        return parts
            .flat_map(|part| expand(part))
            .map(|(path, name)| {
                let is_self = path == ["self"];
                let path = if is_self { Vec::new() } else { path };
                let path: Vec<String> = prefix.iter().cloned().chain(path).collect();
                let name = if is_self {
                    path.last().cloned().unwrap_or_default()
                } else {
                    name
                };
                (path, name)
            })
            .collect();
    }
    let (path, name) = tree.split_once(" as ").unwrap_or((tree, ""));
    let path = segments(path);
    let name = match name.trim() {
        "" => path.last().cloned().unwrap_or_default(),
        name => name.into(),
    };
    vec![(path, name)]
}

fn segments(path: &str) -> Vec<String> {
    let segments = path.split("::").map(str::trim).filter(|s| !s.is_empty());
    segments.map(String::from).collect()
}

/// Returns the index of the closing brace whose opening brace is just before the text.
fn matching(text: &str) -> usize {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

fn without_comments_and_tests(text: &str) -> String {
    let lines = text.lines().map(|line| match line.split_once("//") {
        // The two slashes of a URL in a string do not begin a comment.
        Some((code, _)) if !code.ends_with(':') => code,
        _ => line,
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    let mut code = String::new();
    // If the text is split at quotation marks, every second piece is a string.
    let quoted = text
        .replace("\\\\", "")
        .replace("\\\"", "")
        .replace("'\"'", "");
    for (place, piece) in quoted.split('"').enumerate() {
        code += if place % 2 == 0 { piece } else { "\"\"" };
    }
    while let Some(at) = code.find("#[cfg(test)]") {
        let rest = &code[at..];
        let end = match (rest.find('{'), rest.find(';')) {
            (Some(brace), semicolon) if semicolon.is_none_or(|semicolon| brace < semicolon) => {
                brace + 1 + matching(&rest[brace + 1..]) + 1
            }
            (_, Some(semicolon)) => semicolon + 1,
            _ => rest.len(),
        };
        code.replace_range(at..(at + end).min(code.len()), "");
    }
    code
}
