//! A scripted watcher: a real `Subscription`, and the judge of what it brings.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Wake, Waker},
};

use bytes::Bytes;
use cache::dispatch::{Step, Subscription};
use model::Revision;

use crate::truth::{Change, Line, Version};

/// What a client asked for.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) resource: usize,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) app: Option<char>,
}

impl Wish {
    fn matches(&self, key: &str, version: Version) -> bool {
        let mut parts = key.rsplit('/');
        let (name, namespace) = (parts.next(), parts.next());
        self.name.as_deref().is_none_or(|n| name == Some(n))
            && self.namespace.as_deref().is_none_or(|n| namespace == Some(n))
            && self.app.is_none_or(|app| version.app == Some(app))
    }

    /// The transition table of spec list-watch §5.1, written once more.
    fn sees(&self, change: &Change, revision: u64) -> Option<Seen> {
        let old = change.old.filter(|v| self.matches(&change.key, *v));
        let new = change.new.filter(|v| self.matches(&change.key, *v));
        let (kind, body) = match (old, new) {
            (None, None) => return None,
            (None, Some(new)) => ("ADDED", new),
            (Some(_), Some(new)) => ("MODIFIED", new),
            (Some(old), None) => ("DELETED", old),
        };
        Some(Seen { kind: kind.to_owned(), key: change.key.clone(), revision, body: body.revision })
    }
}

/// An event as it came over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    kind: String,
    key: String,
    revision: u64,
    body: u64,
}

/// Notes that it was woken.
#[derive(Default)]
pub(crate) struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// How a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Cleanly,
    Expired,
}

pub(crate) struct Client {
    pub(crate) wish: Wish,
    subscription: Subscription,
    bell: Arc<Bell>,
    waker: Waker,
    prefix: String,
    /// ADDED still to come, in key order, and the revision of the snapshot.
    initial: Option<(VecDeque<Seen>, u64)>,
    /// Events still to come, as far as the line was written when it was last looked at.
    expected: VecDeque<Seen>,
    line: u32,
    read_to: u64,
    /// The last event or bookmark: what a client resumes from.
    pub(crate) seen: u64,
    /// Where it began, then the last bookmark.
    marked: u64,
    pub(crate) over: Option<Over>,
    /// Events and bookmarks judged.
    pub(crate) judged: (u64, u64),
}

impl Client {
    /// `initial`: it starts with the snapshot of revision `from`; else it wants the events after `from`.
    pub(crate) fn new(wish: Wish, line: &Line, subscription: Subscription, prefix: &str, initial: bool, from: u64) -> Self {
        let bell = Arc::new(Bell(AtomicBool::new(true)));
        let added = |(key, v): (String, Version)| Seen { kind: "ADDED".into(), key, revision: v.revision, body: v.revision };
        let snapshot = || line.at(from).into_iter().filter(|(key, v)| key.starts_with(prefix) && wish.matches(key, *v)).map(added);
        let initial = initial.then(|| (snapshot().collect(), from));
        Self {
            subscription,
            waker: Waker::from(bell.clone()),
            bell,
            prefix: prefix.to_owned(),
            initial,
            expected: VecDeque::new(),
            line: line.id,
            read_to: from,
            seen: from,
            marked: from,
            over: None,
            judged: (0, 0),
            wish,
        }
    }

    /// Whether it watches this line still.
    pub(crate) fn is_of(&self, line: &Line) -> bool {
        self.line == line.id
    }

    /// Whether a step would do something: it was woken, or has not slept yet.
    pub(crate) fn is_awake(&self) -> bool {
        self.over.is_none() && self.bell.0.load(Ordering::SeqCst)
    }

    /// What the line says that is to come. After a restore the old line grows no more.
    pub(crate) fn read(&mut self, line: &Line) {
        if line.id != self.line || line.revision <= self.read_to {
            return;
        }
        for (revision, changes) in line.log.range(self.read_to + 1..) {
            let own = changes.iter().filter(|change| change.key.starts_with(&self.prefix));
            self.expected.extend(own.filter_map(|change| self.wish.sees(change, *revision)));
        }
        self.read_to = line.revision;
    }

    /// The revision a bookmark could have: read first, the log after.
    pub(crate) fn bookmark_candidate(&self) -> Option<u64> {
        self.subscription.bookmark_candidate().map(|r| r.0)
    }

