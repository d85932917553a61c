//! An answer as it came on the wire, and what makes two of them the same.

use std::io::Read;

use flate2::read::GzDecoder;

use super::symbols::symbolic;
use crate::{client::Whole, protobuf::readable};

/// Headers whose values must agree; of `Audit-Id`, which is random, only whether it is there.
const HEADERS: [&str; 7] =
    ["content-type", "content-encoding", "retry-after", "cache-control", "x-content-type-options", "vary", "warning"];
/// Bytes of a body shown around the first difference.
const SHOWN: usize = 240;

/// Status, headers that matter, and the body with symbols for what may differ.
pub(super) struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl Answer {
    /// Takes what is compared.
    pub(super) fn of(whole: Whole) -> Self {
        let body = inflated(&whole);
        let headers = whole
            .headers
            .into_iter()
            .filter(|(name, _)| HEADERS.contains(&name.as_str()) || name == "audit-id")
            .map(|(name, value)| if name == "audit-id" && value.len() == 36 { (name, "random".to_owned()) } else { (name, value) });
        let mut headers: Vec<_> = headers.collect();
        headers.sort();
        let body = readable(&headers, &body);
        Self { status: whole.status, headers, body: symbolic(&body) }
    }

    /// Returns whether memory was older than it should be (`Warning: 110`): a busy machine follows late.
    pub(super) fn is_stale(&self) -> bool {
        self.headers.iter().any(|(name, value)| name == "warning" && value.starts_with("110 "))
    }

    /// What differs; ours is `self`.
    pub(super) fn differs_from(&self, theirs: &Self) -> Option<String> {
        let mut text = String::new();
        if self.status != theirs.status {
            text += &format!("  status: ours {}, theirs {}\n", self.status, theirs.status);
        }
        if self.headers != theirs.headers {
            text += &format!("  headers: ours {:?}, theirs {:?}\n", self.headers, theirs.headers);
        }
        if self.body != theirs.body {
            let same = self.body.bytes().zip(theirs.body.bytes()).take_while(|(a, b)| a == b).count();
            let from = same.saturating_sub(40);
            let part = |body: &str| String::from_utf8_lossy(&body.as_bytes()[from..body.len().min(from + SHOWN)]).into_owned();
            text += &format!("  body from byte {from}: ours   {:?}\n    theirs {:?}\n", part(&self.body), part(&theirs.body));
        }
        (!text.is_empty()).then_some(text)
    }
}

/// The body as it was before gzip. What is no gzip stays, for a person to see.
fn inflated(whole: &Whole) -> Vec<u8> {
    let mut body = Vec::new();
    let zipped = whole.header("content-encoding").any(|encoding| encoding == "gzip") && !whole.body.is_empty();
    match GzDecoder::new(&*whole.body).read_to_end(&mut body) {
        Ok(_) if zipped => body,
        _ => whole.body.clone(),
    }
}
