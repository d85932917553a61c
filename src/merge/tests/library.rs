//! What structured-merge-diff does in its own tests, done here: the same objects, sets and errors. `tests/merge/dump.sh` writes the cases.

#[path = "library/convert.rs"]
mod convert;
#[path = "library/schema.rs"]
mod schema;

use std::{borrow::Cow, collections::BTreeMap, path::PathBuf, sync::Arc};

use serde_json::{Value, json};
use watchcache_merge::{
    Duplicates, Filter, Managers, ParseableType, PathElementMatcher, Schema, Set, SetMatcher, TypedValue, Updater, ValidationErrors,
    definition::{Atom, TypeDef},
    fields_v1, openapi, reconcile_field_set_with_schema,
    value::equals,
};

use convert::{Relation, TestConverter};
use schema::{schema, types};

/// Where the cases are.
fn folder() -> PathBuf {
    let folder =
        std::env::var_os("WATCHCACHE_TEST_MERGE").expect("WATCHCACHE_TEST_MERGE names the folder that tests/merge/dump.sh has filled");
    PathBuf::from(folder)
}

fn lines(name: &str) -> impl Iterator<Item = Value> {
    let text = std::fs::read_to_string(folder().join(name)).expect("the cases are there");
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect::<Vec<Value>>().into_iter()
}

/// The type that a reference names; `None` when it has no name, or its schema has no such type.
fn named_type(schema: &Arc<Schema>, reference: &Value) -> Option<ParseableType> {
    ParseableType::of(schema, reference.get("namedType")?.as_str()?)
}

fn set(written: &Value) -> Set {
    fields_v1::read(written.as_str().expect("a set is a text").as_bytes()).expect("the library has written it")
}

/// An error's lines in order: Go's maps have none, so of several fields that are not declared it tells any one.
fn sorted(text: Option<&str>) -> Option<String> {
    const UNDECLARED: &str = ": field not declared in schema";
    let any = |line: &str| match line.strip_suffix(UNDECLARED).and_then(|path| path.rsplit_once('.')) {
        Some((parent, _)) => format!("{parent}{UNDECLARED}"),
        None => line.to_owned(),
    };
    text.map(|text| {
        let mut lines: Vec<String> = text.lines().map(any).collect();
        lines.sort_unstable();
        lines.join("\n")
    })
}

fn matcher(written: &Value) -> SetMatcher {
    let Some(members) = written.as_array() else { return SetMatcher::any() };
    SetMatcher::new(
        members
            .iter()
            .map(|member| {
                let element = match member[0].as_str().expect("a name") {
                    "*" => PathElementMatcher::Any,
                    name => PathElementMatcher::Is(fields_v1::element(name).expect("an element").expect("of a known kind")),
                };
                (element, matcher(&member[1]))
            })
            .collect(),
    )
}

/// Ends with all differences.
fn check(wrong: &[String], seen: &BTreeMap<String, usize>, least: usize) {
    assert!(wrong.is_empty(), "{} of {seen:?} differ:\n{}", wrong.len(), wrong[..wrong.len().min(12)].join("\n"));
    assert!(seen.values().sum::<usize>() >= least, "only {seen:?}");
}

/// A case while its operations run.
struct State {
    schema: Arc<Schema>,
    /// The type of all versions, where they have one.
    same: Option<ParseableType>,
    relation: Relation,
    filters: BTreeMap<String, Filter>,
    live: Option<(Value, ParseableType)>,
    managers: Managers,
}

impl State {
    fn new(case: &Value) -> Self {
        let schema = schema(&case["parser"]["schema"]);
        let relation = match case["converter"].as_str().expect("a name").rsplit('.').next().unwrap_or_default() {
            "dummyConverter" => Relation::Same,
            "renamingConverter" => Relation::Renamed,
            "repeatingConverter" => Relation::Repeated,
            "reliantFieldsConverter" => Relation::Reliant,
            other => panic!("no converter {other}"),
        };
        let filters = case["filters"].as_object().into_iter().flatten().map(|(version, filter)| {
            let filter = match filter.get("exclude") {
                Some(fields) => Filter::Exclude(set(fields)),
                None => Filter::include([matcher(&filter["include"])]),
            };
            (version.clone(), filter)
        });
        Self {
            same: case["parser"].get("type").map(|of| named_type(&schema, of).expect("a named type")),
            schema,
            relation,
            filters: filters.collect(),
            live: None,
            managers: Managers::new(),
        }
    }

    fn type_at(&self, version: &str) -> Result<ParseableType, String> {
        let named = self.same.clone().or_else(|| ParseableType::of(&self.schema, version));
        named.ok_or_else(|| format!("schema error: no type found matching: {version}"))
    }

