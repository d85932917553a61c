//! What was really written, from a source that is not the server under test, and what a filter makes of it.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
};

use serde_json::Value;

use super::{Change, Item, Kind};

type Test = dyn Fn(&str, &Value) -> bool + Send + Sync;

/// What a request selects: a name for messages, and the test on an object's key and JSON.
#[derive(Clone)]
pub(crate) struct Filter {
    name: String,
    test: Arc<Test>,
}

impl Filter {
    /// Selects what the test accepts.
    pub(crate) fn new(name: impl Into<String>, test: impl Fn(&str, &Value) -> bool + Send + Sync + 'static) -> Self {
        Self { name: name.into(), test: Arc::new(test) }
    }

    /// Selects everything.
    pub(crate) fn all() -> Self {
        Self::new("everything", |_, _| true)
    }

    fn selects(&self, state: Option<&Stored>) -> bool {
        state.is_some_and(|stored| (self.test)(&stored.item.key, &stored.object))
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// One write of one key; no body is a deletion.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) key: String,
    pub(crate) revision: u64,
    /// The object's JSON as stored.
    pub(crate) body: Option<Vec<u8>>,
}

/// The objects of one resource at `floor`, and every write after it up to `head`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Truth {
    pub(crate) floor: u64,
    /// Everything up to here is known.
    pub(crate) head: u64,
    start: BTreeMap<String, Arc<Stored>>,
    writes: Vec<Written>,
}

/// An object with its JSON, parsed once for all filters.
#[derive(Debug)]
struct Stored {
    item: Item,
    object: Value,
}

/// A write, its object ready for filters.
#[derive(Clone, Debug)]
struct Written {
    key: String,
    revision: u64,
    after: Option<Arc<Stored>>,
}

impl Written {
    fn new(Write { key, revision, body }: Write) -> Self {
        let after = body.map(|body| Stored::new(Item { key: key.clone(), revision, body }));
        Self { key, revision, after }
    }
}

impl Stored {
    /// Null when the body is no JSON: then no filter but the widest selects it.
    fn new(item: Item) -> Arc<Self> {
        let object = serde_json::from_slice(&item.body).unwrap_or(Value::Null);
        Arc::new(Self { item, object })
    }
}

impl Truth {
    /// From the objects at `floor` and the writes after it, in etcd's order.
    pub(crate) fn new(floor: u64, start: impl IntoIterator<Item = Item>, writes: Vec<Write>, head: u64) -> Self {
        let start = start.into_iter().map(|item| (item.key.clone(), Stored::new(item))).collect();
        Self { floor, head, start, writes: writes.into_iter().map(Written::new).collect() }
    }

    /// What a watch with this filter must show after a revision (spec list-watch §5.1), in order.
    pub(crate) fn outcomes(&self, filter: &Filter, after: u64) -> Vec<Change> {
        let mut state: HashMap<&str, &Stored> = self.start.iter().map(|(key, stored)| (key.as_str(), &**stored)).collect();
        let mut outcomes = Vec::new();
        for write in &self.writes {
            let new = write.after.as_deref();
            let old = match new {
                Some(new) => state.insert(&write.key, new),
                None => state.remove(write.key.as_str()),
            };
            if write.revision <= after {
                continue;
            }
            let (kind, shown) = match (filter.selects(old), filter.selects(new)) {
                (false, true) => (Kind::Added, new),
                (true, true) => (Kind::Modified, new),
                (true, false) => (Kind::Deleted, old),
                (false, false) => continue,
            };
            outcomes.extend(shown.map(|s| Change { kind, item: Item { revision: write.revision, ..s.item.clone() } }));
        }
        outcomes
    }

    /// The selected objects at a revision between `floor` and `head`, by key.
    pub(crate) fn state(&self, filter: &Filter, at: u64) -> Vec<Item> {
        let mut state: BTreeMap<&str, &Stored> = self.start.iter().map(|(key, stored)| (key.as_str(), &**stored)).collect();
        for write in self.writes.iter().take_while(|w| w.revision <= at) {
            match write.after.as_deref() {
                Some(stored) => drop(state.insert(&write.key, stored)),
                None => drop(state.remove(write.key.as_str())),
            }
        }
        state.into_values().filter(|stored| filter.selects(Some(stored))).map(|stored| stored.item.clone()).collect()
    }

    /// Adds what was written after `head` and by now; in order. Everything up to the new `head` is then known.
    pub(crate) fn extend(&mut self, writes: Vec<Write>, head: u64) {
        self.writes.extend(writes.into_iter().map(Written::new));
        self.head = head;
    }

    /// Forgets what was before a revision, which becomes the floor; nothing happens when it is below the floor.
    pub(crate) fn forget(&mut self, before: u64) {
        let old = self.writes.partition_point(|w| w.revision <= before);
        for write in self.writes.drain(..old) {
            match write.after {
                Some(stored) => drop(self.start.insert(write.key, stored)),
                None => drop(self.start.remove(&write.key)),
            }
        }
        self.floor = self.floor.max(before);
    }

    /// The part between two revisions that are known.
    pub(crate) fn window(&self, floor: u64, head: u64) -> Self {
        let mut part = Self { floor: self.floor, head, start: self.start.clone(), writes: Vec::new() };
        let (old, new) = self.writes.split_at(self.writes.partition_point(|w| w.revision <= floor));
        part.writes = old.to_vec();
        part.forget(floor);
        part.writes.extend(new.iter().take_while(|w| w.revision <= head).cloned());
        part
    }

    /// The part of the keys that begin with this.
    pub(crate) fn under(&self, prefix: &str) -> Self {
        let start = self.start.iter().filter(|(key, _)| key.starts_with(prefix));
        let writes = self.writes.iter().filter(|write| write.key.starts_with(prefix));
        Self {
            floor: self.floor,
            head: self.head,
            start: start.map(|(key, stored)| (key.clone(), Arc::clone(stored))).collect(),
            writes: writes.cloned().collect(),
        }
    }

