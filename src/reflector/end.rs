//! Why a watch or load of a resource has ended, which says how it goes on.

use std::time::Duration;

use super::event::{Failure, Lie};
use super::machine::Wrong;
use super::source::NoAnswer;
use cache::cacher::Gone;
use client::CallError;

/// See the file's header.
#[derive(Debug)]
pub(crate) enum End {
    /// Its time was over: the next one goes on.
    Over,
    /// It goes on after a pause.
    Later(String, Option<Duration>),
    /// It goes on after a pause, or when upstream answers anybody.
    Away(String),
    /// What upstream has told cannot be gone on from.
    Anew(String),
    /// The same, and upstream may have another history since.
    InDoubt(String),
    /// Upstream does not let us, or has no such resource.
    Refused(String),
    /// Its objects do not fit into what there is for objects.
    TooLarge(String),
    /// It has what is not known here, as JSON shows it all the same.
    OnlyJson(String),
    /// Upstream has no watch that begins with all objects.
    Unsupported(String),
    /// Nobody takes what comes any longer.
    Gone(Gone),
}

impl End {
    pub(crate) fn later(why: &str) -> Self {
        Self::Later(why.to_owned(), None)
    }

    pub(crate) fn endless() -> Self {
        Self::later("it is still being loaded after a long time")
    }

    pub(crate) fn call(error: &CallError) -> Self {
        Self::Away(error.to_string())
    }

    pub(crate) fn failed(failure: Failure) -> Self {
        let why = failure.to_string();
        match failure.code {
            410 => Self::InDoubt(why),
            403..=406 => Self::Refused(why),
            _ => Self::Later(why, failure.retry_after),
        }
    }
}

impl From<NoAnswer> for End {
    fn from(error: NoAnswer) -> Self {
        match error {
            NoAnswer::Failed(failure) => Self::failed(failure),
            NoAnswer::Call(error) => Self::call(&error),
            NoAnswer::Old => Self::later("upstream answers from memory that may be old"),
        }
    }
}

/// Upstream is out of order: what it says next may be as well, so what is known stays, and it is asked again.
impl From<Lie> for End {
    fn from(lie: Lie) -> Self {
        Self::Later(lie.to_string(), None)
    }
}

impl From<Wrong> for End {
    fn from(wrong: Wrong) -> Self {
        match wrong {
            Wrong::Lie(lie) => lie.into(),
            Wrong::Late(..) => Self::Anew(wrong.to_string()),
            Wrong::Unknown(why) => Self::OnlyJson(why),
        }
    }
}
