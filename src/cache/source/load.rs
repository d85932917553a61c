//! Reads every object of one resource at one revision: a first page, which says what revision that is, then the rest as a stream, or page by page from an
//! etcd that has no such stream (before 3.7).

use std::{collections::VecDeque, panic::resume_unwind, sync::Arc, time::Duration};

use tokio::task::{JoinHandle, spawn_blocking};

use super::driver::REMIND_EVERY;
use crate::feed::machine::{LoadAt, Loaded};
use codec::ingest::ingest;
use etcd::{Etcd, EtcdError, KeyValue, Pages, RangeAnswer, RangeRequest};
use model::{Broken, Included, KeyRange, Object, Revision, Storage};
use progress::{Progress, Unit};
use retry::Reminder;
use telemetry::ResourceMetrics;

/// Pieces of a load that are made servable at once, in memory twice until then: pages, or some 1.5 MB from a stream.
const INGESTS_AT_ONCE: usize = 2;

/// Pause before a page is asked for again after a failure.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// The revision was compacted under the load: it must begin again.
#[derive(Debug)]
pub struct LoadFailed;

/// Loads a resource, of these namespaces or of all; the figures are its own. Tries again as long as etcd is away.
///
/// # Errors
/// [`LoadFailed`] when the revision being read was compacted, or is not there (etcd went backwards).
pub async fn load(
    etcd: &Etcd,
    (storage, included): (&Arc<Storage>, Option<&Arc<Included>>),
    prefix: &str,
    at: LoadAt,
    metrics: &ResourceMetrics,
) -> Result<Loaded, LoadFailed> {
    let own = storage.key_prefix(prefix).into_bytes();
    let range = KeyRange::prefix(&own);
    let mut revision = match at {
        LoadAt::Exactly(revision) => Some(revision),
        LoadAt::Newest => None,
    };
    let mut loading = Loading {
        ingests: Ingests { storage: storage.clone(), included: included.cloned(), prefix_len: own.len(), running: VecDeque::new() },
        loaded: Loaded { revision: Revision::ZERO, objects: Vec::new(), broken: Vec::new() },
        progress: Progress::new(format!("loading {}", storage.path_name()), Unit::Objects),
        came: 0,
        total: None,
    };
    let (mut start, mut pages, mut has_streams) = (range.start, Pages::default(), true);
    loop {
        if let Some(pinned) = revision.filter(|_| has_streams && loading.loaded.revision > Revision::ZERO) {
            let request = RangeRequest { key: start.clone(), end: range.end.clone(), revision: Some(pinned), ..RangeRequest::default() };
            match loading.stream(etcd, request, metrics).await {
                Ok(Streamed::All) => break,
                // From here on it is asked for pages, which try again until etcd answers.
                Ok(Streamed::Until(next)) => (start, has_streams) = (next, false),
                Ok(Streamed::None) => has_streams = false,
                Err(failed) => return Err(failed),
            }
        }
        let request = RangeRequest { key: start, end: range.end.clone(), revision, ..RangeRequest::default() };
        let answer = page(etcd, &request, &mut pages, metrics).await?;
        // All that is read is of the first page's revision: one state, nothing torn.
        loading.loaded.revision = *revision.get_or_insert(answer.header.revision);
        let next = after(&answer.kvs);
        // Later pages count what is left of the range.
        loading.total.get_or_insert(answer.count);
        loading.take(answer.kvs).await;
        match next {
            Some(next) if answer.more => start = next,
            _ => break,
        }
    }
    Ok(loading.done().await)
}

/// What is loaded so far, and what is being made of what came.
struct Loading {
    ingests: Ingests,
    loaded: Loaded,
    progress: Progress,
    /// Values that came, also of namespaces that are not kept.
    came: u64,
    /// How many there are, as the first page says.
    total: Option<u64>,
}

/// What came of some values.
type Made = Vec<Result<Arc<Object>, Broken>>;

