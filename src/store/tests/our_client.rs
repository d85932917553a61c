//! The store through our own etcd client, as `serve` uses it.

use super::*;
use ::model::Revision;
use etcd::{EtcdError, RangeRequest, WatchKind};

#[tokio::test]
async fn reads_watches_progress_and_the_end() {
    let (store, mut raw) = fresh().await;
    let etcd = Etcd::embedded(store.channel());
    for n in 0..5 {
        put(&mut raw, &format!("/a/{n}"), "v").await;
    }
    let all = RangeRequest { key: b"/a/".to_vec(), end: b"/a0".to_vec(), ..RangeRequest::default() };
    let page = etcd.range(RangeRequest { limit: 3, ..all.clone() }).await.expect("read");
    assert_eq!((page.kvs.len(), page.more, page.count, page.header.revision), (3, true, 5, Revision(6)));
    let header = etcd.current(b"/a").await.expect("read");
    assert_eq!(header, page.header);

    let (mut asking, mut hearing) = etcd.open_watch().await.expect("opened");
    asking.create(1, b"/a/", b"/a0", Revision(4)).await.expect("sent");
    asking.create(2, b"/b/", b"/b0", Revision(7)).await.expect("sent");
    let mut heard = Vec::new();
    put(&mut raw, "/b/1", "v").await;
    while heard.len() < 4 {
        let message = hearing.message().await.expect("no error").expect("open");
        if let WatchKind::Events { events, more: false } = message.kind {
            heard.extend(events.into_iter().map(|event| (message.watch_id, event.revision)));
        }
    }
    heard.sort_unstable();
    assert_eq!(heard, [(1, Revision(4)), (1, Revision(5)), (1, Revision(6)), (2, Revision(7))]);
    asking.request_progress().await.expect("sent");
    let progress = hearing.message().await.expect("no error").expect("open");
    assert_eq!((progress.watch_id, progress.kind, progress.header.revision), (-1, WatchKind::Progress, Revision(7)));

    etcd.compact(Revision(5)).await.expect("done");
    assert_eq!(etcd.compact(Revision(5)).await, Err(EtcdError::Compacted));
    assert_eq!(etcd.range(RangeRequest { revision: Some(Revision(4)), ..all.clone() }).await, Err(EtcdError::Compacted));
    assert_eq!(etcd.range(RangeRequest { revision: Some(Revision(99)), ..all.clone() }).await, Err(EtcdError::Future));
    asking.create(3, b"/a/", b"/a0", Revision(4)).await.expect("sent");
    assert_eq!(hearing.message().await.expect("no error").expect("open").kind, WatchKind::Created);
    let canceled = hearing.message().await.expect("no error").expect("open");
    assert_eq!(canceled.kind, WatchKind::Canceled { compacted: Some(Revision(5)), reason: String::new() });

    store.close().await;
    assert!(matches!(hearing.message().await, Err(EtcdError::Unavailable(_))));
    assert_eq!(etcd.range(all).await, Err(EtcdError::Unavailable("etcdserver: server stopped: closed".into())));
}