    /// Does what the library's fixture does for an operation.
    fn run(&mut self, operation: &Value) -> Result<(), String> {
        let name = operation["op"].as_str().expect("a name").trim_end_matches("Object");
        if name == "ChangeParser" {
            self.schema = schema(&operation["parser"]["schema"]);
            let (live, of) = self.live.take().expect("a schema changes below an object");
            let of = ParseableType::of(&self.schema, of.name().expect("a named type")).ok_or("no such type")?;
            let checked = TypedValue::borrowed(&live, &of).validate(Duplicates::Refused);
            self.live = Some((live, of));
            return checked.map_err(text);
        }
        let (manager, version) = (operation["manager"].as_str().expect("a name"), operation["version"].as_str().expect("a name"));
        let duplicates = if name == "Update" { Duplicates::Allowed } else { Duplicates::Refused };
        let object = TypedValue::new(Cow::Borrowed(&operation["object"]), &self.type_at(version)?, duplicates).map_err(text)?;
        match name {
            "Update" => self.update(&object, version, manager),
            "Apply" => self.apply(&object, version, manager, false),
            "ForceApply" => self.apply(&object, version, manager, true),
            "ExtractApply" => {
                let Some((live, of)) = &self.live else { return self.apply(&object, version, manager, true) };
                let converter = self.converter();
                let live = TypedValue::borrowed(live, of);
                let current = watchcache_merge::Converter::convert(&converter, &live, version).map_err(text)?;
                let fields = match self.managers.get(manager) {
                    Some(managed) if managed.version != version => {
                        let managed = &managed.version;
                        return Err(format!(
                            "existing managed fieldpath set APIVersion ({managed}) differs from desired ({version}), unable to extract"
                        ));
                    }
                    Some(managed) => managed.set.leaves(),
                    None => Set::new(),
                };
                let extracted = TypedValue::unvalidated(Cow::Owned(current.extract_items(&fields)), current.parseable_type());
                let merged = extracted.merge(&object).map_err(text)?.unwrap_or_else(|| extracted.value().clone());
                let merged = TypedValue::unvalidated(Cow::Owned(merged), object.parseable_type());
                self.apply(&merged, version, manager, true)
            }
            other => panic!("no operation {other}"),
        }
    }

    fn converter(&self) -> TestConverter {
        TestConverter { relation: self.relation, schema: Arc::clone(&self.schema), same: self.same.clone() }
    }

    /// The object in a version, which the fixture keeps it in from then on.
    fn convert_live(&mut self, version: &str) -> Result<(), String> {
        let (live, of) = match self.live.take() {
            Some(live) => live,
            None => (Value::Null, self.type_at(version)?),
        };
        let converter = self.converter();
        let typed = TypedValue::borrowed(&live, &of);
        let converted = watchcache_merge::Converter::convert(&converter, &typed, version).map(|typed| {
            let of = typed.parseable_type().clone();
            (typed.into_value().into_owned(), of)
        });
        let converted = converted.map_err(text);
        let kept = converted.clone().unwrap_or_else(|_| (live.clone(), of.clone()));
        self.live = Some(kept);
        converted.map(drop)
    }

    fn update(&mut self, object: &TypedValue<'_>, version: &str, manager: &str) -> Result<(), String> {
        self.convert_live(version)?;
        let (live, of) = self.live.as_ref().expect("it was converted");
        let converter = self.converter();
        let updater = Updater::with_filters(&converter, &self.filters);
        let managers = updater.update(&TypedValue::borrowed(live, of), object, version, self.managers.clone(), manager).map_err(text)?;
        self.managers = managers;
        self.live = Some((object.value().clone(), object.parseable_type().clone()));
        Ok(())
    }

    fn apply(&mut self, config: &TypedValue<'_>, version: &str, manager: &str, force: bool) -> Result<(), String> {
        self.convert_live(version)?;
        let (live, of) = self.live.as_ref().expect("it was converted");
        let converter = self.converter();
        let updater = Updater::with_filters(&converter, &self.filters);
        let applied =
            updater.apply(&TypedValue::borrowed(live, of), config, version, self.managers.clone(), manager, force).map_err(text)?;
        self.managers = applied.managers;
        if let Some(object) = applied.object {
            let of = of.clone();
            self.live = Some((object, of));
        }
        Ok(())
    }

