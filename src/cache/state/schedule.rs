//! The order fed / handed / Snapshot, schedule by schedule: a snapshot known at K is the truth at K.
//!
//! Run by `cargo test --package watchcache-cache --features shuttle --lib schedule`. Shuttle treats every atomic as SeqCst: what is explored is the order of
//! the steps, not what a weaker ordering would allow (Release on the stores and Acquire on the loads, in program order, is what makes them these steps). The
//! snapshot is swapped in one step (`sync`), the queue is shuttle's; `Notify` only wakes and decides nothing.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use shuttle::{
    Config, Runner,
    rand::{Rng, thread_rng},
    scheduler::{PctScheduler, RandomScheduler, Scheduler},
    sync::mpsc,
    thread,
};

use super::{
    resource::ResourceState,
    ring::RingLimits,
    snapshot::{Fed, Known, Published},
};
use model::{Batch, Change, Epoch, Feed, Revision, test_object};

/// Newest revision of a history: long enough for two loads with changes between them, short enough for many.
const LAST: u64 = 7;
const RIGHT_RANDOM: usize = 200_000;
const RIGHT_PCT: usize = 100_000;
const PLANTED: usize = 4_000;

/// What the feed does, and the mistakes it could make.
#[derive(Clone, Copy, PartialEq)]
enum Feeding {
    Right,
    FedBeforeHanded,
    /// No mistake: a snapshot without what was announced is below `handed`, and so nothing is inferred from `fed`.
    HandedBeforeSent,
    /// After a load, `handed` follows every held change by itself: `fed` is already past them.
    HeldOneByOne,
    /// `handed` stays where it was while a load is under way.
    NotWithheld,
}

/// What a reader does, and the mistakes it could make.
#[derive(Clone, Copy, PartialEq)]
enum Reading {
    Right,
    /// `handed` and the snapshot first, then `fed`.
    FedLast,
    /// Never looks at `handed`.
    NotHanded,
}

/// Objects by name, with their revision.
type State = BTreeMap<String, u64>;

/// What etcd does: for each revision the change of this resource, if any, and the state after it.
struct Truth {
    changes: Vec<Option<(String, bool)>>,
    states: Vec<State>,
}

impl Truth {
    fn random() -> Self {
        let mut rng = thread_rng();
        let (mut changes, mut states) = (vec![None; 2], vec![State::new(); 2]);
        for revision in 2..=LAST {
            let mut state = states.last().expect("two are there").clone();
            let change = (rng.gen_range(0..3) > 0).then(|| (format!("o{}", rng.gen_range(0..2)), rng.gen_range(0..4) > 0));
            match &change {
                Some((name, true)) => drop(state.insert(name.clone(), revision)),
                Some((name, false)) => drop(state.remove(name)),
                None => {}
            }
            changes.push(change);
            states.push(state);
        }
        Self { changes, states }
    }

    fn batch(&self, revision: u64) -> Option<Feed> {
        let (name, alive) = self.changes[usize::try_from(revision).expect("small")].as_ref()?;
        let change = if *alive {
            Change::Put(Arc::new(test_object(name, revision)))
        } else {
            Change::Delete(Bytes::from(format!("/registry/configmaps/ns/{name}")))
        };
        Some(Feed::Batch(Batch { revision: Revision(revision), changes: vec![change] }))
    }

    fn reset(&self, epoch: u64, revision: u64) -> Feed {
        let state = &self.states[usize::try_from(revision).expect("small")];
        let objects = state.iter().map(|(name, at)| Arc::new(test_object(name, *at))).collect();
        Feed::Reset { epoch: Epoch(epoch), revision: Revision(revision), ready_at: Revision(revision), objects, broken: Vec::new() }
    }
}

/// Hands messages over as `cacher::Inbox` does.
struct Hand {
    queue: mpsc::Sender<Feed>,
    published: Arc<Published>,
    feeding: Feeding,
}

impl Hand {
    fn over(&self, messages: Vec<Feed>) {
        let Some(last) = messages.last().map(Feed::revision) else { return };
        if self.feeding == Feeding::HandedBeforeSent {
            self.published.handed(last);
        }
        for message in messages {
            let revision = message.revision();
            self.queue.send(message).expect("the cacher outlives the feed");
            if self.feeding == Feeding::HeldOneByOne {
                self.published.handed(revision);
            }
        }
        self.published.handed(last);
    }

    fn withhold(&self) {
        if self.feeding != Feeding::NotWithheld {
            self.published.withhold();
        }
    }
}

/// As the machine decides: changes are held while a load is under way, a load may be newer than what the watch has brought.
fn feed(truth: &Truth, hand: &Hand, fed: &Fed) {
    let mut rng = thread_rng();
    let (mut epoch, mut upto) = (0, 0);
    let mut loading = Some((1, Vec::new()));
    for revision in 2..=LAST {
        if hand.feeding == Feeding::FedBeforeHanded {
            fed.advance(Revision(revision));
        }
        if let Some(batch) = truth.batch(revision).filter(|_| revision > upto) {
            match &mut loading {
                Some((_, held)) => held.push(batch),
                None => hand.over(vec![batch]),
            }
        }
        fed.advance(Revision(revision));
        loading = match loading.take() {
            Some((began, held)) if rng.gen_range(0..2) == 0 => {
                epoch += 1;
                upto = rng.gen_range(began..=LAST.min(revision + 1));
                let mut messages = vec![truth.reset(epoch, upto)];
                messages.extend(held.into_iter().filter(|b| b.revision() > Revision(upto)));
                hand.over(messages);
                None
            }
            None if rng.gen_range(0..4) == 0 => {
                hand.withhold();
                // Read after the watch was at least there, and never below an earlier load.
                Some((revision.max(upto), Vec::new()))
            }
            other => other,
        };
    }
}

