//! The open watches, with their users and what they were allowed: when a user loses a right, the watches that need it end. kube-apiserver authorizes a
//! watch only once, when it begins.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Context;

use dashmap::DashMap;
use futures_util::task::AtomicWaker;
use rand::seq::SliceRandom;
use tokio::sync::Notify;

use super::acting::{self, Impersonator};
use crate::User;
use crate::authn::{Impersonation, Question};
use crate::authz::{Affected, Attributes, Authorizer, Decision, RequestInfo, Rules, Verdict};
use intern::Interned;

/// The open watches.
#[derive(Default)]
pub(super) struct Streams {
    next: AtomicU64,
    /// By the user whose credentials opened them.
    users: DashMap<Arc<User>, BTreeMap<u64, Arc<Stream>>>,
}

/// A watch that was allowed: by whom it was opened, and for what.
pub struct Opened {
    /// The user who sees it.
    pub user: Arc<User>,
    /// The user who impersonates him, if any.
    pub impersonator: Option<Impersonator>,
    /// What was allowed.
    pub info: Interned<RequestInfo>,
    /// Whether the credential that opened it is still valid; none when no file may revoke it.
    pub is_still_valid: Option<StillValid>,
    /// Makes its connection take no more requests.
    pub goodbye: Arc<Notify>,
}

/// An open watch.
pub(super) struct Stream {
    opened: Opened,
    refused: OnceLock<Refused>,
    waker: AtomicWaker,
}

/// What becomes of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Evaluation {
    Continues,
    Ends(Refused),
    /// A webhook was asked and has not answered: it goes on until that does.
    Unknown,
}

/// Returns whether a credential is still valid.
pub type StillValid = Box<dyn Fn() -> bool + Send + Sync>;

/// Why a stream is allowed no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The authorizers say no, for this reason; it may be empty.
    Forbidden(String),
    /// Who opened it may not act as its user any longer: what was asked about him, and the reason.
    NotActing(Box<Question>, String),
    /// The account that opened it, or what proved who opened it, is no more.
    Unauthorized,
    /// Nothing is wrong: its client should go to another replica.
    Moved,
}

/// The right of a stream to go on, until this is dropped.
pub struct Permission {
    stream: Arc<Stream>,
    number: u64,
    streams: Arc<Streams>,
}

impl Streams {
    /// Files a stream.
    pub(super) fn open(self: &Arc<Self>, opened: Opened) -> Permission {
        let stream = Arc::new(Stream { opened, refused: OnceLock::new(), waker: AtomicWaker::new() });
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.users.entry(stream.prover().clone()).or_default().insert(number, stream.clone());
        // A file may have changed while the request was on its way here.
        stream.check();
        Permission { stream, number, streams: self.clone() }
    }

    /// Those that have not been refused.
    pub(super) fn open_ones(&self) -> Vec<Arc<Stream>> {
        self.depending_on(&Affected::everybody())
    }

    /// Those of them that depend on a right of these users.
    pub(super) fn depending_on(&self, affected: &Affected) -> Vec<Arc<Stream>> {
        let mut all = Vec::new();
        for of_user in &self.users {
            let is_provers = affected.has(of_user.key());
            let rests = |stream: &&Arc<Stream>| is_provers || stream.opened.impersonator.is_some() && affected.has(stream.user());
            all.extend(of_user.values().filter(rests).filter(|stream| stream.refused.get().is_none()).cloned());
        }
        all
    }

    /// The users whose credentials opened them.
    pub(super) fn users(&self) -> Vec<Arc<User>> {
        self.users.iter().map(|of_user| of_user.key().clone()).collect()
    }

    /// Ends the streams of a user who no longer exists; returns how many.
    pub(super) fn revoke_all_of(&self, gone: &Arc<User>) -> usize {
        let of_user: Vec<Arc<Stream>> = self.users.get(gone).iter().flat_map(|of_user| of_user.values()).cloned().collect();
        of_user.iter().map(|stream| stream.end(Refused::Unauthorized)).sum()
    }

