//! Watches: replay and live without a gap, progress, fragments, filters, refusals, and clients that do not read.

use etcd_client::{DeleteOptions, EventType, WatchFilterType, WatchOptions, WatchResponse, WatchStream};
use tokio::time::timeout;

use super::*;

async fn hear(stream: &mut WatchStream) -> WatchResponse {
    timeout(PATIENCE, stream.message()).await.expect("something comes").expect("no error").expect("open")
}

async fn created(stream: &mut WatchStream) -> i64 {
    let response = hear(stream).await;
    assert!(response.created(), "{response:?}");
    response.watch_id()
}

/// Keys and revisions of the next events; deletions have a minus.
async fn events(stream: &mut WatchStream) -> Vec<(String, i64)> {
    let response = hear(stream).await;
    assert!(!response.canceled() && !response.created(), "{response:?}");
    let shown = response.events().iter().map(|event| {
        let kv = event.kv().expect("a key");
        let sign = if event.event_type() == EventType::Delete { -1 } else { 1 };
        (kv.key_str().expect("text").to_owned(), sign * kv.mod_revision())
    });
    shown.collect()
}

fn prefix() -> WatchOptions {
    WatchOptions::new().with_prefix()
}

#[tokio::test]
async fn replay_then_live_shows_every_revision_once() {
    const WRITES: i64 = 1_200;
    let (_store, client) = fresh().await;
    let mut writer = client.clone();
    let writing = tokio::spawn(async move {
        for n in 0..WRITES {
            put(&mut writer, &format!("/a/{}", n % 10), "v").await;
        }
    });
    let mut watching = Vec::new();
    for start in [2, 500, 1_199, 0] {
        let mut client = client.clone();
        watching.push(tokio::spawn(async move {
            let mut stream = client.watch("/a/", Some(prefix().with_start_revision(start))).await.expect("opened");
            created(&mut stream).await;
            let mut next = start;
            while next <= WRITES {
                for (_, at) in events(&mut stream).await {
                    assert!(at == next || next == 0, "{at} after {next} from {start}");
                    next = at + 1;
                }
            }
        }));
    }
    writing.await.expect("no panic");
    // The one that began at now may have begun after the last write.
    let mut last = client.clone();
    put(&mut last, "/a/0", "last").await;
    for watch in watching {
        watch.await.expect("no panic");
    }
}

#[tokio::test]
async fn a_long_gap_is_replayed_from_the_log_in_pieces() {
    let (_store, mut client) = fresh().await;
    // More than memory keeps, so that the log is read.
    for page in 0..90 {
        let puts: Vec<_> = (0..120).map(|n| TxnOp::put(format!("/{page:03}/{n:03}"), vec![b'v'; 4_000], None)).collect();
        client.txn(Txn::new().and_then(puts)).await.expect("done");
    }
    let mut stream = client.watch("/", Some(prefix().with_start_revision(2))).await.expect("opened");
    created(&mut stream).await;
    let (mut seen, mut messages) = (Vec::new(), 0);
    while seen.len() < 90 * 120 {
        seen.extend(events(&mut stream).await);
        messages += 1;
    }
    assert!(messages >= 30, "{messages} pieces");
    let want = (0..90).flat_map(|page| (0..120).map(move |n| (format!("/{page:03}/{n:03}"), page + 2)));
    assert!(seen.into_iter().eq(want));
}

#[tokio::test]
async fn previous_values_and_filters() {
    let (_store, mut client) = fresh().await;
    put(&mut client, "/a", "1").await;
    put(&mut client, "/a", "2").await;
    client.delete("/a", None).await.expect("done");
    let mut stream = client.watch("/a", Some(WatchOptions::new().with_start_revision(2).with_prev_key())).await.expect("opened");
    created(&mut stream).await;
    let response = hear(&mut stream).await;
    let shown: Vec<_> = response.events().iter().map(|event| event.prev_kv().map(|kv| kv.value_str().expect("text").to_owned())).collect();
    assert_eq!(shown, [None, Some("1".into()), Some("2".into())]);
    let only_deletes = WatchOptions::new().with_start_revision(2).with_filters([WatchFilterType::NoPut]);
    let mut stream = client.watch("/a", Some(only_deletes)).await.expect("opened");
    created(&mut stream).await;
    assert_eq!(events(&mut stream).await, [("/a".to_owned(), -4)]);
    client.compact(4, None).await.expect("done");
    let mut stream = client.watch("/a", Some(WatchOptions::new().with_start_revision(4).with_prev_key())).await.expect("opened");
    created(&mut stream).await;
    let response = hear(&mut stream).await;
    assert!(response.events()[0].prev_kv().is_none(), "the value before is compacted");
}

