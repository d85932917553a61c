//! Names for what no two runs have in common: revisions, uids, times, generated names, tokens. Equal stays equal; what is before stays before.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::{Map, Value};

use super::script::Step;

/// What stands before a revision in YAML: an object's or a list's.
const YAML: &str = "resourceVersion: \"";
/// Texts in messages after which a revision stands.
const BEFORE_REVISION: [&str; 10] = [
    "in record (",
    "ResourceVersion in object meta: ",
    "precondition (",
    "resource version: ",
    "current: ",
    "ResourceVersion: ",
    "resourceVersion\":\"",
    "resourceVersion\\\":\\\"",
    "resourceVersion:",
    YAML,
];
/// Characters of a text that are kept; of a longer one its ends and its length.
const LONGEST: usize = 3_000;
/// Seconds that a time of now may be off.
const NOW_WITHIN: i64 = 86_400;
const UID_LENGTH: usize = 36;
/// Characters that the server adds to `generateName`.
const SUFFIX_LENGTH: usize = 5;

/// What is known of a scenario's answers.
#[derive(Default)]
struct Symbols {
    /// Revision to symbol.
    revisions: BTreeMap<u64, String>,
    /// uids and generated names to symbols.
    texts: BTreeMap<String, String>,
    now: i64,
}

/// The answers with symbols, and the revisions' symbols from the lowest to the highest.
pub(super) fn symbolic(answers: &mut [Value], steps: &[Step], now: i64) -> Vec<String> {
    let mut symbols = Symbols { now, ..Symbols::default() };
    for (answer, step) in answers.iter().zip(steps) {
        symbols.learn(answer, step.exact);
        if let Some(text) = step.names.as_ref().and_then(|pointer| answer["body"].pointer(pointer)).and_then(Value::as_str) {
            symbols.text("name", text);
        }
    }
    for (answer, step) in answers.iter_mut().zip(steps) {
        symbols.apply(answer, step.exact);
    }
    symbols.revisions.into_values().collect()
}

/// Numbers the symbols anew in order of first appearance, so that leaving something out does not shift the rest.
pub(super) fn renumbered(text: &str) -> String {
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        let letters = after.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(after.len());
        let digits = after[letters..].find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len() - letters);
        let (symbol, tail) = after.split_at(letters + digits);
        out.push_str(before);
        out.push('$');
        if letters > 0 && digits > 0 {
            let next = names.entry(symbol.to_owned()).or_insert_with(|| {
                let count = counts.entry(symbol[..letters].to_owned()).or_default();
                *count += 1;
                format!("{}{count}", &symbol[..letters])
            });
            out.push_str(next);
        } else {
            out.push_str(symbol);
        }
        rest = tail;
    }
    out + rest
}

