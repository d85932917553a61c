//! What each frame of a client comes to, and what is written for it.

use proptest::prelude::*;

use super::*;
use crate::{
    hpack::{Decoder, encode_field},
    wasted::WASTED_MAX,
};

const LIMITS: Limits = Limits { streams_max: 3, header_bytes_max: 2_000, stream_window: 1_000, connection_window: 70_000, faults_max: 5 };

/// A client by hand, and the server that it speaks to.
struct Pair {
    server: Server<u32>,
    out: Vec<u8>,
}

/// A frame that the server wrote: kind, flags, stream, payload.
type Frame = (u8, u8, u32, Vec<u8>);

impl Pair {
    /// The client has sent its preface and its settings, and has read the server's.
    fn open() -> Self {
        Self::within(LIMITS)
    }

    fn within(limits: Limits) -> Self {
        let mut out = Vec::new();
        let mut pair = Self { server: Server::new(limits, &mut out), out: Vec::new() };
        assert_eq!(pair.say(&frame(kind::SETTINGS, 0, 0, &[])), Ok(vec![]));
        assert_eq!(pair.said(), [(kind::SETTINGS, flag::ACK, 0, vec![])]);
        pair
    }

    /// What happens when the client says this; told as text.
    fn say(&mut self, mut bytes: &[u8]) -> Result<Vec<String>, Code> {
        let mut events = Vec::new();
        while let Some(event) = self.server.next(&mut bytes, Duration::ZERO, &mut self.out).map_err(|fault| fault.code)? {
            events.push(match event {
                Event::Request { stream, request, is_end } => {
                    self.server.keep(stream, stream);
                    format!("{stream} {} {}{}", request.method(), request.uri(), if is_end { "" } else { " …" })
                }
                Event::Data { stream, data, is_end } => format!("{stream} {}{}", data.len(), if is_end { "" } else { " …" }),
                Event::Trailers { stream, trailers } => format!("{stream} trailers {}", trailers.len()),
                Event::Gone { own, .. } => format!("gone {own:?}"),
                Event::Room(stream) => format!("room {stream:?}"),
            });
        }
        assert!(bytes.is_empty());
        Ok(events)
    }

    fn fault(&mut self, bytes: &[u8]) -> Code {
        self.say(bytes).expect_err("a fault")
    }

    /// The frames that the server has written.
    fn said(&mut self) -> Vec<Frame> {
        frames(&std::mem::take(&mut self.out))
    }
}

fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let [a, b, c, kind, flags, d, e, f, g, rest @ ..] = bytes {
        let (payload, rest) = rest.split_at(usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c));
        frames.push((*kind, *flags, u32::from_be_bytes([*d, *e, *f, *g]), payload.to_vec()));
        bytes = rest;
    }
    assert!(bytes.is_empty(), "a part of a frame");
    frames
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write(kind, flags, stream, payload, &mut out);
    out
}

fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    fields.iter().for_each(|(name, value)| encode_field(name.as_bytes(), value.as_bytes(), &mut block));
    block
}

