//! Blocks of headers that become no request: refused streams, streams that have ended, blocks that are too long or malformed, what comes after a goodbye. Each
//! is work, and nobody who means it sends many.

use crate::{Code, Fault};

/// How many there may be. Each request that is taken makes up for one.
pub(crate) const WASTED_MAX: u32 = 256;

/// Those of one connection.
#[derive(Debug, Default)]
pub(crate) struct Wasted(u32);

impl Wasted {
    /// One more; nothing has happened by it.
    pub(crate) fn add<E>(&mut self) -> Result<Option<E>, Fault> {
        self.0 += 1;
        if self.0 > WASTED_MAX {
            return Err(Fault::new(Code::ENHANCE_YOUR_CALM, "too many blocks of headers became no request"));
        }
        Ok(None)
    }

    /// A request was taken.
    pub(crate) fn make_up(&mut self) {
        self.0 = self.0.saturating_sub(1);
    }
}
