//! The objects of a resource by the value of one label or field: a list or a watch by a selector looks at what it returns, not at everything.
//!
//! Which labels and fields have an index is learned (`learner`); an index is built beside the cacher and then kept by the store, with every write.

use std::{
    borrow::Borrow,
    cmp::Ordering,
    hash::{DefaultHasher, Hasher},
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use imbl::OrdSet;

use super::{
    learner::{Due, FADING, Reader},
    store::{Store, past},
};
use model::{Object, Term};

/// An index that nobody has used for so long goes.
const UNUSED_MS: u64 = 10 * 60 * 1_000;

/// The objects that have a value, by that value.
#[derive(Clone)]
pub struct Index {
    term: Arc<Term>,
    /// For whom it was made.
    reader: Reader,
    set: OrdSet<Filed>,
    /// How often somebody has read it since the cacher last looked.
    uses: Arc<AtomicU64>,
    used_ms: u64,
    /// About how many objects nobody had to look at because of it. What is long ago is forgotten.
    spared: u64,
}

/// Ordered by the value's hash, then by key. Two values with one hash stand together: whoever reads matches its filter anyway.
#[derive(Clone)]
struct Filed {
    value: u64,
    object: Arc<Object>,
}

impl Index {
    /// Of all objects of a store. Takes about as long as ten scans.
    #[must_use]
    pub fn of(due: Due, store: &Store) -> Self {
        let Due { term, reader, in_vain } = due;
        let filed = |object: &Arc<Object>| Some(Filed { value: hash(term.of(object)?), object: object.clone() });
        let mut all: Vec<Filed> = store.scan(b"", b"").filter_map(filed).collect();
        all.sort_unstable();
        Self {
            term: Arc::new(term),
            reader,
            set: all.into_iter().collect(),
            uses: Arc::new(AtomicU64::new(1)),
            used_ms: 0,
            spared: in_vain,
        }
    }

    /// What it is by.
    #[must_use]
    pub fn term(&self) -> &Term {
        &self.term
    }

    /// One object was replaced by another one with the same key, or came, or went.
    pub(super) fn moved(&mut self, old: Option<&Arc<Object>>, new: Option<&Arc<Object>>) {
        let value = |object: Option<&Arc<Object>>| object.and_then(|object| self.term.of(object)).map(hash);
        let (was, is) = (value(old), value(new));
        if let (Some(value), Some(object)) = (was.filter(|_| was != is), old) {
            self.set.remove(&Looked { value, key: object.key() } as &dyn Place);
        }
        if let (Some(value), Some(object)) = (is, new) {
            self.set.insert(Filed { value, object: object.clone() });
        }
    }

    /// The objects with this value, and perhaps a few others, whose key starts with `prefix` and is at or after `from`, in key order.
    pub(super) fn scan<'a>(&'a self, value: &str, prefix: &[u8], from: &[u8]) -> impl Iterator<Item = &'a Arc<Object>> + 'a {
        self.uses.fetch_add(1, Relaxed);
        let value = hash(value);
        let start = Looked { value, key: from.max(prefix) };
        let behind = past(prefix);
        let end = match (&behind, value.checked_add(1)) {
            (Some(key), _) => Some(Looked { value, key }),
            (None, Some(value)) => Some(Looked { value, key: b"" }),
            (None, None) => None,
        };
        let end = end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded(end as &dyn Place));
        self.set.range::<_, dyn Place>((Bound::Included(&start as &dyn Place), end)).map(|filed| &filed.object)
    }

    /// For whom it was made.
    pub(super) fn reader(&self) -> Reader {
        self.reader
    }

    /// About how many objects nobody had to look at because of it lately.
    pub(super) fn spared(&self) -> u64 {
        self.spared
    }

    /// Whether anyone has used it lately. `objects` is what a reader would have looked at without it.
    pub(super) fn is_used(&mut self, objects: usize, now_ms: u64) -> bool {
        let uses = self.uses.swap(0, Relaxed);
        if uses > 0 {
            self.used_ms = now_ms;
        }
        self.spared = self.spared - self.spared.div_ceil(FADING) + uses.saturating_mul(objects as u64);
        now_ms.saturating_sub(self.used_ms) < UNUSED_MS
    }
}

fn hash(value: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(value.as_bytes());
    hasher.finish()
}

/// Where something stands in an index.
trait Place {
    fn place(&self) -> (u64, &[u8]);
}

/// A place that is looked for.
struct Looked<'a> {
    value: u64,
    key: &'a [u8],
}

impl Place for Looked<'_> {
    fn place(&self) -> (u64, &[u8]) {
        (self.value, self.key)
    }
}

impl Place for Filed {
    fn place(&self) -> (u64, &[u8]) {
        (self.value, self.object.key())
    }
}

impl<'a> Borrow<dyn Place + 'a> for Filed {
    fn borrow(&self) -> &(dyn Place + 'a) {
        self
    }
}

impl PartialEq for dyn Place + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}

impl Eq for dyn Place + '_ {}

impl PartialOrd for dyn Place + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn Place + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place().cmp(&other.place())
    }
}

impl PartialEq for Filed {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}

