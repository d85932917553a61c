//! Asking memory for the text of several objects at once: reading objects one after the other is mostly waiting for each.

use std::{hint::black_box, sync::Arc};

use model::Object;

/// Objects whose text is asked for at once: what is asked for together comes together.
pub(super) const AHEAD: usize = 8;
/// Bytes of each that are asked for.
const BYTES: usize = 4 << 10;
/// Bytes that memory brings at once.
const LINE: usize = 64;

/// Has the processor fetch the text of these objects; of [`AHEAD`] at most.
pub(super) fn ask<'o>(objects: impl Iterator<Item = &'o Arc<Object>>) {
    let lines = |object: &Object| object.tail().iter().take(BYTES).step_by(LINE).fold(0, |all, byte| all ^ byte);
    black_box(objects.take(AHEAD).fold(0, |all, object| all ^ lines(object)));
}
