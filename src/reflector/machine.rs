//! What of upstream's events may be forwarded, pure: whole revisions, in order, each once; how far everything is known; from where a broken watch goes on.
//!
//! ```text
//! Empty ──loaded──▶ Following ──what was told cannot be: Wrong──▶ loaded anew (next epoch)
//! ```
//! etcd may change several keys at one revision (a lease that runs out takes all its objects along), and upstream tells of them one by one. So what is told of
//! a revision is gathered until something newer comes, or nothing more comes for a moment ([`Machine::hold`]). What comes late after all, or below a bookmark,
//! cannot be shown any more: everything is loaded anew.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;

use super::event::{Item, Lie};
use super::place::Place;
use cache::feed::machine::LARGE_BYTES;
use codec::ingest::ingest;
use model::{Batch, Broken, Change, Epoch, Feed, Object, Revision, Stored};

/// How long further deletions of the same revision are waited for. They come in one write, or one after the other.
const DELETIONS_TOGETHER: Duration = Duration::from_millis(20);
/// Keys of one revision. A lease of kube-apiserver has 1,000 objects at most.
const KEYS_TOGETHER_MAX: usize = 4_096;

/// What goes to the cacher.
#[derive(Debug)]
pub(crate) enum Out {
    /// Hand it this.
    Batch(Batch),
    /// Everything up to here was handed over.
    Known(Revision),
}

/// Why nothing more may be forwarded.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// Upstream is out of order.
    #[error(transparent)]
    Lie(#[from] Lie),
    /// What was shown was not all: everything must be loaded anew.
    #[error("an event of revision {0} came late, when everything up to {1} was told")]
    Late(Revision, Revision),
    /// It was told as protobuf, and has what is not known here.
    #[error("{0}")]
    Unknown(String),
}

/// Every object of a resource at one revision.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) revision: Revision,
    pub(crate) objects: Vec<Arc<Object>>,
    pub(crate) broken: Vec<Broken>,
}

/// See the file's header.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    epoch: Epoch,
    is_loaded: bool,
    /// The last revision that was handed over, and its keys if it came by events.
    last: Revision,
    last_keys: HashSet<Bytes>,
    /// It may have had more keys than were told.
    is_last_open: bool,
    /// Everything up to here was told, by events or bookmarks; never less than `last`.
    known: Revision,
    /// Something came late: clients may have seen `known` without it, so a load must be newer for them to hear of it.
    is_outrun: bool,
    /// What was told of the next revision.
    gathered: Vec<(Bytes, Change)>,
    gathered_at: Revision,
}

impl Machine {
    /// Whether there is anything to go on from.
    pub(crate) fn is_loaded(&self) -> bool {
        self.is_loaded
    }

    /// What clients may have seen: upstream must not show less.
    pub(crate) fn known(&self) -> Revision {
        self.known
    }

    /// Whether something came late that no client can have seen.
    pub(crate) fn is_outrun(&self) -> bool {
        self.is_outrun
    }

    /// Of which revision a load must be at least.
    pub(crate) fn loads_from(&self) -> Revision {
        if self.is_outrun { Revision(self.known.0.saturating_add(1)) } else { self.known }
    }

    /// Whether the last revision may have had more keys than were told.
    fn is_last_open(&self) -> bool {
        self.is_last_open && self.known == self.last
    }

    /// From where the next watch must begin, so that nothing is missed.
    pub(crate) fn resume_at(&self) -> Revision {
        if self.is_last_open() { self.last.before() } else { self.known }
    }

    /// Everything begins anew with a load.
    ///
    /// # Errors
    /// It is older than what clients may have seen, or as old when that was not all.
    pub(crate) fn loaded(&mut self, loaded: Loaded) -> Result<Feed, Lie> {
        let Loaded { revision, objects, broken } = loaded;
        if revision < self.loads_from() {
            return Err(Lie(format!("what it had at {revision}, where {} is wanted", self.loads_from())));
        }
        *self = Self { epoch: self.epoch.next(), is_loaded: true, last: revision, known: revision, ..Self::default() };
        Ok(Feed::Reset { epoch: self.epoch, revision, ready_at: revision, objects, broken })
    }

    /// Nothing can be gone on from: the next load counts. What was handed over stays until then. Returns whether there was something.
    pub(crate) fn forget(&mut self) -> bool {
        self.gathered.clear();
        std::mem::take(&mut self.is_loaded)
    }

    /// Upstream has less than it had: what it has now counts from the next load on. Returns the epoch of that load.
    pub(crate) fn rewind(&mut self) -> Epoch {
        *self = Self { epoch: self.epoch, ..Self::default() };
        self.epoch.next()
    }

    /// Nothing is kept any longer, until the next load.
    pub(crate) fn let_go(&mut self) -> Feed {
        *self = Self { epoch: self.epoch.next(), known: self.known, last: self.known, is_outrun: self.is_outrun, ..Self::default() };
        Feed::Reset { epoch: self.epoch, revision: self.known, ready_at: Revision(u64::MAX), objects: Vec::new(), broken: Vec::new() }
    }

