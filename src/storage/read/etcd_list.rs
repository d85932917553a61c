//! Lists that are read from etcd: while the cache is not ready, for revisions that it no longer has, and when waiting for it took too long (spec list-watch
//! §2.3, §2.13).

use std::sync::Arc;

use super::{
    failure::ReadError,
    plan::EtcdRead,
    serve::{List, Page, Reader},
    target::Target,
    token::{Token, TokenRevision},
    yielder::Yielder,
};
use codec::ingest::ingest;
use etcd::{EtcdError, KeyValue, PAGE_KEYS_MAX, Pages, RangeRequest};
use model::{Broken, KeyRange, Object, Revision};

/// Lists that etcd answers at the same time: each makes copies of what it reads. Others wait, as long as their requests may.
pub(super) const ETCD_LISTS_AT_ONCE: usize = 4;

/// Bytes of a value that are read in the time in which one label is looked up, or less.
const BYTES_OF_WORK: usize = 16;

impl Reader {
    /// Reads a page from etcd, in rounds of as many keys as are wanted and not too large ([`Pages`]); while selectors drop items each round is up to twice the
    /// last. All rounds are at the first answer's revision.
    pub(super) async fn list_etcd(&self, target: &Target, start: Option<&str>, read: EtcdRead) -> Result<List, ReadError> {
        let _permit = self.etcd_list_permits.take().await;
        let metrics = &target.resource.metrics;
        metrics.storage_list.inc();
        let range = KeyRange::prefix(&target.prefix);
        let single = target.key.as_ref().filter(|_| start.is_none());
        let mut from = match single {
            Some(key) => key.to_vec(),
            None => [&target.base[..], start.unwrap_or("").as_bytes()].concat().max(target.prefix.to_vec()),
        };
        let end = if single.is_some() { Vec::new() } else { range.end };
        let limit = read.limit.filter(|_| single.is_none());
        let keys = |wanted: u64| u32::try_from(wanted).unwrap_or(PAGE_KEYS_MAX).clamp(1, PAGE_KEYS_MAX);
        let (mut size, mut pages) = (limit.map_or(PAGE_KEYS_MAX, keys), Pages::default());
        let mut at = read.at;
        let mut page = Page { objects: Vec::new(), last: None, remaining: None };
        let mut total = None;
        let mut broken = Vec::new();
        loop {
            let request = RangeRequest { key: from.clone(), end: end.clone(), revision: at, limit: size, ..RangeRequest::default() };
            let asking = if single.is_some() { metrics.etcd_get() } else { metrics.etcd_list() };
            let answer = match self.within_etcd_timeout(self.etcd(target).page(&request, &mut pages)).await {
                Ok(answer) => answer,
                Err(ReadError::Etcd(error)) => {
                    drop(asking);
                    return Err(self.range_failed(target, error, start, at).await);
                }
                Err(error) => return Err(error),
            };
            asking.succeeded();
            let current = answer.header.revision;
            if let Some(asked) = read.at_least.filter(|asked| *asked > current) {
                return Err(ReadError::TooLarge { asked, current, retry_after: None });
            }
            at = at.or(Some(current));
            total.get_or_insert(answer.count);
            metrics.storage_list_fetched.inc_by(answer.kvs.len() as u64);
            let more = answer.more;
            let read = keys(answer.kvs.len() as u64);
            let last = answer.kvs.last().map(|kv| kv.key.to_vec());
            let full = self.take(target, answer.kvs, limit, &mut page, &mut broken).await?;
            if full && (more || page.last != last) {
                break;
            }
            let Some(last) = last.filter(|_| more) else {
                page.last = None;
                break;
            };
            from = [&last[..], b"\0"].concat();
            let left = limit.map_or(PAGE_KEYS_MAX, |l| keys(l - page.objects.len() as u64));
            size = if limit.is_some() && target.scope().selects { keys(2 * u64::from(read)) } else { left };
        }
        metrics.decode_errors.inc_by(broken.len() as u64);
        if let Some(first) = broken.first() {
            return Err(undecodable(broken.len(), first));
        }
        metrics.storage_list_returned.inc_by(page.objects.len() as u64);
        if let (Some(_), Some(limit), Some(total), false) = (&page.last, limit, total, target.scope().selects) {
            page.remaining = Some(total.saturating_sub(limit));
        }
        Ok(target.envelope(page, at.unwrap_or(Revision::ZERO), false))
    }

