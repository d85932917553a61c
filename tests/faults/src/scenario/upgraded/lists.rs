//! Lists of everything, asked of the replica and of the API server behind it at the same revision.

use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use serde_json::Value;
use tokio::time::timeout;

use super::servers::Release;
use crate::{
    http::{Listener, Talk},
    wire::{Encoding, protobuf},
};

/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(60);

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Compared {
    same: usize,
    /// Those of which the replica shows more: what the newer minor has stored, and the older one does not know.
    fuller: usize,
    /// Those of which it shows something else.
    pub(super) wrong: Vec<String>,
}

impl Compared {
    pub(super) fn add(&mut self, other: Self) {
        self.same += other.same;
        self.fuller += other.fuller;
        self.wrong.extend(other.wrong);
    }

    pub(super) fn notes(&self) -> [(&'static str, String); 2] {
        [("lists_same", self.same.to_string()), ("lists_fuller", self.fuller.to_string())]
    }
}

/// Compares a list of each resource that this API server serves, as JSON and as protobuf.
pub(super) async fn compare(ours: &Listener, theirs: &Listener, release: Release) -> Result<Compared> {
    let mut compared = Compared::default();
    let paths = paths(&mut theirs.talk().await?).await?;
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        let (mut us, mut them) = (ours.in_encoding(encoding).talk().await?, theirs.in_encoding(encoding).talk().await?);
        for path in &paths {
            let (status, mine) = get(&mut us, path).await?;
            let exact = if status == 200 {
                format!("{path}?resourceVersion={}&resourceVersionMatch=Exact", revision(&mine, encoding).with_context(|| path.clone())?)
            } else {
                path.clone()
            };
            let other = get(&mut them, &exact).await?;
            if (status, &mine) == (other.0, &other.1) {
                compared.same += 1;
            } else if release == Release::Older && status == 200 && other.0 == 200 && is_fuller(&mine, &other.1, encoding) {
                compared.fuller += 1;
            } else {
                compared.wrong.push(format!("{path} as {encoding:?}: {}", told((status, &mine), (other.0, &other.1))));
            }
        }
    }
    Ok(compared)
}

async fn get(talk: &mut Talk, target: &str) -> Result<(u16, Bytes)> {
    timeout(ANSWER, talk.whole("GET", target, None)).await.with_context(|| format!("{target} has no answer"))?
}

/// The collections that can be listed.
async fn paths(theirs: &mut Talk) -> Result<Vec<String>> {
    let mut versions = vec!["/api/v1".to_owned()];
    let groups: Value = serde_json::from_slice(&get(theirs, "/apis").await?.1)?;
    for version in groups["groups"].as_array().into_iter().flatten().flat_map(|group| group["versions"].as_array().into_iter().flatten()) {
        versions.push(format!("/apis/{}", version["groupVersion"].as_str().context("a version has a name")?));
    }
    let mut paths = Vec::new();
    for version in versions {
        let list: Value = serde_json::from_slice(&get(theirs, &version).await?.1)?;
        for resource in list["resources"].as_array().into_iter().flatten() {
            let can_list =
                resource["verbs"].as_array().is_some_and(|verbs| ["list", "watch"].iter().all(|verb| verbs.iter().any(|own| own == verb)));
            if let Some(name) = resource["name"].as_str().filter(|name| can_list && !name.contains('/')) {
                paths.push(format!("{version}/{name}"));
            }
        }
    }
    Ok(paths)
}

fn revision(list: &[u8], encoding: Encoding) -> Result<String> {
    if encoding == Encoding::Protobuf {
        return protobuf::list_revision(list);
    }
    let list: Value = serde_json::from_slice(list)?;
    Ok(list["metadata"]["resourceVersion"].as_str().context("a list has a revision")?.to_owned())
}

/// Whether a list has all that the other has, and more. Of protobuf only the length is looked at: the JSON of the same objects was compared.
fn is_fuller(mine: &[u8], theirs: &[u8], encoding: Encoding) -> bool {
    if encoding == Encoding::Protobuf {
        return mine.len() > theirs.len();
    }
    let read = |bytes| serde_json::from_slice::<Value>(bytes).ok();
    read(mine).zip(read(theirs)).is_some_and(|(mine, theirs)| has(&mine, &theirs))
}

fn has(mine: &Value, theirs: &Value) -> bool {
    match (mine, theirs) {
        (Value::Object(mine), Value::Object(theirs)) => {
            theirs.iter().all(|(name, value)| mine.get(name).is_some_and(|own| has(own, value)))
        }
        (Value::Array(mine), Value::Array(theirs)) => {
            mine.len() == theirs.len() && mine.iter().zip(theirs).all(|(own, value)| has(own, value))
        }
        _ => mine == theirs,
    }
}

/// Where two answers part.
fn told((status, mine): (u16, &[u8]), (other, theirs): (u16, &[u8])) -> String {
    let at = mine.iter().zip(theirs).position(|(own, value)| own != value).unwrap_or(mine.len().min(theirs.len()));
    let part = |bytes: &[u8]| String::from_utf8_lossy(&bytes[at.saturating_sub(60)..bytes.len().min(at + 80)]).into_owned();
    format!("{status} {:?}, behind it {other} {:?}", part(mine), part(theirs))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn more_is_fuller_and_less_is_not() {
        let (more, less) = (json!({"a": [{"b": 1, "c": 2}], "d": {}}), json!({"a": [{"b": 1}]}));
        assert!(has(&more, &less) && !has(&less, &more) && has(&more, &more));
        assert!(!has(&json!([1, 2]), &json!([1])), "nor are more objects");
        let bytes = |value: &Value| value.to_string().into_bytes();
        assert!(is_fuller(&bytes(&more), &bytes(&less), Encoding::Json) && !is_fuller(&bytes(&less), &bytes(&more), Encoding::Json));
        assert!(told((200, b"one"), (404, b"once")).starts_with("200 \"one\", behind it 404"));
    }
}
