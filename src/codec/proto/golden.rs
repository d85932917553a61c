//! Both directions against what Go made: `tests/data/proto`, and what the variable `WATCHCACHE_PROTO_GOLDEN` names besides.

use base64::{Engine, prelude::BASE64_STANDARD};

use super::message;

/// `go.tsv` and `odd.tsv` are made by `tests/peers/proto`, `kube.tsv` is recorded by the live case `proto`.
const OURS: [&str; 3] = ["go.tsv", "odd.tsv", "kube.tsv"];

#[test]
fn both_directions_are_those_of_go() {
    let ours = OURS.map(|name| format!("{}/../../tests/data/proto/{name}", env!("CARGO_MANIFEST_DIR")));
    let more = std::env::var("WATCHCACHE_PROTO_GOLDEN").unwrap_or_default();
    let files = more.split(':').filter(|file| !file.is_empty()).map(str::to_owned).chain(ours);
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a file of golden lines");
        assert!(text.lines().count() > 0, "{file}");
        let wrong: Vec<String> = text.lines().filter_map(|line| check(line).err()).collect();
        assert!(wrong.is_empty(), "{file}: {} of {}\n{}", wrong.len(), text.lines().count(), wrong[..wrong.len().min(5)].join("\n"));
    }
}

/// apiVersion, kind, message, its JSON, and the message of that JSON if it is another one. A dash: only the way from JSON.
fn check(line: &str) -> Result<(), String> {
    let columns: Vec<&str> = line.split('\t').collect();
    let [api_version, kind, raw, json, ..] = columns[..] else { return Err(format!("no golden line: {line}")) };
    let found = message(api_version, kind).ok_or_else(|| format!("no message of {api_version} {kind}"))?;
    if raw != "-" {
        let mut told = Vec::new();
        found.to_json(&bytes(raw), usize::MAX, &mut told).map_err(|error| format!("{api_version} {kind}: {error}\n{json}"))?;
        let told = String::from_utf8_lossy(&told);
        if told != json {
            return Err(format!("{api_version} {kind}\n  {told}\n  {json}"));
        }
    }
    let again = bytes(columns.get(4).unwrap_or(&raw));
    let made = found.from_json(json.as_bytes()).map_err(|error| format!("{api_version} {kind}: {error}\n{json}"))?;
    if made != again {
        return Err(format!("{api_version} {kind}\n  {}\n  {}\n  {json}", made.escape_ascii(), again.escape_ascii()));
    }
    Ok(())
}

fn bytes(text: &str) -> Vec<u8> {
    BASE64_STANDARD.decode(text).expect("base64")
}
