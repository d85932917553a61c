//! What is wrong with an object, in the order in which it was found.

use serde_json::Value;

use crate::at::At;
use model::invalid::{FieldError, TOLD_BYTES_MAX};

/// Collects errors. After [`TOLD_BYTES_MAX`] bytes none is added: an object can have more errors than bytes.
#[derive(Debug, Default)]
pub(crate) struct Causes {
    found: Vec<FieldError>,
    bytes: usize,
}

impl Causes {
    /// Returns what a function finds.
    pub(crate) fn of(find: impl FnOnce(&mut Self)) -> Vec<FieldError> {
        let mut causes = Self::default();
        find(&mut causes);
        causes.found
    }

    /// Whether nothing is wrong.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Returns how many there are, which says whether a part of an object was right.
    pub(crate) fn len(&self) -> usize {
        self.found.len()
    }

    pub(crate) fn add(&mut self, error: FieldError) {
        self.add_with(|| error);
    }

    /// Adds an error that is made only if it is taken.
    pub(crate) fn add_with(&mut self, make: impl FnOnce() -> FieldError) {
        if !self.is_full() {
            let error = make();
            self.bytes += error.bytes();
            self.found.push(error);
        }
    }

    /// Whether no more errors are taken.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes > TOLD_BYTES_MAX
    }

    /// `Required value`, with `why` after it when there is one.
    pub(crate) fn required(&mut self, at: &At<'_, '_>, why: &str) {
        self.add_with(|| FieldError::required(at.to_string(), why));
    }

    /// `Invalid value: V: why`, of the value that is there.
    pub(crate) fn invalid(&mut self, at: &At<'_, '_>, why: &str) {
        self.add_with(|| FieldError::invalid(at.to_string(), at.value(), why));
    }

    /// The same, of a value that Go shows instead.
    pub(crate) fn invalid_as(&mut self, at: &At<'_, '_>, shown: &Value, why: &str) {
        self.add_with(|| FieldError::invalid(at.to_string(), shown, why));
    }

    /// `Invalid value: V: why` for each of the reasons why a text is not legal.
    pub(crate) fn each_invalid(&mut self, at: &At<'_, '_>, whys: impl IntoIterator<Item = impl AsRef<str>>) {
        whys.into_iter().for_each(|why| self.invalid(at, why.as_ref()));
    }

    /// The same of a string that may be absent: Go shows it as empty.
    pub(crate) fn invalid_text(&mut self, at: &At<'_, '_>, why: &str) {
        self.add_with(|| FieldError::invalid(at.to_string(), &at.text().into(), why));
    }

    /// The same of a text of a type of its own, which Go shows as JSON: `<` is `\u003c`.
    pub(crate) fn invalid_json(&mut self, at: &At<'_, '_>, why: &str) {
        self.add_with(|| FieldError::invalid_json(at.to_string(), at.text(), why));
    }

    /// `Not found: V`.
    pub(crate) fn not_found(&mut self, at: &At<'_, '_>) {
        self.add_with(|| FieldError::not_found(at.to_string(), at.value()));
    }

    /// `Unsupported value: V: supported values: …`, of a text of a type of its own.
    pub(crate) fn not_supported(&mut self, at: &At<'_, '_>, supported: &[&str]) {
        self.add_with(|| FieldError::not_supported(at.to_string(), at.value(), supported));
    }

    /// The same of a plain string.
    pub(crate) fn not_supported_text(&mut self, at: &At<'_, '_>, supported: &[&str]) {
        self.add_with(|| FieldError::not_supported_text(at.to_string(), at.text(), supported));
    }

    /// `Forbidden: why`.
    pub(crate) fn forbidden(&mut self, at: &At<'_, '_>, why: &str) {
        self.add_with(|| FieldError::forbidden(at.to_string(), why));
    }

    /// `Duplicate value: V`.
    pub(crate) fn duplicate(&mut self, at: &At<'_, '_>) {
        self.add_with(|| FieldError::duplicate(at.to_string(), at.value()));
    }

    /// The same of a text of a type of its own, which Go shows as JSON.
    pub(crate) fn duplicate_json(&mut self, at: &At<'_, '_>) {
        self.add_with(|| FieldError::duplicate_json(at.to_string(), at.value()));
    }

    /// `Too long: may not be more than N bytes`.
    pub(crate) fn too_long(&mut self, at: &At<'_, '_>, bytes_max: usize) {
        self.add_with(|| FieldError::too_long(at.to_string(), bytes_max));
    }

    /// `Too many: N: must have at most M items`.
    pub(crate) fn too_many(&mut self, at: &At<'_, '_>, max: usize) {
        self.add_with(|| FieldError::too_many(at.to_string(), at.len(), max));
    }
}
