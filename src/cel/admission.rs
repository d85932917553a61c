//! The environment of expressions about requests that admission judges: conditions of webhooks, policies (`pkg/admission/plugin/cel` of apiserver).

use crate::{
    env::Env,
    library::{AUTHORIZER, RESOURCE_CHECK, environment, patch_environment},
    types::Type,
};

const REQUEST: &str = "kubernetes.AdmissionRequest";
const NAMESPACE: &str = "kubernetes.Namespace";

/// What expressions about a request may use besides the request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Admission {
    /// Parameters.
    pub params: bool,
    /// An authorizer.
    pub authorizer: bool,
    /// Objects and patches, which they make.
    pub patches: bool,
}

/// Returns the environment of expressions about a request.
#[must_use]
pub fn admission_environment(Admission { params, authorizer, patches }: Admission) -> Env {
    let mut env = if patches { patch_environment() } else { environment() }
        .variable("object", Type::Dyn)
        .variable("oldObject", Type::Dyn)
        .variable("namespaceObject", Type::object(NAMESPACE))
        .variable("request", Type::object(REQUEST));
    if params {
        env = env.variable("params", Type::Dyn);
    }
    if authorizer {
        env = env.variable("authorizer", Type::object(AUTHORIZER)).variable("authorizer.requestResource", Type::object(RESOURCE_CHECK));
    }
    with_namespace(with_request(env))
}

fn with_request(env: Env) -> Env {
    let texts = || Type::list(Type::String);
    let kind = |name: &str| ["group", "version", name].map(|name| (name.to_owned(), Type::String));
    let text = |name: &str| (name.to_owned(), Type::String);
    let of = |name: &str, kind: &str| (name.to_owned(), Type::object(&format!("kubernetes.{kind}")));
    env.object("kubernetes.GroupVersionKind", kind("kind"))
        .object("kubernetes.GroupVersionResource", kind("resource"))
        .object(
            "kubernetes.UserInfo",
            [text("username"), text("uid"), ("groups".to_owned(), texts()), ("extra".to_owned(), Type::map(Type::String, texts()))],
        )
        .object(
            REQUEST,
            [
                of("kind", "GroupVersionKind"),
                of("resource", "GroupVersionResource"),
                text("subResource"),
                of("requestKind", "GroupVersionKind"),
                of("requestResource", "GroupVersionResource"),
                text("requestSubResource"),
                text("name"),
                text("namespace"),
                text("operation"),
                of("userInfo", "UserInfo"),
                ("dryRun".to_owned(), Type::Bool),
                ("options".to_owned(), Type::Dyn),
            ],
        )
}

fn with_namespace(env: Env) -> Env {
    let of = |kind: &str| Type::object(&format!("kubernetes.Namespace{kind}"));
    let (texts, map) = (|| Type::list(Type::String), || Type::map(Type::String, Type::String));
    env.object(NAMESPACE, [("metadata", of("Metadata")), ("spec", of("Spec")), ("status", of("Status"))])
        .object("kubernetes.NamespaceSpec", [("finalizers", texts())])
        .object("kubernetes.NamespaceStatus", [("conditions", Type::list(of("Condition"))), ("phase", Type::String)])
        .object(
            "kubernetes.NamespaceCondition",
            [
                ("status", Type::String),
                ("type", Type::String),
                ("lastTransitionTime", Type::Timestamp),
                ("message", Type::String),
                ("reason", Type::String),
            ],
        )
        .object(
            "kubernetes.NamespaceMetadata",
            [
                ("name", Type::String),
                ("generateName", Type::String),
                ("namespace", Type::String),
                ("labels", map()),
                ("annotations", map()),
                ("UID", Type::String),
                ("creationTimestamp", Type::Timestamp),
                ("deletionGracePeriodSeconds", Type::Int),
                ("deletionTimestamp", Type::Timestamp),
                ("generation", Type::Int),
                ("resourceVersion", Type::String),
                ("finalizers", texts()),
            ],
        )
}
