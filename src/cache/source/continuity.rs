//! The continuity check: is this still the same etcd? Only its content shows that, once its revisions have passed ours.

use bytes::Bytes;

use etcd::{Etcd, EtcdError, RangeAnswer, RangeRequest};
use model::{KeyChange, Revision};

/// Whether etcd still has the last change that came from it where it was: then it has the past that we know. No when nobody can tell any more: then
/// loading is safe.
///
/// # Errors
/// When etcd cannot be read.
pub async fn stands(change: &KeyChange, etcd: &Etcd) -> Result<bool, EtcdError> {
    let stands = match &change.value {
        Some(value) => put_stands(change, value, etcd).await,
        None => deletion_stands(change, etcd).await,
    };
    match stands {
        Err(EtcdError::Compacted | EtcdError::Future) => Ok(false),
        other => other,
    }
}

async fn put_stands(change: &KeyChange, value: &Bytes, etcd: &Etcd) -> Result<bool, EtcdError> {
    let answer = match read(change, Some(change.revision), etcd).await {
        // If the key has not changed since, its newest value tells as much.
        Err(EtcdError::Compacted) => read(change, None, etcd).await?,
        other => other?,
    };
    Ok(answer.kvs.first().is_some_and(|kv| kv.mod_revision == change.revision && kv.value == *value))
}

/// That the key is not there says little: in another past it may never have been. It was there until then.
async fn deletion_stands(change: &KeyChange, etcd: &Etcd) -> Result<bool, EtcdError> {
    let before = read(change, Some(change.revision.before()), etcd).await?;
    let after = read(change, Some(change.revision), etcd).await?;
    Ok(!before.kvs.is_empty() && after.kvs.is_empty())
}

async fn read(change: &KeyChange, revision: Option<Revision>, etcd: &Etcd) -> Result<RangeAnswer, EtcdError> {
    etcd.range(RangeRequest { key: change.key.to_vec(), revision, ..RangeRequest::default() }).await
}

#[cfg(test)]
mod tests {
    use proto::testing::Client;
    use redb::backends::InMemoryBackend;

    use super::*;
    use store::{Store, StoreConfig};

    /// An etcd with one past: `=key value` puts, `-key` deletes, each at the next revision, the first at 2.
    async fn etcd(past: &[&str]) -> (Store, Etcd) {
        let store = Store::open_on(InMemoryBackend::new(), StoreConfig::default()).expect("memory holds");
        let mut client = Client::new(store.channel());
        for change in past {
            match (change.split_at(1), change[1..].split_once(' ')) {
                (("=", _), Some((key, value))) => drop(client.put((key, value)).await.expect("put")),
                ((_, key), _) => drop(client.delete(key).await.expect("deleted")),
            }
        }
        let etcd = Etcd::embedded(store.channel());
        (store, etcd)
    }

    fn last_change(key: &str, revision: u64, value: Option<&str>) -> KeyChange {
        KeyChange {
            key: Bytes::copy_from_slice(key.as_bytes()),
            revision: Revision(revision),
            value: value.map(|v| Bytes::copy_from_slice(v.as_bytes())),
        }
    }

    #[tokio::test]
    async fn a_put_stands_where_it_was() {
        let (_store, etcd) = etcd(&["=a 1", "=a 2", "=b 1"]).await;
        for (known, want) in [
            (last_change("a", 2, Some("1")), true),
            (last_change("a", 3, Some("2")), true),
            (last_change("a", 3, Some("1")), false),
            (last_change("a", 4, Some("2")), false),
            (last_change("c", 4, Some("1")), false),
            (last_change("b", 5, Some("1")), false),
        ] {
            assert_eq!(stands(&known, &etcd).await, Ok(want), "{known:?}");
        }
    }

    #[tokio::test]
    async fn a_deletion_stands_only_where_the_key_was_until_then() {
        let (_store, etcd) = etcd(&["=a 1", "=b 1", "-a", "=b 2", "=b 3"]).await;
        for (known, want) in [
            (last_change("a", 4, None), true),
            (last_change("a", 3, None), false),
            (last_change("a", 5, None), false),
            // Another past never had the key: not there proves nothing.
            (last_change("c", 5, None), false),
            (last_change("b", 5, None), false),
            (last_change("a", 7, None), false),
        ] {
            assert_eq!(stands(&known, &etcd).await, Ok(want), "{known:?}");
        }
    }

    #[tokio::test]
    async fn what_is_compacted_stands_only_if_the_newest_value_tells() {
        let (_store, etcd) = etcd(&["=a 1", "=b 1", "-b", "=c 1", "=c 2"]).await;
        etcd.compact(Revision(5)).await.expect("done");
        assert_eq!(stands(&last_change("a", 2, Some("1")), &etcd).await, Ok(true));
        assert_eq!(stands(&last_change("a", 3, Some("1")), &etcd).await, Ok(false));
        assert_eq!(stands(&last_change("b", 4, None), &etcd).await, Ok(false));
    }
}
