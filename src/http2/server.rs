//! One connection: its streams, and what each frame does to them (RFC 9113 §5, §6).

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header::CONTENT_LENGTH};

use crate::{
    Code, Event, Fault, Limits,
    frame::{self, Frames, Head, flag, kind},
    headers::{self, Block},
    hpack::Decoder,
    peer::{self, FRAME_BYTES_MAX, Peer, TABLE_BYTES},
    recent::{By, Recent},
    wasted::Wasted,
    window::{self, Allowance, Room},
};

/// What a block may have beside the fields that are announced: it is sent compressed, so it is shorter as a rule, bytes.
const BLOCK_BYTES_MORE: usize = frame::PAYLOAD_BYTES_MAX;

/// Streams that are answered and whose requests have not come whole: what more are begun is not waited for.
const ANSWERED_MAX: usize = 16;

/// What our PING says after a goodbye: whatever the client began before it heard of it has come when this comes back.
const GOODBYE: &[u8; 8] = b"goodbye!";

/// What our other PINGs say.
const ALIVE: &[u8; 8] = b"alive???";

const TOO_MUCH: Fault = Fault::new(Code::FLOW_CONTROL_ERROR, "more came than the connection's window has room for");

/// A goodbye names no stream until it is known which one is the last (RFC 9113 §6.8).
const ANY_STREAM: u32 = 0x7fff_ffff;

/// A connection. Of each stream the caller keeps a `T` with it.
#[derive(Debug)]
pub struct Server<T> {
    limits: Limits,
    frames: Frames,
    /// A client's first frame has its settings.
    is_greeted: bool,
    /// What has come of a block of several frames.
    block: Option<Part>,
    decoder: Decoder,
    peer: Peer,
    /// The client knows that our blocks use no table, if it waits for that.
    has_told: bool,
    room: Room,
    allowance: Allowance,
    /// By their numbers.
    streams: Vec<(u32, Box<Stream<T>>)>,
    /// The newest one that the client has begun.
    last: u32,
    recent: Recent,
    /// Streams that the client has broken; each that has ended as it should makes up for one.
    faults: u32,
    wasted: Wasted,
    goodbye: Goodbye,
    /// The client begins no more streams.
    is_left: bool,
}

#[derive(Debug)]
struct Stream<T> {
    room: Room,
    allowance: Allowance,
    /// More may come of the request.
    is_open: bool,
    /// What is still to come of a body whose length is known.
    left: Option<u64>,
    own: Own<T>,
}

/// What the caller keeps of a stream.
#[derive(Debug)]
enum Own<T> {
    /// It has not said yet.
    Unknown,
    Kept(T),
    /// Nothing any more: its answer is written. What is still to come of the request is waited for, and not looked at.
    Answered,
}

/// A block that is not whole.
#[derive(Debug)]
struct Part {
    stream: u32,
    is_end: bool,
    block: Vec<u8>,
}

/// Whether the client was told to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goodbye {
    Unsaid,
    /// It may not have heard of it.
    Said,
    /// No stream after the last one is looked at.
    Heard,
}

