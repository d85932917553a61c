//! HTTP/2 as the server of one connection sees it (RFC 9113): bytes come in, events come out, and what is to be written is appended to a buffer of the
//! caller.
//!
//! [`Server`] is the connection, [`hpack`] its header compression (RFC 7541). Push, priorities and `CONNECT` are not spoken: a server need not.

mod event;
mod fault;
mod flood;
mod frame;
mod headers;
pub mod hpack;
mod peer;
mod recent;
mod server;
mod wasted;
mod window;

pub use event::{Event, Limits};
pub use fault::{Code, Fault};
pub use flood::Tokens;
pub use frame::PREFACE;
pub use headers::content_length;
pub use server::Server;
