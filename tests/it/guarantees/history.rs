//! What one client saw, in the order it saw it. Knows nothing of how it was fetched.

use std::time::Duration;

use super::Filter;

/// Everything one client saw of one resource through one filter.
#[derive(Clone, Debug)]
pub(crate) struct History {
    /// For messages: who, and what it asked for.
    pub(crate) client: String,
    /// What its requests select; the same in all of them.
    pub(crate) filter: Filter,
    pub(crate) seen: Vec<Seen>,
}

/// One thing a client saw.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seen {
    /// One page of a list.
    Listed(Page),
    /// One object, asked for as it was at a revision or later; `None` when it is not there.
    Got {
        key: String,
        at_least: u64,
        item: Option<Item>,
        took: Duration,
    },
    /// A request was refused with an HTTP error.
    Refused {
        code: u16,
        took: Duration,
    },
    /// A watch was accepted; what follows until `Error` or `Ended` is its stream.
    Watching {
        start: Start,
        timeout: Option<Duration>,
    },
    Event(Change),
    /// `initial_end` is the annotation that ends the initial events.
    Bookmark {
        revision: u64,
        initial_end: bool,
    },
    /// An ERROR event, the last of its stream.
    Error {
        code: u16,
        message: String,
    },
    /// The stream ended without an error.
    Ended {
        took: Duration,
    },
    /// Not from the server: the client waited as long as it is willing to, and the writers were done at this revision before.
    Settled {
        revision: u64,
    },
}

/// Where a watch was asked to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// After this revision.
    At(u64),
    /// With initial events whose end a bookmark marks (`sendInitialEvents=true`).
    Marked,
    /// With initial events whose end nothing marks (`resourceVersion` 0 or unset).
    Unmarked,
}

/// The type of an event that carries an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Added,
    Modified,
    Deleted,
}

/// An object as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// `namespace/name`, or `/name` for a cluster-scoped object.
    pub(crate) key: String,
    /// `metadata.resourceVersion`
    pub(crate) revision: u64,
    /// The object's JSON, byte for byte.
    pub(crate) body: Vec<u8>,
}

/// An event that carries an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) kind: Kind,
    pub(crate) item: Item,
}

/// What a list was asked to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// `resourceVersion=0`
    Any,
    /// `resourceVersion=R`
    AtLeast(u64),
    /// `resourceVersion=R&resourceVersionMatch=Exact`
    Exactly(u64),
    /// No `resourceVersion`; the writers knew this revision to be there before they asked.
    Newest { known: u64 },
    /// The next page of the list before it.
    Continued,
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Page {
    pub(crate) asked: Asked,
    /// The `limit` parameter, when the server is bound to keep it (it is not with `resourceVersion=0`).
    pub(crate) limit: Option<usize>,
    pub(crate) revision: u64,
    pub(crate) items: Vec<Item>,
    /// Whether a continue token says that there is more.
    pub(crate) more: bool,
    pub(crate) took: Duration,
}

/// One watch of a history, cut into its parts.
pub(crate) struct Stream<'a> {
    pub(crate) start: Start,
    /// Initial events, before the live ones.
    pub(crate) initial: Vec<&'a Change>,
    /// Live events come after this revision; unknown when nothing marks the end of the initial ones.
    pub(crate) base: Option<u64>,
    /// Everything after the initial events and their mark.
    pub(crate) rest: &'a [Seen],
}

impl History {
    /// Of a client that has seen nothing yet.
    pub(crate) fn new(client: impl Into<String>, filter: Filter) -> Self {
        Self { client: client.into(), filter, seen: Vec::new() }
    }

    /// Its watches, in order.
    pub(crate) fn streams(&self) -> Vec<Stream<'_>> {
        let starts: Vec<usize> =
            self.seen.iter().enumerate().filter(|(_, s)| matches!(s, Seen::Watching { .. })).map(|(at, _)| at).collect();
        starts.into_iter().map(|at| Stream::cut(&self.seen[at..])).collect()
    }
}

impl<'a> Stream<'a> {
    fn cut(seen: &'a [Seen]) -> Self {
        let Some((Seen::Watching { start, .. }, after)) = seen.split_first() else { unreachable!("a stream begins with Watching") };
        let end = after.iter().position(|s| matches!(s, Seen::Watching { .. } | Seen::Listed(_) | Seen::Got { .. } | Seen::Refused { .. }));
        let stream = &after[..end.unwrap_or(after.len())];
        let (initial, base) = match start {
            Start::At(revision) => (0, Some(*revision)),
            Start::Marked => match stream.iter().position(|s| matches!(s, Seen::Bookmark { initial_end: true, .. })) {
                Some(at) => (at + 1, stream[at].bookmark()),
                None => (stream.len(), None),
            },
            Start::Unmarked => (stream.iter().take_while(|s| s.change().is_some_and(|c| c.kind == Kind::Added)).count(), None),
        };
        let (first, rest) = stream.split_at(initial);
        Self { start: *start, initial: first.iter().filter_map(Seen::change).collect(), base, rest }
    }

    /// The changes of its live part.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &'a Change> + use<'a> {
        self.rest.iter().filter_map(Seen::change)
    }

    /// The newest revision up to which it claims to have shown everything: its last bookmark, or what the client settled at.
    pub(crate) fn covered(&self) -> u64 {
        let claims = self.rest.iter().filter_map(|s| match s {
            Seen::Bookmark { revision, .. } | Seen::Settled { revision } => Some(*revision),
            _ => None,
        });
        claims.max().unwrap_or(0)
    }

    /// Whether it ended by saying that its start is too old.
    pub(crate) fn expired(&self) -> bool {
        self.rest.iter().any(|s| matches!(s, Seen::Error { code: 410, .. }))
    }
}

impl Seen {
    /// The event, when it carries an object.
    pub(crate) fn change(&self) -> Option<&Change> {
        if let Self::Event(change) = self { Some(change) } else { None }
    }

    /// The revision, when it is a bookmark.
    pub(crate) fn bookmark(&self) -> Option<u64> {
        if let Self::Bookmark { revision, .. } = self { Some(*revision) } else { None }
    }
}

/// For the validators' own tests: a client that lists, watches, resumes, and sees all of `truth` through no filter.
#[cfg(test)]
pub(super) fn faithful(truth: &super::Truth) -> History {
    let filter = Filter::all();
    let took = Duration::from_millis(3);
    let mut history = History::new("faithful", filter.clone());
    let items = truth.state(&filter, truth.floor);
    let page = Page { asked: Asked::Newest { known: truth.floor }, limit: None, revision: truth.floor, items, more: false, took };
    history.seen.push(Seen::Listed(page));
    history.seen.push(Seen::Watching { start: Start::At(truth.floor), timeout: None });
    let outcomes = truth.outcomes(&filter, truth.floor);
    let cut = outcomes.iter().find(|c| c.item.revision > truth.floor + 2).map_or(0, |c| c.item.revision);
    let (before, after): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(|c| c.item.revision < cut);
    let seen = before.last().map_or(truth.floor, |c| c.item.revision);
    history.seen.extend(before.into_iter().map(Seen::Event));
    history.seen.push(Seen::Bookmark { revision: seen, initial_end: false });
    history.seen.push(Seen::Ended { took });
    history.seen.push(Seen::Watching { start: Start::At(seen), timeout: None });
    history.seen.extend(after.into_iter().map(Seen::Event));
    history.seen.push(Seen::Settled { revision: truth.head });
    history
}
