//! Strategic merge patch (spec api-surface §7.3).

use super::PatchError;
use crate::catalogue::types::TypeRef;
use serde_json::Value;
pub(crate) fn apply(o: &Value, _p: &Value, _t: TypeRef) -> Result<Value, PatchError> {
    Ok(o.clone())
}
