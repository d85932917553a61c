//! On whose behalf an object is written.

use std::{future::Future, pin::Pin};

use tokio::time::Instant;

use super::step::Approver;
use admission::hooks::{Decision, RightsQuestion, UserInfo};

/// Notes an annotation for the audit log: its name, its value, and whether only an event that has the request's object has it.
pub type AnnotationHook<'a> = dyn Fn(&str, String, bool) + Send + Sync + 'a;

/// On whose behalf an object is written. The default is the server itself, which may write everything, and of whose writes no webhook is asked.
#[derive(Clone, Copy, Default)]
pub struct By<'a> {
    /// Judges what would be written; none: everything may be.
    pub approver: Option<&'a dyn Approver>,
    /// The client whose request it is; none when it is the server itself.
    pub client: Option<Client<'a>>,
    /// It deletes a collection: the request names no object.
    pub is_of_many: bool,
    /// Is called with what admission notes for the audit log.
    pub annotation_hook: Option<&'a AnnotationHook<'a>>,
}

/// The client of a write.
#[derive(Clone, Copy)]
pub struct Client<'a> {
    /// The user.
    pub user: UserInfo<'a>,
    /// What the user may do.
    pub rights: &'a dyn Rights,
    /// The end of the request's time.
    pub until: Instant,
}

/// The end of a question about rights.
pub type Decided<'a> = Pin<Box<dyn Future<Output = Decision> + Send + 'a>>;

/// Decides what users may do, as expressions of admission ask.
pub trait Rights: Send + Sync {
    /// Decides a question about the user of the request, or about a service account.
    fn decide<'a>(&'a self, question: &'a RightsQuestion) -> Decided<'a>;
}

impl<'a> By<'a> {
    /// Returns the user; none of what the server itself writes.
    pub(super) fn user(&self) -> Option<&UserInfo<'a>> {
        self.client.as_ref().map(|client| &client.user)
    }
}
