//! Carries out what the plan says: waits, reads the snapshot or etcd, cuts the page.

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;

use super::{
    elsewhere::{Elsewhere, Reads},
    etcd_list::ETCD_LISTS_AT_ONCE,
    failure::ReadError,
    latest_revision::LatestRevision,
    options::ListOptions,
    plan::{self, GetPlan, ListPlan, ListRequest, Source, Start as PlannedStart, State, Wait, WatchPlan},
    target::Target,
    token,
    yielder::Yielder,
};
use cache::cacher::NoGroup;
use cache::dispatch::{Filters, Start, Subscription, filters::FILTERS_BYTES_MAX};
use cache::state::{Place, snapshot::Known, store::Store};
use codec::{CachedList, ChunkCache, ListKey, ListMeta, ingest::ingest};
use conversion::Reading;
use etcd::{Etcd, EtcdError, RangeRequest};
use fair::Turns;
use model::{ByResource, Epoch, Object, Revision};

/// Objects whose mean size estimates that of the others.
const OBJECTS_SAMPLED: usize = 64;

/// How long a read waits for the cache to become fresh (spec list-watch §0.2).
pub const FRESHNESS_WAIT: Duration = Duration::from_secs(3);

/// Reads for every resource.
#[derive(Clone)]
pub struct Reader {
    etcds: ByResource<(Etcd, Arc<LatestRevision>)>,
    /// Whom consistent reads ask instead of etcd.
    pub(super) elsewhere: Option<Arc<Elsewhere>>,
    /// What memory has counts as the newest.
    pub(super) takes_memory: bool,
    /// `/registry/`.
    pub(super) prefix: Arc<str>,
    /// How long etcd may take where an upstream can answer instead; without one it has the request's time.
    etcd_timeout: Option<Duration>,
    /// What watches hold.
    filters: Arc<Filters>,
    /// Permits of the lists that etcd answers.
    pub(super) etcd_list_permits: Arc<Turns>,
    pub(super) serves_unknown_fields: bool,
}

/// A page of a list.
pub struct List {
    /// What the envelope says.
    pub meta: ListMeta,
    /// The items, in key order.
    pub objects: Vec<Arc<Object>>,
    /// Of the cache that the objects are from; none of others.
    pub epoch: Option<Epoch>,
    /// The key of its manifest, when it was asked for, and the list is a whole one from the cache.
    pub list_key: Option<ListKey>,
    /// Its chunks, if all of them were cached; then no object was looked at.
    pub cached: Option<CachedList>,
}

/// How a watch begins.
pub enum Watching {
    /// Events follow.
    Stream(Box<Subscription>),
    /// 200, one ERROR event, the end (spec list-watch §4.7).
    Failed(ReadError),
}

/// Objects of a page, and what follows them.
#[derive(Default)]
pub(super) struct Page {
    pub(super) objects: Vec<Arc<Object>>,
    /// Last key looked at, when the limit was reached and another key follows.
    pub(super) last: Option<Vec<u8>>,
    /// Keys that follow, when the request has no selectors.
    pub(super) remaining: Option<u64>,
}

impl Reader {
    /// Reads of these etcds, under this prefix (`/registry/`).
    #[must_use]
    pub fn new(etcds: &ByResource<Etcd>, prefix: &str) -> Self {
        let prefix: Arc<str> = prefix.into();
        let etcd_list_permits = Arc::new(Turns::new(ETCD_LISTS_AT_ONCE));
        let etcds = etcds.map(|etcd| (etcd.clone(), LatestRevision::of(etcd.clone(), prefix.clone())));
        let filters = Filters::new(FILTERS_BYTES_MAX);
        Self {
            etcds,
            prefix,
            filters,
            etcd_list_permits,
            elsewhere: None,
            takes_memory: false,
            etcd_timeout: None,
            serves_unknown_fields: false,
        }
    }

    /// Whether values with fields that are not known are served without them.
    #[must_use]
    pub fn serving_unknown_fields(self, yes: bool) -> Self {
        Self { serves_unknown_fields: yes, ..self }
    }

    /// The etcd that has these objects.
    pub(super) fn etcd(&self, target: &Target) -> &Etcd {
        &self.etcds.of(&target.resource.served.storage.id).0
    }

    /// Gives up on an etcd that does not answer in time ([`ReadError::OutOfReach`]), for a server that can hand the request on.
    #[must_use]
    pub fn impatient(self) -> Self {
        Self { etcd_timeout: Some(FRESHNESS_WAIT), ..self }
    }

