//! What goes with an answer of ours beside its head and its body.

use std::sync::Arc;

use http::Response;
use server::{Alone, Guard, Handshake, LongRunning, budget::Reservation};

use super::inflight::Place;

/// What goes with an answer until the connection has it. It lies in the extensions of a response: axum's handlers return nothing else.
#[derive(Clone, Debug, Default)]
pub(super) struct Extras {
    /// Of a body that was made before it is sent: the bytes that it holds.
    pub(super) made: Option<Arc<Reservation>>,
    /// Of a body that is made while it is sent, and keeps others waiting.
    pub(super) alone: Option<Alone>,
    /// The place of the request among those under way.
    pub(super) place: Option<Place>,
    /// Of a body that may stand still.
    pub(super) long_running: Option<LongRunning>,
    /// What the connection becomes after it.
    pub(super) upgrade: Option<Handshake>,
    /// Whether it is compressed if it is large.
    pub(super) offers_gzip: bool,
    /// Whether another server may have the answer that this one could not give.
    pub(super) elsewhere: bool,
}

/// Returns what goes with an answer, to be changed.
pub(super) fn of<B>(response: &mut Response<B>) -> &mut Extras {
    response.extensions_mut().get_or_insert_default()
}

/// Returns what goes with an answer, if anything does.
pub(super) fn get<B>(response: &Response<B>) -> Option<&Extras> {
    response.extensions().get()
}

/// Takes out what the connection is to have of an answer.
pub(super) fn take<B>(response: &mut Response<B>) -> server::Extras {
    let Extras { made, alone, place, long_running, upgrade, .. } = response.extensions_mut().remove().unwrap_or_default();
    server::Extras { made, alone, guard: place.map(Guard::of), long_running, upgrade }
}
