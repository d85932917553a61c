//! One table: what a LIST, GET or WATCH asked for, and the state of its resource, become a plan. Nothing else decides; nothing here waits or reads.
//!
//! The numbers in comments are rows of spec list-watch §2.2 (LIST) and §4.1 (WATCH). Every resource is cached, so §2.3 shows up only where an
//! unready cache hands a request to etcd (§2.12).

use std::time::Duration;

use super::{
    options::{EXACT, ListOptions, NOT_OLDER_THAN, Rv},
    token::{self, TokenRevision},
};
use model::{Revision, invalid::FieldError};

/// What a plan needs to know of the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Whether the cache may be served (spec §2.12).
    pub ready: bool,
    /// The highest revision the cache is known to have applied: K.
    pub known: Revision,
    /// Revisions above `known` up to this one are those of an etcd that was then restored from a backup: nobody has their events.
    pub lost: Revision,
    /// Whether etcd answers progress requests (spec §2.9); without them nobody can tell how old an idle cache is.
    pub etcd_progress: bool,
}

/// Why a request ends before any data is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 400 `BadRequest` with this message.
    BadRequest(String),
    /// 422 `Invalid` with these causes.
    Invalid(Vec<FieldError>),
    /// 500 without a reason, with this message (spec §2.8).
    Internal(String),
    /// 429 `TooManyRequests`: the cache is not ready; `retry_after` says for how long.
    TooManyRequests,
}

/// What has to be true before the cache is read. A wait lasts 3 s at most, and asks etcd for progress while it lasts if etcd can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Nothing,
    /// Read etcd's revision E, then wait for K ≥ E (spec §2.9). Too late: a LIST goes to etcd, a WATCH ends with the in-stream 504.
    Consistent,
    /// K ≥ this. Too late: 504 (spec §2.6); in the stream for a WATCH.
    AtLeast(Revision),
}

/// A range or get that etcd answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtcdRead {
    /// The state at this revision; the newest without it. A future one gives 504 without `retryAfterSeconds`, a compacted one 410 (spec §2.7).
    pub at: Option<Revision>,
    /// The answer's revision must not be below this, else 504 at once, without `retryAfterSeconds`.
    pub at_least: Option<Revision>,
    /// Items per page.
    pub limit: Option<u64>,
}

/// Where a list is read, after which wait. It carries the revision of the state that is read, and so does its continue token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The cache's newest state, after [`Wait::Consistent`].
    Consistent {
        /// Items per page.
        limit: Option<u64>,
        /// Read instead when the wait came too late.
        late: EtcdRead,
    },
    /// The cache's newest state.
    Cache {
        /// Waits for K ≥ this, as [`Wait::AtLeast`].
        at_least: Option<Revision>,
        /// Items per page.
        limit: Option<u64>,
    },
    /// The cache's state as it was at a revision, after a wait for K ≥ that.
    Snapshot {
        /// The revision.
        at: Revision,
        /// Items per page.
        limit: Option<u64>,
        /// Read instead when the state is no longer kept.
        gone: EtcdRead,
    },
    /// etcd, at once.
    Etcd(EtcdRead),
}

/// How a LIST is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPlan {
    /// Where the items are read.
    pub source: Source,
    /// The first key, relative to the request's prefix, when the request continues a paged list.
    pub start: Option<String>,
}

/// What a list request names besides its options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// One key is named: an exact name, and a namespace where there are namespaces (spec §2.11).
    pub single_key: bool,
    /// A label or field selector is given (a name counts as one).
    pub selects: bool,
}

/// A LIST request as far as the table is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRequest {
    wants: Wants,
    start: Option<String>,
    limit: Option<u64>,
    /// The literal `resourceVersion=0`, for which the cache ignores the limit.
    zero: bool,
    scope: Scope,
}

/// Which state a list wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wants {
    Newest,
    Any,
    AtLeast(Revision),
    /// The same of one key with a limit, which the real server leaves to etcd.
    AtLeastFromEtcd(Revision),
    Exact(Revision),
}

