//! What a store keeps over a restart, and how it ends: closed, locked, damaged, or with a disk that fails under it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proto::ResponseHeader;
use redb::StorageBackend;

use super::*;
use crate::StoreError;

fn open(dir: &Path) -> Result<Store, StoreError> {
    Store::open(dir, StoreConfig::default())
}

fn line(dir: &Path) -> String {
    match open(dir) {
        Ok(_) => "opened".into(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path()).expect("made");
    let mut first = client(&store);
    let lease = first.grant(0, 60).await.expect("granted").id;
    for value in 0..300 {
        put(&mut first, &format!("k{}", value % 7), &value.to_string()).await;
    }
    first.put(PutRequest { lease, ..putting("leased", "") }).await.expect("put");
    first.delete("k3").await.expect("done");
    first.compact(200, false).await.expect("done");
    // The last revisions leave no trace in the log when they are compacted.
    put(&mut first, "z", "").await;
    let last = first.delete("z").await.expect("done").header.expect("a header").revision;
    let all = |revision| RangeRequest { revision, ..get("").prefix() };
    let (now, then) = (first.range(all(0)).await.expect("read"), first.range(all(220)).await.expect("read"));
    let ids = |header: Option<ResponseHeader>| header.map(|header| (header.cluster_id, header.member_id)).expect("a header");
    assert!(line(dir.path()).contains("in use by another process"));
    store.close().await;
    assert_eq!(refusal(first.get("k1").await).0, Code::Unavailable);

    let store = open(dir.path()).expect("closed before");
    let mut second = client(&store);
    let again = second.range(all(0)).await.expect("read");
    assert_eq!(again.kvs, now.kvs);
    assert_eq!(ids(again.header), ids(now.header));
    assert_eq!(again.header.expect("a header").revision, last);
    assert_eq!(second.range(all(220)).await.expect("read").kvs, then.kvs);
    assert_eq!(refusal(second.range(all(199)).await).0, Code::OutOfRange);
    assert_eq!(put(&mut second, "k3", "").await, last + 1, "revisions are not used again");
    second.revoke(lease).await.expect("it was kept");
    assert_eq!(second.get("leased").await.expect("read").count, 0);
    store.close().await;
}

#[tokio::test]
async fn damage_is_told_in_one_line_and_left_alone() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path()).expect("made");
    let mut first = client(&store);
    for value in 0..50 {
        first.put((format!("k{value}"), vec![b'x'; 3_000])).await.expect("put");
    }
    store.close().await;
    let file = dir.path().join("store.redb");
    let good = std::fs::read(&file).expect("there");
    let flipped = {
        let mut bytes = good.clone();
        let place = bytes.windows(200).position(|window| window == [b'x'; 200]).expect("a value is there");
        bytes[place + 100] ^= 1;
        bytes
    };
    for (damaged, what) in
        [(flipped, "a flipped bit"), (b"not a database at all".to_vec(), "another file"), (good[..good.len() / 2].to_vec(), "half of it")]
    {
        std::fs::write(&file, &damaged).expect("written");
        let line = line(dir.path());
        assert!(line.contains("damaged") && !line.contains('\n'), "{what}: {line}");
        assert!(std::fs::read(&file).expect("there") == damaged, "{what}: the file was changed");
    }
    std::fs::write(&file, &good).expect("written");
    let store = open(dir.path()).expect("whole again");
    assert_eq!(client(&store).range(get("").prefix()).await.expect("read").count, 50);
    store.close().await;
}

/// Memory whose syncs can be made to fail, or to wait.
#[derive(Debug, Default)]
struct Faulty {
    memory: InMemoryBackend,
    disk: Arc<Disk>,
}

#[derive(Debug, Default)]
struct Disk {
    full: AtomicBool,
    slow: AtomicBool,
    /// A sync waits.
    waits: AtomicBool,
}

