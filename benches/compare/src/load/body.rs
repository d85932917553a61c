//! The body of an answer, read to its end and counted: objects, bytes, where the next page begins. Parses no JSON and no protobuf.

use std::io::{self, Write};

use anyhow::{Result, bail};
use flate2::write::MultiGzDecoder;
use http::Response;
use http::header::CONTENT_ENCODING;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use memchr::{memchr, memmem};

use super::Form;
use super::stamp::MarkCounter;

/// The annotation of the bookmark that ends the initial events of a watch (KEP-3157); it is in the bytes of JSON and of protobuf.
const INITIAL_EVENTS_END: &[u8] = b"k8s.io/initial-events-end";

/// Bytes at the beginning of a body that hold its list metadata.
const HEAD_BYTES: usize = 1024;

/// What came.
pub(super) struct Drained {
    /// Bytes after inflating.
    pub(super) plain_bytes: u64,
    pub(super) wire_bytes: u64,
    pub(super) objects: u64,
    pub(super) compressed: bool,
    /// The token of the next page of a list in JSON.
    pub(super) next: Option<String>,
}

/// Reads an answer to its end, or a watch to the end of its initial events, inflating what is compressed.
pub(super) async fn drain(answer: Response<Incoming>, form: Form, is_watch: bool) -> Result<Drained> {
    let compressed = answer.headers().get(CONTENT_ENCODING).is_some_and(|encoding| encoding == "gzip");
    let mut body = answer.into_body();
    let mut wire_bytes = 0;
    let mut plain = Counted::of(form);
    let mut inflating = MultiGzDecoder::new(Counted::of(form));
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame?.into_data() else { continue };
        wire_bytes += piece.len() as u64;
        if compressed {
            inflating.write_all(&piece)?;
        } else {
            plain.write_all(&piece)?;
        }
        if is_watch && plain.ends.marks > 0 {
            break;
        }
    }
    let counted = if compressed { inflating.finish()? } else { plain };
    if is_watch && counted.ends.marks == 0 {
        bail!("the watch ended before its initial events did");
    }
    let next = next_page(&counted.head);
    Ok(Drained { plain_bytes: counted.objects.bytes, wire_bytes, objects: counted.objects.marks, compressed, next })
}

struct Counted {
    objects: MarkCounter,
    ends: MarkCounter,
    head: Vec<u8>,
}

impl Counted {
    fn of(form: Form) -> Self {
        Self { objects: MarkCounter::of(form.mark()), ends: MarkCounter::of(INITIAL_EVENTS_END), head: Vec::new() }
    }
}

impl Write for Counted {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let missing = HEAD_BYTES.saturating_sub(self.head.len()).min(piece.len());
        self.head.extend_from_slice(&piece[..missing]);
        self.ends.write_all(piece)?;
        self.objects.write(piece)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The `continue` token of a list's metadata, which is URL-safe base64: nothing in it is escaped.
fn next_page(head: &[u8]) -> Option<String> {
    const NAME: &[u8] = br#""continue":""#;
    let token = &head[memmem::find(head, NAME)? + NAME.len()..];
    let token = &token[..memchr(b'"', token)?];
    Some(String::from_utf8_lossy(token).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_the_next_page_are_found_in_pieces_of_any_size() {
        let table = br#"{"kind":"Table","metadata":{"resourceVersion":"7","continue":"eyJ2Ig"},"rows":[{"object":{"kind":"PartialObjectMetadata"}},{"object":{"kind":"PartialObjectMetadata"}}]}"#;
        for size in 1..table.len() {
            let mut counted = Counted::of(Form::Table);
            for piece in table.chunks(size) {
                counted.write_all(piece).expect("counting never fails");
            }
            assert_eq!((counted.objects.marks, counted.ends.marks), (2, 0), "pieces of {size}");
            assert_eq!(next_page(&counted.head).as_deref(), Some("eyJ2Ig"));
        }
        assert_eq!(next_page(br#"{"metadata":{"resourceVersion":"7"}}"#), None);
    }

    #[test]
    fn the_end_of_initial_events_is_found() {
        let mut counted = Counted::of(Form::Protobuf);
        counted.write_all(b"\0\0\0\x20\x0a\x08BOOKMARK..k8s.io/initial-").expect("counting never fails");
        assert_eq!(counted.ends.marks, 0);
        counted.write_all(b"events-end").expect("counting never fails");
        assert_eq!(counted.ends.marks, 1);
    }
}
