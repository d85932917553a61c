//! Writing CustomResourceDefinitions: defaults, validation, conditions (spec api-surface §11). Pure: knows no etcd and no clock.

use crate::model::invalid::FieldError;
use serde_json::Value;
pub(crate) fn prepare_create(_o: &mut Value) {}
pub(crate) fn prepare_update(_o: &Value, _n: &mut Value) {}
pub(crate) fn prepare_deletion(_o: &mut Value, _now: &str) {}
pub(crate) fn validate_create(_o: &Value) -> Vec<FieldError> {
    Vec::new()
}
pub(crate) fn validate_update(_n: &Value, _o: &Value) -> Vec<FieldError> {
    Vec::new()
}
pub enum Step {
    UpdateStatus(Value),
    DeleteInstances,
    Finish(Value),
}
pub fn next(_d: &Value, _o: &[&Value], _i: Option<bool>, _now: &str) -> Option<Step> {
    None
}
