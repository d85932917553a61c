//! Who asks for devices as an administrator (`pkg/registry/resource`): only namespaces with a label of their own may have such claims.

use serde_json::Value;

use super::{Writer, failure::WriteError, object_ref::ObjectRef, part::Part, tree};
use model::invalid::FieldError;

const LABEL: &str = "resource.kubernetes.io/admin-access";
const CLAIMS: &str = "resourceclaims";
const TEMPLATES: &str = "resourceclaimtemplates";

impl Writer {
    /// Whether this is a claim, or a template of one, of a namespace without the label.
    pub(super) async fn denies_admin(&self, target: &ObjectRef) -> Result<bool, WriteError> {
        let served = target.served();
        let Some(namespace) = target.namespace.as_ref().filter(|_| [CLAIMS, TEMPLATES].contains(&&*served.storage.id)) else {
            return Ok(false);
        };
        let namespace = self.namespace(namespace).await?;
        Ok(namespace.is_none_or(|found| tree::text(&found.tree, &["metadata", "labels", LABEL]) != "true"))
    }
}

/// The error of a new object that asks for it.
pub(super) fn wrong_claim(object: &Value) -> Option<FieldError> {
    let spec = &object["spec"];
    let requests = if spec["devices"].is_null() { &spec["spec"]["devices"]["requests"] } else { &spec["devices"]["requests"] };
    let index = requests.as_array()?.iter().position(|request| request["exactly"]["adminAccess"] == true)?;
    Some(refused(&format!("spec.devices.requests[{index}].adminAccess")))
}

/// The error of a status whose allocation is the first one with it.
pub(super) fn wrong_status(part: Part, old: &Value, new: &Value) -> Option<FieldError> {
    let first = |claim: &Value| {
        let results = claim["status"]["allocation"]["devices"]["results"].as_array()?;
        results.iter().position(|result| result["adminAccess"] == true)
    };
    let index = first(new).filter(|_| part == Part::Status && first(old).is_none())?;
    Some(refused(&format!("status.allocation.devices.results[{index}].adminAccess")))
}

fn refused(field: &str) -> FieldError {
    FieldError::forbidden(field, &format!("admin access to devices requires the `{LABEL}: true` label on the containing namespace"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_one_is_named() {
        let request = |admin: bool| json!({"exactly": {"adminAccess": admin}});
        let requests = json!({"devices": {"requests": [request(false), request(true), request(true)]}});
        let field = |object: &Value| wrong_claim(object).map(|error| error.field);
        let wanted = Some("spec.devices.requests[1].adminAccess".to_owned());
        assert_eq!((field(&json!({"spec": requests})), field(&json!({"spec": {"spec": requests}}))), (wanted.clone(), wanted));
        assert_eq!(field(&json!({"spec": {"devices": {"requests": [request(false), {}]}}})), None);
        let status = |admin: bool| json!({"status": {"allocation": {"devices": {"results": [{"adminAccess": admin}]}}}});
        let field = |part, old: &Value, new: &Value| wrong_status(part, old, new).map(|error| error.field);
        let wanted = Some("status.allocation.devices.results[0].adminAccess".to_owned());
        assert_eq!(field(Part::Status, &status(false), &status(true)), wanted);
        assert_eq!(field(Part::Status, &status(true), &status(true)), None);
        assert_eq!(field(Part::Main, &status(false), &status(true)), None);
    }
}
