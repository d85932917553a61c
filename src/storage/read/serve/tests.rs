//! Pages of a scan: where they end, what they say is left, and how long they keep their thread.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    time::Instant,
};

use super::*;
use crate::read::{target::RequestScope, yielder::SCAN_TIME};
use model::{test_object_of, test_object_with};
use registry::test_resource;

const OBJECTS: u64 = 20_000;

fn target(labels: &str) -> Target {
    let requested = RequestScope { namespace: None, name: None, labels, fields: "", shard: None };
    let resource = Arc::new(test_resource("", "configmaps"));
    Target::collection(resource, "/registry/", &requested, || Ok(())).unwrap_or_else(|refused| panic!("{refused:?}"))
}

/// A page, how often its scan let others run, and how long it kept its thread at a time: mostly, and at most.
async fn scanned(target: &Target, store: &Store, limit: Option<u64>) -> (Page, u32, Duration, Duration) {
    let mut page = pin!(target.page((Epoch(1), Revision(1)), store, None, limit));
    let mut held = Vec::new();
    let page = poll_fn(|cx| {
        let began = Instant::now();
        let polled = page.as_mut().poll(cx);
        held.push(began.elapsed());
        polled
    });
    let page = page.await;
    held.sort_unstable();
    (page, held.len() as u32 - 1, held[held.len() / 2], held[held.len() - 1])
}

fn store() -> Store {
    let labels = [("app", "web"), ("k17", "x"), ("k8999", "y"), ("tier", "front")];
    Store::from_objects((0..OBJECTS).map(|n| Arc::new(test_object_with(&format!("o{n:06}"), n + 1, &labels, &[]))).collect())
}

/// Two lists of 200,000 objects by 9,000 requirements made everybody wait for 0.3 to 2.5 s: a scan let go of its thread after 8,192 objects, however
/// long they took.
#[tokio::test]
async fn a_scan_rests_by_the_clock() {
    let store = store();
    let long = (0..9_000).map(|n| format!("k{n}!=z")).collect::<Vec<_>>().join(",");
    let (page, rests, mostly, at_most) = scanned(&target(&long), &store, None).await;
    assert_eq!((page.objects.len() as u64, page.last), (OBJECTS, None));
    // The machine may be busy with other things for long, but not each time.
    assert!(rests > 0 && mostly < SCAN_TIME * 5, "{rests} rests, {mostly:?} at a time, {at_most:?} at most");
}

#[tokio::test]
async fn a_page_ends_where_it_did() {
    let (store, everything) = (store(), target(""));
    let key = |n: u64| Some(format!("/registry/configmaps/ns/o{n:06}").into_bytes());
    for limit in [1, 255, 256, 257, OBJECTS - 1] {
        let (page, ..) = scanned(&everything, &store, Some(limit)).await;
        assert_eq!((page.objects.len() as u64, page.last, page.remaining), (limit, key(limit - 1), Some(OBJECTS - limit)));
    }
    let (page, ..) = scanned(&everything, &store, Some(OBJECTS)).await;
    assert_eq!((page.objects.len() as u64, page.last, page.remaining), (OBJECTS, None, None));
    // The last key looked at, which is not the last that matches.
    let (page, ..) = scanned(&target("k17=x,!none"), &store, Some(3)).await;
    assert_eq!((page.objects.len(), page.last, page.remaining), (3, key(2), None));
    let (page, ..) = scanned(&target("k17=z"), &store, Some(3)).await;
    assert_eq!((page.objects.len(), page.last, page.remaining), (0, None, None));
}

/// What is left is counted once, and then told from page to page.
#[tokio::test]
async fn every_page_says_what_is_left() {
    let (mut store, everything) = (store(), target(""));
    store.put(Arc::new(test_object_of("/registry/configmaps/other/a", 1, &[], &[])));
    let requested = RequestScope { namespace: Some("ns"), name: None, labels: "", fields: "", shard: None };
    let namespace = Target::collection(everything.resource.clone(), "/registry/", &requested, || Ok(()))
        .unwrap_or_else(|refused| panic!("{refused:?}"));
    for (list, objects, counts) in [(&everything, OBJECTS + 1, 0), (&namespace, OBJECTS, 1)] {
        let (mut start, mut shown, mut counted) = (None::<String>, 0, 0);
        let at = (Epoch(1), Revision(OBJECTS));
        while shown < objects {
            let from = [&list.base[..], start.as_deref().unwrap_or("").as_bytes()].concat();
            let is_told = list.resource.handle.published.counted(list.place(at, &from)).is_some();
            counted += u64::from(!is_told && store.count_at_once(&list.prefix, &from).is_none());
            let page = list.page(at, &store, start.as_deref(), Some(1_500)).await;
            shown += page.objects.len() as u64;
            assert_eq!(page.remaining, Some(objects - shown).filter(|left| *left > 0));
            start = page.last.map(|last| format!("{}\0", String::from_utf8_lossy(&last[list.base.len()..])));
        }
        // Those before the last page, which is too short to be told.
        assert_eq!(counted, counts + 1);
    }
}
