//! What the machine decides, as data: messages and loads go in, lines come out.

use bytes::Bytes;

use super::*;
use model::Shape;

/// A feed of three resources over two ranges and the compactor's key.
struct Bench {
    machine: Machine,
    out: Vec<Out>,
    /// Loads asked for and not yet answered, by resource: the newest generation last.
    loads: Vec<(String, Generation)>,
}

const LEFT: usize = 0;
const RIGHT: usize = 1;
const COMPACTOR: usize = 2;

impl Bench {
    /// Everything is to be loaded at `base`, and ready at `newest`.
    fn starting(base: u64, newest: u64, held_bytes_max: usize) -> Self {
        let range = |start: &str, end: &str| KeyRange { start: start.into(), end: end.into() };
        let ranges = vec![
            range("/registry/", "/registry/m"),
            range("/registry/m", "/registry0"),
            KeyRange { start: COMPACT_REV_KEY.into(), end: Vec::new() },
        ];
        let mut bench = Self { machine: Machine::new("/registry/", ranges, held_bytes_max), out: Vec::new(), loads: Vec::new() };
        for id in ["configmaps", "pods", "secrets"] {
            bench.machine.add(storage(id), None, &mut bench.out);
        }
        bench.machine.start(Revision(base), Revision(newest), &mut bench.out);
        bench
    }

    /// Loaded, empty, at 10.
    fn live() -> Self {
        let mut bench = Self::starting(10, 10, usize::MAX);
        let _ = bench.lines();
        for id in ["configmaps", "pods", "secrets"] {
            bench.load(id, 10);
        }
        let _ = bench.lines();
        bench
    }

    fn events(&mut self, index: usize, events: &[(&str, u64)], more: bool) -> &mut Self {
        let events = events.iter().map(|(key, revision)| event(key, *revision)).collect();
        self.changes(index, events, more)
    }

    fn progress(&mut self, index: Option<usize>, revision: u64) -> &mut Self {
        self.machine.progress(index, Revision(revision), &mut self.out);
        self
    }

    fn changes(&mut self, index: usize, changes: Vec<KeyChange>, more: bool) -> &mut Self {
        self.machine.events(index, changes, more, &mut self.out);
        self
    }

    /// Answers the newest load of a resource, with nothing in it.
    fn load(&mut self, id: &str, revision: u64) -> &mut Self {
        let _ = self.collect();
        let at = self.loads.iter().rposition(|(of, _)| of == id).expect("a load was asked for");
        let (_, generation) = self.loads.remove(at);
        self.answer(id, generation, revision)
    }

    fn answer(&mut self, id: &str, generation: Generation, revision: u64) -> &mut Self {
        let loaded = Loaded { revision: Revision(revision), objects: Vec::new(), broken: Vec::new() };
        self.machine.loaded(&id.into(), generation, loaded, &mut self.out);
        self
    }

    /// Remembers the loads that wait to be carried out.
    fn collect(&mut self) -> &mut Self {
        for one in &self.out {
            if let Out::Load(id, generation, _) = one
                && !self.loads.iter().any(|(_, g)| g == generation)
            {
                self.loads.push((id.to_string(), *generation));
            }
        }
        self
    }

    /// What came out since the last call.
    fn lines(&mut self) -> Vec<String> {
        self.collect();
        self.out.drain(..).flat_map(|one| lines(&one)).collect()
    }

    fn check(&mut self, want: &[&str]) {
        assert_eq!(self.lines(), want);
    }
}

/// What is handed over as one is joined by " + ". A void resource is left out: it comes with every start.
fn lines(out: &Out) -> Option<String> {
    Some(match out {
        Out::Hand(id, feeds) => feeds.iter().map(|feed| handed(id, feed)).collect::<Vec<_>>().join(" + "),
        Out::Void(..) => return None,
        Out::Withhold(id) => format!("{id} withheld"),
        Out::HeldTooMuch(id) => format!("{id} held too much"),
        Out::Load(id, _, LoadAt::Newest) => format!("{id} load newest"),
        Out::Load(id, _, LoadAt::Exactly(at)) => format!("{id} load {at}"),
        Out::Fed(revision) => format!("fed {revision}"),
        Out::Compacted(revision) => format!("compacted {revision}"),
    })
}

fn handed(id: &str, feed: &Feed) -> String {
    match feed {
        Feed::Reset { revision, ready_at, .. } => format!("{id} reset {revision} ready {ready_at}"),
        Feed::Batch(batch) => {
            let keys: Vec<String> =
                batch.changes.iter().map(|c| String::from_utf8_lossy(key(c)).rsplit('/').next().unwrap_or("").to_owned()).collect();
            format!("{id} {} {}", batch.revision, keys.join(","))
        }
    }
}

