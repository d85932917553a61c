//! The rows of pods and of what is a pod's template.

use std::borrow::Cow;

use super::Printer;
use crate::table::{
    age::Moment,
    cell::{NONE, Row, condition, containers, is_deleted, labels, moment},
    node::Node,
};

const COMPLETED: [(&str, &str); 2] = [
    ("Succeeded", r#"[{"type":"Completed","status":"True","reason":"Succeeded","message":"The pod has completed successfully."}]"#),
    ("Failed", r#"[{"type":"Completed","status":"True","reason":"Failed","message":"The pod failed."}]"#),
];

/// What the row of a pod is made of.
const POD_PATHS: &[&str] = &[
    "metadata.name",
    "metadata.creationTimestamp",
    "metadata.deletionTimestamp",
    "spec.containers.name",
    "spec.initContainers.name",
    "spec.initContainers.restartPolicy",
    "spec.nodeName",
    "spec.readinessGates",
    "status.phase",
    "status.reason",
    "status.nominatedNodeName",
    "status.podIPs",
    "status.conditions",
    "status.initContainerStatuses",
    "status.containerStatuses",
];

pub(super) const PRINTERS: &[(&str, Printer)] = &[
    ("/pods", Printer { paths: POD_PATHS, print: pod }),
    (
        "/podtemplates",
        Printer {
            paths: &["metadata.name", "template.metadata.labels", "template.spec.containers.name", "template.spec.containers.image"],
            print: template,
        },
    ),
];

fn pod(pod: &Node<'_>, row: &mut Row<'_>) {
    let phase = pod.path("status.phase").text();
    if let Some((_, conditions)) = COMPLETED.iter().find(|(known, _)| *known == phase) {
        row.conditions = conditions;
    }
    let summary = Summary::of(pod);
    let reason = match pod.path("status.reason").text() {
        "NodeLost" if is_deleted(pod) => Cow::Borrowed("Unknown"),
        _ if is_deleted(pod) && !matches!(phase, "Succeeded" | "Failed") => Cow::Borrowed("Terminating"),
        _ => summary.reason.clone(),
    };
    let restarts = match summary.restarts {
        Restarts { count, last: Some(last) } if count != 0 => format!("{count} ({} ago)", row.elapsed(Some(last))),
        Restarts { count, .. } => count.to_string(),
    };
    row.name(pod).text(&format!("{}/{}", summary.ready, summary.total)).text(&reason).text(&restarts).age(pod);
    let address = pod.path("status.podIPs").items().first().map_or("", |address| address.at("ip").text());
    row.text_or(address, NONE).text_or(pod.path("spec.nodeName").text(), NONE);
    row.text_or(pod.path("status.nominatedNodeName").text(), NONE).text(&readiness_gates(pod));
}

fn readiness_gates(pod: &Node<'_>) -> String {
    let gates = pod.path("spec.readinessGates").items();
    let is_open = |gate: &&Node<'_>| {
        condition(pod.path("status.conditions"), gate.at("conditionType").text()).is_some_and(|known| known.at("status").text() == "True")
    };
    if gates.is_empty() { NONE.to_owned() } else { format!("{}/{}", gates.iter().filter(is_open).count(), gates.len()) }
}

/// What the containers say together.
struct Summary<'n> {
    reason: Cow<'n, str>,
    ready: usize,
    total: usize,
    restarts: Restarts,
}

/// How often containers were restarted, and when the last one ended before.
#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<Moment>,
}

impl Restarts {
    fn add(&mut self, status: &Node<'_>) {
        self.count += status.at("restartCount").int();
        self.last = self.last.max(moment(status.path("lastState.terminated.finishedAt")));
    }
}

