//! One table: what a LIST, GET or WATCH asked for, and the state of its resource, become a plan. Nothing else decides; nothing here waits or reads.
//!
//! The numbers in comments are rows of spec list-watch §2.2 (LIST) and §4.1 (WATCH). Every resource is cached, so §2.3 shows up only where an
//! unready cache hands a request to etcd (§2.12).

use std::time::Duration;

use super::{
    options::{EXACT, FieldError, ListOptions, NOT_OLDER_THAN, Rv},
    token::{self, TokenRevision},
};
use crate::model::Revision;

/// What a plan needs to know of the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Whether the cache may be served (spec §2.12).
    pub ready: bool,
    /// The highest revision the cache is known to have applied: K.
    pub known: Revision,
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

/// What has to be true before the source is read. A wait lasts 3 s at most, and asks etcd for progress while it lasts if etcd can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Nothing.
    Nothing,
    /// Read etcd's revision E, then wait for K ≥ E (spec §2.9). Too late: a LIST takes its fallback, a WATCH ends with the in-stream 504.
    Consistent,
    /// K ≥ this. Too late: 504 (spec §2.6), never the fallback; in the stream for a WATCH.
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

/// Where a list is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The cache's newest state.
    Cache {
        /// Items per page.
        limit: Option<u64>,
    },
    /// The cache's state as it was at a revision; if that is no longer kept, the plan's fallback.
    Snapshot {
        /// The revision.
        at: Revision,
        /// Items per page.
        limit: Option<u64>,
    },
    /// etcd.
    Etcd(EtcdRead),
}

/// The `resourceVersion` of a list, and of the continue token it hands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// That of the state that was served: K, or the revision of etcd's (first) answer.
    Served,
    /// The one asked for.
    Fixed(Revision),
}

/// How a LIST is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPlan {
    /// What comes first.
    pub wait: Wait,
    /// Where the items are read.
    pub source: Source,
    /// Read here instead when a consistent wait came too late, or when the snapshot is not there.
    pub fallback: Option<EtcdRead>,
    /// The list's revision.
    pub carries: Carries,
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
pub struct ListAsk {
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

impl ListAsk {
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