impl Disk {
    fn check(&self) -> std::io::Result<()> {
        while self.slow.load(Ordering::SeqCst) {
            self.waits.store(true, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.full.load(Ordering::SeqCst) { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl StorageBackend for Faulty {
    fn len(&self) -> std::io::Result<u64> {
        self.memory.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.memory.read(offset, out)
    }

    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.memory.set_len(len)
    }

    fn sync_data(&self) -> std::io::Result<()> {
        self.disk.check()?;
        self.memory.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.memory.write(offset, data)
    }
}

#[tokio::test]
async fn nothing_is_shown_before_it_is_durable() {
    let backend = Faulty::default();
    let disk = backend.disk.clone();
    let store = Store::open_on(backend, StoreConfig::default()).expect("memory holds");
    let mut client = client(&store);
    put(&mut client, "a", "1").await;
    let mut stream = client.watch(watching("a")).await.expect("opened");
    assert!(stream.message().await.expect("open").expect("open").created);
    let pulse = store.pulse();
    disk.slow.store(true, Ordering::SeqCst);
    let mut writer = client.clone();
    let writing = tokio::spawn(async move { put(&mut writer, "a", "2").await });
    while !disk.waits.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // The commit is written and not synced.
    assert!(pulse().is_some(), "a commit is under way");
    stream.requests.progress().await.expect("sent");
    let progress = stream.message().await.expect("open").expect("open");
    assert_eq!((progress.events.len(), progress.header.expect("a header").revision), (0, 2));
    let read = client.get("a").await.expect("read");
    assert_eq!((&read.kvs[0].value[..], read.header.expect("a header").revision), (&b"1"[..], 2));
    assert_eq!(client.status().await.expect("answered").header.expect("a header").revision, 2);
    assert_eq!(refusal(client.range(RangeRequest { revision: 3, ..get("a") }).await).0, Code::OutOfRange);
    assert!(tokio::time::timeout(Duration::from_millis(20), stream.message()).await.is_err(), "no event either");
    assert!(!writing.is_finished(), "nor an answer");
    disk.slow.store(false, Ordering::SeqCst);
    assert_eq!(writing.await.expect("no panic"), 3);
    while pulse().is_some() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(client.get("a").await.expect("read").kvs[0].value, b"2");
    assert_eq!(stream.message().await.expect("open").expect("open").events.len(), 1);
}

#[tokio::test]
async fn after_a_failed_fsync_nothing_is_written_and_nothing_new_is_shown() {
    let backend = Faulty::default();
    let full = &backend.disk.clone().full;
    let store = Store::open_on(backend, StoreConfig::default()).expect("memory holds");
    let mut client = client(&store);
    put(&mut client, "a", "1").await;
    let mut stream = client.watch(watching("a")).await.expect("opened");
    assert!(stream.message().await.expect("open").expect("open").created);
    full.store(true, Ordering::SeqCst);
    let (code, text) = refusal(client.put(("a", "2")).await);
    assert_eq!((code, &*text), (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded"));
    assert!(store.failed().await.contains("no storage space"));
    full.store(false, Ordering::SeqCst);
    assert_eq!(refusal(client.put(("a", "3")).await).0, Code::ResourceExhausted, "room that came back is for a new process");
    // What may not be durable is not shown; what was is, as far as it is in memory.
    assert_eq!(client.get("b").await.expect("no value is needed").header.expect("a header").revision, 2);
    match client.get("a").await {
        Ok(read) => assert_eq!((&read.kvs[0].value[..], read.header.expect("a header").revision), (&b"1"[..], 2)),
        Err(error) => assert_eq!(refusal(Err::<(), _>(error)).0, Code::Internal),
    }
    stream.requests.progress().await.expect("sent");
    let progress = stream.message().await.expect("open").expect("open");
    assert_eq!((progress.events.len(), progress.header.expect("a header").revision), (0, 2));
    store.close().await;
    assert_eq!(refusal(client.get("b").await).0, Code::Unavailable);
    assert_eq!(refusal(stream.message().await).0, Code::Unavailable);
}

#[tokio::test]
async fn a_dropped_store_lets_go_of_its_directory() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path()).expect("made");
    let mut client = client(&store);
    assert_eq!(put(&mut client, "a", "1").await, 2);
    drop(store);
    assert_eq!(refusal(client.get("a").await).0, Code::Unavailable, "although a client is left");
    let begin = std::time::Instant::now();
    let store = loop {
        match open(dir.path()) {
            Ok(store) => break store,
            Err(StoreError::Locked(_)) => assert!(begin.elapsed() < PATIENCE, "still locked"),
            Err(error) => panic!("{error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!(revision(&mut super::client(&store)).await, 2);
    store.close().await;
}

#[tokio::test]
async fn writers_share_commits() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path()).expect("made");
    let client = client(&store);
    let writers = (0..50).map(|writer| {
        let mut client = client.clone();
        tokio::spawn(async move {
            for value in 0..20 {
                put(&mut client, &format!("w{writer}"), &value.to_string()).await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("no panic");
    }
    let mut client = client;
    let all = client.range(get("").prefix()).await.expect("read");
    assert_eq!((all.count, all.header.expect("a header").revision), (50, 1 + 50 * 20));
    assert!(all.kvs.iter().all(|kv| kv.version == 20));
    store.close().await;
}