const GET: &[(&str, &str)] = &[(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/x")];

fn get(stream: u32) -> Vec<u8> {
    frame(kind::HEADERS, flag::END_STREAM | flag::END_HEADERS, stream, &block(GET))
}

fn post(stream: u32, more: &[(&str, &str)]) -> Vec<u8> {
    let fields = [&[(":method", "POST")], &GET[1..], more].concat();
    frame(kind::HEADERS, flag::END_HEADERS, stream, &block(&fields))
}

fn data(stream: u32, length: usize, flags: u8) -> Vec<u8> {
    frame(kind::DATA, flags, stream, &vec![b'x'; length])
}

fn reset(stream: u32, code: Code) -> Frame {
    (kind::RST_STREAM, 0, stream, code.0.to_be_bytes().to_vec())
}

fn update(stream: u32, bytes: u32) -> Vec<u8> {
    frame(kind::WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
}

fn texts(events: &[&str]) -> Result<Vec<String>, Code> {
    Ok(events.iter().map(ToString::to_string).collect())
}

#[test]
fn a_server_says_its_settings_first() {
    let mut out = Vec::new();
    drop(Server::<()>::new(LIMITS, &mut out));
    let said = frames(&out);
    assert_eq!((said[0].0, said.len()), (kind::SETTINGS, 2));
    assert_eq!(said[1], (kind::WINDOW_UPDATE, 0, 0, 4_465_u32.to_be_bytes().to_vec()));
}

#[test]
fn a_request_is_answered() {
    let mut pair = Pair::open();
    assert_eq!(pair.say(&get(1)), texts(&["1 GET https://a/x"]));
    let headers: HeaderMap = [(http::header::CONTENT_TYPE, "text/plain".parse().expect("a value"))].into_iter().collect();
    pair.server.answer(1, StatusCode::OK, &headers, false, &mut pair.out);
    assert_eq!(pair.server.room(1), Some(16_384));
    pair.server.data_head(1, 2, true, &mut pair.out);
    pair.out.extend_from_slice(b"ok");
    assert_eq!((pair.server.end(1, &mut pair.out), pair.server.room(1)), (Some(1), None));
    let said = pair.said();
    assert_eq!((said[0].0, said[0].1, said[0].2), (kind::HEADERS, flag::END_HEADERS, 1));
    let mut fields = Vec::new();
    Decoder::new(4_096)
        .decode(&said[0].3, |name, value| fields.push(format!("{} {}", name.escape_ascii(), value.as_ref().escape_ascii())))
        .expect("a block");
    assert_eq!(fields, [":status 200", "content-type text/plain"]);
    assert_eq!(said[1..], [(kind::DATA, flag::END_STREAM, 1, b"ok".to_vec())]);
}

/// nghttp2 waits for it, and takes no answer before.
#[test]
fn a_client_with_a_small_table_is_told_that_none_is_used() {
    let mut pair = Pair::open();
    pair.say(&[frame(kind::SETTINGS, 0, 0, &[0, 1, 0, 0, 0, 0]), get(1), get(3)].concat()).expect("requests");
    pair.said();
    for stream in [1, 3] {
        pair.server.answer(stream, StatusCode::OK, &HeaderMap::new(), true, &mut pair.out);
    }
    let blocks: Vec<_> = pair.said().into_iter().map(|(.., block)| block).collect();
    assert_eq!(blocks, [vec![0x20, 0x88], vec![0x88]]);
}

#[test]
fn headers_that_are_larger_than_a_frame_are_continued() {
    let mut pair = Pair::open();
    pair.say(&get(1)).expect("a request");
    let headers: HeaderMap = [(http::header::SERVER, "s".repeat(40_000).parse().expect("a value"))].into_iter().collect();
    pair.server.answer(1, StatusCode::OK, &headers, true, &mut pair.out);
    let said = pair.said();
    let heads: Vec<_> = said.iter().map(|(kind, flags, ..)| (*kind, *flags)).collect();
    assert_eq!(heads, [(kind::HEADERS, flag::END_STREAM), (kind::CONTINUATION, 0), (kind::CONTINUATION, flag::END_HEADERS)]);
    let block = said.into_iter().flat_map(|(.., payload)| payload).collect::<Vec<_>>();
    let mut lengths = Vec::new();
    Decoder::new(4_096).decode(&block, |_, value| lengths.push(value.as_ref().len())).expect("a block");
    assert_eq!(lengths, [3, 40_000]);
}

#[test]
fn bodies_come_with_their_length_and_trailers() {
    let mut pair = Pair::open();
    assert_eq!(pair.say(&post(1, &[("content-length", "7")])), texts(&["1 POST https://a/x …"]));
    assert_eq!(pair.say(&[data(1, 3, 0), data(1, 0, 0), data(1, 4, flag::END_STREAM)].concat()), texts(&["1 3 …", "1 4"]));
    let padded = frame(kind::DATA, flag::PADDED, 3, &[2, b'x', b'x', b'x', 0, 0]);
    let trailers = frame(kind::HEADERS, flag::END_STREAM | flag::END_HEADERS, 3, &block(&[("a", "b")]));
    assert_eq!(pair.say(&[post(3, &[]), padded, trailers].concat()), texts(&["3 POST https://a/x …", "3 3 …", "3 trailers 1"]));
    assert_eq!(pair.said(), []);
    // Too much, too little, and what is no length.
    let mut pair = Pair::open();
    for (stream, more) in [(1, data(1, 8, 0)), (3, data(3, 6, flag::END_STREAM))] {
        let gone = format!("gone Some({stream})");
        let events = pair.say(&[post(stream, &[("content-length", "7")]), more].concat());
        assert_eq!(events.map(|events| events[1].clone()), Ok(gone));
        assert_eq!(pair.said(), [reset(stream, Code::PROTOCOL_ERROR)]);
    }
    assert_eq!(pair.say(&post(5, &[("content-length", "seven")])), texts(&[]));
    assert_eq!(pair.said(), [reset(5, Code::PROTOCOL_ERROR)]);
}

#[test]
fn what_is_malformed_ends_its_stream_alone() {
    let cases: &[&[(&str, &str)]] = &[
        &GET[1..],
        &GET[..3],
        &[GET[0], GET[2], GET[3]],
        &[GET[0], GET[1], GET[2], (":path", "")],
        &[GET[0], GET[0], GET[1], GET[2], GET[3]],
        &[GET[0], GET[1], GET[2], GET[3], (":status", "200")],
        &[GET[0], GET[1], GET[2], ("a", "b"), GET[3]],
        &[GET[0], GET[1], GET[2], GET[3], ("A", "b")],
        &[GET[0], GET[1], GET[2], GET[3], ("connection", "close")],
        &[GET[0], GET[1], GET[2], GET[3], ("te", "gzip")],
        &[GET[0], GET[1], GET[2], GET[3], ("a", "b\r\nc: d")],
        &[(":method", "CONNECT"), (":authority", "a:1")],
    ];
    for case in cases {
        let mut pair = Pair::open();
        let request = frame(kind::HEADERS, flag::END_STREAM | flag::END_HEADERS, 1, &block(case));
        assert_eq!((pair.say(&request), pair.said()), (texts(&[]), vec![reset(1, Code::PROTOCOL_ERROR)]), "{case:?}");
        assert_eq!(pair.say(&get(3)), texts(&["3 GET https://a/x"]));
    }
    let mut pair = Pair::open();
    let good = [GET[0], GET[1], (":path", "*"), ("te", "trailers"), ("host", "b"), ("cookie", "a=b"), ("cookie", "c=d")];
    assert_eq!(pair.say(&frame(kind::HEADERS, 5, 1, &block(&good))), texts(&["1 GET *"]), "a path is enough where there is no authority");
}

#[test]
fn headers_have_a_limit_and_a_block_has_an_end() {
    let mut pair = Pair::open();
    let large = "x".repeat(1_900);
    assert_eq!(pair.say(&post(1, &[("a", &large)])), texts(&[]));
    let said = pair.said();
    assert_eq!((said.len(), said[0].0, said[0].1, &said[1]), (2, kind::HEADERS, 5, &reset(1, Code::NO_ERROR)));
    assert_eq!(pair.say(&get(3)), texts(&["3 GET https://a/x"]), "what was too large for a request was read nevertheless");
    let part = frame(kind::CONTINUATION, 0, 5, &[0; 10_000]);
    let begun = frame(kind::HEADERS, flag::END_STREAM, 5, &block(GET));
    assert_eq!(pair.fault(&[begun, part.clone(), part].concat()), Code::ENHANCE_YOUR_CALM);
}

#[test]
fn a_block_in_parts_is_one_and_nothing_comes_between() {
    let (block, mut pair) = (block(GET), Pair::open());
    let (first, last) = block.split_at(5);
    let begun = frame(kind::HEADERS, flag::END_STREAM, 1, first);
    let whole = [&begun[..], &frame(kind::CONTINUATION, 0, 1, &[]), &frame(kind::CONTINUATION, flag::END_HEADERS, 1, last)].concat();
    assert_eq!(pair.say(&whole), texts(&["1 GET https://a/x"]));
    for between in [frame(kind::PING, 0, 0, &[0; 8]), get(3), frame(kind::CONTINUATION, 4, 3, last), frame(200, 0, 0, &[])] {
        assert_eq!(Pair::open().fault(&[begun.clone(), between].concat()), Code::PROTOCOL_ERROR);
    }
    assert_eq!(Pair::open().fault(&frame(kind::CONTINUATION, 4, 1, last)), Code::PROTOCOL_ERROR);
}

#[test]
fn windows_bound_what_is_sent() {
    let mut pair = Pair::open();
    pair.say(&[frame(kind::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 10]), get(1), get(3)].concat()).expect("requests");
    pair.said();
    assert_eq!(pair.server.room(1), Some(10));
    pair.server.data_head(1, 10, false, &mut pair.out);
    assert_eq!((pair.server.room(1), pair.server.room(3)), (Some(0), Some(10)));
    assert_eq!(pair.say(&update(1, 5)), texts(&["room Some(1)"]));
    assert_eq!(pair.server.room(1), Some(5));
    // The first window becomes smaller: there is less than nothing.
    assert_eq!(pair.say(&frame(kind::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 2])), texts(&[]));
    assert_eq!((pair.server.room(1), pair.server.room(3)), (Some(0), Some(2)));
    assert_eq!(pair.say(&frame(kind::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 20])), texts(&["room None"]));
    assert_eq!((pair.server.room(1), pair.server.room(3)), (Some(15), Some(20)));
    // All of the connection's window.
    let mut pair = Pair::open();
    pair.say(&[frame(kind::SETTINGS, 0, 0, &[0, 4, 0, 255, 255, 255]), get(1), get(3)].concat()).expect("requests");
    for bytes in [16_384, 16_384, 16_384, 16_383] {
        assert_eq!(pair.server.room(1), Some(bytes));
        pair.server.data_head(1, bytes, false, &mut pair.out);
        pair.out.clear();
    }
    assert_eq!((pair.server.room(1), pair.server.room(3)), (Some(0), Some(0)));
    assert_eq!(pair.say(&update(0, 1)), texts(&["room None"]));
    assert_eq!((pair.server.room(1), pair.server.room(3)), (Some(1), Some(1)));
    assert_eq!(pair.say(&update(1, 0)), texts(&["gone Some(1)"]));
    assert_eq!(pair.say(&update(3, 0x7fff_ffff)), texts(&["gone Some(3)"]));
    assert_eq!(pair.said(), [reset(1, Code::PROTOCOL_ERROR), reset(3, Code::FLOW_CONTROL_ERROR)]);
    assert_eq!(pair.fault(&update(0, 0x7fff_ffff)), Code::FLOW_CONTROL_ERROR);
    assert_eq!(Pair::open().fault(&update(0, 0)), Code::PROTOCOL_ERROR);
}

