//! Replicas of one group share out their watches: each tells the others how many it has, under a key with a lease, and one that has more than its share moves
//! some, whose clients come again through the balancer (docs/decisions/0023). Needs the right to write under `/watchcache/replicas/` in etcd, and nothing else
//! of etcd.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;

use auth::access::Access;
use etcd::{Etcd, EtcdError, Outcome, RangeRequest};
use model::Revision;
use retry::Reminder;

/// Between two looks.
const POLL_EVERY: Duration = Duration::from_secs(5);
/// A replica that is silent for so long is gone, seconds.
const LEASE_SECONDS: i64 = 20;
/// At the root of etcd, not under the prefix of objects.
const KEYS: &str = "/watchcache/replicas";
/// Replicas that are looked at.
const REPLICAS_MAX: u32 = 1_000;
/// A share may be exceeded by one part in so many, and by so many watches.
const SLACK_PART: usize = 50;
const SLACK: usize = 2;
/// At one look at most one watch in so many is moved, so that clients come one after the other.
const MOVED_PART: usize = 10;
/// How often a failure is logged.
const REMIND_EVERY: Duration = Duration::from_secs(300);

/// Publishes the count of watches and moves some, for ever.
pub async fn run(etcd: Etcd, group: String, access: Arc<Access>) {
    let own = format!("{KEYS}/{group}/{}", uuid::Uuid::new_v4().simple());
    let (mut written, mut reminder) = (None::<Revision>, Reminder::every(REMIND_EVERY));
    loop {
        let count = access.watches();
        match told(&etcd, (&group, &own), count, &mut written).await {
            Ok(others) => {
                let surplus = surplus(count, &others);
                if surplus > 0 {
                    let moved = access.move_watches(surplus).await;
                    tracing::info!(
                        watches = count,
                        replicas = others.len() + 1,
                        moved,
                        "this replica has more watches than its share; their clients come again"
                    );
                }
            }
            Err(error) if reminder.is_due() => {
                tracing::warn!(%error, key = %own, "watches are not shared out: etcd does not take or tell how many each replica has");
            }
            Err(_) => {}
        }
        sleep(POLL_EVERY).await;
    }
}

/// Writes how many we have, and reads how many the others have.
async fn told(etcd: &Etcd, (group, own): (&str, &str), count: usize, written: &mut Option<Revision>) -> Result<Vec<usize>, EtcdError> {
    let lease = etcd.grant_lease(LEASE_SECONDS).await?;
    let value = Bytes::from(count.to_string());
    match etcd.put_if(Bytes::from(own.to_owned()), value, *written, lease).await? {
        Outcome::Written(revision) => *written = Some(revision),
        // Our lease had run out, or an answer was lost: the next look writes.
        Outcome::Changed(found) => *written = found.map(|found| found.mod_revision),
    }
    let range = RangeRequest {
        key: format!("{KEYS}/{group}/").into_bytes(),
        end: format!("{KEYS}/{group}0").into_bytes(),
        limit: REPLICAS_MAX,
        ..RangeRequest::default()
    };
    let found = etcd.range(range).await?.kvs.into_iter().filter(|kv| kv.key != own.as_bytes());
    Ok(found.filter_map(|kv| std::str::from_utf8(&kv.value).ok()?.parse().ok()).collect())
}

/// How many watches should go elsewhere now.
fn surplus(own: usize, others: &[usize]) -> usize {
    let replicas = others.len() + 1;
    let rebalance = others.iter().fold(own, |all, count| all.saturating_add(*count)).div_ceil(replicas);
    if own <= rebalance + rebalance / SLACK_PART + SLACK {
        return 0;
    }
    (own - rebalance).min((own / MOVED_PART).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_his_share_moves_nothing() {
        for (own, others) in
            [(0, &[][..]), (1_000, &[]), (1_000, &[1_000, 1_000]), (1_020, &[1_000, 980]), (3, &[0]), (0, &[500]), (5, &[1, 1])]
        {
            assert_eq!(surplus(own, others), 0, "{own} {others:?}");
        }
        assert_eq!(surplus(1_500, &[1_500, 0]), 150);
        assert_eq!(surplus(1_060, &[1_000, 940]), 60);
        assert_eq!(surplus(8, &[0]), 1);
        assert_eq!(surplus(5, &[usize::MAX, usize::MAX]), 0, "a number that nobody can have");
    }

    /// Clients that have moved come to the replica with the fewest, as a balancer sends them, or to any.
    #[test]
    fn two_minutes_make_them_even() {
        let mut watches = [1_500, 1_500, 0];
        for _ in 0..24 {
            let moved: Vec<usize> = (0..3).map(|n| surplus(watches[n], &[watches[(n + 1) % 3], watches[(n + 2) % 3]])).collect();
            for (n, moved) in moved.into_iter().enumerate() {
                watches[n] -= moved;
                // One in three comes back.
                (0..moved).for_each(|client| watches[(n + client) % 3] += 1);
            }
        }
        assert!(watches.iter().all(|count| (900..=1_100).contains(count)) && watches.iter().sum::<usize>() == 3_000, "{watches:?}");
    }
}
