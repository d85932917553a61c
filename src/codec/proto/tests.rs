//! Messages that nobody wrote: made from the schema at random, broken on purpose, nested too deeply.

use base64::{Engine, prelude::BASE64_STANDARD};
use proptest::prelude::*;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::Value;

use super::{
    MESSAGE_DEPTH_MAX, Message, ProtoError, envelope_into, field_into, list_meta_into, message, open,
    schema::{Cardinality, JsonShape, MessageType, SCHEMA, ValueType},
    wire::{FIXED64, VARINT, varint_into},
};
use crate::ListMeta;
use go::{quantity, timestamp};
use model::Revision;

const TEXTS: [&str; 6] = ["", "a", "name", "<&>\"\\\n\u{2028}", "za\u{17c}\u{f3}\u{142}\u{107}", "\u{1}\u{7f}"];
const RAWS: [&str; 5] = ["{}", r#"{"a":[1,2.50,"x\u003c"]}"#, "[]", "\"t\"", "true"];
const QUANTITIES: [&str; 6] = ["0", "500m", "1Gi", "1536Ki", "0.5", "99999999999999999999"];

/// Bytes of JSON for one of a message: the longest objects of empty messages (a definition in a list) have some 200 for two bytes.
const EXPANSION_MAX: usize = 256;

fn json(of: Message, raw: &[u8]) -> Result<String, ProtoError> {
    let mut out = Vec::new();
    of.to_json(raw, usize::MAX, &mut out)?;
    Ok(String::from_utf8(out).expect("JSON is UTF-8"))
}

fn raw(of: Message, json: &str) -> Result<Vec<u8>, ProtoError> {
    of.from_json(json.as_bytes())
}

/// Makes messages: fields in any order, repeated ones apart, numbers packed, fields that nobody knows.
pub(super) struct Maker {
    pub(super) random: StdRng,
    /// Of a hundred fields that may be missing, how many are there.
    pub(super) fullness: u32,
    /// Fields that may still be made.
    pub(super) budget: u32,
    /// Whether nothing is made but what Go makes: no field that nobody knows, every field that Go always writes, numbers that fit.
    pub(super) is_go: bool,
}

impl Maker {
    fn text(&mut self) -> &'static str {
        TEXTS.choose(&mut self.random).expect("some")
    }

    fn there(&mut self, depth: usize) -> bool {
        self.budget = self.budget.saturating_sub(1);
        depth < 12 && self.budget > 0 && self.random.random_range(0..100) < self.fullness / (depth as u32 / 4 + 1)
    }

    pub(super) fn message(&mut self, of: &MessageType, depth: usize) -> Vec<u8> {
        let mut out = Vec::new();
        match of.json_shape {
            JsonShape::Time | JsonShape::MicroTime => {
                out.push(1 << 3 | VARINT);
                varint_into(self.random.random_range(timestamp::ZERO..253_402_300_800) as u64, &mut out);
                out.push(2 << 3 | VARINT);
                varint_into(self.random.random_range(0..1_000_000_000), &mut out);
            }
            JsonShape::Quantity => field_into(1, QUANTITIES.choose(&mut self.random).expect("some").as_bytes(), &mut out),
            JsonShape::Raw => field_into(1, RAWS.choose(&mut self.random).expect("some").as_bytes(), &mut out),
            JsonShape::IntOrString if self.random.random() => out.extend_from_slice(b"\x08\x00\x10\x50"),
            JsonShape::IntOrString => out.extend_from_slice(b"\x08\x01\x1a\x04http"),
            // One of the two, as Go has it.
            JsonShape::OrBool => out.extend_from_slice(&[1 << 3, u8::from(self.random.random::<bool>())]),
            JsonShape::OrList => self.field(of, 1, depth, &mut out),
            JsonShape::Items | JsonShape::Object => {
                let mut fields: Vec<usize> = (0..of.fields.len()).chain(0..of.fields.len()).collect();
                rand::seq::SliceRandom::shuffle(fields.as_mut_slice(), &mut self.random);
                let mut seen = vec![false; of.fields.len()];
                for i in fields {
                    let many = matches!(of.fields[i].cardinality, Cardinality::Repeated | Cardinality::Map);
                    let must = match of.fields[i].cardinality {
                        Cardinality::Inline => true,
                        Cardinality::Plain => self.is_go,
                        _ => self.is_go && !of.fields[i].omit_empty,
                    };
                    if (must || self.there(depth)) && (many || !seen[i]) {
                        seen[i] = true;
                        self.field(of, i, depth, &mut out);
                    }
                }
                if !self.is_go && self.there(depth) {
                    field_into(9999, b"unknown", &mut out);
                }
            }
        }
        out
    }

    fn field(&mut self, of: &MessageType, i: usize, depth: usize, out: &mut Vec<u8>) {
        let field = &of.fields[i];
        if field.cardinality == Cardinality::Map {
            let mut entry = Vec::new();
            field_into(1, self.text().as_bytes(), &mut entry);
            field_into(2, &self.value(field.value_type, depth), &mut entry);
            return field_into(field.number, &entry, out);
        }
        let bits = self.random.random::<u64>() >> self.random.random_range(0..64);
        let bits = match field.value_type {
            ValueType::Bool if self.is_go => bits & 1,
            ValueType::Int32 if self.is_go => i64::from(bits as i32) as u64,
            _ => bits,
        };
        match field.value_type {
            ValueType::Bool | ValueType::Int32 | ValueType::Int64 if field.cardinality == Cardinality::Repeated && self.random.random() => {
                let mut packed = Vec::new();
                varint_into(bits, &mut packed);
                varint_into(1, &mut packed);
                field_into(field.number, &packed, out);
            }
            ValueType::Bool | ValueType::Int32 | ValueType::Int64 => {
                varint_into(u64::from(field.number) << 3 | u64::from(VARINT), out);
                varint_into(bits, out);
            }
            ValueType::Double => {
                varint_into(u64::from(field.number) << 3 | u64::from(FIXED64), out);
                out.extend_from_slice(&(bits as f64 / 7.0).to_le_bytes());
            }
            value_type => field_into(field.number, &self.value(value_type, depth), out),
        }
    }

    fn value(&mut self, value_type: ValueType, depth: usize) -> Vec<u8> {
        match value_type {
            ValueType::Message(inner) => self.message(SCHEMA.message(inner), depth + 1),
            ValueType::Bytes => (0..self.random.random_range(0..5)).map(|_| self.random.random()).collect(),
            _ => self.text().as_bytes().to_vec(),
        }
    }
}

