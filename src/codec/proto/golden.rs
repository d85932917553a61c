//! Both directions against what Go made: `tests/data/proto`, and what the variables `WATCHCACHE_PROTO_GOLDEN` and, compressed,
//! `WATCHCACHE_PROTO_GOLDEN_OF_OTHERS` name besides.

use std::io::Read;

use base64::{Engine, prelude::BASE64_STANDARD};

use super::{Message, ProtoError, UnknownFields, message};

/// `go.tsv` and `odd.tsv` are made by `tests/peers/proto`, `kube.tsv` is recorded by the live case `proto`.
const OURS: [&str; 3] = ["go.tsv", "odd.tsv", "kube.tsv"];
/// The same of kinds that another minor has otherwise, made by `tests/peers/schema.py`: objects with every field of that minor.
const OTHERS: [&str; 2] = ["go-1.35.tsv.gz", "go-1.37.tsv.gz"];

#[test]
fn both_directions_are_those_of_go() {
    let ours = OURS.map(|name| format!("{}/../../tests/data/proto/{name}", env!("CARGO_MANIFEST_DIR")));
    let more = std::env::var("WATCHCACHE_PROTO_GOLDEN").unwrap_or_default();
    let files = more.split(':').filter(|file| !file.is_empty()).map(str::to_owned).chain(ours);
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a file of golden lines");
        assert!(text.lines().count() > 0, "{file}");
        let wrong: Vec<String> = text
            .lines()
            .filter_map(|line| check(line, false, of_law).and_then(|()| check(line, false, Message::stored_to_json)).err())
            .collect();
        assert!(wrong.is_empty(), "{file}: {} of {}\n{}", wrong.len(), text.lines().count(), wrong[..wrong.len().min(5)].join("\n"));
    }
}

#[test]
fn what_another_minor_has_stored_is_read_whole() {
    let ours = OTHERS.map(|name| format!("{}/../../tests/data/proto/{name}", env!("CARGO_MANIFEST_DIR")));
    let more = std::env::var("WATCHCACHE_PROTO_GOLDEN_OF_OTHERS").unwrap_or_default();
    for file in more.split(':').filter(|file| !file.is_empty()).map(str::to_owned).chain(ours) {
        let (packed, mut text) = (std::fs::read(&file).expect("a file"), String::new());
        flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text).expect("golden lines");
        assert!(text.lines().count() >= 8, "{file}");
        let wrong: Vec<String> = text.lines().filter_map(|line| check(line, true, Message::stored_to_json).err()).collect();
        assert!(wrong.is_empty(), "{file}: {} of {}\n{}", wrong.len(), text.lines().count(), wrong[..wrong.len().min(5)].join("\n"));
    }
}

/// apiVersion, kind, message, its JSON, and the message of that JSON if it is another one. A dash: only the way from JSON.
///
/// Of another minor: a kind that it prints otherwise need not be printed so, but nothing of it may be lost.
fn check(
    line: &str,
    is_of_another: bool,
    read: impl Fn(Message, &[u8], &mut Vec<u8>) -> Result<UnknownFields, ProtoError>,
) -> Result<(), String> {
    let columns: Vec<&str> = line.split('\t').collect();
    let [api_version, kind, raw, json, ..] = columns[..] else { return Err(format!("no golden line: {line}")) };
    let found = message(api_version, kind).ok_or_else(|| format!("no message of {api_version} {kind}"))?;
    if raw != "-" {
        let mut told = Vec::new();
        let unknown_fields = read(found, &bytes(raw), &mut told).map_err(|error| format!("{api_version} {kind}: {error}\n{json}"))?;
        if !unknown_fields.is_empty() {
            return Err(format!("{api_version} {kind}: {unknown_fields}"));
        }
        let value_type = message(api_version, kind.trim_end_matches("List")).unwrap_or(found);
        if is_of_another && value_type.is_printed_otherwise() {
            return Ok(());
        }
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

fn of_law(message: Message, raw: &[u8], out: &mut Vec<u8>) -> Result<UnknownFields, ProtoError> {
    message.to_json(raw, usize::MAX, out).map(|()| UnknownFields::default())
}

fn bytes(text: &str) -> Vec<u8> {
    BASE64_STANDARD.decode(text).expect("base64")
}
