//! Watches: replay and live without a gap, progress, fragments, filters, refusals, and clients that do not read.

use proto::event::EventType;
use proto::testing::WatchStream;
use proto::watch_create_request::FilterType;
use proto::{WatchCreateRequest, WatchResponse};
use tokio::time::timeout;

use super::*;

pub(super) async fn hear(stream: &mut WatchStream) -> WatchResponse {
    timeout(PATIENCE, stream.message()).await.expect("something comes").expect("no error").expect("open")
}

async fn created(stream: &mut WatchStream) -> i64 {
    let response = hear(stream).await;
    assert!(response.created, "{response:?}");
    response.watch_id
}

/// Keys and revisions of the next events; deletions have a minus.
async fn events(stream: &mut WatchStream) -> Vec<(String, i64)> {
    let response = hear(stream).await;
    assert!(!response.canceled && !response.created, "{response:?}");
    let shown = response.events.iter().map(|event| {
        let kv = event.kv.as_ref().expect("a key");
        let sign = if event.r#type() == EventType::Delete { -1 } else { 1 };
        (text(&kv.key).to_owned(), sign * kv.mod_revision)
    });
    shown.collect()
}

fn from(start_revision: i64, key: &str) -> WatchCreateRequest {
    WatchCreateRequest { start_revision, ..watching(key) }
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
            let mut stream = client.watch(from(start, "/a/").prefix()).await.expect("opened");
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
        let puts: Vec<RequestOp> = (0..120).map(|n| putting(format!("/{page:03}/{n:03}"), vec![b'v'; 4_000]).into()).collect();
        client.txn(txn([], puts)).await.expect("done");
    }
    let mut stream = client.watch(from(2, "/").prefix()).await.expect("opened");
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
    client.delete("/a").await.expect("done");
    let mut stream = client.watch(WatchCreateRequest { prev_kv: true, ..from(2, "/a") }).await.expect("opened");
    created(&mut stream).await;
    let response = hear(&mut stream).await;
    let shown: Vec<_> = response.events.iter().map(|event| event.prev_kv.as_ref().map(|kv| text(&kv.value).to_owned())).collect();
    assert_eq!(shown, [None, Some("1".into()), Some("2".into())]);
    let only_deletes = WatchCreateRequest { filters: vec![FilterType::Noput.into()], ..from(2, "/a") };
    let mut stream = client.watch(only_deletes).await.expect("opened");
    created(&mut stream).await;
    assert_eq!(events(&mut stream).await, [("/a".to_owned(), -4)]);
    client.compact(4, false).await.expect("done");
    let mut stream = client.watch(WatchCreateRequest { prev_kv: true, ..from(4, "/a") }).await.expect("opened");
    created(&mut stream).await;
    let response = hear(&mut stream).await;
    assert!(response.events[0].prev_kv.is_none(), "the value before is compacted");
}

#[tokio::test]
async fn watches_of_one_stream_are_named_refused_and_canceled() {
    let (_store, mut client) = fresh().await;
    let mut stream = client.watch(watching("/a")).await.expect("opened");
    assert_eq!(created(&mut stream).await, 0, "the first that etcd chooses");
    stream.requests.create(WatchCreateRequest { watch_id: 7, ..watching("/b") }).await.expect("sent");
    assert_eq!(created(&mut stream).await, 7);
    for (create, reason) in [
        (WatchCreateRequest { watch_id: 7, ..watching("/c") }, "mvcc: duplicate watch ID provided on the WatchStream"),
        (watching("/b").until("/a"), "mvcc: watcher range is empty"),
        (from(-1, "/c"), "etcdserver: mvcc: required revision has been compacted"),
    ] {
        stream.requests.create(create).await.expect("sent");
        let refused = hear(&mut stream).await;
        assert!(refused.created && refused.canceled);
        assert_eq!((refused.watch_id, &*refused.cancel_reason), (-1, reason));
    }
    stream.requests.create(watching("/c")).await.expect("sent");
    assert_eq!(created(&mut stream).await, 1);
    stream.requests.cancel(7).await.expect("sent");
    let canceled = hear(&mut stream).await;
    assert!(canceled.canceled && canceled.watch_id == 7 && canceled.compact_revision == 0);
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
    client.compact(3, false).await.expect("done");
    let mut stream = client.watch(from(2, "/a")).await.expect("opened");
    let id = created(&mut stream).await;
    let ended = hear(&mut stream).await;
    assert!(ended.canceled && ended.watch_id == id && ended.compact_revision == 3);
    stream.requests.create(from(3, "/a")).await.expect("sent");
    created(&mut stream).await;
    assert_eq!(events(&mut stream).await, [("/a".to_owned(), 3), ("/a".to_owned(), 4)]);
}

