//! Reads every object of one resource at one revision, page by page.

use std::{
    panic::resume_unwind,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::spawn_blocking;

use super::driver::COMPLAIN_EVERY;
use crate::telemetry::ResourceMetrics;
use codec::ingest::ingest;
use etcd::{Etcd, EtcdError, RangeAnswer, RangeRequest};
use model::{Included, KeyRange, Revision, Storage};
use watch::feed::machine::{LoadAt, Loaded};

/// Most keys a page (spec list-watch §0.2). etcd counts the whole remainder for every page, so small pages cost more (design §3).
pub const LOAD_PAGE_KEYS: u32 = 10_000;

/// Keys of the first page: it tells how large the values are. So many of the largest are 24 MB.
pub const LOAD_PAGE_KEYS_FIRST: u32 = 16;

/// Bytes of values that a later page should have: until it is ingested it is in memory twice.
pub const LOAD_PAGE_BYTES: usize = 32 << 20;

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
    let mut loaded = Loaded { revision: Revision::ZERO, objects: Vec::new(), broken: Vec::new() };
    let mut start = range.start;
    let mut limit = LOAD_PAGE_KEYS_FIRST;
    loop {
        let request = RangeRequest { key: start, end: range.end.clone(), revision, limit, ..RangeRequest::default() };
        let answer = page(etcd, request, metrics).await?;
        // All pages are of the first one's revision: one state, nothing torn.
        let pinned = *revision.get_or_insert(answer.header.revision);
        loaded.revision = pinned;
        let next = answer.kvs.last().map(|kv| [&kv.key[..], b"\0"].concat());
        let (keys, more) = (answer.kvs.len(), answer.more);
        let (storage, included, prefix_len) = (storage.clone(), included.cloned(), own.len());
        // The feed and the cachers go on meanwhile.
        let ingested = spawn_blocking(move || {
            let bytes: usize = answer.kvs.iter().map(|kv| kv.value.len()).sum();
            let is_kept = |key: &[u8]| included.as_ref().is_none_or(|included| included.has_key(key, prefix_len));
            let kept = answer.kvs.into_iter().filter(|kv| is_kept(&kv.key));
            let made = kept.map(|kv| ingest(&storage, prefix_len, kv.key, &kv.value, kv.mod_revision).map(Arc::new));
            (bytes, made.collect::<Vec<_>>())
        });
        let (bytes, made) = ingested.await.unwrap_or_else(|error| resume_unwind(error.into_panic()));
        for one in made {
            match one {
                Ok(object) => loaded.objects.push(object),
                Err(broken) => loaded.broken.push(broken),
            }
        }
        limit = page_keys(keys, bytes);
        match next {
            Some(next) if more => start = next,
            _ => return Ok(loaded),
        }
    }
}

/// Keys of the next page, when one of so many keys had so many bytes of values.
fn page_keys(keys: usize, bytes: usize) -> u32 {
    let fit = LOAD_PAGE_BYTES / (bytes / keys.max(1)).max(1);
    u32::try_from(fit).unwrap_or(u32::MAX).clamp(1, LOAD_PAGE_KEYS)
}

async fn page(etcd: &Etcd, request: RangeRequest, metrics: &ResourceMetrics) -> Result<RangeAnswer, LoadFailed> {
    let mut complained: Option<Instant> = None;
    loop {
        let asking = metrics.etcd_list();
        match etcd.range(request.clone()).await {
            Ok(answer) => {
                asking.succeeded();
                return Ok(answer);
            }
            Err(EtcdError::Compacted | EtcdError::Future) => return Err(LoadFailed),
            Err(error) => {
                drop(asking);
                if complained.is_none_or(|at| at.elapsed() >= COMPLAIN_EVERY) {
                    complained = Some(Instant::now());
                    tracing::warn!(%error, "etcd does not answer a load; asking again");
                }
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_as_many_keys_as_fit() {
        assert_eq!(page_keys(100, 100 * 1_000), LOAD_PAGE_KEYS);
        assert_eq!(page_keys(100, 100 << 20), 32);
        assert_eq!((page_keys(1, 100 << 20), page_keys(0, 0)), (1, LOAD_PAGE_KEYS));
    }
}
