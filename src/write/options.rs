//! The query parameters of writes become options (spec api-surface §5.1, §7.1, §8.1). Knows no resource.

use super::Syntax;
use super::failure::WriteError;
use crate::read::options::Query;
#[derive(Default, Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}
#[derive(Default, Clone, Debug)]
pub struct WriteOptions {
    pub dry_run: bool,
    pub validation: FieldValidation,
    pub manager: String,
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Propagation {
    Foreground,
    Background,
    Orphan,
}
#[derive(Default, Clone, Debug)]
pub struct DeleteOptions {
    pub grace_seconds: Option<i64>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub propagation: Option<Propagation>,
    pub orphan_dependents: Option<bool>,
    pub dry_run: bool,
}
pub enum Kind {
    Create,
    Update,
    Patch,
}
impl WriteOptions {
    pub fn read(_k: Kind, _q: &Query) -> Result<Self, WriteError> {
        Ok(Self::default())
    }
}
impl DeleteOptions {
    pub fn read(_q: &Query, _s: Syntax, _b: &[u8], _g: &str, _v: &str) -> Result<Self, WriteError> {
        Ok(Self::default())
    }
}