fn key(change: &Change) -> &[u8] {
    match change {
        Change::Put(object) => object.key(),
        Change::Delete(key) => key,
        Change::Broken(broken) => &broken.key,
        Change::Stored(stored) => &stored.key,
    }
}

fn storage(id: &str) -> Arc<Storage> {
    let shape = Shape::BuiltIn { kind: "ConfigMap".to_owned(), api_version: "v1".to_owned() };
    Arc::new(Storage { id: id.into(), group: String::new(), resource: id.to_owned(), namespaced: true, shape, fields: Vec::new() })
}

/// A put of `configmaps/a` is under `/registry/configmaps/ns/a`; `-configmaps/a` is its deletion.
fn event(what: &str, revision: u64) -> KeyChange {
    let (path, gone) = what.strip_prefix('-').map_or((what, false), |path| (path, true));
    let (id, name) = path.split_once('/').expect("resource/name");
    let value = format!(r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"ns","uid":"u"}}}}"#);
    KeyChange { key: format!("/registry/{id}/ns/{name}").into(), value: (!gone).then(|| value.into()), revision: Revision(revision) }
}

fn compactor(value: &'static str, revision: u64) -> KeyChange {
    KeyChange { key: Bytes::from_static(COMPACT_REV_KEY), value: Some(Bytes::from_static(value.as_bytes())), revision: Revision(revision) }
}

#[test]
fn a_start_loads_everything_at_its_base() {
    let mut bench = Bench::starting(10, 20, usize::MAX);
    bench.check(&["configmaps withheld", "configmaps load 10", "pods withheld", "pods load 10", "secrets withheld", "secrets load 10"]);
    let from: Vec<u64> = bench.machine.watches().map(|(_, _, start)| start.0).collect();
    assert_eq!(from, [11, 11, 11]);
    bench.load("pods", 10).check(&["pods reset 10 ready 20"]);
    assert!(bench.machine.is_loading());
}

#[test]
fn fed_is_the_least_of_the_watches() {
    let mut bench = Bench::live();
    bench.events(LEFT, &[("configmaps/a", 12)], false).check(&["configmaps 12 a"]);
    bench.progress(Some(RIGHT), 15).check(&[]);
    bench.progress(Some(COMPACTOR), 14).check(&["fed 12"]);
    bench.progress(None, 20).check(&["fed 20"]);
    bench.progress(None, 19).check(&[]);
    assert_eq!(bench.machine.fed(), Revision(20));
}

#[test]
fn a_fragment_keeps_its_last_revision_until_it_is_whole() {
    let mut bench = Bench::live();
    bench.progress(Some(RIGHT), 30).progress(Some(COMPACTOR), 30).check(&[]);
    bench.events(LEFT, &[("configmaps/a", 11), ("configmaps/b", 12)], true).check(&["configmaps 11 a", "fed 11"]);
    // Even a fragment without events, and one that is all of one revision, go on holding.
    bench.events(LEFT, &[], true).check(&[]);
    bench.events(LEFT, &[("configmaps/c", 12)], true).check(&[]);
    bench.progress(Some(LEFT), 30).check(&[]);
    bench.events(LEFT, &[("-configmaps/d", 12), ("configmaps/e", 13)], false).check(&["configmaps 12 b,c,d", "configmaps 13 e", "fed 13"]);
}

#[test]
fn half_a_revision_is_forgotten_with_its_stream() {
    let mut bench = Bench::live();
    bench.events(LEFT, &[("configmaps/a", 11), ("configmaps/b", 12)], true).check(&["configmaps 11 a"]);
    bench.machine.reconnected();
    let from: Vec<u64> = bench.machine.watches().map(|(_, _, start)| start.0).collect();
    assert_eq!(from, [12, 11, 11]);
    bench.events(LEFT, &[("configmaps/b", 12), ("configmaps/c", 12)], false).check(&["configmaps 12 b,c"]);
}

#[test]
fn what_came_before_is_not_handed_again() {
    let mut bench = Bench::live();
    bench.events(LEFT, &[("configmaps/a", 12)], false).check(&["configmaps 12 a"]);
    bench.events(LEFT, &[("configmaps/a", 12), ("configmaps/b", 13)], false).check(&["configmaps 13 b"]);
}