impl Symbols {
    fn learn(&mut self, value: &Value, exact: bool) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.learn(item, exact)),
            Value::Object(map) => {
                self.learn_of(map, exact);
                map.iter().filter(|(key, _)| *key != "managedFields").for_each(|(_, value)| self.learn(value, exact));
            }
            _ => {}
        }
    }

    fn learn_of(&mut self, map: &Map<String, Value>, exact: bool) {
        let text = |key: &str| map.get(key).and_then(Value::as_str);
        if let Some(revision) = text("resourceVersion").and_then(|r| r.parse::<u64>().ok()).filter(|r| *r > 0)
            && (exact || map.contains_key("name"))
        {
            let next = format!("$rv{}", self.revisions.len() + 1);
            self.revisions.entry(revision).or_insert(next);
        }
        if let Some(uid) = text("uid").filter(|uid| uid.len() == UID_LENGTH && uid.as_bytes()[14] == b'4') {
            self.text("uid", uid);
        }
        if let (Some(base), Some(name)) = (text("generateName"), text("name"))
            && name.strip_prefix(&base[..base.len().min(58)]).is_some_and(|suffix| suffix.len() == SUFFIX_LENGTH)
        {
            self.text("name", name);
        }
    }

    fn text(&mut self, kind: &str, text: &str) {
        let count = self.texts.values().filter(|symbol| symbol[1..].starts_with(kind)).count();
        self.texts.entry(text.to_owned()).or_insert_with(|| format!("${kind}{}", count + 1));
    }

    fn apply(&self, value: &mut Value, exact: bool) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply(item, exact)),
            Value::Object(map) => {
                let exact_here = exact || map.contains_key("name");
                // Ours computes none.
                map.remove("managedFields");
                for (key, value) in map.iter_mut() {
                    match (key.as_str(), value.as_str()) {
                        ("resourceVersion", Some(text)) => *value = self.revision(text, exact_here).into(),
                        ("cells", None) => value.as_array_mut().into_iter().flatten().for_each(|cell| self.cell(cell)),
                        ("continue", Some(token)) if !token.is_empty() => *value = self.token(token).into(),
                        (_, Some(text)) => *value = self.in_text(text).into(),
                        _ => self.apply(value, exact),
                    }
                }
            }
            Value::String(text) => *text = self.in_text(text),
            _ => {}
        }
    }

    /// A cell of a Table: an age of seconds is one of now, and an age of years and days is that of a fixed time, which is another one each day.
    fn cell(&self, cell: &mut Value) {
        let is_number = |digits: &str| digits.parse::<u8>().is_ok() || digits.parse::<u16>().is_ok_and(|days| days < 366);
        let is_age = |text: &str| match (text.strip_suffix('s'), text.strip_suffix('d').and_then(|text| text.split_once('y'))) {
            (Some(seconds), _) => seconds.parse::<u8>().is_ok(),
            (None, Some((years, days))) => is_number(years) && is_number(days),
            (None, None) => false,
        };
        if cell.as_str().is_some_and(is_age) { *cell = "$age".into() } else { self.apply(cell, false) }
    }

    /// That of an object, or of a list: then only after which of the objects' it is.
    fn revision(&self, text: &str, exact: bool) -> String {
        let Some(revision) = text.parse::<u64>().ok().filter(|r| *r > 0) else { return text.to_owned() };
        match self.revisions.range(..=revision).next_back() {
            _ if revision > self.far() => "far after all".to_owned(),
            Some((at, symbol)) if exact && *at == revision => symbol.clone(),
            Some((_, symbol)) => format!("after {symbol}"),
            None => "before".to_owned(),
        }
    }

    /// No server of a test gets this far.
    fn far(&self) -> u64 {
        self.revisions.keys().next_back().map_or(u64::MAX, |last| last + 50_000)
    }

    fn token(&self, token: &str) -> String {
        let read = || {
            let value: Value = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
            let revision = value["rv"].as_i64()?;
            let revision = if revision > 0 { self.revision(&revision.to_string(), false) } else { revision.to_string() };
            let start = value["start"].as_str()?.trim_start_matches('/').trim_end_matches('\0').to_owned();
            Some(format!("token at {} and {}", self.in_text(&start), revision))
        };
        read().unwrap_or_else(|| token.to_owned())
    }

    fn in_text(&self, text: &str) -> String {
        let mut out = self.without_times(&without_managed_fields(text));
        for (known, symbol) in self.texts.iter().filter(|(known, _)| text.contains(known.as_str())) {
            out = out.replace(known.as_str(), symbol);
        }
        for before in BEFORE_REVISION {
            let mut from = 0;
            while let Some(at) = out[from..].find(before).map(|at| from + at + before.len()) {
                let digits = out[at..].find(|c: char| !c.is_ascii_digit()).map_or(out.len(), |end| at + end);
                let told = |r: u64| self.revisions.contains_key(&r) || ["current: ", YAML].contains(&before) || r > self.far();
                if out[at..digits].parse::<u64>().is_ok_and(told) {
                    let symbol = self.revision(&out[at..digits], !["current: ", YAML].contains(&before));
                    out.replace_range(at..digits, &symbol);
                }
                from = at;
            }
        }
        shortened(out)
    }

    /// Times of about now, wherever they stand: that it is one, and how fine.
    fn without_times(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("20") {
            let zone = rest[at..].find('Z').filter(|end| *end < 40);
            match zone.and_then(|end| Some((end, self.time(&rest[at..=at + end])?))) {
                Some((end, symbol)) => {
                    out.push_str(&rest[..at]);
                    out.push_str(symbol);
                    rest = &rest[at + end + 1..];
                }
                None => {
                    out.push_str(&rest[..at + 2]);
                    rest = &rest[at + 2..];
                }
            }
        }
        out + rest
    }

    /// A time of about now: that it is one, and how fine.
    fn time(&self, text: &str) -> Option<&'static str> {
        let time = time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339).ok()?;
        ((time.unix_timestamp() - self.now).abs() < NOW_WITHIN).then_some(if text.contains('.') { "$microtime" } else { "$time" })
    }
}

