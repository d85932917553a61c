//! Writes a set as `FieldsV1`: members and children of each level in the order of their elements.

use serde_json::{Number, Value};

use crate::{
    path::PathElement,
    set::{Node, Set},
};

/// Returns a set's JSON.
#[must_use]
pub fn write(set: &Set) -> String {
    let mut out = Vec::new();
    write_into(set, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// Appends a set's JSON.
pub fn write_into(set: &Set, out: &mut Vec<u8>) {
    out.push(b'{');
    nodes_into(set.nodes(), true, &mut Vec::new(), out);
    out.push(b'}');
}

fn nodes_into(nodes: &[Node], mut is_first: bool, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
    for node in nodes {
        if !std::mem::take(&mut is_first) {
            out.push(b',');
        }
        scratch.clear();
        element_into(&node.element, scratch);
        escaped_into(scratch, false, out);
        out.extend_from_slice(b":{");
        if !node.children.is_empty() {
            if node.is_member {
                out.extend_from_slice(br#"".":{}"#);
            }
            nodes_into(node.children.nodes(), !node.is_member, scratch, out);
        }
        out.push(b'}');
    }
}

/// Returns the name that an element has in `FieldsV1`.
#[must_use]
pub fn element_text(element: &PathElement) -> String {
    let mut out = Vec::new();
    element_into(element, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

fn element_into(element: &PathElement, out: &mut Vec<u8>) {
    match element {
        PathElement::Field(name) => {
            out.extend_from_slice(b"f:");
            out.extend_from_slice(name.bytes());
        }
        PathElement::Key(fields) => {
            out.extend_from_slice(b"k:{");
            for (at, (name, value)) in fields.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                escaped_into(name.bytes(), false, out);
                out.push(b':');
                value_into(value, out);
            }
            out.push(b'}');
        }
        PathElement::Value(value) => {
            out.extend_from_slice(b"v:");
            value_into(value, out);
        }
        PathElement::Index(index) => out.extend_from_slice(format!("i:{index}").as_bytes()),
    }
}

/// A value as Go's jsoniter writes it.
fn value_into(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(flag) => out.extend_from_slice(if *flag { b"true" } else { b"false" }),
        Value::Number(number) => number_into(number, out),
        Value::String(text) => escaped_into(text.as_bytes(), true, out),
        Value::Array(items) => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                value_into(item, out);
            }
            out.push(b']');
        }
        Value::Object(members) => {
            out.push(b'{');
            for (at, (name, member)) in members.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                escaped_into(name.as_bytes(), true, out);
                out.push(b':');
                value_into(member, out);
            }
            out.push(b'}');
        }
    }
}

/// Floats have an exponent of two digits at least below 1e-6 and from 1e21 on, and no point where they are whole.
fn number_into(number: &Number, out: &mut Vec<u8>) {
    let text = match (number.as_i64(), number.as_f64()) {
        (Some(int), _) => int.to_string(),
        (None, Some(float)) if float != 0.0 && !(1e-6..1e21).contains(&float.abs()) => {
            let text = format!("{float:e}");
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let exponent: i32 = exponent.parse().unwrap_or(0);
            format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
        }
        (None, Some(float)) => float.to_string(),
        (None, None) => number.to_string(),
    };
    out.extend_from_slice(text.as_bytes());
}

/// Appends a quoted string with jsoniter's escapes: `\n`, `\r` and `\t`, other control characters as `\u00xx`; in values also what HTML does not like.
fn escaped_into(bytes: &[u8], is_value: bool, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let is_marked = |byte: u8| byte < 0x20 || matches!(byte, b'"' | b'\\') || (is_value && matches!(byte, b'<' | b'>' | b'&' | 0xe2));
    out.push(b'"');
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| is_marked(*byte)) {
        out.extend_from_slice(&rest[..at]);
        let byte = rest[at];
        let mut taken = 1;
        match (byte, rest.get(at + 1..at + 3)) {
            (b'"' | b'\\', _) => out.extend_from_slice(&[b'\\', byte]),
            (b'\n', _) => out.extend_from_slice(br"\n"),
            (b'\r', _) => out.extend_from_slice(br"\r"),
            (b'\t', _) => out.extend_from_slice(br"\t"),
            (0xe2, Some([0x80, last @ (0xa8 | 0xa9)])) => {
                out.extend_from_slice(if *last == 0xa8 { br"\u2028" } else { br"\u2029" });
                taken = 3;
            }
            (0xe2, _) => out.push(byte),
            _ => {
                out.extend_from_slice(br"\u00");
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
        }
        rest = &rest[at + taken..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}