    fn managers(&self) -> Value {
        let managed = self.managers.iter().map(|(name, managed)| {
            (name.clone(), json!({"set": fields_v1::write(&managed.set), "version": managed.version, "applied": managed.applied}))
        });
        Value::Object(managed.collect())
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[test]
#[ignore = "needs structured-merge-diff's cases: WATCHCACHE_TEST_MERGE"]
fn writes() {
    let (mut wrong, mut seen) = (Vec::new(), BTreeMap::<String, usize>::new());
    let mut state = None;
    let mut case = Value::Null;
    for line in lines("merge.jsonl") {
        if line.get("case").is_some() {
            *seen.entry("case".to_owned()).or_default() += 1;
            state = Some(State::new(&line));
            case = line;
            continue;
        }
        *seen.entry(line["op"].as_str().expect("a name").to_owned()).or_default() += 1;
        let state = state.as_mut().expect("a case begins with its schema");
        let error = state.run(&line).err();
        let mut tell = |what: &str, ours: &dyn std::fmt::Display, theirs: &dyn std::fmt::Display| {
            wrong.push(format!("{} {}: {what}\n  ours:   {ours}\n  theirs: {theirs}\n  {line}", case["converter"], line["op"]));
        };
        if case["bothFilters"] == json!(true) {
            continue;
        }
        if sorted(error.as_deref()) != sorted(line["error"].as_str()) {
            tell("error", &error.as_deref().unwrap_or("none"), &line["error"]);
        }
        let live = state.live.as_ref().map_or(&Value::Null, |(live, _)| live);
        if !equals(live, &line["live"]) {
            tell("object", live, &line["live"]);
        }
        let managers = state.managers();
        if managers != line["managers"] {
            tell("managers", &managers, &line["managers"]);
        }
    }
    check(&wrong, &seen, 413 + 1067);
}

#[test]
#[ignore = "needs structured-merge-diff's cases: WATCHCACHE_TEST_MERGE"]
fn typed_values() {
    let (mut wrong, mut seen) = (Vec::new(), BTreeMap::<String, usize>::new());
    for line in lines("typed.jsonl") {
        let operation = line["op"].as_str().expect("a name");
        let schema = schema(&line["schema"]);
        let Some(of) = named_type(&schema, &line["type"]) else {
            *seen.entry("of no named type".to_owned()).or_default() += 1;
            continue;
        };
        *seen.entry(operation.to_owned()).or_default() += 1;
        let lhs = TypedValue::borrowed(&line["lhs"], &of);
        let rhs = TypedValue::borrowed(&line["rhs"], &of);
        let shown = |set: &Set| json!(fields_v1::write(set));
        let (out, error): (Value, Option<String>) = match operation {
            "validate" => {
                let duplicates = if line["duplicates"] == json!(true) { Duplicates::Allowed } else { Duplicates::Refused };
                (Value::Null, lhs.validate(duplicates).err().map(text))
            }
            "toFieldSet" => outcome(lhs.to_field_set(), |set| shown(&set)),
            "merge" => outcome(lhs.merge(&rhs), |merged| merged.unwrap_or_else(|| lhs.value().clone())),
            "compare" => outcome(lhs.compare(&rhs), |comparison| json!(comparison.to_string())),
            "remove" => (lhs.remove_items(&set(&line["items"])).unwrap_or_else(|| lhs.value().clone()), None),
            "extract" if line["keys"] == json!(true) => (lhs.extract_items_with_keys(&set(&line["items"])), None),
            "extract" => (lhs.extract_items(&set(&line["items"])), None),
            "reconcile" => match reconcile_field_set_with_schema(&set(&line["items"]), &of) {
                // The library makes anew what does not change at the root.
                Ok(None) if line["out"] == line["items"] => (line["out"].clone(), None),
                Ok(reconciled) => (reconciled.as_ref().map_or(Value::Null, shown), None),
                Err(e) => (Value::Null, Some(e)),
            },
            other => panic!("no operation {other}"),
        };
        let theirs = line.get("out").unwrap_or(&Value::Null);
        // The library's tests read YAML into maps of another Go type than kube-apiserver does, and some errors name the type.
        let their_error = line["error"].as_str().map(|text| text.replace("map[interface {}]interface {}", "map[string]interface {}"));
        if sorted(error.as_deref()) != sorted(their_error.as_deref()) || (error.is_none() && !equals(&out, theirs)) {
            wrong.push(format!("ours: {out} {error:?}\n  theirs: {theirs} {}\n  {line}", line["error"]));
        }
        if operation == "compare" && error.is_none() {
            let comparison = lhs.compare(&rhs).expect("it was compared");
            let sets = json!([shown(&comparison.removed), shown(&comparison.modified), shown(&comparison.added)]);
            if sets != json!([line["removed"], line["modified"], line["added"]]) {
                wrong.push(format!("ours: {sets}\n  {line}"));
            }
        }
    }
    check(&wrong, &seen, 1800);
}

fn outcome<T>(result: Result<T, ValidationErrors>, value: impl FnOnce(T) -> Value) -> (Value, Option<String>) {
    match result {
        Ok(made) => (value(made), None),
        Err(e) => (Value::Null, Some(text(e))),
    }
}

/// The types that kube-openapi makes of Kubernetes' documents.
#[test]
#[ignore = "needs structured-merge-diff's cases: WATCHCACHE_TEST_MERGE"]
fn types_of_documents() {
    let file = |name: &str| -> Value {
        serde_json::from_slice(&std::fs::read(folder().join("testdata").join(name)).expect("a file")).expect("JSON")
    };
    let (theirs, documents) = (file("kube-openapi.json"), file("schemas.json"));
    let schemas = documents.as_object().into_iter().flatten().map(|(name, schema)| (name.as_str(), schema));
    let ours = openapi::types(schemas, false).expect("they are types");
    let mut theirs: BTreeMap<String, String> = types(&theirs).into_iter().map(|of| (of.name.clone(), shown(of))).collect();
    assert!(ours.len() > 700 && ours.len() == theirs.len(), "{} {}", ours.len(), theirs.len());
    for of in ours {
        let name = of.name.clone();
        assert_eq!(Some(shown(of)), theirs.remove(&name), "{name}");
    }
}

/// A type's text. What has no fields or defaults is the same however it says so.
fn shown(mut of: TypeDef) -> String {
    fn sort(atom: &mut Atom) {
        for map in atom.map.iter_mut() {
            map.fields.sort_by(|lhs, rhs| lhs.name.cmp(&rhs.name));
            map.fields.iter_mut().for_each(|field| sort(&mut field.of.inlined));
            sort(&mut map.element_type.inlined);
        }
        for list in atom.list.iter_mut() {
            sort(&mut list.element_type.inlined);
        }
    }
    sort(&mut of.atom);
    format!("{of:?}")
}

#[test]
#[ignore = "needs structured-merge-diff's cases: WATCHCACHE_TEST_MERGE"]
fn sets() {
    let (mut wrong, mut seen) = (Vec::new(), BTreeMap::<String, usize>::new());
    for line in lines("fieldpath.jsonl") {
        let operation = line["op"].as_str().expect("a name");
        let is_unwritable = |name: &str| line[name].as_str().is_some_and(|text| text.starts_with("error: "));
        if ["lhs", "rhs", "out"].into_iter().any(is_unwritable) {
            *seen.entry("without FieldsV1".to_owned()).or_default() += 1;
            continue;
        }
        *seen.entry(operation.to_owned()).or_default() += 1;
        let (lhs, rhs) = (|| set(&line["lhs"]), || set(&line["rhs"]));
        let shown = |set: &Set| json!(fields_v1::write(set));
        let out = match operation {
            "union" => shown(&lhs().union(&rhs())),
            "intersection" => shown(&lhs().intersection(&rhs())),
            "difference" => shown(&lhs().difference(&rhs())),
            "recursiveDifference" => shown(&lhs().recursive_difference(&rhs())),
            "leaves" => shown(&lhs().leaves()),
            "include" => shown(&lhs().filter_include_matches(&matcher(&line["pattern"]))),
            "shown" => json!(lhs().to_string()),
            "named" => {
                let schema = schema(&line["schema"]);
                let Some(of) = line["type"]["namedType"].as_str().and_then(|name| schema.find(name)) else { continue };
                shown(&lhs().ensure_named_fields_are_members(&schema, of))
            }
            "compare" => {
                let element =
                    |name: &str| fields_v1::element(line[name].as_str().expect("a name")).expect("an element").expect("of a known kind");
                json!(element("lhs").cmp(&element("rhs")) as i8)
            }
            "read" => {
                let text = line["text"].as_str().expect("a text");
                match fields_v1::read(text.as_bytes()) {
                    Ok(set) if line["error"].is_null() => {
                        let parsed = fields_v1::from_value(&serde_json::from_str(text).expect("it is JSON")).expect("it was read");
                        if parsed != set || json!(set.to_string()) != line["shown"] {
                            wrong.push(format!("{set} {parsed}\n  {line}"));
                        }
                        shown(&set)
                    }
                    Ok(set) => shown(&set),
                    Err(_) if !line["error"].is_null() => line["out"].clone(),
                    Err(e) => json!(e.to_string()),
                }
            }
            other => panic!("no operation {other}"),
        };
        if out != line["out"] {
            wrong.push(format!("ours: {out}\n  {line}"));
        }
    }
    check(&wrong, &seen, 6000);
}
