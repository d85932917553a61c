//! A hundred writes of definitions and nine of their lives, recorded from a live kube-apiserver 1.36.3 (`tests/data/definitions/record.py`), replayed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::lifecycle::FINALIZER;
use super::{
    Definition, Heads, Names, NamesInUse, Step, defaulted, marked_for_deletion, next, prepare_create, prepare_status_update,
    prepare_update,
    tree::{list, member, text},
    validate_create, validate_status_update, validate_update,
};
use codec::definition::to_stored;
use model::invalid::FieldError;

/// Finds nothing wrong with the heads of objects inside of defaults.
struct Anything;

impl Heads for Anything {
    fn coerce(&self, _: schema::EmbeddedMut<'_>) -> Result<(), FieldError> {
        Ok(())
    }

    fn wrong(&self, _: schema::Embedded<'_>) -> Vec<FieldError> {
        Vec::new()
    }
}

fn lines(recorded: &str) -> Vec<Value> {
    recorded.lines().map(|line| serde_json::from_str(line).expect("recorded JSON")).collect()
}

fn cases() -> Vec<Value> {
    lines(include_str!("../../../tests/data/definitions/cases.jsonl"))
}

/// The recorded causes, without those of generic metadata, which the writer finds.
fn causes(case: &Value) -> Vec<String> {
    let generic = |message: &str| message.contains("RFC 1123 subdomain");
    let cause = |cause: &Value| format!("{} {} {}", text(cause, "reason"), text(cause, "field"), text(cause, "message"));
    let causes = list(&case["answer"], "causes").iter();
    causes.filter(|cause| text(cause, "field") != "metadata.name" || !generic(text(cause, "message"))).map(cause).collect()
}

fn found(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(|error| format!("{} {} {}", error.kind.cause(), error.field, error.message)).collect()
}

/// kube-apiserver walks maps in any order, so errors inside of schemas have none.
fn check_errors(name: &str, errors: &[FieldError], case: &Value) {
    let (mut ours, mut theirs) = (found(errors), causes(case));
    if theirs.iter().any(|cause| cause.contains("properties[")) {
        ours.sort();
        theirs.sort();
    }
    assert_eq!(ours, theirs, "{name}");
}

/// The status with times blanked. In a protected group two controllers of kube-apiserver race, so the order of their conditions is nobody's.
fn timeless(object: &Value) -> Value {
    let mut status = object["status"].clone();
    if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
        for condition in conditions.iter_mut() {
            condition["lastTransitionTime"] = json!("T");
        }
        if super::approval::is_protected(text(&object["spec"], "group")) {
            conditions.sort_by_cached_key(|condition| text(condition, "type").to_owned());
        }
    }
    status
}

/// The names of another definition of the group.
fn taken(other: &Value) -> NamesInUse {
    let (group, names) = Names::read(other.to_string().as_bytes());
    assert!(names == Names::accepted(other) && group == text(&other["spec"], "group") || !other["status"].is_object());
    let mut taken = NamesInUse::default();
    taken.add(&names);
    taken
}

/// Steps until there are none, alone in the cluster.
fn settled(mut object: Value) -> Value {
    for _ in 0..9 {
        match next(&object, &NamesInUse::default(), None, "T") {
            Some(Step::UpdateStatus(updated)) => object = updated,
            None => return object,
            Some(step) => panic!("{step:?}"),
        }
    }
    panic!("never settles");
}

#[test]
fn creates_are_answered_as_by_kube_apiserver() {
    let (mut good, mut bad) = (0, 0);
    for case in cases().iter().filter(|case| case.get("create").is_some()) {
        let name = text(case, "name");
        let mut object = case["create"].clone();
        defaulted(&mut object);
        prepare_create(&mut object);
        check_errors(name, &validate_create(&object, &Anything), case);
        let Some(created) = case.get("created") else {
            bad += 1;
            continue;
        };
        for part in ["spec", "status"] {
            assert_eq!(object[part], created[part], "{name}");
        }
        assert_eq!(object["metadata"]["generation"], created["metadata"]["generation"], "{name}");
        assert_eq!(timeless(&settled(object)), timeless(&case["settled"]), "{name}");
        good += 1;
    }
    assert!(good >= 19 && bad >= 80, "{good} good, {bad} bad");
}

