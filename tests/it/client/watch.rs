//! A watch as a client reads it: lines that are events, each kept byte for byte. Does not reconnect.

use std::io;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::wire::Connection;
use crate::guarantees::{Change, Item, Kind, Seen};

/// An open watch.
pub(crate) struct Watch {
    connection: Connection,
    buffer: Vec<u8>,
    /// Where the next line begins in `buffer`.
    at: usize,
}

/// One event: its line, and what it says.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// Without the newline.
    pub(crate) line: Vec<u8>,
    pub(crate) seen: Seen,
}

impl Watch {
    pub(super) fn new(connection: Connection) -> Self {
        Self { connection, buffer: Vec::new(), at: 0 }
    }

    /// The next event; `None` when the stream has ended as HTTP wants it. Cancel-safe: what was read stays.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Frame>> {
        self.next_line().await?.map(frame).transpose()
    }

    /// The next line without its newline, whatever it says; otherwise as `next`.
    pub(crate) async fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut searched = self.at;
        loop {
            if let Some(length) = memchr::memchr(b'\n', &self.buffer[searched..]) {
                let line = self.buffer[self.at..searched + length].to_vec();
                self.at = searched + length + 1;
                return Ok(Some(line));
            }
            self.buffer.drain(..self.at);
            self.at = 0;
            searched = self.buffer.len();
            if !self.connection.read_body(&mut self.buffer).await? {
                return if self.buffer.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        }
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Metadata {
    metadata: Meta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    resource_version: String,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Status {
    code: u16,
    #[serde(default)]
    message: String,
}

fn frame(line: Vec<u8>) -> io::Result<Frame> {
    let event: Event<'_> = serde_json::from_slice(&line)?;
    let seen = match event.kind {
        "ADDED" => changed(Kind::Added, event.object)?,
        "MODIFIED" => changed(Kind::Modified, event.object)?,
        "DELETED" => changed(Kind::Deleted, event.object)?,
        "BOOKMARK" => {
            let Metadata { metadata } = serde_json::from_str(event.object.get())?;
            let initial_end = metadata.annotations.get("k8s.io/initial-events-end").is_some_and(|v| v == "true");
            Seen::Bookmark { revision: revision(&metadata.resource_version)?, initial_end }
        }
        "ERROR" => {
            let Status { code, message } = serde_json::from_str(event.object.get())?;
            Seen::Error { code, message }
        }
        other => return Err(io::Error::new(io::ErrorKind::InvalidData, format!("an event of type {other:?}"))),
    };
    Ok(Frame { line, seen })
}

fn changed(kind: Kind, object: &RawValue) -> io::Result<Seen> {
    Ok(Seen::Event(Change { kind, item: item_of(object.get())? }))
}

/// An object's key, revision and bytes.
pub(crate) fn item_of(object: &str) -> io::Result<Item> {
    let Metadata { metadata } = serde_json::from_str(object)?;
    let key = format!("{}/{}", metadata.namespace, metadata.name);
    Ok(Item { key, revision: revision(&metadata.resource_version)?, body: object.as_bytes().to_vec() })
}

pub(super) fn revision(text: &str) -> io::Result<u64> {
    text.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("resourceVersion {text:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_as_they_are_written() {
        let line = br#"{"type":"DELETED","object":{"metadata":{"name":"a","namespace":"n","resourceVersion":"7"}}}"#;
        let Ok(Frame { seen: Seen::Event(change), .. }) = frame(line.to_vec()) else { panic!("an event with an object") };
        assert_eq!((change.kind, change.item.key.as_str(), change.item.revision), (Kind::Deleted, "n/a", 7));
        let line =
            br#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        assert_eq!(frame(line.to_vec()).expect("a bookmark").seen, Seen::Bookmark { revision: 9, initial_end: true });
        let line = br#"{"type":"ERROR","object":{"kind":"Status","message":"m","code":410}}"#;
        assert_eq!(frame(line.to_vec()).expect("an error").seen, Seen::Error { code: 410, message: "m".into() });
        assert!(frame(br#"{"type":"OTHER","object":{}}"#.to_vec()).is_err());
    }
}
