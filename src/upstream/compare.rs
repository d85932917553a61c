//! Whether a resource in memory is what upstream has: the revision and the count of one LIST of upstream, and the same of the etcd here. Pure.

use serde::Deserialize;

/// What a LIST with `limit=1` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// `metadata.resourceVersion`.
    pub revision: u64,
    /// How many objects there were at this revision.
    pub count: u64,
}

#[derive(Deserialize)]
struct List {
    metadata: Metadata,
    #[serde(default)]
    items: Option<Vec<serde::de::IgnoredAny>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
    #[serde(default)]
    remaining_item_count: u64,
    #[serde(default, rename = "continue")]
    goes_on: String,
}

impl Listed {
    /// Reads the answer.
    ///
    /// # Errors
    /// It is no list, or does not tell how long it is.
    pub fn read(body: &[u8]) -> Result<Self, String> {
        let list: List = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let Metadata { resource_version, remaining_item_count, goes_on } = list.metadata;
        if !goes_on.is_empty() && remaining_item_count == 0 {
            return Err("it does not tell how many objects there are".to_owned());
        }
        let revision = resource_version.parse().map_err(|_| format!("its resourceVersion is {resource_version:?}"))?;
        Ok(Self { revision, count: list.items.map_or(0, |items| items.len() as u64) + remaining_item_count })
    }
}

/// The uid of the first object of a list.
#[must_use]
pub fn first_uid(body: &[u8]) -> Option<String> {
    let list: serde_json::Value = serde_json::from_slice(body).ok()?;
    Some(list["items"][0]["metadata"]["uid"].as_str()?.to_owned())
}

/// Whether upstream's LIST was of this etcd: its revision lies between those that this etcd had before and after it.
///
/// # Errors
/// Why not, for people.
pub fn is_of_this_etcd(before: u64, listed: u64, after: u64) -> Result<(), String> {
    if (before..=after).contains(&listed) {
        return Ok(());
    }
    Err(format!("upstream answers at revision {listed}, and this etcd was at {before} before and at {after} after: it is in another etcd"))
}

/// Whether there are as many objects here as there.
///
/// # Errors
/// Why not, for people.
pub fn is_whole(listed: Listed, ours: u64) -> Result<(), String> {
    let Listed { revision, count } = listed;
    if ours == count { Ok(()) } else { Err(format!("upstream has {count} objects at revision {revision}, and this etcd has {ours}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_tells_its_revision_and_its_length() {
        let read = |text: &str| Listed::read(text.as_bytes());
        assert_eq!(read(r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#), Ok(Listed { revision: 7, count: 0 }));
        assert_eq!(read(r#"{"metadata":{"resourceVersion":"7"},"items":null}"#), Ok(Listed { revision: 7, count: 0 }));
        assert_eq!(read(r#"{"metadata":{"resourceVersion":"7"},"items":[{"a":1}]}"#), Ok(Listed { revision: 7, count: 1 }));
        let long = r#"{"metadata":{"resourceVersion":"7","continue":"x","remainingItemCount":41},"items":[{}]}"#;
        assert_eq!(read(long), Ok(Listed { revision: 7, count: 42 }));
        assert_eq!(first_uid(br#"{"items":[{"metadata":{"uid":"u"}}]}"#), Some("u".to_owned()));
        assert_eq!((first_uid(br#"{"items":[]}"#), first_uid(b"no")), (None, None));
        for wrong in
            [r#"{"metadata":{"resourceVersion":"7","continue":"x"},"items":[{}]}"#, r#"{"metadata":{"resourceVersion":""}}"#, "{}", "no"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn another_etcd_is_at_another_revision() {
        assert!(is_of_this_etcd(5, 5, 5).is_ok() && is_of_this_etcd(5, 6, 9).is_ok() && is_of_this_etcd(5, 9, 9).is_ok());
        for listed in [4, 10] {
            assert!(is_of_this_etcd(5, listed, 9).is_err_and(|why| why.contains(&listed.to_string())));
        }
        assert!(is_whole(Listed { revision: 5, count: 3 }, 3).is_ok());
        assert!(is_whole(Listed { revision: 5, count: 3 }, 0).is_err_and(|why| why.contains('3') && why.contains('0')));
    }
}
