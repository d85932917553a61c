//! What a client sent to prove who it is, kept for an upstream that judges it again.

use http::{
    HeaderMap, HeaderValue,
    header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL},
};

/// The headers by which a client proves who it is, before they are taken away.
pub(super) struct ClientProof {
    pub(super) authorization: Option<HeaderValue>,
    /// Subprotocols of a WebSocket, which may bring a token.
    pub(super) protocols: Vec<HeaderValue>,
}

impl ClientProof {
    /// Returns what these headers have of it.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let protocols = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().cloned().collect();
        Self { authorization: headers.get(AUTHORIZATION).cloned(), protocols }
    }
}
