//! `docs/limits.md`: a module that keeps something stands there, and the constants and flags that it names are where it says.

use std::collections::{BTreeMap, BTreeSet};

use super::{names, none, read, root, sources};

/// Types that keep many things, as they are written in a struct or a static.
const KEEPERS: &[&str] = &[
    "BTreeMap<",
    "BTreeSet<",
    "BinaryHeap<",
    "DashMap<",
    "FuturesUnordered<",
    "HashMap<",
    "HashSet<",
    "JoinSet<",
    "LruCache<",
    "Mutex<Vec<",
    "OrdMap<",
    "OrdSet<",
    "Recent<",
    "Slab<",
    "VecDeque<",
    "Vector<",
];

/// What makes a queue, or turns.
const MAKERS: &[&str] = &[
    "Semaphore::const_new(",
    "Semaphore::new(",
    "Turns::new(",
    "broadcast::channel(",
    "mpsc::channel(",
    "sync_channel(",
    "unbounded_channel(",
];

/// Where the modules are that keep nothing longer than what they are made for.
const SHORT_LIVED: &str = "\n## Gone with";

#[test]
fn what_is_kept_is_on_the_page() {
    let page = Page::read();
    let (told, mut wrong) = (page.modules(), Vec::new());
    for (path, code) in sources() {
        if let Some(kept) = kept(&code).filter(|_| !told.contains(module(&path))) {
            wrong.push(format!("docs/limits.md has no row for `{}`, which has a {kept}", module(&path)));
        }
    }
    none(&wrong);
}

#[test]
fn the_page_names_limits_that_are_there() {
    let (page, code) = (Page::read(), by_module());
    let mut wrong: Vec<String> =
        page.modules().into_iter().filter(|told| !code.contains_key(*told)).map(|told| format!("no module {told}")).collect();
    let flags: String = code.iter().filter(|(module, _)| module.starts_with("config")).map(|(_, code)| &**code).collect();
    for row in page.rows() {
        let own: Vec<&String> = row.iter().flat_map(|cell| words(cell)).filter_map(|word| code.get(word)).collect();
        wrong.extend((row.len() != 6 || row.iter().any(|cell| cell.is_empty())).then(|| format!("{row:?} is not six cells")));
        for word in row.get(2).into_iter().flat_map(|bound| words(bound)) {
            let is_there = match word.strip_prefix("--") {
                Some(flag) => names(&flags, &flag.replace('-', "_")),
                None if word.starts_with(|c: char| c.is_ascii_uppercase()) => {
                    own.iter().any(|code| code.contains(&format!("const {word}: ")))
                }
                None => true,
            };
            wrong.extend((!is_there).then(|| format!("{}: no {word}", row[0])));
        }
    }
    none(&wrong);
}

#[test]
fn the_check_sees() {
    let keeps = [
        "struct A<T> where T: B {\n    a: u8,\n    b: (u8, VecDeque<T>),\n}",
        "pub struct A(Mutex<HashMap<u8, u8>>);",
        "static A: Mutex<Vec<u8>> = x;",
        "let (a, b) = mpsc::channel(1);",
    ];
    assert!(keeps.iter().all(|code| kept(code).is_some()), "{keeps:?}");
    let keeps_nothing = [
        "struct A;\nfn f(a: HashMap<u8, u8>) {}",
        "struct A {\n    a: Vec<u8>,\n}\nfn f() { let a: VecDeque<u8> = x; }",
        "oneshot::channel()",
    ];
    assert_eq!(keeps_nothing.map(kept), [None; 3]);
    assert_eq!(["a/mod.rs", "a/lib.rs", "a/b.rs", "c.rs"].map(module), ["a", "a", "a/b", "c"]);
}

/// The page's text.
struct Page(String);

impl Page {
    fn read() -> Self {
        Self(read(&root().join("docs/limits.md")))
    }

    /// The cells of each row that names a module.
    fn rows(&self) -> impl Iterator<Item = Vec<&str>> {
        self.0.lines().filter(|line| line.starts_with("| `")).map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
    }

    /// The modules that have a row, and those that keep nothing for long.
    fn modules(&self) -> BTreeSet<&str> {
        let short_lived = self.0.split(SHORT_LIVED).nth(1).expect("the page has this part");
        self.rows().filter_map(|row| row.first().copied()).chain([short_lived]).flat_map(words).collect()
    }
}

/// What stands between backticks.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The first thing in a file's structs and statics, or among what it makes, that keeps many.
fn kept(code: &str) -> Option<&'static str> {
    let structs = code.match_indices("struct ").map(|(at, _)| declaration(&code[at..]));
    let statics = code.lines().filter(|line| line.trim_start().trim_start_matches("pub ").starts_with("static "));
    let kept = structs.chain(statics).find_map(|text| KEEPERS.iter().find(|keeper| text.contains(**keeper)));
    kept.or_else(|| MAKERS.iter().find(|maker| code.contains(**maker))).copied()
}

/// A struct up to the end of its fields.
fn declaration(code: &str) -> &str {
    let mut depth = 0_u32;
    let end = code.char_indices().find(|(_, c)| {
        match c {
            '{' | '(' => depth += 1,
            '}' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && matches!(c, '}' | ')' | ';')
    });
    &code[..end.map_or(code.len(), |(at, _)| at)]
}

/// `a/b.rs` is the module `a/b`, `a/mod.rs` and a crate's `a/lib.rs` are `a`.
fn module(path: &str) -> &str {
    let path = path.trim_end_matches(".rs");
    path.strip_suffix("/mod").or_else(|| path.strip_suffix("/lib")).unwrap_or(path)
}

fn by_module() -> BTreeMap<String, String> {
    sources().map(|(path, code)| (module(&path).to_owned(), code)).collect()
}
