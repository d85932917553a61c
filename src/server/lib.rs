//! An HTTP server: HTTP/1.1 and HTTP/2 over plain sockets and TLS, with limits for all that a client may make it hold.
//!
//! [`Listeners`] accepts connections, and [`Host`] says what answers the requests of each: a [`Service`], which turns a [`Request`] into an [`Answer`].

mod answer;
pub mod budget;
mod chunks;
mod connection;
mod connections;
mod counted;
mod frames;
pub mod heads;
mod linger;
mod listen;
mod pulse;
mod received;
mod rewind;
mod settings;
mod slices;
mod spoken;
mod streams;
mod tickets;
mod tls;
mod turns;
mod upgraded;
pub mod websocket;
mod whole;

pub use answer::{Alone, Answer, Extras, Guard, Host, Request, Service};
pub use connections::{Address, Reason, Seat};
pub use counted::LongRunning;
pub use listen::{Conn, ListenerError, ListenerKind, Listeners, Sockets};
pub use received::Received;
pub use settings::{Binding, Limits, NamedPair, TlsFiles};
pub use tls::Tls;
pub use upgraded::{Follow, Handshake, Io};
pub use whole::{NoBody, Whole};