    /// Whether the answer is the one key that was named, looked up instead of scanned for.
    #[must_use]
    pub fn single_key(&self) -> bool {
        self.scope.single_key
    }
}

/// The right half of table §2.2, its fall-backs, §2.11 and §2.12: where a list is served from.
///
/// # Errors
/// `TooManyRequests` when only the cache could answer and it is not ready.
pub fn list(ask: &ListAsk, state: &State) -> Result<ListPlan, Refusal> {
    // Limits: a look-up of one key is never cut; the cache ignores the limit of `resourceVersion=0` (rows 4, 5, 14), etcd honours it.
    let limit = ask.limit.filter(|_| !ask.scope.single_key);
    let cached = limit.filter(|_| !ask.zero);
    let newest = EtcdRead { at: None, at_least: None, limit };
    let at_least = |n| EtcdRead { at_least: Some(n), ..newest };
    let at = |n| EtcdRead { at: Some(n), ..newest };

    let plan = |wait, source, fallback, carries| ListPlan { wait, source, fallback, carries, start: ask.start.clone() };
    let from_etcd = |read: EtcdRead| plan(Wait::Nothing, Source::Etcd(read), None, read.at.map_or(Carries::Served, Carries::Fixed));
    let unready_to_etcd = ask.limit.is_some() && !ask.scope.selects && !ask.scope.single_key;

    Ok(match (ask.wants, state.ready) {
        // `00`: the real server hands revision 0 to etcd, where it means the newest.
        (Wants::Exact(Revision::ZERO), _) => from_etcd(newest),
        // §2.11: the cache has no look-up in the past, and the legacy rule does not apply to one key.
        (Wants::Exact(n), _) if ask.scope.single_key => from_etcd(at(n)),
        (Wants::AtLeastFromEtcd(n), _) => from_etcd(at_least(n)),
        // etcd without progress requests: rows 1, 2, 13 always; rows 8, 10, 12 in the future.
        (Wants::Newest, _) if !state.etcd_progress => from_etcd(newest),
        (Wants::Exact(n), _) if !state.etcd_progress && n > state.known => from_etcd(at(n)),
        // §2.12, exact or continue without a snapshot: a reset drops all of ours, so an unready cache has none.
        (Wants::Exact(n), false) if n <= state.known => from_etcd(at(n)),
        // §2.12, a limit and no selectors: as if the resource were not cached (§2.3).
        (Wants::Newest | Wants::Any, false) if unready_to_etcd => from_etcd(newest),
        (Wants::AtLeast(n), false) if unready_to_etcd => from_etcd(at_least(n)),
        (Wants::Exact(n), false) if unready_to_etcd => from_etcd(at(n)),
        // §2.12, every other list.
        (_, false) => return Err(Refusal::TooManyRequests),
        // 1, 2, 13
        (Wants::Newest, true) => plan(Wait::Consistent, Source::Cache { limit: cached }, Some(newest), Carries::Served),
        // 3, 4, 5
        (Wants::Any, true) => plan(Wait::Nothing, Source::Cache { limit: cached }, None, Carries::Served),
        // 7, 9
        (Wants::AtLeast(n), true) => plan(Wait::AtLeast(n), Source::Cache { limit: cached }, None, Carries::Served),
        // 8, 10, 12
        (Wants::Exact(n), true) => plan(Wait::AtLeast(n), Source::Snapshot { at: n, limit: cached }, Some(at(n)), Carries::Fixed(n)),
    })
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
    /// A stream.
    Stream {
        /// What comes before the response headers.
        wait: Wait,
        /// Where the stream begins.
        start: Start,
        /// Whether a bookmark with the annotation `k8s.io/initial-events-end` follows the initial events.
        annotated: bool,
    },
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
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::read::{options::parse_query, token::encode};

    /// The cache is at 100.
    const READY: State = State { ready: true, known: Revision(100), etcd_progress: true };
    const PENDING: State = State { ready: false, ..READY };
    const NO_PROGRESS_REQUESTS: State = State { etcd_progress: false, ..READY };
    const PENDING_NO_PROGRESS: State = State { ready: false, etcd_progress: false, ..READY };

    const COLLECTION: Scope = Scope { single_key: false, selects: false };
    const SELECTED: Scope = Scope { single_key: false, selects: true };
    const SINGLE: Scope = Scope { single_key: true, selects: true };

    /// A list plan in one line: `wait → source [limit] carries, else fallback`.
    fn line(plan: &Result<ListPlan, Refusal>) -> String {
        let plan = match plan {
            Ok(plan) => plan,
            Err(Refusal::BadRequest(message)) => return format!("400 {message}"),
            Err(Refusal::Invalid(_)) => return "422".to_owned(),
            Err(Refusal::Internal(message)) => return format!("500 {message}"),
            Err(Refusal::TooManyRequests) => return "429".to_owned(),
        };
        let limited = |limit: Option<u64>| limit.map_or(String::new(), |n| format!(" limit {n}"));
        let etcd = |read: &EtcdRead| {
            let at = read.at.map_or("newest".to_owned(), |n| format!("at {n}"));
            let least = read.at_least.map_or(String::new(), |n| format!(" min {n}"));
            format!("etcd {at}{least}{}", limited(read.limit))
        };
        let wait = match plan.wait {
            Wait::Nothing => String::new(),
            Wait::Consistent => "E → ".to_owned(),
            Wait::AtLeast(n) => format!("{n} → "),
        };
        let source = match &plan.source {
            Source::Cache { limit } => format!("cache{}", limited(*limit)),
            Source::Snapshot { at, limit } => format!("snapshot {at}{}", limited(*limit)),
            Source::Etcd(read) => etcd(read),
        };
        let carries = match plan.carries {
            Carries::Served => "K".to_owned(),
            Carries::Fixed(n) => n.to_string(),
        };
        let fallback = plan.fallback.as_ref().map_or(String::new(), |read| format!(", else {}", etcd(read)));
        let start = plan.start.as_ref().map_or(String::new(), |start| format!(" from {}", start.trim_end_matches('\0')));
        format!("{wait}{source}{start}: rv {carries}{fallback}")
    }

    fn planned(query: &str, scope: Scope, state: &State) -> Result<ListPlan, Refusal> {
        ListAsk::read(&parse_query(query).expect(query), scope).and_then(|ask| list(&ask, state))
    }

    /// `Exact`, `NOT`, `PIN` and `NEW` stand for longer words.
    fn query(short: &str) -> String {
        short
            .replace("rv=", "resourceVersion=")
            .replace("match=NOT", "resourceVersionMatch=NotOlderThan")
            .replace("match=", "resourceVersionMatch=")
            .replace("resourceVersionresourceVersionMatch", "resourceVersionMatch")
            .replace("PIN", &encode(60, "b", true))
            .replace("FUT", &encode(200, "b", true))
            .replace("NEW", &encode(-1, "b", false))
    }

    fn check(scope: Scope, state: &State, cases: &[(&str, &str)]) {
        for (short, want) in cases {
            assert_eq!(line(&planned(&query(short), scope, state)), *want, "{short} {scope:?} {state:?}");
        }
    }

    const WITH_CONTINUE: &str = "400 specifying resource version is not allowed when using continue";

    /// Spec §2.2, row by row.
    #[test]
    fn collections() {
        let cases = [
            ("", "E → cache: rv K, else etcd newest"),                                                   // 1
            ("limit=5", "E → cache limit 5: rv K, else etcd newest limit 5"),                            // 2
            ("rv=0", "cache: rv K"),                                                                     // 3
            ("rv=0&limit=5", "cache: rv K"),                                                             // 4
            ("rv=0&match=NOT", "cache: rv K"),                                                           // 5
            ("rv=0&match=NOT&limit=5", "cache: rv K"),                                                   // 5
            ("rv=0&match=Exact", "422"),                                                                 // 6
            ("rv=60", "60 → cache: rv K"),                                                               // 7
            ("rv=060", "60 → cache: rv K"),                                                              // 7
            ("rv=200", "200 → cache: rv K"),                                                             // 7
            ("rv=60&limit=5", "60 → snapshot 60 limit 5: rv 60, else etcd at 60 limit 5"),               // 8
            ("rv=200&limit=5", "200 → snapshot 200 limit 5: rv 200, else etcd at 200 limit 5"),          // 8
            ("rv=60&limit=-5", "60 → cache: rv K"),                                                      // 7: negative is no limit
            ("rv=60&match=NOT", "60 → cache: rv K"),                                                     // 9
            ("rv=60&match=NOT&limit=5", "60 → cache limit 5: rv K"),                                     // 9
            ("rv=60&match=Exact", "60 → snapshot 60: rv 60, else etcd at 60"),                           // 10
            ("rv=60&match=Exact&limit=5", "60 → snapshot 60 limit 5: rv 60, else etcd at 60 limit 5"),   // 10
            ("match=NOT", "422"),                                                                        // 11
            ("continue=PIN&limit=5", "60 → snapshot 60 limit 5 from b: rv 60, else etcd at 60 limit 5"), // 12
            ("continue=NEW&limit=5", "E → cache limit 5 from b: rv K, else etcd newest limit 5"),        // 13
            ("rv=0&continue=PIN&limit=5", "60 → snapshot 60 from b: rv 60, else etcd at 60 limit 5"),    // 14
            ("rv=0&continue=NEW&limit=5", "E → cache from b: rv K, else etcd newest limit 5"),           // 14
            ("rv=60&continue=PIN", WITH_CONTINUE),                                                       // 15
            ("rv=abc&continue=PIN", WITH_CONTINUE),                                                      // 15
            ("rv=60&match=Exact&continue=PIN", "422"),                                                   // 16
            // Leading zeros parse as the number; only the literal `0` is "any" (below the table).
            ("rv=00", "0 → cache: rv K"),
            ("rv=00&match=NOT&limit=5", "0 → cache limit 5: rv K"),
            ("rv=00&match=Exact", "etcd newest: rv K"),
            ("rv=00&limit=5", "etcd newest limit 5: rv K"),
            ("continue=!", "400 invalid continue token: continue key is not valid: illegal base64 data at input byte 0"),
            (
                "rv=a",
                r#"400 invalid resource version: resourceVersion: Invalid value: "a": strconv.ParseUint: parsing "a": invalid syntax"#,
            ),
        ];
        check(COLLECTION, &READY, &cases);
        check(SELECTED, &READY, &cases);
    }

    /// Spec §2.2, "Fall-backs": etcd without progress requests.
    #[test]
    fn without_progress_requests() {
        check(
            COLLECTION,
            &NO_PROGRESS_REQUESTS,
            &[
                ("", "etcd newest: rv K"),                                              // 1
                ("limit=5", "etcd newest limit 5: rv K"),                               // 2
                ("continue=NEW&limit=5", "etcd newest limit 5 from b: rv K"),           // 13
                ("rv=0&continue=NEW&limit=5", "etcd newest limit 5 from b: rv K"),      // 14: etcd honours the limit
                ("rv=200&limit=5", "etcd at 200 limit 5: rv 200"),                      // 8
                ("rv=200&match=Exact", "etcd at 200: rv 200"),                          // 10
                ("continue=FUT", "etcd at 200 from b: rv 200"),                         // 12
                ("rv=100&match=Exact", "100 → snapshot 100: rv 100, else etcd at 100"), // 10, not in the future
                ("rv=200", "200 → cache: rv K"),                                        // 7
                ("rv=200&match=NOT&limit=5", "200 → cache limit 5: rv K"),              // 9
                ("rv=0", "cache: rv K"),                                                // 3
            ],
        );
    }

    /// Spec §2.11.
    #[test]
    fn single_keys() {
        let cases = [
            ("", "E → cache: rv K, else etcd newest"),
            ("limit=5", "E → cache: rv K, else etcd newest"),
            ("rv=0&limit=5", "cache: rv K"),
            ("rv=60", "60 → cache: rv K"),
            ("rv=60&match=NOT&limit=5", "60 → cache: rv K"),
            ("rv=60&match=Exact", "etcd at 60: rv 60"),
            ("rv=200&match=Exact", "etcd at 200: rv 200"),
            ("rv=60&limit=5", "etcd newest min 60: rv K"),
            // With a token the name is a filter of a collection.
            ("continue=PIN&limit=5", "60 → snapshot 60 limit 5 from b: rv 60, else etcd at 60 limit 5"),
        ];
        check(SINGLE, &READY, &cases);
        check(
            SINGLE,
            &PENDING,
            &[("", "429"), ("limit=5", "429"), ("rv=60&match=Exact", "etcd at 60: rv 60"), ("rv=60&limit=5", "etcd newest min 60: rv K")],
        );
        check(SINGLE, &NO_PROGRESS_REQUESTS, &[("", "etcd newest: rv K"), ("rv=60", "60 → cache: rv K")]);
        let single = |short: &str| ListAsk::read(&parse_query(&query(short)).expect(short), SINGLE).expect(short).single_key();
        assert!(single("rv=0") && !single("continue=PIN"));
    }

    /// Spec §2.12.
    #[test]
    fn unready_lists() {
        check(
            COLLECTION,
            &PENDING,
            &[
                ("", "429"),
                ("rv=0", "429"),
                ("rv=60", "429"),
                ("continue=NEW", "429"),
                ("rv=200&match=Exact", "429"),
                ("limit=5", "etcd newest limit 5: rv K"),
                ("rv=0&limit=5", "etcd newest limit 5: rv K"),
                ("rv=60&match=NOT&limit=5", "etcd newest min 60 limit 5: rv K"),
                ("rv=200&limit=5", "etcd at 200 limit 5: rv 200"),
                ("rv=60&match=Exact", "etcd at 60: rv 60"),
                ("continue=PIN", "etcd at 60 from b: rv 60"),
                ("rv=0&continue=NEW&limit=5", "etcd newest limit 5 from b: rv K"),
                ("match=Exact", "422"),
                ("rv=60&continue=PIN", WITH_CONTINUE),
            ],
        );
        check(SELECTED, &PENDING, &[("limit=5", "429"), ("rv=200&limit=5", "429"), ("rv=60&limit=5", "etcd at 60 limit 5: rv 60")]);
        check(
            SELECTED,
            &PENDING_NO_PROGRESS,
            &[("", "etcd newest: rv K"), ("rv=200&limit=5", "etcd at 200 limit 5: rv 200"), ("rv=0", "429")],
        );
        let seconds = |d| retry_after(Duration::from_secs(d));
        assert_eq!([seconds(0), seconds(11), seconds(12), seconds(56), seconds(57), seconds(86_400)], [1, 1, 2, 28, 30, 30]);
    }

    /// Every combination of inputs gets a plan, and every plan keeps what holds for all of them.
    #[test]
    fn every_combination() {
        let revisions = ["", "rv=0", "rv=00", "rv=60", "rv=100", "rv=101", "rv=18446744073709551615", "rv=x"];
        let matches = ["", "match=Exact", "match=NOT", "match=exact"];
        let limits = ["", "limit=0", "limit=5", "limit=-1"];
        let tokens = ["", "continue=PIN", "continue=FUT", "continue=NEW", "continue=broken"];
        let scopes = [COLLECTION, SELECTED, SINGLE];
        let states = [READY, PENDING, NO_PROGRESS_REQUESTS, PENDING_NO_PROGRESS];
        let mut seen = BTreeSet::new();
        for rv in revisions {
            for matching in matches {
                for limit in limits {
                    for token in tokens {
                        let query = query(&[rv, matching, limit, token].join("&"));
                        for scope in scopes {
                            for state in states {
                                let plan = planned(&query, scope, &state);
                                seen.insert(line(&plan));
                                holds_for_all(&query, scope, &state, &plan);
                            }
                        }
                    }
                }
            }
        }
        assert!(seen.len() > 40, "only {} different plans", seen.len());
    }

    fn holds_for_all(query: &str, scope: Scope, state: &State, plan: &Result<ListPlan, Refusal>) {
        let options = parse_query(query).expect(query);
        let valid = options.validate().is_empty();
        assert_eq!(matches!(plan, Err(Refusal::Invalid(_))), !valid, "{query}: 422 exactly when validation says so");
        let plan = match plan {
            Ok(plan) => plan,
            Err(refusal) => {
                assert!(!state.ready || *refusal != Refusal::TooManyRequests, "{query}: a ready cache never sends clients away");
                assert_ne!(std::mem::discriminant(refusal), std::mem::discriminant(&Refusal::Internal(String::new())), "{query}");
                return;
            }
        };
        let from_etcd = matches!(plan.source, Source::Etcd(_));
        assert!(state.ready || from_etcd, "{query}: an unready cache is not read");
        assert_eq!(plan.start.is_some(), options.continue_token.is_some(), "{query}");
        if from_etcd {
            assert_eq!((plan.wait, plan.fallback), (Wait::Nothing, None), "{query}: etcd is read at once");
        }
        if plan.wait == Wait::Consistent {
            assert!(state.etcd_progress && plan.fallback.is_some() && plan.carries == Carries::Served, "{query}");
        }
        let (limit, at) = match plan.source {
            Source::Cache { limit } => (limit, None),
            Source::Snapshot { at, limit } => (limit, Some(at)),
            Source::Etcd(read) => (read.limit, read.at),
        };
        assert_eq!(plan.carries, at.map_or(Carries::Served, Carries::Fixed), "{query}: an exact read carries its revision");
        if let Source::Snapshot { at, .. } = plan.source {
            assert_eq!((plan.wait, plan.fallback.and_then(|f| f.at)), (Wait::AtLeast(at), Some(at)), "{query}");
            assert!(state.etcd_progress || at <= state.known, "{query}: the future is waited for only with progress requests");
        }
        let single = scope.single_key && options.continue_token.is_none();
        let ignored = single || options.limit <= 0 || (options.resource_version == "0" && !from_etcd);
        assert_eq!(limit, (!ignored).then_some(5), "{query} {scope:?} {state:?}: limit");
    }

    /// Spec §3.
    #[test]
    fn gets() {
        let syntax = r#"resourceVersion: Invalid value: "a": strconv.ParseUint: parsing "a": invalid syntax"#;
        let at = |n| Wait::AtLeast(Revision(n));
        let cases = [
            ("", Ok(GetPlan::Etcd { at_least: None }), Ok(GetPlan::Etcd { at_least: None })),
            ("0", Ok(GetPlan::Cache { wait: Wait::Nothing }), Ok(GetPlan::Etcd { at_least: None })),
            ("60", Ok(GetPlan::Cache { wait: at(60) }), Ok(GetPlan::Etcd { at_least: Some(Revision(60)) })),
            ("200", Ok(GetPlan::Cache { wait: at(200) }), Ok(GetPlan::Etcd { at_least: Some(Revision(200)) })),
            ("a", Err(Refusal::Internal(syntax.to_owned())), Err(Refusal::BadRequest(format!("invalid resource version: {syntax}")))),
        ];
        for (rv, ready, pending) in cases {
            for progress in [true, false] {
                assert_eq!(get(rv, &State { etcd_progress: progress, ..READY }), ready, "{rv}");
                assert_eq!(get(rv, &State { etcd_progress: progress, ..PENDING }), pending, "{rv}");
            }
        }
    }

    fn watched(short: &str, state: &State) -> Result<WatchPlan, Refusal> {
        let mut options = parse_query(&query(short)).expect(short);
        options.default_watch();
        assert_eq!(options.validate(), [], "{short}");
        watch(&options, state)
    }

    /// Spec §4.1, row by row.
    #[test]
    fn watches() {
        let sie = "sendInitialEvents=1&match=NOT";
        let off = "sendInitialEvents=0&match=NOT";
        let at = |n| Wait::AtLeast(Revision(n));
        let after = |n| Start::After(Revision(n));
        let cases = [
            ("watch=1".to_owned(), Wait::Consistent, Start::Store, true), // 1, by defaulting
            (format!("watch=1&{sie}"), Wait::Consistent, Start::Store, true), // 1
            ("watch=1&rv=0".to_owned(), Wait::Nothing, Start::Store, true), // 2, by defaulting
            (format!("watch=1&rv=0&{sie}"), Wait::Nothing, Start::Store, true), // 2
            (format!("watch=1&rv=60&{sie}"), at(60), Start::Store, true), // 3
            (format!("watch=1&rv=200&{sie}"), at(200), Start::Store, true), // 3
            (format!("watch=1&{off}"), Wait::Nothing, Start::AfterNewest, false), // 4
            (format!("watch=1&rv=0&{off}"), Wait::Nothing, Start::AfterCached, false), // 5
            (format!("watch=1&rv=60&{off}"), Wait::Nothing, after(60), false), // 6, 7
            ("watch=1&rv=60".to_owned(), Wait::Nothing, after(60), false), // 6, 7
            ("watch=1&rv=200".to_owned(), Wait::Nothing, after(200), false), // 8
            (String::new(), Wait::Nothing, Start::Store, false),          // 9
            ("rv=0".to_owned(), Wait::Nothing, Start::Store, false),      // 9
            ("watch=1&rv=00".to_owned(), Wait::Nothing, Start::Store, false),
        ];
        for (short, wait, start, due) in cases {
            for bookmarks in [true, false] {
                let short = if bookmarks { format!("{short}&allowWatchBookmarks=1") } else { short.clone() };
                let annotated = due && bookmarks;
                let stream = Ok(WatchPlan::Stream { wait, start, annotated });
                assert_eq!(watched(&short, &READY), stream, "{short}");
                assert_eq!(watched(&short, &PENDING), Err(Refusal::TooManyRequests), "{short}");
                let without = if annotated { Ok(WatchPlan::Error(NO_PROGRESS)) } else { stream };
                assert_eq!(watched(&short, &NO_PROGRESS_REQUESTS), without, "{short}");
            }
        }
        let syntax = r#"resourceVersion: Invalid value: "a": strconv.ParseUint: parsing "a": invalid syntax"#;
        assert_eq!(watched("watch=1&rv=a", &PENDING), Err(Refusal::Internal(syntax.to_owned()))); // 10, before readiness
    }

    proptest! {
        #[test]
        fn every_query_is_planned(text in "((resourceVersion|continue|limit|resourceVersionMatch|watch)=(0|5|Exact|NotOlderThan|[a-zA-Z0-9_]{0,12})&){0,5}", ready: bool, known: u64, etcd_progress: bool) {
            let state = State { ready, known: Revision(known), etcd_progress };
            if let Ok(options) = parse_query(&text) {
                for scope in [COLLECTION, SELECTED, SINGLE] {
                    let _ = ListAsk::read(&options, scope).and_then(|ask| list(&ask, &state));
                }
                let _ = (get(&options.resource_version, &state), watch(&options, &state));
            }
        }
    }
}
