//! One watch: what it wants, how far it is, and the next piece of history for it.

use proto::KeyValue;

use super::keys::KeyRange;
use super::log::{Event, Log, Place};
use super::refusal::Fault;
use super::state::State;

/// `mvccpb.Event.EventType`.
const PUT: i32 = 0;
const DELETE: i32 = 1;
/// Bytes of one piece of history, and of what is looked at for it; the revision that passes it is still whole.
const PIECE_BYTES_MAX: usize = 1 << 20;
/// Changes looked at for one piece.
const PIECE_LOOKS_MAX: usize = 2_000;

/// Revisions whose previous values may be looked up without a thread for it.
const PREVIOUS_LIGHT_MAX: i64 = 64;

/// What a client asked for, and the first revision that it has not been told of.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    pub(super) id: i64,
    pub(super) range: KeyRange,
    /// As asked for; 0 is what comes.
    pub(super) start: i64,
    /// Everything before it was sent, or does not concern this watch.
    pub(super) next: i64,
    pub(super) wants: Wants,
}

/// Options of a watch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wants {
    pub(super) puts: bool,
    pub(super) deletes: bool,
    pub(super) previous: bool,
    pub(super) fragments: bool,
    pub(super) progress: bool,
}

/// The next piece for a watch.
#[derive(Debug, PartialEq)]
pub(super) enum Piece {
    /// Every event before `next`; none may concern the watch.
    Events { events: Vec<proto::Event>, next: i64 },
    /// What it wants is compacted.
    Compacted,
}

impl Watch {
    /// True when it has been told of everything.
    pub(super) fn is_synced(&self, revision: i64) -> bool {
        self.next > revision
    }

    /// True when progress at `revision` may be told: as in etcd, not before the first revision that was asked for.
    pub(super) fn has_seen(&self, revision: i64) -> bool {
        self.is_synced(revision) && self.start <= revision
    }

    /// True when the next piece is in memory: no disk is read for it, but for a few previous values that were read or written just now.
    pub(super) fn is_light(&self, state: &State) -> bool {
        let in_memory = state.recent.front().is_some_and(|oldest| oldest.revision <= self.next);
        in_memory && (!self.wants.previous || state.revision - self.next < PREVIOUS_LIGHT_MAX)
    }

    /// Whole revisions from `next` on, up to a bound.
    pub(super) fn piece(&self, state: &State) -> Result<Piece, Fault> {
        let mut piece = Gathering { watch: self, state, events: Vec::new(), bytes: 0, looks: 0, next: self.next };
        match state.recent.front() {
            Some(oldest) if oldest.revision <= self.next => piece.take_from_memory(oldest.revision)?,
            _ if self.next < state.compacted => return Ok(Piece::Compacted),
            _ => piece.take_from_log()?,
        }
        Ok(Piece::Events { events: piece.events, next: piece.next })
    }
}

struct Gathering<'a> {
    watch: &'a Watch,
    state: &'a State,
    events: Vec<proto::Event>,
    bytes: usize,
    looks: usize,
    next: i64,
}

impl Gathering<'_> {
    fn take_from_memory(&mut self, oldest: i64) -> Result<(), Fault> {
        // By place: what is skipped by an iterator is walked over, for each watch and each write.
        let first = usize::try_from(self.next - oldest).unwrap_or(usize::MAX);
        for batch in (first..).map_while(|place| self.state.recent.get(place)) {
            for event in &batch.events {
                self.look(event.key.len(), &event.key, batch.revision, || event.clone())?;
            }
            self.next = batch.revision + 1;
            if self.is_full() {
                break;
            }
        }
        Ok(())
    }

    fn take_from_log(&mut self) -> Result<(), Fault> {
        let (mut outcome, mut at) = (Ok(()), None);
        self.state.log.scan(self.next, self.state.revision + 1, |place: Place, record| {
            if at.is_some_and(|at| at != place.main) && self.is_full() {
                return false;
            }
            at = Some(place.main);
            let bytes = record.key.len() + record.put.map_or(0, |(_, value)| value.len());
            outcome = self.look(bytes, record.key, place.main, || record.to_event());
            self.next = place.main + 1;
            outcome.is_ok()
        })?;
        outcome?;
        if !self.is_full() {
            // Revisions at the end may be compacted away.
            self.next = self.state.revision + 1;
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.bytes >= PIECE_BYTES_MAX || self.looks >= PIECE_LOOKS_MAX
    }

    fn look(&mut self, bytes: usize, key: &[u8], revision: i64, event: impl FnOnce() -> Event) -> Result<(), Fault> {
        self.looks += 1;
        self.bytes += bytes;
        if !self.watch.range.contains(key) {
            return Ok(());
        }
        let event = event();
        let wanted = if event.put.is_some() { self.watch.wants.puts } else { self.watch.wants.deletes };
        if wanted {
            let event = self.to_etcd(&event, revision)?;
            self.bytes += event_bytes(&event);
            self.events.push(event);
        }
        Ok(())
    }

    fn to_etcd(&self, event: &Event, revision: i64) -> Result<proto::Event, Fault> {
        let (kind, kv) = match &event.put {
            None => (DELETE, KeyValue { key: event.key.to_vec(), mod_revision: revision, ..Default::default() }),
            Some((version, value)) => {
                let kv = KeyValue {
                    key: event.key.to_vec(),
                    create_revision: version.created,
                    mod_revision: revision,
                    version: version.number,
                    value: value.to_vec(),
                    lease: version.lease,
                };
                (PUT, kv)
            }
        };
        let is_new = kind == PUT && kv.create_revision == kv.mod_revision;
        let prev_kv = if self.watch.wants.previous && !is_new { self.state.view().earlier(&event.key, revision - 1)? } else { None };
        Ok(proto::Event { r#type: kind, kv: Some(kv), prev_kv })
    }
}

/// At least what an event takes on the wire.
pub(super) fn event_bytes(event: &proto::Event) -> usize {
    /// Tags, lengths and four numbers of up to ten bytes.
    const KV_OVERHEAD: usize = 64;
    let bytes = |kv: &Option<KeyValue>| kv.as_ref().map_or(0, |kv| kv.key.len() + kv.value.len() + KV_OVERHEAD);
    bytes(&event.kv) + bytes(&event.prev_kv)
}