#[test]
fn windows_bound_what_comes() {
    let mut pair = Pair::open();
    assert_eq!(pair.say(&[post(1, &[]), data(1, 1_000, 0)].concat()), texts(&["1 POST https://a/x …", "1 1000 …"]));
    pair.server.taken(1, 499, &mut pair.out);
    assert_eq!(pair.said(), []);
    pair.server.taken(1, 1, &mut pair.out);
    assert_eq!(pair.said(), [(kind::WINDOW_UPDATE, 0, 1, 500_u32.to_be_bytes().to_vec())]);
    assert_eq!(pair.say(&data(1, 500, 0)), texts(&["1 500 …"]));
    assert_eq!(pair.say(&data(1, 1, 0)), texts(&["gone Some(1)"]));
    assert_eq!(pair.said(), [reset(1, Code::FLOW_CONTROL_ERROR)]);
    // What comes for a stream that we have ended is no fault, and is given back to the others.
    for _ in 0..100 {
        assert_eq!(pair.say(&data(1, 900, 0)), texts(&[]));
    }
    let given: u32 = pair.said().iter().map(|(.., payload)| u32::from_be_bytes(payload[..].try_into().expect("an update"))).sum();
    assert!(given >= 55_000, "{given}");
}

#[test]
fn a_request_that_is_answered_early_may_come_whole() {
    let mut pair = Pair::open();
    pair.say(&post(1, &[])).expect("a request");
    pair.server.answer(1, StatusCode::FORBIDDEN, &HeaderMap::new(), true, &mut pair.out);
    assert_eq!(pair.server.end(1, &mut pair.out), Some(1));
    assert_eq!(pair.said().len(), 1, "no reset");
    assert_eq!(pair.say(&[data(1, 500, 0), data(1, 10, flag::END_STREAM)].concat()), texts(&[]));
    assert_eq!(pair.said(), []);
    assert_eq!(pair.fault(&get(1)), Code::STREAM_CLOSED);
    // But not more than its window.
    let mut pair = Pair::open();
    pair.say(&post(1, &[])).expect("a request");
    pair.server.answer(1, StatusCode::FORBIDDEN, &HeaderMap::new(), true, &mut pair.out);
    pair.server.end(1, &mut pair.out);
    pair.said();
    assert_eq!(pair.say(&[data(1, 500, 0), data(1, 500, 0)].concat()), texts(&[]));
    assert_eq!(pair.said(), [reset(1, Code::NO_ERROR)]);
    assert_eq!(pair.say(&data(1, 500, 0)), texts(&[]), "the client did not know yet");
}

