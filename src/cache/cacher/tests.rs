//! A cacher without its loop: what is applied, and what readers and watchers then see.

use std::task::Waker;

use bytes::Bytes;

use super::*;
use crate::dispatch::{Start, Step, Subscription};
use model::test_object;
use model::{Broken, Change, Filter, Stored};

struct Bench {
    state: State,
    published: Arc<Published>,
    fed: Arc<Fed>,
}

impl Bench {
    /// Loaded, empty, at 10.
    fn live() -> Self {
        let fed = Arc::new(Fed::default());
        let limits = RingLimits { events_max: 100, bytes_max: usize::MAX, window_ms: 0 };
        let (state, published) = State::new(limits, GroupLimits::default(), fed.clone());
        let mut bench = Self { state, published, fed };
        bench.hand(vec![reset(1, 10)]);
        bench
    }

    fn hand(&mut self, messages: Vec<Feed>) -> ApplyStats {
        let last = messages.last().map(Feed::revision).expect("something is handed");
        let done = self.state.apply(Action::Fed(messages), 0);
        self.published.handed(last);
        self.fed.advance(last);
        done
    }

    /// A watch of everything, live after `seen`.
    fn watch(&mut self, seen: u64) -> Subscription {
        let key = GroupKey { representation: "v1/configmaps".into(), filter: Filter::default().into() };
        let encoder = Arc::new(Encoder::built_in("v1", "ConfigMap", "ConfigMapList", ""));
        let group = self.state.subscribe(key, encoder);
        Subscription::new(self.published.clone(), &group, self.published.known().snapshot.epoch, Start::After(Revision(seen)))
    }
}

fn reset(epoch: u64, revision: u64) -> Feed {
    let (revision, objects, broken) = (Revision(revision), Vec::new(), Vec::new());
    Feed::Reset { epoch: Epoch(epoch), revision, ready_at: revision, objects, broken }
}

fn batch(revision: u64, change: Change) -> Feed {
    Feed::Batch(Batch { revision: Revision(revision), changes: vec![change] })
}

fn put(name: &str, revision: u64) -> Feed {
    batch(revision, Change::Put(Arc::new(test_object(name, revision))))
}

fn broken(name: &str, revision: u64) -> Feed {
    let key = Bytes::from(format!("/registry/configmaps/ns/{name}"));
    batch(revision, Change::Broken(Broken { key, revision: Revision(revision), why: "not JSON".to_owned(), known_part: None }))
}

/// Everything up to the next pause: how many frames, and what then.
fn drain(watch: &mut Subscription) -> (usize, Step) {
    let mut out = Vec::new();
    loop {
        match watch.step(usize::MAX, &mut out, Waker::noop()) {
            Step::More => {}
            step => return (out.len(), step),
        }
    }
}

#[test]
fn what_is_applied_is_heard_and_seen() {
    let mut bench = Bench::live();
    let mut watch = bench.watch(10);
    assert_eq!(drain(&mut watch), (0, Step::Pending));
    assert_eq!(bench.hand(vec![put("a", 11), put("b", 13)]), ApplyStats { events: 2, loads: 0, broken: 0 });
    assert_eq!(drain(&mut watch), (2, Step::Pending));
    let known = bench.published.known();
    assert_eq!((known.revision, known.snapshot.store.len()), (Revision(13), 2));
    bench.fed.advance(Revision(20));
    assert_eq!(bench.published.known().revision, Revision(20), "nothing of this resource came until 20");
}

/// A definition of 1.2 MB took the feed's thread for so long that events of other resources waited.
#[test]
fn a_large_value_is_made_servable_here() {
    let mut bench = Bench::live();
    let mut watch = bench.watch(10);
    assert_eq!(drain(&mut watch), (0, Step::Pending));
    let stored = |name: &str, revision: u64, value: &str| {
        let key = Bytes::from(format!("/registry/configmaps/ns/{name}"));
        let (storage, value) = (Arc::new(Storage::test_config_maps()), Bytes::copy_from_slice(value.as_bytes()));
        let prefix_len = "/registry/configmaps/".len();
        Change::Stored(Stored { storage, prefix_len, key, value, revision: Revision(revision) })
    };
    let value = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"ns","uid":"u"}}"#;
    assert_eq!(bench.hand(vec![batch(11, stored("a", 11, value)), put("b", 12)]).events, 2);
    assert_eq!(drain(&mut watch), (2, Step::Pending));
    let snapshot = bench.published.known().snapshot;
    assert_eq!(snapshot.store.find(b"/registry/configmaps/ns/a").map(|object| object.revision), Some(Revision(11)));
    assert_eq!(bench.hand(vec![batch(13, stored("a", 13, "{"))]).broken, 1);
    assert_eq!((drain(&mut watch), bench.published.known().snapshot.broken.len()), ((0, Step::Ended), 1));
}