    /// Takes what matches until the limit; whether it is reached.
    async fn take(
        &self,
        target: &Target,
        kvs: Vec<KeyValue>,
        limit: Option<u64>,
        page: &mut Page,
        broken: &mut Vec<Broken>,
    ) -> Result<bool, ReadError> {
        if target.resource.shown.is_some() {
            return self.take_converted(target, kvs, limit, page, broken).await;
        }
        let evaluated = &target.resource.metrics.storage_list_evaluated;
        let mut yielder = Yielder::default();
        for kv in kvs {
            if limit.is_some_and(|l| page.objects.len() as u64 >= l) {
                return Ok(true);
            }
            page.last = Some(kv.key.to_vec());
            let bytes = kv.value.len();
            evaluated.inc();
            match self.ingested(target, kv) {
                Ok(object) if target.filter.matches(&object) => page.objects.push(object),
                Ok(_) => {}
                Err(one) => broken.push(one),
            }
            if yielder.is_due(1 + bytes / BYTES_OF_WORK) {
                yielder.yield_now().await;
            }
        }
        Ok(limit.is_some_and(|l| page.objects.len() as u64 >= l))
    }

    /// The same of a version that is made of what is stored: what is read at once is converted at once, and only then a selector can tell.
    async fn take_converted(
        &self,
        target: &Target,
        kvs: Vec<KeyValue>,
        limit: Option<u64>,
        page: &mut Page,
        broken: &mut Vec<Broken>,
    ) -> Result<bool, ReadError> {
        let Some(shown) = &target.resource.shown else { return Ok(false) };
        let mut yielder = Yielder::default();
        let mut read = Vec::with_capacity(kvs.len());
        for kv in kvs {
            let bytes = kv.value.len();
            match self.ingested(target, kv) {
                Ok(object) => read.push(object),
                Err(one) => broken.push(one),
            }
            if yielder.is_due(1 + bytes / BYTES_OF_WORK) {
                yielder.yield_now().await;
            }
        }
        for object in shown.objects(&read).await? {
            if limit.is_some_and(|l| page.objects.len() as u64 >= l) {
                return Ok(true);
            }
            page.last = Some(object.key().to_vec());
            target.resource.metrics.storage_list_evaluated.inc();
            if target.filter.matches(&object) {
                page.objects.push(object);
            }
        }
        Ok(limit.is_some_and(|l| page.objects.len() as u64 >= l))
    }

    fn ingested(&self, target: &Target, kv: KeyValue) -> Result<Arc<Object>, Broken> {
        let storage = &target.resource.served.storage;
        let read = ingest(storage, storage.key_prefix_len(&self.prefix), kv.key, &kv.value, kv.mod_revision);
        read.map(Arc::<Object>::new).or_else(|broken| broken.or_known_part(self.serves_unknown_fields))
    }

    async fn range_failed(&self, target: &Target, error: EtcdError, start: Option<&str>, at: Option<Revision>) -> ReadError {
        match error {
            EtcdError::Compacted => match start {
                None => ReadError::ListExpired,
                Some(start) => {
                    let token = Token { revision: TokenRevision::Newest, start: start.to_owned() };
                    ReadError::ContinueExpired(token.reopened())
                }
            },
            EtcdError::Future => match self.latest_revision(target).await {
                Ok(current) => ReadError::TooLarge { asked: at.unwrap_or(current), current, retry_after: None },
                Err(error) => error,
            },
            error => ReadError::Etcd(error),
        }
    }
}

fn undecodable(count: usize, first: &Broken) -> ReadError {
    ReadError::Undecodable { count, key: String::from_utf8_lossy(&first.key).into_owned(), why: first.why.clone() }
}