#[test]
fn streams_have_a_limit_and_an_order() {
    let mut pair = Pair::open();
    let events = pair.say(&[get(1), get(3), get(5), get(7)].concat());
    assert_eq!(events.map(|events| events.len()), Ok(3));
    assert_eq!(pair.said(), [reset(7, Code::REFUSED_STREAM)]);
    assert_eq!(pair.say(&frame(kind::RST_STREAM, 0, 3, &[0, 0, 0, 8])), texts(&["gone Some(3)"]));
    assert_eq!(pair.say(&get(9)), texts(&["9 GET https://a/x"]));
    assert_eq!(Pair::open().fault(&[get(5), get(3)].concat()), Code::PROTOCOL_ERROR);
    assert_eq!(Pair::open().fault(&get(2)), Code::PROTOCOL_ERROR);
    assert_eq!(Pair::open().fault(&get(0)), Code::PROTOCOL_ERROR);
    for idle in [data(1, 1, 0), update(1, 1), frame(kind::RST_STREAM, 0, 1, &[0; 4])] {
        assert_eq!(Pair::open().fault(&idle), Code::PROTOCOL_ERROR);
    }
}

#[test]
fn streams_may_be_broken_only_so_often() {
    let mut pair = Pair::open();
    let broken = |stream| frame(kind::HEADERS, 5, stream, &block(&[("a", "b")]));
    for stream in [1, 3, 5, 7, 9] {
        assert_eq!(pair.say(&broken(stream)), texts(&[]));
    }
    assert_eq!(pair.fault(&broken(11)), Code::ENHANCE_YOUR_CALM);
    // Many may share a connection, for long.
    let mut pair = Pair::open();
    for nth in 0..20 {
        assert_eq!(pair.say(&broken(nth * 4 + 1)), texts(&[]));
        assert_eq!(pair.say(&get(nth * 4 + 3)).map(|events| events.len()), Ok(1), "requests make up for them");
        pair.server.end(nth * 4 + 3, &mut pair.out);
    }
}

