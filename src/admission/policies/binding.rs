//! Bindings of policies.

use serde_json::Value;

use crate::{criteria::Criteria, tree};

/// What happens when there are no parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFound {
    /// The write is not judged.
    Allow,
    /// It is refused.
    Deny,
}

/// Which parameters a policy is evaluated with.
#[derive(Debug)]
pub struct ParamRef {
    /// The name of one; empty with a selector.
    pub name: String,
    /// The namespace; empty: that of the request.
    pub namespace: String,
    /// A selector of labels, if there is no name.
    pub selector: Option<Value>,
    /// What happens when there are none.
    pub not_found: NotFound,
}

/// A binding.
#[derive(Debug)]
pub struct Binding {
    /// Its name.
    pub name: String,
    /// The name of its policy.
    pub policy: String,
    /// The writes that it is about, of those that its policy is about.
    pub criteria: Criteria,
    /// Which parameters its policy is evaluated with.
    pub params: Option<ParamRef>,
    /// What happens to a write that is not valid: `Deny`, `Warn`, `Audit`.
    pub actions: Vec<String>,
}

impl Binding {
    /// Reads a binding.
    #[must_use]
    pub fn read(binding: &Value) -> Self {
        let spec = &binding["spec"];
        let text = |name: &str| tree::text(spec, &[name]).to_owned();
        let param = Some(&spec["paramRef"]).filter(|param| param.is_object());
        Self {
            name: tree::text(binding, &["metadata", "name"]).to_owned(),
            policy: text("policyName"),
            criteria: Criteria::of_policy(&spec["matchResources"]),
            params: param.map(|param| ParamRef {
                name: tree::text(param, &["name"]).to_owned(),
                namespace: tree::text(param, &["namespace"]).to_owned(),
                selector: Some(&param["selector"]).filter(|selector| selector.is_object()).cloned(),
                not_found: if tree::text(param, &["parameterNotFoundAction"]) == "Deny" { NotFound::Deny } else { NotFound::Allow },
            }),
            actions: tree::texts(spec, &["validationActions"]).map(str::to_owned).collect(),
        }
    }
}