    /// One step of at least `budget` bytes.
    pub(crate) fn step(&mut self, line: &Line, budget: usize, bookmark: Option<u64>) {
        self.read(line);
        self.bell.0.store(false, Ordering::SeqCst);
        let mut out = Vec::new();
        let step = self.subscription.step(budget, &mut out, &self.waker);
        self.judge(&out);
        match step {
            Step::More => self.bell.0.store(true, Ordering::SeqCst),
            Step::Pending => {
                assert!(out.is_empty(), "Pending brings nothing");
                if let Some(revision) = bookmark.filter(|r| self.subscription.bookmark(Revision(*r))) {
                    self.bookmarked(revision);
                }
            }
            Step::Waiting => unreachable!("small objects are written at once"),
            Step::Ended => self.over = Some(Over::Cleanly),
            Step::Expired { seen, floor } => {
                let lost = self.line != line.id;
                assert!(seen < floor || lost, "Resumable: a watch that saw {seen} was refused, and the floor is {floor}");
                self.over = Some(Over::Expired);
            }
            Step::Unencodable(why) => unreachable!("all of it is JSON: {why}"),
        }
    }

    /// At the very end nothing may be missing.
    pub(crate) fn settle(&mut self, line: &Line) {
        self.read(line);
        if self.over.is_some() || self.line != line.id {
            return;
        }
        assert!(self.initial.is_none(), "Reliable: initial events are missing: {:?}", self.initial);
        assert!(self.expected.is_empty(), "Reliable: never came: {:?}", self.expected);
    }

    fn bookmarked(&mut self, revision: u64) {
        self.judged.1 += 1;
        // It may repeat the revision of the last event, never one of a bookmark (spec list-watch §4.5, "Delivery filter").
        assert!(
            revision >= self.seen && revision > self.marked,
            "Ordered: a bookmark at {revision} after {} and {}",
            self.seen,
            self.marked
        );
        self.marked = revision;
        if let Some(next) = self.expected.front() {
            assert!(next.revision > revision, "Bookmarkable: a bookmark at {revision} before {next:?}");
        }
        self.seen = revision;
    }

    fn judge(&mut self, out: &[Bytes]) {
        let mut last = None;
        for frame in out {
            let text = std::str::from_utf8(frame).expect("frames are text");
            let seen = parse(text, &self.prefix);
            self.judged.0 += 1;
            if let Some((left, revision)) = &mut self.initial {
                if let Some(want) = left.pop_front() {
                    assert_eq!(seen, want, "the initial events are the snapshot at {revision}");
                } else {
                    assert!(
                        text.contains(r#""k8s.io/initial-events-end":"true""#),
                        "the annotated bookmark ends the initial events: {text}"
                    );
                    assert_eq!(seen.revision, *revision, "the annotated bookmark is of the snapshot");
                    self.seen = *revision;
                    self.initial = None;
                }
                continue;
            }
            let want =
                self.expected.pop_front().unwrap_or_else(|| panic!("Unique: nothing was to come after {}, and came {seen:?}", self.seen));
            assert_eq!(seen, want, "Ordered, Unique, Reliable: the next event after {}", self.seen);
            self.seen = want.revision;
            last = Some(want.revision);
        }
        let rest = self.expected.front().filter(|next| Some(next.revision) == last);
        assert!(rest.is_none(), "Atomic: a step ended inside a revision: {rest:?}");
    }
}

/// Reads a frame: its type, key, revision, and which version the body shows.
fn parse(text: &str, prefix: &str) -> Seen {
    assert!(text.ends_with("}\n") && text.matches('\n').count() == 1, "a frame is one line: {text}");
    let field = |name: &str| {
        let at = text.find(name)? + name.len();
        Some(&text[at..at + text[at..].find('"')?])
    };
    let kind = field(r#"{"type":""#).expect("a type").to_owned();
    let revision = field(r#""resourceVersion":""#).and_then(|r| r.parse().ok()).expect("a revision");
    match (field(r#""namespace":""#), field(r#""name":""#), field(r#""seq":""#)) {
        (Some(namespace), Some(name), Some(seq)) => {
            Seen { kind, key: format!("{prefix}{namespace}/{name}"), revision, body: seq.parse().expect("a number") }
        }
        _ => Seen { kind, key: String::new(), revision, body: 0 },
    }
}