impl ListRequest {
    /// Reads the left half of table §2.2: what resourceVersion, match, limit and continue ask for.
    ///
    /// # Errors
    /// 400 for a token, a revision beside a token or a revision that is none, in this order (spec §1.3, check 8), 422 for options that
    /// `ListOptions::validate` refuses (rows 6, 11, 16).
    pub fn read(options: &ListOptions, scope: Scope) -> Result<Self, Refusal> {
        let wrong = options.validate();
        if !wrong.is_empty() {
            return Err(Refusal::Invalid(wrong));
        }
        let token = options.continue_token.as_deref().map(token::decode).transpose().map_err(Refusal::BadRequest)?;
        let zero = options.resource_version == "0";
        let limit = u64::try_from(options.limit).ok().filter(|limit| *limit > 0);
        if let Some(token) = token {
            if !zero && !options.resource_version.is_empty() {
                return Err(Refusal::BadRequest("specifying resource version is not allowed when using continue".to_owned())); // 15
            }
            let wants = match token.revision {
                TokenRevision::Pinned(revision) => Wants::Exact(revision), // 12, 14
                TokenRevision::Newest => Wants::Newest,                    // 13, 14
            };
            // A page of one key has no next page: with a token the name is only a filter.
            let scope = Scope { single_key: false, ..scope };
            return Ok(Self { wants, start: Some(token.start), limit, zero, scope });
        }
        let rv = options.revision().map_err(|why| Refusal::BadRequest(format!("invalid resource version: {why}")))?;
        let wants = match (options.resource_version_match.as_deref(), rv) {
            (_, Rv::Unset) => Wants::Newest,                                               // 1, 2
            (_, Rv::Zero) => Wants::Any,                                                   // 3, 4, 5
            (Some(EXACT), Rv::At(revision)) => Wants::Exact(revision),                     // 10
            (Some(NOT_OLDER_THAN), Rv::At(revision)) => Wants::AtLeast(revision),          // 9
            (_, Rv::At(revision)) if limit.is_none() => Wants::AtLeast(revision),          // 7
            (_, Rv::At(revision)) if scope.single_key => Wants::AtLeastFromEtcd(revision), // §2.11
            (_, Rv::At(revision)) => Wants::Exact(revision),                               // 8
        };
        Ok(Self { wants, start: None, limit, zero, scope })
    }
}

/// The right half of table §2.2, its fall-backs, §2.11 and §2.12: where a list is served from.
///
/// # Errors
/// `TooManyRequests` when only the cache could answer and it is not ready.
pub fn list(request: &ListRequest, state: &State) -> Result<ListPlan, Refusal> {
    // Limits: a look-up of one key is never cut; the cache ignores the limit of `resourceVersion=0` (rows 4, 5, 14), etcd honours it.
    let limit = request.limit.filter(|_| !request.scope.single_key);
    let cached = limit.filter(|_| !request.zero);
    let newest = EtcdRead { at: None, at_least: None, limit };
    let at_least = |n| EtcdRead { at_least: Some(n), ..newest };
    let at = |n| EtcdRead { at: Some(n), ..newest };
    let unready_to_etcd = request.limit.is_some() && !request.scope.selects && !request.scope.single_key;

    let source = match (request.wants, state.ready) {
        // `00`: the real server hands revision 0 to etcd, where it means the newest.
        (Wants::Exact(Revision::ZERO), _) => Source::Etcd(newest),
        // §2.11: the cache has no look-up in the past, and the legacy rule does not apply to one key.
        (Wants::Exact(n), _) if request.scope.single_key => Source::Etcd(at(n)),
        (Wants::AtLeastFromEtcd(n), _) => Source::Etcd(at_least(n)),
        // etcd without progress requests: rows 1, 2, 13 always; rows 8, 10, 12 in the future.
        (Wants::Newest, _) if !state.etcd_progress => Source::Etcd(newest),
        (Wants::Exact(n), _) if !state.etcd_progress && n > state.known => Source::Etcd(at(n)),
        // §2.12, exact or continue without a snapshot: a reset drops all of ours, so an unready cache has none.
        (Wants::Exact(n), false) if n <= state.known => Source::Etcd(at(n)),
        // §2.12, a limit and no selectors: as if the resource were not cached (§2.3).
        (Wants::Newest | Wants::Any, false) if unready_to_etcd => Source::Etcd(newest),
        (Wants::AtLeast(n), false) if unready_to_etcd => Source::Etcd(at_least(n)),
        (Wants::Exact(n), false) if unready_to_etcd => Source::Etcd(at(n)),
        // §2.12, every other list.
        (_, false) => return Err(Refusal::TooManyRequests),
        // 1, 2, 13
        (Wants::Newest, true) => Source::Consistent { limit: cached, late: newest },
        // 3, 4, 5
        (Wants::Any, true) => Source::Cache { at_least: None, limit: cached },
        // 7, 9
        (Wants::AtLeast(n), true) => Source::Cache { at_least: Some(n), limit: cached },
        // 8, 10, 12
        (Wants::Exact(n), true) => Source::Snapshot { at: n, limit: cached, gone: at(n) },
    };
    Ok(ListPlan { source, start: request.start.clone() })
}

