//! Sets.