impl<T> Server<T> {
    /// A new connection, and what it says first.
    #[must_use]
    pub fn new(limits: Limits, out: &mut Vec<u8>) -> Self {
        let header_bytes = u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX);
        frame::write(kind::SETTINGS, 0, 0, &peer::settings(limits.streams_max, limits.stream_window, header_bytes), out);
        if let Some(more) = limits.connection_window.checked_sub(window::FIRST).filter(|more| *more > 0) {
            frame::write(kind::WINDOW_UPDATE, 0, 0, &more.to_be_bytes(), out);
        }
        Self {
            limits,
            frames: Frames::default(),
            is_greeted: false,
            block: None,
            decoder: Decoder::new(TABLE_BYTES as usize),
            peer: Peer::default(),
            has_told: false,
            room: Room::new(window::FIRST),
            allowance: Allowance::new(limits.connection_window.max(window::FIRST)),
            streams: Vec::new(),
            last: 0,
            recent: Recent::default(),
            faults: 0,
            wasted: Wasted::default(),
            goodbye: Goodbye::Unsaid,
            is_left: false,
        }
    }

    /// Takes bytes off what has come after the preface, until something has happened. `None`: nothing more is to be had of them. `age` is that of the
    /// connection.
    ///
    /// # Errors
    /// The client has broken a rule that ends its connection. It is to be told so: [`Server::fail`].
    pub fn next(&mut self, bytes: &mut &[u8], age: Duration, out: &mut Vec<u8>) -> Result<Option<Event<T>>, Fault> {
        let mut frames = std::mem::take(&mut self.frames);
        let event = loop {
            match frames.next(bytes, age, |head, payload| self.frame(head, payload, out)) {
                Ok(Some(None)) => {}
                Ok(Some(event)) => break Ok(event),
                Ok(None) => break Ok(None),
                Err(fault) => break Err(fault),
            }
        };
        self.frames = frames;
        event
    }

    fn frame(&mut self, head: Head, payload: &[u8], out: &mut Vec<u8>) -> Result<Option<Event<T>>, Fault> {
        if !std::mem::replace(&mut self.is_greeted, true) && head.kind != kind::SETTINGS {
            return Err(Fault::protocol("the first frame is no SETTINGS"));
        }
        if self.block.is_some() != (head.kind == kind::CONTINUATION) {
            return Err(Fault::protocol("a block of headers is not continued, or there is none"));
        }
        let is_of_connection = matches!(head.kind, kind::SETTINGS | kind::PING | kind::GOAWAY);
        let is_of_any = head.kind == kind::WINDOW_UPDATE || head.kind > kind::CONTINUATION;
        if !is_of_any && is_of_connection != (head.stream == 0) {
            return Err(Fault::protocol("a frame of the connection on a stream, or of a stream on none"));
        }
        if self.goodbye == Goodbye::Heard && head.stream > self.last && !matches!(head.kind, kind::HEADERS | kind::CONTINUATION) {
            return self.unheard(head, payload, out);
        }
        match head.kind {
            kind::DATA => self.data(head, payload, out),
            kind::HEADERS => self.headers(head, payload, out),
            kind::CONTINUATION => self.continuation(head, payload, out),
            kind::RST_STREAM => self.reset_by_client(head.stream, payload),
            kind::SETTINGS => self.settings(head, payload, out),
            kind::PING => self.ping(head, payload, out),
            kind::WINDOW_UPDATE => self.window_update(head.stream, payload, out),
            kind::GOAWAY => {
                self.is_left = true;
                Ok(None)
            }
            kind::PRIORITY if payload.len() != 5 => Err(Fault::new(Code::FRAME_SIZE_ERROR, "a PRIORITY has five bytes")),
            kind::PRIORITY => frame::priority(head.stream, payload).map(|_| None),
            kind::PUSH_PROMISE => Err(Fault::protocol("clients promise nothing")),
            // Of some extension that was not agreed on (RFC 9113 §5.5).
            _ => Ok(None),
        }
    }

    /// A frame for a stream that was begun after the last one that is looked at (RFC 9113 §6.8). Its data count for the connection nevertheless.
    fn unheard(&mut self, head: Head, payload: &[u8], out: &mut Vec<u8>) -> Result<Option<Event<T>>, Fault> {
        if head.kind == kind::DATA {
            if !self.allowance.spend(payload.len()) {
                return Err(TOO_MUCH);
            }
            self.taken(0, payload.len(), out);
        }
        Ok(None)
    }

    fn headers(&mut self, head: Head, payload: &[u8], out: &mut Vec<u8>) -> Result<Option<Event<T>>, Fault> {
        let mut block = frame::unpadded(head, payload)?;
        if head.has(flag::PRIORITY) {
            block = frame::priority(head.stream, block)?;
        }
        let is_end = head.has(flag::END_STREAM);
        if head.has(flag::END_HEADERS) {
            return self.block(head.stream, is_end, block, out);
        }
        self.block = Some(Part { stream: head.stream, is_end, block: block.to_vec() });
        Ok(None)
    }

    fn continuation(&mut self, head: Head, payload: &[u8], out: &mut Vec<u8>) -> Result<Option<Event<T>>, Fault> {
        let mut part = self.block.take().filter(|part| part.stream == head.stream).ok_or(Fault::protocol("another block is continued"))?;
        if part.block.len() + payload.len() > self.limits.header_bytes_max + BLOCK_BYTES_MORE {
            return Err(Fault::new(Code::ENHANCE_YOUR_CALM, "a block of headers has no end"));
        }
        part.block.extend_from_slice(payload);
        if head.has(flag::END_HEADERS) {
            return self.block(part.stream, part.is_end, &part.block, out);
        }
        self.block = Some(part);
        Ok(None)
    }

    /// A whole block. It is read, whatever it is for: those after it depend on it.
    fn block(&mut self, stream: u32, is_end: bool, block: &[u8], out: &mut Vec<u8>) -> Result<Option<Event<T>>, Fault> {
        let bytes_max = self.limits.header_bytes_max;
        if let Some(found) = self.find(stream) {
            let trailers = headers::trailers(&mut self.decoder, block, bytes_max)?;
            return match (trailers, &mut self.streams[found].1) {
                (Block::Good(_), known) if known.is_open && matches!(known.own, Own::Answered) => {
                    self.remove(stream);
                    self.ended(stream, false, out);
                    Ok(None)
                }
                (_, known) if !known.is_open => self.broken(stream, Code::STREAM_CLOSED, out),
                (Block::Good(trailers), known) if is_end && known.left.is_none_or(|left| left == 0) => {
                    known.is_open = false;
                    Ok(Some(Event::Trailers { stream, trailers }))
                }
                _ => self.broken(stream, Code::PROTOCOL_ERROR, out),
            };
        }
        let request = headers::request(&mut self.decoder, block, bytes_max)?;
        if stream <= self.last {
            return match self.recent.ended_by(stream) {
                Some(By::Us) => self.wasted.add(),
                Some(By::Client) => Err(Fault::new(Code::STREAM_CLOSED, "a request on a stream that has ended")),
                None => Err(Fault::protocol("streams are not begun in order")),
            };
        }
        if stream.is_multiple_of(2) {
            return Err(Fault::protocol("a client's stream has an even number"));
        }
        if self.goodbye == Goodbye::Heard {
            return self.wasted.add();
        }
        self.last = stream;
        if self.streams.len() >= self.limits.streams_max as usize {
            self.write_reset(stream, Code::REFUSED_STREAM, out);
            return self.wasted.add();
        }
        let request = match request {
            Block::Good(request) => request,
            Block::Malformed => {
                self.wasted.add::<()>()?;
                return self.broken(stream, Code::PROTOCOL_ERROR, out);
            }
            Block::TooLarge => {
                headers::write_answer(stream, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, &HeaderMap::new(), true, self.tells(), out);
                self.ended(stream, !is_end, out);
                return self.wasted.add();
            }
        };
        let left = headers::content_length(request.headers());
        // It says what cannot be, or what does not come.
        if left.is_none() && request.headers().contains_key(CONTENT_LENGTH) || is_end && left.is_some_and(|left| left > 0) {
            self.wasted.add::<()>()?;
            return self.broken(stream, Code::PROTOCOL_ERROR, out);
        }
        self.wasted.make_up();
        let (room, allowance) = (Room::new(self.peer.first_window), Allowance::new(self.limits.stream_window));
        self.streams.push((stream, Box::new(Stream { room, allowance, is_open: !is_end, left, own: Own::Unknown })));
        Ok(Some(Event::Request { stream, request, is_end }))
    }

    fn data(&mut self, head: Head, payload: &[u8], out: &mut Vec<u8>) -> Result<Option<Event<T>>, Fault> {
        let data = frame::unpadded(head, payload)?;
        if !self.allowance.spend(payload.len()) {
            return Err(TOO_MUCH);
        }
        let (stream, is_end) = (head.stream, head.has(flag::END_STREAM));
        let Some(found) = self.find(stream) else {
            self.idle(stream)?;
            self.taken(stream, payload.len(), out);
            return if self.recent.ended_by(stream) == Some(By::Us) { Ok(None) } else { self.broken(stream, Code::STREAM_CLOSED, out) };
        };
        let known = &mut self.streams[found].1;
        let fault = if !known.is_open {
            Some(Code::STREAM_CLOSED)
        } else if !known.allowance.spend(payload.len()) {
            Some(Code::FLOW_CONTROL_ERROR)
        } else {
            let left = known.left.map(|left| left.checked_sub(data.len() as u64));
            known.left = left.flatten();
            let is_wrong = left.is_some_and(|left| left.is_none_or(|left| is_end && left > 0));
            is_wrong.then_some(Code::PROTOCOL_ERROR)
        };
        if let Some(code) = fault {
            self.taken(stream, payload.len(), out);
            return self.broken(stream, code, out);
        }
        known.is_open = !is_end;
        if matches!(known.own, Own::Answered) {
            let is_open = known.is_open;
            if !is_open || known.allowance.is_spent() {
                self.remove(stream);
                self.ended(stream, is_open, out);
            }
            // The next ones have room; this one has not.
            self.taken(0, payload.len(), out);
            return Ok(None);
        }
        // What nobody looks at.
        self.taken(stream, payload.len() - data.len(), out);
        if data.is_empty() && !is_end {
            return Ok(None);
        }
        Ok(Some(Event::Data { stream, data: Bytes::copy_from_slice(data), is_end }))
    }

    fn reset_by_client(&mut self, stream: u32, payload: &[u8]) -> Result<Option<Event<T>>, Fault> {
        if payload.len() != 4 {
            return Err(Fault::new(Code::FRAME_SIZE_ERROR, "a RST_STREAM has four bytes"));
        }
        self.idle(stream)?;
        let gone = self.remove(stream).map(|own| Event::Gone { stream, own: own.into_kept() });
        if gone.is_some() {
            self.recent.add(stream, By::Client);
        }
        Ok(gone)
    }

    fn settings(&mut self, head: Head, payload: &[u8], out: &mut Vec<u8>) -> Result<Option<Event<T>>, Fault> {
        if head.has(flag::ACK) {
            return if payload.is_empty() {
                Ok(None)
            } else {
                Err(Fault::new(Code::FRAME_SIZE_ERROR, "an answer to SETTINGS has nothing"))
            };
        }
        let after = self.peer.after(payload)?;
        let before = std::mem::replace(&mut self.peer, after);
        let by = i64::from(self.peer.first_window) - i64::from(before.first_window);
        if !self.streams.iter_mut().all(|(_, stream)| stream.room.change(by)) {
            return Err(Fault::new(Code::FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE makes a window too large"));
        }
        frame::write(kind::SETTINGS, flag::ACK, 0, &[], out);
        Ok((by > 0).then_some(Event::Room(None)))
    }

    fn ping(&mut self, head: Head, payload: &[u8], out: &mut Vec<u8>) -> Result<Option<Event<T>>, Fault> {
        if payload.len() != 8 {
            return Err(Fault::new(Code::FRAME_SIZE_ERROR, "a PING has eight bytes"));
        }
        if !head.has(flag::ACK) {
            frame::write(kind::PING, flag::ACK, 0, payload, out);
        } else if payload == GOODBYE && self.goodbye == Goodbye::Said {
            self.goodbye = Goodbye::Heard;
            frame::write_goaway(self.last, Code::NO_ERROR, out);
        }
        Ok(None)
    }

    fn window_update(&mut self, stream: u32, payload: &[u8], out: &mut Vec<u8>) -> Result<Option<Event<T>>, Fault> {
        let Ok(more) = <[u8; 4]>::try_from(payload).map(frame::number) else {
            return Err(Fault::new(Code::FRAME_SIZE_ERROR, "a WINDOW_UPDATE has four bytes"));
        };
        if stream == 0 {
            if more == 0 {
                return Err(Fault::protocol("a WINDOW_UPDATE of nothing"));
            }
            let is_window = self.room.change(i64::from(more));
            return if is_window {
                Ok(Some(Event::Room(None)))
            } else {
                Err(Fault::new(Code::FLOW_CONTROL_ERROR, "the window is too large"))
            };
        }
        self.idle(stream)?;
        let Some(found) = self.find(stream) else { return Ok(None) };
        if more == 0 {
            return self.broken(stream, Code::PROTOCOL_ERROR, out);
        }
        if self.streams[found].1.room.change(i64::from(more)) {
            Ok(Some(Event::Room(Some(stream))))
        } else {
            self.broken(stream, Code::FLOW_CONTROL_ERROR, out)
        }
    }

    /// What the caller keeps of a stream, if that goes on.
    pub fn get(&mut self, stream: u32) -> Option<&mut T> {
        self.find(stream).and_then(|found| self.streams[found].1.own.kept())
    }

    /// Keeps this with a stream, if that goes on.
    pub fn keep(&mut self, stream: u32, own: T) {
        if let Some(found) = self.find(stream) {
            self.streams[found].1.own = Own::Kept(own);
        }
    }

    /// The streams that go on, and what the caller keeps of each.
    pub fn streams(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.streams.iter_mut().filter_map(|(stream, known)| Some((*stream, known.own.kept()?)))
    }

    /// Bytes that may be sent on a stream now: what both windows have, and a frame at most. `None`: it does not go on.
    #[must_use]
    pub fn room(&self, stream: u32) -> Option<usize> {
        let found = self.find(stream)?;
        Some(self.streams[found].1.room.bytes().min(self.room.bytes()).min(FRAME_BYTES_MAX))
    }

    /// Writes the head of an answer; `is_end`: it has no body, and its stream is then to be [ended](Self::end).
    pub fn answer(&mut self, stream: u32, status: StatusCode, headers: &HeaderMap, is_end: bool, out: &mut Vec<u8>) {
        if self.find(stream).is_some() {
            headers::write_answer(stream, status, headers, is_end, self.tells(), out);
        }
    }

    /// Writes the head of a frame of an answer's body. The caller appends so many bytes, which there must be [room](Self::room) for, and
    /// [ends](Self::end) the stream if they are the last ones.
    ///
    /// # Panics
    /// When there is no room for them.
    pub fn data_head(&mut self, stream: u32, bytes: usize, is_end: bool, out: &mut Vec<u8>) {
        assert!(self.room(stream).is_some_and(|room| bytes <= room), "the caller has asked for the room");
        let found = self.find(stream).expect("it has room");
        self.streams[found].1.room.spend(bytes);
        self.room.spend(bytes);
        frame::write_head(kind::DATA, if is_end { flag::END_STREAM } else { 0 }, stream, bytes, out);
    }

    /// Writes what comes after an answer's body. The stream is then to be [ended](Self::end).
    pub fn trailers(&mut self, stream: u32, trailers: &HeaderMap, out: &mut Vec<u8>) {
        if self.find(stream).is_some() {
            headers::write_trailers(stream, trailers, self.tells(), out);
        }
    }

    /// The answer is written whole. What the caller kept of the stream.
    ///
    /// What is still to come of the request is not wanted. A client that is told so at once (RFC 9113 §8.1) may take it for a failure of its request, as curl
    /// 7.88 does; so it may send the rest of it, within the stream's window.
    pub fn end(&mut self, stream: u32, out: &mut Vec<u8>) -> Option<T> {
        let found = self.find(stream)?;
        let is_open = self.streams[found].1.is_open;
        let answered = || self.streams.iter().filter(|(_, known)| matches!(known.own, Own::Answered)).count();
        let is_over = !is_open || answered() >= ANSWERED_MAX;
        let own = std::mem::replace(&mut self.streams[found].1.own, Own::Answered);
        if is_over {
            self.remove(stream);
            self.ended(stream, is_open, out);
        }
        self.faults = self.faults.saturating_sub(u32::from(!is_open));
        own.into_kept()
    }

    /// Ends a stream before its end. What the caller kept of it.
    pub fn reset(&mut self, stream: u32, code: Code, out: &mut Vec<u8>) -> Option<T> {
        let own = self.remove(stream)?;
        self.write_reset(stream, code, out);
        own.into_kept()
    }

    /// So many bytes of a request's body were taken, or are not wanted: as many may come.
    pub fn taken(&mut self, stream: u32, bytes: usize, out: &mut Vec<u8>) {
        let Limits { connection_window, stream_window, .. } = self.limits;
        if let Some(more) = self.allowance.take(bytes, connection_window) {
            frame::write(kind::WINDOW_UPDATE, 0, 0, &more.to_be_bytes(), out);
        }
        let Some(found) = self.find(stream) else { return };
        let known = &mut self.streams[found].1;
        if let Some(more) = known.allowance.take(bytes, stream_window).filter(|_| known.is_open) {
            frame::write(kind::WINDOW_UPDATE, 0, stream, &more.to_be_bytes(), out);
        }
    }

    /// Asks whether the client is there.
    pub fn ask(&self, out: &mut Vec<u8>) {
        frame::write(kind::PING, 0, 0, ALIVE, out);
    }

    /// Tells the client to begin no more streams. Those that it has begun go on.
    pub fn goodbye(&mut self, out: &mut Vec<u8>) {
        if self.goodbye == Goodbye::Unsaid {
            self.goodbye = Goodbye::Said;
            frame::write_goaway(ANY_STREAM, Code::NO_ERROR, out);
            frame::write(kind::PING, 0, 0, GOODBYE, out);
        }
    }

    /// Tells the client why its connection ends now. No stream goes on.
    pub fn fail(&mut self, fault: Fault, out: &mut Vec<u8>) {
        frame::write_goaway(self.last, fault.code, out);
        self.streams = Vec::new();
    }

    /// So many bytes were written: what the client reads gives it reason to say something.
    pub fn wrote(&mut self, bytes: usize) {
        self.frames.wrote(bytes);
    }

    /// Returns the bytes that have come of a block of headers which is not whole.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.frames.of_block() + self.block.as_ref().map_or(0, |part| part.block.len())
    }

    /// Whether no stream goes on, and none will begin.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let begins_none = self.is_left || self.goodbye == Goodbye::Heard;
        begins_none && self.streams.iter().all(|(_, known)| matches!(known.own, Own::Answered))
    }

    /// Whether the next block has to tell that we use no table; it will.
    fn tells(&mut self) -> bool {
        self.peer.has_small_table && !std::mem::replace(&mut self.has_told, true)
    }

    fn find(&self, stream: u32) -> Option<usize> {
        self.streams.binary_search_by_key(&stream, |(number, _)| *number).ok()
    }

    fn remove(&mut self, stream: u32) -> Option<Own<T>> {
        let (_, known) = self.streams.remove(self.find(stream)?);
        if self.streams.is_empty() {
            // What a crowd that has left took goes back.
            self.streams = Vec::new();
        }
        Some(known.own)
    }

    /// A frame for a stream that was never begun breaks a rule.
    fn idle(&self, stream: u32) -> Result<(), Fault> {
        if stream > self.last || stream.is_multiple_of(2) {
            Err(Fault::protocol("a frame for a stream that has not begun"))
        } else {
            Ok(())
        }
    }

    /// The client has broken a stream; it is reset.
    fn broken(&mut self, stream: u32, code: Code, out: &mut Vec<u8>) -> Result<Option<Event<T>>, Fault> {
        self.faults += 1;
        if self.faults > self.limits.faults_max {
            return Err(Fault::new(Code::ENHANCE_YOUR_CALM, "too many streams were broken"));
        }
        let gone = self.remove(stream).map(|own| Event::Gone { stream, own: own.into_kept() });
        self.write_reset(stream, code, out);
        Ok(gone)
    }

    /// A stream that was begun is not wanted: its block was work for nothing.
    ///
    /// # Errors
    /// There were too many.
    pub fn refuse(&mut self, stream: u32, out: &mut Vec<u8>) -> Result<Option<T>, Fault> {
        let own = self.reset(stream, Code::REFUSED_STREAM, out);
        // It was counted as a request.
        self.wasted.add::<()>().and_then(|_| self.wasted.add::<()>()).map(|_| own)
    }

    fn ended(&mut self, stream: u32, is_open: bool, out: &mut Vec<u8>) {
        if is_open {
            self.write_reset(stream, Code::NO_ERROR, out);
        } else {
            self.recent.add(stream, By::Client);
        }
    }

    fn write_reset(&mut self, stream: u32, code: Code, out: &mut Vec<u8>) {
        self.recent.add(stream, By::Us);
        frame::write(kind::RST_STREAM, 0, stream, &code.0.to_be_bytes(), out);
    }
}

impl<T> Own<T> {
    fn kept(&mut self) -> Option<&mut T> {
        if let Self::Kept(own) = self { Some(own) } else { None }
    }

    fn into_kept(self) -> Option<T> {
        if let Self::Kept(own) = self { Some(own) } else { None }
    }
}

#[cfg(test)]
mod tests;
