//! The spec's tables as literal expectations, and every combination of inputs.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::read::{options::ListOptions, token::encode};
use go::url::Query;

/// The cache is at 100.
const READY: State = State { ready: true, known: Revision(100), lost: Revision::ZERO, etcd_progress: true };
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
    let waits = |n: &Revision| format!("{n} → ");
    let or = |read: &EtcdRead| format!(", else {}", etcd(read));
    let carries = |at: Option<Revision>| at.map_or("K".to_owned(), |n| n.to_string());
    let (wait, source, at, fallback) = match &plan.source {
        Source::Consistent { limit, late } => ("E → ".to_owned(), format!("cache{}", limited(*limit)), None, or(late)),
        Source::Cache { at_least, limit } => {
            (at_least.as_ref().map_or(String::new(), waits), format!("cache{}", limited(*limit)), None, String::new())
        }
        Source::Snapshot { at, limit, gone } => (waits(at), format!("snapshot {at}{}", limited(*limit)), Some(*at), or(gone)),
        Source::Etcd(read) => (String::new(), etcd(read), read.at, String::new()),
    };
    let start = plan.start.as_ref().map_or(String::new(), |start| format!(" from {}", start.trim_end_matches('\0')));
    format!("{wait}{source}{start}: rv {}{fallback}", carries(at))
}

fn planned(query: &str, scope: Scope, state: &State) -> Result<ListPlan, Refusal> {
    ListRequest::read(&ListOptions::of(&Query::parse(query)).expect(query), scope).and_then(|ask| list(&ask, state))
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
        ("rv=a", r#"400 invalid resource version: resourceVersion: Invalid value: "a": strconv.ParseUint: parsing "a": invalid syntax"#),
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
    let single = |short: &str| {
        ListRequest::read(&ListOptions::of(&Query::parse(&query(short))).expect(short), SINGLE).expect(short).scope.single_key
    };
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
    check(SELECTED, &PENDING_NO_PROGRESS, &[("", "etcd newest: rv K"), ("rv=200&limit=5", "etcd at 200 limit 5: rv 200"), ("rv=0", "429")]);
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
    let options = ListOptions::of(&Query::parse(query)).expect(query);
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
    if let Source::Consistent { late, .. } = plan.source {
        assert!(state.etcd_progress && late.at.is_none() && late.at_least.is_none(), "{query}");
    }
    if let Source::Snapshot { at, gone, .. } = plan.source {
        assert_eq!(gone.at, Some(at), "{query}");
        assert!(state.etcd_progress || at <= state.known, "{query}: the future is waited for only with progress requests");
    }
    let limit = match plan.source {
        Source::Consistent { limit, .. } | Source::Cache { limit, .. } | Source::Snapshot { limit, .. } => limit,
        Source::Etcd(read) => read.limit,
    };
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
    let mut options = ListOptions::of(&Query::parse(&query(short))).expect(short);
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
        let state = State { ready, known: Revision(known), lost: Revision::ZERO, etcd_progress };
        if let Ok(options) = ListOptions::of(&Query::parse(&text)) {
            for scope in [COLLECTION, SELECTED, SINGLE] {
                let _ = ListRequest::read(&options, scope).and_then(|ask| list(&ask, &state));
            }
            let _ = (get(&options.resource_version, &state), watch(&options, &state));
        }
    }
}

#[test]
fn revisions_of_an_etcd_that_is_no_more() {
    let restored = State { lost: Revision(150), ..READY };
    let ask = |rv: &str| watch(&ListOptions::of(&Query::parse(&format!("watch=1&resourceVersion={rv}"))).expect("a query"), &restored);
    assert_eq!(ask("150"), Ok(WatchPlan::Lost(Revision(150))));
    assert_eq!(ask("101"), Ok(WatchPlan::Lost(Revision(101))));
    let stream = |n| Ok(WatchPlan::Stream { wait: Wait::Nothing, start: Start::After(Revision(n)), annotated: false });
    assert_eq!(ask("100"), stream(100));
    assert_eq!(ask("151"), stream(151), "a future one waits, as ever");
}
