//! Which groups can match an event: each group is filed under its most selective equality term, an event looks up its own terms.
//!
//! An event costs its labels, its declared fields and the groups it finds, never the number of watchers. What is found here is a candidate; the
//! group's filter decides.

use std::{collections::HashMap, sync::Arc};

use super::group::Group;
use model::{Event, Filter, Object, Term, selector::Field};

/// What an object must be so that a group filed under it can match.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Place {
    /// It has this value.
    Of(Term, Box<str>),
    /// It is in this namespace.
    Namespace(Box<str>),
    All,
}

/// The index of a resource's groups.
#[derive(Default)]
pub struct MatchIndex {
    groups: HashMap<Place, Vec<Arc<Group>>>,
    /// Fields and label keys that some group is filed under: only these are looked up.
    fields: HashMap<Field, usize>,
    labels: HashMap<Box<str>, usize>,
}

impl MatchIndex {
    /// Files a group.
    pub fn add(&mut self, group: &Arc<Group>) {
        let place = most_selective(&group.key().filter);
        match &place {
            Place::Of(Term::Field(field), _) => *self.fields.entry(*field).or_default() += 1,
            Place::Of(Term::Label(key), _) => *self.labels.entry(key.clone()).or_default() += 1,
            Place::Namespace(_) | Place::All => {}
        }
        self.groups.entry(place).or_default().push(group.clone());
    }

    /// Takes a group out.
    pub fn remove(&mut self, group: &Arc<Group>) {
        let place = most_selective(&group.key().filter);
        if let Some(filed) = self.groups.get_mut(&place) {
            filed.retain(|filed| !Arc::ptr_eq(filed, group));
            if filed.is_empty() {
                self.groups.remove(&place);
            }
        }
        match &place {
            Place::Of(Term::Field(field), _) => release(&mut self.fields, field),
            Place::Of(Term::Label(key), _) => release(&mut self.labels, key),
            Place::Namespace(_) | Place::All => {}
        }
    }

    /// Gives back what many groups took; twice of what is needed stays.
    pub fn shrink(&mut self) {
        self.groups.shrink_to(2 * self.groups.len());
        self.fields.shrink_to(2 * self.fields.len());
        self.labels.shrink_to(2 * self.labels.len());
    }

    /// Calls `visit` once for every group that can match the event.
    pub fn candidates<'e>(&self, event: &'e Event, mut visit: impl FnMut(&Arc<Group>)) {
        if self.groups.is_empty() {
            return;
        }
        let (old, new) = (event.old.as_deref(), event.new.as_deref());
        let Some(any) = new.or(old) else { return };
        let mut look = |place: Place| {
            if let Some(filed) = self.groups.get(&place) {
                filed.iter().for_each(&mut visit);
            }
        };
        look(Place::All);
        if !any.namespace().is_empty() {
            look(Place::Namespace(any.namespace().into()));
        }
        for field in self.fields.keys() {
            for value in two(old.map(|o| field.of(o)), new.map(|o| field.of(o))) {
                look(Place::Of(Term::Field(*field), value.into()));
            }
        }
        if self.labels.is_empty() {
            return;
        }
        let labels = |object: Option<&'e Object>| object.into_iter().flat_map(|o| o.labels().iter());
        let after = labels(new).filter(|(key, value)| old.and_then(|o| o.labels().get(key)) != Some(value));
        for (key, value) in labels(old).chain(after).filter(|(key, _)| self.labels.contains_key(*key)) {
            look(Place::Of(Term::Label(key.into()), value.into()));
        }
    }
}

/// The values, each once.
fn two<T: PartialEq>(old: Option<T>, new: Option<T>) -> impl Iterator<Item = T> {
    let old = if old == new { None } else { old };
    old.into_iter().chain(new)
}

