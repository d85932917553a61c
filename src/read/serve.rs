//! Carries out what the plan says: waits, reads the picture or etcd, cuts the page. Knows no HTTP.

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;

use super::{
    failure::ReadError,
    newest::Newest,
    options::ListOptions,
    plan::{self, Carries, GetPlan, ListAsk, ListPlan, Source, Start as PlannedStart, State, Wait, WatchPlan},
    target::Target,
    token,
};
use crate::{
    cache::{store::Store, view::Known},
    codec::{form::ListMeta, ingest::ingest},
    dispatch::{Filters, Start, Subscription, filters::FILTERS_BYTES_MAX},
    etcd::{Etcd, RangeRequest},
    model::{Epoch, Object, Revision},
};

/// How long a read waits for the cache to become fresh (spec list-watch §0.2).
pub const FRESHNESS_WAIT: Duration = Duration::from_secs(3);

/// Objects looked at between two yields of a scan, so that a large list does not hold up its neighbours.
pub const SCAN_STEP: usize = 8_192;

/// Reads for every resource.
#[derive(Clone)]
pub struct Reader {
    pub(super) etcd: Etcd,
    /// `/registry/`.
    pub(super) prefix: Arc<str>,
    newest: Arc<Newest>,
    /// What watches hold.
    filters: Arc<Filters>,
}

/// A page of a list.
pub struct List {
    /// What the envelope says.
    pub meta: ListMeta,
    /// The items, in key order.
    pub objects: Vec<Arc<Object>>,
    /// Of the cache that the objects are from; none of others.
    pub epoch: Option<Epoch>,
}

/// How a watch begins.
pub enum Watching {
    /// Events follow.
    Stream(Box<Subscription>),
    /// 200, one ERROR event, the end (spec list-watch §4.7).
    Failed(ReadError),
}

/// Objects of a page, and what follows them.
pub(super) struct Page {
    pub(super) objects: Vec<Arc<Object>>,
    /// Last key looked at, when the limit was reached and another key follows.
    pub(super) last: Option<Vec<u8>>,
    /// Keys that follow, when the request has no selectors.
    pub(super) remaining: Option<u64>,
}