    /// Waits for etcd, no longer than it pays.
    pub(super) async fn within_etcd_timeout<T>(&self, asking: impl Future<Output = Result<T, EtcdError>>) -> Result<T, ReadError> {
        let Some(etcd_timeout) = self.etcd_timeout else { return Ok(asking.await?) };
        match timeout(etcd_timeout, asking).await {
            Ok(Err(error @ (EtcdError::Unavailable(_) | EtcdError::Deadline | EtcdError::Unauthenticated(_)))) => {
                Err(ReadError::OutOfReach(error.to_string()))
            }
            Ok(answer) => Ok(answer?),
            Err(_) => Err(ReadError::OutOfReach(format!("no answer within {etcd_timeout:?}"))),
        }
    }

    /// The key prefix.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The filters that watches hold.
    #[must_use]
    pub fn filters(&self) -> &Filters {
        &self.filters
    }

    /// LIST (spec list-watch §2). `chunks`: where a whole list may be cached, if the answer may be made of that.
    ///
    /// # Errors
    /// See [`ReadError`]; the caller bounds the time.
    pub async fn list(&self, target: &Target, options: &ListOptions, chunks: Option<&ChunkCache>) -> Result<List, ReadError> {
        let request = ListRequest::read(options, target.scope())?;
        let _reading = target.awaken().await;
        let known = target.known();
        let ListPlan { source, start } = plan::list(&request, &self.state(target, &known)).map_err(|r| target.refused(r))?;
        let start = start.as_deref();
        let metrics = &target.resource.metrics;
        let (known, limit, exact) = match source {
            // Boxed, here and below: what asks etcd is large, and most reads do not.
            Source::Etcd(read) => return Box::pin(self.list_etcd(target, start, read)).await,
            Source::Consistent { limit, late } => match self.wait(target, Wait::Consistent, known, Reads::List).await {
                Ok(known) => {
                    metrics.consistent_read(known.snapshot.broken.is_empty(), false);
                    (known, limit, None)
                }
                Err(ReadError::TooLarge { .. }) => {
                    let list = Box::pin(self.list_etcd(target, start, late)).await;
                    metrics.consistent_read(list.is_ok(), true);
                    return list;
                }
                Err(error) => return Err(error),
            },
            Source::Cache { at_least, limit } => {
                let wait = at_least.map_or(Wait::Nothing, Wait::AtLeast);
                (self.wait(target, wait, known, Reads::List).await?, limit, None)
            }
            Source::Snapshot { at, limit, gone } => {
                (self.wait(target, Wait::AtLeast(at), known, Reads::List).await?, limit, Some((at, gone)))
            }
        };
        ReadError::undecodable(&known.snapshot)?;
        let (store, revision) = match exact {
            None => (known.snapshot.store.clone(), known.revision),
            Some((at, gone)) => match target.snapshot(&known, at) {
                Some(store) => (store, at),
                None => return Box::pin(self.list_etcd(target, start, gone)).await,
            },
        };
        let is_whole = (start, limit, &target.key) == (None, None, &None);
        // Since the last change everything is as it was at that.
        let list_key = chunks.filter(|_| is_whole).map(|_| target.list_key(known.snapshot.epoch, revision.min(known.snapshot.applied)));
        let cached = chunks.zip(list_key).and_then(|(chunks, key)| chunks.list(key));
        let page = match &cached {
            Some(cached) => {
                metrics.cache_list_returned.inc_by(cached.objects() as u64);
                Page::default()
            }
            None => target.page((known.snapshot.epoch, revision), &store, start, limit).await,
        };
        metrics.cache_list.inc();
        metrics.cache_list_returned.inc_by(page.objects.len() as u64);
        Ok(List { epoch: Some(known.snapshot.epoch), list_key, cached, ..target.envelope(page, revision, true) })
    }

    /// About how many bytes a list holds until it is sent: pointers to objects of the cache, or copies of objects that etcd answers with.
    #[must_use]
    pub fn list_bytes(&self, target: &Target, options: &ListOptions) -> usize {
        let known = target.known();
        let store = &known.snapshot.store;
        let count = usize::try_from(options.limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX).min(store.len());
        let plan = ListRequest::read(options, target.scope()).and_then(|request| plan::list(&request, &self.state(target, &known)));
        match plan {
            Ok(ListPlan { source: Source::Etcd(_), .. }) => {
                let (mut looked, mut bytes) = (0, 0);
                for object in store.scan(&target.prefix, &target.prefix).take(OBJECTS_SAMPLED) {
                    (looked, bytes) = (looked + 1, bytes + object.tail_len());
                }
                bytes / looked.max(1) * count
            }
            _ => count * size_of::<Arc<Object>>(),
        }
    }

