//! The protobuf of lists, watch events and stored values, as far as a watcher looks into it: fields by number, no schema.

use anyhow::{Context, Result, ensure};

use super::{Line, Listing, Object, kind_of, revision};
use crate::{
    object::{PAYLOAD, Resource, SEQ},
    truth::Value,
};

/// What Kubernetes' protobuf begins with.
const MAGIC: &[u8] = b"k8s\0";
/// The annotation of the bookmark that ends the initial events.
const END: &str = "k8s.io/initial-events-end";

/// A message: its fields by number, in the order in which they stand.
struct Message<'a>(Vec<(u64, Field<'a>)>);

#[derive(Clone, Copy)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Message<'a> {
    fn read(mut bytes: &'a [u8]) -> Result<Self> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let tag = varint(&mut bytes)?;
            let field = match tag & 7 {
                0 => Field::Number(varint(&mut bytes)?),
                1 => Field::Bytes(taken(&mut bytes, 8)?),
                2 => {
                    let length = varint(&mut bytes)?;
                    Field::Bytes(taken(&mut bytes, length)?)
                }
                5 => Field::Bytes(taken(&mut bytes, 4)?),
                other => anyhow::bail!("wire type {other}"),
            };
            fields.push((tag >> 3, field));
        }
        Ok(Self(fields))
    }

    fn all(&self, number: u64) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter_map(move |(of, field)| match field {
            Field::Bytes(bytes) if *of == number => Some(*bytes),
            _ => None,
        })
    }

    fn text(&self, number: u64) -> Result<&'a str> {
        Ok(std::str::from_utf8(self.all(number).next().unwrap_or_default())?)
    }

    /// A message in a field; one without fields where there is none.
    fn inner(&self, number: u64) -> Result<Message<'a>> {
        Message::read(self.all(number).next().unwrap_or_default())
    }

    fn number(&self, number: u64) -> Option<u64> {
        self.0.iter().find_map(|(of, field)| match field {
            Field::Number(value) if *of == number => Some(*value),
            _ => None,
        })
    }

    /// The value of a key in a map of strings.
    fn entry(&self, number: u64, key: &str) -> Result<Option<&'a str>> {
        for entry in self.all(number) {
            let entry = Message::read(entry)?;
            if entry.text(1)? == key {
                return entry.text(2).map(Some);
            }
        }
        Ok(None)
    }
}

/// The bytes of what is in an envelope.
fn opened(bytes: &[u8]) -> Result<&[u8]> {
    let envelope = bytes.strip_prefix(MAGIC).with_context(|| format!("no envelope: {:?}", &bytes[..bytes.len().min(40)]))?;
    Message::read(envelope)?.all(2).next().context("an envelope has something in it")
}

/// An object of a resource; field numbers are those of its Go type.
fn object(bytes: &[u8], resource: Resource) -> Result<Object<'_>> {
    let whole = Message::read(bytes)?;
    let metadata = whole.inner(1)?;
    let is_whole = match resource {
        Resource::Autoscalers => {
            let mut conditions = whole.inner(3)?.all(6).map(Message::read).collect::<Result<Vec<_>>>()?.into_iter();
            conditions.all(|condition| condition.number(6).is_some())
        }
        Resource::StatefulSets => whole.inner(2)?.inner(7)?.inner(2)?.all(2).next().is_some(),
        Resource::ConfigMaps | Resource::Records => true,
    };
    Ok(Object {
        namespace: metadata.text(3)?,
        name: metadata.text(1)?,
        revision: metadata.text(6)?,
        tier: metadata.entry(11, "tier")?.unwrap_or_default(),
        seq: metadata.entry(12, SEQ)?.unwrap_or_default(),
        payload: metadata.entry(12, PAYLOAD)?.unwrap_or_default(),
        is_whole,
    })
}

/// Reads a frame of a watch without its length.
pub(super) fn line(bytes: &[u8], resource: Resource) -> Result<Line> {
    let event = Message::read(bytes)?;
    let inside = event.inner(2)?.all(1).next().context("an event has an object")?;
    let inside = opened(inside)?;
    match event.text(1)? {
        "ERROR" => {
            let status = Message::read(inside)?;
            Ok(Line::Error(u16::try_from(status.number(6).unwrap_or(0))?, status.text(3)?.to_owned()))
        }
        "BOOKMARK" => {
            let metadata = Message::read(inside)?.inner(1)?;
            Ok(Line::Bookmark(revision(metadata.text(6)?, "a bookmark")?, metadata.entry(12, END)?.is_some()))
        }
        other => object(inside, resource)?.changed(kind_of(other)?),
    }
}

/// Reads a list.
pub(super) fn list(bytes: &[u8], resource: Resource) -> Result<Listing> {
    let list = Message::read(opened(bytes)?)?;
    Listing::of(revision(list.inner(1)?.text(2)?, "a list")?, list.all(2).map(|item| object(item, resource)))
}

