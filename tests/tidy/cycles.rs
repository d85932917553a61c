//! Import cycles among the files of a crate: the largest has at most [`FILES_MAX`] files. Crates that have larger ones are listed, and the list may only
//! shrink.

use std::collections::{BTreeMap, BTreeSet};

use super::{none, sources};

/// Files that may import each other in a circle.
const FILES_MAX: usize = 5;

/// Crates whose largest cycle has more files, and how many. A number here is lowered when it is no longer reached.
const LARGER: &[(&str, usize)] = &[
    ("apiserver", 6),
    ("auth", 17),
    ("builtins", 16),
    ("cache", 6),
    ("catalogue", 10),
    ("codec", 9),
    ("controllers", 9),
    ("merge", 8),
    ("schema", 6),
    ("storage", 34),
    ("store", 12),
];

/// The code of each module of a crate, by its path: `a/b`, and an empty one for the root.
type Modules = BTreeMap<String, String>;
/// The modules that a module names.
type Imports = BTreeMap<String, BTreeSet<String>>;

#[test]
fn cycles_of_imports_are_small() {
    let mut crates = BTreeMap::<String, Modules>::new();
    for (path, code) in sources() {
        if let Some((krate, file)) = path.split_once('/') {
            crates.entry(krate.to_owned()).or_default().insert(module(file), code);
        }
    }
    let mut wrong = Vec::new();
    for (krate, modules) in &crates {
        let imports = imports(modules);
        let largest = largest_cycle(&imports);
        let listed = LARGER.iter().find(|(name, _)| name == krate).map_or(FILES_MAX, |(_, files)| *files);
        if largest.len() > listed {
            wrong.push(format!("{krate}: {} files import each other, {listed} may: {largest:?}", largest.len()));
        } else if listed > FILES_MAX && largest.len() < listed {
            wrong.push(format!("{krate}: the largest cycle has {} files, the list says {listed}", largest.len()));
        }
    }
    none(&wrong);
}

/// Returns the module's path of a file of a crate.
fn module(file: &str) -> String {
    let path = file.strip_suffix(".rs").unwrap_or(file);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if path == "lib" { String::new() } else { path.to_owned() }
}

/// Returns the modules that each module names in `use` or in a path. The root only declares modules.
fn imports(modules: &Modules) -> Imports {
    let of = |(name, code): (&String, &String)| {
        let here: Vec<&str> = name.split('/').filter(|part| !part.is_empty()).collect();
        let named = paths(code).into_iter().filter_map(|path| resolved(modules, &here, &path));
        (name.clone(), named.filter(|found| found != name && !name.is_empty()).collect())
    };
    modules.iter().map(of).collect()
}

/// Returns the module that a path names, seen from the module `here`; none when it is of another crate.
fn resolved(modules: &Modules, here: &[&str], path: &[String]) -> Option<String> {
    let (mut at, mut rest) = (here.to_vec(), path);
    match rest.first()?.as_str() {
        "crate" => (at, rest) = (Vec::new(), &rest[1..]),
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|part| part == "super") {
                at.pop();
                rest = &rest[1..];
            }
        }
        first if !modules.contains_key(&joined(here, first)) => return None,
        _ => {}
    }
    for part in rest {
        if !modules.contains_key(&joined(&at, part)) {
            break;
        }
        at.push(part);
    }
    let found = at.join("/");
    modules.contains_key(&found).then_some(found)
}

fn joined(at: &[&str], part: &str) -> String {
    at.iter().copied().chain([part]).collect::<Vec<_>>().join("/")
}

