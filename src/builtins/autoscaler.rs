//! HorizontalPodAutoscalers, in the form of `autoscaling/v2`.

use serde_json::Value;

use crate::{at::At, autoscaler_metrics, causes::Causes, meta, names, quantities};
use model::invalid::FieldError;

/// Seconds of a period of a policy.
const PERIOD_SECONDS_MAX: i64 = 1800;
/// Seconds for which recommendations are remembered.
const WINDOW_SECONDS_MAX: i64 = 3600;
const NOT_NEGATIVE: &str = "must be greater than or equal to zero";
const POSITIVE: &str = "must be greater than zero";

/// Which API versions a reference may have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReferenceOptions {
    pub(crate) without_group: bool,
    pub(crate) any: bool,
}

/// What is wrong with a new HorizontalPodAutoscaler.
#[must_use]
pub fn create(autoscaler: &Value) -> Vec<FieldError> {
    let root = At::root(autoscaler);
    Causes::of(|causes| judge(&root.member("spec"), None, causes))
}

/// What is wrong with a change of a HorizontalPodAutoscaler.
#[must_use]
pub fn update(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    let old = old.member("spec");
    Causes::of(|causes| judge(&new.member("spec"), Some(&old), causes))
}

/// What is wrong with the status of a HorizontalPodAutoscaler.
#[must_use]
pub fn update_status(_old: &Value, new: &Value) -> Vec<FieldError> {
    let root = At::root(new);
    let status = root.member("status");
    Causes::of(|causes| {
        meta::not_negative(&status.member("currentReplicas"), causes);
        meta::not_negative(&status.member("desiredReplicas"), causes);
    })
}

fn judge(spec: &At<'_, '_>, old: Option<&At<'_, '_>>, causes: &mut Causes) {
    let (least, most) = (spec.member("minReplicas"), spec.member("maxReplicas"));
    let had_none = old.is_some_and(|old| old.member("minReplicas").some_integer() == Some(0));
    let bound = i64::from(!had_none);
    if least.some_integer().is_some_and(|least| least < bound) {
        causes.invalid(&least, &format!("must be greater than or equal to {bound}"));
    }
    match most.integer() {
        0 => causes.required(&most, "must be set and greater than 0"),
        replicas if replicas < 0 => causes.invalid(&most, "must be greater than or equal to 1"),
        _ => {}
    }
    if least.some_integer().is_some_and(|least| most.integer() < least) {
        causes.invalid_as(&most, &most.integer().into(), "must be greater than or equal to `minReplicas`");
    }
    let target = spec.member("scaleTargetRef");
    reference(&target, of_target(&target, old), causes);
    metrics(spec, old, causes);
    let behavior = spec.member("behavior");
    scaling_rules(&behavior.member("scaleUp"), causes);
    scaling_rules(&behavior.member("scaleDown"), causes);
}

/// A target that stays may have any version; only a ReplicationController has no group.
fn of_target(target: &At<'_, '_>, old: Option<&At<'_, '_>>) -> ReferenceOptions {
    let is_same = |member: &str, old: &At<'_, '_>| old.member("scaleTargetRef").member(member).text() == target.member(member).text();
    if old.is_some_and(|old| is_same("apiVersion", old) && is_same("kind", old)) {
        return ReferenceOptions { any: true, without_group: false };
    }
    ReferenceOptions { any: false, without_group: target.member("kind").text() == "ReplicationController" }
}

fn metrics(spec: &At<'_, '_>, old: Option<&At<'_, '_>>, causes: &mut Causes) {
    let mut options = ReferenceOptions { any: false, without_group: true };
    options.any = old.is_some_and(|old| {
        let metrics = old.member("metrics");
        metrics.items().any(|metric| {
            let source = metric.member("object");
            let described = source.member("describedObject");
            let version = described.member("apiVersion");
            metric.member("type").text() == "Object" && source.is_present() && wrong_version(version.text(), options).is_some()
        })
    });
    let metrics = spec.member("metrics");
    metrics.items().for_each(|metric| autoscaler_metrics::metric(&metric, options, causes));
    let is_outside = |metric: At<'_, '_>| matches!(metric.member("type").text(), "Object" | "External");
    if spec.member("minReplicas").some_integer() == Some(0) && !metrics.items().any(is_outside) {
        causes.forbidden(&metrics, "must specify at least one Object or External metric to support scaling to zero replicas");
    }
}

/// A reference to an object of any kind (`CrossVersionObjectReference`).
pub(crate) fn reference(at: &At<'_, '_>, options: ReferenceOptions, causes: &mut Causes) {
    for member in [at.member("kind"), at.member("name")] {
        if member.text().is_empty() {
            causes.required(&member, "");
        }
        causes.each_invalid(&member, names::path_segment(member.text()));
    }
    let version = at.member("apiVersion");
    if let Some(why) = wrong_version(version.text(), options) {
        causes.invalid_text(&version, &why);
    }
}

/// Returns why a text is no version of an API that may be referred to.
fn wrong_version(version: &str, options: ReferenceOptions) -> Option<String> {
    let slashes = if version == "/" { 0 } else { version.matches('/').count() };
    let has_group = slashes == 1 && !version.starts_with('/');
    if options.any {
        None
    } else if slashes > 1 {
        Some(format!("unexpected GroupVersion string: {version}"))
    } else {
        (!options.without_group && !has_group).then(|| "apiVersion must specify API group".to_owned())
    }
}

/// How fast it scales in one direction.
fn scaling_rules(rules: &At<'_, '_>, causes: &mut Causes) {
    if rules.is_absent() {
        return;
    }
    let (window, select, policies) = (rules.member("stabilizationWindowSeconds"), rules.member("selectPolicy"), rules.member("policies"));
    if window.integer() < 0 {
        causes.invalid(&window, NOT_NEGATIVE);
    }
    if window.integer() > WINDOW_SECONDS_MAX {
        causes.invalid(&window, &format!("must be less than or equal to {WINDOW_SECONDS_MAX}"));
    }
    if select.is_present() && !matches!(select.text(), "Disabled" | "Max" | "Min") {
        causes.not_supported(&select, &["Disabled", "Max", "Min"]);
    }
    if policies.len() == 0 {
        causes.required(&policies, "must specify at least one Policy");
    }
    policies.items().for_each(|policy| scaling_policy(&policy, causes));
    quantities::not_negative(&rules.member("tolerance"), causes);
}

fn scaling_policy(policy: &At<'_, '_>, causes: &mut Causes) {
    let (kind, value, period) = (policy.member("type"), policy.member("value"), policy.member("periodSeconds"));
    if !matches!(kind.text(), "Pods" | "Percent") {
        causes.not_supported_shown(&kind, "string", &["Percent", "Pods"]);
    }
    for number in [&value, &period] {
        if number.integer() <= 0 {
            causes.invalid_as(number, &number.integer().into(), POSITIVE);
        }
    }
    if period.integer() > PERIOD_SECONDS_MAX {
        causes.invalid(&period, &format!("must be less than or equal to {PERIOD_SECONDS_MAX}"));
    }
}
