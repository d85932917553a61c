//! On whose behalf a request writes: the client as admission knows it, and what expressions ask about the rights of users.

use super::{api::Api, respond::Reply};
use admission::hooks::{Decision, RightsQuestion, RightsTarget, UserInfo};
use auth::{
    User,
    access::{Asker, selectors},
    authz::{self, Attributes, Resource, Selectors, Target},
};
use storage::write::{AnnotationHook, Client, Decided, Rights};

/// Returns the client of a write.
pub(super) fn client<'a>(asker: &Asker<'a>, rights: &'a RequestRights<'a>) -> Client<'a> {
    let User { name, uid, groups, extra } = asker.user;
    Client { user: UserInfo { name, uid, groups, extra }, rights, until: asker.until }
}

/// Returns what notes the words of admission for the audit log, if the request has a record.
pub(super) fn annotation_hook(reply: &Reply) -> Option<Box<AnnotationHook<'_>>> {
    let record = reply.record()?;
    Some(Box::new(move |name: &str, value: String, of_request: bool| {
        if !of_request || record.wants_request() {
            record.annotate(name.to_owned(), value);
        }
    }))
}

/// Answers such questions of one request, whose user is charged for them.
pub(super) struct RequestRights<'a> {
    pub(super) api: &'a Api,
    pub(super) asker: &'a Asker<'a>,
}

impl Rights for RequestRights<'_> {
    fn decide<'a>(&'a self, question: &'a RightsQuestion) -> Decided<'a> {
        Box::pin(async move {
            let account = question.account.as_ref().map(|(namespace, name)| account(namespace, name));
            let user = account.as_ref().unwrap_or(self.asker.user);
            let mut selectors = Selectors::ALL;
            let target = match &question.target {
                RightsTarget::Path(path) => Target::Path(path),
                RightsTarget::Resource(check) => {
                    selectors.fields = selectors::of_fields(&check.field_selector).unwrap_or_default();
                    selectors.labels = selectors::of_labels(&check.label_selector).unwrap_or_default();
                    let (group, resource, subresource) = (&*check.group, &*check.resource, &*check.subresource);
                    let (namespace, name, selectors) = (&*check.namespace, &*check.name, &selectors);
                    Target::Resource(Resource { group, version: "*", resource, subresource, namespace, name, selectors })
                }
            };
            match self.api.access.decide(self.asker, &Attributes { user, verb: &question.verb, target }).await {
                Ok(verdict) => Decision {
                    allowed: verdict.decision == authz::Decision::Allow,
                    reason: verdict.reason.to_string(),
                    error: verdict.error.map(Into::into),
                },
                Err(undecided) => Decision { error: Some(undecided.to_string()), ..Decision::default() },
            }
        })
    }
}

/// The user of a service account.
fn account(namespace: &str, name: &str) -> User {
    let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}"), "system:authenticated".to_owned()];
    User { name: format!("system:serviceaccount:{namespace}:{name}"), uid: String::new(), groups: groups.into(), extra: Vec::new() }
}
