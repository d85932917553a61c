//! Names and ObjectMeta of what is written: normal form and validation (spec api-surface §5.4, §6.1). Knows no etcd.

use crate::{catalogue::NameRule, model::invalid::FieldError};
use serde_json::{Map, Value};
pub(crate) fn validate_create(_m: &Map<String, Value>, _namespaced: bool, _rule: NameRule, _custom: bool) -> Vec<FieldError> {
    Vec::new()
}
pub(crate) fn validate_update(_new: &Map<String, Value>, _old: &Map<String, Value>, _custom: bool) -> Vec<FieldError> {
    Vec::new()
}
pub(crate) fn normalize(_m: &mut Map<String, Value>) {}
