//! Watch streams of one side: what came on each, per watch, as a log that two sides can compare. Does not know what should come.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use anyhow::{Context, Result, bail};
use proto::{
    Event, WatchCreateRequest, WatchResponse,
    testing::{Client, WatchRequests},
};
use tokio::task::AbortHandle;
use tonic::Streaming;

/// What one watch (or, as −1, the stream itself) was told, in order. How events are cut into messages is the server's business, within the rules that
/// [`Log::push`] checks.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Told {
    Created { revision: i64 },
    Event(Event),
    Progress { revision: i64 },
    Canceled { revision: i64, created: bool, compact_revision: i64, reason: String },
}

impl Told {
    pub(super) fn answers_watch(&self) -> bool {
        matches!(self, Self::Created { .. } | Self::Canceled { created: true, .. })
    }

    pub(super) fn answers_cancel(&self) -> bool {
        matches!(self, Self::Canceled { created: false, .. })
    }

    pub(super) fn answers_progress(&self) -> bool {
        matches!(self, Self::Progress { .. })
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Created { .. } => "created",
            Self::Event(_) => "events",
            Self::Progress { .. } => "progress",
            Self::Canceled { created: true, .. } => "refused",
            Self::Canceled { compact_revision: 1.., .. } => "canceled for a compaction",
            Self::Canceled { .. } => "canceled",
        }
    }
}

/// Everything that came on one stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Log {
    /// By watch id.
    pub(super) watches: BTreeMap<i64, Vec<Told>>,
    /// How the stream ended, when the server ended it.
    pub(super) ended: Option<String>,
    /// Messages that break a rule of the protocol.
    pub(super) broken: Vec<String>,
}

/// The streams of one side, by the operation's number.
#[derive(Debug, Default)]
pub(super) struct Streams {
    open: BTreeMap<usize, Stream>,
}

#[derive(Debug)]
struct Stream {
    requests: WatchRequests,
    log: Arc<Mutex<Log>>,
    reader: AbortHandle,
}

impl Streams {
    /// Begins a watch; opens the stream when it is not open.
    pub(super) async fn watch(&mut self, client: &mut Client, stream: usize, create: &WatchCreateRequest) -> Result<()> {
        if let Some(open) = self.open.get(&stream) {
            return open.requests.create(create.clone()).await.context("ask for a watch");
        }
        let opened = client.watch(create.clone()).await?;
        let log = Arc::new(Mutex::new(Log::default()));
        let reader = tokio::spawn(read(opened.answers, log.clone())).abort_handle();
        self.open.insert(stream, Stream { requests: opened.requests, log, reader });
        Ok(())
    }

    /// Cancels a watch that may not be there; nothing happens when the stream is not open.
    pub(super) async fn cancel(&mut self, stream: usize, watch: i64) -> Result<()> {
        match self.open.get(&stream) {
            Some(open) => open.requests.cancel(watch).await.context("cancel a watch"),
            None => Ok(()),
        }
    }

    /// Asks for progress; nothing happens when the stream is not open.
    pub(super) async fn progress(&mut self, stream: usize) -> Result<()> {
        match self.open.get(&stream) {
            Some(open) => open.requests.progress().await.context("ask for progress"),
            None => Ok(()),
        }
    }

    /// How many of each kind there are in logs: events, cancellations and so on.
    pub(super) fn kinds(logs: &BTreeMap<usize, Log>) -> impl Iterator<Item = &'static str> {
        logs.values().flat_map(|log| log.watches.values().flatten()).map(Told::name)
    }

    /// Leaves a stream.
    pub(super) fn close(&mut self, stream: usize) {
        if let Some(gone) = self.open.remove(&stream) {
            gone.reader.abort();
        }
    }

    /// Leaves all streams.
    pub(super) fn close_all(&mut self) {
        std::mem::take(&mut self.open).into_values().for_each(|gone| gone.reader.abort());
    }

    /// What came until now.
    pub(super) fn logs(&self) -> Result<BTreeMap<usize, Log>> {
        let mut logs = BTreeMap::new();
        for (number, stream) in &self.open {
            let Ok(log) = stream.log.lock() else { bail!("a reader of a watch stream panicked") };
            logs.insert(*number, log.clone());
        }
        Ok(logs)
    }

    /// Whether something came on a stream since the last comparison; true of a stream that is not open, where nothing comes.
    pub(super) fn has(&self, stream: usize, what: fn(&Told) -> bool) -> Result<bool> {
        let Some(stream) = self.open.get(&stream) else { return Ok(true) };
        let Ok(log) = stream.log.lock() else { bail!("a reader of a watch stream panicked") };
        Ok(log.ended.is_some() || log.watches.values().flatten().any(what))
    }

    /// Forgets what was compared and found equal, so that logs stay short.
    pub(super) fn forget(&self, compared: &BTreeMap<usize, Log>) -> Result<()> {
        for (number, stream) in &self.open {
            let Ok(mut log) = stream.log.lock() else { bail!("a reader of a watch stream panicked") };
            let Some(compared) = compared.get(number) else { continue };
            for (watch, told) in &compared.watches {
                log.watches.entry(*watch).or_default().drain(..told.len());
            }
            log.watches.retain(|_, told| !told.is_empty());
        }
        Ok(())
    }
}

