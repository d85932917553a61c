//! Checks on the code itself: which room may use which, what quiet rooms must not know, and the form of files. The tables here are the law.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

#[path = "tidy/ci.rs"]
mod ci;
#[path = "tidy/comments.rs"]
mod comments;
#[path = "tidy/cycles.rs"]
mod cycles;
#[path = "tidy/dependencies.rs"]
mod dependencies;
#[path = "tidy/limits.rs"]
mod limits;
#[path = "tidy/links.rs"]
mod links;
#[path = "tidy/metrics.rs"]
mod metrics;
#[path = "tidy/rooms.rs"]
mod rooms;
#[path = "tidy/words.rs"]
mod words;

use rooms::{CRATES, DIRECTIONS};

/// Lines a file may have, tests included.
const LINES_MAX: usize = 600;

/// What is generated has the form that its generator gives it.
const GENERATED: &str = "proto/generated";

/// What quiet crates do not depend on.
const NOISY_CRATES: &[&str] = &["axum", "hyper", "tokio", "tonic", "tracing"];

/// The pure parts: paths under `src/`.
const QUIET: &[&str] = &[
    "admission/",
    "reflector/event.rs",
    "reflector/machine.rs",
    "reflector/place.rs",
    "reflector/policy.rs",
    "reflector/protobuf.rs",
    "audit/event.rs",
    "audit/json.rs",
    "audit/policy.rs",
    "auth/authz/",
    "upstream/compare.rs",
    "upstream/decide.rs",
    "upstream/documents.rs",
    "upstream/headers.rs",
    "upstream/identity.rs",
    "upstream/served.rs",
    "upstream/trusted.rs",
    "go/",
    "http2/",
    "merge/",
    "model/",
    "schema/",
    "codec/",
    "catalogue/",
    "cache/dispatch/",
    "cache/feed/",
    "cache/state/",
    "storage/read/plan.rs",
    "storage/read/token/",
    "storage/read/options.rs",
    "storage/write/body.rs",
    "storage/write/body/",
    "storage/write/kinds/",
    "storage/write/names.rs",
    "storage/write/options.rs",
    "storage/write/patch/",
];

/// The one file of a quiet room that may wait.
const WAITS: &str = "cache/state/snapshot.rs";

/// What quiet rooms do not know: scheduler, clock, sockets.
const NOISE: &[&str] =
    &["tokio", "Instant", "SystemTime", "std::net", "net::", "TcpStream", "UdpSocket", "UnixStream", "tree::now", "now_utc"];

/// Crates that belong to one room: crate, places under `src/` that may name it.
const HOMES: &[(&str, &[&str])] = &[
    ("axum", &["apiserver/", "server/listen/tests", "store/"]),
    ("hyper", &["upstream/", "server/", "apiserver/", "client/"]),
    ("hyper_util", &["upstream/", "server/", "apiserver/", "client/"]),
    ("hyper_rustls", &["client/"]),
    ("tonic", &["etcd/", "store/"]),
];

#[test]
fn rooms_use_what_the_table_allows() {
    let allowed: BTreeMap<&str, &[&str]> = DIRECTIONS.iter().copied().collect();
    let mut wrong = Vec::new();
    for (path, code) in sources() {
        let room = room(&path);
        // What crates use is for the compiler.
        if room == "lib" || room == "main" || CRATES.iter().any(|(name, ..)| *name == room) {
            continue;
        }
        let Some(may) = allowed.get(&*room) else {
            wrong.push(format!("{path}: {room} is no room of the table"));
            continue;
        };
        for used in uses(&code).into_iter().filter(|used| *used != room && !may.contains(&&**used)) {
            wrong.push(format!("{path}: {room} uses {used}"));
        }
    }
    none(&wrong);
}

#[test]
fn the_table_has_no_room_or_way_too_many() {
    let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, code) in sources() {
        used.entry(room(&path)).or_default().extend(uses(&code));
    }
    let mut wrong = Vec::new();
    for (room, may) in DIRECTIONS.iter().filter(|(room, _)| CRATES.iter().all(|(name, ..)| name != room)) {
        let Some(used) = used.get(*room) else {
            wrong.push(format!("{room} does not exist"));
            continue;
        };
        wrong.extend(may.iter().filter(|to| !used.contains(**to)).map(|to| format!("{room} does not use {to}")));
    }
    none(&wrong);
}

