//! The rows of what makes pods: deployments, jobs, and their kin.

use super::Printer;
use crate::table::{
    age::Moment,
    cell::{NONE, Row, UNSET, condition, containers, is_deleted, labels, moment, scalar, selector_or_none, selector_text},
    node::Node,
};

/// What workloads with `spec.template` read.
const PATHS: &[&str] = &[
    "metadata.name",
    "metadata.creationTimestamp",
    "metadata.deletionTimestamp",
    "spec.replicas",
    "spec.selector",
    "spec.completions",
    "spec.parallelism",
    "spec.template.spec.nodeSelector",
    "spec.template.spec.containers.name",
    "spec.template.spec.containers.image",
    "status",
];

const fn printer(print: fn(&Node<'_>, &mut Row<'_>)) -> Printer {
    Printer { paths: PATHS, print }
}

pub(super) const PRINTERS: &[(&str, Printer)] = &[
    ("/replicationcontrollers", printer(replication_controller)),
    ("apps/replicasets", printer(replica_set)),
    ("apps/deployments", printer(deployment)),
    ("apps/statefulsets", printer(stateful_set)),
    ("apps/daemonsets", printer(daemon_set)),
    (
        "apps/controllerrevisions",
        Printer {
            paths: &["metadata.name", "metadata.creationTimestamp", "metadata.ownerReferences", "revision"],
            print: controller_revision,
        },
    ),
    ("batch/jobs", printer(job)),
    ("batch/cronjobs", Printer { paths: &[], print: cron_job }),
    ("autoscaling/horizontalpodautoscalers", Printer { paths: &[], print: autoscaler }),
    ("autoscaling/scales", Printer { paths: &[], print: scale }),
    ("policy/poddisruptionbudgets", Printer { paths: &[], print: disruption_budget }),
];

/// Name, what is wanted, there, ready, and the age.
fn replicas(object: &Node<'_>, row: &mut Row<'_>) {
    row.name(object).int(object.path("spec.replicas").int());
    row.int(object.path("status.replicas").int()).int(object.path("status.readyReplicas").int()).age(object);
    containers(row, object.path("spec.template.spec.containers"));
}

fn replication_controller(object: &Node<'_>, row: &mut Row<'_>) {
    replicas(object, row);
    row.text(&labels(object.path("spec.selector")));
}

fn replica_set(object: &Node<'_>, row: &mut Row<'_>) {
    replicas(object, row);
    row.text(&selector_or_none(object.path("spec.selector")));
}

fn ready_of_desired(object: &Node<'_>) -> String {
    format!("{}/{}", object.path("status.readyReplicas").int(), object.path("spec.replicas").int())
}

fn deployment(object: &Node<'_>, row: &mut Row<'_>) {
    row.name(object).text(&ready_of_desired(object));
    row.int(object.path("status.updatedReplicas").int()).int(object.path("status.availableReplicas").int()).age(object);
    containers(row, object.path("spec.template.spec.containers"));
    row.text(selector_text(object.path("spec.selector")).as_deref().unwrap_or("<invalid>"));
}

fn stateful_set(object: &Node<'_>, row: &mut Row<'_>) {
    row.name(object).text(&ready_of_desired(object)).age(object);
    containers(row, object.path("spec.template.spec.containers"));
}

fn daemon_set(object: &Node<'_>, row: &mut Row<'_>) {
    row.name(object);
    for member in ["desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled", "numberAvailable"] {
        row.int(object.at("status").at(member).int());
    }
    row.text(&labels(object.path("spec.template.spec.nodeSelector"))).age(object);
    containers(row, object.path("spec.template.spec.containers"));
    row.text(&selector_or_none(object.path("spec.selector")));
}

fn controller_revision(object: &Node<'_>, row: &mut Row<'_>) {
    let owners = object.path("metadata.ownerReferences").items();
    let controller = owners.iter().find(|owner| owner.at("controller").is_true()).map(controller_name);
    row.name(object).text(controller.as_deref().unwrap_or(NONE)).int(object.at("revision").int()).age(object);
}

/// `statefulset.apps/web`.
fn controller_name(owner: &Node<'_>) -> String {
    let (kind, name) = (owner.at("kind").text(), owner.at("name").text());
    match owner.at("apiVersion").text().split_once('/') {
        Some((group, _)) => format!("{}/{name}", format!("{kind}.{group}").to_lowercase()),
        None if kind.is_empty() => name.to_owned(),
        None => format!("{}/{name}", kind.to_lowercase()),
    }
}

fn job(object: &Node<'_>, row: &mut Row<'_>) {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let succeeded = status.at("succeeded").int();
    let completions = match (spec.at("completions"), spec.at("parallelism").int()) {
        (Node::Int(wanted), _) => format!("{succeeded}/{wanted}"),
        (_, parallel) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        _ => format!("{succeeded}/1"),
    };
    let duration = job_duration(status, row);
    row.name(object).text(job_status(object)).text(&completions).text(&duration).age(object);
    containers(row, object.path("spec.template.spec.containers"));
    row.text(&selector_or_none(spec.at("selector")));
}

