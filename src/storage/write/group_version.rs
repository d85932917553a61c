//! `apiVersion`, taken apart.

/// Group and version of an `apiVersion`.
pub(crate) fn split(api_version: &str) -> Option<(String, String)> {
    if matches!(api_version, "" | "/") {
        return Some((String::new(), String::new()));
    }
    let mut parts = api_version.split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(version), None, None) => Some((String::new(), version.to_owned())),
        (Some(group), Some(version), None) => Some((group.to_owned(), version.to_owned())),
        _ => None,
    }
}