    /// GET (spec list-watch §3). The object keeps its own revision.
    ///
    /// # Errors
    /// See [`ReadError`]; the caller bounds the time.
    pub async fn get(&self, target: &Target, resource_version: &str) -> Result<Arc<Object>, ReadError> {
        let key = target.key.as_ref().expect("a GET names one key");
        let known = target.known();
        let resource_version = if self.takes_memory && resource_version.is_empty() { "0" } else { resource_version };
        match plan::get(resource_version, &self.state(target, &known)).map_err(|r| target.refused(r))? {
            GetPlan::Cache { wait } => {
                let known = self.wait(target, wait, known, Reads::List).await?;
                if let Some(broken) = known.snapshot.broken.get(key) {
                    return Err(ReadError::Undecodable {
                        count: 1,
                        key: String::from_utf8_lossy(key).into_owned(),
                        why: broken.why.clone(),
                    });
                }
                if let Some(shown) = &target.resource.shown {
                    shown.view.want();
                }
                known.snapshot.store.find(key).cloned().ok_or_else(|| target.not_found())
            }
            GetPlan::Etcd { at_least } => Box::pin(self.get_etcd(target, key, at_least)).await,
        }
    }

    /// WATCH (spec list-watch §4). The options are defaulted and validated. `limits` bound the read of etcd's revision, and the wait for the cacher; the wait
    /// for freshness has its own limit, whatever the stream's deadline. `user` is who watches.
    ///
    /// # Errors
    /// What is an HTTP status; failures after acceptance are [`Watching::Failed`].
    pub async fn watch(
        &self,
        target: &Target,
        options: &ListOptions,
        limits: (Duration, Duration),
        user: &str,
    ) -> Result<Watching, ReadError> {
        let _reading = target.awaken().await;
        let known = target.known();
        let plan = plan::watch(options, &self.state(target, &known)).map_err(|r| target.refused(r))?;
        ReadError::undecodable(&known.snapshot)?;
        let (wait, start, annotated) = match plan {
            WatchPlan::Lost(asked) => {
                return Ok(Watching::Failed(ReadError::WatchExpired { asked, floor: known.snapshot.ring.floor() }));
            }
            WatchPlan::Error(message) => return Ok(Watching::Failed(ReadError::InStream(message.to_owned()))),
            WatchPlan::Stream { wait, start, annotated } => (wait, start, annotated),
        };
        let newest = match (wait, start) {
            (Wait::Consistent, _) | (_, PlannedStart::AfterNewest) => match timeout(limits.0, self.latest_revision(target)).await {
                Ok(Ok(newest)) => newest,
                Ok(Err(error @ ReadError::OutOfReach(_))) => return Err(error),
                Ok(Err(error)) => return Ok(Watching::Failed(ReadError::InStream(error.to_string()))),
                Err(_) if self.etcd_timeout.is_some() => {
                    return Err(ReadError::OutOfReach("no answer in the time of the watch".to_owned()));
                }
                Err(_) => return Ok(Watching::Failed(ReadError::InStream("context deadline exceeded".to_owned()))),
            },
            _ => Revision::ZERO,
        };
        let (wait, reads) = match wait {
            Wait::Consistent => (Wait::AtLeast(newest), Reads::WatchOfNewest),
            wait => (wait, Reads::Watch),
        };
        match self.wait(target, wait, known, reads).await {
            Ok(_) => {}
            Err(error @ ReadError::OutOfReach(_)) => return Err(error),
            Err(error) => return Ok(Watching::Failed(error)),
        }
        let key = target.group_key(self.filters.hold(&target.filter, user)?);
        // First the group, then the snapshot: whatever the group's log does not have is in the snapshot.
        let handle = &target.resource.handle;
        let (group, epoch) = match handle.subscribe(key, target.encoder().clone(), limits.1).await {
            Ok(subscribed) => subscribed,
            Err(NoGroup::Gone(gone)) => return Err(gone.into()),
            Err(NoGroup::Busy) => return Err(target.refused(plan::Refusal::TooManyRequests)),
        };
        let known = target.known();
        ReadError::undecodable(&known.snapshot)?;
        if known.snapshot.epoch != epoch || !known.is_ready() {
            // Loaded anew in between: the client asks again, as it does when it comes too early.
            return Err(target.refused(plan::Refusal::TooManyRequests));
        }
        let start = match start {
            PlannedStart::Store => {
                let prefix = target.key.clone().unwrap_or_else(|| target.prefix.clone());
                Start::Initial { known, prefix, annotated }
            }
            PlannedStart::After(revision) => Start::After(revision),
            PlannedStart::AfterNewest => Start::After(newest),
            PlannedStart::AfterCached => Start::After(known.revision),
        };
        Ok(Watching::Stream(Box::new(Subscription::new(handle.published.clone(), &group, epoch, start).read_by(target.reader))))
    }