#[tokio::test]
async fn progress_comes_after_everything_before_it() {
    let config = StoreConfig { progress_interval: Duration::from_millis(500), ..StoreConfig::default() };
    let (_store, mut client) = with(config).await;
    put(&mut client, "/a", "").await;
    let mut stream = client.watch(from(2, "/a")).await.expect("opened");
    created(&mut stream).await;
    put(&mut client, "/elsewhere", "").await;
    stream.requests.progress().await.expect("sent");
    assert_eq!(events(&mut stream).await, [("/a".to_owned(), 2)]);
    let progress = hear(&mut stream).await;
    assert_eq!((progress.watch_id, progress.events.len()), (-1, 0));
    assert_eq!(progress.header.expect("a header").revision, 3);
    // A watch of the future has seen nothing: its stream gives no progress, but tells others that want it unasked.
    stream.requests.create(from(100, "/a")).await.expect("sent");
    created(&mut stream).await;
    stream.requests.progress().await.expect("sent");
    stream.requests.create(WatchCreateRequest { progress_notify: true, ..watching("/b") }).await.expect("sent");
    let id = created(&mut stream).await;
    let progress = hear(&mut stream).await;
    assert_eq!((progress.watch_id, progress.events.len(), progress.header.expect("a header").revision), (id, 0, 3));
}

/// Each interval added one response for each watch, however long nobody had read.
#[tokio::test]
async fn progress_does_not_pile_up_for_who_does_not_read() {
    const WATCHES: usize = 300;
    let config = StoreConfig { progress_interval: Duration::from_millis(100), ..StoreConfig::default() };
    let (_store, mut client) = with(config).await;
    let asked = || WatchCreateRequest { progress_notify: true, ..watching("/a") };
    let mut stream = client.watch(asked()).await.expect("opened");
    for _ in 1..WATCHES {
        stream.requests.create(asked()).await.expect("sent");
        while !hear(&mut stream).await.created {}
    }
    // Fifty times the interval. What was sent until now has another revision than what comes after the next change.
    tokio::time::sleep(Duration::from_secs(5)).await;
    put(&mut client, "/b", "").await;
    let (mut waited, mut revision) = (0, None);
    loop {
        let heard = hear(&mut stream).await.header.expect("a header").revision;
        if *revision.get_or_insert(heard) != heard {
            break;
        }
        waited += 1;
    }
    assert!((1..4 * WATCHES).contains(&waited), "{waited}");
}

#[tokio::test]
async fn a_large_revision_is_fragmented_only_when_asked() {
    let (_store, mut client) = fresh().await;
    let long = "k".repeat(30_000);
    for page in 0..4 {
        let puts: Vec<RequestOp> = (0..40).map(|n| putting(format!("/{page}/{n:02}/{long}"), "").into()).collect();
        client.txn(txn([], puts)).await.expect("done");
    }
    let mut whole = client.watch(watching("/").prefix()).await.expect("opened");
    let mut parts = client.watch(WatchCreateRequest { fragment: true, ..watching("/").prefix() }).await.expect("opened");
    created(&mut whole).await;
    created(&mut parts).await;
    client.delete_range(delete("/").prefix()).await.expect("done");
    // 160 keys of 30 kB: more than one message may carry in parts, more than a client takes without being told.
    assert!(timeout(PATIENCE, whole.message()).await.expect("something comes").is_err(), "beyond the client's 4 MiB");
    let (mut count, mut messages) = (0, 0);
    loop {
        let response = hear(&mut parts).await;
        count += response.events.len();
        messages += 1;
        assert!(response.events.iter().all(|event| event.kv.as_ref().is_some_and(|kv| kv.mod_revision == 6)));
        let size: usize = response.events.iter().filter_map(|event| event.kv.as_ref()).map(|kv| kv.key.len()).sum();
        assert!(size < 2 << 20);
        if !response.fragment {
            break;
        }
    }
    assert_eq!((count, messages), (160, 3));
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_nobody() {
    let (_store, mut client) = fresh().await;
    let mut slow = client.watch(watching("/").prefix()).await.expect("opened");
    let mut quick = client.watch(watching("/").prefix()).await.expect("opened");
    created(&mut slow).await;
    created(&mut quick).await;
    let mut seen = 0;
    for n in 0..60 {
        let puts: Vec<RequestOp> = (0..100).map(|k| putting(format!("/{n}/{k}"), vec![b'v'; 10_000]).into()).collect();
        client.txn(txn([], puts)).await.expect("writes go on");
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