impl Reader {
    /// Reads of this etcd, under this prefix (`/registry/`).
    #[must_use]
    pub fn new(etcd: Etcd, prefix: &str) -> Self {
        let prefix: Arc<str> = prefix.into();
        Self { newest: Newest::of(etcd.clone(), prefix.clone()), etcd, prefix, filters: Filters::new(FILTERS_BYTES_MAX) }
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

    /// LIST (spec list-watch §2).
    ///
    /// # Errors
    /// See [`ReadError`]; the caller bounds the time.
    pub async fn list(&self, target: &Target, options: &ListOptions) -> Result<List, ReadError> {
        let ask = ListAsk::read(options, target.scope())?;
        let known = target.known();
        let plan = plan::list(&ask, &self.state(&known)).map_err(|r| target.refused(r))?;
        let known = match (&plan.source, self.wait(target, plan.wait, known).await) {
            (Source::Etcd(read), _) => return self.list_etcd(target, &plan, *read).await,
            (_, Ok(known)) => known,
            (_, Err(ReadError::TooLarge { .. })) if plan.wait == Wait::Consistent && plan.fallback.is_some() => {
                target.resource.metrics.consistent_read(true, true);
                return self.list_etcd(target, &plan, plan.fallback.expect("just looked")).await;
            }
            (_, Err(error)) => return Err(error),
        };
        if plan.wait == Wait::Consistent {
            target.resource.metrics.consistent_read(true, false);
        }
        ReadError::undecodable(&known.view)?;
        let (store, limit) = match plan.source {
            Source::Cache { limit } => (known.view.store.clone(), limit),
            Source::Snapshot { at, limit } => match target.snapshot(&known, at) {
                Some(store) => (store, limit),
                None => {
                    let fallback = plan.fallback.expect("the plan gives every snapshot a fallback");
                    return self.list_etcd(target, &plan, fallback).await;
                }
            },
            Source::Etcd(_) => unreachable!("answered above"),
        };
        let page = target.page(&store, &plan, limit).await;
        let metrics = &target.resource.metrics;
        metrics.cache_list.inc();
        metrics.cache_list_returned.inc_by(page.objects.len() as u64);
        Ok(List { epoch: Some(known.view.epoch), ..target.envelope(&plan, page, known.revision, true) })
    }

    /// GET (spec list-watch §3). The object keeps its own revision.
    ///
    /// # Errors
    /// See [`ReadError`]; the caller bounds the time.
    pub async fn get(&self, target: &Target, resource_version: &str) -> Result<Arc<Object>, ReadError> {
        let key = target.key.as_ref().expect("a GET names one key");
        let known = target.known();
        match plan::get(resource_version, &self.state(&known)).map_err(|r| target.refused(r))? {
            GetPlan::Cache { wait } => {
                let known = self.wait(target, wait, known).await?;
                if let Some(broken) = known.view.broken.get(key) {
                    return Err(ReadError::Undecodable {
                        count: 1,
                        key: String::from_utf8_lossy(key).into_owned(),
                        why: broken.why.clone(),
                    });
                }
                known.view.store.find(key).cloned().ok_or_else(|| target.not_found())
            }
            GetPlan::Etcd { at_least } => self.get_etcd(target, key, at_least).await,
        }
    }

    /// WATCH (spec list-watch §4). The options are defaulted and validated. `limit` bounds the read of etcd's revision; the wait for freshness has its
    /// own limit, whatever the stream's deadline.
    ///
    /// # Errors
    /// What is an HTTP status; failures after acceptance are [`Watching::Failed`].
    pub async fn watch(&self, target: &Target, options: &ListOptions, limit: Duration) -> Result<Watching, ReadError> {
        let known = target.known();
        let plan = plan::watch(options, &self.state(&known)).map_err(|r| target.refused(r))?;
        ReadError::undecodable(&known.view)?;
        let (wait, start, annotated) = match plan {
            WatchPlan::Lost(asked) => {
                return Ok(Watching::Failed(ReadError::WatchExpired { asked, floor: known.view.ring.floor() }));
            }
            WatchPlan::Error(message) => return Ok(Watching::Failed(ReadError::InStream(message.to_owned()))),
            WatchPlan::Stream { wait, start, annotated } => (wait, start, annotated),
        };
        let newest = match (wait, start) {
            (Wait::Consistent, _) | (_, PlannedStart::AfterNewest) => match timeout(limit, self.newest()).await {
                Ok(Ok(newest)) => newest,
                Ok(Err(error)) => return Ok(Watching::Failed(ReadError::InStream(error.to_string()))),
                Err(_) => return Ok(Watching::Failed(ReadError::InStream("context deadline exceeded".to_owned()))),
            },
            _ => Revision::ZERO,
        };
        let wait = if wait == Wait::Consistent { Wait::AtLeast(newest) } else { wait };
        if let Err(error) = self.wait(target, wait, known).await {
            return Ok(Watching::Failed(error));
        }
        let key = target.group_key(self.filters.hold(&target.filter)?);
        // First the group, then the picture: whatever the group's log does not have is in the picture.
        let handle = &target.resource.handle;
        let (group, epoch) = handle.subscribe(key, target.form().clone()).await?;
        let known = target.known();
        if known.view.epoch != epoch || !known.is_ready() {
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
        Ok(Watching::Stream(Box::new(Subscription::new(handle.published.clone(), &group, epoch, start))))
    }

    fn state(&self, known: &Known) -> State {
        State { ready: known.is_ready(), known: known.revision, lost: known.lost, etcd_progress: self.etcd.supports_progress() }
    }

    /// E: etcd's newest revision, by a linearizable read (spec list-watch §2.9 step 1).
    pub(super) async fn newest(&self) -> Result<Revision, ReadError> {
        Ok(self.newest.ask().await?)
    }

    /// Waits as planned; answers with the picture to serve.
    async fn wait(&self, target: &Target, wait: Wait, known: Known) -> Result<Known, ReadError> {
        let asked = match wait {
            Wait::Nothing => return Ok(known),
            Wait::Consistent => self.newest().await?,
            Wait::AtLeast(revision) => revision,
        };
        let timer = target.resource.metrics.cache_read_wait.start_timer();
        let waited = target.resource.handle.published.wait_for(asked, FRESHNESS_WAIT).await;
        timer.observe_duration();
        waited.map_err(|late| ReadError::TooLarge { asked, current: late.revision, retry_after: Some(1) })
    }

    async fn get_etcd(&self, target: &Target, key: &[u8], at_least: Option<Revision>) -> Result<Arc<Object>, ReadError> {
        let answer = self.etcd.range(RangeRequest { key: key.to_vec(), ..RangeRequest::default() }).await?;
        let current = answer.header.revision;
        if let Some(asked) = at_least.filter(|asked| *asked > current) {
            return Err(ReadError::TooLarge { asked, current, retry_after: None });
        }
        let Some(kv) = answer.kvs.into_iter().next() else { return Err(target.not_found()) };
        let decoded = ingest(&target.resource.served.storage, target.own_prefix(&self.prefix), kv.key, &kv.value, kv.mod_revision);
        decoded.map(Arc::new).map_err(|broken| ReadError::Undecodable {
            count: 1,
            key: String::from_utf8_lossy(&broken.key).into_owned(),
            why: broken.why,
        })
    }
}

impl Target {
    fn known(&self) -> Known {
        self.resource.handle.published.known()
    }

    /// Bytes of a key before the namespace or the name.
    pub(super) fn own_prefix(&self, etcd_prefix: &str) -> usize {
        etcd_prefix.len() + self.resource.served.storage.id.len() + 1
    }

    fn not_found(&self) -> ReadError {
        ReadError::NotFound { name: self.filter.name.as_deref().unwrap_or("").to_owned() }
    }

    fn refused(&self, refusal: plan::Refusal) -> ReadError {
        match refusal {
            plan::Refusal::TooManyRequests => ReadError::NotReady(self.resource.handle.since.elapsed()),
            other => ReadError::Refused(other),
        }
    }

    /// The store at an exact revision, unless it was compacted or the ring has forgotten it.
    fn snapshot(&self, known: &Known, at: Revision) -> Option<Store> {
        if at < self.resource.handle.published.fed().compacted() {
            return None;
        }
        known.view.exact(at)
    }

    async fn page(&self, store: &Store, plan: &ListPlan, limit: Option<u64>) -> Page {
        if let (Some(key), None) = (&self.key, &plan.start) {
            let found = store.find(key).filter(|o| self.filter.matches(o)).cloned();
            return Page { objects: found.into_iter().collect(), last: None, remaining: None };
        }
        let start = [&self.base[..], plan.start.as_deref().unwrap_or("").as_bytes()].concat();
        let limit = limit.map_or(usize::MAX, |l| usize::try_from(l).unwrap_or(usize::MAX));
        let mut page = Page { objects: Vec::new(), last: None, remaining: None };
        let mut from = start.clone();
        loop {
            let mut looked = 0;
            let mut full = false;
            for object in store.scan(&self.prefix, &from) {
                if page.objects.len() == limit {
                    full = true;
                    break;
                }
                if looked == SCAN_STEP {
                    break;
                }
                looked += 1;
                page.last = Some(object.key.to_vec());
                if self.filter.matches(object) {
                    page.objects.push(object.clone());
                }
            }
            self.resource.metrics.cache_list_fetched.inc_by(looked as u64);
            if full {
                break;
            }
            if looked < SCAN_STEP {
                page.last = None;
                break;
            }
            from = page.last.as_deref().map_or(from, |last| [last, b"\0"].concat());
            tokio::task::yield_now().await;
        }
        if page.last.is_some() && !self.scope().selects {
            page.remaining = Some((store.scan(&self.prefix, &start).count() - limit) as u64);
        }
        page
    }

    /// The list as the client gets it. Tokens from the cache start with a slash, tokens from etcd do not (spec list-watch §2.5).
    pub(super) fn envelope(&self, plan: &ListPlan, page: Page, served: Revision, from_cache: bool) -> List {
        let revision = match plan.carries {
            Carries::Served => served,
            Carries::Fixed(revision) => revision,
        };
        let continue_token = page.last.as_ref().map(|last| {
            let relative = String::from_utf8_lossy(&last[self.base.len()..]).into_owned();
            token::encode(revision.to_etcd(), &relative, from_cache)
        });
        let shard = self.filter.shard.as_ref().map(ToString::to_string);
        List { meta: ListMeta { revision, continue_token, remaining: page.remaining, shard }, objects: page.objects, epoch: None }
    }
}
