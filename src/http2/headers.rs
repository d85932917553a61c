//! Blocks of headers: a request from one, and one from an answer (RFC 9113 §8).

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, Version,
    header::{CONNECTION, CONTENT_LENGTH, TE, TRANSFER_ENCODING, UPGRADE},
    uri::{Authority, PathAndQuery, Scheme},
};

use crate::{
    Fault,
    frame::{self, flag, kind},
    hpack::{Decoder, Value, encode_field, encode_status},
    peer::FRAME_BYTES_MAX,
};

/// What a field counts beside its name and value (RFC 9113 §6.5.2).
const FIELD_BYTES: usize = 32;

/// What a block says.
#[derive(Debug)]
pub(crate) enum Block<T> {
    Good(T),
    /// It breaks a rule of HTTP, and ends its stream (RFC 9113 §8.1.1).
    Malformed,
    /// It has more than was announced.
    TooLarge,
}

/// Reads the block of a request. Its fields may have so many bytes.
///
/// # Errors
/// The block cannot be read, so none after it can: the connection ends.
pub(crate) fn request(decoder: &mut Decoder, block: &[u8], bytes_max: usize) -> Result<Block<Request<()>>, Fault> {
    let fields = Fields::read(decoder, block, bytes_max)?;
    if fields.bytes_left.is_none() {
        return Ok(Block::TooLarge);
    }
    Ok(fields.request().map_or(Block::Malformed, Block::Good))
}

/// Reads the block after a request's body.
///
/// # Errors
/// As [`request`].
pub(crate) fn trailers(decoder: &mut Decoder, block: &[u8], bytes_max: usize) -> Result<Block<HeaderMap>, Fault> {
    let fields = Fields::read(decoder, block, bytes_max)?;
    if fields.bytes_left.is_none() {
        return Ok(Block::TooLarge);
    }
    Ok(if fields.is_malformed || fields.has_pseudo { Block::Malformed } else { Block::Good(fields.headers) })
}

/// The length that a request says its body has. `None`: it says none that there is.
#[must_use]
pub fn content_length(headers: &HeaderMap) -> Option<u64> {
    let mut said = headers.get_all(CONTENT_LENGTH).iter();
    let first = said.next().filter(|first| first.as_bytes().iter().all(u8::is_ascii_digit))?;
    first.to_str().ok()?.parse().ok().filter(|_| said.all(|other| other == first))
}

/// The fields of a block.
#[derive(Default)]
struct Fields {
    method: Option<Method>,
    scheme: Option<Scheme>,
    authority: Option<Authority>,
    path: Option<PathAndQuery>,
    headers: HeaderMap,
    has_pseudo: bool,
    is_malformed: bool,
    /// `None`: there are too many.
    bytes_left: Option<usize>,
}

impl Fields {
    fn read(decoder: &mut Decoder, block: &[u8], bytes_max: usize) -> Result<Self, Fault> {
        let mut fields = Self { bytes_left: Some(bytes_max), ..Self::default() };
        decoder
            .decode(block, |name, value| fields.take(name, value))
            .map_err(|_| Fault::new(crate::Code::COMPRESSION_ERROR, "a block of headers cannot be read"))?;
        Ok(fields)
    }

    fn take(&mut self, name: &[u8], value: Value<'_>) {
        self.bytes_left = self.bytes_left.and_then(|left| left.checked_sub(name.len() + value.as_ref().len() + FIELD_BYTES));
        if self.bytes_left.is_none() || self.is_malformed {
            return;
        }
        let is_good = match name {
            [b':', pseudo @ ..] => self.take_pseudo(pseudo, value),
            _ => self.take_header(name, value),
        };
        self.is_malformed = is_good.is_none();
    }

    /// A field of the request line. They come before all others, each once (RFC 9113 §8.3).
    fn take_pseudo(&mut self, name: &[u8], value: Value<'_>) -> Option<()> {
        fn once<T, E>(place: &mut Option<T>, value: Result<T, E>) -> Option<()> {
            value.ok().filter(|_| place.is_none()).map(|value| *place = Some(value))
        }
        self.has_pseudo = true;
        if !self.headers.is_empty() {
            return None;
        }
        match name {
            b"method" => once(&mut self.method, Method::from_bytes(value.as_ref())),
            b"scheme" => once(&mut self.scheme, Scheme::try_from(value.as_ref())),
            b"authority" => once(&mut self.authority, Authority::try_from(value.as_ref())),
            b"path" if value.as_ref().is_empty() => None,
            b"path" => once(
                &mut self.path,
                match value {
                    Value::Passing(path) => PathAndQuery::try_from(path),
                    Value::Shared(path) => PathAndQuery::from_maybe_shared(path),
                },
            ),
            _ => None,
        }
    }

