//! What can be wrong with a message, or with JSON that is to become one.

/// Why bytes are no message of their type, or JSON cannot become one. The texts of broken bytes are those of the real server's decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtoError {
    /// Not `k8s\0` at the beginning.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Prefix,
    /// Nothing after the prefix.
    #[error("empty body")]
    Empty,
    /// The bytes end inside of a field.
    #[error("unexpected EOF")]
    Truncated,
    /// A number of more than ten bytes.
    #[error("proto: integer overflow")]
    Overflow,
    /// A field number or wire type that cannot be.
    #[error("proto: illegal tag or wire type")]
    Tag,
    /// A field has another wire type than its type has.
    #[error("proto: wrong wireType for field {0}")]
    WireType(&'static str),
    /// A message field that may stand once stands there again. (The real server would merge the two; no encoder writes them.)
    #[error("proto: field {0} is there twice")]
    Twice(&'static str),
    /// The kind or version of an envelope is not UTF-8. (Other strings may be what they like; JSON then shows U+FFFD.)
    #[error("proto: the type is not UTF-8")]
    Utf8,
    /// More messages inside of each other, or arrays and objects, than `MESSAGE_DEPTH_MAX`.
    #[error("nested too deeply")]
    Depth,
    /// A field that holds JSON holds something else.
    #[error("proto: field {0} is not JSON")]
    Raw(&'static str),
    /// A quantity that is none, in kube-apiserver's words.
    #[error("{0}")]
    Quantity(&'static str),
    /// A value that its type does not have: a number that JSON cannot say, a third kind of int-or-string.
    #[error("proto: field {0} has a value that cannot be")]
    Value(&'static str),
    /// The text is not JSON; at this byte it cannot go on.
    #[error("invalid JSON at byte {0}")]
    Json(usize),
    /// A member has another type in JSON than in the message, or a value that its type does not have.
    #[error("cannot read member {0} as its type")]
    Member(&'static str),
    /// More than 4 GiB, or more than was asked for.
    #[error("too large")]
    TooLarge,
}

pub(super) type Result<T> = std::result::Result<T, ProtoError>;