async fn read(mut answers: Streaming<WatchResponse>, log: Arc<Mutex<Log>>) {
    let mut parts = Parts::default();
    let ended = loop {
        match answers.message().await {
            Ok(Some(message)) => log.lock().expect("readers of the log do not panic").push(message, &mut parts),
            Ok(None) => break "without an error".to_owned(),
            Err(error) => break error.to_string(),
        }
    };
    log.lock().expect("readers of the log do not panic").ended = Some(ended);
}

/// The last revision of each watch whose message was not a fragment: the next message must be of a later one.
#[derive(Debug, Default)]
struct Parts(BTreeMap<i64, i64>);

impl Log {
    /// Adds a message, and checks what a message itself must keep: revisions whole unless it is a fragment, and never beyond its header.
    fn push(&mut self, message: WatchResponse, parts: &mut Parts) {
        let revision = message.header.as_ref().map_or(-1, |header| header.revision);
        let id = message.watch_id;
        self.check(&message, revision, parts);
        let told = self.watches.entry(id).or_default();
        if message.created && !message.canceled {
            told.push(Told::Created { revision });
        }
        let silent = message.events.is_empty() && !message.created && !message.canceled;
        told.extend(message.events.into_iter().map(Told::Event));
        if silent {
            told.push(Told::Progress { revision });
        }
        if message.canceled {
            let (created, compact_revision, reason) = (message.created, message.compact_revision, message.cancel_reason);
            told.push(Told::Canceled { revision, created, compact_revision, reason });
        }
    }

    fn check(&mut self, message: &WatchResponse, revision: i64, parts: &mut Parts) {
        // Watches of one id may follow each other on a stream; the later one may begin anywhere.
        if message.created || message.canceled {
            parts.0.remove(&message.watch_id);
        }
        let of = |event: &Event| event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
        let (Some(first), Some(last)) = (message.events.first().map(of), message.events.last().map(of)) else { return };
        if last > revision {
            self.broken.push(format!("watch {}: an event of {last} under a header of {revision}", message.watch_id));
        }
        if parts.0.get(&message.watch_id).is_some_and(|whole| first <= *whole) {
            self.broken.push(format!("watch {}: revision {first} in two messages that are no fragments", message.watch_id));
        }
        if message.fragment {
            parts.0.remove(&message.watch_id);
        } else {
            parts.0.insert(message.watch_id, last);
        }
    }
}

impl Log {
    /// Whether a compaction has ended one of its watches.
    pub(super) fn has_compacted(&self) -> bool {
        self.watches.values().flatten().any(|told| matches!(told, Told::Canceled { compact_revision: 1.., .. }))
    }

    /// What is only in one of two logs, each for a person.
    pub(super) fn differing(&self, other: &Self) -> (String, String) {
        let (mut ours, mut theirs) = (format!("{:?} {:?}", self.ended, self.broken), format!("{:?} {:?}", other.ended, other.broken));
        let ids: BTreeSet<i64> = self.watches.keys().chain(other.watches.keys()).copied().collect();
        for id in ids {
            let told = |log: &Self| log.watches.get(&id).cloned().unwrap_or_default();
            let (a, b) = (told(self), told(other));
            let same = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
            if a.len() > same || b.len() > same {
                ours += &from(id, &a, same);
                theirs += &from(id, &b, same);
            }
        }
        (ours, theirs)
    }
}

fn from(id: i64, told: &[Told], at: usize) -> String {
    /// Entries shown of each watch that differs.
    const SHOWN: usize = 3;
    format!("\n    watch {id}, from entry {at} of {}: {:?}", told.len(), &told[at..told.len().min(at + SHOWN)])
}

#[cfg(test)]
mod tests {
    use proto::{KeyValue, ResponseHeader};

    use super::*;

    fn message(header: i64, revisions: &[i64], fragment: bool) -> WatchResponse {
        let event = |&r: &i64| Event { kv: Some(KeyValue { mod_revision: r, ..KeyValue::default() }), ..Event::default() };
        let header = Some(ResponseHeader { revision: header, ..ResponseHeader::default() });
        WatchResponse { header, events: revisions.iter().map(event).collect(), fragment, ..WatchResponse::default() }
    }

    fn broken(messages: &[WatchResponse]) -> Vec<String> {
        let (mut log, mut parts) = (Log::default(), Parts::default());
        messages.iter().for_each(|m| log.push(m.clone(), &mut parts));
        log.broken
    }

    #[test]
    fn a_revision_is_whole_unless_it_comes_in_fragments() {
        assert_eq!(broken(&[message(3, &[2, 2, 3], false), message(4, &[4], false)]), Vec::<String>::new());
        assert_eq!(broken(&[message(2, &[2], true), message(2, &[2], false)]), Vec::<String>::new());
        assert_eq!(broken(&[message(2, &[2], false), message(2, &[2], false)]).len(), 1);
        assert_eq!(broken(&[message(2, &[3], false)]).len(), 1);
    }
}