/// Without the members that are null: a pointer to nothing and no pointer are the same when they are read again.
fn without_nulls(text: &str) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.retain(|_, value| !value.is_null());
                map.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut value = serde_json::from_str(text).expect("JSON");
    strip(&mut value);
    value
}

/// A line of the golden data: a kind, its message, its JSON.
fn golden(at: usize) -> (Message, Vec<u8>, &'static str) {
    let lines: Vec<&str> = include_str!("../../../tests/data/proto/kube.tsv").lines().collect();
    let columns: Vec<&str> = lines[at % lines.len()].split('\t').collect();
    let of = message(columns[0], columns[1]).expect("a kind that was recorded");
    (of, BASE64_STANDARD.decode(columns[2]).expect("base64"), columns[3])
}

/// Changes, takes out, puts in or cuts off some bytes.
fn broken(bytes: &[u8], seed: u64) -> Vec<u8> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut bytes = bytes.to_vec();
    for _ in 0..random.random_range(1..4) {
        let at = random.random_range(0..=bytes.len());
        match random.random_range(0..4) {
            0 if at < bytes.len() => bytes[at] = random.random(),
            1 if at < bytes.len() => _ = bytes.remove(at),
            2 => bytes.insert(at, random.random()),
            _ => bytes.truncate(at.max(bytes.len() / 2)),
        }
    }
    bytes
}

