//! A one-way WebSocket: events go out, each in a frame of its own.

mod frame;
mod socket;

pub use frame::Payload;
pub use socket::{Events, Socket};
