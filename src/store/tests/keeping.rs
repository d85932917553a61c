//! Backups, restores, defragmentations and the quota, on a real directory.

use std::fs;
use std::path::Path;

use proto::{DefragmentRequest, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, SnapshotRequest, WatchCreateRequest};

use super::*;
use crate::directory::Directory;
use crate::restore::restore_in_commits;
use crate::{Remote, Size, StoreError, check_backup, restore, save};

const BUMP: u64 = 1_000;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn open(&self, name: &str) -> (Store, Client) {
        let store = Store::open(&self.path(name), StoreConfig::default()).expect("a store");
        let client = client(&store);
        (store, client)
    }

    /// A backup of a store with a key that was written twice, one with a lease, one that was deleted, and two of one revision.
    async fn backup(&self) -> std::path::PathBuf {
        let (store, mut client) = self.open("old");
        let lease = client.grant(77, 600).await.expect("granted").id;
        put(&mut client, "a", "1").await;
        client.put(PutRequest { lease, ..putting("b", "leased") }).await.expect("put");
        put(&mut client, "gone", "1").await;
        client.txn(txn([], [putting("c", "").into(), putting("d", "4").into()])).await.expect("done");
        put(&mut client, "a", "2").await;
        client.delete("gone").await.expect("done");
        let file = self.path("backup");
        save(&mut store.here(), &file).await.expect("saved");
        store.close().await;
        file
    }
}

async fn everything(client: &mut Client) -> Vec<KeyValue> {
    client.range(get("").prefix()).await.expect("read").kvs
}

