//! Large answers in gzip, for clients that take it (spec api-surface §3.6). Lists
//! from the cache come compressed, of shared blocks (`gzip_body`).
//!
//! An answer waits here until 128 KiB of it are known, or its end; then it is compressed while it is sent, a piece at a time, so that neither a large
//! answer nor a slow client makes this hold more than a frame of the body, the encoder's window and one frame of its output.

use std::{
    collections::VecDeque,
    io::Write,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{Error, body::Body, response::Response};
use bytes::Bytes;
use flate2::write::GzEncoder;
use http::{
    HeaderMap, HeaderValue,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, VARY},
};
use http_body::{Body as _, Frame};
use http_body_util::BodyExt;

use super::extras;
use codec::chunk_cache::{LEVEL, PIECE_BYTES};
use server::budget::{Account, Reservation};

/// Larger answers are compressed, bytes (kube-apiserver's `defaultGzipThresholdBytes`).
pub(super) const LARGE_BYTES: usize = 128 << 10;
// What is kept as a run is large whatever stands around it.
const _: () = assert!(codec::list_manifest::BYTES_MIN >= LARGE_BYTES);
/// What an encoder holds, bytes: its window, its hash chains and its tables.
const ENCODER_BYTES: usize = 320 << 10;
/// Compressed bytes that make a frame; only the last is smaller.
pub(super) const FRAME_BYTES: usize = 32 << 10;

/// Whether the client takes gzip: it says exactly that, without a quality, in its first `Accept-Encoding`.
pub(super) fn is_accepted(headers: &HeaderMap) -> bool {
    let asked = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    asked.split(',').any(|token| token.trim() == "gzip")
}

/// Compresses an answer that is marked and large; others pass as they are. What is held for it counts on this account.
pub(super) async fn encode(response: Response, account: &Arc<Account>) -> Response {
    if !extras::get(&response).is_some_and(|extras| extras.offers_gzip) {
        return response;
    }
    // Boxed apart: most requests come by without it.
    Box::pin(decide(response, account)).await
}

async fn decide(response: Response, account: &Arc<Account>) -> Response {
    let is_counted = extras::get(&response).is_some_and(|extras| extras.made.is_some());
    let (mut parts, mut body) = response.into_parts();
    let mut begun = VecDeque::new();
    let mut hold = account.add(ENCODER_BYTES);
    match length(&parts.headers, &body) {
        Some(length) if length <= LARGE_BYTES as u64 => return Response::from_parts(parts, body),
        Some(_) => {}
        None => {
            let mut bytes = 0;
            while bytes <= LARGE_BYTES {
                match body.frame().await.map(|frame| frame.map(Frame::into_data)) {
                    Some(Ok(Ok(data))) => {
                        bytes += data.len();
                        hold.resize(ENCODER_BYTES + bytes);
                        begun.push_back(Ok(data));
                    }
                    // No answer of ours has trailers.
                    Some(Ok(Err(_))) => {}
                    // It is told when its place has come.
                    Some(Err(error)) => {
                        begun.push_back(Err(error));
                        break;
                    }
                    None => return Response::from_parts(parts, small(begun, bytes)),
                }
            }
        }
    }
    tell(&mut parts.headers);
    // A body that was made whole is held until its only frame is compressed.
    let whole = body.size_hint().exact().map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    if begun.is_empty() && !is_counted {
        hold.resize(ENCODER_BYTES + whole);
    }
    let encoder = GzEncoder::new(Vec::new(), LEVEL);
    Response::from_parts(parts, Body::new(Gzip { begun, body, piece: Bytes::new(), encoder: Some(encoder), hold }))
}

/// Says that a body is compressed.
pub(super) fn tell(headers: &mut HeaderMap) {
    headers.remove(CONTENT_LENGTH);
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
}

/// The length of a body: that of its header first, because an answer to HEAD has no other.
fn length(headers: &HeaderMap, body: &Body) -> Option<u64> {
    let told = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    told.or_else(|| body.size_hint().exact())
}

/// A body that came to its end.
fn small(frames: VecDeque<Result<Bytes, Error>>, bytes: usize) -> Body {
    let mut whole = Vec::with_capacity(bytes);
    frames.into_iter().flatten().for_each(|data| whole.extend_from_slice(&data));
    Body::from(whole)
}

