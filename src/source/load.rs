//! Reads every object of one resource at one revision, page by page.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    driver::COMPLAIN_EVERY,
    machine::{LoadAt, Loaded},
};
use crate::{
    codec::ingest::ingest,
    etcd::{Etcd, EtcdError, RangeAnswer, RangeRequest},
    model::{KeyRange, Revision, Storage},
};

/// Keys a page (spec list-watch §0.2). etcd counts the whole remainder for every page, so small pages cost more (design §3).
pub const LOAD_PAGE_KEYS: u32 = 10_000;

/// Pause before a page is asked for again after a failure.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// The revision was compacted under the load: it must begin again.
#[derive(Debug)]
pub struct LoadFailed;

/// Loads a resource. Tries again as long as etcd is away.
///
/// # Errors
/// [`LoadFailed`] when the revision being read was compacted, or is not there (etcd went backwards).
pub async fn load(etcd: &Etcd, storage: &Storage, prefix: &str, at: LoadAt) -> Result<Loaded, LoadFailed> {
    let own = format!("{prefix}{}/", storage.id).into_bytes();
    let range = KeyRange::prefix(&own);
    let mut revision = match at {
        LoadAt::Exactly(revision) => Some(revision),
        LoadAt::Newest => None,
    };
    let mut loaded = Loaded { revision: Revision::ZERO, objects: Vec::new(), broken: Vec::new() };
    let mut start = range.start;
    loop {
        let answer = page(etcd, &start, &range.end, revision).await?;
        // All pages are of the first one's revision: one state, nothing torn.
        let pinned = *revision.get_or_insert(answer.header.revision);
        loaded.revision = pinned;
        let next = answer.kvs.last().map(|kv| [&kv.key[..], b"\0"].concat());
        for kv in answer.kvs {
            match ingest(storage, own.len(), kv.key, &kv.value, kv.mod_revision) {
                Ok(object) => loaded.objects.push(Arc::new(object)),
                Err(broken) => loaded.broken.push(broken),
            }
        }
        match next {
            Some(next) if answer.more => start = next,
            _ => return Ok(loaded),
        }
        tokio::task::yield_now().await;
    }
}

async fn page(etcd: &Etcd, start: &[u8], end: &[u8], revision: Option<Revision>) -> Result<RangeAnswer, LoadFailed> {
    let mut complained: Option<Instant> = None;
    loop {
        let request = RangeRequest { key: start.to_vec(), end: end.to_vec(), revision, limit: LOAD_PAGE_KEYS, ..RangeRequest::default() };
        match etcd.range(request).await {
            Ok(answer) => return Ok(answer),
            Err(EtcdError::Compacted | EtcdError::Future) => return Err(LoadFailed),
            Err(error) => {
                if complained.is_none_or(|at| at.elapsed() >= COMPLAIN_EVERY) {
                    complained = Some(Instant::now());
                    tracing::warn!(%error, "etcd does not answer a load; asking again");
                }
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }
}
