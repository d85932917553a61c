//! What goes wrong, and whom it ends: a stream or the connection (RFC 9113 §5.4).

use thiserror::Error;

/// Why a stream or a connection ends, as its frame says it (RFC 9113 §7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u32);

impl Code {
    /// There is no fault.
    pub const NO_ERROR: Self = Self(0);
    /// The client has broken a rule that has no code of its own.
    pub const PROTOCOL_ERROR: Self = Self(1);
    /// We have failed.
    pub const INTERNAL_ERROR: Self = Self(2);
    /// More came than its window has room for.
    pub const FLOW_CONTROL_ERROR: Self = Self(3);
    /// Something came for a stream that takes nothing any more.
    pub const STREAM_CLOSED: Self = Self(5);
    /// A frame has no length that its kind may have.
    pub const FRAME_SIZE_ERROR: Self = Self(6);
    /// The stream was not begun: the same request may be sent again.
    pub const REFUSED_STREAM: Self = Self(7);
    /// Nobody wants the rest of the stream.
    pub const CANCEL: Self = Self(8);
    /// A block of headers cannot be read.
    pub const COMPRESSION_ERROR: Self = Self(9);
    /// The client does too much of something.
    pub const ENHANCE_YOUR_CALM: Self = Self(11);
}

/// The client has broken a rule, and its connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("HTTP/2 connection error {}: {why}", .code.0)]
pub struct Fault {
    /// What it is told.
    pub code: Code,
    /// For the log.
    pub why: &'static str,
}

impl Fault {
    /// More control frames came than requests and reads give reason for.
    pub const FLOOD: Self = Self::new(Code::ENHANCE_YOUR_CALM, "there are too many control frames");

    pub(crate) const fn new(code: Code, why: &'static str) -> Self {
        Self { code, why }
    }

    pub(crate) const fn protocol(why: &'static str) -> Self {
        Self::new(Code::PROTOCOL_ERROR, why)
    }
}
