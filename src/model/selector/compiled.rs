//! Selectors in the form that is matched: all that is asked of one key or field is one rule, rules and values are found by halving.
//!
//! An object costs the smaller of the number of its labels and the number of rules, times a search in the other; a text of 128 KiB becomes at most two
//! megabytes, mostly in a few allocations. Whatever asks the same is equal here, and what contradicts itself is the one selector that matches nothing.

use super::{Field, FieldTerm, LabelOp, LabelSelector};
use crate::{Labels, Object};

/// A label selector as it is matched; the default one selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelMatcher {
    /// Sorted, each once.
    keys: TextRun,
    /// What is asked of each key.
    wants: Box<[Want]>,
    values: TextRun,
    /// How many of `wants` ask for a label that is there.
    present: usize,
    /// What is asked contradicts itself; all else is empty then.
    never: bool,
}

/// A field selector as it is matched; the default one selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldMatcher {
    /// Sorted by field, each once.
    wants: Box<[(Field, Want)]>,
    values: TextRun,
    /// What is asked contradicts itself; all else is empty then.
    never: bool,
}

/// All that is asked of one key or field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Want {
    /// It is not there.
    Absent,
    /// It is there, with one of these values.
    In(Run),
    /// It is not there, or with none of these values.
    NotIn(Run),
    /// It is there, with none of these values.
    OtherThan(Run),
    /// It is there, with an integer.
    Between(Box<Between>),
}

/// An integer from `low` to `high` whose text is none of these.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Between {
    low: i64,
    high: i64,
    not: Run,
}

impl LabelMatcher {
    /// The same selector, to be matched.
    #[must_use]
    pub fn new(selector: &LabelSelector) -> Self {
        let mut requirements: Vec<_> = selector.requirements.iter().collect();
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        let (mut keys, mut wants, mut values) = (TextRunBuilder::default(), Vec::new(), TextRunBuilder::default());
        for same in requirements.chunk_by(|a, b| a.key == b.key) {
            let mut asked = Asked::default();
            same.iter().for_each(|requirement| asked.add(&requirement.op));
            match asked.want(&mut values) {
                Ok(Some(want)) => {
                    keys.push(&same[0].key);
                    wants.push(want);
                }
                Ok(None) => {}
                Err(Never) => return Self { never: true, ..Self::default() },
            }
        }
        let present = wants.iter().filter(|want| want.needs_a_value()).count();
        Self { keys: keys.into(), wants: wants.into(), values: values.into(), present, never: false }
    }

    /// Whether labels are selected.
    #[must_use]
    pub fn matches(&self, labels: Labels<'_>) -> bool {
        if self.never || labels.len() < self.present {
            return false;
        }
        let admits = |at: usize, value: Option<&str>| self.wants[at].admits(value, &self.values);
        if self.wants.len() <= labels.len() {
            return (0..self.wants.len()).all(|at| admits(at, labels.get(self.keys.at(at))));
        }
        let mut present = 0;
        for (key, value) in labels.iter() {
            let Some(at) = self.keys.find(self.keys.all(), key) else { continue };
            if !admits(at, Some(value)) {
                return false;
            }
            present += usize::from(self.wants[at].needs_a_value());
        }
        present == self.present
    }

    /// The labels that must have one value, and that value.
    pub fn equalities(&self) -> impl Iterator<Item = (&str, &str)> {
        self.wants.iter().enumerate().filter_map(|(at, want)| Some((self.keys.at(at), want.only(&self.values)?)))
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn weight(&self) -> usize {
        let between = self.wants.iter().filter(|want| matches!(want, Want::Between(_))).count() * size_of::<Between>();
        self.keys.weight() + size_of_val(&*self.wants) + self.values.weight() + between
    }
}

impl FieldMatcher {
    /// Terms that are all asked for.
    #[must_use]
    pub fn new(terms: &[FieldTerm]) -> Self {
        let mut terms: Vec<_> = terms.iter().collect();
        terms.sort_by_key(|term| term.field);
        let (mut wants, mut values) = (Vec::new(), TextRunBuilder::default());
        for same in terms.chunk_by(|a, b| a.field == b.field) {
            // A field is always there.
            let mut asked = Asked { present: true, ..Asked::default() };
            for term in same {
                if term.equal { asked.only([&*term.value]) } else { asked.not.push(&term.value) }
            }
            match asked.want(&mut values) {
                Ok(want) => wants.extend(want.map(|want| (same[0].field, want))),
                Err(Never) => return Self { never: true, ..Self::default() },
            }
        }
        Self { wants: wants.into(), values: values.into(), never: false }
    }