impl<'n> Summary<'n> {
    fn of(pod: &'n Node<'_>) -> Self {
        let containers = pod.path("spec.containers").len();
        let restartable = pod.path("spec.initContainers").items().iter().filter(|container| is_restartable(container)).count();
        let mut summary =
            Self { reason: Self::first_reason(pod), ready: 0, total: containers + restartable, restarts: Restarts::default() };
        let (initializing, of_sidecars) = summary.init_containers(pod);
        let initialized = condition(pod.path("status.conditions"), "Initialized").is_some_and(|known| known.at("status").text() == "True");
        if !initializing || initialized {
            summary.restarts = of_sidecars;
            summary.main_containers(pod);
        }
        summary
    }

    fn first_reason(pod: &'n Node<'_>) -> Cow<'n, str> {
        const GATED: &str = "SchedulingGated";
        let gated = |known: &Node<'_>| known.at("type").text() == "PodScheduled" && known.at("reason").text() == GATED;
        if pod.path("status.conditions").items().iter().any(gated) {
            return Cow::Borrowed(GATED);
        }
        pod.path("status.reason").text_or(pod.path("status.phase").text()).into()
    }

    /// Goes through the init containers up to the one that is not done; gives whether there is one, and the restarts of the sidecars before.
    fn init_containers(&mut self, pod: &'n Node<'_>) -> (bool, Restarts) {
        let declared = pod.path("spec.initContainers").items();
        let mut of_sidecars = Restarts::default();
        for (i, status) in pod.path("status.initContainerStatuses").items().iter().enumerate() {
            // A name that is there twice is the last one of that name, as in Go's map.
            let sidecar =
                declared.iter().rev().find(|known| known.at("name").text() == status.at("name").text()).is_some_and(is_restartable);
            self.restarts.add(status);
            if sidecar {
                of_sidecars.add(status);
            }
            let terminated = status.path("state.terminated");
            if terminated.is_there() && terminated.at("exitCode").int() == 0 {
                continue;
            }
            if sidecar && status.at("started").is_true() {
                self.ready += usize::from(status.at("ready").is_true());
                continue;
            }
            let waiting = status.path("state.waiting.reason").text();
            self.reason = if terminated.is_there() {
                format!("Init:{}", end_reason(terminated)).into()
            } else if !matches!(waiting, "" | "PodInitializing") {
                format!("Init:{waiting}").into()
            } else {
                format!("Init:{i}/{}", declared.len()).into()
            };
            return (true, of_sidecars);
        }
        (false, of_sidecars)
    }

    /// Goes through the containers from the last to the first, which has the last word.
    fn main_containers(&mut self, pod: &'n Node<'_>) {
        let mut running = false;
        let mut failure = None;
        for status in pod.path("status.containerStatuses").items().iter().rev() {
            self.restarts.add(status);
            let terminated = status.path("state.terminated");
            let waiting = status.path("state.waiting.reason").text();
            if !waiting.is_empty() {
                self.reason = waiting.into();
            } else if terminated.is_there() {
                self.reason = end_reason(terminated);
                if terminated.at("exitCode").int() != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if status.at("ready").is_true() && status.path("state.running").is_there() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            let ready = |known: &Node<'_>| known.at("type").text() == "Ready" && known.at("status").text() == "True";
            if running && pod.path("status.conditions").items().iter().any(ready) {
                self.reason = "Running".into();
            } else if let Some(failure) = failure.filter(|reason| !reason.is_empty()) {
                self.reason = failure;
            } else if running {
                self.reason = "NotReady".into();
            }
        }
    }
}

fn is_restartable(container: &Node<'_>) -> bool {
    container.at("restartPolicy").text() == "Always"
}

/// Why a container ended.
fn end_reason<'n>(terminated: &'n Node<'_>) -> Cow<'n, str> {
    match (terminated.at("reason").text(), terminated.at("signal").int()) {
        ("", 0) => format!("ExitCode:{}", terminated.at("exitCode").int()).into(),
        ("", signal) => format!("Signal:{signal}").into(),
        (reason, _) => reason.into(),
    }
}

fn template(object: &Node<'_>, row: &mut Row<'_>) {
    row.name(object);
    containers(row, object.path("template.spec.containers"));
    row.text(&labels(object.path("template.metadata.labels")));
}
