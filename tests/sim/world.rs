//! The scripted world: an etcd that answers watches and ranges, the real machine, the real cachers' state, and clients; one thread, no clock.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use cache::cacher::{Action, State};
use cache::dispatch::{GroupKey, GroupLimits, Pause, Start, Subscription};
use cache::feed::{
    machine::{Generation, LoadAt, Loaded, Machine, Out},
    ranges::cover,
};
use cache::state::{
    ring::RingLimits,
    snapshot::{Fed, Published},
};
use codec::{Encoder, ingest};
use model::{
    Broken, Feed, Filter, GivenUp, KeyChange, Object, Revision, Shape, Storage,
    selector::{LabelMatcher, LabelOp, LabelRequirement, LabelSelector},
};

use crate::{
    client::{Client, Over, Wish},
    random::Random,
    truth::{Line, value},
};

const PREFIX: &str = "/registry/";
const RESOURCES: [&str; 2] = ["configmaps", "services/specs"];

/// A history in the making.
pub(crate) struct World {
    random: Random,
    line: Line,
    compacted: u64,
    machine: Machine,
    fed: Arc<Fed>,
    cachers: Vec<Cacher>,
    encoder: Arc<Encoder>,
    watches: Vec<Sent>,
    loads: Vec<(usize, Generation, LoadAt)>,
    clients: Vec<Client>,
    now_ms: u64,
    pub(crate) tally: Tally,
}

/// For each watch: the first revision not yet sent, and what is left of a response that is sent in fragments.
type Sent = (u64, VecDeque<(Vec<KeyChange>, bool)>);

struct Cacher {
    storage: Arc<Storage>,
    prefix: String,
    state: State,
    published: Arc<Published>,
    queue: VecDeque<Feed>,
}

