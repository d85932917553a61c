//! The only room that knows axum and hyper: doors, requests, answers.

pub mod accept;
mod connection;
pub mod guard;
pub mod listen;
pub mod path;
pub mod respond;
pub mod status;
mod tls;
