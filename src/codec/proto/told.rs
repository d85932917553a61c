//! What an API server tells as protobuf, as far as who follows it must know: the event around an object, the object's metadata, a list, a `Status`. Objects
//! stay bytes.

use super::{
    error::{ProtoError, Result},
    wire::{LEN, Reader, VARINT},
};

/// A `WatchEvent`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event<'a> {
    /// Its type.
    pub kind: &'a str,
    /// The object, in its envelope.
    pub object: &'a [u8],
}

/// What an object's metadata says of where and when it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its revision.
    pub resource_version: &'a str,
    /// Whether the annotation of this name that was asked about is `true`.
    pub is_annotated: bool,
}

/// A list's message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List<'a> {
    /// Its revision.
    pub resource_version: &'a str,
    /// Where its next page begins.
    pub next: &'a str,
    /// How many objects follow, if that is told.
    pub remaining: Option<u64>,
    /// Its objects' messages, without envelopes.
    pub items: Vec<&'a [u8]>,
}

/// A `Status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status<'a> {
    /// Its HTTP code.
    pub code: u64,
    /// Its text.
    pub message: &'a str,
    /// After how many seconds to ask again.
    pub retry_after_seconds: u64,
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| ProtoError::Utf8)
}

/// Goes over the fields of a message: those with a length are given as bytes, integers as numbers, all others are passed over.
fn fields<'a>(message: &'a [u8], mut field: impl FnMut(u32, &'a [u8], u64) -> Result<()>) -> Result<()> {
    let mut reader = Reader::new(message);
    while let Some((number, wire)) = reader.tag()? {
        match wire {
            LEN => field(number, reader.bytes()?, 0)?,
            VARINT => field(number, b"", reader.varint()?)?,
            wire => reader.skip(wire)?,
        }
    }
    Ok(())
}

impl<'a> Event<'a> {
    /// Reads the message of a watch's frame.
    ///
    /// # Errors
    /// It is none.
    pub fn read(frame: &'a [u8]) -> Result<Self> {
        let mut event = Self::default();
        fields(frame, |number, bytes, _| {
            match number {
                1 => event.kind = text(bytes)?,
                2 => {
                    fields(bytes, |number, bytes, _| {
                        if number == 1 {
                            event.object = bytes;
                        }
                        Ok(())
                    })?;
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(event)
    }
}

impl<'a> Meta<'a> {
    /// Reads the metadata of an object's message, and whether this annotation is `true`.
    ///
    /// # Errors
    /// It is no message of an object.
    pub fn read(message: &'a [u8], annotation: &str) -> Result<Self> {
        let mut meta = Self::default();
        fields(message, |number, bytes, _| {
            if number != 1 {
                return Ok(());
            }
            fields(bytes, |number, bytes, _| {
                match number {
                    1 => meta.name = text(bytes)?,
                    3 => meta.namespace = text(bytes)?,
                    6 => meta.resource_version = text(bytes)?,
                    12 => {
                        let (mut key, mut value) = ("", "");
                        fields(bytes, |number, bytes, _| {
                            match number {
                                1 => key = text(bytes)?,
                                2 => value = text(bytes)?,
                                _ => {}
                            }
                            Ok(())
                        })?;
                        meta.is_annotated |= (key, value) == (annotation, "true");
                    }
                    _ => {}
                }
                Ok(())
            })
        })?;
        Ok(meta)
    }
}

impl<'a> List<'a> {
    /// Reads a list's message.
    ///
    /// # Errors
    /// It is none.
    pub fn read(message: &'a [u8]) -> Result<Self> {
        let mut list = Self::default();
        fields(message, |number, bytes, _| {
            match number {
                1 => fields(bytes, |number, bytes, count| {
                    match number {
                        2 => list.resource_version = text(bytes)?,
                        3 => list.next = text(bytes)?,
                        4 => list.remaining = Some(count),
                        _ => {}
                    }
                    Ok(())
                })?,
                2 => list.items.push(bytes),
                _ => {}
            }
            Ok(())
        })?;
        Ok(list)
    }
}

impl<'a> Status<'a> {
    /// Reads the message of a `Status`.
    ///
    /// # Errors
    /// It is none.
    pub fn read(message: &'a [u8]) -> Result<Self> {
        let mut status = Self::default();
        fields(message, |number, bytes, count| {
            match number {
                3 => status.message = text(bytes)?,
                5 => fields(bytes, |number, _, count| {
                    if number == 5 {
                        status.retry_after_seconds = count;
                    }
                    Ok(())
                })?,
                6 => status.code = count,
                _ => {}
            }
            Ok(())
        })?;
        Ok(status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{envelope_into, field_into, message, open};

    fn of(api_version: &str, kind: &str, json: &str) -> Vec<u8> {
        message(api_version, kind).expect("a message").from_json(json.as_bytes()).expect("an object")
    }

    #[test]
    fn reads_what_go_writes() {
        let pod = of("v1", "Pod", r#"{"metadata":{"name":"a","namespace":"n","resourceVersion":"7","annotations":{"b":"x","c":"true"}}}"#);
        let wanted = Meta { name: "a", namespace: "n", resource_version: "7", is_annotated: true };
        assert_eq!(Meta::read(&pod, "c"), Ok(wanted));
        assert_eq!(Meta::read(&pod, "b"), Ok(Meta { is_annotated: false, ..wanted }));
        let status = of("v1", "Status", r#"{"message":"no","code":410,"details":{"retryAfterSeconds":3}}"#);
        assert_eq!(Status::read(&status), Ok(Status { code: 410, message: "no", retry_after_seconds: 3 }));
        let list = of(
            "v1",
            "PodList",
            r#"{"metadata":{"resourceVersion":"9","continue":"x","remainingItemCount":4},"items":[{"metadata":{"name":"a"}},{}]}"#,
        );
        let list = List::read(&list).expect("a list");
        assert_eq!((list.resource_version, list.next, list.remaining, list.items.len()), ("9", "x", Some(4), 2));
        assert_eq!(Meta::read(list.items[0], "c").map(|meta| meta.name), Ok("a"));
        let (mut object, mut extension, mut event) = (Vec::new(), Vec::new(), Vec::new());
        envelope_into("v1", "Pod", &pod, &mut object);
        field_into(1, &object, &mut extension);
        field_into(1, b"ADDED", &mut event);
        field_into(2, &extension, &mut event);
        let event = Event::read(&event).expect("an event");
        assert_eq!((event.kind, open(event.object).map(|unknown| unknown.raw)), ("ADDED", Ok(&pod[..])));
    }

    #[test]
    fn half_messages_are_none() {
        let pod = of("v1", "Pod", r#"{"metadata":{"name":"a","namespace":"n"}}"#);
        Meta::read(&pod[..pod.len() - 1], "").expect_err("it ends early");
        Event::read(b"\x0a\x05ADD").expect_err("it ends early");
        Event::read(b"{\"type\":\"ADDED\"}").expect_err("JSON");
        List::read(b"<html>").expect_err("HTML");
    }
}