    fn take_header(&mut self, name: &[u8], value: Value<'_>) -> Option<()> {
        // Names come in lower case (RFC 9113 §8.2.1).
        let name = HeaderName::from_lowercase(name).ok()?;
        let value = match value {
            Value::Passing(value) => HeaderValue::from_bytes(value),
            Value::Shared(value) => HeaderValue::from_maybe_shared(value),
        };
        let value = value.ok()?;
        if is_of_connection(&name) || name == TE && value != "trailers" {
            return None;
        }
        self.headers.try_append(name, value).ok().map(drop)
    }

    fn request(self) -> Option<Request<()>> {
        let (method, scheme, path) = (self.method?, self.scheme?, self.path?);
        if self.is_malformed || method == Method::CONNECT {
            return None;
        }
        let mut uri = http::uri::Parts::default();
        // There is no URI of a scheme and a path.
        uri.scheme = self.authority.is_some().then_some(scheme);
        (uri.authority, uri.path_and_query) = (self.authority, Some(path));
        let mut request = Request::new(());
        (*request.method_mut(), *request.uri_mut()) = (method, Uri::from_parts(uri).ok()?);
        (*request.version_mut(), *request.headers_mut()) = (Version::HTTP_2, self.headers);
        Some(request)
    }
}

/// Whether a field is of one connection of HTTP/1.1, and has no place here (RFC 9113 §8.2.2).
fn is_of_connection(name: &HeaderName) -> bool {
    [&CONNECTION, &TRANSFER_ENCODING, &UPGRADE].contains(&name) || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

/// Tells that our table has no room, at the beginning of a block (RFC 7541 §6.3).
const NO_TABLE: u8 = 0x20;

/// Writes the block of an answer; without the fields that have no place here. `tells`: that we use no table.
pub(crate) fn write_answer(stream: u32, status: StatusCode, headers: &HeaderMap, is_end: bool, tells: bool, out: &mut Vec<u8>) {
    write(stream, is_end, out, |out| {
        out.extend(tells.then_some(NO_TABLE));
        encode_status(status.as_u16(), out);
        fields(headers, out);
    });
}

/// Writes the block after an answer's body. `tells`: that we use no table.
pub(crate) fn write_trailers(stream: u32, headers: &HeaderMap, tells: bool, out: &mut Vec<u8>) {
    write(stream, true, out, |out| {
        out.extend(tells.then_some(NO_TABLE));
        fields(headers, out);
    });
}

fn fields(headers: &HeaderMap, out: &mut Vec<u8>) {
    for (name, value) in headers.iter().filter(|(name, _)| !is_of_connection(name)) {
        encode_field(name.as_str().as_bytes(), value.as_bytes(), out);
    }
}

/// Writes a block into one frame, or as many as it needs.
fn write(stream: u32, is_end: bool, out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    let end = if is_end { flag::END_STREAM } else { 0 };
    frame::write_head(kind::HEADERS, end | flag::END_HEADERS, stream, 0, out);
    encode(out);
    let length = out.len() - begin - frame::HEAD_BYTES;
    if length <= FRAME_BYTES_MAX {
        let head = &mut out[begin..begin + 3];
        head.copy_from_slice(&u32::try_from(length).expect("it is a frame's").to_be_bytes()[1..]);
        return;
    }
    let block = out.split_off(begin + frame::HEAD_BYTES);
    out.truncate(begin);
    let mut rest = block.chunks(FRAME_BYTES_MAX).peekable();
    let (mut kind, mut flags) = (kind::HEADERS, end);
    while let Some(part) = rest.next() {
        let last = if rest.peek().is_none() { flag::END_HEADERS } else { 0 };
        frame::write(kind, flags | last, stream, part, out);
        (kind, flags) = (kind::CONTINUATION, 0);
    }
}