fn job_duration(status: &Node<'_>, row: &Row<'_>) -> String {
    // A time that is there and cannot be read would not have been decoded; a null one is no time.
    let Some(start) = Moment::parse(status.at("startTime").text()) else { return String::new() };
    match moment(status.at("completionTime")) {
        Some(end) => start.until(end),
        None => row.elapsed(Some(start)).into_owned(),
    }
}

fn job_status(job: &Node<'_>) -> &'static str {
    let holds = |kind| condition(job.path("status.conditions"), kind).is_some_and(|known| known.at("status").text() == "True");
    let first = |kinds: &[&'static str]| kinds.iter().find(|kind| holds(kind)).copied();
    let live = || if is_deleted(job) { Some("Terminating") } else { first(&["Suspended", "FailureTarget", "SuccessCriteriaMet"]) };
    first(&["Complete", "Failed"]).or_else(live).unwrap_or("Running")
}

fn cron_job(object: &Node<'_>, row: &mut Row<'_>) {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let suspended = match spec.at("suspend") {
        Node::Bool(true) => "True",
        Node::Bool(false) => "False",
        _ => UNSET,
    };
    let last = status.at("lastScheduleTime");
    let last = if last.is_there() { row.since(last) } else { NONE.into() };
    row.name(object).text(spec.at("schedule").text()).pointer_or(spec.at("timeZone"), NONE).text(suspended);
    row.count(status.at("active").len()).text(&last).age(object);
    containers(row, spec.path("jobTemplate.spec.template.spec.containers"));
    row.text(&selector_or_none(spec.path("jobTemplate.spec.selector")));
}

fn scale(object: &Node<'_>, row: &mut Row<'_>) {
    row.name(object).int(object.path("spec.replicas").int()).int(object.path("status.replicas").int()).age(object);
}

fn disruption_budget(object: &Node<'_>, row: &mut Row<'_>) {
    row.name(object);
    for member in ["minAvailable", "maxUnavailable"] {
        let value = object.at("spec").at(member);
        row.text(&if value.is_there() { scalar(value) } else { "N/A".to_owned() });
    }
    row.int(object.path("status.disruptionsAllowed").int()).age(object);
}

fn autoscaler(object: &Node<'_>, row: &mut Row<'_>) {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let target = spec.at("scaleTargetRef");
    let least = spec.at("minReplicas");
    row.name(object).text(&format!("{}/{}", target.at("kind").text(), target.at("name").text()));
    row.text(&metrics(spec.at("metrics").items(), status.at("currentMetrics").items()));
    row.text(&if least.is_there() { least.int().to_string() } else { UNSET.to_owned() });
    row.int(spec.at("maxReplicas").int()).int(status.at("currentReplicas").int()).age(object);
}

/// Two metrics, and how many more there are.
fn metrics(specs: &[Node<'_>], statuses: &[Node<'_>]) -> String {
    const SHOWN: usize = 2;
    let shown: Vec<String> = specs.iter().enumerate().take(SHOWN).map(|(i, spec)| metric(spec, statuses.get(i))).collect();
    match specs.len() {
        0 => NONE.to_owned(),
        n if n > SHOWN => format!("{} + {} more...", shown.join(", "), n - SHOWN),
        _ => shown.join(", "),
    }
}

fn metric(spec: &Node<'_>, status: Option<&Node<'_>>) -> String {
    let member = match spec.at("type").text() {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let (source, none) = (spec.at(member), Node::Null);
    let target = source.at("target");
    // A nil status shows as unknown; one that is there, with a missing quantity, as 0 where Go has no pointer to test.
    let status = status.map_or(&none, |status| status.at(member));
    let current = |member: &str| {
        let value = status.at("current").at(member);
        if value.is_there() { quantity_or_percent(member, value) } else { "<unknown>".to_owned() }
    };
    let by_average = target.at("averageValue").is_there();
    match member {
        "external" | "object" if by_average => format!("{}/{} (avg)", current("averageValue"), scalar(target.at("averageValue"))),
        "external" | "object" => format!("{}/{}", shown_pointer(status, "value"), shown_pointer_of(target, "value")),
        "pods" => format!("{}/{}", shown_pointer(status, "averageValue"), shown_pointer_of(target, "averageValue")),
        _ if by_average => {
            format!("{}: {}/{}", source.at("name").text(), shown_pointer(status, "averageValue"), scalar(target.at("averageValue")))
        }
        _ => {
            let wanted = target.at("averageUtilization");
            let wanted = if wanted.is_there() { quantity_or_percent("averageUtilization", wanted) } else { "<auto>".to_owned() };
            format!("{}: {}/{wanted}", source.at("name").text(), current("averageUtilization"))
        }
    }
}

fn quantity_or_percent(member: &str, value: &Node<'_>) -> String {
    if member == "averageUtilization" { format!("{}%", value.int()) } else { scalar(value) }
}

/// A current quantity of a status that is there: Go calls `String` on the pointer, which is `<nil>` when it is nil.
fn shown_pointer(status: &Node<'_>, member: &str) -> String {
    if status.is_there() { shown_pointer_of(status.at("current"), member) } else { "<unknown>".to_owned() }
}

fn shown_pointer_of(values: &Node<'_>, member: &str) -> String {
    let value = values.at(member);
    if value.is_there() { scalar(value) } else { "<nil>".to_owned() }
}