    /// Each revision at which a key was written and what it was then, `None` when it was not there; the first is the state at `floor`.
    pub(crate) fn versions(&self, key: &str) -> Vec<(u64, Option<&Item>)> {
        let first = self.start.get(key).map(|stored| &stored.item);
        let later = self.writes.iter().filter(|w| w.key == key).map(|w| (w.revision, w.after.as_deref().map(|stored| &stored.item)));
        std::iter::once((self.floor, first)).chain(later).collect()
    }

    /// Whether the state at a revision can be told.
    pub(crate) fn knows(&self, revision: u64) -> bool {
        (self.floor..=self.head).contains(&revision)
    }
}

/// An object's JSON without what a server adds to the stored form: kind, apiVersion and resourceVersion.
pub(crate) fn essence(body: &[u8]) -> Option<Value> {
    let mut object: Value = serde_json::from_slice(body).ok()?;
    let members = object.as_object_mut()?;
    members.remove("kind");
    members.remove("apiVersion");
    members.get_mut("metadata")?.as_object_mut()?.remove("resourceVersion");
    Some(object)
}

/// For the validators' own tests: two objects at 10, then five writes, two of them in one transaction.
#[cfg(test)]
pub(super) fn sample() -> Truth {
    let body = |name: &str, app: &str| format!(r#"{{"metadata":{{"name":"{name}","labels":{{"app":"{app}"}}}}}}"#).into_bytes();
    let item = |name: &str, revision| Item { key: format!("ns/{name}"), revision, body: body(name, "x") };
    let write = |name: &str, revision, app: Option<&str>| Write { key: format!("ns/{name}"), revision, body: app.map(|a| body(name, a)) };
    let writes = vec![
        write("a", 11, Some("y")),
        write("c", 12, Some("x")),
        write("a", 14, Some("x")),
        write("b", 14, None),
        write("c", 15, None),
        write("d", 17, Some("y")),
    ];
    Truth::new(10, [item("a", 4), item("b", 9)], writes, 18)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(filter: &Filter, after: u64) -> Vec<(Kind, String, u64)> {
        sample().outcomes(filter, after).into_iter().map(|c| (c.kind, c.item.key, c.item.revision)).collect()
    }

    #[test]
    fn a_selector_turns_changes_into_arrivals_and_departures() {
        let app_x = Filter::new("app=x", |_, object| object["metadata"]["labels"]["app"] == "x");
        let change = |kind, name: &str, revision| (kind, format!("ns/{name}"), revision);
        let expected = [
            change(Kind::Deleted, "a", 11),
            change(Kind::Added, "c", 12),
            change(Kind::Added, "a", 14),
            change(Kind::Deleted, "b", 14),
            change(Kind::Deleted, "c", 15),
        ];
        assert_eq!(shown(&app_x, 10), expected);
        assert_eq!(shown(&app_x, 14), expected[4..]);
    }

    #[test]
    fn a_departed_object_is_shown_as_it_was_selected() {
        let app_x = Filter::new("app=x", |_, object| object["metadata"]["labels"]["app"] == "x");
        let gone = &sample().outcomes(&app_x, 10)[0];
        assert_eq!(essence(&gone.item.body).expect("a sample body parses")["metadata"]["labels"]["app"], "x");
    }

    #[test]
    fn the_state_follows_the_writes() {
        let keys = |at| sample().state(&Filter::all(), at).into_iter().map(|i| i.key).collect::<Vec<_>>();
        assert_eq!(keys(10), ["ns/a", "ns/b"]);
        assert_eq!(keys(14), ["ns/a", "ns/c"]);
        assert_eq!(keys(18), ["ns/a", "ns/d"]);
    }

    #[test]
    fn a_truth_that_grows_and_forgets_tells_the_same() {
        let whole = sample();
        let mut grown = sample();
        grown.extend(vec![Write { key: "ns/e".into(), revision: 19, body: Some(b"{}".to_vec()) }], 20);
        assert!(grown.knows(20) && !whole.knows(20));
        grown.forget(14);
        assert!(!grown.knows(13));
        for revision in 14..=18 {
            assert_eq!(grown.state(&Filter::all(), revision), whole.state(&Filter::all(), revision), "{revision}");
        }
        let shown = |truth: &Truth| truth.outcomes(&Filter::all(), 14).into_iter().map(|c| (c.kind, c.item)).collect::<Vec<_>>();
        assert_eq!(shown(&grown)[..2], shown(&whole)[..]);
        assert_eq!(shown(&grown).len(), 3);
        assert_eq!(shown(&grown.window(14, 17)), shown(&whole));
        assert!(shown(&grown.window(14, 16)).len() == 1 && !grown.window(14, 16).knows(17));
    }

    #[test]
    fn a_part_has_its_keys_only() {
        let part = sample().under("ns/a");
        assert_eq!(part.state(&Filter::all(), 18).len(), 1);
        assert_eq!(part.outcomes(&Filter::all(), 10).iter().map(|c| c.item.revision).collect::<Vec<_>>(), [11, 14]);
        assert!(part.knows(10) && part.knows(18) && !part.knows(19));
    }

    #[test]
    fn the_versions_of_a_key_begin_with_the_floor() {
        let revisions = |key| sample().versions(key).into_iter().map(|(r, item)| (r, item.map(|i| i.revision))).collect::<Vec<_>>();
        assert_eq!(revisions("ns/b"), [(10, Some(9)), (14, None)]);
        assert_eq!(revisions("ns/d"), [(10, None), (17, Some(17))]);
    }
}
