//! What an update of a Pod may keep that a new one may not have (`GetValidationOptionsFromPodSpecAndMeta`, `GetValidationOptionsFromPodTemplate`).

use serde_json::Value;

use super::{affinity, containers, paths, profiles, security};
use crate::{
    at::At,
    causes::Causes,
    labels::{SelectorOptions, selector},
    node_selector,
    quantities::{self, Amount},
};

/// What is let stand because it was there before. The default is that of a new object.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one rule that an older object may have broken")]
pub(crate) struct Options {
    /// The object is a Pod, not a template of Pods.
    pub(crate) is_pod: bool,
    /// A cost of deletion that is no number.
    pub(super) any_deletion_cost: bool,
    /// Values in selectors of affinities that are no values of labels.
    pub(super) any_selector_value: bool,
    /// The same of the selector of required nodes.
    pub(super) any_node_value: bool,
    /// Selectors of spreads that are wrong.
    pub(super) any_spread_selector: bool,
    /// Keys of spreads as they were judged once.
    pub(super) any_spread_keys: bool,
    /// Amounts of huge pages that are no whole pages.
    pub(super) any_huge_pages: bool,
    /// Paths of tokens that leave their volume.
    pub(super) any_token_path: bool,
    /// Kernel parameters of the namespaces of the host.
    pub(super) any_sysctl: bool,
    /// Policies of SELinux other than `Recursive`.
    pub(super) any_se_linux_change: bool,
    /// Tolerations that compare numbers.
    pub(super) any_toleration: bool,
    /// The network of the host with users of its own.
    pub(super) any_host_network: bool,
    /// Volumes as devices with users of its own.
    pub(super) any_volume_devices: bool,
    /// Containers that end and would be started again by a resize.
    pub(super) any_init_resize: bool,
}

impl Options {
    /// Returns what may stand after `old`, a Pod or a template of Pods: its `metadata` and `spec` are looked at.
    pub(crate) fn after(old: &Value) -> Self {
        let root = At::root(old);
        let (metadata, spec) = (root.member("metadata"), root.member("spec"));
        let context = spec.member("securityContext");
        let has_own_users = spec.member("hostUsers").value() == &Value::Bool(false);
        let mut any_node_value = false;
        affinity::required_nodes(&spec, |nodes| any_node_value = node_selector::has_wrong_value(nodes));
        Self {
            is_pod: false,
            any_deletion_cost: !profiles::has_deletion_cost(&metadata.member("annotations")),
            any_selector_value: affinity::has_wrong_selector(&spec),
            any_node_value,
            any_spread_selector: has_wrong_spread(&spec, |constraint, causes| {
                selector(&constraint.member("labelSelector"), SelectorOptions::default(), causes);
            }),
            any_spread_keys: has_wrong_spread(&spec, affinity::spread_keys),
            any_huge_pages: has_broken_pages(&spec),
            any_token_path: has_wrong_token_path(&spec),
            any_sysctl: context.member("sysctls").items().any(|sysctl| security::of_host(sysctl.member("name").text(), &spec).is_some()),
            any_se_linux_change: context.member("seLinuxChangePolicy").is_present(),
            any_toleration: spec.member("tolerations").items().any(|it| matches!(it.member("operator").text(), "Lt" | "Gt")),
            any_host_network: has_own_users && spec.member("hostNetwork").is_true(),
            any_volume_devices: has_own_users && any_container(&spec, |container| container.member("volumeDevices").len() > 0),
            any_init_resize: has_init_resize(&spec),
        }
    }
}

fn any_container(spec: &At<'_, '_>, is: impl Fn(&At<'_, '_>) -> bool) -> bool {
    let mut found = false;
    containers::each(spec, |container| found = found || is(container));
    found
}

fn has_wrong_spread(spec: &At<'_, '_>, rule: impl Fn(&At<'_, '_>, &mut Causes)) -> bool {
    let constraints = spec.member("topologySpreadConstraints");
    constraints.items().any(|constraint| !Causes::of(|causes| rule(&constraint, causes)).is_empty())
}

fn has_broken_pages(spec: &At<'_, '_>) -> bool {
    let is_broken = |list: &At<'_, '_>| {
        list.entries().any(|(name, at)| quantities::is_huge_pages(name) && !quantities::is_whole_pages(name, Amount::at(&at)))
    };
    let of_containers = any_container(spec, |container| {
        let resources = container.member("resources");
        is_broken(&resources.member("limits")) || is_broken(&resources.member("requests"))
    });
    of_containers || is_broken(&spec.member("overhead"))
}

fn has_wrong_token_path(spec: &At<'_, '_>) -> bool {
    spec.member("volumes").items().any(|volume| {
        let projected = volume.member("projected");
        projected.member("sources").items().any(|source| {
            let token = source.member("serviceAccountToken");
            token.is_present() && !Causes::of(|causes| paths::not_reserved(&token.member("path"), causes)).is_empty()
        })
    })
}

fn has_init_resize(spec: &At<'_, '_>) -> bool {
    let ends = |container: &At<'_, '_>| container.member("restartPolicy").text() != "Always";
    let restarts =
        |container: &At<'_, '_>| container.member("resizePolicy").items().any(|it| it.member("restartPolicy").text() == "RestartContainer");
    spec.member("initContainers").items().any(|container| ends(&container) && restarts(&container))
}