/// YAML without what ours computes none of.
fn without_managed_fields(text: &str) -> Cow<'_, str> {
    if !text.contains("managedFields:\n") {
        return text.into();
    }
    let mut inside = None;
    let kept = text.split_inclusive('\n').filter(|line| {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let goes_on = inside.is_some_and(|at| indent > at || indent == at && line[indent..].starts_with('-'));
        if !goes_on {
            inside = (line[indent..] == *"managedFields:\n").then_some(indent);
        }
        inside.is_none()
    });
    kept.collect::<String>().into()
}

fn shortened(text: String) -> String {
    let count = text.chars().count();
    if count <= LONGEST {
        return text;
    }
    let ends: (String, String) = (text.chars().take(LONGEST / 10).collect(), text.chars().skip(count - LONGEST / 10).collect());
    format!("{}… {count} characters …{}", ends.0, ends.1)
}

/// Symbols that a text has.
pub(super) fn named(text: &str) -> BTreeSet<&str> {
    text.split('$').skip(1).map(|part| &part[..part.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(part.len())]).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_stays_equal_and_order_is_told() {
        let uid = "5f0bd0c5-8d5b-4b58-9a7e-0b0a3f3a6a55";
        let mut answers = [
            json!({"metadata": {"name": "x-abcde", "generateName": "x-", "uid": uid, "resourceVersion": "9", "creationTimestamp": "2023-11-14T22:14:00Z"}}),
            json!({"metadata": {"name": "y", "resourceVersion": "7"}, "other": "2013-01-01T00:00:00Z"}),
            json!({"metadata": {"resourceVersion": "8"}, "message": format!("x-abcde has {uid}, in record (9), limit 9")}),
        ];
        let order = symbolic(&mut answers, &[Step::default(), Step::default(), Step::default()], 1_700_000_000);
        assert_eq!(order, ["$rv2", "$rv1"]);
        assert_eq!(answers[0]["metadata"]["name"], "$name1");
        assert_eq!(answers[0]["metadata"]["creationTimestamp"], "$time");
        assert_eq!(answers[1]["other"], "2013-01-01T00:00:00Z");
        assert_eq!(
            answers[2],
            json!({"metadata": {"resourceVersion": "after $rv2"}, "message": "$name1 has $uid1, in record ($rv1), limit 9"})
        );
    }

    #[test]
    fn yaml_and_tables_are_of_no_time() {
        let yaml =
            "metadata:\n  managedFields:\n  - apiVersion: v1\n    fieldsV1:\n      f:data: {}\n  name: a\n  resourceVersion: \"7\"\n";
        let mut answers = [
            json!({"metadata": {"name": "a", "resourceVersion": "7"}}),
            json!({"body": yaml, "rows": [{"cells": ["s", 2, "12s", "3m1s", "2y199d", "y1d"]}]}),
        ];
        symbolic(&mut answers, &[Step::default(), Step::default()], 0);
        assert_eq!(answers[1]["body"], "metadata:\n  name: a\n  resourceVersion: \"after $rv1\"\n");
        assert_eq!(answers[1]["rows"][0]["cells"], json!(["s", 2, "$age", "3m1s", "$age", "y1d"]));
    }

    #[test]
    fn numbers_follow_first_appearance() {
        assert_eq!(renumbered("$rv7 $uid3 $rv2 $rv7 $time $ x"), "$rv1 $uid1 $rv2 $rv1 $time $ x");
        assert_eq!(named("a $rv1, after $rv22 $time"), BTreeSet::from(["rv1", "rv22", "time"]));
    }
}
