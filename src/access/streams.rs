//! The open watches, with their users and what they were allowed: when a user loses a right, the watches that need it end. kube-apiserver authorizes a
//! watch only once, when it begins.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Context;

use futures_util::task::AtomicWaker;

use auth::User;
use auth::authz::{Attributes, Decision, RequestInfo, Verdict};

/// Streams judged before others run.
const JUDGED_AT_ONCE: usize = 256;

/// All of them.
#[derive(Default)]
pub(super) struct Streams(Mutex<Filed>);

#[derive(Default)]
struct Filed {
    next: u64,
    users: HashMap<Arc<User>, BTreeMap<u64, Arc<Stream>>>,
}

/// One of them: what was allowed when it began.
struct Stream {
    user: Arc<User>,
    info: Arc<RequestInfo>,
    refused: OnceLock<Refused>,
    waker: AtomicWaker,
}

/// Why a stream is allowed no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The authorizers say no, for this reason; it may be empty.
    Forbidden(String),
    /// The account that opened it is no more.
    Unauthorized,
}

/// A stream's right to go on; it is forgotten when this is dropped.
pub struct Permission {
    stream: Arc<Stream>,
    number: u64,
    streams: Arc<Streams>,
}

impl Streams {
    /// Files a stream.
    pub(super) fn open(self: &Arc<Self>, user: Arc<User>, info: Arc<RequestInfo>) -> Permission {
        let stream = Arc::new(Stream { user: user.clone(), info, refused: OnceLock::new(), waker: AtomicWaker::new() });
        let mut filed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        filed.next += 1;
        let number = filed.next;
        filed.users.entry(user).or_default().insert(number, stream.clone());
        drop(filed);
        Permission { stream, number, streams: self.clone() }
    }

    /// Asks about each stream again, and ends those that are not allowed any longer; how many.
    pub(super) async fn judge(&self, decide: impl Fn(&Attributes<'_>) -> Verdict) -> usize {
        let mut ended = 0;
        for some in self.all(|_| true).chunks(JUDGED_AT_ONCE) {
            for stream in some {
                let verdict = stream.info.ask(&stream.user, &decide);
                if verdict.decision != Decision::Allow {
                    ended += stream.end(Refused::Forbidden(verdict.reason.to_string()));
                }
            }
            tokio::task::yield_now().await;
        }
        ended
    }

    /// Ends the streams of users who are no more; how many.
    pub(super) fn expel(&self, is_gone: impl Fn(&User) -> bool) -> usize {
        self.all(is_gone).iter().map(|stream| stream.end(Refused::Unauthorized)).sum()
    }

    /// The streams of these users.
    fn all(&self, wanted: impl Fn(&User) -> bool) -> Vec<Arc<Stream>> {
        let filed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of = filed.users.iter().filter(|(user, _)| wanted(user)).flat_map(|(_, streams)| streams.values());
        of.filter(|stream| stream.refused.get().is_none()).cloned().collect()
    }
}

impl Stream {
    /// Ends it; 1 if it had not ended before.
    fn end(&self, why: Refused) -> usize {
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
    use std::task::Waker;

    use super::*;
    use auth::authz::Authorizer;
    use auth::authz::{AlwaysAllow, AlwaysDeny};

    #[tokio::test]
    async fn a_stream_ends_when_its_right_does() {
        let streams = Arc::new(Streams::default());
        let open = |name: &str| {
            let user = Arc::new(User { name: name.to_owned(), ..User::default() });
            streams.open(user, Arc::new(RequestInfo { path: "/x".to_owned(), ..RequestInfo::default() }))
        };
        let (jane, joe) = (open("jane"), open("joe"));
        let refused = |permission: &Permission| permission.poll_refused(&Context::from_waker(Waker::noop())).map(|(_, _, why)| why.clone());
        assert_eq!(streams.judge(|asked| AlwaysAllow.decide(asked)).await, 0);
        assert_eq!((refused(&jane), refused(&joe)), (None, None));
        let only_joe = |asked: &Attributes<'_>| if asked.user.name == "joe" { AlwaysAllow.decide(asked) } else { AlwaysDeny.decide(asked) };
        assert_eq!(streams.judge(only_joe).await, 1);
        assert_eq!((refused(&jane), refused(&joe)), (Some(Refused::Forbidden("Everything is forbidden.".to_owned())), None));
        assert_eq!(streams.judge(only_joe).await, 0, "it is told once");
        assert_eq!((streams.expel(|user| user.name == "joe"), refused(&joe)), (1, Some(Refused::Unauthorized)));
        drop((jane, joe));
        assert!(streams.0.lock().expect("no panic").users.is_empty(), "nothing is kept of streams that are gone");
    }
}
