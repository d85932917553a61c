//! The ConfigMap `kube-system/kube-apiserver-legacy-service-account-token-tracking`, which says since when the last use of token Secrets is
//! noted.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::Controllers;
use crate::objects::{place, text, tree};
use storage::write::{Part, write_gate::Permission};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "kube-apiserver-legacy-service-account-token-tracking";
const SINCE: &str = "since";
/// It is created again so long after it was created: servers of which some do not note anything might undo each other's work.
const CREATE_EVERY: Duration = Duration::from_secs(30 * 60);
/// Wait before another try when one has failed.
const RETRY: Duration = Duration::from_secs(1);
/// The longest wait for a change: none may have been seen.
const LOOK_EVERY: Duration = Duration::from_secs(60);

pub(super) async fn run(controllers: &Controllers) {
    let Some(maps) = controllers.built_in("", "configmaps") else { return };
    let target = place(&maps, NAMESPACE, NAME);
    let mut created = None::<Instant>;
    // A kube-apiserver that comes later keeps its own.
    while controllers.write_gate.now() == Permission::Granted {
        let changed = maps.handle.published.changed();
        let today = controllers.writer.now().split('T').next().unwrap_or_default().to_owned();
        let done = match controllers.loaded(&maps).await {
            Err(error) => Err(error),
            Ok(_) => match controllers.cached(&target).and_then(|found| tree(&maps, &found)) {
                Some(found) if is_date(text(&found, "/data/since")) => Ok(()),
                Some(_) => controllers.writer.amend_part(&target, Part::Main, |current| dated(current, &today)).await.map(drop),
                None if created.is_some_and(|at| at.elapsed() < CREATE_EVERY) => Ok(()),
                None => {
                    let map = json!({"metadata": {"name": NAME}, "data": {SINCE: today}});
                    controllers.create_as("", &maps, NAMESPACE, &map).await.map(|_| created = Some(Instant::now()))
                }
            },
        };
        match done {
            // The cache takes it in a moment after it was written.
            Ok(()) => drop(timeout(LOOK_EVERY, changed).await),
            Err(error) => {
                tracing::debug!(%error, "cannot update ConfigMap {NAMESPACE}/{NAME} yet; trying again");
                sleep(RETRY).await;
            }
        }
    }
}

/// The ConfigMap with a date; none if it has one.
fn dated(map: &Value, today: &str) -> Option<Value> {
    let mut new = map.clone();
    new["data"][SINCE] = today.into();
    (!is_date(text(map, "/data/since"))).then_some(new)
}

/// Whether this is a day as Go's `2006-01-02` reads it.
fn is_date(text: &str) -> bool {
    let format = time::macros::format_description!("[year]-[month]-[day]");
    text.len() == 10 && time::Date::parse(text, format).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_date_is_replaced() {
        let map = |since: &str| json!({"data": {SINCE: since, "other": "x"}});
        assert_eq!(dated(&map("2026-11-28"), "2026-12-01"), None);
        for wrong in ["", "2026-13-01", "2026-11-28T", "26-11-28", "2026-02-30"] {
            assert_eq!(dated(&map(wrong), "2026-12-01"), Some(map("2026-12-01")), "{wrong}");
        }
        assert_eq!(dated(&json!({}), "2026-12-01"), Some(json!({"data": {SINCE: "2026-12-01"}})));
    }
}