    pub(super) fn state(&self, target: &Target, known: &Known) -> State {
        let etcd_progress = self.etcd(target).supports_progress();
        State { ready: known.is_ready(), known: known.revision, lost: known.lost, etcd_progress }
    }

    /// E: the newest revision of the etcd that has these objects, by a linearizable read (spec list-watch §2.9 step 1).
    ///
    /// # Errors
    /// etcd does not answer.
    pub(super) async fn latest_revision(&self, target: &Target) -> Result<Revision, ReadError> {
        let storage = &target.resource.served.storage;
        match &self.elsewhere {
            _ if self.takes_memory => Ok(target.known().revision),
            Some(elsewhere) => self.within_etcd_timeout(elsewhere.of(storage).get()).await,
            None => self.latest_revision_of(&storage.id).await,
        }
    }

    /// The same of a stored resource.
    ///
    /// # Errors
    /// etcd does not answer.
    pub async fn latest_revision_of(&self, id: &str) -> Result<Revision, ReadError> {
        self.within_etcd_timeout(self.etcds.of(id).1.get()).await
    }

    /// Waits as planned; answers with the snapshot to serve.
    async fn wait(&self, target: &Target, wait: Wait, known: Known, reads: Reads) -> Result<Known, ReadError> {
        let asked = match wait {
            Wait::Nothing => return Ok(known),
            Wait::Consistent => self.latest_revision(target).await?,
            Wait::AtLeast(revision) => revision,
        };
        // Memory was there before the question: a source that has less was restored, or is another one.
        if matches!(wait, Wait::Consistent) && self.elsewhere.is_some() && !self.takes_memory && asked < known.revision {
            return Err(ReadError::OutOfReach(format!("upstream is at {asked}, memory at {}", known.revision)));
        }
        let timer = target.resource.metrics.cache_read_wait.start_timer();
        let published = &target.resource.handle.published;
        let waited = published.wait_for(asked, self.wait_limit(published.fed(), &known, reads)).await;
        timer.observe_duration();
        waited.map_err(|late| match self.etcd_timeout {
            Some(_) if published.fed().is_behind() || self.elsewhere.is_some() && reads != Reads::Watch => {
                ReadError::OutOfReach(format!("memory is at {}", late.revision))
            }
            _ => ReadError::TooLarge { asked, current: late.revision, retry_after: Some(1) },
        })
    }

    async fn get_etcd(&self, target: &Target, key: &[u8], at_least: Option<Revision>) -> Result<Arc<Object>, ReadError> {
        let metrics = &target.resource.metrics;
        let asking = metrics.etcd_get();
        let answer =
            self.within_etcd_timeout(self.etcd(target).range(RangeRequest { key: key.to_vec(), ..RangeRequest::default() })).await?;
        asking.succeeded();
        let current = answer.header.revision;
        if let Some(asked) = at_least.filter(|asked| *asked > current) {
            return Err(ReadError::TooLarge { asked, current, retry_after: None });
        }
        let Some(kv) = answer.kvs.into_iter().next() else { return Err(target.not_found()) };
        let storage = &target.resource.served.storage;
        let decoded = ingest(storage, storage.key_prefix_len(&self.prefix), kv.key, &kv.value, kv.mod_revision);
        let decoded = decoded.map(Arc::new).or_else(|broken| broken.or_known_part(self.serves_unknown_fields)).map_err(|broken| {
            metrics.decode_errors.inc();
            ReadError::Undecodable { count: 1, key: String::from_utf8_lossy(&broken.key).into_owned(), why: broken.why }
        })?;
        match &target.resource.shown {
            Some(shown) => Ok(shown.object(decoded).await?),
            None => Ok(decoded),
        }
    }
}

impl Target {
    /// Bytes of the one object that is meant, as the cache has it.
    #[must_use]
    pub fn cached_bytes(&self) -> usize {
        let known = self.known();
        self.key.as_ref().and_then(|key| known.snapshot.store.find(key)).map_or(0, |object| object.tail_len())
    }

    /// Has the objects of its version kept, if they are not what is stored, and waits a while until they are. They stay until what this returns is dropped.
    async fn awaken(&self) -> Option<Reading> {
        match &self.resource.shown {
            Some(shown) => Some(shown.view.awaken(FRESHNESS_WAIT).await),
            None => None,
        }
    }

