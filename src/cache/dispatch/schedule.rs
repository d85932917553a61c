//! Bookmarks, schedule by schedule: after one at K no event at or below K comes, and every one has come.
//!
//! Run by `cargo test --package watchcache-cache --features shuttle --lib schedule`; see `cache::schedule` for what shuttle cannot show. A group's lock is held
//! for no longer than one step, so the explorer changes threads around it, never inside.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64 as Count, Ordering::Relaxed},
    },
    task::Waker,
};

use shuttle::{
    Config, Runner,
    rand::{Rng, thread_rng},
    scheduler::{PctScheduler, RandomScheduler, Scheduler},
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
};

use super::{Dispatcher, GroupKey, Start, Step, Subscription};
use crate::state::{
    resource::ResourceState,
    ring::RingLimits,
    snapshot::{Fed, Published},
};
use codec::Encoder;
use model::{Batch, Change, Epoch, Filter, Revision, test_object};

const LAST: u64 = 6;
const RIGHT_RANDOM: usize = 100_000;
const RIGHT_PCT: usize = 50_000;
const PLANTED: usize = 4_000;

#[derive(Clone, Copy, PartialEq)]
enum Keeping {
    Right,
    /// The snapshot is published before the groups' logs are written.
    PublishedFirst,
}

#[derive(Clone, Copy, PartialEq)]
enum Marking {
    Right,
    /// The revision is read after the log was drained.
    ReadLast,
}

/// A place where the explorer may change threads.
fn turn() {
    AtomicU64::new(0).load(Ordering::SeqCst);
}

fn keep(queue: &mpsc::Receiver<Batch>, resource: &mut ResourceState, dispatcher: &mut Dispatcher, published: &Published, keeping: Keeping) {
    while let Ok(batch) = queue.recv() {
        let readable = resource.applied();
        let events = resource.apply(&batch, 0).events;
        if keeping == Keeping::PublishedFirst {
            published.publish(resource.snapshot());
            turn();
        }
        let wake = dispatcher.dispatch(&events, readable, 0);
        turn();
        published.publish(resource.snapshot());
        wake.now();
    }
}

fn revision_of(frame: &[u8]) -> u64 {
    let text = std::str::from_utf8(frame).expect("JSON");
    let (_, rest) = text.split_once("\"resourceVersion\":\"").expect("every object has one");
    rest.split('"').next().and_then(|digits| digits.parse().ok()).expect("digits")
}

/// Takes what there is and marks, a few times. `ours` are the revisions that changed the resource. Returns the first lie.
fn watch(mut subscription: Subscription, ours: &[u64], marking: Marking) -> Option<String> {
    let (mut heard, mut marked) = (Vec::new(), 0);
    for _ in 0..4 {
        let early = subscription.bookmark_candidate();
        turn();
        let mut out = Vec::new();
        while subscription.step(1, &mut out, Waker::noop()) == Step::More {
            turn();
        }
        turn();
        let candidate = if marking == Marking::ReadLast { subscription.bookmark_candidate() } else { early };
        for revision in out.iter().map(|frame| revision_of(frame)) {
            if revision <= marked || heard.last().is_some_and(|last| revision <= *last) {
                return Some(format!("{revision} after {heard:?} and a bookmark at {marked}"));
            }
            heard.push(revision);
        }
        if let Some(at) = candidate.filter(|at| subscription.bookmark(*at)) {
            marked = at.0;
            let want: Vec<u64> = ours.iter().copied().filter(|r| *r <= marked).collect();
            if !heard.starts_with(&want) {
                return Some(format!("a bookmark at {marked} after {heard:?}, of {ours:?}"));
            }
        }
    }
    None
}

fn life(keeping: Keeping, marking: Marking, lies: Option<&Arc<Count>>) {
    let mut rng = thread_rng();
    let ours: Vec<u64> = (2..=LAST).filter(|_| rng.gen_range(0..3) > 0).collect();
    let fed = Arc::new(Fed::default());
    let mut resource = ResourceState::new(RingLimits { events_max: 100, bytes_max: usize::MAX, window_ms: 0 });
    resource.reset(Epoch(1), Revision(1), Revision(1), Vec::new(), Vec::new());
    let published = Arc::new(Published::new(resource.snapshot(), fed.clone()));
    published.handed(Revision(1));
    let mut dispatcher = Dispatcher::default();
    let encoder = Arc::new(Encoder::built_in("v1", "ConfigMap", "ConfigMapList", ""));
    let group =
        dispatcher.group(GroupKey { representation: "v1/configmaps".into(), filter: Filter::default().into() }, encoder, Revision(1));
    let members: Vec<_> = (0..2)
        .map(|_| {
            let subscription = Subscription::new(published.clone(), &group, Epoch(1), Start::After(Revision(1)));
            let (ours, lies) = (ours.clone(), lies.cloned());
            thread::spawn(move || match (watch(subscription, &ours, marking), lies) {
                (Some(_), Some(lies)) => drop(lies.fetch_add(1, Relaxed)),
                (Some(lie), None) => panic!("{lie}"),
                (None, _) => {}
            })
        })
        .collect();
    let (queue, incoming) = mpsc::channel();
    let cacher = {
        let published = published.clone();
        thread::spawn(move || keep(&incoming, &mut resource, &mut dispatcher, &published, keeping))
    };
    for revision in 2..=LAST {
        if ours.contains(&revision) {
            let change = Change::Put(Arc::new(test_object("a", revision)));
            queue.send(Batch { revision: Revision(revision), changes: vec![change] }).expect("the cacher outlives the feed");
            published.handed(Revision(revision));
        }
        fed.advance(Revision(revision));
    }
    drop(queue);
    cacher.join().expect("the cacher ends with the feed");
    for member in members {
        member.join().expect("a member looks a few times and ends");
    }
}

fn explore(scheduler: impl Scheduler + 'static, keeping: Keeping, marking: Marking, lies: Option<Arc<Count>>) {
    let mut config = Config::new();
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(move || life(keeping, marking, lies.as_ref()));
}

#[test]
fn a_bookmark_is_the_end_of_what_it_covers() {
    explore(RandomScheduler::new(RIGHT_RANDOM), Keeping::Right, Marking::Right, None);
    explore(PctScheduler::new(3, RIGHT_PCT), Keeping::Right, Marking::Right, None);
}

#[test]
fn every_wrong_order_is_seen() {
    let planted = [
        ("published before the logs", Keeping::PublishedFirst, Marking::Right),
        ("the revision read after draining", Keeping::Right, Marking::ReadLast),
    ];
    for (what, keeping, marking) in planted {
        let lies = Arc::new(Count::new(0));
        explore(RandomScheduler::new(PLANTED), keeping, marking, Some(lies.clone()));
        assert!(lies.load(Relaxed) > 0, "{what}: not seen in {PLANTED} schedules");
    }
}
