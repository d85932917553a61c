//! Both directions against what Go made: `tests/data/proto`, and what the variable `WATCHCACHE_PROTO_GOLDEN` names besides.

use base64::{Engine, prelude::BASE64_STANDARD};

use super::message;

const OURS: [&str; 2] =
    [concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/proto/go.tsv"), concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/proto/kube.tsv")];

#[test]
fn both_directions_are_those_of_go() {
    let more = std::env::var("WATCHCACHE_PROTO_GOLDEN").unwrap_or_default();
    let files = more.split(':').filter(|file| !file.is_empty()).chain(OURS);
    for file in files {
        let text = std::fs::read_to_string(file).expect("a file of golden lines");
        assert!(text.lines().count() > 0, "{file}");
        let wrong: Vec<String> = text.lines().filter_map(|line| check(line).err()).collect();
        assert!(wrong.is_empty(), "{file}: {} of {}\n{}", wrong.len(), text.lines().count(), wrong[..wrong.len().min(5)].join("\n"));
    }
}

/// apiVersion, kind, message, its JSON, and the message of that JSON if it is another one.
fn check(line: &str) -> Result<(), String> {
    let columns: Vec<&str> = line.split('\t').collect();
    let [api_version, kind, raw, json, ..] = columns[..] else { return Err(format!("no golden line: {line}")) };
    let found = message(api_version, kind).ok_or_else(|| format!("no message of {api_version} {kind}"))?;
    let raw = BASE64_STANDARD.decode(raw).expect("base64");
    let again = columns.get(4).map_or_else(|| raw.clone(), |again| BASE64_STANDARD.decode(again).expect("base64"));
    let (mut told, mut made) = (Vec::new(), Vec::new());
    found.to_json(&raw, &mut told).map_err(|error| format!("{api_version} {kind}: {error}\n{json}"))?;
    let told = String::from_utf8_lossy(&told);
    if told != json {
        return Err(format!("{api_version} {kind}\n  {told}\n  {json}"));
    }
    found.from_json(json.as_bytes(), &mut made).map_err(|error| format!("{api_version} {kind}: {error}\n{json}"))?;
    if made != again {
        return Err(format!("{api_version} {kind}\n  {}\n  {}\n  {json}", made.escape_ascii(), again.escape_ascii()));
    }
    Ok(())
}
