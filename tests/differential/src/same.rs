//! Two answers without what must differ, and where they differ all the same.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// Members that are left out of both answers: the kind (empty: every kind), the path (`*` is one step, `**` at the beginning any), and why. This is the only
/// place.
pub(crate) const LEFT_OUT: &[(&str, &str, &str)] = &[
    ("", "**/managedFields", "compared by themselves: their times and their order are of one server"),
    ("", "metadata/resourceVersion", "of one server"),
    ("Service", "spec/clusterIP", "chosen by an allocator, which watchcache does not have"),
    ("Service", "spec/clusterIPs", "as above"),
    ("Service", "spec/ipFamilies", "as above"),
    ("Service", "spec/ipFamilyPolicy", "as above"),
    ("Service", "spec/healthCheckNodePort", "as above"),
    ("Service", "spec/ports/*/nodePort", "as above"),
    ("APIService", "status", "written by kube-apiserver's aggregator at any time"),
    ("CustomResourceDefinition", "status", "written by a controller inside of both at any time"),
    ("CustomResourceDefinition", "metadata/generation", "as above: not counted alike while that is at work"),
    ("ServiceCIDR", "status", "written by a controller inside kube-apiserver at any time"),
    ("ServiceCIDR", "metadata/finalizers", "as above"),
];

/// One difference: where, of what kind, and both sides.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    pub(crate) path: String,
    pub(crate) what: &'static str,
    pub(crate) ours: String,
    pub(crate) theirs: String,
}

/// Whether the status of a kind is compared.
pub(crate) fn has_own_status(kind: &str) -> bool {
    !LEFT_OUT.iter().any(|(of, path, _)| (*of, *path) == (kind, "status"))
}

/// The uid of an object.
pub(crate) fn uid(object: &Value) -> &str {
    object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or("")
}

/// The text of an object in which uid and times of now have become symbols, without what is left out.
pub(crate) fn plain(text: &str, kind: &str) -> String {
    let object: Value = serde_json::from_str(text).unwrap_or(Value::Null);
    let own = uid(&object).to_owned();
    let mut copy = Copy { text: text.as_bytes(), at: 0, out: Vec::with_capacity(text.len()), kind, today: [day(0), day(86_400)] };
    copy.value(&mut Vec::new());
    let out = String::from_utf8_lossy(&copy.out).into_owned();
    if own.is_empty() { out } else { out.replace(&own, "$uid") }
}

/// Who manages which fields of an object, an entry a manager and what it did, each without its time, sorted; fields that are left out of objects are left out
/// here too.
pub(crate) fn managers(text: &str, kind: &str) -> String {
    let object: Value = serde_json::from_str(text).unwrap_or(Value::Null);
    let own = uid(&object).to_owned();
    let mut entries = object.pointer("/metadata/managedFields").and_then(Value::as_array).cloned().unwrap_or_default();
    if !has_own_status(kind) {
        entries.retain(|entry| entry["subresource"] != "status");
    }
    let left_out: Vec<String> =
        LEFT_OUT.iter().filter(|(of, ..)| *of == kind).filter_map(|(_, path, _)| Some(format!("f:{}", path.rsplit('/').next()?))).collect();
    for entry in &mut entries {
        if let Some(members) = entry.as_object_mut() {
            members.remove("time");
        }
        without(entry, &left_out);
    }
    entries.retain(|entry| entry.get("fieldsV1").is_some());
    entries.sort_by_key(Value::to_string);
    let text = json!({"metadata": {"managedFields": entries}}).to_string();
    if own.is_empty() { text } else { text.replace(&own, "$uid") }
}

/// Takes members of these names out, wherever they are.
fn without(value: &mut Value, names: &[String]) {
    if let Some(members) = value.as_object_mut() {
        members.retain(|name, member| {
            let was_empty = member.as_object().is_none_or(serde_json::Map::is_empty);
            without(member, names);
            !names.contains(name) && (was_empty || !member.as_object().is_some_and(serde_json::Map::is_empty))
        });
    }
}

/// Where two plain texts differ; nothing when they are equal byte for byte.
pub(crate) fn differences(ours: &str, theirs: &str) -> Vec<Difference> {
    if ours == theirs {
        return Vec::new();
    }
    let (left, right): (Value, Value) =
        (serde_json::from_str(ours).unwrap_or(Value::Null), serde_json::from_str(theirs).unwrap_or(Value::Null));
    let mut found = Vec::new();
    compare(&left, &right, &mut String::new(), &mut found);
    if found.is_empty() {
        found.push(Difference { path: String::new(), what: "order or form", ours: ours.to_owned(), theirs: theirs.to_owned() });
    }
    found
}

