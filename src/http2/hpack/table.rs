//! The tables of HPACK: the static one (RFC 7541 Appendix A), and what a client puts into the dynamic one of its connection (§2.3.2, §4).

use std::collections::VecDeque;

use bytes::Bytes;

use super::HpackError;

/// What an entry counts besides its name and value (RFC 7541 §4.1).
const ENTRY_BYTES: usize = 32;

/// The index of the first `:status` of [`STATIC`].
pub(super) const STATUS: u8 = 8;

/// RFC 7541 Appendix A. The first entry has index 1.
static STATIC: [(&[u8], &[u8]); 61] = [
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"200"),
    (b":status", b"204"),
    (b":status", b"206"),
    (b":status", b"304"),
    (b":status", b"400"),
    (b":status", b"404"),
    (b":status", b"500"),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    (b"accept-language", b""),
    (b"accept-ranges", b""),
    (b"accept", b""),
    (b"access-control-allow-origin", b""),
    (b"age", b""),
    (b"allow", b""),
    (b"authorization", b""),
    (b"cache-control", b""),
    (b"content-disposition", b""),
    (b"content-encoding", b""),
    (b"content-language", b""),
    (b"content-length", b""),
    (b"content-location", b""),
    (b"content-range", b""),
    (b"content-type", b""),
    (b"cookie", b""),
    (b"date", b""),
    (b"etag", b""),
    (b"expect", b""),
    (b"expires", b""),
    (b"from", b""),
    (b"host", b""),
    (b"if-match", b""),
    (b"if-modified-since", b""),
    (b"if-none-match", b""),
    (b"if-range", b""),
    (b"if-unmodified-since", b""),
    (b"last-modified", b""),
    (b"link", b""),
    (b"location", b""),
    (b"max-forwards", b""),
    (b"proxy-authenticate", b""),
    (b"proxy-authorization", b""),
    (b"range", b""),
    (b"referer", b""),
    (b"refresh", b""),
    (b"retry-after", b""),
    (b"server", b""),
    (b"set-cookie", b""),
    (b"strict-transport-security", b""),
    (b"transfer-encoding", b""),
    (b"user-agent", b""),
    (b"vary", b""),
    (b"via", b""),
    (b"www-authenticate", b""),
];

/// The index of the first entry of the static table with this name. The compiler makes it a comparison of length and bytes.
pub(super) fn index_of_name(name: &[u8]) -> Option<u8> {
    Some(match name {
        b":authority" => 1,
        b":method" => 2,
        b":path" => 4,
        b":scheme" => 6,
        b":status" => STATUS,
        b"accept-charset" => 15,
        b"accept-encoding" => 16,
        b"accept-language" => 17,
        b"accept-ranges" => 18,
        b"accept" => 19,
        b"access-control-allow-origin" => 20,
        b"age" => 21,
        b"allow" => 22,
        b"authorization" => 23,
        b"cache-control" => 24,
        b"content-disposition" => 25,
        b"content-encoding" => 26,
        b"content-language" => 27,
        b"content-length" => 28,
        b"content-location" => 29,
        b"content-range" => 30,
        b"content-type" => 31,
        b"cookie" => 32,
        b"date" => 33,
        b"etag" => 34,
        b"expect" => 35,
        b"expires" => 36,
        b"from" => 37,
        b"host" => 38,
        b"if-match" => 39,
        b"if-modified-since" => 40,
        b"if-none-match" => 41,
        b"if-range" => 42,
        b"if-unmodified-since" => 43,
        b"last-modified" => 44,
        b"link" => 45,
        b"location" => 46,
        b"max-forwards" => 47,
        b"proxy-authenticate" => 48,
        b"proxy-authorization" => 49,
        b"range" => 50,
        b"referer" => 51,
        b"refresh" => 52,
        b"retry-after" => 53,
        b"server" => 54,
        b"set-cookie" => 55,
        b"strict-transport-security" => 56,
        b"transfer-encoding" => 57,
        b"user-agent" => 58,
        b"vary" => 59,
        b"via" => 60,
        b"www-authenticate" => 61,
        _ => return None,
    })
}

/// The index of the entry of the static table with this value, and the name that the entry with the first index has.
pub(super) fn index_of_field(first: u8, value: &[u8]) -> Option<u8> {
    let last = match first {
        2 | 4 | 6 => first + 1,
        STATUS => 14,
        _ => first,
    };
    (first..=last).find(|index| STATIC[usize::from(*index) - 1].1 == value)
}

/// What the indexes of one connection's blocks mean.
#[derive(Debug)]
pub(super) struct Table {
    /// The newest first.
    entries: VecDeque<Entry>,
    /// What the entries count.
    bytes: usize,
    /// What they may count: the client chooses it, up to the limit.
    bytes_max: usize,
    bytes_limit: usize,
}