/// A body while it is compressed.
struct Gzip {
    /// What came before it was decided.
    begun: VecDeque<Result<Bytes, Error>>,
    body: Body,
    /// What is left of a frame.
    piece: Bytes,
    /// Gone when the end is written.
    encoder: Option<GzEncoder<Vec<u8>>>,
    /// The encoder, and what of the body is here.
    hold: Reservation,
}

impl http_body::Body for Gzip {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        let Some(encoder) = &mut this.encoder else { return Poll::Ready(None) };
        if this.piece.is_empty() {
            let next = match this.begun.pop_front() {
                Some(begun) => Poll::Ready(Some(begun.map(Frame::data))),
                None => Pin::new(&mut this.body).poll_frame(cx),
            };
            match next {
                Poll::Ready(Some(Ok(frame))) => {
                    this.piece = frame.into_data().unwrap_or_default();
                    let begun: usize = this.begun.iter().flatten().map(Bytes::len).sum();
                    this.hold.resize(ENCODER_BYTES + begun + this.piece.len());
                }
                Poll::Ready(Some(Err(error))) => {
                    this.encoder = None;
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Ready(None) => {
                    let encoder = this.encoder.take().expect("just seen");
                    return Poll::Ready(Some(Ok(Frame::data(encoder.finish().expect("a Vec takes all").into()))));
                }
                // What is there goes out: the rest may take its time.
                Poll::Pending if encoder.get_ref().is_empty() => return Poll::Pending,
                Poll::Pending => return Poll::Ready(Some(Ok(Frame::data(mem::take(encoder.get_mut()).into())))),
            }
        }
        let piece = this.piece.split_to(this.piece.len().min(PIECE_BYTES));
        encoder.write_all(&piece).expect("a Vec takes all");
        if encoder.get_ref().len() >= FRAME_BYTES {
            return Poll::Ready(Some(Ok(Frame::data(mem::take(encoder.get_mut()).into()))));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.encoder.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        io::Read,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use flate2::read::GzDecoder;
    use http_body_util::{Full, StreamBody};

    use super::*;

    fn accepts(lines: &[&'static str]) -> bool {
        let mut headers = HeaderMap::new();
        lines.iter().for_each(|line| {
            headers.append(ACCEPT_ENCODING, HeaderValue::from_static(line));
        });
        is_accepted(&headers)
    }

    #[test]
    fn gzip_is_asked_for_by_its_name_alone() {
        for lines in [&["gzip"][..], &["deflate, gzip"], &["gzip , br"], &["br,gzip;q=1, gzip"]] {
            assert!(accepts(lines), "{lines:?}");
        }
        for lines in [&[][..], &["identity"], &["gzip;q=0.5"], &["GZIP"], &["*"], &["x-gzip"], &["deflate", "gzip"], &[""]] {
            assert!(!accepts(lines), "{lines:?}");
        }
    }

    /// Letters in no order: half their size when compressed.
    fn text(bytes: usize) -> Vec<u8> {
        let mut state = 1_u32;
        (0..bytes)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                b'a' + (state >> 28) as u8
            })
            .collect()
    }

    fn marked(body: Body) -> Response {
        let mut response = Response::new(body);
        response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
        extras::of(&mut response).offers_gzip = true;
        response
    }

    async fn encoded(response: Response) -> Response {
        encode(response, &Account::of_a_test()).await
    }

    fn frames(text: &[u8], size: usize) -> Body {
        let frames: Vec<_> = text.chunks(size).map(|frame| Ok::<_, Infallible>(Frame::data(Bytes::copy_from_slice(frame)))).collect();
        Body::new(StreamBody::new(futures_util::stream::iter(frames)))
    }

    async fn whole(response: Response) -> Vec<u8> {
        response.into_body().collect().await.expect("it ends well").to_bytes().to_vec()
    }

    fn inflated(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        GzDecoder::new(bytes).read_to_end(&mut out).expect("gzip");
        out
    }

    async fn is_compressed(response: Response, sent: &[u8]) -> bool {
        let vary: Vec<_> = response.headers().get_all(VARY).iter().cloned().collect();
        let encoding = response.headers().get(CONTENT_ENCODING).cloned();
        if encoding.is_none() {
            assert_eq!(vary, ["Accept"]);
            assert!(whole(response).await == sent, "{} bytes", sent.len());
            return false;
        }
        assert_eq!(
            (encoding.as_ref().map(HeaderValue::as_bytes), vary),
            (Some(&b"gzip"[..]), vec![HeaderValue::from_static("Accept"), HeaderValue::from_static("Accept-Encoding")])
        );
        assert!(!response.headers().contains_key(CONTENT_LENGTH));
        let body = whole(response).await;
        // 10 bytes of head; the eighth of them says how: 4 is the fastest.
        assert_eq!((body[..2].to_vec(), body[8]), (vec![0x1F, 0x8B], 4));
        assert!(inflated(&body) == sent && body.len() < sent.len(), "{} bytes", sent.len());
        true
    }

    #[tokio::test]
    async fn only_what_is_larger_than_128_kib_is_compressed() {
        for (bytes, large) in [(0, false), (131_072, false), (131_073, true), (1_500_000, true)] {
            let text = text(bytes);
            assert_eq!(is_compressed(encoded(marked(Body::new(Full::from(text.clone())))).await, &text).await, large, "{bytes} at once");
            for size in [999, 131_072, 200_000] {
                assert_eq!(is_compressed(encoded(marked(frames(&text, size))).await, &text).await, large, "{bytes} by {size}");
            }
        }
    }

    #[tokio::test]
    async fn any_status_is_compressed_and_nothing_that_is_not_marked() {
        let text = text(200_000);
        let mut response = marked(Body::from(text.clone()));
        *response.status_mut() = http::StatusCode::CONFLICT;
        let response = encoded(response).await;
        assert_eq!(response.status(), 409);
        assert!(is_compressed(response, &text).await);
        let mut watch = marked(frames(&text, 1000));
        extras::of(&mut watch).offers_gzip = false;
        assert!(!is_compressed(encoded(watch).await, &text).await);
    }

    #[tokio::test]
    async fn an_answer_to_head_says_what_a_get_would_have() {
        for (length, large) in [(131_072, false), (131_073, true)] {
            let mut response = marked(Body::empty());
            response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
            let response = encoded(response).await;
            assert_eq!(response.headers().contains_key(CONTENT_ENCODING), large);
            assert_eq!(response.headers().contains_key(CONTENT_LENGTH), !large);
            // Nothing may count the length of the empty body.
            assert_eq!(response.body().size_hint().exact().is_none(), large);
        }
    }

    #[tokio::test]
    async fn a_slow_client_takes_no_more_from_the_body_than_it_reads() {
        let taken = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&taken);
        let text = text(1 << 20);
        let frames = (0..64).map(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(Frame::data(Bytes::from(text.clone())))
        });
        let response = encoded(marked(Body::new(StreamBody::new(futures_util::stream::iter(frames))))).await;
        assert_eq!(taken.load(Ordering::Relaxed), 1, "a frame is enough to decide");
        let mut body = response.into_body();
        let first = body.frame().await.expect("a frame").expect("no error").into_data().expect("data");
        assert!(first.len() >= FRAME_BYTES && first.len() < 2 * (FRAME_BYTES + PIECE_BYTES), "{}", first.len());
        assert_eq!(taken.load(Ordering::Relaxed), 1, "of 1 MiB one frame of output came");
    }

    /// Lists that nobody reads wait here, and a whole answer until it is compressed: neither was counted.
    #[tokio::test]
    async fn what_waits_here_is_counted() {
        let account = Account::of_a_test();
        let whole = encode(marked(Body::new(Full::from(text(1 << 20)))), &account).await;
        assert_eq!(account.held(), ENCODER_BYTES + (1 << 20));
        let list = encode(marked(frames(&text(1 << 20), 100_000)), &account).await;
        assert_eq!(account.held(), 2 * ENCODER_BYTES + (1 << 20) + 200_000);
        drop((whole, list));
        assert_eq!(account.held(), 0);
    }

    #[tokio::test]
    async fn a_body_that_fails_fails_where_it_did() {
        for frames in [1, 4] {
            let frame = || Ok::<_, std::io::Error>(Frame::data(Bytes::from(text(100_000))));
            let mut all: Vec<_> = (0..frames).map(|_| frame()).collect();
            all.push(Err(std::io::ErrorKind::BrokenPipe.into()));
            let response = encoded(marked(Body::new(StreamBody::new(futures_util::stream::iter(all))))).await;
            assert!(response.into_body().collect().await.is_err());
        }
    }
}