#[test]
fn manifests_say_the_same() {
    let workspace = read(&root().join("Cargo.toml"));
    for (name, place, is_quiet) in CRATES {
        let manifest = read(&root().join(place).join("Cargo.toml"));
        let dependencies =
            manifest.split("[dependencies]").nth(1).and_then(|rest| rest.split("\n[").next()).expect("a crate has dependencies");
        let named: BTreeSet<&str> =
            dependencies.lines().filter_map(|line| line.split(['.', ' ']).next()).filter(|n| !n.is_empty()).collect();
        let ours: Vec<&str> = named.iter().copied().filter(|n| CRATES.iter().any(|(of, ..)| of == n)).collect();
        let (_, may) = DIRECTIONS.iter().find(|(room, _)| room == name).expect("a crate is in the table");
        assert_eq!(ours, *may, "{place}/Cargo.toml");
        let noisy: Vec<&str> = named.into_iter().filter(|n| *is_quiet && NOISY_CRATES.contains(n)).collect();
        assert!(noisy.is_empty(), "{name} is quiet and depends on {noisy:?}");
        assert!(workspace.contains(&format!("\"{place}\"")), "{name} is no member");
    }
}

/// `docs/architecture.md` has the same table, with a sentence for each room.
#[test]
fn the_plan_that_people_read_is_the_same() {
    let text = read(&root().join("docs/architecture.md"));
    let mut told: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for row in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [rooms, .., may] = cells[..] else { continue };
        // What stands in brackets says which part of a room is meant.
        let may = may.split(", ").filter_map(|to| to.split_whitespace().next()).filter(|to| to.starts_with(char::is_alphabetic)).collect();
        let room = rooms.split('`').rfind(|word| word.starts_with(char::is_alphabetic));
        told.insert(room.expect("the row begins with a room's name"), may);
    }
    for (room, may) in DIRECTIONS {
        assert_eq!(told.remove(room), Some(may.iter().copied().collect()), "{room}");
    }
    assert!(told.is_empty(), "no rooms: {told:?}");
}

/// Whatever the page calls by a path is there.
#[test]
fn the_plan_names_what_is_there() {
    let text = read(&root().join("docs/architecture.md"));
    let is_path = |word: &&str| word.contains('/') && word.chars().all(|c| c.is_ascii_alphanumeric() || "/_.-".contains(c));
    let is_there = |path: &str| {
        let under = ["", "src", "src/cache", "src/storage"].map(|place| root().join(place).join(path));
        under.iter().any(|place| place.exists() || place.with_extension("rs").exists())
    };
    let told: BTreeSet<&str> = text.split('`').skip(1).step_by(2).filter(is_path).collect();
    assert!(told.len() > 50, "{told:?}");
    let missing: Vec<String> = told.into_iter().filter(|path| !is_there(path.trim_start_matches('/'))).map(str::to_owned).collect();
    none(&missing);
}

#[test]
fn no_two_rooms_use_each_other() {
    let mut left: BTreeMap<&str, &[&str]> = DIRECTIONS.iter().copied().collect();
    while let Some(room) = left.iter().find(|(_, may)| may.iter().all(|to| !left.contains_key(to))).map(|(room, _)| *room) {
        left.remove(room);
    }
    assert!(left.is_empty(), "a circle among {:?}", left.keys());
}

#[test]
fn quiet_rooms_know_no_clock_no_socket_no_tokio() {
    let quiet = |path: &str| path != WAITS && QUIET.iter().any(|room| path.starts_with(room));
    let mut wrong = Vec::new();
    for (path, code) in sources().filter(|(path, _)| quiet(path)) {
        let code = without_addresses(&code);
        wrong.extend(NOISE.iter().filter(|word| names(&code, word)).map(|word| format!("{path}: {word}")));
    }
    none(&wrong);
    for place in QUIET {
        assert!(sources().any(|(path, _)| path.starts_with(place)), "{place} is not there");
    }
}