fn release<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// A name is nearly one object; a declared field (`spec.nodeName`) a few; a label may be many; a namespace more; then everything. In this order a filter
/// tells what it asks.
fn most_selective(filter: &Filter) -> Place {
    let asked = filter.equalities().find(|(term, _)| *term != Term::Field(Field::Namespace));
    let of = asked.map(|(term, value)| Place::Of(term, value.into()));
    of.or_else(|| filter.namespace.clone().map(Place::Namespace)).unwrap_or(Place::All)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use proptest::prelude::*;

    use super::*;
    use crate::dispatch::{GroupKey, GroupLimits};
    use codec::Encoder;
    use model::{
        Parts, Revision,
        selector::{FieldMatcher, FieldTerm, LabelMatcher, LabelOp, LabelRequirement, LabelSelector},
        shard::{Shard, hash},
    };

    /// Few values, so that random filters and objects meet often.
    fn value() -> impl Strategy<Value = Box<str>> {
        prop::sample::select(vec!["", "a", "b", "1"]).prop_map(Box::from)
    }

    fn named() -> impl Strategy<Value = Box<str>> {
        prop::sample::select(vec!["a", "b"]).prop_map(Box::from)
    }

    fn requirement() -> impl Strategy<Value = LabelRequirement> {
        let op = prop_oneof![
            1 => Just(LabelOp::Exists),
            1 => Just(LabelOp::Absent),
            4 => prop::collection::vec(value(), 1..3).prop_map(LabelOp::In),
            1 => prop::collection::vec(value(), 1..3).prop_map(LabelOp::NotIn),
            1 => Just(LabelOp::Greater(0)),
            1 => Just(LabelOp::Less(2)),
        ];
        (named(), op).prop_map(|(key, op)| LabelRequirement { key, op })
    }

    fn term() -> impl Strategy<Value = FieldTerm> {
        let field = prop::sample::select(vec![Field::Name, Field::Namespace, Field::Declared(0), Field::Declared(1), Field::Declared(2)]);
        (field, any::<bool>(), value()).prop_map(|(field, equal, value)| FieldTerm { field, equal, value })
    }

    fn filter() -> impl Strategy<Value = Filter> {
        let labels = prop::collection::vec(requirement(), 0..3).prop_map(|requirements| LabelMatcher::new(&LabelSelector { requirements }));
        let fields = prop::collection::vec(term(), 0..3).prop_map(|terms| FieldMatcher::new(&terms));
        let shard = prop::option::of(prop::sample::select(vec!["'0x0000000000000000'", "'0x8000000000000000'"])).prop_map(|start| {
            let selector = format!("shardRange(object.metadata.uid, {}, '0xc000000000000000')", start?);
            Some(Shard::parse(&selector).expect("a shard"))
        });
        (prop::option::of(named()), prop::option::weighted(0.2, named()), labels, fields, shard)
            .prop_map(|(namespace, name, labels, fields, shard)| Filter { namespace, name, labels, fields, shard })
    }

    /// What may change between two revisions of an object: its labels and two declared fields.
    type Content = (Vec<(Box<str>, Box<str>)>, [Box<str>; 2]);

    fn content() -> impl Strategy<Value = Content> {
        let labels = (prop::option::of(value()), prop::option::of(value())).prop_map(|(a, b)| {
            let present = [("a", a), ("b", b)].into_iter();
            present.filter_map(|(key, value)| Some((key.into(), value?))).collect()
        });
        (labels, [value(), value()])
    }

    fn event() -> impl Strategy<Value = Event> {
        let scope = prop_oneof![4 => named().prop_map(Some), 1 => Just(None)];
        (scope, named(), prop::option::of(content()), prop::option::of(content())).prop_filter_map(
            "an object before or after",
            |(namespace, name, old, new)| {
                let key = namespace.map_or_else(|| format!("/r/{name}"), |namespace| format!("/r/{namespace}/{name}"));
                let object = |(labels, fields): Content| {
                    let words: Vec<Cow<'_, str>> = fields.iter().map(|field| Cow::Borrowed(&**field)).collect();
                    Arc::new(Object::new(Parts {
                        key: key.as_bytes(),
                        scope_at: 3,
                        name_at: u16::try_from(key.len() - name.len()).expect("short"),
                        revision: Revision(1),
                        tail: b"",
                        head_at: 0,
                        rv_at: (0, 0),
                        managed_end: 0,
                        managed_fields: None,
                        uid_hash: hash(&key),
                        labels: &labels.into(),
                        fields: &words,
                    }))
                };
                let (old, new) = (old.map(object), new.map(object));
                (old.is_some() || new.is_some()).then_some(Event { revision: Revision(2), old, new, at_ms: 0 })
            },
        )
    }

    fn group(filter: Filter) -> Arc<Group> {
        let encoder = Arc::new(Encoder::built_in("v1", "ConfigMap", "ConfigMapList", ""));
        Arc::new(Group::new(
            GroupKey { representation: "v1/configmaps".into(), filter: filter.into() },
            encoder,
            Revision(1),
            GroupLimits::default(),
            Arc::default(),
        ))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        /// Whoever sees something of an event is found, once; and who has left is not, nor does the index remember anybody.
        #[test]
        fn who_can_match_is_found_once(
            filters in prop::collection::hash_set(filter(), 1..24),
            events in prop::collection::vec(event(), 1..12),
            stay in prop::collection::vec(any::<bool>(), 24),
        ) {
            let groups: Vec<Arc<Group>> = filters.into_iter().map(group).collect();
            let mut interest = MatchIndex::default();
            groups.iter().for_each(|group| interest.add(group));
            let (staying, leaving): (Vec<_>, Vec<_>) = groups.iter().zip(&stay).partition(|(_, stay)| **stay);
            for round in [&groups.iter().collect::<Vec<_>>(), &staying.iter().map(|(g, _)| *g).collect()] {
                for event in &events {
                    let mut found: Vec<*const Group> = Vec::new();
                    interest.candidates(event, |group| found.push(Arc::as_ptr(group)));
                    let times = |group: &Arc<Group>| found.iter().filter(|f| **f == Arc::as_ptr(group)).count();
                    for group in &groups {
                        let here = round.iter().any(|g| Arc::ptr_eq(g, group));
                        prop_assert!(times(group) <= usize::from(here), "{:?} found {} times", group.key(), times(group));
                        if here && group.key().filter.outcome(event).is_some() {
                            prop_assert_eq!(times(group), 1, "{:?} is not found", group.key());
                        }
                    }
                }
                leaving.iter().for_each(|(group, _)| interest.remove(group));
            }
            staying.iter().for_each(|(group, _)| interest.remove(group));
            prop_assert!(interest.groups.is_empty() && interest.fields.is_empty() && interest.labels.is_empty());
        }
    }

    /// What the index is for: a thousand groups that ask for another value of a label are not looked at.
    #[test]
    fn who_asks_for_another_value_is_not_looked_at() {
        let asking = |value: String| {
            let requirement = LabelRequirement { key: "app".into(), op: LabelOp::In(vec![value.into()]) };
            group(Filter { labels: LabelMatcher::new(&LabelSelector { requirements: vec![requirement] }), ..Filter::default() })
        };
        let mut interest = MatchIndex::default();
        (0..1_000).for_each(|n| interest.add(&asking(format!("app-{n}"))));
        let object = model::test_object_with("a", 2, &[("app", "app-7")], &[]);
        let mut found = 0;
        interest.candidates(&Event { revision: Revision(2), old: None, new: Some(Arc::new(object)), at_ms: 0 }, |_| found += 1);
        assert_eq!(found, 1);
    }
}