/// How a GET is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetPlan {
    /// From the cache, after the wait. A wait that ends too late beats "not found".
    Cache {
        /// What comes first.
        wait: Wait,
    },
    /// By a linearizable read of etcd.
    Etcd {
        /// The answer's revision must not be below this, else 504 at once, without `retryAfterSeconds`.
        at_least: Option<Revision>,
    },
}

/// The table of spec §3.
///
/// # Errors
/// A revision that is none: 500 when the cache is ready, else 400 (the real server reads etcd before it says so).
pub fn get(resource_version: &str, state: &State) -> Result<GetPlan, Refusal> {
    let rv = Rv::parse(resource_version).map_err(|why| match state.ready {
        true => Refusal::Internal(why.to_string()),
        false => Refusal::BadRequest(format!("invalid resource version: {why}")),
    })?;
    Ok(match (rv, state.ready) {
        (Rv::Unset, _) | (Rv::Zero, false) => GetPlan::Etcd { at_least: None },
        (Rv::At(n), false) => GetPlan::Etcd { at_least: Some(n) },
        (Rv::Zero, true) => GetPlan::Cache { wait: Wait::Nothing },
        (Rv::At(n), true) => GetPlan::Cache { wait: Wait::AtLeast(n) },
    })
}

/// How a WATCH is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchPlan {
    Stream {
        /// What comes before the response headers.
        wait: Wait,
        /// Where the stream begins.
        start: Start,
        /// Whether a bookmark with the annotation `k8s.io/initial-events-end` follows the initial events.
        annotated: bool,
    },
    /// Headers, then ERROR 410, the end: the revision belongs to an etcd that is no more. The real server waits in silence for ever; clients that
    /// are told relist and go on.
    Lost(Revision),
    /// Headers, then one ERROR event with a 500 `InternalError` of this message, then the end.
    Error(&'static str),
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// ADDED for every matching object of the cache at K₀, then events after K₀.
    Store,
    /// Events after this revision, from the ring. Below the floor: ERROR 410 (row 7). In the future: no error, events up to it are
    /// suppressed, and no bookmark shows it or less (row 8).
    After(Revision),
    /// Events after etcd's revision E, read now and not waited for (row 4). A failed read is an in-stream 500.
    AfterNewest,
    /// Events after K₀, the revision of the cache now.
    AfterCached,
}

/// The table of spec §4.1. The options must have been defaulted (`ListOptions::default_watch`).
///
/// # Errors
/// 500 for a revision that is none (row 10), then `TooManyRequests` when the cache is not ready.
pub fn watch(options: &ListOptions, state: &State) -> Result<WatchPlan, Refusal> {
    let rv = options.revision().map_err(|why| Refusal::Internal(why.to_string()))?;
    if !state.ready {
        return Err(Refusal::TooManyRequests);
    }
    let initial = options.send_initial_events;
    let annotated = initial == Some(true) && options.allow_bookmarks;
    if annotated && !state.etcd_progress {
        return Ok(WatchPlan::Error(NO_PROGRESS));
    }
    let (wait, start) = match (rv, initial) {
        (Rv::Unset, Some(true)) => (Wait::Consistent, Start::Store),     // 1
        (Rv::Zero, Some(true)) => (Wait::Nothing, Start::Store),         // 2
        (Rv::At(n), Some(true)) => (Wait::AtLeast(n), Start::Store),     // 3
        (Rv::Unset, Some(false)) => (Wait::Nothing, Start::AfterNewest), // 4
        (Rv::Zero | Rv::At(Revision::ZERO), Some(false)) => (Wait::Nothing, Start::AfterCached), // 5
        // 9, and `00`, which is not defaulted
        (Rv::Unset | Rv::Zero | Rv::At(Revision::ZERO), None) => (Wait::Nothing, Start::Store),
        (Rv::At(n), _) if n > state.known && n <= state.lost => return Ok(WatchPlan::Lost(n)),
        (Rv::At(n), _) => (Wait::Nothing, Start::After(n)), // 6, 7, 8
    };
    Ok(WatchPlan::Stream { wait, start, annotated })
}

/// Spec §4.7.
const NO_PROGRESS: &str = "a watch stream was requested by the client but the required storage feature RequestWatchProgress is disabled";

/// Seconds for `Retry-After` of the 429, when the cache has not been ready for `pending`: e^(0.06·d), cut to 1–30 (spec §2.12).
#[must_use]
pub fn retry_after(pending: Duration) -> u8 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 1–30 first; Go truncates, too")]
    let seconds = (0.06 * pending.as_secs_f64()).exp().clamp(1.0, 30.0) as u8;
    seconds
}

#[cfg(test)]
mod tests;