#[test]
fn updates_are_answered_as_by_kube_apiserver() {
    let (mut good, mut bad) = (0, 0);
    for case in cases().iter().filter(|case| case.get("update").is_some()) {
        let (name, old) = (text(case, "name"), &case["old"]);
        let mut object = case["update"].clone();
        defaulted(&mut object);
        prepare_update(&mut object, old);
        check_errors(name, &validate_update(&object, old, &Anything), case);
        let Some(updated) = case.get("updated") else {
            bad += 1;
            continue;
        };
        for part in ["spec", "status"] {
            assert_eq!(object[part], updated[part], "{name}");
        }
        assert_eq!(object["metadata"]["generation"], updated["metadata"]["generation"], "{name}");
        assert_eq!(timeless(&settled(object)), timeless(&case["settled"]), "{name}");
        good += 1;
    }
    assert!(good >= 9 && bad >= 10, "{good} good, {bad} bad");
}

/// The frames of one watch, each checked against what we would have written.
struct Story<'s> {
    name: &'s str,
    states: BTreeMap<String, Value>,
    steps: usize,
}

impl Story<'_> {
    fn next(&self, name: &str, instances_left: Option<bool>, now: &str) -> Option<Step> {
        let mut taken = NamesInUse::default();
        let of_group = |state: &&Value| state["spec"]["group"] == self.states[name]["spec"]["group"];
        self.states.values().filter(of_group).for_each(|state| taken.add(&Names::accepted(state)));
        next(&self.states[name], &taken, instances_left, now)
    }

    /// Nothing is left to do when a client speaks.
    fn is_quiet(&self) {
        for name in self.states.keys() {
            assert_eq!(self.next(name, None, "T"), None, "{}: {name}", self.name);
        }
    }

    fn frame(&mut self, kind: &str, mut object: Value) {
        object["metadata"].as_object_mut().expect("an object").remove("resourceVersion");
        let name = text(&object["metadata"], "name").to_owned();
        let Some(old) = self.states.get(&name).cloned() else {
            assert_eq!(kind, "ADDED");
            self.is_quiet();
            self.states.insert(name, object);
            return;
        };
        if kind == "DELETED" {
            if list(&old["metadata"], "finalizers").iter().any(|finalizer| finalizer == FINALIZER) {
                let finished = self.next(&name, Some(false), "T");
                assert!(matches!(&finished, Some(Step::Finish(last)) if last["metadata"].get("finalizers").is_none()), "{finished:?}");
                if super::conditions::is_true(&old, "Established") {
                    assert_eq!(self.next(&name, None, "T"), Some(Step::DeleteInstances));
                    assert_eq!(self.next(&name, Some(true), "T"), Some(Step::DeleteInstances));
                }
                self.steps += 1;
            }
            self.states.remove(&name);
            return;
        }
        let reason = |object: &Value| super::conditions::find(object, "Terminating").map(|c| text(c, "reason").to_owned());
        if object == old || reason(&object).is_some_and(|reason| reason == "InstanceDeletionFailed") {
            // The real server fails to list once while it takes the resource away; that is its own affair.
            return;
        }
        let parsed = Definition::parse(&to_stored(&object)).expect("a definition");
        let holds = |kind| super::conditions::is_true(&object, kind);
        assert_eq!(parsed.is_served(), holds("NamesAccepted") || holds("Established"), "{}", self.name);
        let now = list(&object["status"], "conditions").iter().map(|c| text(c, "lastTransitionTime").to_owned()).max().unwrap_or_default();
        let going = |object: &Value| member(&object["metadata"], "deletionTimestamp").is_some();
        if going(&object) && !going(&old) {
            self.is_quiet();
            assert_eq!(marked_for_deletion(&old, &now), object, "{}", self.name);
        } else if object["status"] == old["status"] || object["metadata"]["generation"] != old["metadata"]["generation"] {
            let mut prepared = object.clone();
            prepare_update(&mut prepared, &old);
            assert_eq!((prepared, validate_update(&object, &old, &Anything)), (object.clone(), Vec::new()), "{}", self.name);
        } else {
            let step = match self.next(&name, None, &now) {
                Some(Step::DeleteInstances) => {
                    assert_eq!(self.next(&name, Some(true), &now), Some(Step::DeleteInstances));
                    self.next(&name, Some(false), &now)
                }
                step => step,
            };
            let Some(Step::UpdateStatus(ours) | Step::Finish(ours)) = step else { panic!("{}: no step to {object}", self.name) };
            assert_eq!(ours, object, "{}", self.name);
            self.steps += 1;
        }
        self.states.insert(name, object);
    }
}