    /// Whether an object is selected.
    #[must_use]
    pub fn matches(&self, object: &Object) -> bool {
        !self.never && self.wants.iter().all(|(field, want)| want.admits(Some(field.of(object)), &self.values))
    }

    /// The fields that must have one value, and that value.
    pub fn equalities(&self) -> impl Iterator<Item = (Field, &str)> {
        self.wants.iter().filter_map(|(field, want)| Some((*field, want.only(&self.values)?)))
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn weight(&self) -> usize {
        size_of_val(&*self.wants) + self.values.weight()
    }
}

impl Want {
    fn admits(&self, value: Option<&str>, values: &TextRun) -> bool {
        let Some(value) = value else { return matches!(self, Self::Absent | Self::NotIn(_)) };
        match self {
            Self::Absent => false,
            Self::In(run) => values.find(*run, value).is_some(),
            Self::NotIn(run) | Self::OtherThan(run) => values.find(*run, value).is_none(),
            Self::Between(between) => {
                integer(value).is_some_and(|number| between.low <= number && number <= between.high)
                    && values.find(between.not, value).is_none()
            }
        }
    }

    fn needs_a_value(&self) -> bool {
        matches!(self, Self::In(_) | Self::OtherThan(_) | Self::Between(_))
    }

    /// The one value that is admitted.
    fn only<'a>(&self, values: &'a TextRun) -> Option<&'a str> {
        match self {
            Self::In(run) if run.len() == 1 => Some(values.at(run.start as usize)),
            _ => None,
        }
    }
}

/// A label's value as `>` and `<` read it.
pub(super) fn integer(value: &str) -> Option<i64> {
    value.parse().ok()
}

/// Nothing fits what is asked.
struct Never;

/// What is asked of one key, collected.
#[derive(Default)]
struct Asked<'a> {
    present: bool,
    absent: bool,
    /// Sorted, each once.
    only: Option<Vec<&'a str>>,
    not: Vec<&'a str>,
    above: Option<i64>,
    below: Option<i64>,
}

impl<'a> Asked<'a> {
    fn add(&mut self, op: &'a LabelOp) {
        match op {
            LabelOp::Exists => self.present = true,
            LabelOp::Absent => self.absent = true,
            LabelOp::In(set) => self.only(set.iter().map(|value| &**value)),
            LabelOp::NotIn(set) => self.not.extend(set.iter().map(|value| &**value)),
            LabelOp::Greater(than) => (self.present, self.above) = (true, self.above.max(Some(*than))),
            LabelOp::Less(than) => (self.present, self.below) = (true, Some(self.below.map_or(*than, |below| below.min(*than)))),
        }
    }

    fn only(&mut self, set: impl IntoIterator<Item = &'a str>) {
        let mut set = sorted(set.into_iter().collect());
        if let Some(before) = self.only.take() {
            set.retain(|value| before.binary_search(value).is_ok());
        }
        (self.present, self.only) = (true, Some(set));
    }

    /// As one rule; none when everything fits.
    fn want(self, values: &mut TextRunBuilder) -> Result<Option<Want>, Never> {
        if self.absent {
            return if self.present { Err(Never) } else { Ok(Some(Want::Absent)) };
        }
        let not = sorted(self.not);
        let low = self.above.map_or(Some(i64::MIN), |above| above.checked_add(1)).ok_or(Never)?;
        let high = self.below.map_or(Some(i64::MAX), |below| below.checked_sub(1)).ok_or(Never)?;
        let compares = self.above.is_some() || self.below.is_some();
        if let Some(mut only) = self.only {
            let fits = |value: &str| !compares || integer(value).is_some_and(|number| low <= number && number <= high);
            only.retain(|value| fits(value) && not.binary_search(value).is_err());
            return if only.is_empty() { Err(Never) } else { Ok(Some(Want::In(values.run(&only)))) };
        }
        if low > high {
            return Err(Never);
        }
        Ok(match (compares, self.present) {
            (true, _) => Some(Want::Between(Box::new(Between { low, high, not: values.run(&not) }))),
            (false, true) => Some(Want::OtherThan(values.run(&not))),
            (false, false) if not.is_empty() => None,
            (false, false) => Some(Want::NotIn(values.run(&not))),
        })
    }
}