/// The code without imports of IP addresses: those are values, which wait for nothing.
fn without_addresses(code: &str) -> String {
    let names_addresses = |line: &&str| {
        let names = line.trim().strip_prefix("use std::net::").map(|names| names.trim_matches(['{', '}', ';']));
        names.is_some_and(|names| names.split(", ").all(|name| ["IpAddr", "Ipv4Addr", "Ipv6Addr"].contains(&name)))
    };
    code.lines().filter(|line| !names_addresses(line)).collect::<Vec<_>>().join("\n")
}

#[test]
fn crates_stay_at_home() {
    let mut wrong = Vec::new();
    for (path, code) in sources() {
        for (name, homes) in HOMES {
            if names(&code, name) && !homes.iter().any(|home| path.starts_with(home)) {
                wrong.push(format!("{path}: {name}"));
            }
        }
        if makes_status(&code) && !path.starts_with("apiserver/") {
            wrong.push(format!("{path}: a Status is made in apiserver only"));
        }
    }
    none(&wrong);
}

#[test]
fn files_begin_with_what_they_are_for_and_end_in_time() {
    let mut wrong = Vec::new();
    let mut lengths = Vec::new();
    let ours = |file: &PathBuf| file.extension().is_some_and(|e| e == "rs") && !file.starts_with(root().join(GENERATED));
    for file in files(&["src", "tests", "benches", "proto"]).filter(ours) {
        let text = read(&file);
        let lines = text.lines().count();
        lengths.push(lines);
        if !text.starts_with("//! ") {
            wrong.push(format!("{}: no `//!` sentence", file.display()));
        }
        wrong.extend((lines > LINES_MAX).then(|| format!("{}: {lines} lines, more than {LINES_MAX}", file.display())));
        let ignored = text.lines().filter(|line| line.trim_start().starts_with("#[ignore"));
        for line in ignored.filter(|line| !names_what_it_needs(line)) {
            wrong.push(format!("{}: {} does not name what it needs and the variable that says where that is", file.display(), line.trim()));
        }
    }
    none(&wrong);
    lengths.sort_unstable();
    let shown = format!("{} files, median {} lines, longest {}\n", lengths.len(), lengths[lengths.len() / 2], lengths[lengths.len() - 1]);
    std::io::Write::write_all(&mut std::io::stdout(), shown.as_bytes()).expect("stdout");
}

#[test]
fn nothing_names_a_registry_or_a_machine() {
    let dotted = |parts: &[&str]| parts.join(".");
    let hosts = [
        dotted(&["docker", "io"]),
        dotted(&["gcr", "io"]),
        dotted(&["ghcr", "io"]),
        dotted(&["quay", "io"]),
        dotted(&["registry", "k8s", "io"]),
        dotted(&["index", "crates", "io"]),
        dotted(&["static", "crates", "io"]),
        dotted(&["proxy", "golang", "org"]),
        dotted(&["pypi", "org"]),
    ];
    let roots = ["work", "tmp", "home", "root", "Users"].map(|name| format!("/{name}/"));
    let mut wrong = Vec::new();
    for file in files(&["src", "tests", "benches", "docs", "deploy", "proto", ".ci", "README.md", "Cargo.toml", "deny.toml"]) {
        // A lock file names where every package comes from; data that a peer wrote is its own.
        if file.ends_with("Cargo.lock") || file.starts_with(root().join("tests/data")) {
            continue;
        }
        let text = read(&file);
        for (number, line) in text.lines().enumerate() {
            let host = hosts.iter().find(|host| line.contains(&***host));
            let path = roots.iter().find(|root| begins_a_path(line, root));
            if let Some(found) = host.or(path) {
                wrong.push(format!("{}:{}: {found}", file.display(), number + 1));
            }
        }
    }
    none(&wrong);
}