/// What a history had in it, so that a run can show that it tried everything.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) events: u64,
    pub(crate) bookmarks: u64,
    pub(crate) ended: u64,
    pub(crate) expired: u64,
    pub(crate) resumed: u64,
    pub(crate) restores: u64,
    pub(crate) compactions: u64,
    pub(crate) reloads: u64,
    pub(crate) exact: u64,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let fed = Arc::new(Fed::default());
        let limits = RingLimits { events_max: 3 + random.below(40), bytes_max: usize::MAX, window_ms: 50 };
        let gather = Pause { most_ms: random.below(30) as u64, each_us: 1_000 * random.below(30) as u64 };
        let groups = GroupLimits { frames_max: 1 + random.below(6), bytes_max: 1 << 20, gather };
        let held = [200, 2_000, 1 << 20][random.below(3)];
        let cachers = RESOURCES
            .iter()
            .map(|id| {
                let shape = Shape::BuiltIn { kind: "ConfigMap".into(), api_version: "v1".into() };
                let storage = Storage {
                    id: (*id).into(),
                    group: String::new(),
                    resource: (*id).to_owned(),
                    namespaced: true,
                    shape,
                    fields: Vec::new(),
                };
                let (state, published) = State::new(limits, groups, fed.clone());
                Cacher { storage: Arc::new(storage), prefix: format!("{PREFIX}{id}/"), state, published, queue: VecDeque::new() }
            })
            .collect();
        let ranges = cover(PREFIX, &["configmaps", "leases"]);
        let mut world = Self {
            watches: vec![(1, VecDeque::new()); ranges.len()],
            machine: Machine::new(PREFIX, ranges, held),
            random,
            line: Line { revision: 1, ..Line::default() },
            compacted: 0,
            fed,
            cachers,
            encoder: Arc::new(Encoder::built_in("v1", "ConfigMap", "ConfigMapList", "")),
            loads: Vec::new(),
            clients: Vec::new(),
            now_ms: 0,
            tally: Tally::default(),
        };
        (0..world.random.below(20)).for_each(|_| world.write());
        let mut out = Vec::new();
        for index in 0..RESOURCES.len() {
            world.machine.add(world.cachers[index].storage.clone(), None, &mut out);
        }
        let base = 1 + world.random.below(world.line.revision as usize) as u64;
        world.machine.start(Revision(base), Revision(world.line.revision), &mut out);
        world.perform(out);
        world.fed.advance(world.machine.fed());
        world.open();
        world
    }

    /// One random thing happens.
    pub(crate) fn act(&mut self) {
        self.now_ms += self.random.below(20) as u64;
        match self.random.below(100) {
            0..=24 => self.write(),
            25..=49 => self.deliver(),
            50..=53 => self.progress(),
            54..=56 => self.open_again(),
            57 => self.compacted = self.compacted.max(self.random.below(self.line.revision as usize) as u64),
            58..=62 => self.load(),
            63..=74 => self.keep(),
            75 => self.tick(),
            76 if self.random.below(2) == 0 => self.give_up(),
            76 => self.reload(),
            77 if self.random.below(4) == 0 => self.restore(),
            78..=82 => self.subscribe(),
            83..=84 => self.leave(),
            85..=87 => self.look(),
            88..=89 => {
                self.wake_late();
            }
            _ => self.step(),
        }
    }

    /// Everything that is on its way arrives; then nothing may be missing anywhere.
    pub(crate) fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 200, "the world does not settle");
            (0..self.watches.len()).for_each(|index| while self.send(index, usize::MAX) {});
            let loading = !self.loads.is_empty();
            while !self.loads.is_empty() {
                self.load();
            }
            self.progress();
            let queued = self.cachers.iter().any(|k| !k.queue.is_empty());
            (0..self.cachers.len()).for_each(|index| self.keep_one(index, usize::MAX));
            self.now_ms += 1_000;
            let late = self.wake_late();
            let mut stepped = false;
            for index in 0..self.clients.len() {
                for _ in 0..1_000 {
                    if !self.clients[index].is_awake() {
                        break;
                    }
                    stepped = true;
                    self.clients[index].step(&self.line, 1 << 20, None);
                }
            }
            if !queued && !stepped && !loading && !late {
                break;
            }
        }
        for (index, resource) in RESOURCES.iter().enumerate() {
            let known = self.cachers[index].published.known();
            assert_eq!(known.revision.0, self.line.revision, "Fresh: everything has arrived, and {resource} is known");
            self.compare(index);
        }
        let mut clients = std::mem::take(&mut self.clients);
        clients.iter_mut().for_each(|client| client.settle(&self.line));
        clients.iter().for_each(|client| self.count(client));
    }

    fn write(&mut self) {
        let mut writes = Vec::new();
        let many = if self.random.below(5) == 0 { 1 + self.random.below(5) } else { 1 };
        for _ in 0..many {
            let resource = ["configmaps", "configmaps", "services/specs", "nobody"][self.random.below(4)];
            let key = format!("{PREFIX}{resource}/ns{}/o{}", self.random.below(2), self.random.below(5));
            let app = [None, Some('a'), Some('b')][self.random.below(3)];
            let write = (self.random.below(4) > 0).then_some(app);
            if writes.iter().all(|(k, _)| *k != key) {
                writes.push((key, write));
            }
        }
        self.line.commit(writes);
    }

    /// A part of what some watch has to send arrives.
    fn deliver(&mut self) {
        let index = self.random.below(self.watches.len());
        let revisions = 1 + self.random.below(4);
        self.send(index, revisions);
    }

    /// Sends the next message of a watch; whether there was one.
    fn send(&mut self, index: usize, revisions: usize) -> bool {
        if self.watches[index].1.is_empty() {
            let range = self.machine.watches().nth(index).expect("a watch").1.clone();
            let from = self.watches[index].0;
            if from > self.line.revision {
                return false;
            }
            let mut events = Vec::new();
            let mut upto = from;
            for (revision, changes) in self.line.log.range(from..).take(revisions) {
                upto = revision + 1;
                events.extend(changes.iter().filter(|c| range.contains(c.key.as_bytes())).map(|c| c.event(*revision)));
            }
            self.watches[index].0 = upto;
            if events.is_empty() {
                return true;
            }
            while self.random.below(3) == 0 && events.len() > 1 {
                let rest = events.split_off(1 + self.random.below(events.len() - 1));
                self.watches[index].1.push_back((std::mem::replace(&mut events, rest), true));
            }
            self.watches[index].1.push_back((events, false));
        }
        let (events, more) = self.watches[index].1.pop_front().expect("just filled");
        let mut out = Vec::new();
        self.machine.saw(Revision(self.line.revision));
        self.machine.events(index, events, more, &mut out);
        self.perform(out);
        true
    }

    /// etcd tells how far it is: for one watch that is synced, or for all when all are.
    fn progress(&mut self) {
        let synced = |(next, parts): &(u64, VecDeque<_>)| *next > self.line.revision && parts.is_empty();
        let one = self.random.below(self.watches.len());
        let mut out = Vec::new();
        let index = if self.watches.iter().all(synced) { None } else { Some(one) };
        if index.is_none_or(|one| synced(&self.watches[one])) {
            let now = Revision(self.line.revision);
            self.machine.saw(now);
            self.machine.progress(index, now, &mut out);
        }
        self.perform(out);
    }

    /// The stream breaks and is opened again; what was compacted meanwhile is loaded anew.
    fn open_again(&mut self) {
        self.machine.reconnected();
        self.open();
    }

    fn open(&mut self) {
        let starts: Vec<u64> = self.machine.watches().map(|(_, _, start)| start.0).collect();
        for (index, start) in starts.into_iter().enumerate() {
            self.watches[index] = (start, VecDeque::new());
            if start <= self.compacted {
                self.tally.compactions += 1;
                let mut out = Vec::new();
                self.machine.restart_range(index, Revision(self.line.revision), &mut out);
                self.watches[index].0 = self.line.revision + 1;
                self.perform(out);
            }
        }
    }

    /// A load that is under way comes to its end.
    fn load(&mut self) {
        if self.loads.is_empty() {
            return;
        }
        let (index, generation, at) = self.loads.swap_remove(self.random.below(self.loads.len()));
        let revision = match at {
            LoadAt::Exactly(revision) => revision.0,
            LoadAt::Newest => self.line.revision,
        };
        let id = self.cachers[index].storage.id.clone();
        let mut out = Vec::new();
        if revision < self.compacted || revision > self.line.revision {
            self.machine.load_failed(&id, generation, &mut out);
        } else {
            let (objects, broken) = self.objects(index, revision);
            self.machine.loaded(&id, generation, Loaded { revision: Revision(revision), objects, broken }, &mut out);
        }
        self.perform(out);
    }

    fn objects(&self, index: usize, revision: u64) -> (Vec<Arc<Object>>, Vec<Broken>) {
        let cacher = &self.cachers[index];
        let state = self.line.at(revision);
        let own = state.iter().filter(|(key, _)| key.starts_with(&cacher.prefix));
        let object = |(key, version): (&String, &crate::truth::Version)| {
            let bytes = value(key, *version);
            let made = ingest(&cacher.storage, cacher.prefix.len(), Bytes::from(key.clone()), bytes.as_bytes(), Revision(version.revision));
            Arc::new(made.expect("what we write can be read"))
        };
        (own.map(object).collect(), Vec::new())
    }

    /// Carries out what the machine decided, in the driver's order.
    fn perform(&mut self, out: Vec<Out>) {
        for one in out {
            match one {
                Out::Hand(id, feeds) => {
                    let index = RESOURCES.iter().position(|r| **r == *id).expect("a resource");
                    let last = feeds.last().expect("something is handed").revision();
                    for feed in feeds {
                        self.cachers[index].queue.push_back(feed);
                        if self.random.below(4) == 0 {
                            // The cacher runs while the rest is still to come.
                            self.keep_one(index, usize::MAX);
                            self.compare(index);
                        }
                    }
                    self.cachers[index].published.handed(last);
                }
                Out::Withhold(id) => self.cachers.iter().find(|k| k.storage.id == id).expect("a cacher").published.withhold(),
                Out::Void(id, epoch) => self.cachers.iter().find(|k| k.storage.id == id).expect("a cacher").published.void_before(epoch),
                Out::Load(id, generation, at) => {
                    let index = RESOURCES.iter().position(|r| **r == *id).expect("a resource");
                    self.loads.push((index, generation, at));
                }
                Out::Fed(revision) => self.fed.advance(revision),
                Out::HeldTooMuch(_) | Out::Compacted(_) => {}
            }
        }
    }

    fn keep(&mut self) {
        let (index, many) = (self.random.below(self.cachers.len()), 1 + self.random.below(5));
        self.keep_one(index, many);
    }

    fn keep_one(&mut self, index: usize, many: usize) {
        let cacher = &mut self.cachers[index];
        let many = many.min(cacher.queue.len());
        if many > 0 {
            let messages = cacher.queue.drain(..many).collect();
            cacher.state.apply(Action::Fed(messages), self.now_ms);
        }
    }

    /// The clock of those who wait for more events: whether it was time for any.
    fn wake_late(&mut self) -> bool {
        let now_ms = self.now_ms;
        let due: Vec<_> = self.cachers.iter_mut().filter(|k| k.state.late_at_ms().is_some_and(|at| at <= now_ms)).collect();
        let any = !due.is_empty();
        for cacher in due {
            cacher.state.apply(Action::Late, now_ms);
        }
        any
    }

    fn tick(&mut self) {
        let now_ms = self.now_ms;
        self.cachers.iter_mut().for_each(|k| {
            k.state.apply(Action::Tick, now_ms);
        });
    }

    /// Memory is short, or not any more.
    fn give_up(&mut self) {
        let given_up = GivenUp::ALL[self.random.below(GivenUp::ALL.len())];
        let given_up = if self.random.below(2) == 0 { GivenUp::Nothing } else { given_up };
        let now_ms = self.now_ms;
        self.cachers.iter_mut().for_each(|k| {
            k.state.apply(Action::GiveUp(given_up), now_ms);
        });
    }

    /// A cacher did not keep up.
    fn reload(&mut self) {
        self.tally.reloads += 1;
        let id = self.cachers[self.random.below(self.cachers.len())].storage.id.clone();
        let mut out = Vec::new();
        self.machine.reload(&id, &mut out);
        self.perform(out);
    }

    /// etcd is restored from a backup: the machine is told, as the driver tells it after its check.
    fn restore(&mut self) {
        self.tally.restores += 1;
        self.clients.iter_mut().for_each(|client| client.read(&self.line));
        let back = 1 + self.random.below(self.line.revision as usize) as u64;
        self.line = self.line.restored(back);
        self.compacted = self.compacted.min(back.saturating_sub(1));
        (0..self.random.below(3)).for_each(|_| self.write());
        let mut out = Vec::new();
        let newest = Revision(self.line.revision);
        self.machine.start(newest, newest, &mut out);
        self.perform(out);
        self.fed.rewind(newest, self.machine.newest());
        self.open_again();
    }

    fn subscribe(&mut self) {
        if self.clients.len() > 12 {
            return;
        }
        let resource = self.random.below(RESOURCES.len());
        let wish = Wish {
            resource,
            namespace: (self.random.below(3) == 0).then(|| format!("ns{}", self.random.below(2))),
            name: (self.random.below(5) == 0).then(|| format!("o{}", self.random.below(5))),
            app: [None, Some('a'), Some('b')][self.random.below(3)],
        };
        let known = self.cachers[resource].published.known().revision.0;
        let from = match self.random.below(4) {
            0 => Some(known + self.random.below(6) as u64),
            1 => Some(known.saturating_sub(self.random.below(30) as u64)),
            _ => None,
        };
        self.watch(wish, from);
    }

    /// A watch from a revision, or with the initial objects.
    fn watch(&mut self, wish: Wish, from: Option<u64>) {
        let cacher = &self.cachers[wish.resource];
        if !cacher.published.known().is_ready() {
            return;
        }
        let cacher = &mut self.cachers[wish.resource];
        let key = GroupKey { representation: "v1/configmaps".into(), filter: filter(&wish).into() };
        let group = cacher.state.subscribe(key, self.encoder.clone());
        let epoch = cacher.published.known().snapshot.epoch;
        if self.random.below(3) == 0 {
            // Things happen between the group and the snapshot.
            let many = 1 + self.random.below(3);
            self.keep_one(wish.resource, many);
        }
        let cacher = &self.cachers[wish.resource];
        let known = cacher.published.known();
        if known.snapshot.epoch != epoch {
            return;
        }
        let k = known.revision.0;
        if from.is_some_and(|n| n > k && n <= known.lost.0) {
            // The plan refuses it: those revisions are of an etcd that is no more.
            return;
        }
        let start = match from {
            Some(revision) => Start::After(Revision(revision)),
            None => Start::Initial { known, prefix: Bytes::from(cacher.prefix.clone()), annotated: true },
        };
        let subscription = Subscription::new(cacher.published.clone(), &group, epoch, start);
        self.clients.push(Client::new(wish, &self.line, subscription, &cacher.prefix, from.is_none(), from.unwrap_or(k)));
    }

    fn leave(&mut self) {
        if !self.clients.is_empty() {
            let client = self.clients.swap_remove(self.random.below(self.clients.len()));
            self.count(&client);
        }
    }

    fn step(&mut self) {
        if self.clients.is_empty() {
            return;
        }
        let index = self.random.below(self.clients.len());
        let bookmark = if self.random.below(3) == 0 { self.clients[index].bookmark_candidate() } else { None };
        if bookmark.is_some() && self.random.below(2) == 0 {
            self.keep();
        }
        let budget = [1, 300, 1 << 20][self.random.below(3)];
        let client = &mut self.clients[index];
        if client.is_awake() || bookmark.is_some() {
            client.step(&self.line, budget, bookmark);
        }
        if let Some(over) = self.clients[index].over {
            let client = self.clients.swap_remove(index);
            self.count(&client);
            let resume = over == Over::Cleanly && self.random.below(2) == 0 && client.is_of(&self.line);
            self.tally.resumed += u64::from(resume);
            self.watch(client.wish.clone(), resume.then_some(client.seen));
        }
    }

    fn count(&mut self, client: &Client) {
        self.tally.events += client.judged.0;
        self.tally.bookmarks += client.judged.1;
        self.tally.ended += u64::from(client.over == Some(Over::Cleanly));
        self.tally.expired += u64::from(client.over == Some(Over::Expired));
    }

    /// A reader looks: the snapshot is the truth at K, and exact revisions are the past.
    fn look(&mut self) {
        let index = self.random.below(self.cachers.len());
        self.compare(index);
    }

    fn compare(&mut self, index: usize) {
        let cacher = &self.cachers[index];
        let known = cacher.published.known();
        if !known.is_ready() {
            return;
        }
        let snapshot = |store: &cache::state::store::Store| -> Vec<(String, u64)> {
            store.scan(b"/", b"").map(|o| (String::from_utf8_lossy(o.key()).into_owned(), o.revision.0)).collect()
        };
        let truth = |revision: u64| -> Vec<(String, u64)> {
            let state = self.line.at(revision).into_iter();
            state.filter(|(key, _)| key.starts_with(&cacher.prefix)).map(|(key, v)| (key, v.revision)).collect()
        };
        assert_eq!(snapshot(&known.snapshot.store), truth(known.revision.0), "Together, Fresh: the snapshot known at {}", known.revision);
        let floor = known.snapshot.ring.floor().0;
        let at = floor + self.random.below((known.revision.0 - floor + 1) as usize) as u64;
        let exact = known.snapshot.exact(Revision(at)).expect("at or above the floor");
        assert_eq!(snapshot(&exact), truth(at), "the exact snapshot at {at}");
        self.tally.exact += 1;
    }
}

fn filter(wish: &Wish) -> Filter {
    let requirements =
        wish.app.map(|app| LabelRequirement { key: "app".into(), op: LabelOp::In(vec![app.to_string().into()]) }).into_iter().collect();
    Filter {
        namespace: wish.namespace.as_deref().map(Into::into),
        name: wish.name.as_deref().map(Into::into),
        labels: LabelMatcher::new(&LabelSelector { requirements }),
        ..Filter::default()
    }
}
