//! The open watches, so that people can see who watches what and how far each is, and end one.
//!
//! A watch writes its own figures, others read them: each is an atomic that one task stores. What many watches have alike is there once.

use std::{
    borrow::Cow,
    convert::Infallible,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst},
    },
    time::{Duration, SystemTime},
};

use dashmap::DashMap;
use tokio::time::sleep;

use super::{
    conn::ConnInfo,
    expired_watches::{ExpiredWatches, Lateness},
};
use auth::User;
use cache::dispatch::{Group, Phase, Subscription};
use intern::{Interned, Interner};
use model::Revision;
use registry::Resource;
use server::CloseReason;

/// How long a watch that is to end may take, until its connection does.
const END_WITHIN: Duration = Duration::from_secs(2);
/// Bytes of a text of a client that are shown: of its `User-Agent`, of a selector.
const SHOWN_BYTES_MAX: usize = 256;

/// All open watches, by a number of their own.
#[derive(Default)]
pub struct OpenWatches {
    next: AtomicU64,
    open: DashMap<u64, Arc<WatchRecord>>,
    questions: Arc<Interner<Question>>,
    /// Those that were answered 410.
    pub(super) expired: ExpiredWatches,
}

/// What a watch asks for, and what its client calls itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Question {
    pub(super) agent: Box<str>,
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
    pub(super) label_selector: Box<str>,
    pub(super) field_selector: Box<str>,
    /// How its events are written.
    pub(super) form: &'static str,
}

/// The program that asks for a watch.
pub(super) struct Program {
    /// What it calls itself.
    pub(super) agent: Box<str>,
    /// Whether the watch has its connection for itself, as all have before HTTP/2.
    pub(super) has_connection: bool,
}

/// Whose a watch is, and where it comes from.
pub(super) struct WatchClient {
    pub(super) user: Arc<User>,
    /// Who acts as that user.
    pub(super) impersonator: Option<Arc<User>>,
    pub(super) conn: Arc<ConnInfo>,
}

/// A client, and what it watches.
pub(super) struct Watcher {
    pub(super) client: WatchClient,
    /// See [`Program`].
    pub(super) has_connection: bool,
    pub(super) question: Question,
}

/// An open watch.
pub(super) struct WatchRecord {
    pub(super) number: u64,
    pub(super) since: SystemTime,
    pub(super) client: WatchClient,
    has_connection: bool,
    pub(super) resource: Arc<Resource>,
    pub(super) question: Interned<Question>,
    /// Its group, which others keep.
    pub(super) group: Weak<Group>,
    /// Its seat there.
    pub(super) seat: usize,
    seen: AtomicU64,
    phase: AtomicU8,
    fell_behind: AtomicU32,
    events: AtomicU64,
    bytes: AtomicU64,
    is_cut: AtomicBool,
}

/// How far a watch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) phase: Phase,
    /// The last revision whose events it has been sent, whole.
    pub(super) seen: u64,
    /// How often it went back to the ring.
    pub(super) fell_behind: u32,
    pub(super) events: u64,
    pub(super) bytes: u64,
}

/// A watch among the open ones, until this is dropped.
pub(super) struct Listed {
    record: Arc<WatchRecord>,
    watches: Arc<OpenWatches>,
}

impl OpenWatches {
    /// Files a watch.
    pub(super) fn open(self: &Arc<Self>, watcher: Watcher, resource: &Arc<Resource>, subscription: &Subscription) -> Listed {
        let Watcher { client, has_connection, question } = watcher;
        // `inflight` counts what it takes with the watch.
        let question = self.intern(question);
        let (group, seat) = subscription.place();
        let number = self.next.fetch_add(1, Relaxed) + 1;
        let record = Arc::new(WatchRecord {
            number,
            since: SystemTime::now(),
            client,
            has_connection,
            resource: resource.clone(),
            question,
            group: Arc::downgrade(group),
            seat,
            seen: AtomicU64::new(subscription.progress().1.0),
            phase: AtomicU8::new(code(subscription.progress().0)),
            fell_behind: AtomicU32::default(),
            events: AtomicU64::default(),
            bytes: AtomicU64::default(),
            is_cut: AtomicBool::default(),
        });
        self.open.insert(number, record.clone());
        Listed { record, watches: self.clone() }
    }

