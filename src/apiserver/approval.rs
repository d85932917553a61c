//! What is judged of the objects of one request before they are written: admission, then the rights that only the object shows.

use parking_lot::Mutex;
use serde_json::Value;

use super::{admit::Admission, api::Api, authorize::refusal, claim_status::Change, path::ResourcePath};
use auth::{
    User,
    access::{Access, Asker, Authorizers, Undecided},
    authz::{
        Asking, Attributes, Authorizer, Decision, Resource, Target,
        rbac::{GROUP, Kind, Refusal, Write as Escalation},
    },
};
use storage::write::{
    Approver, Asked, Need, Stop,
    failure::{StatusSubject, WriteError},
};

/// How an object is written, as far as rights depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// It is new, or an action on another object.
    Create,
    /// PUT.
    Replace,
    /// PATCH.
    Patch,
    /// As [`Self::Replace`] and [`Self::Patch`] of a scale: what is missing is not made.
    Scale {
        /// It is a PATCH.
        is_patch: bool,
    },
}

impl Manner {
    fn verb(self) -> &'static str {
        match self {
            Self::Patch | Self::Scale { is_patch: true } => "patch",
            Self::Create | Self::Replace | Self::Scale { is_patch: false } => "update",
        }
    }
}

/// Judges the objects that one request writes or deletes.
pub(super) struct RequestApproval<'a> {
    api: &'a Api,
    authorizers: &'a Authorizers,
    asker: &'a Asker<'a>,
    path: &'a ResourcePath,
    manner: Manner,
    admission: Option<Admission<'a>>,
    /// What the authorizers were asked, and said, so far.
    asking: Mutex<Asking<'a>>,
}

impl<'a> RequestApproval<'a> {
    /// Returns who judges what this user writes there; nobody if everything is allowed.
    pub(super) fn of(
        (api, authorizers): (&'a Api, &'a Authorizers),
        asker: &'a Asker<'a>,
        path: &'a ResourcePath,
        manner: Manner,
    ) -> Option<Self> {
        let admission = Admission::of(api, asker.user, path);
        let asks = admission.is_some() || !api.access.allows_all(asker.user);
        let asking = Mutex::new(authorizers.asking());
        asks.then_some(Self { api, authorizers, asker, path, manner, admission, asking })
    }

    /// Returns who judges what this user deletes there, if anybody does.
    pub(super) fn of_deletion(by: (&'a Api, &'a Authorizers), asker: &'a Asker<'a>, path: &'a ResourcePath) -> Option<Self> {
        Self::of(by, asker, path, Manner::Replace).filter(|approval| approval.admission.is_some())
    }

    fn judge(&self, asking: &Asking<'_>, new: Option<&Value>, old: Option<&Value>) -> Result<(), WriteError> {
        let Some(object) = new else {
            let old = old.unwrap_or(&Value::Null);
            return self.admission.as_ref().map_or(Ok(()), |admission| admission.confirm_deletion(asking, old));
        };
        if let Some(admission) = &self.admission {
            admission.confirm_put(asking, object, old)?;
        }
        if self.api.access.allows_all(self.asker.user) {
            return Ok(());
        }
        confirm_rights(&self.api.access, asking, self.asker.user, self.path, self.manner, object, old)?;
        let Some(stored) = old.filter(|_| self.api.settings.gates.granular_claim_status) else { return Ok(()) };
        Change { user: self.asker.user, path: self.path, verb: self.manner.verb(), object, stored }.confirm(asking)
    }
}

impl Approver for RequestApproval<'_> {
    fn approve(&self, new: Option<&Value>, old: Option<&Value>) -> Result<(), Stop> {
        let asking = self.asking.lock();
        let judged = self.judge(&asking, new, old);
        // What was judged without an answer does not count.
        if asking.must_wait() { Err(Stop::Needs(Need::Approval)) } else { Ok(judged?) }
    }

    fn ask(&self) -> Asked<'_> {
        Box::pin(async {
            let open = self.asking.lock().open();
            let Some(open) = open else { return Ok(()) };
            let verdict = self.authorizers.verdict(&open, self.asker).await.map_err(undecided)?;
            self.asking.lock().answer(open, verdict);
            Ok(())
        })
    }
}

fn undecided(why: Undecided) -> WriteError {
    match why {
        Undecided::TooMany => WriteError::TooMany(why.to_string()),
        Undecided::Loading => WriteError::NotYet(why.to_string()),
    }
}

/// What must be asked about an object that is known only now: whether a PUT may create, and whether roles and bindings give rights away that the writer does
/// not have (spec api-surface §13.1).
fn confirm_rights(
    access: &Access,
    authorizer: &dyn Authorizer,
    user: &User,
    path: &ResourcePath,
    manner: Manner,
    object: &Value,
    stored: Option<&Value>,
) -> Result<(), WriteError> {
    let namespace = path.namespace.as_deref().unwrap_or_default();
    let name = path.name.as_deref().unwrap_or_default();
    let own = object["metadata"]["name"].as_str().unwrap_or(name);
    let named = || StatusSubject { group: path.group.clone(), kind: path.resource.clone(), name: own.to_owned() };
    if stored.is_none() && matches!(manner, Manner::Replace | Manner::Patch) {
        let (group, version, resource) = (&*path.group, &*path.version, &*path.resource);
        let target = Target::Resource(Resource { namespace, group, version, resource, name, ..Resource::default() });
        let asked = Attributes { user, verb: "create", target };
        let verdict = authorizer.decide(&asked);
        if let Some(error) = verdict.error {
            return Err(WriteError::Internal(error.into()));
        }
        if verdict.decision != Decision::Allow {
            return Err(WriteError::Forbidden { of: named(), why: refusal(&asked, &verdict.reason.to_string()), cause: None });
        }
    }
    let Some(kind) = Kind::of(&path.resource).filter(|_| path.group == GROUP) else { return Ok(()) };
    let write = Escalation { user, kind, namespace, name, object, stored };
    access.confirm_no_escalation(authorizer, &write).map_err(|refusal| match refusal {
        Refusal::Forbidden(why) => WriteError::Forbidden { of: named(), why, cause: None },
        Refusal::NotFound(role) => WriteError::NotFound(StatusSubject { name: role, ..named() }),
        Refusal::BadRequest(why) => WriteError::BadRequest(why),
        Refusal::Internal(why) => WriteError::Raw(why),
    })
}
