//! Kubernetes' protobuf and JSON, each made of the other, for every kind that has a message.
//!
//! ```text
//! k8s\0 envelope → open → Unknown { kind, raw }      message(apiVersion, kind) → Message
//! raw  → Message::to_json   → the JSON that kube-apiserver prints of it
//! JSON → Message::from_json → the bytes that Go's generated code makes of it
//! ```

mod backward;
mod decode;
mod encode;
mod envelope;
mod error;
mod raw;
mod schema;
mod tape;
pub mod told;
mod unknown_fields;
mod wire;

#[cfg(test)]
mod golden;
#[cfg(test)]
mod lossless;
#[cfg(test)]
mod tests;

pub use envelope::{ENVELOPE_TAIL, PREFIX, Unknown, envelope_head_into, envelope_into, envelope_len, list_meta_into, open};
pub use error::ProtoError;
pub use unknown_fields::UnknownFields;
pub use wire::{field_head_into, field_into, field_len};

use decode::Fields;
use schema::{KindOf, SCHEMA};

use super::encode::string_into;

/// Messages inside each other, and JSON's arrays and objects that stand for them: the limit of recursion that `serde_json` has by default, by which what
/// is decoded can be read.
pub const MESSAGE_DEPTH_MAX: usize = 128;

/// The message of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message(&'static KindOf);

/// Finds the message of a kind of any minor; none for custom resources and for kinds that have no protobuf (`Table`).
#[must_use]
pub fn message(api_version: &str, kind: &str) -> Option<Message> {
    SCHEMA.kind(api_version, kind).map(|index| Message(&SCHEMA.kinds[index]))
}

impl Message {
    /// Whether the minor as which this server speaks has it.
    #[must_use]
    pub fn is_in_law(self) -> bool {
        self.0.in_law
    }

    /// Whether kube-apiservers of other minors print an object of it otherwise, whatever it has.
    #[must_use]
    pub fn is_printed_otherwise(self) -> bool {
        SCHEMA.is_printed_otherwise(self.0.message)
    }

    /// Whether every minor whose schema is here has the same fields in it, at any depth.
    #[must_use]
    pub fn is_the_same_in_all(self) -> bool {
        SCHEMA.is_the_same_in_all(self.0.message)
    }

    /// Appends what a client sent as compact JSON, kind and apiVersion first, without a newline. Fields that the minor as which this server speaks does not
    /// have are passed over.
    ///
    /// # Errors
    /// The bytes are no such message, or more JSON than `bytes_max`. What was appended by then is taken back.
    pub fn to_json(self, raw: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Result<(), ProtoError> {
        self.json_into(Fields::OfLaw, raw, bytes_max, out).map(drop)
    }

    /// Appends what is stored in the same way, with the fields of every minor. Returns what it has besides.
    ///
    /// # Errors
    /// As in [`Message::to_json`].
    pub fn stored_to_json(self, raw: &[u8], out: &mut Vec<u8>) -> Result<UnknownFields, ProtoError> {
        self.json_into(Fields::All, raw, usize::MAX, out)
    }

    fn json_into(self, fields: Fields, raw: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Result<UnknownFields, ProtoError> {
        let start = out.len();
        let end = start.saturating_add(bytes_max);
        out.extend_from_slice(b"{\"kind\":");
        string_into(self.0.kind, out);
        if !self.0.api_version.is_empty() {
            out.extend_from_slice(b",\"apiVersion\":");
            string_into(self.0.api_version, out);
        }
        let done = decode::members_into((&SCHEMA, self.0.message), fields, self.0.is_list(), raw, end, out);
        match done {
            Ok(_) => out.push(b'}'),
            Err(_) => out.truncate(start),
        }
        done
    }

    /// The message of an object; members that it does not have, kind and apiVersion among them, are left out. Of a member that stands there twice the last
    /// one counts. (Go merges the two, where they are objects.)
    ///
    /// # Errors
    /// No JSON, or a member that cannot be what it is in the message.
    pub fn from_json(self, json: &[u8]) -> Result<Vec<u8>, ProtoError> {
        encode::message(self.0.message, json, false)
    }

    /// The same of an object without its first bracket, kind and apiVersion: the tail of a stored one.
    ///
    /// # Errors
    /// As in [`Message::from_json`].
    pub fn from_tail(self, tail: &[u8]) -> Result<Vec<u8>, ProtoError> {
        encode::message(self.0.message, tail, true)
    }
}