impl Table {
    /// As large as it may become: whoever fills less of it names no entry that should be gone.
    pub(super) const fn new(bytes_limit: usize) -> Self {
        Self { entries: VecDeque::new(), bytes: 0, bytes_max: bytes_limit, bytes_limit }
    }

    /// What has this index (RFC 7541 §2.3.3): the static table's fields come first, and then the newest.
    pub(super) fn at(&self, index: usize) -> Result<Found<'_>, HpackError> {
        let place = index.checked_sub(1).ok_or(HpackError::UnknownIndex)?;
        match STATIC.get(place) {
            Some((name, value)) => Ok(Found::Static(name, value)),
            None => self.entries.get(place - STATIC.len()).map(Found::Dynamic).ok_or(HpackError::UnknownIndex),
        }
    }

    /// Whether such an entry is not too large for a table without others.
    pub(super) fn has_room_for(&self, name: &[u8], value: &[u8]) -> bool {
        name.len() + value.len() + ENTRY_BYTES <= self.bytes_max
    }

    /// Adds an entry that there is room for, at the cost of the oldest ones (RFC 7541 §4.4). None: it was too large, and takes all of them with it.
    pub(super) fn insert(&mut self, entry: Option<Entry>) {
        let Some(entry) = entry else { return self.evict(0) };
        debug_assert!(entry.bytes() <= self.bytes_max, "there is room");
        self.evict(self.bytes_max.saturating_sub(entry.bytes()));
        self.bytes += entry.bytes();
        self.entries.push_front(entry);
    }

    /// The client wants a table of this size (RFC 7541 §4.3).
    pub(super) fn resize(&mut self, bytes_max: usize) -> Result<(), HpackError> {
        if bytes_max > self.bytes_limit {
            return Err(HpackError::TableTooLarge);
        }
        self.bytes_max = bytes_max;
        self.evict(bytes_max);
        self.entries.shrink_to_fit();
        Ok(())
    }

    /// Lets the oldest entries go until the rest counts no more than this.
    fn evict(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max
            && let Some(oldest) = self.entries.pop_back()
        {
            self.bytes -= oldest.bytes();
        }
    }
}

/// A field of one of the tables.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found<'a> {
    /// Name and value.
    Static(&'static [u8], &'static [u8]),
    Dynamic(&'a Entry),
}

impl<'a> Found<'a> {
    pub(super) fn name(self) -> &'a [u8] {
        match self {
            Self::Static(name, _) => name,
            Self::Dynamic(entry) => entry.name(),
        }
    }
}

/// A field of the dynamic table: one small allocation, which requests that name it share.
#[derive(Debug)]
pub(super) struct Entry {
    /// The name and the value after it.
    text: Bytes,
    name_bytes: usize,
}

impl Entry {
    pub(super) fn new(name: &[u8], value: &[u8]) -> Self {
        Self { text: [name, value].concat().into(), name_bytes: name.len() }
    }

    pub(super) fn name(&self) -> &[u8] {
        &self.text[..self.name_bytes]
    }

    /// The value, in the bytes that the table holds.
    pub(super) fn value(&self) -> Bytes {
        self.text.slice(self.name_bytes..)
    }

    fn bytes(&self) -> usize {
        self.text.len() + ENTRY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_static_table_is_found_by_its_names_and_values() {
        for (place, (name, value)) in STATIC.iter().enumerate() {
            let first = STATIC.iter().position(|(other, _)| other == name).expect("itself at least") + 1;
            assert_eq!(index_of_name(name).map(usize::from), Some(first), "{}", name.escape_ascii());
            assert_eq!(index_of_field(first as u8, value).map(usize::from), Some(place + 1), "{}", name.escape_ascii());
            assert_eq!(index_of_field(first as u8, b"no such value"), None);
            for other in [&name[1..], &name[..name.len() - 1], &[name, &b"x"[..]].concat(), &name.to_ascii_uppercase()] {
                assert_eq!(index_of_name(other), None, "{}", other.escape_ascii());
            }
        }
        assert_eq!(index_of_name(b""), None);
    }

    #[test]
    fn a_table_without_entries_allocates_nothing() {
        let mut table = Table::new(4_096);
        table.insert(Some(Entry::new(b"name", b"value")));
        assert_eq!(table.bytes, 41);
        table.resize(0).expect("less than before");
        assert_eq!((table.bytes, table.entries.len(), table.entries.capacity()), (0, 0, 0));
        table.insert(Some(Entry::new(b"", b"")).filter(|_| table.has_room_for(b"", b"")));
        assert_eq!((table.bytes, table.entries.capacity()), (0, 0));
    }
}
