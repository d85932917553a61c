//! The row of a kind: what it has of its own at each stage of a write.

use std::borrow::Cow;

use serde_json::Value;
use time::OffsetDateTime;

use crate::write::part::Part;
use admission::hooks::UserInfo;
use model::invalid::FieldError;

/// What one kind has of its own, in the order of a write. [`Strategy::COMMON`] is what a kind does that has nothing.
pub(in crate::write) struct Strategy {
    /// The id of its storage.
    pub(super) storage: &'static str,
    /// Who creates an object brings its status.
    pub(in crate::write) creates_status: bool,
    /// Notes in a new object who made it.
    pub(in crate::write) identify: fn(&mut Value, Option<&UserInfo<'_>>),
    /// An object as Go's decoder returns it: with what else a conversion to the internal type gives it. Whoever sent the object manages that too.
    pub(in crate::write) decoded: for<'v> fn(&'v Value) -> Cow<'v, Value>,
    /// What a new object gets before its name is generated: the real server copies it then, so a Job's labels are no longer those of its Pods.
    pub(in crate::write) prepare_generated: fn(&mut Value),
    /// Sets fields of a new object; adds what its writer should know about them.
    pub(in crate::write) prepare_create: fn(&mut Value, &mut Vec<String>),
    /// What becomes of `wanted` when a part is written that is neither the object nor its status: `old`, `wanted`.
    pub(in crate::write) take: fn(Part, &Value, Value) -> Value,
    /// Sets fields that follow from what an update changed, and puts back those that it must leave alone: `old`, `new`.
    pub(in crate::write) prepare_update: fn(Part, &Value, &mut Value),
    /// Sets the times that the server notes: `old`, `new`, and when the write began. It reads no clock: whatever is decided again is decided at the same time.
    pub(in crate::write) stamp: fn(Part, Option<&Value>, &mut Value, OffsetDateTime),
    /// Whether an update is judged as a new object is.
    pub(super) judged_as_new: JudgedAsNew,
    /// What a write of `/status` leaves of the metadata that was sent (spec api-surface §6.3).
    pub(in crate::write) status_metadata: StatusMetadata,
    /// A new object has the generation that its client sent.
    pub(in crate::write) begins_as_sent: bool,
    /// The generation does not count changes.
    pub(in crate::write) counts_itself: bool,
    /// The member of `metadata` that counts like the spec.
    pub(in crate::write) counted_metadata: Option<&'static str>,
    /// What a change loses after the generation has counted it: most kinds lose it before.
    pub(super) drop_counted: fn(&Value, &mut Value),
    /// Fields of features that are off are counted before an update loses them.
    pub(super) is_counted_before_features: bool,
    /// What is there, in the form that `prepare_update` gives to what comes.
    pub(in crate::write) comparable: for<'v> fn(&'v Value) -> Cow<'v, Value>,
    /// What is wrong with a new object besides its metadata.
    pub(in crate::write) validate_create: fn(&Value) -> Vec<FieldError>,
    /// What is wrong with a change besides that of the metadata: `old`, `new`.
    pub(in crate::write) validate_update: fn(Part, &Value, &Value) -> Vec<FieldError>,
    /// What the writer of an object should know about it, though it is accepted: `old`, `new`.
    pub(super) warn: fn(Option<&Value>, &Value, &mut Vec<String>),
    /// The same of a write of the status.
    pub(super) warn_status: fn(&Value, &mut Vec<String>),
    /// The first DELETE of a kind that has a way of its own to be marked.
    pub(in crate::write) mark: Option<fn(&mut Value, OffsetDateTime)>,
    /// Whether something besides `metadata.finalizers` keeps an object that is being deleted.
    pub(in crate::write) is_held: fn(&Value) -> bool,
}

impl Strategy {
    pub(super) const COMMON: Self = Self {
        storage: "",
        creates_status: false,
        identify: |_, _| {},
        decoded: |object| Cow::Borrowed(object),
        prepare_generated: |_| {},
        prepare_create: |_, _| {},
        take: |_, _, wanted| wanted,
        prepare_update: |_, _, _| {},
        stamp: |_, _, _, _| {},
        judged_as_new: JudgedAsNew::No,
        status_metadata: StatusMetadata::Without(&[]),
        begins_as_sent: false,
        counts_itself: false,
        counted_metadata: None,
        drop_counted: |_, _| {},
        is_counted_before_features: false,
        comparable: |old| Cow::Borrowed(old),
        validate_create: |_| Vec::new(),
        validate_update: |_, _, _| Vec::new(),
        warn: |_, _, _| {},
        warn_status: |_, _| {},
        mark: None,
        is_held: |_| false,
    };

    /// Of custom resources nothing of `/status` but managed fields is metadata.
    pub(super) const CUSTOM: Self = Self { status_metadata: StatusMetadata::Nothing, ..Self::COMMON };
}

/// What is wrong with a change of the object itself: what the server writes, and parts without rules, are not judged.
pub(super) fn of_main(part: Part, judge: impl FnOnce() -> Vec<FieldError>) -> Vec<FieldError> {
    if part == Part::Main { judge() } else { Vec::new() }
}

/// What is wrong with a change of the object itself, or of its status.
pub(super) fn of_parts(part: Part, main: impl FnOnce() -> Vec<FieldError>, status: impl FnOnce() -> Vec<FieldError>) -> Vec<FieldError> {
    match part {
        Part::Main => main(),
        Part::Status => status(),
        _ => Vec::new(),
    }
}

/// Which updates of a built-in are judged as a new object is, besides: of their metadata that is `generateName`, for the name cannot change (measured on each).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JudgedAsNew {
    No,
    Main,
    MainAndStatus,
}

/// What a write of `/status` leaves of the metadata that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::write) enum StatusMetadata {
    /// All of it but these members, which stay what they are.
    Without(&'static [&'static str]),
    /// Nothing but `managedFields`.
    Nothing,
}

/// Members of `metadata` that most strategies of `/status` with a rule about them leave alone. Those that are not here are judged as in any update.
pub(super) const RESET_FOR_STATUS: &[&str] =
    &["deletionTimestamp", "generation", "selfLink", "labels", "annotations", "finalizers", "ownerReferences"];