proptest! {
    #[test]
    fn messages_and_back(seed: u64, kind in 0..10_000usize, fullness in 5..90u32) {
        let kind = &SCHEMA.kinds[kind % SCHEMA.kinds.len()];
        let of = Message(kind);
        let mut maker = Maker { random: StdRng::seed_from_u64(seed), fullness, budget: 1_000, is_go: false };
        let made = maker.message(SCHEMA.message(kind.message), 0);
        let first = json(of, &made).expect("the maker makes messages");
        let again = raw(of, &first).expect("we read what we write");
        let second = json(of, &again).expect("we read what we write");
        prop_assert_eq!(without_nulls(&first), without_nulls(&second), "{:?}", kind);
        let third = raw(of, &second).expect("we read what we write");
        prop_assert_eq!(json(of, &third).expect("we read what we write"), second);
        prop_assert_eq!(&third, &again, "{:?}", kind);
    }

    #[test]
    fn broken_messages_are_errors_or_messages(at: usize, seed: u64) {
        let (of, bytes, _) = golden(at);
        let bytes = broken(&bytes, seed);
        match json(of, &bytes) {
            Ok(text) => {
                prop_assert!(text.len() <= EXPANSION_MAX * (bytes.len() + 16), "{} of {}", text.len(), bytes.len());
                prop_assert!(serde_json::from_str::<Value>(&text).is_ok(), "{}", text);
                prop_assert!(raw(of, &text).is_ok(), "{}", text);
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
        let _ = open(&bytes);
    }

    #[test]
    fn broken_json_is_an_error_or_a_message(at: usize, seed: u64) {
        let (of, _, text) = golden(at);
        if let Ok(made) = of.from_json(&broken(text.as_bytes(), seed)) {
            prop_assert!(json(of, &made).is_ok());
        }
        // What is left in the buffers is nothing to the next one.
        prop_assert_eq!(of.from_json(text.as_bytes()), std::thread::scope(|fresh| fresh.spawn(|| of.from_json(text.as_bytes())).join()).expect("no panic"));
    }
}

#[test]
fn depth_has_a_limit_in_both_forms() {
    let of = message("apiextensions.k8s.io/v1", "CustomResourceDefinition").expect("known");
    let nested = |depth: usize| {
        let schema = r#"{"not":"#.repeat(depth) + "{}" + &"}".repeat(depth);
        format!(r#"{{"spec":{{"versions":[{{"schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#)
    };
    let deepest = raw(of, &nested(MESSAGE_DEPTH_MAX - 7)).expect("deep enough");
    assert!(json(of, &deepest).expect("no deeper than its JSON").contains(r#""not":{"not":{"#));
    assert_eq!(raw(of, &nested(MESSAGE_DEPTH_MAX)), Err(ProtoError::Depth));

    // `not` is field 28 of a schema; around it are spec, versions, schema and openAPIV3Schema.
    let mut message = Vec::new();
    for number in std::iter::repeat_n(28, MESSAGE_DEPTH_MAX).chain([1, 4, 7, 2]) {
        let mut outer = Vec::new();
        field_into(number, &message, &mut outer);
        message = outer;
    }
    assert_eq!(json(of, &message), Err(ProtoError::Depth));
}

/// Empty messages are two bytes and print what their struct always has: 3 MiB of them were expanded to 180 MB before they were refused.
#[test]
fn what_becomes_too_long_is_given_up_on_the_way() {
    let pod = message("v1", "Pod").expect("known");
    let with = |containers: usize| {
        let mut raw = Vec::new();
        field_into(2, &[0x12, 0].repeat(containers), &mut raw);
        raw
    };
    let lossless = json(pod, &with(3)).expect("a pod").len();
    let mut out = b"before".to_vec();
    assert_eq!(pod.to_json(&with(3), lossless - 1, &mut out), Err(ProtoError::TooLarge));
    assert_eq!(out, b"before");
    assert_eq!(pod.to_json(&with(3), lossless, &mut out), Ok(()));
    assert_eq!(out.len(), 6 + lossless);
    let mut out = Vec::new();
    assert_eq!(pod.to_json(&with(1 << 20), 10_000, &mut out), Err(ProtoError::TooLarge));
    assert!(out.capacity() < 100_000, "{} bytes were made", out.capacity());
}

#[test]
fn what_is_wrong_has_a_name() {
    let pod = message("v1", "Pod").expect("known");
    let metadata = |bytes: &[u8]| {
        let mut out = Vec::new();
        field_into(1, bytes, &mut out);
        json(pod, &out)
    };
    assert!(
        metadata(b"\x0a\x05a\xe2\x82<\xff").is_ok_and(|text| text.contains(r#""name":"a\ufffd\ufffd\u003c\ufffd""#)),
        "as Go prints it"
    );
    assert_eq!(metadata(b"\x08\x01"), Err(ProtoError::WireType("name")));
    assert_eq!(metadata(b"\x42\x00\x42\x00"), Err(ProtoError::Twice("creationTimestamp")));
    assert_eq!(metadata(b"\x0a\x02\x61"), Err(ProtoError::Truncated));
    assert_eq!(json(message("autoscaling/v1", "Scale").expect("known"), b"\x12\x02\x0a\x00"), Err(ProtoError::WireType("replicas")));
    assert_eq!(metadata(b"\x8a\x01\x06\x3a\x04\x0a\x02{a"), Err(ProtoError::Raw("fieldsV1")));
    let limits = b"\x12\x12\x0a\x10\x0a\x00\x12\x0c\x0a\x02mx\x12\x06\x0a\x04much";
    assert_eq!(json(message("v1", "LimitRange").expect("known"), limits), Err(ProtoError::Quantity(quantity::FORMAT)));
    assert!(metadata(b"\x0a\x01a\x0a\x01b").is_ok_and(|text| text.contains(r#""name":"b""#)), "of a string the last one counts");
    for (text, error) in [
        (r#"{"metadata":{"name":1}}"#, ProtoError::Member("name")),
        (r#"{"metadata":{"creationTimestamp":"today"}}"#, ProtoError::Member("creationTimestamp")),
        (r#"{"spec":{"containers":{}}}"#, ProtoError::Member("containers")),
        (r#"{"spec":{"priority":3000000000}}"#, ProtoError::Member("priority")),
        (r#"{"spec":{"hostNetwork":"yes"}}"#, ProtoError::Member("hostNetwork")),
        (r#"{"spec":{"overhead":{"cpu":"much"}}}"#, ProtoError::Member("overhead")),
        ("[]", ProtoError::Json(0)),
        (r#"{"metadata":{}"#, ProtoError::Json(14)),
        (r#"{} {}"#, ProtoError::Json(3)),
    ] {
        assert_eq!(raw(pod, text), Err(error), "{text}");
    }
    assert_eq!(message("ex.io/v1", "Widget"), None);
    assert_eq!(message("meta.k8s.io/v1", "Table"), None);
}

/// Members in any order and twice, names with escapes, what nobody knows: as Go reads them.
#[test]
fn members_are_read_as_go_reads_them() {
    let of = message("v1", "ConfigMap").expect("known");
    let plain = raw(of, r#"{"metadata":{"name":"n","labels":{"a":"1","b":"<"}},"data":{"k":""}}"#).expect("JSON");
    let odd = r#" { "data" : {"k":null}, "kind":"ConfigMap", "other":[{}], "metadata":null, "metadata":
        {"labels":{"b":"x","a":"1","b":"\u003c"}, "n\u0061me":"n", "Name":"m"} } "#;
    assert_eq!(raw(of, odd), Ok(plain));
}

#[test]
fn a_list_is_its_metadata_and_its_items() {
    let of = message("v1", "ConfigMapList").expect("known");
    let item = raw(message("v1", "ConfigMap").expect("known"), r#"{"metadata":{"name":"n"}}"#).expect("JSON");
    let meta = ListMeta { revision: Revision(700), continue_token: Some("tok".into()), remaining: Some(300), shard: Some("s".into()) };
    for (meta, text) in [
        (meta, r#"{"resourceVersion":"700","continue":"tok","remainingItemCount":300,"shardInfo":{"selector":"s"}}"#),
        (ListMeta { revision: Revision(1), ..ListMeta::default() }, r#"{"resourceVersion":"1"}"#),
    ] {
        let (mut inner, mut list) = (Vec::new(), Vec::new());
        list_meta_into(&meta, &mut inner);
        field_into(1, &inner, &mut list);
        field_into(2, &item, &mut list);
        let told = format!(r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{text},"items":[{{"metadata":{{"name":"n"}}}}]}}"#);
        assert_eq!(json(of, &list).as_deref(), Ok(&*told));
        assert_eq!(raw(of, &told), Ok(list));
    }
}

/// The first is spec api-surface §10.3's.
#[test]
fn envelopes_open_and_close() {
    let mut out = Vec::new();
    envelope_into("v1", "ConfigMap", b"\x0a\x00", &mut out);
    assert_eq!(out, b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x02\x0a\x00\x1a\x00\x22\x00");
    let unknown = open(&out).expect("ours");
    assert_eq!((unknown.api_version, unknown.kind, unknown.raw), ("v1", "ConfigMap", &b"\x0a\x00"[..]));
    let unknown = open(b"k8s\0\x12\x01a\x1a\x04gzip\x22\x03a/b").expect("nobody looks at the last two");
    assert_eq!((unknown.raw, unknown.content_encoding, unknown.content_type), (&b"a"[..], &b"gzip"[..], &b"a/b"[..]));
    for (bytes, error) in [
        (&b"{}"[..], ProtoError::Prefix),
        (b"k8s\0", ProtoError::Empty),
        (b"k8s\0\x12\x02a", ProtoError::Truncated),
        (b"k8s\0\x10\x01", ProtoError::WireType("Unknown")),
        (b"k8s\0\x0a\x03\x0a\x01\xff", ProtoError::Utf8),
    ] {
        assert_eq!(open(bytes), Err(error), "{bytes:x?}");
    }
}