fn keep(queue: &mpsc::Receiver<Feed>, resource: &mut ResourceState, published: &Published) {
    while let Ok(message) = queue.recv() {
        match message {
            Feed::Reset { epoch, revision, ready_at, objects, broken } => resource.reset(epoch, revision, ready_at, objects, broken),
            Feed::Batch(batch) => drop(resource.apply(&batch, 0)),
        }
        published.publish(resource.snapshot());
    }
}

fn look(published: &Published, reading: Reading) -> Known {
    let known = published.known();
    let revision = match reading {
        Reading::Right => known.revision,
        Reading::FedLast if known.revision > known.snapshot.applied => published.fed().revision(),
        Reading::FedLast => known.revision,
        Reading::NotHanded => known.snapshot.applied.max(published.fed().revision()),
    };
    Known { revision, ..known }
}

/// What is wrong with what a reader was told.
fn lie(truth: &Truth, known: &Known, before: (Epoch, Revision)) -> Option<String> {
    let at = (known.snapshot.epoch, known.snapshot.applied);
    if at < before {
        return Some(format!("{at:?} after {before:?}"));
    }
    if known.snapshot.epoch == Epoch(0) {
        return (known.revision > Revision::ZERO).then(|| format!("known at {} before the first load", known.revision));
    }
    let shown: State = known.snapshot.store.scan(b"/", b"").map(|o| (o.name().to_owned(), o.revision.0)).collect();
    let want = usize::try_from(known.revision.0).ok().and_then(|at| truth.states.get(at));
    (want != Some(&shown)).then(|| format!("known at {}: {shown:?} is not {want:?}", known.revision))
}

/// One short life of a resource; lies are counted when they are expected, else the schedule that led to them is printed.
fn life(feeding: Feeding, reading: Reading, lies: Option<&Arc<AtomicU64>>) {
    let truth = Arc::new(Truth::random());
    let fed = Arc::new(Fed::default());
    let mut resource = ResourceState::new(RingLimits { events_max: 100, bytes_max: usize::MAX, window_ms: 0 });
    let published = Arc::new(Published::new(resource.snapshot(), fed.clone()));
    let (queue, incoming) = mpsc::channel();
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (truth, published, lies) = (truth.clone(), published.clone(), lies.cloned());
            thread::spawn(move || {
                let mut before = (Epoch(0), Revision::ZERO);
                for _ in 0..4 {
                    let known = look(&published, reading);
                    match (lie(&truth, &known, before), &lies) {
                        (Some(_), Some(lies)) => drop(lies.fetch_add(1, Ordering::Relaxed)),
                        (Some(lie), None) => panic!("{lie}"),
                        (None, _) => {}
                    }
                    before = (known.snapshot.epoch, known.snapshot.applied);
                }
            })
        })
        .collect();
    let cacher = {
        let published = published.clone();
        thread::spawn(move || keep(&incoming, &mut resource, &published))
    };
    let hand = Hand { queue, published, feeding };
    feed(&truth, &hand, &fed);
    drop(hand);
    cacher.join().expect("the cacher ends with the feed");
    for reader in readers {
        reader.join().expect("a reader looks a few times and ends");
    }
}

fn explore(scheduler: impl Scheduler + 'static, feeding: Feeding, reading: Reading, lies: Option<Arc<AtomicU64>>) {
    let mut config = Config::new();
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(move || life(feeding, reading, lies.as_ref()));
}

#[test]
fn what_is_known_is_true() {
    explore(RandomScheduler::new(RIGHT_RANDOM), Feeding::Right, Reading::Right, None);
}

#[test]
fn what_is_known_is_true_when_a_thread_is_starved() {
    explore(PctScheduler::new(3, RIGHT_PCT), Feeding::Right, Reading::Right, None);
}

#[test]
fn announcing_before_sending_does_no_harm() {
    explore(RandomScheduler::new(PLANTED * 10), Feeding::HandedBeforeSent, Reading::Right, None);
}

#[test]
fn every_wrong_order_is_seen() {
    let planted = [
        ("fed before handed", Feeding::FedBeforeHanded, Reading::Right),
        ("what was held is handed one by one", Feeding::HeldOneByOne, Reading::Right),
        ("not withheld during a load", Feeding::NotWithheld, Reading::Right),
        ("fed loaded last", Feeding::Right, Reading::FedLast),
        ("handed not looked at", Feeding::Right, Reading::NotHanded),
    ];
    for (what, feeding, reading) in planted {
        let lies = Arc::new(AtomicU64::new(0));
        explore(RandomScheduler::new(PLANTED), feeding, reading, Some(lies.clone()));
        assert!(lies.load(Ordering::Relaxed) > 0, "{what}: not seen in {PLANTED} schedules");
    }
}