#[test]
fn lives_go_as_with_kube_apiserver() {
    let frames = lines(include_str!("../../../tests/data/definitions/lifecycle.jsonl"));
    let stories: Vec<&[Value]> = frames.chunk_by(|one, next| one["story"] == next["story"]).collect();
    assert_eq!(stories.len(), 9);
    let mut steps = 0;
    for frames in stories {
        let name = text(&frames[0], "story");
        let mut story = Story { name, states: BTreeMap::new(), steps: 0 };
        for frame in frames {
            story.frame(text(frame, "type"), frame["object"].clone());
        }
        story.is_quiet();
        assert!(story.states.is_empty() && story.steps >= 4, "{name}: {} steps", story.steps);
        steps += story.steps;
    }
    assert!(steps >= 50, "{steps} steps");
}

fn object() -> Value {
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "foos.ex.io"},
        "spec": {"group": "ex.io", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"}, "versions": [version]},
    })
}

#[test]
fn several_short_names_in_use_are_told_together() {
    let mut other = object();
    other["status"] = json!({"acceptedNames": {"plural": "bars", "kind": "Bar", "shortNames": ["a", "b"]}});
    let mut new = object();
    new["spec"]["names"]["shortNames"] = json!(["a", "c", "b", "a"]);
    defaulted(&mut new);
    let Some(Step::UpdateStatus(updated)) = next(&new, &taken(&other), None, "T") else { panic!("a step") };
    assert_eq!(updated["status"]["conditions"][0]["message"], "[\"a\" is already in use, \"b\" is already in use]");
    assert_eq!(updated["status"]["conditions"][1]["reason"], "NotAccepted");
    assert_eq!(next(&updated, &taken(&other), None, "T"), None, "and once is enough");
    assert_eq!(settled(new)["status"]["conditions"][1]["status"], "True", "once they are free");
}

