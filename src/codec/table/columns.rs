//! The column definitions of built-in resources, as kube-apiserver 1.36.3 answers them.

use serde::Deserialize;
use serde_json::value::RawValue;

/// Lines of `group/resource`, a tab and the JSON array; recorded by `tests/data/table/record.py`. `custom` are those of a custom resource whose
/// definition names none.
const RECORDED: &str = include_str!("columns.txt");

/// The JSON array of a built-in resource's columns; one without a printer has a name and a time.
pub(super) fn of(group: &str, resource: &str) -> &'static str {
    const WITHOUT_PRINTER: &str = "/limitranges";
    let name = format!("{group}/{resource}");
    find(&name).or_else(|| find(WITHOUT_PRINTER)).unwrap_or("null")
}

/// The columns of a custom resource: `Name`, then the given ones, or `Age` when there are none.
pub(super) fn custom(named: &[String]) -> String {
    let own: Vec<&RawValue> = find("custom").and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
    let own = own.iter().map(|column| column.get());
    let all: Vec<&str> = if named.is_empty() { own.collect() } else { own.take(1).chain(named.iter().map(String::as_str)).collect() };
    format!("[{}]", all.join(","))
}

/// What is told of the `Age` of a custom resource: the description of its creation timestamp.
pub(super) fn age_description() -> String {
    let all: Vec<Told> = find("custom").and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
    all.into_iter().nth(1).map_or_else(String::new, |column| column.description)
}

#[derive(Deserialize)]
struct Told {
    description: String,
}

fn find(name: &str) -> Option<&'static str> {
    RECORDED.lines().find_map(|line| line.split_once('\t').filter(|(known, _)| *known == name)).map(|(_, json)| json)
}