fn line<T: std::fmt::Debug>(outcome: Result<T, StoreError>) -> String {
    let line = outcome.expect_err("refused").to_string();
    assert!(!line.contains('\n'), "{line}");
    line
}

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(path).expect("there").map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn what_is_restored_is_what_was_saved_at_revisions_that_nobody_has_seen() {
    let place = Place::new();
    let file = place.backup().await;
    let (old, mut client) = place.open("old");
    let (saved, head, cluster) = (everything(&mut client).await, revision(&mut client).await, client.status().await.expect("told"));
    // What the backup does not know.
    for n in 0..10 {
        put(&mut client, "late", &n.to_string()).await;
    }
    let seen = revision(&mut client).await;
    old.close().await;
    let (backup, begins) = restore(&file, &place.path("new"), BUMP).expect("restored");
    assert_eq!((backup.revision, backup.keys, backup.leases, begins), (head, 4, 1, head + BUMP as i64));
    let (store, mut client) = place.open("new");
    assert_eq!(everything(&mut client).await, saved, "with their revisions and leases");
    assert_eq!(revision(&mut client).await, begins);
    let compacted = (Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted".to_owned());
    for revision in [head, seen, begins - 1] {
        assert_eq!(refusal(client.range(RangeRequest { revision, ..get("a") }).await), compacted);
        let mut watch = client.watch(WatchCreateRequest { start_revision: revision, ..watching("").prefix() }).await.expect("opened");
        watch.message().await.expect("open").expect("created");
        let ended = watch.message().await.expect("open").expect("an end");
        assert!(ended.canceled && ended.compact_revision == begins, "{ended:?}");
    }
    assert_eq!(put(&mut client, "late", "again").await, begins + 1);
    let ids = client.status().await.expect("told").header.expect("a header");
    assert_ne!(ids.cluster_id, cluster.header.expect("a header").cluster_id, "others must know that it is another store");
    client.revoke(77).await.expect("it is there");
    assert_eq!(client.get("b").await.expect("read").count, 0, "the lease has its keys");
    store.close().await;
}

#[tokio::test]
async fn a_restore_of_many_commits_is_whole() {
    let place = Place::new();
    let file = place.backup().await;
    let (old, mut client) = place.open("old");
    let saved = everything(&mut client).await;
    old.close().await;
    // Each change is more than one commit takes.
    let (file, dir) = (file.clone(), place.path("new"));
    let restoring = tokio::task::spawn_blocking(move || restore_in_commits(&file, &dir, BUMP, 1).map(drop));
    tokio::time::timeout(PATIENCE, restoring).await.expect("it ends").expect("no panic").expect("restored");
    let (_store, mut client) = place.open("new");
    assert_eq!(everything(&mut client).await, saved);
}

#[tokio::test]
async fn an_empty_store_can_be_saved_and_restored() {
    let place = Place::new();
    let (store, _client) = place.open("old");
    save(&mut store.here(), &place.path("backup")).await.expect("saved");
    restore(&place.path("backup"), &place.path("new"), 0).expect("restored");
    let (_store, mut client) = place.open("new");
    assert_eq!((revision(&mut client).await, put(&mut client, "a", "1").await), (1, 2));
}

#[tokio::test]
async fn a_restore_touches_nothing_that_is_there() {
    let place = Place::new();
    let file = place.backup().await;
    let before = names(&place.path("old"));
    assert!(line(restore(&file, &place.path("old"), BUMP)).contains("there is a store in it already"));
    assert_eq!(names(&place.path("old")), before);
    let (store, _client) = place.open("old");
    assert!(line(restore(&file, &place.path("old"), BUMP)).contains("in use by another process"));
    store.close().await;
    fs::create_dir(place.path("full")).expect("made");
    fs::write(place.path("full").join("letter"), "dear").expect("written");
    assert!(line(restore(&file, &place.path("full"), BUMP)).contains("not empty and not a store of ours (\"letter\")"));
    assert_eq!(names(&place.path("full")), ["letter"]);
    assert!(line(restore(&file, &file, BUMP)).contains("it is a file"));
    let far = line(restore(&file, &place.path("far"), u64::MAX));
    assert!(far.contains("are no revision together") && !place.path("far").exists(), "{far}");
    assert!(line(restore(&place.path("absent"), &place.path("new"), BUMP)).contains("No such file"));
}

#[tokio::test]
async fn a_backup_that_is_not_whole_restores_nothing() {
    let place = Place::new();
    let file = place.backup().await;
    let whole = fs::read(&file).expect("there");
    let spoilt = place.path("spoilt");
    let (new, empty) = (place.path("new"), place.path("empty"));
    fs::create_dir(&empty).expect("made");
    for at in [0, 30, whole.len() / 2, whole.len() - 1] {
        let mut other = whole.clone();
        other[at] ^= 1;
        for content in [&whole[..at], &other] {
            fs::write(&spoilt, content).expect("written");
            let (checked, restored) = (line(check_backup(&spoilt)), line(restore(&spoilt, &new, BUMP)));
            assert!(checked == restored && checked.starts_with(&format!("backup {}: ", spoilt.display())), "{checked}");
            assert!(!new.exists());
            line(restore(&spoilt, &empty, BUMP));
            assert!(names(&empty).is_empty(), "{:?}", names(&empty));
        }
    }
    restore(&file, &empty, BUMP).expect("an empty directory will do");
}

#[tokio::test]
async fn a_restore_that_was_killed_is_no_store_and_can_be_done_again() {
    let place = Place::new();
    let file = place.backup().await;
    let dir = place.path("new");
    let half = Directory::claim_for_restore(&dir).expect("claimed");
    fs::write(half.temporary_database(), "half").expect("written");
    assert!(line(restore(&file, &dir, BUMP)).contains("in use by another process"));
    drop(half);
    assert!(line(Store::open(&dir, StoreConfig::default()).map(drop)).contains("a restore into it was cut off; restore once more"));
    assert!(line(Store::open_existing(&dir, StoreConfig::default()).map(drop)).contains("a restore into it was cut off"));
    restore(&file, &dir, BUMP).expect("done again");
    assert_eq!(names(&dir), ["format", "lock", "store.redb"]);
    place.open("new").0.close().await;
}

#[tokio::test]
async fn only_a_store_is_saved_and_a_backup_has_its_name_when_it_is_whole() {
    let place = Place::new();
    assert!(line(Store::open_existing(&place.path("none"), StoreConfig::default()).map(drop)).contains("there is no store in it"));
    assert!(!place.path("none").exists());
    let file = place.backup().await;
    let kept = fs::read(&file).expect("there");
    // What a backup left that was killed, and one that is at work.
    let part = place.path("backup.part");
    fs::write(&part, "half").expect("written");
    let (store, _client) = place.open("old");
    let busy = fs::File::open(&part).expect("there");
    busy.lock().expect("free");
    assert!(line(save(&mut store.here(), &file).await).contains("another process is making it"));
    drop(busy);
    let mut closed = store.here();
    save(&mut closed, &file).await.expect("saved over both");
    assert!(!part.exists() && fs::read(&file).expect("there").len() == kept.len());
    store.close().await;
    let kept = fs::read(&file).expect("there");
    assert!(line(save(&mut closed, &file).await).contains("server stopped"));
    assert!(!part.exists() && fs::read(&file).expect("there") == kept, "a backup that fails takes nothing away");
    assert!(line(save(&mut closed, &place.path("no/backup")).await).contains("No such file"));
}

#[tokio::test]
async fn a_backup_is_of_one_revision_whatever_is_written_and_compacted_meanwhile() {
    let place = Place::new();
    let (store, mut client) = place.open("old");
    let value = vec![7; 20_000];
    for n in 0..200 {
        client.put((format!("k{n:03}"), value.clone())).await.expect("put");
    }
    let head = revision(&mut client).await;
    let mut pieces = client.maintenance.snapshot(SnapshotRequest {}).await.expect("begun").into_inner();
    let first = pieces.message().await.expect("open").expect("a piece");
    assert_eq!(first.header.as_ref().expect("a header").revision, head);
    assert!(first.remaining_bytes > 0);
    // While it waits, everything is replaced and what was before is gone.
    for n in 0..200 {
        client.put((format!("k{n:03}"), b"new".to_vec())).await.expect("put");
    }
    let now = revision(&mut client).await;
    client.compact(now, true).await.expect("done");
    // So many at once.
    let _second = client.maintenance.snapshot(SnapshotRequest {}).await.expect("begun");
    assert_eq!(refusal(client.maintenance.snapshot(SnapshotRequest {}).await).0, Code::ResourceExhausted);
    let (mut bytes, mut last) = (first.blob, 1);
    while let Some(piece) = pieces.message().await.expect("open") {
        bytes.extend(piece.blob);
        last = piece.remaining_bytes;
    }
    assert_eq!((last, bytes.len() % 512), (0, 32));
    fs::write(place.path("backup"), bytes).expect("written");
    restore(&place.path("backup"), &place.path("new"), BUMP).expect("restored");
    let (_store, mut client) = place.open("new");
    let kvs = everything(&mut client).await;
    assert_eq!(kvs.len(), 200);
    assert!(kvs.iter().all(|kv| kv.value == value && kv.mod_revision <= head));
    store.close().await;
}

#[tokio::test]
async fn a_running_store_is_reached_by_its_socket() {
    let place = Place::new();
    let file = place.backup().await;
    let dir = place.path("old");
    let (store, mut client) = place.open("old");
    assert!(line(Remote::of(&dir).map(drop)).contains("in use by another process, which has no socket there"));
    drop(std::os::unix::net::UnixListener::bind(dir.join("store.sock")).expect("what a killed process left"));
    assert!(line(Remote::of(&dir).expect("there").size().await).contains("Connection refused"));
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let serving = tokio::spawn(store.serve_socket(stopped));
    let begin = std::time::Instant::now();
    while Remote::of(&dir).expect("there").size().await.is_err() {
        assert!(begin.elapsed() < PATIENCE, "no socket");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(dir.join("store.sock")).expect("there").permissions());
    assert_eq!(mode & 0o777, 0o600);
    put(&mut client, "more", "1").await;
    let mut remote = Remote::of(&dir).expect("there");
    let backup = save(&mut remote, &file).await.expect("saved");
    assert_eq!((backup.revision, backup.keys), (revision(&mut client).await, 5));
    remote.defragment().await.expect("done");
    assert!(remote.size().await.expect("told").file > 0);
    stop.send(true).expect("serving");
    drop(remote);
    serving.await.expect("it ends");
    store.close().await;
    assert!(!dir.join("store.sock").exists());
    let gone = Remote::at("http://127.0.0.1:1").expect("an address").size().await;
    assert!(line(gone).contains("the store at http://127.0.0.1:1: "));
}

/// Writes and deletes, so that most of the file is free.
async fn fill(client: &mut Client) {
    for n in 0..300 {
        client.put((format!("k{n:03}"), vec![1; 30_000])).await.expect("put");
    }
    client.delete_range(all("k")).await.expect("done");
    for n in 0..50 {
        put(client, "kept", &n.to_string()).await;
    }
}

fn all(prefix: &str) -> DeleteRangeRequest {
    let all = get(prefix).prefix();
    DeleteRangeRequest { key: all.key, range_end: all.range_end, ..Default::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_defragmentation_gives_back_what_is_free_and_nothing_else() {
    let place = Place::new();
    let (store, mut client) = place.open("store");
    fill(&mut client).await;
    client.grant(5, 600).await.expect("granted");
    let compacted = revision(&mut client).await - 20;
    client.compact(compacted, true).await.expect("done");
    let old = store.service.shared.state().expect("open");
    let sizes = store.sizes();
    let before = sizes();
    assert!(before.in_use < before.file / 10, "{before:?}");
    // Writers go on meanwhile, and compactions.
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let mut writer = self::client(&store);
    let writing = tokio::spawn(async move {
        let mut acknowledged = Vec::new();
        while !*stopped.borrow() {
            let n = acknowledged.len();
            acknowledged.push((format!("w{}", n % 50), n.to_string(), put(&mut writer, &format!("w{}", n % 50), &n.to_string()).await));
            if n % 100 == 99 {
                writer.compact(acknowledged[n - 50].2, false).await.expect("done");
            }
        }
        acknowledged
    });
    for _ in 0..5 {
        client.maintenance.defragment(DefragmentRequest {}).await.expect("done");
    }
    stop.send(true).expect("writing");
    let acknowledged = writing.await.expect("written");
    let after = sizes();
    assert!(after.file < before.file / 2, "{before:?} {after:?}");
    // A reader of the old file goes on in it.
    assert_eq!(old.view().range(&get("kept")).expect("readable").kvs[0].value, b"49");
    let check = |kvs: &[KeyValue]| {
        for (key, value, revision) in acknowledged.iter().rev().take(50) {
            let kv = kvs.iter().find(|kv| kv.key == key.as_bytes()).expect("acknowledged");
            assert_eq!((text(&kv.value), kv.mod_revision), (&value[..], *revision));
        }
    };
    let kvs = everything(&mut client).await;
    check(&kvs);
    assert!(put(&mut client, "after", "1").await > acknowledged.last().expect("written").2);
    let (kvs, head) = (everything(&mut client).await, revision(&mut client).await);
    drop(old);
    store.close().await;
    assert_eq!(names(&place.path("store")), ["format", "lock", "store.redb"]);
    let (store, mut client) = place.open("store");
    assert_eq!((everything(&mut client).await, revision(&mut client).await), (kvs, head));
    let leases = client.leases.lease_leases(LeaseLeasesRequest {}).await.expect("answered").into_inner().leases;
    assert_eq!(leases.iter().map(|lease| lease.id).collect::<Vec<_>>(), [5]);
    store.close().await;
}

#[tokio::test]
async fn history_is_still_there_after_a_defragmentation() {
    let place = Place::new();
    let (store, mut client) = place.open("store");
    let first = put(&mut client, "a", "1").await;
    put(&mut client, "a", "2").await;
    client.delete("a").await.expect("done");
    client.maintenance.defragment(DefragmentRequest {}).await.expect("done");
    let all = [b"1".to_vec(), b"2".to_vec(), Vec::new()];
    let look = async |client: &mut Client| {
        let past = client.range(RangeRequest { revision: first, ..get("a") }).await.expect("readable");
        assert_eq!(past.kvs[0].value, b"1");
        let mut watch = client.watch(WatchCreateRequest { start_revision: first, ..watching("a") }).await.expect("opened");
        watch.message().await.expect("open").expect("created");
        let mut events = Vec::new();
        while events.len() < 3 {
            events.extend(watch.message().await.expect("open").expect("events").events);
        }
        let values: Vec<Vec<u8>> = events.into_iter().map(|event| event.kv.expect("a key").value).collect();
        assert_eq!(values, all);
    };
    look(&mut client).await;
    store.close().await;
    let (store, mut client) = place.open("store");
    look(&mut client).await;
    // What a process left that was killed half-way goes at the next start.
    store.close().await;
    fs::write(place.path("store").join("store.redb.new"), "half").expect("written");
    let (_store, mut client) = place.open("store");
    look(&mut client).await;
    assert!(!place.path("store").join("store.redb.new").exists());
}

#[tokio::test]
async fn above_the_quota_only_what_makes_room_is_done() {
    let quota_bytes = 100_000;
    let (store, mut client) = with(StoreConfig { quota_bytes, ..StoreConfig::default() }).await;
    let mut count = 0;
    let full = loop {
        match client.put((format!("k{count:02}"), vec![1; 10_000])).await {
            Ok(_) => count += 1,
            refused => break refusal(refused),
        }
        assert!(count < 20, "no quota");
    };
    assert_eq!((count, full.clone()), (9, (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded".to_owned())));
    assert_eq!(refusal(client.txn(txn([], [putting("a", vec![1; 10_000]).into()])).await), full);
    let Size { in_use, quota, .. } = store.sizes()();
    assert!(quota == quota_bytes && in_use <= quota && in_use > 90_000, "{in_use}");
    let status = client.status().await.expect("told");
    assert_eq!((status.db_size_quota, status.db_size_in_use), (100_000, in_use as i64));
    client.delete("k00").await.expect("deletions make room");
    let now = revision(&mut client).await;
    client.compact(now, true).await.expect("compactions do");
    client.put(("again", vec![1; 9_000])).await.expect("there is room");
}
