//! An HTTP server: HTTP/1.1 and HTTP/2 over plain sockets and TLS, with limits for all that a client may make it hold.
//!
//! [`Listeners`] accepts connections, and [`Host`] says what answers the requests of each: a [`Service`], which turns a [`Request`] into an [`Answer`].

mod accounted;
mod activity;
mod answer;
pub mod budget;
mod chunks;
mod conn;
mod connection;
mod connections;
pub mod heads;
mod linger;
mod listen;
mod protocol;
mod request_body;
mod rewind;
mod settings;
mod slices;
mod streams;
mod task;
mod tickets;
mod tls;
mod upgraded;
pub mod websocket;
mod whole;

pub use answer::{Alone, Answer, Extras, Guard, Host, LongRunning, Request, Service};
pub use conn::{Conn, ListenerKind};
pub use connections::{Address, CloseReason, Seat};
pub use listen::{ListenerError, Listeners, Sockets};
pub use request_body::RequestBody;
pub use settings::{Binding, Limits, NamedPair, TlsFiles};
pub use tls::Tls;
pub use upgraded::{Follow, Handshake, Io};
pub use whole::{NoBody, Whole};
