//! `docs/reference/metrics.md`, made of the families themselves.

use std::cell::RefCell;
use std::fmt::Write;

use prometheus::core::Collector;
use prometheus::proto::MetricType;

use super::Metrics;

/// A family as it was registered.
struct Told {
    name: String,
    kind: MetricType,
    labels: Vec<String>,
    help: String,
}

thread_local! {
    static TOLD: RefCell<Vec<Told>> = const { RefCell::new(Vec::new()) };
}

/// Notes a family that is being registered.
pub(super) fn note(family: &impl Collector) {
    let kinds = family.collect();
    let told = family.desc().into_iter().zip(&kinds).map(|(told, kind)| Told {
        name: told.fq_name.clone(),
        kind: kind.get_field_type(),
        labels: told.variable_labels.clone(),
        help: told.help.clone(),
    });
    TOLD.with_borrow_mut(|all| all.extend(told));
}

const HEAD: &str = "# Metrics

Made from the code: a test fails when this page is not what the program registers. `/metrics` has these families in Prometheus' text format, with kube-apiserver's names where they have a meaning here. A family with labels appears with its first series, and the series of a
custom resource, or of one of its versions, disappear when it is no longer served. What to watch and what to do about it: [operations](../operations.md#metrics).
";

fn rows(page: &mut String, title: &str, families: &[&Told]) {
    let _ = write!(page, "\n## {title}\n\n| name | type | labels | |\n|---|---|---|---|\n");
    for Told { name, kind, labels, help } in families {
        let kind = format!("{kind:?}").to_lowercase();
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let _ = writeln!(page, "| `{name}` | {kind} | {} | {} |", labels.join(", "), escaped(help));
    }
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "\\<").replace('*', "\\*")
}

#[test]
fn the_page_is_what_is_registered() {
    TOLD.with_borrow_mut(Vec::clear);
    let metrics = Metrics::new();
    let mut all = TOLD.take();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let rendered = String::from_utf8(metrics.render()).expect("UTF-8");
    for name in rendered.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()) {
        assert!(all.iter().any(|told| told.name == name), "{name} was not noted");
    }
    let (ours, others): (Vec<&Told>, Vec<&Told>) = all.iter().partition(|told| told.name.starts_with("watchcache_"));
    let (process, theirs): (Vec<&Told>, Vec<&Told>) = others.into_iter().partition(|told| told.name.starts_with("process_"));
    let mut page = HEAD.to_owned();
    rows(&mut page, "Of watchcache's own", &ours);
    rows(&mut page, "With kube-apiserver's names", &theirs);
    rows(&mut page, "Of the process", &process);
    metrics.slis.checked("etcd", "readyz", true);
    let slis = metrics.slis.told();
    let slis: Vec<Told> = slis
        .iter()
        .map(|family| Told {
            name: family.name().to_owned(),
            kind: family.get_field_type(),
            labels: family.get_metric().iter().take(1).flat_map(|metric| metric.get_label()).map(|label| label.name().to_owned()).collect(),
            help: family.help().to_owned(),
        })
        .collect();
    rows(&mut page, "At `/metrics/slis`", &slis.iter().collect::<Vec<_>>());
    corpus::reference("metrics.md", &page);
}