/// Returns every path with at least two parts that the code names, those of `use` with its groups taken apart.
fn paths(code: &str) -> Vec<Vec<String>> {
    let code = &without_visibility(code);
    let (mut found, mut others, mut rest) = (Vec::new(), String::new(), &**code);
    while let Some(at) = next_use(rest) {
        let (before, tail) = rest.split_at(at);
        others.push_str(before);
        let end = tail.find(';').unwrap_or(tail.len());
        expand(&[], &tail["use ".len()..end], &mut found);
        rest = &tail[end..];
    }
    others.push_str(rest);
    let is_of_a_path = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':';
    let words = others.split(|letter| !is_of_a_path(letter)).filter(|word| word.contains("::") && !word.starts_with(':'));
    found.extend(words.map(|word| word.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()));
    found
}

/// Returns the code without the paths of `pub(in …)`: who may see something is no import.
fn without_visibility(code: &str) -> String {
    let mut parts = code.split("pub(in ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |seen, part| seen + "pub" + part.split_once(')').map_or("", |(_, rest)| rest))
}

/// Returns where the next `use` begins.
fn next_use(code: &str) -> Option<usize> {
    let begins = |at: &usize| code[..*at].chars().next_back().is_none_or(|before| before.is_whitespace());
    code.match_indices("use ").map(|(at, _)| at).find(begins)
}

/// Takes the groups of a `use` apart.
fn expand(prefix: &[String], text: &str, found: &mut Vec<Vec<String>>) {
    let text = text.trim();
    let parts = |text: &str| text.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    let Some((head, group)) = text.split_once('{') else {
        let path = text.split(" as ").next().unwrap_or(text);
        return found.extend((!path.is_empty()).then(|| [prefix, &parts(path)].concat()));
    };
    let prefix = [prefix, &parts(head)].concat();
    let group = group.rsplit_once('}').map_or(group, |(group, _)| group);
    let (mut depth, mut from) = (0, 0);
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&prefix, &group[from..at], found);
                from = at + 1;
            }
            _ => {}
        }
    }
    expand(&prefix, &group[from..], found);
}

/// Returns the largest set of modules that reach each other.
fn largest_cycle(imports: &Imports) -> Vec<&str> {
    let reach: BTreeMap<&str, BTreeSet<&str>> = imports.keys().map(|name| (name.as_str(), reached(imports, name))).collect();
    let cycle = |name: &&str| -> Vec<&str> {
        let back = reach[name].iter().filter(|other| reach.get(**other).is_some_and(|reach| reach.contains(name)));
        back.copied().collect()
    };
    reach.keys().map(cycle).max_by_key(Vec::len).unwrap_or_default()
}

/// Returns what a module reaches over one import or more.
fn reached<'a>(imports: &'a Imports, from: &str) -> BTreeSet<&'a str> {
    let (mut reached, mut ahead) = (BTreeSet::new(), vec![from]);
    while let Some(name) = ahead.pop() {
        for next in imports.get(name).into_iter().flatten() {
            if reached.insert(next.as_str()) {
                ahead.push(next);
            }
        }
    }
    reached
}

/// The check sees what it looks for: a cycle over a `use`, a group, a path in code and a facade.
#[test]
fn a_cycle_is_seen() {
    let code = [
        ("", "mod a; mod b; mod c; mod d;"),
        ("a", "use super::{b::{self, Type}, model::Other};\nfn f() {}"),
        ("b", "fn f() { crate::c::g() }"),
        ("c", "mod inner;\nuse inner::Type as T;"),
        ("c/inner", "use super::super::a::f;"),
        ("d", "use super::a::f;\nuse tokio::time;"),
    ];
    let modules: Modules = code.iter().map(|(name, code)| ((*name).to_owned(), (*code).to_owned())).collect();
    let found = imports(&modules);
    assert_eq!(largest_cycle(&found), ["a", "b", "c", "c/inner"]);
    assert_eq!(found["d"].iter().collect::<Vec<_>>(), ["a"]);
    let cut: Modules = modules.into_iter().filter(|(name, _)| name != "c/inner").collect();
    assert!(largest_cycle(&imports(&cut)).is_empty());
    assert_eq!([module("a/mod.rs"), module("lib.rs"), module("a/b.rs")], ["a", "", "a/b"]);
}
