//! Answers of the JSON gateway as etcd writes them: names of the .proto file, what is empty left out, bytes as base64,
//! 64-bit integers as strings.

use std::fmt::Write as _;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A message that can be written.
pub(super) trait Write {
    /// Adds its members to an object.
    fn members(&self, object: &mut Object<'_>);

    /// Writes it.
    fn json(&self, out: &mut String) {
        out.push('{');
        self.members(&mut Object { out, is_empty: true });
        out.push('}');
    }
}

/// An object that is being written.
pub(super) struct Object<'a> {
    out: &'a mut String,
    is_empty: bool,
}

impl Object<'_> {
    /// Adds a field, if it says something.
    pub(super) fn add(&mut self, name: &str, value: &impl Put) {
        if value.is_set() {
            self.name(name);
            value.put(self.out);
        }
    }

    /// Adds a message, also when it is empty: the field of a oneof.
    pub(super) fn add_message(&mut self, name: &str, message: &impl Write) {
        self.name(name);
        message.json(self.out);
    }

    fn name(&mut self, name: &str) {
        if !std::mem::take(&mut self.is_empty) {
            self.out.push(',');
        }
        // A name has no letter that is escaped.
        let _ = write!(self.out, "\"{name}\":");
    }
}

/// A value of a field.
pub(super) trait Put {
    /// Whether it is another one than the field has by itself.
    fn is_set(&self) -> bool;
    fn put(&self, out: &mut String);
}

impl Put for bool {
    fn is_set(&self) -> bool {
        *self
    }

    fn put(&self, out: &mut String) {
        out.push_str(if *self { "true" } else { "false" });
    }
}

impl Put for i64 {
    fn is_set(&self) -> bool {
        *self != 0
    }

    fn put(&self, out: &mut String) {
        let _ = write!(out, "\"{self}\"");
    }
}

impl Put for u64 {
    fn is_set(&self) -> bool {
        *self != 0
    }

    fn put(&self, out: &mut String) {
        let _ = write!(out, "\"{self}\"");
    }
}

impl Put for String {
    fn is_set(&self) -> bool {
        !self.is_empty()
    }

    fn put(&self, out: &mut String) {
        text(self, out);
    }
}

impl Put for Vec<u8> {
    fn is_set(&self) -> bool {
        !self.is_empty()
    }

    fn put(&self, out: &mut String) {
        out.push('"');
        STANDARD.encode_string(self, out);
        out.push('"');
    }
}

impl Put for Vec<Vec<u8>> {
    fn is_set(&self) -> bool {
        !self.is_empty()
    }

    fn put(&self, out: &mut String) {
        list(self, out, Put::put);
    }
}

impl Put for Vec<String> {
    fn is_set(&self) -> bool {
        !self.is_empty()
    }

    fn put(&self, out: &mut String) {
        list(self, out, Put::put);
    }
}

impl<M: Write> Put for Option<M> {
    fn is_set(&self) -> bool {
        self.is_some()
    }

    fn put(&self, out: &mut String) {
        if let Some(message) = self {
            message.json(out);
        }
    }
}

impl<M: Write> Put for Vec<M> {
    fn is_set(&self) -> bool {
        !self.is_empty()
    }

    fn put(&self, out: &mut String) {
        list(self, out, Write::json);
    }
}

fn list<T>(values: &[T], out: &mut String, put: impl Fn(&T, &mut String)) {
    out.push('[');
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        put(value, out);
    }
    out.push(']');
}

/// Writes a text as Go's protojson does: only what JSON cannot have is escaped.
pub(super) fn text(text: &str, out: &mut String) {
    out.push_str(&serde_json::Value::from(text).to_string());
}
