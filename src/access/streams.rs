//! The open watches, with their users and what they were allowed: when a user loses a right, the watches that need it end. kube-apiserver authorizes a
//! watch only once, when it begins.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Context;

use futures_util::task::AtomicWaker;
use rand::seq::SliceRandom;
use tokio::sync::Notify;

use auth::User;
use auth::authz::{Attributes, Decision, RequestInfo, Verdict};
use auth::shared::Shared;

/// All of them.
#[derive(Default)]
pub(super) struct Streams(Mutex<Filed>);

#[derive(Default)]
struct Filed {
    next: u64,
    users: HashMap<Arc<User>, BTreeMap<u64, Arc<Stream>>>,
}

/// One of them: what was allowed when it began.
pub(super) struct Stream {
    user: Arc<User>,
    info: Shared<RequestInfo>,
    /// Whether what proved the user still counts; none when no file may take it away.
    still_counts: Option<StillCounts>,
    /// Makes its connection take no more requests.
    goodbye: Arc<Notify>,
    refused: OnceLock<Refused>,
    waker: AtomicWaker,
}

/// Asks whether a credential still counts.
pub type StillCounts = Box<dyn Fn() -> bool + Send + Sync>;

/// Why a stream is allowed no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The authorizers say no, for this reason; it may be empty.
    Forbidden(String),
    /// The account that opened it, or what proved who opened it, is no more.
    Unauthorized,
    /// Nothing is wrong: its client should go to another replica.
    Moved,
}

/// A stream's right to go on; it is forgotten when this is dropped.
pub struct Permission {
    stream: Arc<Stream>,
    number: u64,
    streams: Arc<Streams>,
}

impl Streams {
    /// Files a stream.
    pub(super) fn open(
        self: &Arc<Self>,
        user: Arc<User>,
        info: Shared<RequestInfo>,
        still_counts: Option<StillCounts>,
        goodbye: Arc<Notify>,
    ) -> Permission {
        let stream = Stream { user: user.clone(), info, still_counts, goodbye, refused: OnceLock::new(), waker: AtomicWaker::new() };
        let stream = Arc::new(stream);
        let mut filed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        filed.next += 1;
        let number = filed.next;
        filed.users.entry(user).or_default().insert(number, stream.clone());
        drop(filed);
        // A file may have changed while the request was on its way here.
        stream.check();
        Permission { stream, number, streams: self.clone() }
    }

    /// Those that have not been refused.
    pub(super) fn open_ones(&self) -> Vec<Arc<Stream>> {
        self.all(|_| true)
    }

    /// Ends the streams of users who are no more; how many.
    pub(super) fn expel(&self, is_gone: impl Fn(&User) -> bool) -> usize {
        self.all(is_gone).iter().map(|stream| stream.end(Refused::Unauthorized)).sum()
    }

    /// Ends the streams whose credentials do not count any longer; how many.
    pub(super) fn check(&self) -> usize {
        self.open_ones().iter().map(|stream| stream.check()).sum()
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.all(|_| true).len()
    }

    /// The streams of whole connections, chosen at random: so many, or a few more. Their connections take no more requests.
    pub(super) fn dismissed(&self, count: usize) -> Vec<Arc<Stream>> {
        let mut connections: HashMap<*const Notify, Vec<Arc<Stream>>> = HashMap::new();
        for stream in self.open_ones() {
            connections.entry(Arc::as_ptr(&stream.goodbye)).or_default().push(stream);
        }
        let mut connections: Vec<_> = connections.into_values().collect();
        connections.shuffle(&mut rand::rng());
        let mut dismissed = Vec::new();
        for connection in connections {
            if dismissed.len() >= count {
                break;
            }
            connection.iter().take(1).for_each(|stream| stream.goodbye.notify_one());
            dismissed.extend(connection);
        }
        dismissed
    }

    /// The streams of these users.
    fn all(&self, wanted: impl Fn(&User) -> bool) -> Vec<Arc<Stream>> {
        let filed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of = filed.users.iter().filter(|(user, _)| wanted(user)).flat_map(|(_, streams)| streams.values());
        of.filter(|stream| stream.refused.get().is_none()).cloned().collect()
    }
}

impl Stream {
    /// Who opened it.
    pub(super) fn user(&self) -> &User {
        &self.user
    }

    /// What was allowed.
    pub(super) fn attributes(&self) -> Attributes<'_> {
        self.info.attributes(&self.user)
    }

    /// Ends it if it is not allowed any longer; 1 if it ended so.
    pub(super) fn judge(&self, verdict: &Verdict) -> usize {
        if verdict.decision == Decision::Allow { 0 } else { self.end(Refused::Forbidden(verdict.reason.to_string())) }
    }

    /// Ends it if what proved its user does not count any longer; 1 if it ended so.
    fn check(&self) -> usize {
        match &self.still_counts {
            Some(still_counts) if !still_counts() => self.end(Refused::Unauthorized),
            _ => 0,
        }
    }

    /// Ends it; 1 if it had not ended before.
    pub(super) fn end(&self, why: Refused) -> usize {
        let is_first = self.refused.set(why).is_ok();
        if is_first {
            self.waker.wake();
        }
        usize::from(is_first)
    }
}