/// `tests/data/README.md` tells of each recorded file which script records it anew.
#[test]
fn recorded_data_can_be_recorded_anew() {
    let data = root().join("tests/data");
    let text = read(&data.join("README.md"));
    let words = |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let rows: Vec<Vec<Vec<String>>> =
        text.lines().filter(|line| line.starts_with("| `")).map(|line| line.split('|').map(words).collect()).collect();
    let told: Vec<&String> = rows.iter().flat_map(|row| &row[1]).collect();
    let is_script = |path: &str| [".py", ".go", ".sh", ".md"].iter().any(|end| path.ends_with(end));
    let there: Vec<String> = files(&["tests/data"])
        .filter_map(|file| Some(file.strip_prefix(&data).ok()?.to_str()?.to_owned()))
        .filter(|path| !is_script(path))
        .collect();
    let mut wrong: Vec<String> = there
        .iter()
        .filter(|path| !told.iter().any(|pattern| fits(pattern, path)))
        .map(|path| format!("{path} is not in the table"))
        .collect();
    wrong.extend(
        told.iter().filter(|pattern| !there.iter().any(|path| fits(pattern, path))).map(|pattern| format!("{pattern} is not there")),
    );
    wrong.extend(
        rows.iter().flat_map(|row| &row[2]).filter(|script| !data.join(script).is_file()).map(|script| format!("no script {script}")),
    );
    none(&wrong);
}

/// The checks themselves see what they look for.
#[test]
fn the_checks_see() {
    assert!(
        fits("a/*.case", "a/b.case")
            && fits("a/b", "a/b")
            && !fits("a/*.case", "a/b.json")
            && !fits("a/*.case", "a/b/c.case")
            && !fits("a/b", "a/bc")
    );
    let code = code(
        "use crate::{\n    auth::{User, codec},\n    apiserver,\n};\nuse model::Batch;\nuse etcd;\nfn f() { crate::apiserver::g(cache::state::h(), a::store::b, kube_rs::c) } // crate::app\n",
    );
    let found: Vec<String> = uses(&code).into_iter().collect();
    assert_eq!(found, ["apiserver", "auth", "cache", "etcd", "model"]);
    assert!(names("use hyper::body;", "hyper") && !names("use hyper_util::rt;", "hyper") && !names("// tokios", "tokio"));
    let addresses = without_addresses("use std::net::{IpAddr, Ipv4Addr};\nuse std::net::{IpAddr, TcpStream};");
    assert_eq!(addresses, "use std::net::{IpAddr, TcpStream};");
    assert!(makes_status("return Status { code: 1 }") && !makes_status("impl Status {") && !makes_status("fn f() -> Status {"));
    assert!(!makes_status("struct RawStatus {"));
    assert!(names_what_it_needs("#[ignore = \"needs etcd: WATCHCACHE_TEST_ETCD\"]") && !names_what_it_needs("#[ignore = \"slow\"]"));
    let path = ["", "tmp", "x"].join("/");
    let root = ["", "tmp", ""].join("/");
    assert!(begins_a_path(&format!("open {path}"), &root) && !begins_a_path(&format!("target{path}"), &root));
}

/// Whether a path is this one, or fits a pattern whose one `*` stands for anything within a folder.
fn fits(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        Some((before, after)) => {
            path.strip_prefix(before).and_then(|rest| rest.strip_suffix(after)).is_some_and(|middle| !middle.contains('/'))
        }
        None => path == pattern,
    }
}

fn none(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &Path) -> String {
    String::from_utf8_lossy(&fs::read(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))).into_owned()
}

