//! A string table within the bytes of an object: the spans of its short texts, kept behind them.

/// Bytes of a span: the offset and the length of a text, 32 bits each.
pub(crate) const SPAN_BYTES: usize = 8;

/// Some texts of an object, by their spans.
#[derive(Clone, Copy)]
pub(crate) struct StringTable<'o> {
    bytes: &'o [u8],
    spans: &'o [u8],
}

/// Writes the spans of the texts of an object that is made, and the texts that its other bytes do not have.
#[derive(Default)]
pub(crate) struct SpanWriter {
    spans: Vec<u8>,
    added: Vec<u8>,
}

impl<'o> StringTable<'o> {
    /// The texts of these spans, of the object with these `bytes`.
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

impl std::fmt::Debug for StringTable<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries((0..self.len()).map(|at| self.text(at))).finish()
    }
}

impl SpanWriter {
    /// Adds the span of a text that stands here.
    pub(crate) fn at(&mut self, at: usize, text: &str) {
        for number in [at, text.len()] {
            self.spans.extend(u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
        }
    }

    /// Adds a text that stands nowhere: it comes behind the first `len` bytes.
    pub(crate) fn add(&mut self, len: usize, text: &str) {
        self.at(len + self.added.len(), text);
        self.added.extend_from_slice(text.as_bytes());
    }

    /// How many bytes come behind the others.
    pub(crate) fn len(&self) -> usize {
        self.added.len() + self.spans.len()
    }

    /// Appends the added texts and then all spans to the other bytes.
    pub(crate) fn into(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.added);
        bytes.extend_from_slice(&self.spans);
    }
}