fn compare(ours: &Value, theirs: &Value, path: &mut String, found: &mut Vec<Difference>) {
    let length = path.len();
    let mut tell = |path: &str, what, ours: Option<&Value>, theirs: Option<&Value>| {
        let text = |value: Option<&Value>| value.map_or_else(|| "-".to_owned(), Value::to_string);
        found.push(Difference { path: path.to_owned(), what, ours: text(ours), theirs: text(theirs) });
    };
    match (ours, theirs) {
        (Value::Object(left), Value::Object(right)) => {
            for (name, value) in left {
                path.push('.');
                path.push_str(name);
                match right.get(name) {
                    Some(other) => compare(value, other, path, found),
                    None => {
                        let text = (value.to_string(), "-".to_owned());
                        found.push(Difference { path: path.clone(), what: "only ours", ours: text.0, theirs: text.1 });
                    }
                }
                path.truncate(length);
            }
            for (name, value) in right.iter().filter(|(name, _)| !left.contains_key(*name)) {
                found.push(Difference {
                    path: format!("{path}.{name}"),
                    what: "only theirs",
                    ours: "-".to_owned(),
                    theirs: value.to_string(),
                });
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            path.push_str("[]");
            left.iter().zip(right).for_each(|(left, right)| compare(left, right, path, found));
            path.truncate(length);
        }
        (Value::Array(left), Value::Array(right)) => {
            tell(path, if left.len() > right.len() { "longer" } else { "shorter" }, Some(ours), Some(theirs))
        }
        (Value::Array(left), Value::Null) if left.is_empty() => tell(path, "[] not null", Some(ours), Some(theirs)),
        (Value::Null, Value::Array(right)) if right.is_empty() => tell(path, "null not []", Some(ours), Some(theirs)),
        _ if ours != theirs => tell(path, "value", Some(ours), Some(theirs)),
        _ => {}
    }
}

/// `2026-11-25`, so many seconds ago.
fn day(ago: u64) -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()).saturating_sub(ago);
    let days = i64::try_from(seconds / 86_400).unwrap_or(0) + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let (day, month) = (day_of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
    format!("{:04}-{month:02}-{day:02}", year_of_era + era * 400 + i64::from(month <= 2))
}

/// A copy of a compact JSON text, member by member.
struct Copy<'t> {
    text: &'t [u8],
    at: usize,
    out: Vec<u8>,
    kind: &'t str,
    today: [String; 2],
}

impl Copy<'_> {
    fn value(&mut self, path: &mut Vec<String>) {
        match self.text.get(self.at) {
            Some(b'{') => self.items(path, true),
            Some(b'[') => self.items(path, false),
            Some(b'"') => {
                let text = self.string();
                let is_now = self.today.iter().any(|day| text.starts_with(&format!("\"{day}T")));
                self.out.extend_from_slice(if is_now { b"\"$now\"" } else { text.as_bytes() });
            }
            Some(_) => {
                let rest = &self.text[self.at..];
                let length = rest.iter().position(|b| b",]}\n".contains(b)).unwrap_or(rest.len()).max(1);
                self.out.extend_from_slice(&rest[..length]);
                self.at += length;
            }
            None => {}
        }
    }

    fn items(&mut self, path: &mut Vec<String>, named: bool) {
        self.byte();
        let mut is_first = true;
        while let Some(&next) = self.text.get(self.at) {
            match next {
                b'}' | b']' => return self.byte(),
                b',' => self.at += 1,
                _ => {
                    let begin = self.out.len();
                    if !is_first {
                        self.out.push(b',');
                    }
                    let name = if named { self.string() } else { "*".to_owned() };
                    if named {
                        self.out.extend_from_slice(name.as_bytes());
                        self.byte();
                    }
                    path.push(name.trim_matches('"').to_owned());
                    self.value(path);
                    if self.is_left_out(path) {
                        self.out.truncate(begin);
                    } else {
                        is_first = false;
                    }
                    path.pop();
                }
            }
        }
    }

    fn is_left_out(&self, path: &[String]) -> bool {
        LEFT_OUT.iter().any(|(kind, pattern, _)| {
            let fits = kind.is_empty() || *kind == self.kind;
            fits && match pattern.strip_prefix("**/") {
                Some(last) => path.last().is_some_and(|name| name == last),
                None => pattern.split('/').eq(path.iter().map(String::as_str)),
            }
        })
    }

    fn byte(&mut self) {
        self.out.extend(self.text.get(self.at));
        self.at += 1;
    }

    /// With its quotes.
    fn string(&mut self) -> String {
        let start = self.at;
        self.at += 1;
        while let Some(&byte) = self.text.get(self.at) {
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == b'"' {
                break;
            }
        }
        String::from_utf8_lossy(&self.text[start..self.at.min(self.text.len())]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_differ_does_not() {
        let object = |uid: &str, revision: u32, time: &str| {
            format!(
                r#"{{"metadata":{{"uid":"{uid}","resourceVersion":"{revision}","creationTimestamp":"{time}","managedFields":[{{"a":"]"}}]}},"spec":{{"clusterIP":"{revision}","ports":[{{"port":1,"nodePort":{revision}}}],"l":"x-{uid}"}}}}"#
            )
        };
        let now = format!("{}T01:02:03Z", day(0));
        let (ours, theirs) = (plain(&object("abc", 1, &now), "Service"), plain(&object("de", 22, &now), "Service"));
        assert_eq!(ours, theirs);
        assert_eq!(ours, r#"{"metadata":{"uid":"$uid","creationTimestamp":"$now"},"spec":{"ports":[{"port":1}],"l":"x-$uid"}}"#);
        assert!(plain(&object("abc", 1, &now), "Pod").contains("clusterIP"));
    }

    #[test]
    fn differences_have_places_and_kinds() {
        let found = differences(r#"{"a":[{"b":1,"c":[]}],"d":2}"#, r#"{"a":[{"b":2,"c":null}],"e":3}"#);
        let told: Vec<_> = found.iter().map(|it| (it.path.as_str(), it.what)).collect();
        assert_eq!(told, [(".a[].b", "value"), (".a[].c", "[] not null"), (".d", "only ours"), (".e", "only theirs")]);
        assert_eq!(differences(r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#)[0].what, "order or form");
        assert_eq!(differences("{}", "{}"), []);
    }
}