    fn known(&self) -> Known {
        self.resource.handle.published.known()
    }

    /// Returns the key of the compressed list of the whole target at this revision.
    fn list_key(&self, epoch: Epoch, revision: Revision) -> ListKey {
        self.encoder().list_key(epoch, revision, &self.prefix, &self.filter)
    }

    fn not_found(&self) -> ReadError {
        ReadError::NotFound { name: self.filter.name.as_deref().unwrap_or("").to_owned() }
    }

    fn refused(&self, refusal: plan::Refusal) -> ReadError {
        match refusal {
            plan::Refusal::TooManyRequests => match self.resource.shown.as_ref().map(|shown| shown.view.failure()) {
                None => ReadError::NotReady(self.resource.handle.since.elapsed()),
                Some(None) => ReadError::NotReady(Duration::ZERO),
                Some(Some(why)) => {
                    let served = &self.resource.served;
                    ReadError::NotConverted(format!("failed to list {}, Kind={}: {why}", served.api_version(), served.kind))
                }
            },
            other => ReadError::Refused(other),
        }
    }

    /// The store at an exact revision, unless it was compacted or the ring has forgotten it.
    fn snapshot(&self, known: &Known, at: Revision) -> Option<Store> {
        if at < self.resource.handle.published.fed().compacted() {
            return None;
        }
        known.snapshot.exact(at)
    }

    async fn page(&self, at: (Epoch, Revision), store: &Store, start: Option<&str>, limit: Option<u64>) -> Page {
        if let (Some(key), None) = (&self.key, start) {
            let found = store.find(key).filter(|o| self.filter.matches(o)).cloned();
            return Page { objects: found.into_iter().collect(), last: None, remaining: None };
        }
        let start = [&self.base[..], start.unwrap_or("").as_bytes()].concat();
        let limit = limit.map_or(usize::MAX, |l| usize::try_from(l).unwrap_or(usize::MAX));
        let mut page = Page::default();
        let fetched = &self.resource.metrics.cache_list_fetched;
        let (mut yielder, mut looked, mut next) = (Yielder::default(), 0, Vec::new());
        for object in store.select(&self.filter, &self.prefix, &start) {
            looked += 1;
            if self.filter.matches(object) {
                page.objects.push(object.clone());
                if page.objects.len() == limit {
                    // Another key follows, selected or not.
                    next = [object.key(), b"\0"].concat();
                    page.last = store.scan(&self.prefix, &next).next().map(|_| object.key().to_vec());
                    break;
                }
            }
            if yielder.is_due(object.looks()) {
                yielder.yield_now().await;
            }
        }
        fetched.inc_by(looked as u64);
        self.resource.handle.published.scanned(&self.filter, self.reader, looked, page.objects.len());
        if page.last.is_some() && !self.scope().selects {
            let remaining = self.count(at, store, &start, &mut yielder).await - limit;
            self.resource.handle.published.tell_count(self.place(at, &next), remaining);
            page.remaining = Some(remaining as u64);
        }
        page
    }

    /// How many objects the list has from a key on.
    async fn count(&self, at: (Epoch, Revision), store: &Store, from: &[u8], yielder: &mut Yielder) -> usize {
        let counted = self.resource.handle.published.counted(self.place(at, from));
        if let Some(count) = counted.or_else(|| store.count_at_once(&self.prefix, from)) {
            return count;
        }
        let mut count = 0;
        for _ in store.scan(&self.prefix, from) {
            count += 1;
            if yielder.is_due(1) {
                yielder.yield_now().await;
            }
        }
        count
    }

    fn place<'k>(&'k self, (epoch, revision): (Epoch, Revision), from: &'k [u8]) -> Place<'k> {
        Place { epoch, revision, prefix: &self.prefix, from }
    }

    /// The list as the client gets it. Tokens from the cache start with a slash, tokens from etcd do not (spec list-watch §2.5).
    pub(super) fn envelope(&self, page: Page, revision: Revision, from_cache: bool) -> List {
        let continue_token = page.last.as_ref().map(|last| {
            let relative = String::from_utf8_lossy(&last[self.base.len()..]).into_owned();
            token::encode(revision.to_etcd(), &relative, from_cache)
        });
        let shard = self.filter.shard.as_ref().map(ToString::to_string);
        List {
            meta: ListMeta { revision, continue_token, remaining: page.remaining, shard },
            objects: page.objects,
            epoch: None,
            list_key: None,
            cached: None,
        }
    }
}

#[cfg(test)]
mod tests;
