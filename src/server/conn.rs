//! What is known about a connection.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::sync::{Notify, watch};

use super::{budget::Account, connections::Seat, heads};

/// Which listener a connection came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerKind {
    /// Plain HTTP on loopback, without authentication.
    Plain,
    /// TLS.
    Secure,
}

/// What is known about a connection; shared by its requests.
#[derive(Debug)]
pub struct Conn {
    /// The other end.
    pub peer: SocketAddr,
    /// Our end (discovery shows it as `serverAddress`).
    pub local: SocketAddr,
    /// Which listener it came through.
    pub listener: ListenerKind,
    /// What it has not read of its answers.
    pub unread: Arc<Account>,
    /// The heads of its requests.
    pub heads: Arc<heads::Account>,
    /// What has come of its requests' bodies.
    pub bodies: Arc<Account>,
    /// Its place among all connections.
    pub seat: Arc<Seat>,
    /// True when the server stops.
    pub stop: watch::Receiver<bool>,
    /// Makes it take no more requests; it ends when those that it has are answered.
    pub goodbye: Arc<Notify>,
    /// How long a body may send nothing: `--read-header-timeout`, for it is the same client that is waited for.
    pub silence_max: Duration,
}

impl Conn {
    /// Notes whose the connection is, as its certificate says.
    pub fn certified(&self, user: &str) {
        self.seat.certified(user);
        self.heads.owned_by(user);
    }
}
