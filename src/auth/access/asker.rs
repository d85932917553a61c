//! Who waits for the answer of an authorizer, and how long; and why there is none.

use std::net::IpAddr;
use std::time::Duration;

use thiserror::Error;
use tokio::time::Instant;

use crate::{ANONYMOUS, User};

/// So much before the end of a request's time it is told that there was no place for its question: before it is told that the time is over.
const BEFORE_THE_END: Duration = Duration::from_millis(50);

/// Who is charged for a question.
#[derive(Clone, Copy)]
pub struct Asker<'a> {
    /// Who asks.
    pub user: &'a User,
    /// From where; that is who somebody without a name is.
    pub address: Option<IpAddr>,
    /// The end of the request's time.
    pub until: Instant,
}

/// Why nobody has decided. It is no judgement: who asks again may hear another answer.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Undecided {
    /// There was no place for a question in time.
    #[error("too many questions are waiting for an authorizer, please try again later")]
    TooMany,
    /// What rights are made of is not in memory yet.
    #[error("the roles and bindings of this server are not loaded yet, please try again later")]
    Loading,
}

impl Asker<'_> {
    /// Whom its questions are counted for.
    pub(super) fn key(&self) -> String {
        match self.address {
            Some(address) if self.user.name == ANONYMOUS => format!("{ANONYMOUS} {address}"),
            _ => self.user.name.clone(),
        }
    }

    /// How long it waits for a place.
    pub(super) fn patience(&self) -> Instant {
        self.until.checked_sub(BEFORE_THE_END).unwrap_or(self.until)
    }
}
