//! What answers hold is bounded, whatever is asked.

use super::super::budget::{Account, TXN_ANSWER_BYTES_MAX};
use futures_util::FutureExt;

use super::watches::hear;
use super::*;
use proto::DeleteRangeRequest;

/// A store with so many keys of a megabyte.
async fn with_megabytes(count: usize) -> (Store, Client) {
    let (store, mut client) = fresh().await;
    client.kv = client.kv.max_decoding_message_size(usize::MAX);
    for n in 0..count {
        put(&mut client, &format!("k{n}"), &"x".repeat(1 << 20)).await;
    }
    (store, client)
}

fn all() -> RangeRequest {
    RangeRequest { key: b"k".to_vec(), range_end: b"l".to_vec(), ..Default::default() }
}

fn too_large<T: std::fmt::Debug>(outcome: Result<T, Status>) {
    assert_eq!(refusal(outcome), (Code::InvalidArgument, "etcdserver: request is too large".to_owned()));
}

#[tokio::test]
async fn a_transaction_shows_so_much_and_no_more() {
    let (_store, mut client) = with_megabytes(2).await;
    let ranges = |count: usize| (0..count).map(|_| RequestOp::from(all())).collect::<Vec<_>>();
    let nested = |inside: Vec<RequestOp>| vec![RequestOp::from(TxnRequest { success: inside, ..Default::default() })];
    let writing = |mut ops: Vec<RequestOp>| {
        ops.push(putting("other", "v").into());
        ops
    };
    let before = revision(&mut client).await;
    let large = TXN_ANSWER_BYTES_MAX / (2 << 20);
    for ops in [ranges(large), nested(ranges(large)), writing(ranges(large)), nested(writing(ranges(large)))] {
        too_large(client.txn(txn([], ops)).await);
    }
    // The branch that is not taken costs nothing.
    let other = TxnRequest { compare: vec![version("k0", 1)], success: ranges(1), failure: ranges(large) };
    assert_eq!(client.txn(other).await.expect("done").responses.len(), 1);
    assert_eq!(client.txn(txn([], ranges(8))).await.expect("done").responses.len(), 8);
    let counted = RangeRequest { count_only: true, ..all() };
    let few = RangeRequest { limit: 1, keys_only: true, ..all() };
    let cheap = (0..64).flat_map(|_| [counted.clone().into(), few.clone().into()]).collect::<Vec<RequestOp>>();
    assert_eq!(client.txn(txn([], cheap)).await.expect("done").responses.len(), 128);
    assert_eq!(revision(&mut client).await, before, "nothing of what was refused is done");
}

#[tokio::test]
async fn a_deletion_shows_so_much_and_no_more() {
    let (_store, mut client) = with_megabytes(TXN_ANSWER_BYTES_MAX / (1 << 20)).await;
    let delete = |prev_kv: bool| DeleteRangeRequest { key: b"k".to_vec(), range_end: b"l".to_vec(), prev_kv };
    too_large(client.kv.delete_range(delete(true)).await);
    // A range alone shows each key once, and may be larger.
    let read = client.range(all()).await.expect("read");
    assert_eq!(read.kvs.len() << 20, TXN_ANSWER_BYTES_MAX);
    assert_eq!(client.kv.delete_range(delete(false)).await.expect("done").into_inner().deleted << 20, TXN_ANSWER_BYTES_MAX as i64);
}

#[tokio::test]
async fn a_range_of_few_is_not_charged_for_all() {
    let (store, _client) = with_megabytes(8).await;
    let view = store.service.shared.state().expect("open");
    let weigh = |request: RangeRequest| view.view().weigh(&request) >> 20;
    assert_eq!(weigh(all()), 8);
    assert_eq!(weigh(RangeRequest { limit: 2, sort_target: 3, sort_order: 2, ..all() }), 2, "the newest two");
    assert_eq!(weigh(RangeRequest { limit: 2, sort_target: 4, sort_order: 2, ..all() }), 8, "all values are read to be sorted");
    assert_eq!(weigh(RangeRequest { limit: 2, ..all() }), 2);
    assert_eq!(weigh(RangeRequest { min_mod_revision: 9, ..all() }), 1, "those of the last revision");
    assert_eq!(weigh(RangeRequest { keys_only: true, ..all() }), 0);
}

#[tokio::test]
async fn an_account_gives_what_it_has_and_takes_it_back() {
    let account = Account::default();
    let part = account.hold_now(1 << 20).expect("there is room");
    let all = account.hold(usize::MAX);
    tokio::pin!(all);
    assert!(all.as_mut().now_or_never().is_none(), "what is larger than the budget waits until it is alone");
    assert!(account.hold_now(1 << 20).is_err(), "and is first in line");
    drop(part);
    let mut whole = all.await.expect("alone");
    assert!(account.hold_now(1 << 20).is_err());
    drop(account.hold_now(1 << 10).expect("what is small is counted apart"));
    whole.shrink(1 << 20);
    drop(account.hold_now(1 << 20).expect("what is not needed is given back"));
}

#[tokio::test]
async fn what_leases_show_is_charged() {
    let (store, mut client) = fresh().await;
    client.grant(1, 600).await.expect("granted");
    let keys = 4_000;
    for first in (0..keys).step_by(100) {
        let puts = (first..first + 100).map(|n| PutRequest { lease: 1, ..putting(format!("a key that has a lease {n}"), "") }.into());
        client.txn(txn([], puts.collect::<Vec<RequestOp>>())).await.expect("put");
    }
    let all = store.service.account.hold(usize::MAX).await;
    let mut held = Client::new(super::super::listen::channel_of(&store.service));
    let asked = LeaseTimeToLiveRequest { id: 1, keys: true };
    let refused = (Code::ResourceExhausted, "etcdserver: too many requests".to_owned());
    assert_eq!(refusal(held.leases.lease_time_to_live(asked).await), refused);
    assert_eq!(held.leases.lease_leases(LeaseLeasesRequest {}).await.expect("few").into_inner().leases.len(), 1);
    drop(all);
    assert_eq!(held.leases.lease_time_to_live(asked).await.expect("there is room").into_inner().keys.len(), keys);
}

#[tokio::test]
async fn a_watch_waits_for_room_and_loses_nothing() {
    let (store, mut client) = fresh().await;
    let all = store.service.account.hold(usize::MAX).await;
    let mut held = Client::new(super::super::listen::channel_of(&store.service));
    let mut watch = held.watch(watching("a")).await.expect("opened");
    assert!(hear(&mut watch).await.created);
    put(&mut client, "a", "small").await;
    assert_eq!(hear(&mut watch).await.events.len(), 1, "what is small does not wait for what is large");
    put(&mut client, "a", &"x".repeat(1 << 20)).await;
    put(&mut client, "a", "small").await;
    {
        let next = hear(&mut watch);
        tokio::pin!(next);
        assert!(next.as_mut().now_or_never().is_none());
    }
    drop(all);
    let mut seen = 0;
    while seen < 2 {
        seen += hear(&mut watch).await.events.len();
    }
}

#[tokio::test]
async fn the_ranges_of_watches_are_charged() {
    let (store, _client) = fresh().await;
    let mut held = Client::new(super::super::listen::channel_of(&store.service));
    let _all = store.service.account.take_for_watch(usize::MAX).expect("there is room");
    let mut watch = held.watch(watching("a")).await.expect("opened");
    let refused = hear(&mut watch).await;
    assert!(refused.created && refused.canceled, "{refused:?}");
    assert_eq!((refused.watch_id, &refused.cancel_reason[..]), (-1, "etcdserver: too many requests"));
}
