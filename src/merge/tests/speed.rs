//! How long writes take: the operations of structured-merge-diff's `BenchmarkOperations`, on its objects, with its schema. Prints microseconds; meant for an
//! optimised build.

#[path = "library/schema.rs"]
mod schema;

use std::{
    collections::BTreeMap,
    hint::black_box,
    io::{Write as _, stdout},
    path::PathBuf,
};

use serde_json::Value;
use watchcache_merge::{ConvertError, Converter, Duplicates, Managers, ParseableType, TypedValue, Updater, fields_v1};

/// All versions are the same.
struct Same;

impl Converter for Same {
    fn convert<'a>(&self, object: &'a TypedValue<'_>, _version: &str) -> Result<TypedValue<'a>, ConvertError> {
        Ok(object.borrow())
    }
}

fn file(name: &str) -> Value {
    let folder =
        std::env::var_os("WATCHCACHE_TEST_MERGE").expect("WATCHCACHE_TEST_MERGE names the folder that tests/merge/dump.sh has filled");
    let text = std::fs::read(PathBuf::from(folder).join("testdata").join(name)).expect("the object is there");
    serde_json::from_slice(&text).expect("it is JSON")
}

/// How long this thread has computed, whatever else the machine does.
fn computed() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel counts");
    text.split(' ').next().and_then(|nanoseconds| nanoseconds.parse::<f64>().ok()).expect("it begins with a count") / 1e3
}

/// The median of several runs, in microseconds each.
fn time(mut operation: impl FnMut()) -> f64 {
    let mut several = |rounds: usize| {
        let start = computed();
        (0..rounds).for_each(|_| operation());
        computed() - start
    };
    // Without the optimiser the figure says nothing, but the operations are done.
    let (repeats, rounds) =
        if cfg!(debug_assertions) { (1, 1) } else { (9, (20_000.0 / several(3).max(1.0)).clamp(3.0, 2_000.0) as usize) };
    let mut times: Vec<f64> = (0..repeats).map(|_| several(rounds) / rounds as f64).collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[test]
#[ignore = "needs structured-merge-diff's objects: WATCHCACHE_TEST_MERGE"]
fn operations() {
    let core = "io.k8s.api.core.v1";
    let definitions = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1beta1.CustomResourceDefinition";
    let kinds = [
        ("Pod", format!("{core}.Pod"), "pod.json"),
        ("Node", format!("{core}.Node"), "node.json"),
        ("Endpoints", format!("{core}.Endpoints"), "endpoints.json"),
        ("PrometheusCRD", definitions.to_owned(), "prometheus-crd.json"),
    ];
    let schema = schema::schema(&file("k8s-schema.json"));
    let mut shown = String::from("kind, microseconds:");
    for (kind, type_name, object) in kinds {
        let of = ParseableType::of(&schema, &type_name).expect("the schema has it");
        let object = file(object);
        let times = measure(&object, &of);
        shown += &format!("\n{kind}");
        times.into_iter().for_each(|(name, time)| shown += &format!(", {name} {time:.1}"));
    }
    writeln!(stdout(), "{shown}").expect("stdout");
}

fn measure(object: &Value, of: &ParseableType) -> BTreeMap<&'static str, f64> {
    let updater = Updater::new(&Same);
    let nothing = TypedValue::unvalidated(std::borrow::Cow::Owned(Value::Null), of);
    let object = TypedValue::borrowed(object, of);
    let create = |version: &str| updater.update(&nothing, &object, version, Managers::new(), "controller").expect("it is new");
    let apply = || updater.apply(&nothing, &object, "v1", Managers::new(), "controller", false).expect("it is new");
    let update = |version: &str| updater.update(&object, &object, version, create("v1"), "other-controller").expect("nothing is wrong");
    let apply_twice = || {
        let first = apply();
        let live = first.object.expect("it is new");
        let live = TypedValue::borrowed(&live, of);
        updater.apply(&live, &object, "v1", first.managers, "other-controller", false).expect("they agree")
    };
    let (first, first_managers) = (apply().object.expect("it is new"), apply().managers);
    let live = TypedValue::borrowed(&first, of);
    let apply_again = || {
        let again = updater.apply(&live, &object, "v1", first_managers.clone(), "controller", false).expect("nothing changes");
        assert!(again.object.is_none() && again.managers["controller"].set.is_same(&first_managers["controller"].set));
    };
    let set = create("v1").remove("controller").expect("it manages all").set;
    let written = fields_v1::write(&set);
    BTreeMap::from([
        ("Create", time(|| drop(black_box(create("v1"))))),
        ("Apply", time(|| drop(black_box(apply())))),
        ("ApplyTwice", time(|| drop(black_box(apply_twice())))),
        ("Update", time(|| drop(black_box(update("v1"))))),
        ("UpdateVersion", time(|| drop(black_box(update("v2"))))),
        ("apply again", time(apply_again)),
        ("validate", time(|| black_box(object.validate(Duplicates::Allowed)).expect("it is valid"))),
        ("read FieldsV1", time(|| drop(black_box(fields_v1::read(written.as_bytes()))))),
        ("write FieldsV1", time(|| drop(black_box(fields_v1::write(&set))))),
    ])
}
