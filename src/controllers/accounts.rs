//! Gives each active namespace its service account `default`, again when it was deleted: kube-controller-manager's serviceaccount-controller.

use std::sync::Arc;

use serde_json::json;

use super::{
    Controllers,
    each_namespace::{self, Wanted},
    objects::place,
};
use registry::Resource;
use storage::write::failure::WriteError;

/// The account that each namespace has.
const NAME: &str = "default";

struct DefaultAccount(Arc<Resource>);

impl Wanted for DefaultAccount {
    const NAME: &str = NAME;

    fn resource(&self) -> &Arc<Resource> {
        &self.0
    }

    async fn keep(&self, controllers: &Controllers, namespace: &str) -> Result<(), WriteError> {
        if controllers.cached(&place(&self.0, namespace, NAME)).is_some() {
            return Ok(());
        }
        let account = json!({"metadata": {"name": NAME, "namespace": namespace}});
        controllers.create(&self.0, namespace, &account).await.map(drop)
    }
}

pub(super) async fn run(controllers: Arc<Controllers>) {
    let Some(accounts) = controllers.built_in("", "serviceaccounts") else { return };
    each_namespace::run(&controllers, &DefaultAccount(accounts)).await;
}