impl Permission {
    /// Who, what, and why not any longer; the task is woken when that comes to be.
    pub fn poll_refused(&self, cx: &Context<'_>) -> Option<(&User, &RequestInfo, &Refused)> {
        let stream = &*self.stream;
        if stream.refused.get().is_none() {
            stream.waker.register(cx.waker());
        }
        // After the waker is known: what is refused from now on wakes it.
        stream.refused.get().map(|why| (&*stream.user, &*stream.info, why))
    }
}

impl Drop for Permission {
    fn drop(&mut self) {
        let mut filed = self.streams.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(of_user) = filed.users.get_mut(&self.stream.user) else { return };
        of_user.remove(&self.number);
        if of_user.is_empty() {
            filed.users.remove(&self.stream.user);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Waker;

    use futures_util::FutureExt;

    use super::*;
    use auth::authz::Authorizer;
    use auth::authz::{AlwaysAllow, AlwaysDeny};

    #[test]
    fn a_stream_ends_when_its_right_does() {
        let streams = Arc::new(Streams::default());
        let open = |name: &str| {
            let user = Arc::new(User { name: name.to_owned(), ..User::default() });
            streams.open(user, RequestInfo { path: "/x".into(), ..RequestInfo::default() }.into(), None, Arc::default())
        };
        let (jane, joe) = (open("jane"), open("joe"));
        let refused = |permission: &Permission| permission.poll_refused(&Context::from_waker(Waker::noop())).map(|(_, _, why)| why.clone());
        let judge =
            |decide: &dyn Fn(&Stream) -> Verdict| streams.open_ones().iter().map(|stream| stream.judge(&decide(stream))).sum::<usize>();
        assert_eq!(judge(&|stream| AlwaysAllow.decide(&stream.attributes())), 0);
        assert_eq!((refused(&jane), refused(&joe)), (None, None));
        let only_joe = |stream: &Stream| {
            let asked = stream.attributes();
            if asked.user.name == "joe" { AlwaysAllow.decide(&asked) } else { AlwaysDeny.decide(&asked) }
        };
        assert_eq!(judge(&only_joe), 1);
        assert_eq!((refused(&jane), refused(&joe)), (Some(Refused::Forbidden("Everything is forbidden.".to_owned())), None));
        assert_eq!(judge(&only_joe), 0, "it is told once");
        assert_eq!((streams.expel(|user| user.name == "joe"), refused(&joe)), (1, Some(Refused::Unauthorized)));
        drop((jane, joe));
        assert!(streams.0.lock().expect("no panic").users.is_empty(), "nothing is kept of streams that are gone");
    }

    #[test]
    fn whole_connections_are_dismissed() {
        let streams = Arc::new(Streams::default());
        let connections: Vec<Arc<Notify>> = (0..10).map(|_| Arc::default()).collect();
        let open = |connection: &Arc<Notify>| streams.open(Arc::default(), RequestInfo::default().into(), None, connection.clone());
        let permissions: Vec<Permission> = (0..30).map(|nth| open(&connections[nth % 10])).collect();
        assert_eq!((streams.count(), streams.dismissed(0).len()), (30, 0));
        let dismissed = streams.dismissed(7);
        assert_eq!(dismissed.len(), 9, "three connections of three streams");
        assert_eq!(dismissed.iter().map(|stream| stream.end(Refused::Moved)).sum::<usize>(), 9);
        let is_moved = |permission: &&Permission| {
            permission.poll_refused(&Context::from_waker(Waker::noop())).is_some_and(|(_, _, why)| *why == Refused::Moved)
        };
        assert_eq!((permissions.iter().filter(is_moved).count(), streams.count()), (9, 21));
        let told = connections.iter().filter(|connection| connection.notified().now_or_never().is_some());
        assert_eq!(told.count(), 3, "they take no more requests");
        assert_eq!(streams.dismissed(1_000).len(), 21);
    }

    #[test]
    fn a_stream_ends_when_what_proved_its_user_is_taken_away() {
        let (streams, counts) = (Arc::new(Streams::default()), Arc::new(AtomicBool::new(true)));
        let open = |still_counts| streams.open(Arc::default(), RequestInfo::default().into(), still_counts, Arc::default());
        let still_counts = || -> Option<StillCounts> {
            let counts = counts.clone();
            Some(Box::new(move || counts.load(Ordering::Relaxed)))
        };
        let refused = |permission: &Permission| permission.poll_refused(&Context::from_waker(Waker::noop())).map(|(_, _, why)| why.clone());
        let (lasting, other) = (open(None), open(still_counts()));
        assert_eq!((streams.check(), refused(&other)), (0, None));
        counts.store(false, Ordering::Relaxed);
        assert_eq!((streams.check(), refused(&other), refused(&lasting)), (1, Some(Refused::Unauthorized), None));
        assert_eq!(streams.check(), 0, "it is told once");
        assert_eq!(refused(&open(still_counts())), Some(Refused::Unauthorized), "it was taken away before the stream was known");
    }
}