    /// Ends the streams whose credentials are no longer valid; returns how many.
    pub(super) fn check(&self) -> usize {
        self.open_ones().iter().map(|stream| stream.check()).sum()
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.open_ones().len()
    }

    /// The streams of whole connections, chosen at random: so many, or a few more. Their connections take no more requests.
    pub(super) fn drain(&self, count: usize) -> Vec<Arc<Stream>> {
        let mut connections: HashMap<*const Notify, Vec<Arc<Stream>>> = HashMap::new();
        for stream in self.open_ones() {
            connections.entry(Arc::as_ptr(&stream.opened.goodbye)).or_default().push(stream);
        }
        let mut connections: Vec<_> = connections.into_values().collect();
        connections.shuffle(&mut rand::rng());
        let mut drain = Vec::new();
        for connection in connections {
            if drain.len() >= count {
                break;
            }
            connection.iter().take(1).for_each(|stream| stream.opened.goodbye.notify_one());
            drain.extend(connection);
        }
        drain
    }
}

impl Stream {
    /// The user who sees it.
    pub(super) fn user(&self) -> &User {
        &self.opened.user
    }

    /// The user whose credentials opened it.
    fn prover(&self) -> &Arc<User> {
        self.opened.impersonator.as_ref().map_or(&self.opened.user, |impersonator| &impersonator.user)
    }

    /// What was allowed.
    pub(super) fn attributes(&self) -> Attributes<'_> {
        self.opened.info.attributes(&self.opened.user)
    }

    /// Evaluates again that who opened it may impersonate its user, and that this one may see it.
    pub(super) fn evaluate(&self, authorizer: &dyn Authorizer, impersonation: &Impersonation) -> Evaluation {
        let asking = Asking { authorizer, failed: AtomicBool::new(false) };
        let ends = self.wrong(&asking, impersonation);
        match ends {
            None => Evaluation::Continues,
            Some(_) if asking.failed.into_inner() => Evaluation::Unknown,
            Some(refused) => Evaluation::Ends(refused),
        }
    }

    fn wrong(&self, authorizer: &dyn Authorizer, impersonation: &Impersonation) -> Option<Refused> {
        if let Some(Impersonator { user, wanted }) = &self.opened.impersonator
            && let Err(no) = acting::decide(impersonation, authorizer, &self.opened.info, user, wanted)
        {
            return Some(Refused::NotActing(no.question, no.reason));
        }
        let verdict = authorizer.decide(&self.attributes());
        (verdict.decision != Decision::Allow).then(|| Refused::Forbidden(verdict.reason.to_string()))
    }

    /// Ends it if its credential is no longer valid; 1 if it ended so.
    fn check(&self) -> usize {
        match &self.opened.is_still_valid {
            Some(is_still_valid) if !is_still_valid() => self.end(Refused::Unauthorized),
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
    /// Returns why the stream is revoked, once it is, with who opened it and what was allowed; the task is woken when that comes to be.
    pub fn poll_refused(&self, cx: &Context<'_>) -> Option<(&Opened, &Refused)> {
        let stream = &*self.stream;
        if stream.refused.get().is_none() {
            stream.waker.register(cx.waker());
        }
        // After the waker is known: what is refused from now on wakes it.
        stream.refused.get().map(|why| (&stream.opened, why))
    }
}

/// An authorizer, and whether somebody that it asked has not answered.
struct Asking<'a> {
    authorizer: &'a dyn Authorizer,
    failed: AtomicBool,
}

impl Authorizer for Asking<'_> {
    fn decide(&self, asked: &Attributes<'_>) -> Verdict {
        let verdict = self.authorizer.decide(asked);
        self.failed.fetch_or(verdict.error.is_some(), Ordering::Relaxed);
        verdict
    }

    fn rules_for(&self, user: &User, namespace: &str) -> Rules {
        self.authorizer.rules_for(user, namespace)
    }
}