/// A connection that many share had so many for its whole life.
#[test]
fn good_requests_make_up_for_broken_streams() {
    let mut pair = Pair::open();
    let broken = |stream| frame(kind::HEADERS, 5, stream, &block(&[("a", "b")]));
    for stream in (1..400).step_by(4) {
        assert_eq!(pair.say(&broken(stream)), texts(&[]));
        pair.say(&get(stream + 2)).expect("a request");
        pair.server.end(stream + 2, &mut pair.out);
    }
    for stream in (401..420).step_by(4) {
        assert_eq!(pair.say(&broken(stream)), texts(&[]));
        // What is cancelled makes up for nothing.
        pair.say(&[get(stream + 2), frame(kind::RST_STREAM, 0, stream + 2, &[0, 0, 0, 8])].concat()).expect("two frames");
    }
    assert_eq!(pair.fault(&broken(601)), Code::ENHANCE_YOUR_CALM);
}

/// Each block is work, whether it becomes a request or not.
#[test]
fn blocks_that_become_no_request_may_come_only_so_often() {
    let large = |stream| frame(kind::HEADERS, 5, stream, &block(&[GET, &[("x", &*"y".repeat(3_000))]].concat()));
    let refused = || {
        let mut pair = Pair::open();
        pair.say(&[get(1), get(3), get(5)].concat()).expect("three requests");
        (pair, 7, get as fn(u32) -> Vec<u8>, 2)
    };
    let too_large = || (Pair::open(), 1, large as fn(u32) -> Vec<u8>, 2);
    let ended = || {
        let mut pair = Pair::open();
        pair.say(&post(1, &[])).expect("a request");
        pair.server.reset(1, Code::CANCEL, &mut pair.out);
        (pair, 1, get as fn(u32) -> Vec<u8>, 0)
    };
    let after_goodbye = || {
        let mut pair = Pair::open();
        pair.server.goodbye(&mut pair.out);
        pair.say(&frame(kind::PING, flag::ACK, 0, super::GOODBYE)).expect("it has heard it");
        (pair, 1, get as fn(u32) -> Vec<u8>, 2)
    };
    let malformed = |stream| frame(kind::HEADERS, 5, stream, &block(&[("a", "b")]));
    let without_path = || (Pair::within(Limits { faults_max: u32::MAX, ..LIMITS }), 1, malformed as fn(u32) -> Vec<u8>, 2);
    for (mut pair, mut stream, block, step) in [refused(), too_large(), ended(), after_goodbye(), without_path()] {
        for _ in 0..WASTED_MAX {
            assert_eq!(pair.say(&block(stream)), texts(&[]));
            stream += step;
        }
        assert_eq!(pair.fault(&block(stream)), Code::ENHANCE_YOUR_CALM);
    }
    let mut pair = Pair::open();
    for nth in 0..WASTED_MAX * 2 {
        assert_eq!(pair.say(&large(nth * 4 + 1)), texts(&[]));
        assert_eq!(pair.say(&get(nth * 4 + 3)).map(|events| events.len()), Ok(1), "requests make up for them");
        pair.server.end(nth * 4 + 3, &mut pair.out);
    }
    let refused = (0..).take_while(|nth| {
        let stream = WASTED_MAX * 8 + 1 + nth * 2;
        pair.say(&get(stream)).expect("a request");
        pair.server.refuse(stream, &mut pair.out).is_ok()
    });
    assert!((WASTED_MAX - 2..=WASTED_MAX).contains(&(refused.count() as u32)), "what the caller refuses counts too");
}

