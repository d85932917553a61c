//! An upstream that has another past, that may not know what there is now, or that tells too much.

use std::time::Instant;

use super::*;

/// An etcd that was restored, and is written to until it is past what was known before the watch goes on: what was written on the way is in no event.
#[tokio::test]
async fn a_restored_upstream_is_noticed_before_its_events_are_believed() {
    let loads = AtomicUsize::new(0);
    let policy = Policy { all: true, ..Policy::default() };
    let bench = Bench::following(policy, Duration::from_secs(3_600), move |asked| match asked.uri.query().unwrap_or("") {
        query if query.contains("sendInitialEvents") && query.contains("&resourceVersion=50") => panic!("it has less: {query}"),
        query if query.contains("sendInitialEvents") => match loads.fetch_add(1, Ordering::Relaxed) {
            0 => Reaction::After(Duration::from_millis(1_100), Box::new(ended(&[put("a", 3), end(50)]))),
            _ => open(&[put("b", 41), end(42)]),
        },
        "limit=1" => at_revision(40),
        _ => open(&[put("x", 51)]),
    })
    .await;
    bench.has("50: a@3").await;
    bench.has("42: b@41").await;
    assert_eq!(bench.known().lost, Revision(50), "a watch from what is lost ends");
}

/// The same, when upstream is past what was known already: what it had then is compared.
#[tokio::test]
async fn another_past_is_noticed() {
    let pasts = [
        ("an object was written otherwise", listed(9, "", &[object("a", 5)]), "30: c@30"),
        ("one object more", listed(9, r#","continue":"x","remainingItemCount":1"#, &[object("a", 3)]), "30: c@30"),
        ("it is compacted", Reaction::Answer(410, "application/json", Bytes::new()), "30: c@30"),
        ("it is the same", listed(9, "", &[object("a", 3)]), "20: a@3 x@20"),
        ("upstream has no such lists", Reaction::Answer(400, "application/json", Bytes::new()), "20: a@3 x@20"),
    ];
    let mut cases = JoinSet::new();
    for (name, past, wanted) in pasts {
        cases.spawn(async move {
            let (loads, watches) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let bench = Bench::before(move |asked| match asked.uri.query().unwrap_or("") {
                query if query.contains("sendInitialEvents") => match loads.fetch_add(1, Ordering::Relaxed) {
                    0 => ended(&[put("a", 3), end(7), bookmark(9)]),
                    _ => open(&[put("c", 30), end(30)]),
                },
                "limit=1" => at_revision(20),
                query if query.contains("resourceVersionMatch=Exact") => {
                    assert!(query.contains("resourceVersion=9&"), "{query}");
                    past.clone()
                }
                _ => match watches.fetch_add(1, Ordering::Relaxed) {
                    0 => Reaction::CutOff,
                    _ => open(&[put("x", 20)]),
                },
            })
            .await;
            bench.has(wanted).await;
            assert_eq!(
                bench.known().lost,
                Revision(if wanted.starts_with("30") { 9 } else { 0 }),
                "{name}: up to where its history is doubted"
            );
        });
    }
    cases.join_all().await;
}

/// A server of a newer release has been written to, and one of an older release has told of it: it does not know all of what is there.
#[tokio::test]
async fn what_another_release_shows_is_compared() {
    let fuller = || object("a", 3).replace("\"uid\"", "\"labels\":{\"new\":\"yes\"},\"uid\"");
    for (shown, loads_wanted) in [(object("a", 3), 1), (fuller(), 2)] {
        let (loads, watches) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (loaded, watched, now) = (loads.clone(), watches.clone(), shown.clone());
        let version = move || {
            let minor = if watches.load(Ordering::Relaxed) == 0 { 36 } else { 37 };
            Reaction::Answer(200, "application/json", format!(r#"{{"gitVersion":"v1.{minor}.0"}}"#).into())
        };
        let named = Some(vec![Wanted::parse("configmaps").expect("a name")]);
        let policy = Policy { named, ..Policy::default() };
        let bench = Bench::before_release(
            None,
            policy,
            |_| {},
            version,
            move |asked| match asked.uri.query().unwrap_or("") {
                query if query.contains("sendInitialEvents") => match loads.fetch_add(1, Ordering::Relaxed) {
                    0 => Reaction::After(Duration::from_millis(1_100), Box::new(ended(&[put("a", 3), end(7), bookmark(9)]))),
                    _ => open(&[event("ADDED", &now), end(20)]),
                },
                "limit=1" => at_revision(20),
                query if query.contains("resourceVersionMatch=Exact") => Reaction::Answer(400, "application/json", Bytes::new()),
                "limit=500" => listed(20, "", std::slice::from_ref(&now)),
                _ => {
                    watched.fetch_add(1, Ordering::Relaxed);
                    open(&[put("x", 21)])
                }
            },
        )
        .await;
        bench.has(if loads_wanted == 1 { "21: a@3 x@21" } else { "20: a@3" }).await;
        let known = bench.known();
        let text =
            known.snapshot.store.find(b"/registry/configmaps/n/a").map(|object| String::from_utf8_lossy(&object.tail()).into_owned());
        assert_eq!((loaded.load(Ordering::Relaxed), text.is_some_and(|text| text.contains("new"))), (loads_wanted, loads_wanted == 2));
        assert!(bench.asked().iter().any(|query| query == "limit=500"), "{:?}", bench.asked());
    }
}

/// A tier above that answers from memory cannot tell how far the API server is.
#[tokio::test]
async fn what_may_be_old_proves_nothing() {
    for warning in [r#"299 watchcache "answered from memory""#, r#"110 watchcache "Response is Stale""#] {
        let list = Bytes::from_static(br#"{"kind":"ConfigMapList","metadata":{"resourceVersion":"7"},"items":[]}"#);
        let server = Server::start(move |_| Reaction::WithHeader("warning", warning.to_owned(), list.clone())).await;
        let trust = Trust::from_pem(server.ca_pem().as_bytes()).expect("an authority");
        let source =
            Source::new(Login::of(Kubeconfig::of_server(&server.url(), trust).expect("a server")), "/registry/").expect("a client");
        source.newest(&Arc::new(Storage::test_config_maps())).await.expect_err("it may be older than what was written");
    }
}

/// A tier above that is cut off sends bookmarks all the same: of a revision that was known, and they make memory no newer.
#[tokio::test]
async fn bookmarks_that_tell_nothing_make_memory_no_newer() {
    for (newest, is_proven) in [(7, true), (9, false)] {
        let late = Reaction::After(Duration::from_millis(1_500), Box::new(open(&[bookmark(7)])));
        let bench = Bench::before(move |asked| match asked.uri.query().unwrap_or("") {
            query if query.contains("sendInitialEvents") => {
                Reaction::After(Duration::from_millis(1_100), Box::new(ended(&[put("a", 3), end(7)])))
            }
            "limit=1" => at_revision(newest),
            _ => late.clone(),
        })
        .await;
        bench.has("7: a@3").await;
        // Memory is at least as old as this, until a bookmark proves something.
        let loaded = Instant::now();
        bench.is_asked(3).await;
        let is_newer = async || {
            // The clock is read first: it must not be what makes memory look newer.
            let since = loaded.elapsed();
            bench.fed().age().expect("it was loaded") < since
        };
        if is_proven {
            let newer = async {
                while !is_newer().await {
                    sleep(Duration::from_millis(20)).await;
                }
            };
            timeout(SOON, newer).await.expect("the bookmark proves that nothing has come");
        } else {
            sleep(Duration::from_secs(3)).await;
            assert!(!is_newer().await, "{:?} since it was loaded", loaded.elapsed());
        }
    }
}

/// What does not fit is refused while it comes, and forwarded; the rest of it is not waited for.
#[tokio::test]
async fn a_load_beyond_the_budget_is_refused() {
    let policy = Policy { all: true, ..Policy::default() };
    let many: Vec<String> = (0..40_000).map(|number| put(&format!("a{number:05}"), 3)).collect();
    let bench = Bench::within(Some(8 << 20), policy, Duration::from_secs(60), in_turn(vec![open(&many)], vec![Reaction::Hang])).await;
    let declined = async {
        while !bench.fed().is_declined() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(SOON, declined).await.is_ok());
    let note = bench.fed().note().expect("people are told why");
    assert!(note.contains("--memory-budget"), "{note}");
    sleep(Duration::from_secs(2)).await;
    assert_eq!((bench.told().as_str(), bench.asked().len()), ("not ready", 1), "it is not asked for again at once");
}

/// An initial list without an end is refused when the budget is used up.
#[tokio::test]
async fn an_endless_load_is_refused() {
    let policy = Policy { all: true, ..Policy::default() };
    let bench = Bench::within(Some(4 << 20), policy, Duration::from_secs(60), |_| {
        let line: String = put("a", 3);
        Reaction::Repeated(line.into())
    })
    .await;
    let declined = async {
        while !bench.fed().is_declined() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(SOON, declined).await.is_ok());
}
