//! Compacts etcd's history, by the protocol with which API servers take turns (spec list-watch §10).

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;

use etcd::{Etcd, EtcdError, Versioned};
use model::Revision;

/// At etcd's root, not under the prefix.
const KEY: &[u8] = b"compact_rev_key";

/// What one compactor remembers from round to round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Round {
    /// How often the key was written, as far as we know.
    version: i64,
    /// etcd's revision one interval ago: what the next round may forget.
    remembered: Option<Revision>,
}

impl Round {
    /// The next round after etcd's answer: what we remember then, and what etcd should forget now.
    fn next(self, revision: Revision, outcome: &Result<(), Versioned>) -> (Self, Option<Revision>) {
        match outcome {
            Ok(()) => (Self { version: self.version + 1, remembered: Some(revision) }, self.remembered),
            Err(found) => (Self { version: found.version, remembered: Some(revision) }, None),
        }
    }
}

/// Compacts each etcd by itself, for each has revisions of its own.
pub(super) async fn run_all(etcd: &Etcd, apart: &[Etcd], interval: Duration) {
    join_all(std::iter::once(etcd).chain(apart).map(|etcd| run(etcd, interval))).await;
}

/// One round every interval; none ever when it is zero.
async fn run(etcd: &Etcd, interval: Duration) {
    if interval.is_zero() {
        return;
    }
    let mut round = Round::default();
    loop {
        tokio::time::sleep(interval).await;
        match turn(etcd, round).await {
            Ok(next) => round = next,
            Err(error) => tracing::warn!(%error, "compaction round failed; the next one tries again"),
        }
    }
}

async fn turn(etcd: &Etcd, round: Round) -> Result<Round, EtcdError> {
    let value = Bytes::from(round.remembered.unwrap_or_default().0.to_string());
    let (revision, outcome) = etcd.put_if_version(Bytes::from_static(KEY), value, round.version).await?;
    let (next, forget) = round.next(revision, &outcome);
    if let Some(forget) = forget {
        match etcd.compact(forget).await {
            // Somebody else may have gone further.
            Ok(()) | Err(EtcdError::Compacted) => tracing::info!(revision = %forget, "etcd compacted"),
            Err(error) => tracing::warn!(%error, revision = %forget, "etcd was not compacted"),
        }
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_winner_forgets_what_it_remembered_one_round_ago() {
        let (first, forget) = Round::default().next(Revision(100), &Ok(()));
        assert_eq!((first, forget), (Round { version: 1, remembered: Some(Revision(100)) }, None));
        let (second, forget) = first.next(Revision(200), &Ok(()));
        assert_eq!((second, forget), (Round { version: 2, remembered: Some(Revision(200)) }, Some(Revision(100))));
    }

    #[test]
    fn the_loser_learns_the_version_and_forgets_nothing() {
        let found = Versioned { version: 7, value: Bytes::from_static(b"90") };
        let (next, forget) = Round { version: 3, remembered: Some(Revision(50)) }.next(Revision(120), &Err(found));
        assert_eq!((next, forget), (Round { version: 7, remembered: Some(Revision(120)) }, None));
    }
}