#[test]
fn one_revision_goes_to_each_keeper_whole() {
    let mut bench = Bench::live();
    let mixed = [("pods/a", 12), ("secrets/s", 12), ("-pods/b", 12), ("secrets/t", 12), ("pods/c", 12), ("pods/c", 13)];
    bench.events(RIGHT, &mixed, false).check(&["pods 12 a,b,c", "secrets 12 s,t", "pods 13 c"]);
    bench.events(LEFT, &[("configmaps/x", 12), ("configmaps/y", 12)], false).check(&["configmaps 12 x,y"]);
    bench.progress(Some(COMPACTOR), 12).check(&["fed 12"]);
}

/// The feed made a definition of 1.2 MB servable itself, and what came behind it waited.
#[test]
fn a_large_value_is_left_to_its_keeper_in_its_place() {
    let mut bench = Bench::live();
    let mut events: Vec<KeyChange> = [("pods/a", 12), ("pods/b", 12), ("pods/c", 13)].map(|(key, at)| event(key, at)).into();
    events[1].value = Some(vec![b' '; LARGE_BYTES].into());
    bench.changes(RIGHT, events, false);
    let handed = bench.out.iter().filter_map(|out| if let Out::Hand(_, feeds) = out { Some(feeds) } else { None });
    let stored: Vec<Vec<bool>> = handed
        .flatten()
        .map(|feed| {
            let Feed::Batch(batch) = feed else { panic!("nothing is loaded") };
            batch.changes.iter().map(|change| matches!(change, Change::Stored(_))).collect()
        })
        .collect();
    assert_eq!(stored, [vec![false, true], vec![false]]);
    bench.check(&["pods 12 a,b", "pods 13 c"]);
}

#[test]
fn a_load_drops_what_it_has_and_keeps_what_follows() {
    let mut bench = Bench::live();
    bench.machine.reload(&"pods".into(), &mut bench.out);
    bench.check(&["pods withheld", "pods load newest"]);
    bench.events(RIGHT, &[("pods/a", 11), ("pods/b", 12), ("secrets/s", 12), ("pods/c", 13)], false).check(&["secrets 12 s"]);
    bench.progress(None, 13).check(&["fed 13"]);
    bench.load("pods", 12).check(&["pods reset 12 ready 12 + pods 13 c"]);
    bench.events(RIGHT, &[("pods/d", 14)], false).check(&["pods 14 d"]);
}

#[test]
fn a_load_may_be_ahead_of_the_watch() {
    let mut bench = Bench::live();
    bench.machine.reload(&"pods".into(), &mut bench.out);
    bench.load("pods", 20).check(&["pods withheld", "pods load newest", "pods reset 20 ready 20"]);
    bench.events(RIGHT, &[("pods/a", 15), ("pods/b", 20), ("pods/c", 21)], false).check(&["pods 21 c"]);
}

#[test]
fn a_late_load_means_nothing() {
    let mut bench = Bench::live();
    bench.machine.reload(&"pods".into(), &mut bench.out);
    bench.machine.reload(&"pods".into(), &mut bench.out);
    let _ = bench.lines();
    let stale = bench.loads[0].1;
    bench.answer("pods", stale, 12).check(&[]);
    bench.machine.load_failed(&"pods".into(), stale, &mut bench.out);
    bench.check(&[]);
    bench.load("pods", 13).check(&["pods reset 13 ready 13"]);
    bench.answer("pods", stale, 14).check(&[]);
    bench.machine.remove("pods");
    bench.events(RIGHT, &[("pods/a", 15)], false).check(&[]);
    assert_eq!(bench.machine.unknown_keys(), 1);
}

#[test]
fn a_failed_load_begins_again_and_is_as_ready_as_before() {
    let mut bench = Bench::starting(10, 20, usize::MAX);
    let _ = bench.lines();
    let generation = bench.loads[1].1;
    bench.machine.load_failed(&"pods".into(), generation, &mut bench.out);
    bench.check(&["pods withheld", "pods load newest"]);
    bench.load("pods", 15).check(&["pods reset 15 ready 20"]);
}

#[test]
fn too_much_held_is_loaded_again() {
    let mut bench = Bench::starting(10, 10, 1_500);
    let _ = bench.lines();
    let many: Vec<(String, u64)> = (11..40).map(|r| (format!("pods/p{r}"), r)).collect();
    let mut rounds = 0;
    for (key, revision) in &many {
        bench.events(RIGHT, &[(key, *revision)], false);
        let lines = bench.lines();
        if !lines.is_empty() {
            assert_eq!(lines, ["pods held too much", "pods withheld", "pods load newest"]);
            rounds += 1;
        }
    }
    assert!(rounds > 1, "29 pods are more than 1,500 bytes, several times");
    bench.load("pods", 39).check(&["pods reset 39 ready 39"]);
}