fn sorted(mut values: Vec<&str>) -> Vec<&str> {
    values.sort_unstable();
    values.dedup();
    values
}

/// Texts that stand one after the other, from `start` until before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Run {
    start: u32,
    end: u32,
}

impl Run {
    fn len(self) -> u32 {
        self.end - self.start
    }
}

/// Many texts in one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct TextRun {
    text: Box<str>,
    /// Where each one ends.
    ends: Box<[u32]>,
}

impl TextRun {
    fn at(&self, index: usize) -> &str {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start as usize..self.ends[index] as usize]
    }

    fn all(&self) -> Run {
        Run { start: 0, end: count(self.ends.len()) }
    }

    /// Where the text is in a sorted run.
    fn find(&self, run: Run, text: &str) -> Option<usize> {
        let (mut low, mut high) = (run.start as usize, run.end as usize);
        while low < high {
            let middle = low.midpoint(high);
            match self.at(middle).cmp(text) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    fn weight(&self) -> usize {
        self.text.len() + size_of_val(&*self.ends)
    }
}

/// A [`TextRun`] that grows.
#[derive(Default)]
struct TextRunBuilder {
    text: String,
    ends: Vec<u32>,
}

impl TextRunBuilder {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(count(self.text.len()));
    }

    fn run(&mut self, texts: &[&str]) -> Run {
        let start = count(self.ends.len());
        texts.iter().for_each(|text| self.push(text));
        Run { start, end: count(self.ends.len()) }
    }
}

impl From<TextRunBuilder> for TextRun {
    fn from(texts: TextRunBuilder) -> Self {
        Self { text: texts.text.into(), ends: texts.ends.into() }
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).expect("a selector came in the head of a request")
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use proptest::prelude::*;

    use super::*;
    use crate::selector::{LabelRequirement, parse};
    use crate::test_object_with;

    /// Few keys and values, so that requirements meet and contradict each other.
    fn value() -> impl Strategy<Value = Box<str>> {
        let texts =
            ["", "a", "b", "c", "1", "2", "+2", "02", "3", "-1", "9223372036854775807", "-9223372036854775808", "9223372036854775808"];
        prop::sample::select(texts.to_vec()).prop_map(Box::from)
    }

    fn bound() -> impl Strategy<Value = i64> {
        prop_oneof![4 => -2_i64..5, 1 => Just(i64::MAX), 1 => Just(i64::MIN)]
    }

    fn requirement(keys: usize) -> impl Strategy<Value = LabelRequirement> {
        let op = prop_oneof![
            2 => Just(LabelOp::Exists),
            1 => Just(LabelOp::Absent),
            3 => prop::collection::vec(value(), 0..8).prop_map(LabelOp::In),
            3 => prop::collection::vec(value(), 0..4).prop_map(LabelOp::NotIn),
            2 => bound().prop_map(LabelOp::Greater),
            2 => bound().prop_map(LabelOp::Less),
        ];
        (0..keys, op).prop_map(|(key, op)| LabelRequirement { key: format!("k{key}").into(), op })
    }

    fn labelled(keys: usize) -> impl Strategy<Value = Object> {
        prop::collection::vec((0..keys, value()), 0..6).prop_map(|labels| {
            let labels: Vec<(String, Box<str>)> = labels.into_iter().map(|(key, value)| (format!("k{key}"), value)).collect();
            test_object_with("a", 1, &labels.iter().map(|(key, value)| (&**key, &**value)).collect::<Vec<_>>(), &[])
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_048))]
        /// Few keys: many requirements on one. Many keys: more rules than labels, and fewer.
        #[test]
        fn labels_match_as_requirement_by_requirement(
            (requirements, objects) in prop::sample::select(vec![1_usize, 2, 4, 12]).prop_flat_map(|keys| {
                (prop::collection::vec(requirement(keys), 0..10), prop::collection::vec(labelled(keys), 1..24))
            }),
        ) {
            let selector = LabelSelector { requirements };
            let matcher = LabelMatcher::new(&selector);
            for labels in objects.iter().map(Object::labels) {
                prop_assert_eq!(matcher.matches(labels), selector.matches(labels), "{:?} {:?}", selector, labels);
            }
            let mut turned = selector.requirements.clone();
            turned.reverse();
            turned.extend(selector.requirements);
            prop_assert_eq!(LabelMatcher::new(&LabelSelector { requirements: turned }), matcher, "what asks the same is equal");
        }