    /// Counts and notes a watch that is answered 410 where it begins.
    pub(super) fn came_too_late(&self, watcher: Watcher, resource: &Resource, (seen, floor): (Revision, Revision)) {
        let late = Lateness { seen, floor, was_open: false };
        self.expired.note(&watcher.client, resource, self.intern(watcher.question), late);
    }

    fn intern(&self, question: Question) -> Interned<Question> {
        self.questions.intern(Cow::Owned(question), |_| Ok::<_, Infallible>(None)).unwrap_or_else(|never| match never {})
    }

    /// Returns the open watches, in no order.
    pub(super) fn all(&self) -> Vec<Arc<WatchRecord>> {
        self.open.iter().map(|entry| entry.value().clone()).collect()
    }

    /// Returns one of them.
    pub(super) fn find(&self, number: u64) -> Option<Arc<WatchRecord>> {
        self.open.get(&number).map(|record| record.clone())
    }

    /// Returns how many there are.
    pub(super) fn count(&self) -> usize {
        self.open.len()
    }
}

impl WatchRecord {
    /// Returns how far it is.
    pub(super) fn progress(&self) -> Progress {
        Progress {
            phase: phase(self.phase.load(Relaxed)),
            seen: self.seen.load(Relaxed),
            fell_behind: self.fell_behind.load(Relaxed),
            events: self.events.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
        }
    }

    /// Has it end as if its time were over, its client goes on where it was; or with its connection, if it cannot be told so because its client does not read.
    pub(super) async fn end(self: Arc<Self>, watches: Arc<OpenWatches>) {
        self.cut();
        sleep(END_WITHIN).await;
        if self.has_connection && watches.find(self.number).is_some() {
            self.client.conn.seat.leave(CloseReason::Unread);
        }
    }

    fn cut(&self) {
        self.is_cut.store(true, SeqCst);
        if let Some(group) = self.group.upgrade() {
            group.wake(self.seat);
        }
    }
}

impl Listed {
    /// Whether it is to end. Looked at again once its waker is registered, it is never missed.
    pub(super) fn is_cut(&self) -> bool {
        self.record.is_cut.load(SeqCst)
    }

    /// Notes how far it is, with so many events more. Only the watch itself does.
    pub(super) fn moved(&self, subscription: &Subscription, events: usize) {
        let (phase, seen, fell_behind) = subscription.progress();
        let record = &*self.record;
        record.phase.store(code(phase), Relaxed);
        record.seen.store(seen.0, Relaxed);
        record.fell_behind.store(fell_behind, Relaxed);
        record.events.store(record.events.load(Relaxed) + events as u64, Relaxed);
    }

    /// Counts and notes that it is answered 410.
    pub(super) fn expired(&self, late: Lateness) {
        let record = &*self.record;
        self.watches.expired.note(&record.client, &record.resource, record.question.clone(), late);
    }

    /// Notes bytes that are sent.
    pub(super) fn sent(&self, bytes: usize) {
        self.record.bytes.store(self.record.bytes.load(Relaxed) + bytes as u64, Relaxed);
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.watches.open.remove(&self.record.number);
    }
}

fn code(phase: Phase) -> u8 {
    match phase {
        Phase::Initial => 0,
        Phase::Replaying => 1,
        Phase::Live => 2,
        Phase::Ended => 3,
    }
}

fn phase(code: u8) -> Phase {
    match code {
        0 => Phase::Initial,
        1 => Phase::Replaying,
        2 => Phase::Live,
        _ => Phase::Ended,
    }
}

/// Returns as much of a client's text as is shown.
pub(super) fn shown(text: &str) -> Box<str> {
    match text.len() > SHOWN_BYTES_MAX {
        false => text.into(),
        true => format!("{}…", &text[..text.floor_char_boundary(SHOWN_BYTES_MAX)]).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_where_a_character_ends() {
        assert_eq!(&*shown("kubectl/v1.36"), "kubectl/v1.36");
        let long = shown(&"é".repeat(500));
        assert_eq!((long.chars().count(), long.len()), (129, 259));
    }

    #[test]
    fn phases_keep_their_codes() {
        for of in [Phase::Initial, Phase::Replaying, Phase::Live, Phase::Ended] {
            assert_eq!(phase(code(of)), of);
        }
    }
}
