//! Flags → config → app.

fn main() {}