#[test]
fn a_bundle_is_looked_at_once_the_definition_is_established() {
    let mut old = object();
    defaulted(&mut old);
    let mut new = old.clone();
    let config = json!({"url": "https://x", "caBundle": "AAAA"});
    new["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]}});
    assert_eq!(validate_update(&new, &old, &Anything), []);
    old["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
    assert_eq!(validate_update(&new, &old, &Anything)[0].field, "spec.conversion.webhookClientConfig.caBundle");
}

#[test]
fn status_updates_keep_the_spec() {
    let mut old = object();
    defaulted(&mut old);
    prepare_create(&mut old);
    let mut new = old.clone();
    new["spec"]["scope"] = json!("Cluster");
    new["status"]["acceptedNames"]["plural"] = json!("A_");
    prepare_status_update(&mut new, &old);
    assert_eq!(new["spec"], old["spec"]);
    assert_eq!(validate_status_update(&new)[0].field, "status.acceptedNames.plural");
}

/// Each error about stored versions shows all of them; and each version may be looked for among those of the other side.
#[test]
fn of_very_many_wrong_versions_little_is_told() {
    let mut old = object();
    defaulted(&mut old);
    let many = |of: &dyn Fn(usize) -> Value| Value::from((0..20_000).map(of).collect::<Vec<_>>());
    let (mut repeated, mut named) = (old.clone(), old.clone());
    repeated["spec"]["versions"] = many(&|_| json!({"name": "v", "storage": true}));
    repeated["status"]["storedVersions"] = many(&|_| json!("v"));
    named["spec"]["versions"] = many(&|at| json!({"name": format!("v{at}"), "selectableFields": [{"jsonPath": ".a"}]}));
    named["status"]["storedVersions"] = many(&|at| json!(format!("w{at}")));
    for (new, old) in [(&repeated, &old), (&named, &old), (&named, &repeated), (&repeated, &named)] {
        let told: usize = validate_update(new, old, &Anything).iter().map(FieldError::bytes).sum();
        assert!((1_000..32 << 20).contains(&told), "{told} bytes");
    }
}

#[test]
fn wrong_types_do_not_panic() {
    for object in [
        json!(null),
        json!([]),
        json!({"metadata": 1, "spec": 2, "status": 3}),
        json!({"spec": {"names": [], "versions": [1, null, {"schema": {"openAPIV3Schema": [2]}}], "conversion": 4, "group": 5}}),
        json!({"spec": {"versions": [{"storage": true, "schema": {"openAPIV3Schema": {"type": 1, "properties": {"a": 2}, "items": 3,
            "allOf": [4], "anyOf": 5, "not": 6, "x-kubernetes-validations": [7], "dependencies": {"d": [8]}}}}]}}),
        json!({"status": {"conditions": [1, {"type": "Terminating"}], "acceptedNames": [], "storedVersions": [2]}}),
    ] {
        let mut new = object.clone();
        defaulted(&mut new);
        prepare_create(&mut new);
        assert!(!validate_create(&new, &Anything).is_empty());
        prepare_update(&mut new, &object);
        prepare_status_update(&mut new, &object);
        assert!(!validate_update(&new, &object, &Anything).is_empty());
        let _ = validate_status_update(&new);
        let _ = next(&marked_for_deletion(&new, "T"), &taken(&object), None, "T");
        let _ = next(&object, &taken(&new), None, "T");
    }
}

/// Each of them had the schema of the whole compiled again, which for so many takes minutes.
#[test]
fn defaults_of_a_schema_are_judged_by_one_that_is_compiled_once() {
    const MANY: usize = 4_000;
    let field = |default: &str| json!({"type": "string", "default": default});
    let head: Value = (0..MANY).map(|nth| (format!("f{nth}"), field("x"))).collect();
    let members = json!({"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object", "properties": head}});
    let inner = json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": members});
    let nested = (0..60).fold(field("y"), |inner, _| json!({"type": "object", "default": {}, "properties": {"n": inner}}));
    let mut wrong = field("z");
    wrong["pattern"] = "^a".into();
    let spec = json!({"type": "object", "properties": {"inner": inner, "nested": nested, "wrong": wrong}});
    let root = json!({"type": "object", "properties": {"spec": spec}});
    let errors = super::defaults::wrong_defaults(&root, "s", true, &Anything);
    let fields: Vec<&str> = errors.iter().map(|error| &*error.field).collect();
    assert_eq!(fields, ["s.properties[spec].properties[wrong].default"]);
}

/// kube-apiserver has the same words for what is larger than Go takes.
#[test]
fn patterns_that_take_too_much_are_refused() {
    let schema = |patterns: &[String]| {
        let fields: Value =
            (0..).zip(patterns).map(|(nth, pattern)| (format!("f{nth}"), json!({"type": "string", "pattern": pattern}))).collect();
        json!({"type": "object", "properties": fields})
    };
    let refused = |schema: &Value, are_bounded| super::structural::wrong_structure(schema, "s", are_bounded).len();
    let large = |nth: usize| format!("(?:{}){{1000}}z{nth}", "x".repeat(60));
    let one = schema(&["(?:abcdefghij){1000}".repeat(90)]);
    let errors = super::structural::wrong_structure(&one, "s", true);
    let begin = "must be a valid regular expression, but isn't: error parsing regexp: expression too large: `(?:abc";
    assert!(errors.len() == 1 && errors[0].message.contains(begin), "{:.200}", errors[0].message);
    assert_eq!(refused(&one, false), 0, "one that is stored is structural");
    let many = schema(&(0..100).map(large).collect::<Vec<_>>());
    assert!((60..90).contains(&refused(&many, true)) && !super::structural::has_small_patterns(&many));
    assert_eq!(refused(&schema(&vec![large(0); 1_000]), true), 0, "each text counts once");
    let usual: Vec<String> = (0..2_000).map(|nth| format!("^[a-z0-9]([-a-z0-9]{{0,61}}[a-z0-9])?{nth}$")).collect();
    assert_eq!(refused(&schema(&usual), true), 0);
}
