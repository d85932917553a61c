//! CustomResourceDefinitions: names accepted, established, cleaned up after (spec api-surface §11.2). What to do is decided in `write::definition`.

use super::Upkeep;

pub(super) async fn run(_upkeep: &Upkeep) {}
