//! The store as its clients see it, in-process.

use std::time::Duration;

use proto::compare::{CompareResult, TargetUnion};
use proto::response_op::Response;
use proto::testing::{Client, Range, delete, get, put as putting, txn, watch as watching};
use proto::{
    AlarmRequest, AuthEnableRequest, Compare, LeaseLeasesRequest, LeaseTimeToLiveRequest, MemberListRequest, PutRequest, RangeRequest,
    RequestOp, TxnRequest,
};
use redb::backends::InMemoryBackend;
use tonic::{Code, Status};

use super::{Store, StoreConfig};
use etcd::Etcd;

mod bounds;
mod gateway;
mod keeping;
mod lives;
mod model;
mod our_client;
mod watches;

/// Longest wait for anything that should happen at once; generous, since machines that test are busy.
const PATIENCE: Duration = Duration::from_secs(600);

/// A store in memory, and a client of it.
async fn fresh() -> (Store, Client) {
    with(StoreConfig::default()).await
}

async fn with(config: StoreConfig) -> (Store, Client) {
    let store = Store::open_on(InMemoryBackend::new(), config).expect("memory holds");
    let client = client(&store);
    (store, client)
}

fn client(store: &Store) -> Client {
    Client::new(store.channel())
}

fn refusal<T: std::fmt::Debug>(outcome: Result<T, Status>) -> (Code, String) {
    let status = outcome.expect_err("a refusal");
    (status.code(), status.message().to_owned())
}