#[tokio::test]
async fn watches_of_one_stream_are_named_refused_and_canceled() {
    let (_store, mut client) = fresh().await;
    let mut stream = client.watch("/a", None).await.expect("opened");
    assert_eq!(created(&mut stream).await, 0, "the first that etcd chooses");
    stream.watch("/b", Some(WatchOptions::new().with_watch_id(7))).await.expect("sent");
    assert_eq!(created(&mut stream).await, 7);
    for (options, key, reason) in [
        (WatchOptions::new().with_watch_id(7), "/c", "mvcc: duplicate watch ID provided on the WatchStream"),
        (WatchOptions::new().with_range("/a"), "/b", "mvcc: watcher range is empty"),
        (WatchOptions::new().with_start_revision(-1), "/c", "etcdserver: mvcc: required revision has been compacted"),
    ] {
        stream.watch(key, Some(options)).await.expect("sent");
        let refused = hear(&mut stream).await;
        assert!(refused.created() && refused.canceled());
        assert_eq!((refused.watch_id(), refused.cancel_reason()), (-1, reason));
    }
    stream.watch("/c", None).await.expect("sent");
    assert_eq!(created(&mut stream).await, 1);
    stream.cancel(7).await.expect("sent");
    let canceled = hear(&mut stream).await;
    assert!(canceled.canceled() && canceled.watch_id() == 7 && canceled.compact_revision() == 0);
    put(&mut client, "/b", "").await;
    put(&mut client, "/c", "").await;
    assert_eq!(events(&mut stream).await, [("/c".to_owned(), 3)]);
}

#[tokio::test]
async fn a_watch_of_what_is_compacted_ends_with_the_revision() {
    let (_store, mut client) = fresh().await;
    for value in ["1", "2", "3"] {
        put(&mut client, "/a", value).await;
    }
    client.compact(3, None).await.expect("done");
    let mut stream = client.watch("/a", Some(WatchOptions::new().with_start_revision(2))).await.expect("opened");
    let id = created(&mut stream).await;
    let ended = hear(&mut stream).await;
    assert!(ended.canceled() && ended.watch_id() == id && ended.compact_revision() == 3);
    stream.watch("/a", Some(WatchOptions::new().with_start_revision(3))).await.expect("sent");
    created(&mut stream).await;
    assert_eq!(events(&mut stream).await, [("/a".to_owned(), 3), ("/a".to_owned(), 4)]);
}

#[tokio::test]
async fn progress_comes_after_everything_before_it() {
    let config = StoreConfig { progress_interval: Duration::from_millis(100), ..StoreConfig::default() };
    let (_store, mut client) = with(config).await;
    put(&mut client, "/a", "").await;
    let mut stream = client.watch("/a", Some(WatchOptions::new().with_start_revision(2))).await.expect("opened");
    created(&mut stream).await;
    put(&mut client, "/elsewhere", "").await;
    stream.request_progress().await.expect("sent");
    assert_eq!(events(&mut stream).await, [("/a".to_owned(), 2)]);
    let progress = hear(&mut stream).await;
    assert_eq!((progress.watch_id(), progress.events().len()), (-1, 0));
    assert_eq!(progress.header().expect("a header").revision(), 3);
    // A watch of the future has seen nothing: its stream gives no progress, but tells others that want it unasked.
    stream.watch("/a", Some(WatchOptions::new().with_start_revision(100))).await.expect("sent");
    created(&mut stream).await;
    stream.request_progress().await.expect("sent");
    stream.watch("/b", Some(WatchOptions::new().with_progress_notify())).await.expect("sent");
    let id = created(&mut stream).await;
    let progress = hear(&mut stream).await;
    assert_eq!((progress.watch_id(), progress.events().len(), progress.header().expect("a header").revision()), (id, 0, 3));
}

#[tokio::test]
async fn a_large_revision_is_fragmented_only_when_asked() {
    let (_store, mut client) = fresh().await;
    let long = "k".repeat(30_000);
    for page in 0..4 {
        let puts: Vec<_> = (0..40).map(|n| TxnOp::put(format!("/{page}/{n:02}/{long}"), "", None)).collect();
        client.txn(Txn::new().and_then(puts)).await.expect("done");
    }
    let mut whole = client.watch("/", Some(prefix())).await.expect("opened");
    let mut parts = client.watch("/", Some(prefix().with_fragment())).await.expect("opened");
    created(&mut whole).await;
    created(&mut parts).await;
    client.delete("/", Some(DeleteOptions::new().with_prefix())).await.expect("done");
    // 160 keys of 30 kB: more than one message may carry in parts, more than a client takes without being told.
    assert!(timeout(PATIENCE, whole.message()).await.expect("something comes").is_err(), "beyond the client's 4 MiB");
    let (mut count, mut messages) = (0, 0);
    loop {
        let response = hear(&mut parts).await;
        count += response.events().len();
        messages += 1;
        assert!(response.events().iter().all(|event| event.kv().is_some_and(|kv| kv.mod_revision() == 6)));
        let size: usize = response.events().iter().filter_map(|event| event.kv()).map(|kv| kv.key().len()).sum();
        assert!(size < 2 << 20);
        if !response.0.fragment {
            break;
        }
    }
    assert_eq!((count, messages), (160, 3));
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_nobody() {
    let (_store, mut client) = fresh().await;
    let mut slow = client.watch("/", Some(prefix())).await.expect("opened");
    let mut quick = client.watch("/", Some(prefix())).await.expect("opened");
    created(&mut slow).await;
    created(&mut quick).await;
    let mut seen = 0;
    for n in 0..60 {
        let puts: Vec<_> = (0..100).map(|k| TxnOp::put(format!("/{n}/{k}"), vec![b'v'; 10_000], None)).collect();
        client.txn(Txn::new().and_then(puts)).await.expect("writes go on");
        while seen < (n + 1) * 100 {
            seen += events(&mut quick).await.len();
        }
    }
    let mut late = 0;
    while late < 6_000 {
        late += events(&mut slow).await.len();
    }
    assert_eq!(late, 6_000);
}
