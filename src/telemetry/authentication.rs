//! Metrics of the authentication config file, as kube-apiserver has them. This server has no identity whose hash could be told.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::{IntCounterVec, IntGaugeVec};

use super::{Catalogue, Metrics};

const STATUS: &[&str] = &["status", "apiserver_id_hash"];

#[derive(Debug)]
pub(super) struct AuthenticationConfig {
    reloads: IntCounterVec,
    last_reload: IntGaugeVec,
    info: IntGaugeVec,
}

impl AuthenticationConfig {
    pub(super) fn new(catalogue: &Catalogue<'_>) -> AuthenticationConfig {
        let name = |end: &str| format!("apiserver_authentication_config_controller_{end}");
        AuthenticationConfig {
            reloads: catalogue.counter(
                &name("automatic_reloads_total"),
                "Total number of automatic reloads of authentication configuration split by status and apiserver identity.",
                STATUS,
            ),
            last_reload: catalogue.gauge(
                &name("automatic_reload_last_timestamp_seconds"),
                "Timestamp of the last automatic reload of authentication configuration split by status and apiserver identity.",
                STATUS,
            ),
            info: catalogue.gauge(
                &name("last_config_info"),
                "Information about the last applied authentication configuration with hash as label, split by apiserver identity.",
                &["apiserver_id_hash", "hash"],
            ),
        }
    }
}

impl Metrics {
    /// The authentication config file with this hash is in use.
    pub fn authentication_config(&self, hash: &str) {
        self.authentication_config.info.reset();
        self.authentication_config.info.with_label_values(&["", hash]).set(1);
    }

    /// The file has changed, and the change could be used or not.
    pub fn authentication_config_reloaded(&self, is_used: bool) {
        let labels = [if is_used { "success" } else { "failure" }, ""];
        self.authentication_config.reloads.with_label_values(&labels).inc();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.authentication_config.last_reload.with_label_values(&labels).set(i64::try_from(now).unwrap_or(i64::MAX));
    }
}