#[test]
fn what_no_client_may_send_ends_the_connection() {
    let cases = [
        (frame(kind::DATA, 0, 0, &[1]), Code::PROTOCOL_ERROR),
        (frame(kind::PUSH_PROMISE, 4, 1, &[0; 4]), Code::PROTOCOL_ERROR),
        (frame(kind::PING, 0, 0, &[0; 7]), Code::FRAME_SIZE_ERROR),
        (frame(kind::PING, 0, 1, &[0; 8]), Code::PROTOCOL_ERROR),
        (frame(kind::SETTINGS, 0, 1, &[]), Code::PROTOCOL_ERROR),
        (frame(kind::SETTINGS, flag::ACK, 0, &[0; 6]), Code::FRAME_SIZE_ERROR),
        (frame(kind::GOAWAY, 0, 1, &[0; 8]), Code::PROTOCOL_ERROR),
        (frame(kind::PRIORITY, 0, 1, &[0; 4]), Code::FRAME_SIZE_ERROR),
        (frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 1, 0]), Code::PROTOCOL_ERROR),
        (frame(kind::WINDOW_UPDATE, 0, 0, &[0; 3]), Code::FRAME_SIZE_ERROR),
        (frame(kind::HEADERS, flag::PADDED | 5, 1, &[]), Code::FRAME_SIZE_ERROR),
        (frame(kind::HEADERS, flag::PADDED | 5, 1, &[9, 0]), Code::PROTOCOL_ERROR),
        (frame(kind::HEADERS, 5, 1, &[0x40]), Code::COMPRESSION_ERROR),
        (vec![0, 64, 1, 0, 0, 0, 0, 0, 1], Code::FRAME_SIZE_ERROR),
    ];
    for (bytes, code) in cases {
        assert_eq!(Pair::open().fault(&bytes), code, "{bytes:?}");
    }
    let mut out = Vec::new();
    let mut early = Pair { server: Server::new(LIMITS, &mut out), out: Vec::new() };
    assert_eq!(early.fault(&get(1)), Code::PROTOCOL_ERROR);
}

