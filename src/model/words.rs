//! Short texts within the bytes of an object: where each one stands, kept behind them.

/// Bytes that tell where one text stands: offset and length, 32 bits each.
pub(crate) const SPAN_BYTES: usize = 8;

/// Some of the texts.
#[derive(Clone, Copy)]
pub(crate) struct Words<'o> {
    bytes: &'o [u8],
    spans: &'o [u8],
}

/// Where texts stand in what is to be an object's bytes, and those that have to be added to it.
#[derive(Default)]
pub(crate) struct Places {
    spans: Vec<u8>,
    added: Vec<u8>,
}

impl<'o> Words<'o> {
    /// The texts whose places these `spans` are, of the object with these `bytes`.
    pub(crate) fn new(bytes: &'o [u8], spans: &'o [u8]) -> Self {
        Self { bytes, spans }
    }

    pub(crate) fn len(&self) -> usize {
        self.spans.len() / SPAN_BYTES
    }

    /// The bytes of one text, nothing when there are not so many.
    pub(crate) fn bytes(&self, index: usize) -> &'o [u8] {
        let number = |at: usize| self.spans.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_le_bytes) as usize;
        let (at, len) = (number(SPAN_BYTES * index), number(SPAN_BYTES * index + 4));
        self.bytes.get(at..at + len).unwrap_or_default()
    }

    /// One text.
    pub(crate) fn text(&self, index: usize) -> &'o str {
        std::str::from_utf8(self.bytes(index)).unwrap_or_default()
    }
}

impl std::fmt::Debug for Words<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries((0..self.len()).map(|at| self.text(at))).finish()
    }
}

impl Places {
    /// The next text stands here.
    pub(crate) fn at(&mut self, at: usize, text: &str) {
        for number in [at, text.len()] {
            self.spans.extend(u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
        }
    }

    /// The next text stands nowhere: it is added behind the first `len` bytes.
    pub(crate) fn add(&mut self, len: usize, text: &str) {
        self.at(len + self.added.len(), text);
        self.added.extend_from_slice(text.as_bytes());
    }

    /// How many bytes come behind the others.
    pub(crate) fn len(&self) -> usize {
        self.added.len() + self.spans.len()
    }

    /// Puts the added texts and then all places behind the other bytes.
    pub(crate) fn into(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.added);
        bytes.extend_from_slice(&self.spans);
    }
}