/// Values that are being made servable, on other threads: the feed and the cachers go on meanwhile, and so does etcd.
struct Ingests {
    storage: Arc<Storage>,
    included: Option<Arc<Included>>,
    prefix_len: usize,
    running: VecDeque<JoinHandle<Made>>,
}

/// How far a stream came.
enum Streamed {
    /// To its end.
    All,
    /// It broke off: this key is next.
    Until(Vec<u8>),
    /// This etcd has no streams.
    None,
}

impl Loading {
    /// Reads the rest as a stream.
    async fn stream(&mut self, etcd: &Etcd, request: RangeRequest, metrics: &ResourceMetrics) -> Result<Streamed, LoadFailed> {
        let (asking, mut next) = (metrics.etcd_list(), request.key.clone());
        let mut stream = match etcd.range_stream(request).await {
            Ok(Some(stream)) => stream,
            Ok(None) => return Ok(Streamed::None),
            Err(error) => return broken_off(error, next),
        };
        loop {
            match stream.next().await {
                Ok(Some(kvs)) => {
                    next = after(&kvs).unwrap_or(next);
                    self.take(kvs).await;
                }
                Ok(None) => {
                    asking.succeeded();
                    return Ok(Streamed::All);
                }
                Err(error) => return broken_off(error, next),
            }
        }
    }

    /// Has these made servable, when there are not too many already.
    async fn take(&mut self, kvs: Vec<KeyValue>) {
        self.came += kvs.len() as u64;
        self.progress.at(self.came, self.total);
        if self.ingests.running.len() >= INGESTS_AT_ONCE {
            self.join().await;
        }
        self.ingests.begin(kvs);
    }

    async fn join(&mut self) {
        let Some(first) = self.ingests.running.pop_front() else { return };
        for one in first.await.unwrap_or_else(|error| resume_unwind(error.into_panic())) {
            match one {
                Ok(object) => self.loaded.objects.push(object),
                Err(broken) => self.loaded.broken.push(broken),
            }
        }
    }

    async fn done(mut self) -> Loaded {
        while !self.ingests.running.is_empty() {
            self.join().await;
        }
        self.loaded
    }
}

impl Ingests {
    fn begin(&mut self, kvs: Vec<KeyValue>) {
        let (storage, included, prefix_len) = (self.storage.clone(), self.included.clone(), self.prefix_len);
        self.running.push_back(spawn_blocking(move || {
            let is_kept = |key: &[u8]| included.as_ref().is_none_or(|included| included.has_key(key, prefix_len));
            let kept = kvs.into_iter().filter(|kv| is_kept(&kv.key));
            kept.map(|kv| ingest(&storage, prefix_len, kv.key, &kv.value, kv.mod_revision).map(Arc::new)).collect()
        }));
    }
}

/// Why a stream does not go on.
fn broken_off(error: EtcdError, next: Vec<u8>) -> Result<Streamed, LoadFailed> {
    match error {
        EtcdError::Compacted | EtcdError::Future => Err(LoadFailed),
        error => {
            tracing::debug!(%error, "a load's stream broke off; reading on in pages");
            Ok(Streamed::Until(next))
        }
    }
}

/// The first key after all of these.
fn after(kvs: &[KeyValue]) -> Option<Vec<u8>> {
    kvs.last().map(|kv| [&kv.key[..], b"\0"].concat())
}

async fn page(etcd: &Etcd, request: &RangeRequest, pages: &mut Pages, metrics: &ResourceMetrics) -> Result<RangeAnswer, LoadFailed> {
    let mut reminder = Reminder::every(REMIND_EVERY);
    loop {
        let asking = metrics.etcd_list();
        match etcd.page(request, pages).await {
            Ok(answer) => {
                asking.succeeded();
                return Ok(answer);
            }
            Err(EtcdError::Compacted | EtcdError::Future) => return Err(LoadFailed),
            Err(error) => {
                drop(asking);
                if reminder.is_due() {
                    tracing::warn!(%error, "etcd does not answer a load; asking again");
                }
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests;
