//! `requests.txt` becomes requests: placeholders filled in, bytes encoded, one line for each resource where it says so.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::Value;

use super::objects;
use crate::client::{COMPACT, Client};

const REQUESTS: &str = include_str!("requests.txt");
const CONFIG_MAPS: &str = "/api/v1/namespaces/t/configmaps";
/// A revision that etcd has not reached.
const FAR: u64 = 1_000_000;

/// What these mean in a header.
const METADATA: [(&str, &str); 4] = [
    ("{proto}", "application/vnd.kubernetes.protobuf"),
    ("{table}", "application/json;as=Table;g=meta.k8s.io;v=v1"),
    ("{part}", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
    ("{parts}", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
];

/// What placeholders mean.
pub(super) struct World {
    old: u64,
    far: u64,
    each: Vec<String>,
}

/// One request.
pub(super) struct Row {
    /// For a person.
    pub(super) shown: String,
    /// The word under which a difference is told.
    pub(super) deliberate: Option<&'static str>,
    pub(super) method: String,
    pub(super) target: String,
    pub(super) headers: Vec<(String, String)>,
}

impl World {
    /// Asks kube-apiserver what there is.
    pub(super) async fn of(theirs: &Client, old: u64) -> Result<Self, Box<dyn std::error::Error>> {
        let fetch = async |path: String| -> Result<Value, Box<dyn std::error::Error>> {
            Ok(serde_json::from_slice(&theirs.fetch(&path).await?.body)?)
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut versions = vec!["/api/v1".to_owned()];
        for group in fetch("/apis".to_owned()).await?["groups"].as_array().into_iter().flatten() {
            let all = group["versions"].as_array().into_iter().flatten();
            versions.extend(all.map(|version| format!("/apis/{}", text(&version["groupVersion"]))));
        }
        let mut each = Vec::new();
        for version in versions {
            for resource in fetch(version.clone()).await?["resources"].as_array().into_iter().flatten() {
                if resource["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|verb| verb == "watch")) {
                    each.push(format!("{version}/{}", text(&resource["name"])));
                }
            }
        }
        Ok(Self { old, far: objects::revision(theirs).await? + FAR, each })
    }
}

/// The marks in the table, each once.
pub(super) fn marks() -> Vec<&'static str> {
    let mut marks: Vec<_> = REQUESTS.lines().filter_map(|line| line.strip_prefix('~')?.split(' ').next()).collect();
    marks.sort_unstable();
    marks.dedup();
    marks
}

/// All requests.
pub(super) fn rows(world: &World) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for line in REQUESTS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (deliberate, request) = match line.strip_prefix('~').and_then(|rest| rest.split_once(' ')) {
            Some((word, request)) => (Some(word), request),
            None => (None, line),
        };
        let one = [String::new()];
        let each = if request.contains("{each}") { &world.each[..] } else { &one };
        for resource in each {
            rows.push(row(&request.replace("{each}", resource), deliberate, world).ok_or_else(|| format!("no request: {line}"))?);
        }
    }
    Ok(rows)
}

fn row(line: &str, deliberate: Option<&'static str>, world: &World) -> Option<Row> {
    let mut parts = line.split(" | ");
    let (method, target) = parts.next()?.split_once(' ')?;
    let meant = |value: &str| METADATA.iter().fold(value.to_owned(), |value, (word, clause)| value.replace(word, clause));
    let mut headers: Vec<(String, String)> =
        parts.map(|h| h.split_once(": ").map(|(n, v)| (n.to_owned(), meant(v)))).collect::<Option<_>>()?;
    for (name, value) in [("Accept", "application/json"), ("User-Agent", COMPACT)] {
        if !headers.iter().any(|(given, _)| given == name) {
            headers.push((name.to_owned(), value.to_owned()));
        }
    }
    let target = target.replace("{lw}", CONFIG_MAPS).replace("{old}", &world.old.to_string()).replace("{far}", &world.far.to_string());
    let target = encoded(&filled(&target)?);
    Some(Row { shown: line.to_owned(), deliberate, method: method.to_owned(), target, headers })
}

/// With its token, if there is one.
fn filled(target: &str) -> Option<String> {
    if let Some((before, rest)) = target.split_once("{token:") {
        let (token, after) = rest.split_once('}')?;
        let (revision, start) = token.split_once(':')?;
        let json = format!(r#"{{"v":"meta.k8s.io/v1","rv":{revision},"start":"{start}\u0000"}}"#);
        return Some(format!("{before}{}{after}", BASE64_URL_SAFE_NO_PAD.encode(json)));
    }
    let Some((before, rest)) = target.split_once("{raw:") else { return Some(target.to_owned()) };
    let (raw, after) = rest.rsplit_once('}')?;
    Some(format!("{before}{}{after}", BASE64_URL_SAFE_NO_PAD.encode(raw)))
}

/// Encodes the bytes that a request line may not have; what is encoded already stays.
fn encoded(target: &str) -> String {
    let byte = |b: u8| match b {
        0..=b' ' | 0x7f.. | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => format!("%{b:02X}"),
        b => char::from(b).to_string(),
    };
    target.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_request() {
        let world = World { old: 5, far: 9, each: vec!["/api/v1/pods".to_owned(), "/api/v1/nodes".to_owned()] };
        let rows = rows(&world).expect("every line is one");
        assert!(rows.len() > 700);
        for row in &rows {
            assert!(row.target.bytes().all(|b| b.is_ascii_graphic()) && !row.target.contains('{'), "{}", row.shown);
        }
        let of = |line: &str| row(line, None, &world).expect("a request");
        assert_eq!(of("GET {lw}?a=b c").target, format!("{CONFIG_MAPS}?a=b%20c"));
        assert_eq!(
            of("GET /x?continue={token:7:a}&b").target,
            "/x?continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Nywic3RhcnQiOiJhXHUwMDAwIn0&b"
        );
        assert_eq!(of("GET /x | Accept: a/b").headers[0], ("Accept".to_owned(), "a/b".to_owned()));
        assert_eq!(of("GET /x | Accept: {part}beta1").headers[0].1, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1");
    }
}