/// The revision of a list, of whatever objects.
pub(crate) fn list_revision(bytes: &[u8]) -> Result<String> {
    Ok(Message::read(opened(bytes)?)?.inner(1)?.text(2)?.to_owned())
}

/// What a value in etcd says: what is digested, the sequence number, and whether it has the fields that the newer of two releases has.
pub(crate) fn stored(bytes: &[u8], resource: Resource) -> Result<(Value, u64, bool)> {
    let object = object(opened(bytes)?, resource)?;
    let tier = crate::object::TIERS.iter().position(|tier| *tier == object.tier).with_context(|| format!("tier {:?}", object.tier))?;
    let digest = crate::object::digest(object.tier, object.seq, object.payload);
    Ok((Value { tier: u8::try_from(tier)?, digest }, object.seq.parse()?, object.is_whole))
}

fn varint(bytes: &mut &[u8]) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().context("a number ends early")?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(value);
        }
    }
    anyhow::bail!("a number of more than 64 bits")
}

fn taken<'a>(bytes: &mut &'a [u8], length: u64) -> Result<&'a [u8]> {
    let length = usize::try_from(length)?;
    ensure!(length <= bytes.len(), "a field of {length} bytes, and {} are left", bytes.len());
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{history::Kind, object::Draft, wire::Body};

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let length = bytes.len();
        let mut out = vec![number << 3 | 2];
        if length >= 0x80 {
            out.push(u8::try_from(length & 0x7f).expect("seven bits") | 0x80);
        }
        out.push(u8::try_from(if length >= 0x80 { length >> 7 } else { length }).expect("short"));
        [out, bytes.to_vec()].concat()
    }

    fn entry(key: &str, value: &str) -> Vec<u8> {
        [field(1, key.as_bytes()), field(2, value.as_bytes())].concat()
    }

    fn enveloped(message: &[u8]) -> Vec<u8> {
        [MAGIC, &field(1, b"\x0a\x02v1"), &field(2, message)].concat()
    }

    /// An autoscaler with two conditions, of which the second has the field or not.
    fn autoscaler(draft: &Draft, is_whole: bool) -> Vec<u8> {
        let payload = draft.metadata()["annotations"][PAYLOAD].as_str().expect("text").to_owned();
        let metadata = [
            field(1, draft.name.as_bytes()),
            field(3, draft.namespace.as_bytes()),
            field(6, b"12"),
            field(11, &entry("tier", "b")),
            field(12, &entry(SEQ, &draft.seq.to_string())),
            field(12, &entry(PAYLOAD, &payload)),
        ];
        let second: &[u8] = if is_whole { b"\x0a\x01B\x30\x00" } else { b"\x0a\x01B" };
        let status = [field(6, b"\x0a\x01A\x30\x05"), field(6, second)].concat();
        [field(1, &metadata.concat()), field(3, &status)].concat()
    }

    #[test]
    fn events_lists_and_stored_values_are_read() {
        let draft = Draft { namespace: "faults-1".into(), name: "x".into(), tier: 1, seq: 9, payload_bytes: 8 };
        let resource = Resource::Autoscalers;
        for is_whole in [true, false] {
            let object = autoscaler(&draft, is_whole);
            let frame = [field(1, b"MODIFIED"), field(2, &field(1, &enveloped(&object)))].concat();
            let Ok(Line::Change(event, body)) = line(&frame, resource) else { panic!("a change") };
            assert_eq!((event.kind, event.key, event.revision, event.digest), (Kind::Modified, draft.id(), 12, draft.digest()));
            assert_eq!(body, Body { seq: 9, is_whole });
            let listed = list(&enveloped(&[field(1, &field(2, b"44")), field(2, &object)].concat()), resource).expect("a list");
            assert_eq!((listed.revision, listed.items[0].digest, listed.lesser.is_empty()), (44, draft.digest(), is_whole));
            assert_eq!(stored(&enveloped(&object), resource).expect("a value"), (Value { tier: 1, digest: draft.digest() }, 9, is_whole));
        }
    }

    #[test]
    fn what_is_cut_off_or_none_is_refused() {
        let draft = Draft { namespace: "faults-1".into(), name: "x".into(), tier: 1, seq: 9, payload_bytes: 8 };
        let whole = enveloped(&autoscaler(&draft, true));
        assert!((0..whole.len()).all(|length| stored(&whole[..length], Resource::Autoscalers).is_err()));
        assert!(line(b"\x0a\x03NEW", Resource::Autoscalers).is_err() && list(b"{}", Resource::StatefulSets).is_err());
        assert!(Message::read(&[0x80; 11]).is_err());
    }
}