impl Drop for Permission {
    fn drop(&mut self) {
        let (users, prover) = (&self.streams.users, self.stream.prover());
        if let Some(mut of_user) = users.get_mut(prover) {
            of_user.remove(&self.number);
        }
        users.remove_if(prover, |_, of_user| of_user.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use futures_util::FutureExt;

    use super::*;
    use crate::authz::{AlwaysAllow, AlwaysDeny};

    fn user(name: &str) -> Arc<User> {
        Arc::new(User { name: name.to_owned(), ..User::default() })
    }

    fn opened(name: &str) -> Opened {
        let info = RequestInfo { path: "/x".into(), verb: "get".to_owned(), ..RequestInfo::default() };
        Opened { user: user(name), impersonator: None, info: info.into(), is_still_valid: None, goodbye: Arc::default() }
    }

    fn refused(permission: &Permission) -> Option<Refused> {
        permission.poll_refused(&Context::from_waker(Waker::noop())).map(|(_, why)| why.clone())
    }

    fn judge(streams: &Streams, authorizer: &dyn Authorizer) -> usize {
        let impersonation = Impersonation::default();
        let evaluate = |stream: &Arc<Stream>| match stream.evaluate(authorizer, &impersonation) {
            Evaluation::Ends(why) => stream.end(why),
            Evaluation::Continues | Evaluation::Unknown => 0,
        };
        streams.open_ones().iter().map(evaluate).sum()
    }

    fn revoke_all_of(streams: &Streams, name: &str) -> usize {
        streams.users().iter().filter(|user| user.name == name).map(|user| streams.revoke_all_of(user)).sum()
    }

    /// Allows what is asked about these users, and has no answer about `lost`.
    struct Only(&'static [&'static str]);

    impl Authorizer for Only {
        fn decide(&self, asked: &Attributes<'_>) -> Verdict {
            match &*asked.user.name {
                "lost" => Verdict { error: Some("away".into()), ..Verdict::no_opinion("") },
                name if self.0.contains(&name) => Verdict::ALLOW,
                _ => AlwaysDeny.decide(asked),
            }
        }

        fn rules_for(&self, _: &User, _: &str) -> Rules {
            Rules::default()
        }
    }

    #[test]
    fn a_stream_ends_when_its_right_does() {
        let streams = Arc::new(Streams::default());
        let open = |name: &str| streams.open(opened(name));
        let (jane, joe, lost) = (open("jane"), open("joe"), open("lost"));
        assert_eq!(judge(&streams, &AlwaysAllow), 0);
        assert_eq!((refused(&jane), refused(&joe)), (None, None));
        assert_eq!(judge(&streams, &Only(&["joe"])), 1);
        assert_eq!((refused(&jane), refused(&joe)), (Some(Refused::Forbidden("Everything is forbidden.".to_owned())), None));
        assert_eq!((judge(&streams, &Only(&["joe"])), refused(&lost)), (0, None), "it is told once, and no answer is no judgement");
        assert_eq!((revoke_all_of(&streams, "joe"), refused(&joe)), (1, Some(Refused::Unauthorized)));
        drop((jane, joe, lost));
        assert!(streams.users.is_empty(), "nothing is kept of streams that are gone");
    }

    #[test]
    fn a_stream_ends_when_who_opened_it_may_not_act_as_its_user() {
        let streams = Arc::new(Streams::default());
        let open = |name: &str, by: &str| {
            let impersonator = Some(Impersonator { user: user(by), wanted: user(name) });
            streams.open(Opened { impersonator, ..opened(name) })
        };
        let (by_joe, by_robot, by_lost, own) =
            (open("jane", "joe"), open("jane", "robot"), open("jane", "lost"), streams.open(opened("jane")));
        assert_eq!(judge(&streams, &Only(&["jane", "joe", "robot"])), 0);
        assert_eq!(judge(&streams, &Only(&["jane", "robot"])), 1);
        let Some(Refused::NotActing(question, reason)) = refused(&by_joe) else { panic!("{:?}", refused(&by_joe)) };
        assert!(matches!(*question, Question::Request { .. }), "{question:?}");
        assert_eq!((&*reason, refused(&by_robot), refused(&by_lost)), ("Everything is forbidden.", None, None));
        assert_eq!((revoke_all_of(&streams, "jane"), refused(&by_robot)), (1, None), "its user is only a name");
        assert_eq!((revoke_all_of(&streams, "robot"), refused(&by_robot)), (1, Some(Refused::Unauthorized)));
        assert_eq!((refused(&own), refused(&by_lost)), (Some(Refused::Unauthorized), None));
        assert_eq!(judge(&streams, &Only(&["lost"])), 0);
        drop((by_joe, by_robot, by_lost, own));
        assert!(streams.users.is_empty());
    }

    /// A change that concerns one user is no look at the watches of all.
    #[test]
    fn only_streams_that_rest_on_a_lost_right_are_judged() {
        let streams = Arc::new(Streams::default());
        let acting = Some(Impersonator { user: user("robot"), wanted: user("joe") });
        let _held =
            [streams.open(opened("jane")), streams.open(opened("jim")), streams.open(Opened { impersonator: acting, ..opened("joe") })];
        let depending_on = |name: &str| {
            let mut affected = Affected::default();
            affected.add_user(name);
            streams.depending_on(&affected).iter().map(|stream| stream.user().name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(["jane", "joe", "robot", "nobody"].map(depending_on), [vec!["jane"], vec!["joe"], vec!["joe"], vec![]]);
        assert_eq!(streams.depending_on(&Affected::everybody()).len(), 3);
    }

    #[test]
    fn whole_connections_are_dismissed() {
        let streams = Arc::new(Streams::default());
        let connections: Vec<Arc<Notify>> = (0..10).map(|_| Arc::default()).collect();
        let open = |connection: &Arc<Notify>| streams.open(Opened { goodbye: connection.clone(), ..opened("") });
        let permissions: Vec<Permission> = (0..30).map(|nth| open(&connections[nth % 10])).collect();
        assert_eq!((streams.count(), streams.drain(0).len()), (30, 0));
        let drain = streams.drain(7);
        assert_eq!(drain.len(), 9, "three connections of three streams");
        assert_eq!(drain.iter().map(|stream| stream.end(Refused::Moved)).sum::<usize>(), 9);
        let is_moved = |permission: &&Permission| refused(permission) == Some(Refused::Moved);
        assert_eq!((permissions.iter().filter(is_moved).count(), streams.count()), (9, 21));
        let told = connections.iter().filter(|connection| connection.notified().now_or_never().is_some());
        assert_eq!(told.count(), 3, "they take no more requests");
        assert_eq!(streams.drain(1_000).len(), 21);
    }

    #[test]
    fn a_stream_ends_when_what_proved_its_user_is_taken_away() {
        let (streams, counts) = (Arc::new(Streams::default()), Arc::new(AtomicBool::new(true)));
        let open = |is_still_valid| streams.open(Opened { is_still_valid, ..opened("") });
        let is_still_valid = || -> Option<StillValid> {
            let counts = counts.clone();
            Some(Box::new(move || counts.load(Ordering::Relaxed)))
        };
        let (lasting, other) = (open(None), open(is_still_valid()));
        assert_eq!((streams.check(), refused(&other)), (0, None));
        counts.store(false, Ordering::Relaxed);
        assert_eq!((streams.check(), refused(&other), refused(&lasting)), (1, Some(Refused::Unauthorized), None));
        assert_eq!(streams.check(), 0, "it is told once");
        assert_eq!(refused(&open(is_still_valid())), Some(Refused::Unauthorized), "it was taken away before the stream was known");
    }
}
