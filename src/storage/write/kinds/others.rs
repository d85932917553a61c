//! Kinds of which little is particular.

use serde_json::Value;

use super::{
    row::{JudgedAsNew, RESET_FOR_STATUS, StatusMetadata, Strategy, of_main, of_parts},
    warnings::{labels, members},
};
use crate::write::part::Part;
use builtins::{autoscaler, claim_status, claims, cluster, disruption_budget, event, flow, limit_range, resource_quota, runtime_class};
use go::quantity;
use model::invalid::FieldError;

const fn judged_as_new(storage: &'static str) -> Strategy {
    Strategy { storage, judged_as_new: JudgedAsNew::Main, ..Strategy::COMMON }
}

/// Of priority and fairness: a change is judged as a new object is.
const fn flow(
    storage: &'static str,
    judge: fn(&Value) -> Vec<FieldError>,
    judge_update: fn(Part, &Value, &Value) -> Vec<FieldError>,
) -> Strategy {
    Strategy { status_metadata: StatusMetadata::Nothing, validate_create: judge, validate_update: judge_update, ..judged_as_new(storage) }
}

pub(super) const ALL: [Strategy; 14] = [
    Strategy {
        validate_create: cluster::create_controller_revision,
        validate_update: |part, old, new| of_main(part, || cluster::update_controller_revision(old, new)),
        ..judged_as_new("controllerrevisions")
    },
    Strategy {
        validate_create: limit_range::create,
        validate_update: |part, old, new| of_main(part, || limit_range::update(old, new)),
        ..judged_as_new("limitranges")
    },
    Strategy {
        validate_create: claims::create_class,
        validate_update: |part, old, new| of_main(part, || claims::update_class(old, new)),
        storage: "deviceclasses",
        ..Strategy::COMMON
    },
    Strategy {
        validate_create: claims::create_template,
        validate_update: |part, old, new| of_main(part, || claims::update_template(old, new)),
        ..judged_as_new("resourceclaimtemplates")
    },
    Strategy {
        status_metadata: StatusMetadata::Without(RESET_FOR_STATUS),
        validate_create: claims::create_claim,
        validate_update: |part, old, new| match part {
            Part::Status => claim_status::update_claim_status(old, new),
            part => of_main(part, || claims::update_claim(old, new)),
        },
        ..judged_as_new("resourceclaims")
    },
    flow("flowschemas", flow::flow_schema, |part, old, new| match part {
        Part::Status => flow::update_status(old, new),
        part => of_main(part, || flow::flow_schema(new)),
    }),
    flow("prioritylevelconfigurations", flow::priority_level, |part, old, new| match part {
        Part::Status => flow::update_status(old, new),
        part => of_main(part, || flow::priority_level(new)),
    }),
    // It stays at 1 (measured).
    Strategy {
        storage: "priorityclasses",
        counts_itself: true,
        validate_create: cluster::create_priority_class,
        validate_update: |part, old, new| of_main(part, || cluster::update_priority_class(old, new)),
        ..Strategy::COMMON
    },
    Strategy {
        validate_create: runtime_class::create,
        validate_update: |_, old, new| runtime_class::update(old, new),
        warn: |_, new, warnings| warn_of_node_selector(new, warnings),
        ..judged_as_new("runtimeclasses")
    },
    Strategy {
        storage: "resourcequotas",
        warn: warn_of_quota,
        validate_create: resource_quota::create,
        validate_update: |part, old, new| of_parts(part, || resource_quota::update(old, new), || resource_quota::update_status(old, new)),
        ..Strategy::COMMON
    },
    Strategy {
        storage: "leases",
        validate_create: cluster::create_lease,
        validate_update: |part, old, new| of_main(part, || cluster::update_lease(old, new)),
        ..Strategy::COMMON
    },
    Strategy {
        storage: "horizontalpodautoscalers",
        validate_create: autoscaler::create,
        validate_update: |part, old, new| of_parts(part, || autoscaler::update(old, new), || autoscaler::update_status(old, new)),
        ..Strategy::COMMON
    },
    Strategy {
        storage: "poddisruptionbudgets",
        validate_create: disruption_budget::create,
        validate_update: |part, old, new| {
            of_parts(part, || disruption_budget::update(old, new), || disruption_budget::update_status(old, new))
        },
        ..Strategy::COMMON
    },
    // As `v1` has them.
    Strategy {
        storage: "events",
        validate_create: |event| event::create(event, event::Version::Core),
        validate_update: |part, old, new| of_main(part, || event::update(old, new, event::Version::Core)),
        ..Strategy::COMMON
    },
];

/// Events as clients of `events.k8s.io` write them, whose storage is that of `v1`.
pub(super) const NEW_EVENTS: Strategy = Strategy {
    validate_create: |event| event::create(event, event::Version::Events),
    validate_update: |part, old, new| of_main(part, || event::update(old, new, event::Version::Events)),
    ..Strategy::COMMON
};

fn warn_of_node_selector(new: &Value, warnings: &mut Vec<String>) {
    let labels = members(new, &["scheduling", "nodeSelector"]).keys();
    warnings.extend(labels.filter_map(|label| labels::renamed(label)).map(|why| format!("scheduling.nodeSelector: {why}")));
}

fn warn_of_quota(old: Option<&Value>, new: &Value, warnings: &mut Vec<String>) {
    if old.is_none() {
        requests_above_limits(new, warnings);
    }
}

/// Requests that are more than their limits.
fn requests_above_limits(quota: &Value, warnings: &mut Vec<String>) {
    let hard = members(quota, &["spec", "hard"]);
    let amount = |name: &str| Some((name.to_owned(), hard.get(name)?.as_str()?));
    for name in ["cpu", "memory", "storage", "ephemeral-storage"] {
        let alone = || amount(name).filter(|_| matches!(name, "cpu" | "memory"));
        let (request, limit) = (amount(&format!("requests.{name}")).or_else(alone), amount(&format!("limits.{name}")));
        if let (Some((request, wanted)), Some((limit, most))) = (request, limit)
            && quantity::approximate(wanted) > quantity::approximate(most)
        {
            warnings.push(format!("ResourceQuota {request} ({wanted}) should be less than {limit} ({most})"));
        }
    }
}
