//! Expressions of webhooks and policies of admission: whether they can be compiled, and are of the right type (`pkg/admission/plugin/cel` of apiserver).

use std::sync::LazyLock;

use cel::{Env, Refused, Type};

use crate::{at::At, causes::Causes};
use model::invalid::FieldError;

const VARIABLES: &str = "kubernetes.variables";
const NO_FIELDS: [(&str, Type); 0] = [];

/// The environments of messages, requests and patches, each without and with parameters.
static ENVIRONMENTS: LazyLock<[[Env; 2]; 3]> = LazyLock::new(|| {
    [About::Message, About::Request, About::Patch].map(|about| {
        let (authorizer, patches) = (about != About::Message, about == About::Patch);
        [false, true].map(|params| cel::admission_environment(cel::Admission { params, authorizer, patches }))
    })
});

/// What an expression is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// A request, with rights that may be asked for.
    Request,
    /// The message about it.
    Message,
    /// What becomes of its object.
    Patch,
}

/// Expressions of one object, and the variables that it has declared so far.
pub(crate) struct Expressions {
    requests: Env,
    messages: Env,
    patches: Env,
}

impl Expressions {
    /// Returns those of a webhook, or of a policy with or without parameters, before any variable.
    pub(crate) fn new(params: bool, has_variables: bool) -> Self {
        let [messages, requests, patches] = [0, 1, 2].map(|about: usize| {
            let env = ENVIRONMENTS[about][usize::from(params)].clone();
            if has_variables { env.variable("variables", Type::object(VARIABLES)).object(VARIABLES, NO_FIELDS) } else { env }
        });
        Self { requests, messages, patches }
    }

    /// Compiles a variable, which those after it may use; returns them with it.
    pub(crate) fn declare(self, name: &str, at: &At<'_, '_>, causes: &mut Causes) -> Self {
        let kind = typed(&self.requests, at, at.text(), at.text(), causes).map_or(Type::Dyn, |kind| kind.declared());
        let add = |env: Env| env.field(VARIABLES, name, kind.clone());
        Self { requests: add(self.requests), messages: add(self.messages), patches: add(self.patches) }
    }

    /// An expression whose value is of one of these types.
    pub(crate) fn judge(&self, at: &At<'_, '_>, source: &str, about: About, types: &[Type], causes: &mut Causes) {
        self.judge_shown(at, source, source, about, types, causes);
    }

    /// The same of one that is shown otherwise when it is wrong.
    pub(crate) fn judge_shown(&self, at: &At<'_, '_>, source: &str, shown: &str, about: About, types: &[Type], causes: &mut Causes) {
        let env = match about {
            About::Request => &self.requests,
            About::Message => &self.messages,
            About::Patch => &self.patches,
        };
        let Some(kind) = typed(env, at, source, shown, causes).filter(|kind| !types.contains(kind)) else { return };
        let names: Vec<String> = types.iter().map(go_name).collect();
        let wanted = if let [one] = names.as_slice() { one.clone() } else { format!("one of [{}]", names.join(" ")) };
        causes.invalid_as(at, &shown.into(), &format!("must evaluate to {wanted} but got {}", go_name(&kind)));
    }
}

fn typed(env: &Env, at: &At<'_, '_>, source: &str, shown: &str, causes: &mut Causes) -> Option<Type> {
    match env.compile(source) {
        Ok(program) => return Some(program.result_type().clone()),
        Err(Refused::Compilation(issues)) => causes.invalid_as(at, &shown.into(), &format!("compilation failed: {issues}")),
        Err(Refused::Instantiation(why)) => {
            causes.add(FieldError::internal(at.to_string(), &format!("program instantiation failed: {why}")))
        }
    }
    None
}

/// The name of a type as Go's errors have it.
fn go_name(kind: &Type) -> String {
    match kind {
        Type::Null => "null_type".to_owned(),
        Type::Duration => "google.protobuf.Duration".to_owned(),
        Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
        Type::List(items) => format!("list({})", go_name(items)),
        Type::Map(map) => format!("map({}, {})", go_name(&map.0), go_name(&map.1)),
        kind => kind.to_string(),
    }
}