        #[test]
        fn fields_match_as_term_by_term(
            terms in prop::collection::vec((0_u16..4, any::<bool>(), prop::sample::select(vec!["", "a", "b", "c"])), 0..8),
            objects in prop::collection::vec((prop::sample::select(vec!["a", "b"]), [prop::sample::select(vec!["", "a", "b"]), prop::sample::select(vec!["", "a", "c"])]), 1..12),
        ) {
            let field = |index| match index { 0 => Field::Name, 1 => Field::Namespace, index => Field::Declared(index - 2) };
            let terms: Vec<FieldTerm> = terms.into_iter().map(|(index, equal, value)| FieldTerm { field: field(index), equal, value: value.into() }).collect();
            let matcher = FieldMatcher::new(&terms);
            for (name, fields) in objects {
                let object = test_object_with(name, 1, &[], &fields);
                let plain = terms.iter().all(|term| (term.field.of(&object) == &*term.value) == term.equal);
                prop_assert_eq!(matcher.matches(&object), plain, "{:?} {:?}", terms, object);
            }
        }
    }

    #[test]
    fn contradictions_are_one_and_select_nothing() {
        let nothing = LabelMatcher { never: true, ..LabelMatcher::default() };
        for text in ["a,!a", "a=b,a=c", "a in (b,c),a notin (c,b,d)", "a>5,a<6", "a>9223372036854775807", "a>1,a=b", "z=1,!z,b=2"] {
            let matcher = LabelMatcher::new(&parse::labels(text).expect(text));
            assert_eq!(matcher, nothing, "{text}");
            let objects = [test_object_with("a", 1, &[("a", "b"), ("b", "2")], &[]), test_object_with("b", 1, &[], &[])];
            assert!(objects.iter().all(|object| !matcher.matches(object.labels())));
        }
    }

    #[test]
    fn one_value_is_an_equality_however_it_is_asked_for() {
        for text in ["b=1", "b in (1,2),b!=2", "a in (1,2),b in (1)", "a,!c,b>0,b in (0,1)", "b=1,c=1"] {
            assert_eq!(LabelMatcher::new(&parse::labels(text).expect(text)).equalities().next(), Some(("b", "1")), "{text}");
        }
        for text in ["", "b", "b!=1", "b in (1,2)", "b=1,b=2", "b>0,b<2"] {
            assert_eq!(LabelMatcher::new(&parse::labels(text).expect(text)).equalities().next(), None, "{text}");
        }
    }

    /// 9,000 requirements took 0.3 to 2.5 s of everybody's time in lists of 200,000 objects: each object was held against each of them.
    #[test]
    fn an_object_costs_its_labels_however_long_the_selector() {
        const OBJECTS: usize = 2_000;
        const LABELS: [(&str, &str); 5] =
            [("app", "web"), ("k17", "x"), ("k8999", "y"), ("pod-template-hash", "6f7c9d"), ("tier", "front")];
        let objects: Vec<Object> = (0..OBJECTS).map(|_| test_object_with("a", 1, &LABELS, &[])).collect();
        let per_object = |requirements: usize, text: &dyn Fn(usize) -> String| {
            let text = (0..requirements).map(text).collect::<Vec<_>>().join(",");
            let matcher = LabelMatcher::new(&parse::labels(&text).expect("a selector"));
            let began = Instant::now();
            let matched = objects.iter().filter(|object| matcher.matches(object.labels())).count();
            (began.elapsed().as_nanos() / OBJECTS as u128, matched, text.len(), matcher.weight())
        };
        for (kind, want) in [("k_!=z", OBJECTS), ("!n_", OBJECTS), ("k_ notin (x,z)", 0), ("k_=z", 0)] {
            let text = |n: usize| kind.replace('_', &n.to_string());
            let (few, ..) = per_object(9, &text);
            let (many, matched, bytes, weight) = per_object(9_000, &text);
            assert_eq!(matched, want, "{kind}");
            assert!(many < few * 50 + 500, "{kind}: {few} ns an object with 9 requirements, {many} ns with 9,000");
            assert!(weight < bytes * 5, "{kind}: a text of {bytes} bytes is held in {weight}");
        }
    }
}
