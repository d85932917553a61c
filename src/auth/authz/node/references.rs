//! The references in an object that allow a node to read other objects.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{Claimed, Said, Sort, Vertex};
use crate::authz::or_default;

/// A pod that only shows what a kubelet runs by itself; it must not give that kubelet rights.
const MIRROR: &str = "kubernetes.io/config.mirror";

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Pod {
    metadata: Metadata,
    spec: PodSpec,
    status: PodStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    #[serde(deserialize_with = "or_default")]
    annotations: HashMap<String, IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: String,
    service_account_name: String,
    #[serde(deserialize_with = "or_default")]
    image_pull_secrets: Vec<Ref>,
    #[serde(deserialize_with = "or_default")]
    init_containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    ephemeral_containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    volumes: Vec<PodVolume>,
    #[serde(deserialize_with = "or_default")]
    resource_claims: Vec<PodClaim>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    #[serde(deserialize_with = "or_default")]
    resource_claim_statuses: Vec<PodClaim>,
    extended_resource_claim_status: Option<PodClaim>,
}

/// A claim of the spec, or its status.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodClaim {
    name: String,
    resource_claim_name: Option<String>,
    resource_claim_template_name: Option<IgnoredAny>,
}

/// A reference by name, perhaps in a namespace.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Ref {
    name: String,
    #[serde(deserialize_with = "or_default")]
    namespace: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    #[serde(deserialize_with = "or_default")]
    env_from: Vec<EnvFrom>,
    #[serde(deserialize_with = "or_default")]
    env: Vec<Env>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EnvFrom {
    secret_ref: Option<Ref>,
    config_map_ref: Option<Ref>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Env {
    value_from: Option<ValueFrom>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ValueFrom {
    secret_key_ref: Option<Ref>,
    config_map_key_ref: Option<Ref>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodVolume {
    name: String,
    persistent_volume_claim: Option<ClaimName>,
    ephemeral: Option<IgnoredAny>,
    secret: Option<SecretName>,
    config_map: Option<Ref>,
    projected: Option<Projected>,
    #[serde(flatten)]
    driver: Driver,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimName {
    claim_name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SecretName {
    secret_name: String,
    secret_namespace: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Projected {
    #[serde(deserialize_with = "or_default")]
    sources: Vec<Projection>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Projection {
    secret: Option<Ref>,
    config_map: Option<Ref>,
}

/// Kinds of storage that take a secret, in a pod's volume or in a PersistentVolume.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Driver {
    azure_file: Option<SecretName>,
    cephfs: Option<WithSecret>,
    cinder: Option<WithSecret>,
    flex_volume: Option<WithSecret>,
    rbd: Option<WithSecret>,
    #[serde(rename = "scaleIO")]
    scale_io: Option<WithSecret>,
    iscsi: Option<WithSecret>,
    storageos: Option<WithSecret>,
    csi: Option<Csi>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WithSecret {
    secret_ref: Option<Ref>,
}

/// The secrets that a kubelet needs; those of the controller are none of its business.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Csi {
    node_publish_secret_ref: Option<Ref>,
    node_stage_secret_ref: Option<Ref>,
    node_expand_secret_ref: Option<Ref>,
}

impl Driver {
    /// Those whose secret is in the claim's namespace unless it names one.
    fn local(&self) -> impl Iterator<Item = &Ref> {
        [&self.cephfs, &self.flex_volume, &self.rbd, &self.scale_io, &self.iscsi]
            .into_iter()
            .flatten()
            .filter_map(|it| it.secret_ref.as_ref())
    }

    /// Those whose secret always names its namespace.
    fn elsewhere(&self) -> impl Iterator<Item = &Ref> {
        [&self.cinder, &self.storageos].into_iter().flatten().filter_map(|it| it.secret_ref.as_ref())
    }
}

impl Pod {
    /// The pod and all that it refers to, if it has a node.
    pub(super) fn said(&self, namespace: &str, name: &str) -> Option<Said> {
        let Pod { metadata, spec, status } = self;
        if spec.node_name.is_empty() {
            return None;
        }
        let mut things = Things { namespace: namespace.into(), all: Vec::new() };
        things.add(Sort::Pod, name);
        if !metadata.annotations.contains_key(MIRROR) {
            things.add(Sort::ServiceAccount, &spec.service_account_name);
            things.add_all(Sort::Secret, &spec.image_pull_secrets);
            spec.init_containers.iter().chain(&spec.containers).chain(&spec.ephemeral_containers).for_each(|of| things.add_container(of));
            spec.volumes.iter().for_each(|volume| things.add_volume(name, volume));
            let claims = spec.resource_claims.iter().filter_map(|claim| status.claim_name(claim));
            claims.chain(status.extended_resource_claim_status.iter().filter_map(|it| it.resource_claim_name.as_deref())).for_each(
                |claim| {
                    things.add(Sort::ResourceClaim, claim);
                },
            );
        }
        Some(Said { node: (&*spec.node_name).into(), things: things.all })
    }
}

impl PodStatus {
    /// The ResourceClaim of a pod's claim: named by it, or made for it already.
    fn claim_name<'a>(&'a self, claim: &'a PodClaim) -> Option<&'a str> {
        match (&claim.resource_claim_name, &claim.resource_claim_template_name) {
            (Some(name), _) => Some(name),
            (None, Some(_)) => self.resource_claim_statuses.iter().find(|status| status.name == claim.name)?.resource_claim_name.as_deref(),
            (None, None) => None,
        }
    }
}

/// Things of one namespace.
struct Things {
    namespace: Arc<str>,
    all: Vec<Vertex>,
}

impl Things {
    fn add(&mut self, sort: Sort, name: &str) {
        if !name.is_empty() {
            self.all.push(Vertex { sort, namespace: Arc::clone(&self.namespace), name: name.into() });
        }
    }

    fn add_all<'a>(&mut self, sort: Sort, refs: impl IntoIterator<Item = &'a Ref>) {
        refs.into_iter().for_each(|to| self.add(sort, &to.name));
    }

    fn add_container(&mut self, container: &Container) {
        for from in &container.env_from {
            self.add_all(Sort::Secret, &from.secret_ref);
            self.add_all(Sort::ConfigMap, &from.config_map_ref);
        }
        for from in container.env.iter().filter_map(|env| env.value_from.as_ref()) {
            self.add_all(Sort::Secret, &from.secret_key_ref);
            self.add_all(Sort::ConfigMap, &from.config_map_key_ref);
        }
    }

    fn add_volume(&mut self, pod: &str, volume: &PodVolume) {
        let PodVolume { name, persistent_volume_claim, ephemeral, secret, config_map, projected, driver } = volume;
        match persistent_volume_claim {
            Some(claim) => self.add(Sort::Claim, &claim.claim_name),
            None if ephemeral.is_some() => self.add(Sort::Claim, &format!("{pod}-{name}")),
            None => {}
        }
        [secret, &driver.azure_file].into_iter().flatten().for_each(|it| self.add(Sort::Secret, &it.secret_name));
        self.add_all(Sort::ConfigMap, config_map);
        for source in projected.iter().flat_map(|projected| &projected.sources) {
            self.add_all(Sort::Secret, &source.secret);
            self.add_all(Sort::ConfigMap, &source.config_map);
        }
        self.add_all(Sort::Secret, driver.local().chain(driver.elsewhere()));
        self.add_all(Sort::Secret, driver.csi.iter().filter_map(|csi| csi.node_publish_secret_ref.as_ref()));
    }
}

/// A PersistentVolume.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Volume {
    spec: VolumeSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VolumeSpec {
    claim_ref: Option<Ref>,
    #[serde(flatten)]
    driver: Driver,
}

impl Volume {
    /// Its claim and its secrets, if it has a claim.
    pub(super) fn claimed(&self) -> Option<Claimed> {
        let VolumeSpec { claim_ref, driver } = &self.spec;
        let claim = claim_ref.as_ref()?;
        let or_claims = |namespace: &str| Arc::<str>::from(if namespace.is_empty() { &claim.namespace } else { namespace });
        let secret = |namespace: Arc<str>, name: &str| Vertex { sort: Sort::Secret, namespace, name: name.into() };
        let azure = driver.azure_file.iter().map(|it| secret(or_claims(it.secret_namespace.as_deref().unwrap_or("")), &it.secret_name));
        let local = driver.local().map(|it| secret(or_claims(&it.namespace), &it.name));
        let csi = driver.csi.iter().flat_map(|csi| [&csi.node_publish_secret_ref, &csi.node_stage_secret_ref, &csi.node_expand_secret_ref]);
        let elsewhere = driver.elsewhere().chain(csi.flatten()).map(|it| secret((&*it.namespace).into(), &it.name));
        let secrets = azure.chain(local).chain(elsewhere).filter(|secret| !secret.name.is_empty()).collect();
        let claim = Vertex { sort: Sort::Claim, namespace: (&*claim.namespace).into(), name: (&*claim.name).into() };
        Some(Claimed { claim, secrets })
    }
}

/// A VolumeAttachment or a ResourceSlice.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Bound {
    spec: BoundSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BoundSpec {
    #[serde(deserialize_with = "or_default")]
    node_name: String,
}

impl Bound {
    /// The object itself, if it has a node.
    pub(super) fn said(&self, sort: Sort, name: &str) -> Option<Said> {
        let node = &*self.spec.node_name;
        let thing = Vertex { sort, namespace: "".into(), name: name.into() };
        (!node.is_empty()).then(|| Said { node: node.into(), things: vec![thing] })
    }
}