/// That a key was written so often since it was created.
fn version(key: &str, version: i64) -> Compare {
    Compare::new(key, CompareResult::Equal, TargetUnion::Version(version))
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

async fn put(client: &mut Client, key: &str, value: &str) -> i64 {
    client.put((key, value)).await.expect("put").header.expect("a header").revision
}

async fn revision(client: &mut Client) -> i64 {
    client.get("/").await.expect("read").header.expect("a header").revision
}

#[tokio::test]
async fn an_empty_store_is_at_one_and_what_changes_nothing_makes_no_revision() {
    let (_store, mut client) = fresh().await;
    assert_eq!(revision(&mut client).await, 1);
    assert_eq!(put(&mut client, "a", "1").await, 2);
    assert_eq!(client.delete("b").await.expect("done").deleted, 0);
    assert_eq!(revision(&mut client).await, 2);
    let reading = txn([], [get("a").into(), delete("b").into()]);
    assert_eq!(client.txn(reading).await.expect("done").header.expect("a header").revision, 2);
    client.delete("a").await.expect("done");
    assert_eq!(put(&mut client, "a", "2").await, 4);
    let read = client.get("a").await.expect("read");
    let kv = &read.kvs[0];
    assert_eq!((kv.create_revision, kv.mod_revision, kv.version), (4, 4, 1), "a deleted key begins anew");
}

#[tokio::test]
async fn a_transaction_sees_its_own_changes_and_is_one_revision() {
    let (_store, mut client) = fresh().await;
    put(&mut client, "a", "1").await;
    let value = Compare::new("a", CompareResult::Equal, TargetUnion::Value(b"1".to_vec()));
    let nested = txn([version("b", 0)], [putting("c", "3").into()]);
    let then = [putting("b", "2").into(), get("").prefix().into(), nested.into(), delete("a").into()];
    let txn = TxnRequest { failure: vec![get("a").into()], ..txn([value, version("b", 0)], then) };
    let done = client.txn(txn.clone()).await.expect("done");
    assert!(done.succeeded);
    assert_eq!(done.header.expect("a header").revision, 3);
    let answers: Vec<Response> = done.responses.into_iter().filter_map(|answer| answer.response).collect();
    let [Response::ResponsePut(_), Response::ResponseRange(seen), Response::ResponseTxn(nested), Response::ResponseDeleteRange(gone)] =
        &answers[..]
    else {
        panic!("four answers")
    };
    assert_eq!((seen.count, seen.kvs[1].mod_revision, gone.deleted), (2, 3, 1));
    assert!(nested.succeeded, "compares of a nested transaction see the state before");
    let all = client.range(get("").prefix()).await.expect("read");
    let keys: Vec<_> = all.kvs.iter().map(|kv| (text(&kv.key), kv.mod_revision)).collect();
    assert_eq!(keys, [("b", 3), ("c", 3)]);
    let again = client.txn(txn).await.expect("done");
    assert!(!again.succeeded && again.header.expect("a header").revision == 3);
}

#[tokio::test]
async fn what_etcd_refuses_is_refused_with_its_words() {
    let (_store, mut client) = fresh().await;
    put(&mut client, "a", "1").await;
    let future = client.range(RangeRequest { revision: 9, ..get("a") }).await;
    assert_eq!(refusal(future), (Code::OutOfRange, "etcdserver: mvcc: required revision is a future revision".into()));
    assert_eq!(refusal(client.put(("", "1")).await), (Code::InvalidArgument, "etcdserver: key is not provided".into()));
    let ignoring = client.put(PutRequest { ignore_value: true, ..putting("b", "") }).await;
    assert_eq!(refusal(ignoring), (Code::InvalidArgument, "etcdserver: key not found".into()));
    let ignoring = client.put(PutRequest { ignore_value: true, ..putting("a", "x") }).await;
    assert_eq!(refusal(ignoring), (Code::InvalidArgument, "etcdserver: value is provided".into()));
    let leased = client.put(PutRequest { lease: 77, ..putting("a", "x") }).await;
    assert_eq!(refusal(leased), (Code::NotFound, "etcdserver: requested lease not found".into()));
    let twice = client.txn(txn([], [putting("a", "1").into(), putting("a", "2").into()])).await;
    assert_eq!(refusal(twice), (Code::InvalidArgument, "etcdserver: duplicate key given in txn request".into()));
    let many: Vec<RequestOp> = (0..129).map(|n| putting(n.to_string(), "").into()).collect();
    assert_eq!(refusal(client.txn(txn([], many)).await).1, "etcdserver: too many operations in txn request");
    let large = client.put(("a", vec![0; 1_600_000])).await;
    assert_eq!(refusal(large), (Code::InvalidArgument, "etcdserver: request is too large".into()));
    let larger = client.put(("a", vec![0; 3 << 20])).await;
    assert_eq!(refusal(larger).0, Code::ResourceExhausted);
    // A transaction that fails its checks half-way has changed nothing.
    let half = txn([], [putting("z", "").into(), RangeRequest { revision: 99, ..get("a") }.into()]);
    assert_eq!(refusal(client.txn(half).await).0, Code::OutOfRange);
    assert_eq!(revision(&mut client).await, 2);
}

#[tokio::test]
async fn compaction_keeps_what_is_needed_and_names_what_is_gone() {
    let (store, mut client) = fresh().await;
    for value in ["1", "2", "3"] {
        put(&mut client, "a", value).await;
    }
    put(&mut client, "b", "1").await;
    client.delete("b").await.expect("done");
    let compacted = (Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted".to_owned());
    client.compact(3, false).await.expect("done");
    assert_eq!(refusal(client.compact(3, false).await), compacted);
    assert_eq!(refusal(client.compact(9, false).await).1, "etcdserver: mvcc: required revision is a future revision");
    assert_eq!(refusal(client.range(RangeRequest { revision: 2, ..get("a") }).await), compacted);
    let at_3 = client.range(RangeRequest { revision: 3, ..get("a") }).await.expect("still there");
    assert_eq!(at_3.kvs[0].value, b"2");
    client.compact(6, true).await.expect("done");
    let state = store.service.shared.state().expect("open");
    let mut left = Vec::new();
    super::log::Log::scan(&state.log, 0, i64::MAX, |place, _| {
        left.push(place.main);
        true
    })
    .expect("readable");
    assert_eq!(left, [4, 6], "the newest of a, and b's end, which is at the compacted revision");
    let all = client.range(get("").prefix()).await.expect("read");
    assert_eq!((all.count, all.kvs[0].version), (1, 3));
    assert_eq!(put(&mut client, "b", "2").await, 7);
}

#[tokio::test]
async fn a_retention_compacts_unasked() {
    let config = StoreConfig { auto_compaction_retention: Duration::from_millis(200), ..StoreConfig::default() };
    let (_store, mut client) = with(config).await;
    let first = put(&mut client, "a", "1").await;
    put(&mut client, "a", "2").await;
    let begin = std::time::Instant::now();
    while client.range(RangeRequest { revision: first, ..get("a") }).await.is_ok() {
        assert!(begin.elapsed() < PATIENCE, "not compacted");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(client.get("a").await.expect("read").kvs[0].value, b"2");
}

#[tokio::test]
async fn a_lease_takes_its_keys_with_it() {
    let (_store, mut client) = fresh().await;
    let lease = client.grant(0, 60).await.expect("granted").id;
    for key in ["a", "b", "c"] {
        client.put(PutRequest { lease, ..putting(key, "1") }).await.expect("put");
    }
    put(&mut client, "c", "2").await;
    let asked = LeaseTimeToLiveRequest { id: lease, keys: true };
    let state = client.leases.lease_time_to_live(asked).await.expect("answered").into_inner();
    assert_eq!((state.granted_ttl, &state.keys[..]), (60, &[b"a".to_vec(), b"b".to_vec()][..]));
    assert_eq!(client.leases.lease_leases(LeaseLeasesRequest {}).await.expect("answered").into_inner().leases.len(), 1);
    let before = revision(&mut client).await;
    client.revoke(lease).await.expect("done");
    assert_eq!(revision(&mut client).await, before + 1, "all keys in one revision");
    let left = client.range(get("").prefix()).await.expect("read");
    assert_eq!((left.count, &left.kvs[0].key[..]), (1, &b"c"[..]));
    assert_eq!(refusal(client.revoke(lease).await).0, Code::NotFound);
    assert_eq!(client.leases.lease_time_to_live(asked).await.expect("answered").into_inner().ttl, -1);
}

#[tokio::test]
async fn a_lease_ends_unless_it_is_kept_alive() {
    let (_store, mut client) = fresh().await;
    // Where the machine stood still for longer than a lease, the one that was to be kept alive has ended too: that says nothing.
    let said = async { while !one_of_two_leases_ends(&mut client).await {} };
    tokio::time::timeout(PATIENCE, said).await.expect("leases that end when they should");
}

/// Whether the lease that was kept alive was so in time.
async fn one_of_two_leases_ends(client: &mut Client) -> bool {
    const TTL: Duration = Duration::from_secs(2);
    let begin = std::time::Instant::now();
    let (short, kept) = (client.grant(0, 1).await.expect("granted"), client.grant(0, 2).await.expect("granted"));
    assert_eq!((short.ttl, kept.ttl), (2, 2), "etcd grants no less");
    let mut renewed = begin;
    client.put(PutRequest { lease: short.id, ..putting("short", "") }).await.expect("put");
    client.put(PutRequest { lease: kept.id, ..putting("kept", "") }).await.expect("put");
    while client.get("short").await.expect("read").count == 1 {
        let asked = std::time::Instant::now();
        let left = client.keep_alive(kept.id).await.expect("asked").expect("answered").ttl;
        if renewed.elapsed() >= TTL {
            return false;
        }
        assert_eq!(left, 2);
        renewed = asked;
        assert!(begin.elapsed() < PATIENCE, "the lease does not end");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(begin.elapsed() >= TTL, "it ended after {:?}", begin.elapsed());
    let left = client.get("kept").await.expect("read").count;
    if renewed.elapsed() >= TTL {
        return false;
    }
    assert_eq!(left, 1);
    true
}

#[tokio::test]
async fn who_it_says_it_is() {
    let (store, mut client) = with(StoreConfig { client_urls: vec!["http://127.0.0.1:1".into()], ..StoreConfig::default() }).await;
    let status = client.status().await.expect("answered");
    assert!(status.version.starts_with("3.6."));
    assert_eq!(status.leader, status.header.expect("a header").member_id);
    let members = client.cluster.member_list(MemberListRequest::default()).await.expect("answered").into_inner();
    assert_eq!(members.members[0].client_ur_ls, ["http://127.0.0.1:1"]);
    assert!(client.maintenance.alarm(AlarmRequest::default()).await.expect("answered").into_inner().alarms.is_empty());
    assert_eq!(refusal(client.auth.auth_enable(AuthEnableRequest {}).await).0, Code::Unimplemented);
    let etcd = Etcd::embedded(store.channel());
    etcd.probe_capabilities().await;
    assert!(etcd.supports_progress());
}

#[tokio::test]
async fn over_tcp_it_is_the_same_store() {
    let (store, mut inside) = fresh().await;
    let listeners = Store::bind(&["127.0.0.1:0".parse().expect("an address")]).await.expect("a free port");
    let address = listeners[0].local_addr().expect("bound");
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let talking = async {
        let mut outside = Client::connect(&format!("http://{address}")).expect("a URL");
        assert_eq!(put(&mut outside, "a", "1").await, 2);
        assert_eq!(inside.get("a").await.expect("read").count, 1);
        let mut stream = outside.watch(watching("a")).await.expect("opened");
        assert!(stream.message().await.expect("open").expect("open").created);
        put(&mut inside, "a", "2").await;
        assert_eq!(stream.message().await.expect("open").expect("open").events.len(), 1);
        let large = outside.put(("a", vec![0; 3 << 20])).await;
        assert_eq!(refusal(large).1, "grpc: received message larger than max (3145745 vs. 2097152)");
        drop((stream, outside));
        stop.send(true).expect("serving");
    };
    let (served, ()) = tokio::join!(store.serve(listeners, stopped), talking);
    served.expect("no listener failed");
}