#[test]
fn a_goodbye_waits_until_the_client_has_heard_it() {
    let mut pair = Pair::open();
    pair.say(&get(1)).expect("a request");
    pair.server.goodbye(&mut pair.out);
    pair.server.goodbye(&mut pair.out);
    let said = pair.said();
    assert_eq!((said.len(), said[0].0, &said[0].3[..4]), (2, kind::GOAWAY, &[127, 255, 255, 255][..]));
    assert_eq!(pair.say(&get(3)), texts(&["3 GET https://a/x"]), "it was on its way");
    assert_eq!(pair.say(&frame(kind::PING, flag::ACK, 0, &said[1].3)), texts(&[]));
    assert_eq!(pair.said(), [(kind::GOAWAY, 0, 0, vec![0, 0, 0, 3, 0, 0, 0, 0])]);
    let unheard = [get(5), post(7, &[]), data(7, 10, 0), update(7, 1), frame(kind::RST_STREAM, 0, 5, &[0; 4])].concat();
    assert_eq!((pair.say(&unheard), pair.said()), (texts(&[]), vec![]), "nobody looks at it");
    assert!(!pair.server.is_over());
    pair.server.end(1, &mut pair.out);
    pair.server.end(3, &mut pair.out);
    assert!(pair.server.is_over());
    let mut left = Pair::open();
    assert_eq!(left.say(&frame(kind::GOAWAY, 0, 0, &[0; 8])), texts(&[]));
    assert!(left.server.is_over());
}

#[test]
fn a_block_of_headers_is_unfinished_until_its_last_frame() {
    let mut pair = Pair::open();
    let block = block(GET);
    let (first, second, third) = (&block[..3], &block[3..5], &block[5..]);
    let frames = [frame(kind::HEADERS, flag::END_STREAM, 1, first), frame(kind::CONTINUATION, 0, 1, second)];
    let mut unfinished = Vec::new();
    for frame in &frames {
        for byte in frame.chunks(1) {
            assert_eq!(pair.say(byte), texts(&[]));
            unfinished.push(pair.server.unfinished());
        }
    }
    let heads = [0; 9].into_iter().chain(1..=3).chain([3; 9]).chain(4..=5);
    assert_eq!(unfinished, heads.collect::<Vec<_>>());
    let last = frame(kind::CONTINUATION, flag::END_HEADERS, 1, third);
    assert_eq!((pair.say(&last[..12]), pair.server.unfinished()), (texts(&[]), 5));
    assert_eq!((pair.say(&last[12..]), pair.server.unfinished()), (texts(&["1 GET https://a/x"]), 0));
}

#[test]
fn a_flood_ends_the_connection() {
    let mut pair = Pair::open();
    let pings = frame(kind::PING, 0, 0, &[0; 8]).repeat(1_000);
    assert_eq!(pair.fault(&pings), Code::ENHANCE_YOUR_CALM);
}

/// What a client might send, whole and half.
fn anything() -> impl Strategy<Value = Vec<u8>> {
    let stream = 0u32..8;
    let made = (0u8..11, any::<u8>(), stream.clone(), proptest::collection::vec(any::<u8>(), 0..40))
        .prop_map(|(kind, flags, stream, payload)| frame(kind, flags, stream, &payload));
    prop_oneof![
        stream.clone().prop_map(|stream| get(2 * stream + 1)),
        stream.clone().prop_map(|stream| post(2 * stream + 1, &[("content-length", "5")])),
        (stream.clone(), 0usize..9, 0u8..2).prop_map(|(stream, length, flags)| data(2 * stream + 1, length, flags)),
        (stream.clone(), 0u32..2_000_000_000).prop_map(|(stream, more)| update(stream, more)),
        (stream, any::<u32>()).prop_map(|(stream, code)| frame(kind::RST_STREAM, 0, 2 * stream + 1, &code.to_be_bytes())),
        made,
    ]
}

proptest! {
    /// The same happens however the bytes are cut, and what is written can be read.
    #[test]
    fn pieces_do_not_matter(frames in proptest::collection::vec(anything(), 0..30), size in 1usize..60, junk in proptest::collection::vec(any::<u8>(), 0..30)) {
        let stream = [frames.concat(), junk].concat();
        let (mut whole, mut cut) = (Pair::open(), Pair::open());
        let mut seen = Vec::new();
        let expected = whole.say(&stream);
        let fault = stream.chunks(size).find_map(|piece| cut.say(piece).map(|events| seen.extend(events)).err());
        prop_assert_eq!(expected.as_ref().err().copied(), fault);
        if let Ok(expected) = expected {
            prop_assert_eq!(expected, seen);
        }
        prop_assert_eq!(&whole.out, &cut.out);
        prop_assert_eq!(whole.server.frames.tokens(), cut.server.frames.tokens());
        super::tests::frames(&whole.out);
        prop_assert!(whole.server.streams.len() <= LIMITS.streams_max as usize);
    }
}
