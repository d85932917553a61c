//! Who may act as whom: what impersonation asks the authorizers, when a request begins and while its watch goes on.

use std::sync::Arc;

use crate::User;
use crate::authn::{Forbidden, Impersonated, Impersonation, Question};
use crate::authz::{Attributes, Authorizer, Decision, RequestInfo, Resource, Target};

/// Who acts as somebody else: his credentials brought the request.
#[derive(Clone, Debug)]
pub struct Impersonator {
    /// Who.
    pub user: Arc<User>,
    /// As whom, as the request says it.
    pub wanted: Arc<User>,
}

/// What an authorizer is asked about a wish to act as somebody else.
#[must_use]
pub fn about<'q>(info: &'q RequestInfo, user: &'q User, question: &'q Question) -> Attributes<'q> {
    match question {
        Question::Request { verb } => Attributes { verb, ..info.attributes(user) },
        Question::Resource { verb, group, resource, subresource, namespace, name } => {
            let target = Target::Resource(Resource { namespace, group, version: "v1", resource, subresource, name, ..Resource::default() });
            Attributes { user, verb, target }
        }
    }
}

/// The user that a request is carried out as, if `user` may act as `wanted`. The error of who was asked and has not answered is the reason of a no, as in
/// kube-apiserver.
pub(super) fn decide(
    impersonation: &Impersonation,
    authorizer: &dyn Authorizer,
    info: &RequestInfo,
    user: &User,
    wanted: &User,
) -> Result<Impersonated, Forbidden> {
    let mut ask = |user: &User, question: &Question| {
        let verdict = authorizer.decide(&about(info, user, question));
        match (verdict.decision, verdict.error) {
            (Decision::Allow, _) => Ok(()),
            (_, Some(error)) => Err(error.into()),
            (_, None) => Err(verdict.reason.to_string()),
        }
    };
    impersonation.decide(wanted, user, &info.verb, &mut ask)
}