#[test]
fn a_reset_ends_what_was_before_it() {
    let mut bench = Bench::live();
    let mut watch = bench.watch(10);
    assert_eq!(drain(&mut watch), (0, Step::Pending));
    bench.hand(vec![put("a", 11)]);
    // Even with a change before it in the same turn: nothing is made up, the watch ends after what it was given.
    assert_eq!(bench.hand(vec![put("b", 12), reset(2, 15), put("c", 16)]), ApplyStats { events: 2, loads: 1, broken: 0 });
    assert_eq!(drain(&mut watch), (1, Step::Ended));
    assert_eq!(drain(&mut watch), (0, Step::Ended));
    let known = bench.published.known();
    assert_eq!((known.snapshot.epoch, known.snapshot.store.len(), known.snapshot.ring.floor()), (Epoch(2), 1, Revision(15)));
    assert_eq!(drain(&mut bench.watch(15)), (1, Step::Pending));
    assert_eq!(drain(&mut bench.watch(14)), (0, Step::Expired { seen: Revision(14), floor: Revision(15) }));
}

#[test]
fn a_value_that_cannot_be_shown_ends_the_streams() {
    let mut bench = Bench::live();
    let mut watch = bench.watch(10);
    assert_eq!(drain(&mut watch), (0, Step::Pending));
    bench.hand(vec![broken("a", 11), put("b", 12)]);
    assert_eq!(drain(&mut watch), (0, Step::Ended));
    assert_eq!(bench.published.known().snapshot.broken.len(), 1);
    bench.hand(vec![put("a", 13)]);
    assert!(bench.published.known().snapshot.broken.is_empty());
    assert_eq!(drain(&mut bench.watch(12)), (0, Step::Expired { seen: Revision(12), floor: Revision(13) }), "12 was not shown");
    assert_eq!(drain(&mut bench.watch(13)), (0, Step::Pending));
}

#[test]
fn watches_end_when_somebody_else_answers() {
    let mut bench = Bench::live();
    let mut watch = bench.watch(10);
    assert_eq!(drain(&mut watch), (0, Step::Pending));
    bench.hand(vec![put("a", 11)]);
    bench.state.apply(Action::End, 0);
    assert_eq!(drain(&mut watch), (1, Step::Ended));
    // It can be taken up again where it ended.
    bench.hand(vec![put("b", 12)]);
    assert_eq!(drain(&mut bench.watch(11)), (1, Step::Pending));
}

/// A resource may come when memory is short already.
#[tokio::test]
async fn a_new_cacher_is_told_what_is_given_up() {
    let (giving_up, given_up) = sync::watch::channel(GivenUp::Nothing);
    giving_up.send_replace(GivenUp::Blocks);
    let limits = RingLimits { events_max: 1, bytes_max: 1, window_ms: 0 };
    let metrics = Arc::new(telemetry::Metrics::new().resource("", "configmaps"));
    let storage = Arc::new(Storage::test_config_maps());
    let (mut cacher, _handle, _inbox) =
        cacher(storage, limits, GroupLimits::default(), Arc::new(Fed::default()), given_up.clone(), metrics);
    let mut tick = tokio::time::interval(TIDY_EVERY);
    // The first tick is due, too.
    let told = [cacher.select(&mut tick).await, cacher.select(&mut tick).await];
    assert!(told.iter().flatten().any(|action| matches!(action, Action::GiveUp(GivenUp::Blocks))));
}

#[test]
fn a_tick_forgets_groups_nobody_is_in() {
    let mut bench = Bench::live();
    let watch = bench.watch(10);
    bench.state.apply(Action::Tick, 0);
    assert_eq!(bench.state.dispatcher.groups(), 1);
    drop(watch);
    bench.state.apply(Action::Tick, 0);
    assert_eq!(bench.state.dispatcher.groups(), 0);
}

/// As long as the cacher did something else, a watch that began kept all that it was made of.
#[tokio::test(start_paused = true)]
async fn a_watch_waits_for_its_group_so_long() {
    let began = tokio::time::Instant::now();
    let (asks, mut asked) = mpsc::channel(1);
    let (_, published) = State::new(RingLimits { events_max: 1, bytes_max: 1, window_ms: 0 }, GroupLimits::default(), Arc::default());
    let storage = Arc::new(Storage::test_config_maps());
    let handle = Handle { storage, included: None, published, since: Instant::now(), asks, ends: Arc::default() };
    let key = || GroupKey { representation: "v1/configmaps".into(), filter: Filter::default().into() };
    let encoder = Arc::new(Encoder::built_in("v1", "ConfigMap", "ConfigMapList", ""));
    let limit = Duration::from_secs(60);
    assert!(matches!(handle.subscribe(key(), encoder.clone(), limit).await, Err(NoGroup::Busy)));
    assert!(matches!(handle.subscribe(key(), encoder.clone(), limit).await, Err(NoGroup::Busy)), "not even its question was taken");
    assert_eq!(began.elapsed(), 2 * limit);
    asked.close();
    assert!(matches!(handle.subscribe(key(), encoder, limit).await, Err(NoGroup::Gone(_))));
}
