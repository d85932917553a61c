//! Finds out whether a kube-apiserver uses this etcd: it keeps a lease under `/registry/masterleases/` (spec api-surface §10.1).

use std::time::Duration;

use super::Controllers;
use etcd::{Etcd, EtcdError, RangeRequest};
use retry::Reminder;
use storage::write::write_gate::Permission;

/// How often we look whether a kube-apiserver has come. Its lease lives 15 s, so it is seen before it has served for long.
const POLL_EVERY: Duration = Duration::from_secs(10);

/// Wait before etcd is asked again after a failure.
const RETRY: Duration = Duration::from_secs(1);

/// Who else writes here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Neighbour {
    /// Nobody that we know of.
    None,
    KubeApiserver,
}

/// Asks etcd until it answers.
pub(super) async fn learn(etcd: &Etcd, prefix: &str) -> Neighbour {
    let mut reminder = Reminder::every(POLL_EVERY);
    loop {
        match look(etcd, prefix).await {
            Ok(neighbour) => return neighbour,
            Err(error) => {
                // Nothing else asks etcd before this is known: it is the one place that learns why etcd cannot be reached at a start.
                if reminder.is_due() {
                    tracing::warn!(%error, "etcd does not answer; trying again");
                }
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// What may be done in this company.
pub(super) fn permission(neighbour: Neighbour, allow_writes: bool) -> Permission {
    if allow_writes || neighbour == Neighbour::None { Permission::Granted } else { Permission::Denied }
}

/// Looks again and again; writes end when a kube-apiserver comes.
pub(super) async fn watch(controllers: &Controllers) {
    if controllers.allow_writes {
        return;
    }
    loop {
        tokio::time::sleep(POLL_EVERY).await;
        if look(&controllers.etcd, &controllers.prefix).await == Ok(Neighbour::KubeApiserver) {
            tracing::error!("a kube-apiserver has begun to use this etcd: no more writes from here, until a restart with --allow-writes");
            controllers.write_gate.set(Permission::Denied);
            return;
        }
    }
}

async fn look(etcd: &Etcd, prefix: &str) -> Result<Neighbour, EtcdError> {
    let key = format!("{prefix}masterleases/").into_bytes();
    let mut end = key.clone();
    // The slash at the end, plus one.
    *end.last_mut().expect("the prefix is not empty") += 1;
    let answer = etcd.range(RangeRequest { key, end, limit: 1, count_only: true, ..RangeRequest::default() }).await?;
    Ok(if answer.count == 0 { Neighbour::None } else { Neighbour::KubeApiserver })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_kube_apiserver_stands_in_the_way() {
        assert_eq!(permission(Neighbour::None, false), Permission::Granted);
        assert_eq!(permission(Neighbour::KubeApiserver, false), Permission::Denied);
        assert_eq!(permission(Neighbour::KubeApiserver, true), Permission::Granted);
    }
}