    /// A new watch begins where the last one ended: what was gathered of it comes again.
    pub(crate) fn reconnected(&mut self) {
        self.gathered.clear();
    }

    /// An object was written, or is gone.
    pub(crate) fn event(&mut self, item: Item, is_gone: bool, place: &Place, out: &mut Vec<Out>) -> Result<(), Wrong> {
        let revision = item.revision;
        if !self.gathered.is_empty() && revision != self.gathered_at {
            self.flush(true, out);
        }
        match self.gathered.is_empty() {
            true if revision == self.last && self.last_keys.contains(&item.key) => return Ok(()),
            true if revision <= self.known => {
                self.is_outrun = true;
                return Err(Wrong::Late(revision, self.known));
            }
            false if self.gathered.iter().any(|(key, _)| *key == item.key) => return Ok(()),
            false if self.gathered.len() == KEYS_TOGETHER_MAX => {
                return Err(Lie(format!("more than {KEYS_TOGETHER_MAX} objects of revision {revision}")).into());
            }
            _ => {}
        }
        let change = if is_gone { Change::Delete(item.key.clone()) } else { put(&item, place)? };
        self.gathered_at = revision;
        self.gathered.push((item.key, change));
        Ok(())
    }

    /// Everything up to here was told. One that is older than what was told says nothing: an upstream that has caught up less than the one before.
    pub(crate) fn bookmark(&mut self, revision: Revision, out: &mut Vec<Out>) {
        // One of the same revision may come between its events.
        self.flush(revision > self.gathered_at, out);
        if revision >= self.known {
            self.is_last_open &= revision == self.last;
            self.known = revision;
            out.push(Out::Known(revision));
        }
    }

    /// How long more of what was gathered may come; none when nothing was.
    pub(crate) fn hold(&self) -> Option<Duration> {
        let (_, last) = self.gathered.last()?;
        Some(if matches!(last, Change::Delete(_)) { DELETIONS_TOGETHER } else { Duration::ZERO })
    }

    /// Hands over what was gathered; whether it is known to be all of its revision.
    pub(crate) fn flush(&mut self, is_whole: bool, out: &mut Vec<Out>) {
        if self.gathered.is_empty() {
            return;
        }
        let (revision, gathered) = (self.gathered_at, std::mem::take(&mut self.gathered));
        let has_deletions = gathered.iter().any(|(_, change)| matches!(change, Change::Delete(_)));
        let (keys, changes): (HashSet<Bytes>, Vec<Change>) = gathered.into_iter().unzip();
        (self.last, self.last_keys, self.known, self.is_last_open) = (revision, keys, revision, has_deletions && !is_whole);
        out.push(Out::Batch(Batch { revision, changes }));
        out.push(Out::Known(revision));
    }
}

/// An object as the cache has it.
pub(crate) fn made(item: &Item, place: &Place) -> Result<Arc<Object>, Broken> {
    ingest(&place.storage, place.key_prefix_len(), item.key.clone(), &item.value, item.revision).map(Arc::new)
}

