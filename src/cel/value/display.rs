//! Values as errors show them, which is how Go prints them with `%v`.

use std::fmt;

use super::{Key, List, Map, Outcome, Value, number::double_text, time::duration_text};

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Uint(value) => value.fmt(f),
            Self::Double(value) => f.write_str(&double_text(*value)),
            Self::String(text) => f.write_str(text),
            Self::Bytes(bytes) => {
                let numbers: Vec<_> = bytes.iter().map(u8::to_string).collect();
                write!(f, "[{}]", numbers.join(" "))
            }
            Self::Timestamp(time) => time.fmt(f),
            Self::Duration(nanos) => f.write_str(&duration_text(*nanos)),
            Self::Type(name) => f.write_str(name),
            Self::List(list) => list.fmt(f),
            Self::Map(map) => map.fmt(f),
            Self::Optional(Some(value)) => write!(f, "optional({value})"),
            Self::Optional(None) => f.write_str("optional.none()"),
            Self::Opaque(opaque) => write!(f, "{opaque:?}"),
            Self::Object(object) => object.fmt(f),
            Self::Unknown(json) => json.fmt(f),
        }
    }
}

/// Writes a value, or the error that stands in its place.
fn show(outcome: &Outcome<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match outcome {
        Ok(value) => fmt::Display::fmt(value, f),
        Err(error) => fmt::Display::fmt(error, f),
    }
}

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (at, element) in self.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { ", " })?;
            show(&element, f)?;
        }
        f.write_str("]")
    }
}

impl fmt::Display for Map<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (at, (key, value)) in self.entries().into_iter().enumerate() {
            write!(f, "{}{key}: ", if at == 0 { "" } else { ", " })?;
            show(&value, f)?;
        }
        f.write_str("}")
    }
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Uint(value) => value.fmt(f),
            Self::Double(bits) => f.write_str(&double_text(f64::from_bits(*bits))),
            Self::Text(text) => f.write_str(text),
            Self::Unequal(at) => at.fmt(f),
        }
    }
}
