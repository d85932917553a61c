//! What requests may hold: a message has its part of a budget before its bytes come, until it is answered.
//! In a stream it has it until the next message comes.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tonic::Status;

use super::budget::{Account, Hold};

/// Bytes of a message that is charged to nobody: a client must be heard beside others that send much.
const FREE_BYTES: usize = 16 << 10;
/// Bytes before a message of gRPC: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// The body of a request.
struct Metered {
    body: Body,
    account: Account,
    /// The number of the message among what the connection waits for.
    number: u64,
    held: Held,
    reading: Reading,
}

/// The part of the message that came last.
#[derive(Clone, Default)]
pub(super) struct Held(Arc<Mutex<Option<Hold>>>);

/// Where a body is.
enum Reading {
    /// Bytes of a prefix that have come.
    Prefix([u8; PREFIX_BYTES], usize),
    /// Bytes of a message that are to come.
    Message(usize),
    /// A body that is one message.
    Whole,
}

/// Has the messages of a request charged; they are, until the body and what is returned are dropped.
///
/// # Errors
/// There is no room for a body that is one message.
pub(super) fn metered(request: Request, account: Account, whole_bytes_max: usize) -> Result<(Request, Held), Status> {
    let held = Held::default();
    let headers = request.headers();
    let is_grpc = headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    let reading = if is_grpc {
        Reading::Prefix([0; PREFIX_BYTES], 0)
    } else {
        let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        // A GET has no body, and says nothing of its length.
        let unsaid = if headers.contains_key(header::TRANSFER_ENCODING) { whole_bytes_max } else { 0 };
        held.charge(&account, length.unwrap_or(unsaid).min(whole_bytes_max))?;
        Reading::Whole
    };
    let number = account.number();
    let of_body = held.clone();
    Ok((request.map(|body| Body::new(Metered { body, account, number, held: of_body, reading })), held))
}

impl Held {
    fn charge(&self, account: &Account, bytes: usize) -> Result<(), Status> {
        let mut held = self.0.lock();
        // The message before it is done.
        *held = None;
        if bytes > FREE_BYTES {
            *held = Some(account.take_in(bytes)?);
        }
        Ok(())
    }
}

impl Metered {
    /// Notes what comes, and charges each message at its prefix.
    fn note(&mut self, mut bytes: &[u8]) -> Result<(), Status> {
        while !bytes.is_empty() {
            match &mut self.reading {
                Reading::Whole => return Ok(()),
                Reading::Message(left) => {
                    let taken = bytes.len().min(*left);
                    *left -= taken;
                    bytes = &bytes[taken..];
                    if *left == 0 {
                        self.account.note(self.number, None);
                        self.reading = Reading::Prefix([0; PREFIX_BYTES], 0);
                    }
                }
                Reading::Prefix(prefix, filled) => {
                    let taken = bytes.len().min(PREFIX_BYTES - *filled);
                    prefix[*filled..*filled + taken].copy_from_slice(&bytes[..taken]);
                    *filled += taken;
                    bytes = &bytes[taken..];
                    if *filled == PREFIX_BYTES {
                        let [_, length @ ..] = *prefix;
                        let length = u32::from_be_bytes(length) as usize;
                        self.held.charge(&self.account, length)?;
                        if length > FREE_BYTES {
                            self.account.note(self.number, Some(Instant::now()));
                        }
                        self.reading = if length == 0 { Reading::Prefix([0; PREFIX_BYTES], 0) } else { Reading::Message(length) };
                    }
                }
            }
        }
        Ok(())
    }
}

impl HttpBody for Metered {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
            && let Err(status) = self.note(data)
        {
            return Poll::Ready(Some(Err(axum::Error::new(status))));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        self.account.note(self.number, None);
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use futures_util::stream;

    use super::*;

    const LIMIT: usize = 1 << 20;

    fn message(bytes: usize) -> Vec<u8> {
        let length = u32::try_from(bytes).expect("small").to_be_bytes();
        [&[0][..], &length, &vec![7; bytes]].concat()
    }

    fn request(kind: &str, pieces: Vec<Vec<u8>>) -> Request {
        let pieces = pieces.into_iter().map(|piece| Ok::<_, std::io::Error>(Bytes::from(piece)));
        Request::builder().header("content-type", kind).body(Body::from_stream(stream::iter(pieces))).expect("a request")
    }

    /// Whether the account has room for so much more.
    fn has_room(account: &Account, bytes: usize) -> bool {
        account.take_in(bytes).is_ok()
    }

    #[tokio::test]
    async fn a_message_is_charged_until_it_is_answered() {
        let account = Account::default();
        let all = usize::MAX;
        for size in [1, 3, 1000, 1 << 20] {
            let bytes = [message(10), message(FREE_BYTES + 1)].concat();
            let pieces = bytes.chunks(size).map(<[u8]>::to_vec).collect();
            let (request, held) = metered(request("application/grpc", pieces), account.clone(), LIMIT).expect("room");
            assert!(has_room(&account, all), "nothing has come yet");
            assert_eq!(to_bytes(request.into_body(), usize::MAX).await.expect("read"), bytes);
            assert!(!has_room(&account, all), "its answer is not there yet, in pieces of {size}");
            drop(held);
            assert!(has_room(&account, all));
        }
    }

    #[tokio::test]
    async fn what_has_no_room_is_refused_before_it_comes() {
        let account = Account::default();
        let _all = account.take_in(usize::MAX).expect("room");
        let large = request("application/grpc", vec![message(FREE_BYTES + 1)[..PREFIX_BYTES].to_vec()]);
        let (large, _held) = metered(large, account.clone(), LIMIT).expect("nothing has come yet");
        let error = to_bytes(large.into_body(), usize::MAX).await.expect_err("refused");
        assert!(format!("{error:?}").contains("too many requests"), "{error:?}");
        let small = request("application/grpc", vec![message(FREE_BYTES)]);
        let (small, _held) = metered(small, account.clone(), LIMIT).expect("free");
        to_bytes(small.into_body(), usize::MAX).await.expect("free");
        let mut json = request("application/json", vec![]);
        json.headers_mut().insert("content-length", (FREE_BYTES + 1).into());
        assert!(metered(json, account, LIMIT).is_err());
    }
}
