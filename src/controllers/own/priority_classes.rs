//! The two PriorityClasses of the system: `scheduling/bootstrap-system-priority-classes` of kube-apiserver, which makes them at its start.

use super::{Controllers, Unready, recorded, until_done};
use storage::write::failure::WriteError;

pub(super) async fn run(controllers: &Controllers, unready: Unready) {
    until_done(controllers, "the PriorityClasses of the system", || make(controllers)).await;
    drop(unready);
}

async fn make(controllers: &Controllers) -> Result<(), WriteError> {
    let Some(classes) = controllers.built_in("scheduling.k8s.io", "priorityclasses") else { return Ok(()) };
    controllers.create_missing("", &classes, recorded("PriorityClass")).await
}
