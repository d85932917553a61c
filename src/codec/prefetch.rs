//! Prefetches the text of several objects at once: reading objects one after the other is mostly waiting for memory.

use std::{hint::black_box, sync::Arc};

use model::Object;

/// Objects that are prefetched together.
pub(super) const OBJECTS: usize = 8;
/// Bytes of each that are prefetched.
const BYTES: usize = 4 << 10;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Brings the text of these objects, of [`OBJECTS`] at most, into the processor's cache.
pub(super) fn prefetch<'o>(objects: impl Iterator<Item = &'o Arc<Object>>) {
    let lines = |object: &Object| object.own_tail().iter().take(BYTES).step_by(LINE).fold(0, |all, byte| all ^ byte);
    black_box(objects.take(OBJECTS).fold(0, |all, object| all ^ lines(object)));
}