impl Eq for Filed {}

impl PartialOrd for Filed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Filed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place().cmp(&other.place())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn due(term: Term) -> Due {
        Due { term, reader: 1, in_vain: 0 }
    }
    use model::{
        Filter,
        selector::{Field, FieldMatcher, FieldTerm, LabelMatcher, LabelOp, LabelRequirement, LabelSelector},
        test_object_with,
    };

    /// A filter by these labels, within a scope or by name.
    fn filter(labels: &[(&str, &str)], name: Option<&str>) -> Filter {
        let requirements =
            labels.iter().map(|(key, value)| LabelRequirement { key: (*key).into(), op: LabelOp::In(vec![(*value).into()]) });
        let labels = LabelMatcher::new(&LabelSelector { requirements: requirements.collect() });
        let terms: Vec<_> = name.iter().map(|name| FieldTerm { field: Field::Name, equal: true, value: (*name).into() }).collect();
        Filter { labels, fields: FieldMatcher::new(&terms), ..Filter::default() }
    }

    fn names(store: &Store, filter: &Filter, from: &[u8]) -> (Vec<String>, usize) {
        let mut looked = 0;
        let selected = store.select(filter, b"/registry/", from).inspect(|_| looked += 1);
        (selected.filter(|object| filter.matches(object)).map(|object| object.name().to_owned()).collect(), looked)
    }

    #[test]
    fn a_selector_looks_at_what_it_returns() {
        let object = |at: u64| Arc::new(test_object_with(&format!("o{at}"), at, &[("app", "web"), ("one", &(at / 4).to_string())], &[]));
        let mut store = Store::from_objects((0..400).map(object).collect());
        let both = filter(&[("app", "web"), ("one", "7")], None);
        assert_eq!(names(&store, &both, b"").1, 400);
        for key in ["app", "one"] {
            store.add(Index::of(due(Term::Label(key.into())), &store));
        }
        let want: Vec<_> = (28..32).map(|at| format!("o{at}")).collect();
        assert_eq!(names(&store, &both, b""), (want.clone(), 4), "the narrower one of two");
        assert_eq!(names(&store, &both, b"/registry/configmaps/ns/o30").0, want[2..]);
        assert_eq!(names(&store, &filter(&[("one", "100")], None), b""), (Vec::new(), 0));
        assert_eq!(names(&store, &filter(&[], Some("o5")), b"").1, 400, "there is no index by name");
        store.add(Index::of(due(Term::Field(Field::Name)), &store));
        assert_eq!(names(&store, &filter(&[], Some("o5")), b""), (vec!["o5".to_owned()], 1));
    }

    #[test]
    fn what_nobody_uses_goes() {
        let mut store = Store::from_objects(vec![Arc::new(test_object_with("o", 1, &[("app", "web")], &[]))]);
        store.add(Index::of(due(Term::Label("app".into())), &store));
        let web = filter(&[("app", "web")], None);
        for (now_ms, used, left) in
            [(1_000, true, 1), (UNUSED_MS, false, 1), (UNUSED_MS + 999, true, 1), (2 * UNUSED_MS, false, 1), (3 * UNUSED_MS, false, 0)]
        {
            if used {
                assert_eq!(names(&store, &web, b"").0, ["o"]);
            }
            store.drop_unused(now_ms);
            assert_eq!(store.indexes(), left, "after {now_ms} ms");
        }
    }

    proptest! {
        /// Whatever is written, an index finds what a scan of everything finds; so do snapshots from before.
        #[test]
        fn an_index_agrees_with_its_store(steps in prop::collection::vec((0..40_u8, prop::option::of((0..3_u8, prop::option::of(0..3_u8)))), 1..300), at in 0..300_usize) {
            let mut store = Store::default();
            let mut snapshots = Vec::new();
            for (step, (who, change)) in steps.into_iter().enumerate() {
                let name = format!("o{who}");
                match change {
                    None => drop(store.remove(format!("/registry/configmaps/ns/{name}").as_bytes())),
                    Some((one, two)) => {
                        let (one, two) = (one.to_string(), two.map(|two| two.to_string()));
                        let labels: Vec<_> = [Some(("one", &*one)), two.as_deref().map(|two| ("two", two))].into_iter().flatten().collect();
                        store.put(Arc::new(test_object_with(&name, step as u64 + 1, &labels, &[])));
                    }
                }
                if step == at.min(100) {
                    store.add(Index::of(due(Term::Label("two".into())), &store));
                }
                if step % 50 == 0 {
                    snapshots.push(store.clone());
                }
            }
            snapshots.push(store);
            for store in &snapshots {
                for value in ["0", "1", "2", "3"] {
                    for from in [&b""[..], b"/registry/configmaps/ns/o2"] {
                        let asked = filter(&[("two", value)], None);
                        let want: Vec<_> = store.scan(b"/registry/", from).filter(|object| asked.matches(object)).map(|object| object.name().to_owned()).collect();
                        let (found, looked) = names(store, &asked, from);
                        prop_assert!(store.indexes() == 0 || looked == want.len());
                        prop_assert_eq!(found, want);
                    }
                }
            }
        }
    }
}
