//! A connection as the API sees it.

use std::{ops::Deref, sync::Arc};

use auth::authn::PresentedChain;
use server::Conn;

/// A connection, and what its client has proved by its certificate.
#[derive(Debug)]
pub(super) struct ConnInfo {
    conn: Arc<Conn>,
    /// The certificate of its handshake.
    pub(super) certificate: PresentedChain,
}

impl Deref for ConnInfo {
    type Target = Conn;

    fn deref(&self) -> &Conn {
        &self.conn
    }
}

impl ConnInfo {
    /// A connection whose client has shown this certificate.
    pub(super) fn new(conn: Arc<Conn>, certificate: PresentedChain) -> Self {
        Self { conn, certificate }
    }
}