/// A large one its cacher makes servable, as it does of etcd's.
fn put(item: &Item, place: &Place) -> Result<Change, Wrong> {
    if item.is_protobuf() {
        return made(item, place).map(Change::Put).map_err(|broken| Wrong::Unknown(broken.why));
    }
    if item.value.len() < LARGE_BYTES {
        return Ok(made(item, place).map_or_else(Change::Broken, Change::Put));
    }
    Ok(Change::Stored(Stored {
        storage: place.storage.clone(),
        prefix_len: place.key_prefix_len(),
        key: item.key.clone(),
        value: item.value.clone(),
        revision: item.revision,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Storage;

    fn place() -> Place {
        Place::of(&Arc::new(Storage::test_config_maps()), "/registry/")
    }

    fn item(name: &str, revision: u64) -> Item {
        let value = format!(
            r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"n","uid":"u","resourceVersion":"{revision}"}}}}"#
        );
        Item { key: format!("/registry/configmaps/n/{name}").into(), revision: Revision(revision), value: value.into() }
    }

    fn loaded(revision: u64) -> Machine {
        let mut machine = Machine::default();
        let load = Loaded { revision: Revision(revision), objects: Vec::new(), broken: Vec::new() };
        machine.loaded(load).expect("the first load");
        machine
    }

    /// What came out, a word each: `7:2` for a batch of two changes, `=7` for what is known.
    fn told(out: &mut Vec<Out>) -> String {
        let word = |one: Out| match one {
            Out::Batch(batch) => format!("{}:{}", batch.revision, batch.changes.len()),
            Out::Known(revision) => format!("={revision}"),
        };
        out.drain(..).map(word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn events_come_out_in_whole_revisions() {
        let (mut machine, mut out, place) = (loaded(5), Vec::new(), place());
        machine.event(item("a", 7), false, &place, &mut out).expect("newer");
        assert_eq!((told(&mut out).as_str(), machine.hold()), ("", Some(Duration::ZERO)));
        machine.event(item("b", 8), true, &place, &mut out).expect("newer");
        assert_eq!((told(&mut out).as_str(), machine.hold()), ("7:1 =7", Some(DELETIONS_TOGETHER)));
        machine.event(item("c", 8), true, &place, &mut out).expect("of the same");
        machine.flush(false, &mut out);
        assert_eq!((told(&mut out).as_str(), machine.hold(), machine.resume_at()), ("8:2 =8", None, Revision(7)));
        machine.bookmark(Revision(8), &mut out);
        assert_eq!((told(&mut out).as_str(), machine.resume_at()), ("=8", Revision(7)), "more of 8 may come");
        machine.bookmark(Revision(12), &mut out);
        assert_eq!((told(&mut out).as_str(), machine.resume_at()), ("=12", Revision(12)));
        machine.bookmark(Revision(11), &mut out);
        assert_eq!((told(&mut out).as_str(), machine.known()), ("", Revision(12)));
    }

    #[test]
    fn what_goes_back_is_refused() {
        let place = place();
        for (before, revision) in [(4, 4), (7, 6), (7, 3)] {
            let (mut machine, mut out) = (loaded(5), Vec::new());
            if before > 5 {
                machine.event(item("a", before), false, &place, &mut out).expect("newer");
                machine.flush(false, &mut out);
            }
            machine.event(item("b", revision), false, &place, &mut out).expect_err("it goes back");
        }
        let (mut machine, mut out) = (loaded(5), Vec::new());
        machine.bookmark(Revision(9), &mut out);
        machine.event(item("a", 9), false, &place, &mut out).expect_err("everything up to 9 was told");
        let older = Loaded { revision: Revision(8), objects: Vec::new(), broken: Vec::new() };
        machine.loaded(older).expect_err("clients may have seen 9");
        let (mut machine, mut out) = (loaded(5), Vec::new());
        machine.bookmark(Revision(9), &mut out);
        let same = Loaded { revision: Revision(9), objects: Vec::new(), broken: Vec::new() };
        assert_eq!(machine.loaded(same).expect("as new").revision(), Revision(9));
    }

    /// A watch that goes on before a revision of which more may come shows nothing twice, and notices what it has missed.
    #[test]
    fn deletions_that_come_late_are_noticed() {
        let place = place();
        let broken_off = || {
            let (mut machine, mut out) = (loaded(5), Vec::new());
            machine.event(item("a", 7), true, &place, &mut out).expect("newer");
            machine.flush(false, &mut out);
            assert_eq!(machine.resume_at(), Revision(6));
            machine.reconnected();
            machine.event(item("a", 7), true, &place, &mut Vec::new()).expect("it comes again");
            machine
        };
        let (mut machine, mut out) = (broken_off(), Vec::new());
        assert_eq!(machine.event(item("b", 7), true, &place, &mut out), Err(Wrong::Late(Revision(7), Revision(7))));
        let (mut machine, mut out) = (broken_off(), Vec::new());
        machine.event(item("b", 9), false, &place, &mut out).expect("newer");
        machine.flush(false, &mut out);
        assert_eq!((told(&mut out).as_str(), machine.resume_at()), ("9:1 =9", Revision(9)));
    }

    /// A bookmark may come between the events of its own revision.
    #[test]
    fn a_bookmark_closes_only_older_revisions() {
        let (mut machine, mut out, place) = (loaded(5), Vec::new(), place());
        machine.event(item("a", 7), true, &place, &mut out).expect("newer");
        machine.bookmark(Revision(7), &mut out);
        assert_eq!((machine.is_last_open(), machine.resume_at()), (true, Revision(6)));
        machine.bookmark(Revision(8), &mut out);
        assert_eq!((machine.is_last_open(), machine.resume_at()), (false, Revision(8)));
    }

    /// Who has seen everything up to 7 comes back with 7 and hears what came later than that: so what came late must be in a load that is newer.
    #[test]
    fn after_a_late_event_a_load_must_be_newer() {
        let (mut machine, mut out, place) = (loaded(7), Vec::new(), place());
        machine.event(item("x", 7), false, &place, &mut out).expect_err("it is late");
        machine.forget();
        machine.let_go();
        assert_eq!((machine.known(), machine.loads_from()), (Revision(7), Revision(8)));
        let load = |revision| Loaded { revision: Revision(revision), objects: Vec::new(), broken: Vec::new() };
        machine.loaded(load(7)).expect_err("as old");
        machine.loaded(load(8)).expect("newer");
        assert_eq!(machine.loads_from(), Revision(8));
    }

    #[test]
    fn what_is_let_go_is_not_ready_and_never_goes_back() {
        let mut machine = loaded(5);
        let Feed::Reset { epoch, ready_at, .. } = machine.let_go() else { panic!("a reset") };
        assert_eq!((epoch, ready_at, machine.is_loaded(), machine.known()), (Epoch(2), Revision(u64::MAX), false, Revision(5)));
        let older = Loaded { revision: Revision(4), objects: Vec::new(), broken: Vec::new() };
        machine.loaded(older).expect_err("clients have seen 5");
    }
}
