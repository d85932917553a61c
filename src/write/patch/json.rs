//! JSON patch, RFC 6902.

use super::PatchError;
use serde_json::Value;
pub(crate) struct JsonPatch;
impl JsonPatch {
    pub(crate) fn read(_b: &[u8]) -> Result<Self, PatchError> {
        Ok(Self)
    }
    pub(crate) fn apply(&self, o: &Value) -> Result<Value, PatchError> {
        Ok(o.clone())
    }
}