#[test]
fn a_compacted_range_is_loaded_anew_alone() {
    let mut bench = Bench::live();
    bench.progress(Some(LEFT), 50).progress(Some(COMPACTOR), 50);
    bench.events(RIGHT, &[("pods/a", 12), ("secrets/s", 13)], true).check(&["pods 12 a", "fed 12"]);
    assert!(bench.machine.restart_range(RIGHT, Revision(40), &mut bench.out).is_some_and(|r| r.contains(b"/registry/pods/")));
    bench.check(&["pods withheld", "pods load newest", "secrets withheld", "secrets load newest", "fed 40"]);
    // What was half received is in the load.
    bench.events(RIGHT, &[("pods/b", 41)], false).check(&["fed 41"]);
    bench.load("pods", 40).check(&["pods reset 40 ready 40 + pods 41 b"]);
    bench.load("secrets", 41).check(&["secrets reset 41 ready 41"]);
    assert!(bench.machine.restart_range(9, Revision(40), &mut bench.out).is_none());
}

#[test]
fn what_was_compacted_is_told() {
    let mut bench = Bench::live();
    bench.changes(COMPACTOR, vec![compactor("1234", 11)], false).check(&["compacted 1234"]);
    bench.changes(COMPACTOR, vec![compactor("0", 12)], false).check(&[]);
    bench.changes(COMPACTOR, vec![compactor("x", 13)], false).check(&[]);
    assert_eq!(bench.machine.unknown_keys(), 0);
}

#[test]
fn keys_of_no_resource_are_counted_and_advance_the_feed() {
    let mut bench = Bench::live();
    bench.progress(Some(RIGHT), 20).progress(Some(COMPACTOR), 20);
    bench.events(LEFT, &[("bananas/a", 11), ("configmaps/a", 11), ("configmapsx/a", 11)], false).check(&["configmaps 11 a", "fed 11"]);
    assert_eq!(bench.machine.unknown_keys(), 2);
}

#[test]
fn the_witness_is_the_last_whole_change() {
    let mut bench = Bench::live();
    assert_eq!(bench.machine.last_change(), None);
    bench.events(LEFT, &[("configmaps/a", 12), ("-configmaps/b", 13)], true);
    assert_eq!(bench.machine.last_change().map(|w| w.revision), Some(Revision(12)));
    bench.events(LEFT, &[], false);
    let last_change = bench.machine.last_change().expect("changes came");
    assert_eq!((&last_change.key[..], last_change.revision, &last_change.value), (&b"/registry/configmaps/ns/b"[..], Revision(13), &None));
    bench.events(RIGHT, &[("pods/a", 12)], false);
    assert_eq!(bench.machine.last_change().map(|w| w.revision), Some(Revision(13)));
}

/// etcd was restored from a backup at 5 while we were at 12: the revisions of the new life are smaller, and none of them is lost.
#[test]
fn a_new_life_forgets_the_revisions_of_the_old_one() {
    let mut bench = Bench::live();
    bench.events(RIGHT, &[("pods/a", 12)], false).check(&["pods 12 a"]);
    bench.machine.start(Revision(5), Revision(5), &mut bench.out);
    let _ = bench.lines();
    bench.events(RIGHT, &[("pods/b", 6)], false).check(&[]);
    bench.load("pods", 5).check(&["pods reset 5 ready 5 + pods 6 b"]);
    bench.progress(None, 6).check(&["fed 6"]);
}

/// A resource that is kept of some namespaces: the others' changes are none, and everything else goes on.
#[test]
fn what_is_in_other_namespaces_is_not_handed_over() {
    let mut bench = Bench::live();
    bench.machine.remove("pods");
    let included = Some(Arc::new(Included::new(["a".to_owned(), "ab".to_owned()])));
    bench.machine.add(storage("pods"), included, &mut bench.out);
    bench.load("pods", 10);
    let _ = bench.lines();
    let put = |key: &str, revision: u64| KeyChange { key: format!("/registry/{key}").into(), ..event("pods/p", revision) };
    let first = ["pods/a/x", "pods/b/y", "pods/ab/z", "pods/abc/n", "pods//m"].map(|key| put(key, 11));
    bench.changes(RIGHT, first.to_vec(), false).check(&["pods 11 x,z"]);
    bench.changes(RIGHT, vec![put("pods/b/y", 12), put("secrets/b/s", 13)], false).check(&["secrets 13 s"]);
    bench.progress(None, 14).check(&["fed 14"]);
}
