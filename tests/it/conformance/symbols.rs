//! Symbols for what may differ between two right answers: revisions of lists and bookmarks, tokens' revisions, the server's address, and the name of the node
//! authorizer, which 1.37 puts before its reason.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::Value;

const REVISION: &str = "\"resourceVersion\":";
const CONTINUE: &str = "\"continue\":";

/// The body with symbols. Objects keep their revisions.
pub(super) fn symbolic(body: &str) -> String {
    let body: String = body.split_inclusive('\n').filter(|line| !is_plain_bookmark(line)).collect();
    let body = quoted(&body, "\"serverAddress\":", |_, _| Some("SERVER".to_owned()));
    let body = replaced(&body, "serverAddress: 127.0.0.1:", |_, _| Some("PORT".to_owned()));
    let body = replaced(&body, "current: ", |_, digits| digits.chars().all(|c| c.is_ascii_digit()).then(|| "K".to_owned()));
    let body = replaced(&body, "Too large resource version: ", |_, _| Some("N".to_owned()));
    let body = without_authorizer(&body);
    let body = quoted(&body, CONTINUE, |_, token| token_of(token));
    let body = quoted(&body, REVISION, |before, _| is_of_a_list(before).then(|| "R".to_owned()));
    yaml(&body)
}

/// Without the name of the node authorizer before a reason, and without the line breaks that YAML then has elsewhere.
fn without_authorizer(body: &str) -> String {
    let is_refused_in_yaml = body.ends_with("\nreason: Forbidden\nstatus: Failure\n");
    let body = if is_refused_in_yaml { body.replace("\n  ", " ") } else { body.to_owned() };
    body.replace(": node: ", ": ")
}

/// The same of a list in YAML, where the metadata of the list stands last and alone has this indentation.
fn yaml(body: &str) -> String {
    let Some((before, metadata)) = body.rsplit_once("\nmetadata:\n").filter(|(_, metadata)| !metadata.contains("\n  name: ")) else {
        return body.to_owned();
    };
    let lines = metadata.split_inclusive('\n').map(|line| match line.split_once(": ") {
        Some(("  resourceVersion", _)) => "  resourceVersion: R\n".to_owned(),
        Some(("  continue", token)) => format!("  continue: {}\n", token_of(token.trim()).unwrap_or_default()),
        _ => line.to_owned(),
    });
    format!("{before}\nmetadata:\n{}", lines.collect::<String>())
}

/// When one comes is a matter of a timer; its shape is compared in the annotated ones.
fn is_plain_bookmark(line: &str) -> bool {
    line.starts_with("{\"type\":\"BOOKMARK\"") && !line.contains("k8s.io/initial-events-end")
}

/// Lists and bookmarks have no name in their metadata, objects have it before their revision.
fn is_of_a_list(before: &str) -> bool {
    before.rfind("\"metadata\":").is_some_and(|at| !before[at..].contains("\"name\":"))
}

/// A token's sign and start, without the slash that tokens of a cache begin with.
fn token_of(token: &str) -> Option<String> {
    let value: Value = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
    Some(format!("TOKEN {} {}", value["rv"].as_i64()?.signum(), value["start"].as_str()?.trim_start_matches('/').trim_end_matches('\0')))
}

/// Replaces the string values of a member, in compact and in indented JSON.
fn quoted(body: &str, member: &str, symbol: impl Fn(&str, &str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = body;
    while let Some(at) = rest.find(member) {
        let (before, after) = rest.split_at(at + member.len());
        out.push_str(before);
        let spaces = after.len() - after.trim_start_matches(' ').len();
        let (space, after) = after.split_at(spaces);
        out.push_str(space);
        rest = after;
        if let Some((value, tail)) = after.strip_prefix('"').and_then(|text| text.split_once('"'))
            && let Some(symbol) = symbol(&out, value)
        {
            out.push_str(&format!("\"{symbol}\""));
            rest = tail;
        }
    }
    out + rest
}

/// Replaces the digits that follow a text.
fn replaced(body: &str, text: &str, symbol: impl Fn(&str, &str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = body;
    while let Some(at) = rest.find(text) {
        let (before, after) = rest.split_at(at + text.len());
        out.push_str(before);
        let (digits, tail) = after.split_at(after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len());
        out.push_str(&symbol(&out, digits).unwrap_or_else(|| digits.to_owned()));
        rest = tail;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_differ_becomes_a_symbol() {
        let token = BASE64_URL_SAFE_NO_PAD.encode(r#"{"v":"meta.k8s.io/v1","rv":7,"start":"/a\u0000"}"#);
        let list = format!(
            r#"{{"metadata":{{"resourceVersion":"7","continue":"{token}"}},"items":[{{"metadata":{{"name":"a","resourceVersion":"5"}}}}]}}"#
        );
        assert_eq!(
            symbolic(&list),
            r#"{"metadata":{"resourceVersion":"R","continue":"TOKEN 1 a"},"items":[{"metadata":{"name":"a","resourceVersion":"5"}}]}"#
        );
        let late = r#"{"message":"Timeout: Too large resource version: 99, current: 7","serverAddress":"127.0.0.1:8001"}"#;
        assert_eq!(symbolic(late), r#"{"message":"Timeout: Too large resource version: N, current: K","serverAddress":"SERVER"}"#);
        let refused = r#"{"message":"cannot get resource \"x\" in the namespace \"t\": node: No Object name found"}"#;
        assert_eq!(symbolic(refused), refused.replace("node: ", ""));
        let yaml = |message: &str| format!("message: 'cannot list: {message}'\nreason: Forbidden\nstatus: Failure\n");
        assert_eq!(symbolic(&yaml("node:\n  no name")), symbolic(&yaml("no\n  name")));
        let yaml = "items: []\nkind: ConfigMapList\nmetadata:\n  resourceVersion: \"7\"\n";
        assert_eq!(symbolic(yaml), yaml.replace("\"7\"", "R"));
        let object = "kind: ConfigMap\nmetadata:\n  labels: {}\n  name: a\n  resourceVersion: \"7\"\n";
        assert_eq!(symbolic(object), object);
        let bookmarks = "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\"}}}\n";
        assert_eq!(symbolic(bookmarks), "");
    }
}
