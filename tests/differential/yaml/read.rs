//! Reads documents, one a line in hexadecimal digits, and writes what they say or what is wrong with them: a line of JSON each. `tests/clients/go/yaml`
//! compares that with Go.

use std::io::{BufRead, BufWriter, Write, stdin, stdout};

use serde_json::{Value, json};
use watchcache_go::yaml::reader;

fn main() {
    let mut out = BufWriter::new(stdout().lock());
    for line in stdin().lock().lines() {
        let line = line.expect("hexadecimal digits");
        let bytes: Vec<u8> = line.as_bytes().chunks(2).map(byte).collect();
        let answer = match reader::parse(&bytes) {
            Ok(document) => json!({"value": document.value, "duplicates": document.duplicates}),
            Err(wrong) => json!({"value": Value::Null, "error": wrong.to_string()}),
        };
        writeln!(out, "{answer}").expect("somebody reads");
    }
}

fn byte(digits: &[u8]) -> u8 {
    u8::from_str_radix(std::str::from_utf8(digits).unwrap_or_default(), 16).expect("two hexadecimal digits")
}