/// Every file under these places of the project, without what was built.
fn files(places: &[&str]) -> impl Iterator<Item = PathBuf> {
    let mut found = Vec::new();
    let mut ahead: Vec<PathBuf> = places.iter().map(|place| root().join(place)).collect();
    while let Some(path) = ahead.pop() {
        if path.is_dir() && !path.ends_with("target") {
            let entries = fs::read_dir(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            ahead.extend(entries.map(|entry| entry.expect("an entry of a directory that is there").path()));
        } else if path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    found.into_iter()
}

/// Path under `src/` and code of every file that is not only for tests.
fn sources() -> impl Iterator<Item = (String, String)> {
    let src = root().join("src");
    let tests = ["tests.rs", "live_test.rs", "golden.rs", "schedule.rs", "corpus.rs"];
    files(&["src"]).filter(|f| f.extension().is_some_and(|e| e == "rs")).filter_map(move |file| {
        let path = file.strip_prefix(&src).ok()?.to_str()?.replace('\\', "/");
        let only_tests = tests.iter().any(|name| path.ends_with(name))
            || path.contains("/tests/")
            || path.starts_with("corpus/")
            || path.starts_with("laws/");
        (!only_tests).then(|| (path, code(&read(&file))))
    })
}

/// Without comments, and without the tests at the bottom.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    text.lines().map(|line| line.split("//").next().unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

/// `model/range.rs` is of `model`, `cacher.rs` of `cacher`.
fn room(path: &str) -> String {
    path.split(['/', '.']).next().unwrap_or(path).to_owned()
}

/// The rooms of the program that its code names by `crate::`, and the crates of the workspace that it names.
fn uses(code: &str) -> BTreeSet<String> {
    let mut found: BTreeSet<String> =
        CRATES.iter().filter(|(name, ..)| names_crate(code, name)).map(|(name, ..)| (*name).to_owned()).collect();
    for (at, _) in code.match_indices("crate::") {
        let rest = code[at + "crate::".len()..].trim_start();
        match rest.strip_prefix('{') {
            Some(group) => found.extend(heads(group)),
            None => found.extend(head(rest)),
        }
    }
    found
}

/// The first names of a braced group of paths.
fn heads(group: &str) -> Vec<String> {
    let (mut depth, mut found, mut fresh) = (0, Vec::new(), true);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => fresh = true,
            c if fresh && depth == 0 && !c.is_whitespace() => {
                fresh = false;
                found.extend(head(&group[at..]));
            }
            _ => {}
        }
    }
    found
}

/// The name a path begins with; types and macros of the crate's root are none.
fn head(path: &str) -> Option<String> {
    let name: String = path.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty() && name.chars().all(|c| !c.is_uppercase())).then_some(name)
}

/// Whether a word stands there, not as a part of a longer one.
fn names(code: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        let after = &code[at + word.len()..];
        !code[..at].ends_with(part) && (word.ends_with("::") || !after.starts_with(part))
    })
}

/// Whether an ignored test says which programs it needs, and which variables name them: `.ci/run` sets those, and runs it.
fn names_what_it_needs(line: &str) -> bool {
    line.split_once("#[ignore = \"needs ").is_some_and(|(_, reason)| reason.contains(": WATCHCACHE_TEST_"))
}

/// Whether a path begins with this crate. A module of the same name, declared in the file or imported with `self`, is none, nor is a part of a group of
/// imports.
fn names_crate(code: &str, name: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    if code.contains(&format!("mod {name};")) || code.contains(&format!("::{name}::{{self")) {
        return false;
    }
    code.match_indices(name).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + name.len()..]);
        let statement = &before[before.rfind(';').map_or(0, |end| end + 1)..];
        let imported = statement.trim_start().trim_start_matches("pub ").starts_with("use ");
        match imported {
            true => before.ends_with("use ") && after.starts_with(['\n', ':', ';', ' ']),
            false => !before.ends_with(part) && !before.ends_with("::") && after.starts_with("::"),
        }
    })
}

/// Whether a `Status` is written out: not its definition, an `impl` or the end of a signature.
fn makes_status(code: &str) -> bool {
    code.match_indices("Status {").any(|(at, _)| {
        let before = code[..at].trim_end();
        let part = |c: char| c.is_alphanumeric() || c == '_';
        !code[..at].ends_with(part)
            && !before.ends_with("== Part::")
            && !["struct", "impl", "for", "->"].iter().any(|word| before.ends_with(word))
    })
}

/// Whether an absolute path begins with `root` in this line: nothing of a longer path stands before it.
fn begins_a_path(line: &str, root: &str) -> bool {
    line.match_indices(root).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "/._-}{*".contains(c)))
}
