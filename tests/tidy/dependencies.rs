//! Dependencies that a manifest names and no code of the crate uses. What only tests use stands in `[dev-dependencies]`.

use std::collections::BTreeMap;

use super::{names, none, read, root, sources};

/// Folders and files of the program itself, whose manifest is the root's.
const PROGRAM: &[&str] = &["app/", "config/", "app.rs", "config.rs", "lib.rs", "main.rs"];

#[test]
fn every_dependency_is_used() {
    let mut codes = BTreeMap::<String, String>::new();
    for (path, code) in sources() {
        let is_programs = PROGRAM.iter().any(|place| path.starts_with(place));
        let krate = if is_programs { "." } else { path.split('/').next().unwrap_or("") };
        *codes.entry(krate.to_owned()).or_default() += &code;
    }
    let mut wrong = Vec::new();
    for (krate, code) in &codes {
        let manifest = if krate == "." { root() } else { root().join("src").join(krate) }.join("Cargo.toml");
        wrong.extend(unused(&read(&manifest), code).map(|name| format!("{}: {name} is not used", manifest.display())));
    }
    none(&wrong);
}

/// Returns the dependencies of a manifest that this code does not name.
fn unused<'m>(manifest: &'m str, code: &str) -> impl Iterator<Item = &'m str> {
    let begins = |line: &&str| *line != "[dependencies]";
    let lines = manifest.lines().skip_while(begins).skip(1).take_while(|line| !line.starts_with('['));
    let named = lines.filter_map(|line| line.split(['.', ' ', '=']).next()).filter(|name| !name.is_empty());
    named.filter(|name| !names(code, &name.replace('-', "_")))
}

/// The check sees what it looks for.
#[test]
fn an_unused_dependency_is_seen() {
    let manifest = "[package]\nname = \"a\"\n[dependencies]\nb.workspace = true\nc-d = { workspace = true }\n\ne.workspace = true\n[dev-dependencies]\nf = \"1\"\n";
    assert_eq!(unused(manifest, "use c_d::X;\nfn bb() {}").collect::<Vec<_>>(), ["b", "e"]);
    assert_eq!(unused(manifest, "b::x(); use c_d as other; e!()").count(), 0);
}
