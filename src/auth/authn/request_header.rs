//! A front proxy names the user: `X-Remote-User` and the other headers. The caller has verified the certificate of the proxy.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;

use crate::user::User;

/// Headers that kube-apiserver takes out of every request, whatever the flags say.
const STANDARD: [&str; 3] = ["x-remote-user", "x-remote-uid", "x-remote-group"];
const STANDARD_PREFIX: &str = "x-remote-extra-";

/// Which headers tell what: `--requestheader-…-headers`. Names in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHeaders {
    /// The first one with a value is the name.
    pub user: Vec<String>,
    /// The first one with a value is the uid.
    pub uid: Vec<String>,
    /// All values are groups.
    pub group: Vec<String>,
    /// What follows these is the key of a further fact.
    pub extra_prefix: Vec<String>,
}

impl RequestHeaders {
    /// The client, if a name is told.
    pub(super) fn user(&self, headers: &HeaderMap) -> Option<User> {
        let name = first(headers, &self.user).filter(|name| !name.is_empty())?;
        let groups = self.group.iter().filter_map(|name| HeaderName::try_from(name.as_str()).ok());
        let groups = groups.flat_map(|name| texts(headers, &name)).filter(|group| !group.is_empty());
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in &self.extra_prefix {
            for name in headers.keys() {
                if let Some(key) = name.as_str().strip_prefix(&prefix.to_ascii_lowercase()) {
                    extra.entry(extra_key(key)).or_default().extend(texts(headers, name));
                }
            }
        }
        let user =
            User { name, uid: first(headers, &self.uid).unwrap_or_default(), groups: groups.collect(), extra: extra.into_iter().collect() };
        Some(user.authenticated())
    }

    /// Takes all such headers away, so that nobody behind believes them.
    pub(super) fn clear(&self, headers: &mut HeaderMap) {
        let named = [&self.user, &self.uid, &self.group].into_iter().flatten().map(String::as_str);
        for name in named {
            headers.remove(name.to_ascii_lowercase());
        }
        let prefixes: Vec<String> = self.extra_prefix.iter().map(|prefix| prefix.to_ascii_lowercase()).collect();
        remove_prefixed(headers, |name| prefixes.iter().any(|prefix| name.starts_with(prefix)));
    }
}

/// Takes the headers with the usual names away.
pub(super) fn clear_standard(headers: &mut HeaderMap) {
    for name in STANDARD {
        headers.remove(name);
    }
    remove_prefixed(headers, |name| name.starts_with(STANDARD_PREFIX));
}

/// Takes headers away by their name.
pub(super) fn remove_prefixed(headers: &mut HeaderMap, is_one: impl Fn(&str) -> bool) {
    let found: Vec<HeaderName> = headers.keys().filter(|name| is_one(name.as_str())).cloned().collect();
    for name in found {
        headers.remove(name);
    }
}

/// The first value of each header; the first that is not empty.
fn first(headers: &HeaderMap, names: &[String]) -> Option<String> {
    let value = |name: &String| headers.get(name.to_ascii_lowercase()).map(|value| text(value.as_bytes()));
    names.iter().filter_map(value).find(|value| !value.is_empty())
}

/// All values of a header.
pub(super) fn texts<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = String> + use<'h> {
    headers.get_all(name).iter().map(|value| text(value.as_bytes()))
}

/// A header's value as text. Go takes any bytes; what is no UTF-8 could not be written into JSON anyway.
pub(super) fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

/// What stands behind a prefix, percent-decoded; as it is when it cannot be decoded.
pub(super) fn extra_key(name: &str) -> String {
    let bytes = name.as_bytes();
    let is_escape = |at: usize| bytes.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    if name.match_indices('%').all(|(at, _)| is_escape(at)) {
        percent_decode_str(name).decode_utf8_lossy().into_owned()
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn standard() -> RequestHeaders {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        RequestHeaders {
            user: names(&["X-Remote-User", "X-Other-User"]),
            uid: names(&["X-Remote-Uid"]),
            group: names(&["X-Remote-Group"]),
            extra_prefix: names(&["X-Remote-Extra-"]),
        }
    }

    #[test]
    fn all_such_headers_are_taken_away() {
        let names =
            ["x-remote-user", "x-other-user", "x-remote-uid", "x-remote-group", "x-remote-extra-a", "x-remote-extra-", "x-remote-other"];
        let mut headers: HeaderMap = names.into_iter().map(|name| (HeaderName::from_static(name), HeaderValue::from_static("a"))).collect();
        let mut others = headers.clone();
        standard().clear(&mut headers);
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["x-remote-other"]);
        clear_standard(&mut others);
        assert_eq!(others.len(), 2);
    }

    #[test]
    fn keys_are_decoded_as_go_decodes_them() {
        for (name, key) in [("a%2fb", "a/b"), ("a%zz", "a%zz"), ("a%2", "a%2"), ("%", "%"), ("a+b", "a+b"), ("%41%61", "Aa"), ("", "")] {
            assert_eq!(extra_key(name), key, "{name}");
        }
    }

    #[test]
    fn odd_names_of_headers_match_nothing() {
        let odd = RequestHeaders { user: vec!["a b".to_owned()], group: vec!["ä".to_owned()], ..RequestHeaders::default() };
        assert_eq!(odd.user(&HeaderMap::new()), None);
        odd.clear(&mut HeaderMap::new());
    }

    proptest! {
        #[test]
        fn never_panics(key in "[a-z0-9%-]{0,20}", value in prop::collection::vec(0x20..=0xff_u8, 0..10)) {
            let mut headers = HeaderMap::new();
            headers.insert("x-remote-user", HeaderValue::from_static("bob"));
            let value = HeaderValue::from_bytes(&value);
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(format!("x-remote-extra-{key}")), value) {
                headers.insert(name, value);
            }
            prop_assert!(standard().user(&headers).is_some());
        }
    }
}
