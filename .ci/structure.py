"""Fails if files of a crate use each other in a circle, so that none of them can be read first.

It reads the sources: `use`, and paths such as `crate::mask::causal`. A name counts for the file that declares it,
whatever re-exports it. A method counts only if its `impl` is not in the file of its type: where the same type calls it,
or its name is the only one. Tests count for nothing, and neither does what a file only re-exports.

A file may use what a `mod.rs` or `lib.rs` above it declares, although that file uses it in turn: the file above
introduces its folder. What `mod.rs` uses of its folder does count, so that no circle leads through it to another folder.
"""

import collections
import pathlib
import re
import sys

TEXT = r"""(?sx) //[^\n]* | /\*.*?\*/ | \br(\#*)".*?"\1 | "(?:\\.|[^"\\])*" | '(?:\\[^u]|\\u\{\w+\}|[^'\\])'"""
# Tests end with their line, or with the brace that has their indentation.
TESTS = r"(?ms)^( *)#\[cfg\((?:all\()?test\b[^\n]*\n(?:\1\#[^\n]*\n)*(?:\1[^\n]*;$|.*?^\1\})"
PUBLIC, WORDS = r"(?:pub(?:\([^)]*\))? )?", r"(?:(?:unsafe|async|const|extern) )*"
INNER = rf"(?ms)^( *){PUBLIC}mod \w+ \{{\n(.*?)^\1\}}"
ITEM = rf"(?m)^{PUBLIC}{WORDS}(?:fn|struct|enum|union|trait|type|const|static|macro_rules!) (\w+)"
IMPL = r"(?ms)^impl(?:<[^\n]*?>)? (\w+)(?:<[^\n]*>)? \{\n(.*?)^\}"
METHOD = rf"(?m)^    {PUBLIC}{WORDS}fn (\w+)"


def expand(tree):
    """Yields the path of everything that a `use` names, and its name in the file."""
    head, brace, rest = tree.partition("{")
    if not brace:
        path, _, name = head.partition("=")
        path = path.removesuffix("::self").split("::")
        yield path, name or path[-1]
        return
    depth, part = 0, ""
    for letter in rest[:-1] + ",":
        depth += (letter == "{") - (letter == "}")
        if letter != "," or depth > 0:
            part += letter
        elif part:
            yield from expand(head + part)
            part = ""


class File:
    def __init__(self, file):
        code = re.sub(TESTS, "", re.sub(TEXT, '""', file.read_text()))
        # In a module inside the file, `super` is the file.
        code = re.sub(INNER, lambda inner: re.sub(r"(?<!::)\bsuper\b", "self", inner[2]), code)
        self.code = re.sub(r"\buse [^;]+;", "", code)
        self.children = re.findall(r"\bmod (\w+);", code)
        self.items = set(re.findall(ITEM, code))
        self.methods = {(kind, name) for kind, body in re.findall(IMPL, code) for name in re.findall(METHOD, body)}
        self.names, self.exported, self.globs = {}, set(), []
        for public, tree in re.findall(r"(pub[^;\n]* )?\buse ([^;]+);", code):
            for path, name in expand("".join(tree.replace(" as ", "=").split())):
                if name == "*":
                    self.globs.append(path[:-1])
                else:
                    self.names[name] = path
                    self.exported |= {name} if public else set()


def read(file, at, files):
    files[at] = File(file)
    folder = file.parent if file.stem in ("lib", "main", "mod") else file.with_suffix("")
    for child in files[at].children:
        for path in (folder / f"{child}.rs", folder / child / "mod.rs"):
            if path.exists():
                read(path, (*at, child), files)
    return files


def find(files, at, path, seen=(), by_glob=False):
    """Returns the file and the name that `path` means in the file `at`; `None` for files and other crates."""
    for i, name in enumerate(path):
        file, child, is_last = files[at], (*at, name), i == len(path) - 1
        if name in ("self", "super", "crate"):
            at = {"self": at, "super": at[:-1], "crate": ()}[name]
        elif child in files and not (is_last and (name in file.items or name in file.names)):
            at = child
        elif name in file.items:
            return at, name
        elif (at, name) in seen:
            return None
        elif name in file.names:
            return find(files, at, file.names[name] + path[i + 1 :], (*seen, (at, name)))
        else:
            found = (find(files, at, [*glob, name], (*seen, (at, name)), True) for glob in file.globs)
            # A name that nothing declares is made by a macro of the file.
            return next(filter(None, found), (at, name) if i > 0 and not by_glob else None)
    return None


def edges(files):
    """Returns what each file uses of which other."""
    count = collections.Counter(name for file in files.values() for _, name in file.methods)
    away = [(at, *method) for at, file in files.items() for method in file.methods if method[0] not in file.items]
    edges = {at: {} for at in files}
    for at, file in files.items():
        words = set(re.findall(r"(?<![\w.])(\w+)(?!\w|:(?!:))", file.code))
        paths = [path for name, path in file.names.items() if name not in file.exported or name in words]
        paths += [path.split("::") for path in re.findall(r"(?<![\w:])\w+(?:::\w+)+", file.code)]
        paths += [[*glob, word] for glob in file.globs for word in words - file.items - set(file.names)]
        used = [find(files, at, path) for path in paths]
        calls = set(re.findall(r"(\w*(?:\.|::)\w+)\(", file.code))
        named = {call.partition(".")[2] for call in calls}
        for home, kind, name in away:
            own = {f"self.{name}", f"Self::{name}"} if kind in {kind for kind, _ in file.methods} else set()
            if calls & {f"{kind}::{name}", *own} or kind in words and name in named and count[name] == 1:
                used.append((home, name))
        for target, name in filter(None, used):
            if at[: len(target)] != target:
                edges[at].setdefault(target, set()).add(name)
    return edges


status = 0
for root in sorted(file for file in pathlib.Path("crates").glob("*/src/*.rs") if file.stem in ("lib", "main")):
    crate = root.parts[1]
    used = edges(read(root, (), {}))
    reached = {at: set(found) for at, found in used.items()}
    for middle in reached:
        for others in reached.values():
            others |= reached[middle] if middle in others else set()
    circles = {frozenset(b for b in reached[a] if a in reached[b]) for a in used if a in reached[a]}
    for circle in sorted(circles, key=sorted):
        status = 1
        print(f"structure: files of {crate} use each other in a circle:")
        for a in sorted(circle):
            for b in sorted(circle & used[a].keys()):
                print(f"  {'::'.join((crate, *a))} uses {', '.join(sorted(used[a][b]))} of {'::'.join(b)}")
sys.exit(status)
