//! Which headers of a request go on to upstream, and which of its answer come back. What concerns one connection stays there (RFC 9110 §7.6.1); what names a
//! user is taken out of what clients send. Pure.

use http::header::{
    AUTHORIZATION, CONNECTION, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, VIA,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::trusted::{Trusted, folded};

const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Only the next server on the way is told these.
const HOP_BY_HOP: [HeaderName; 9] =
    [CONNECTION, HTTP2_SETTINGS, KEEP_ALIVE, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, PROXY_CONNECTION, TE, TRANSFER_ENCODING, UPGRADE];

/// Names a user to a kube-apiserver that trusts us as its front proxy and has the usual flags. [`Trusted`] has others.
const IDENTITY_PREFIX: &str = "x-remote-";
/// What names another user than who asks.
const IMPERSONATION_PREFIX: &str = "impersonate-";

/// This process, as `Via` names it. Every process has a name of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopMarker(HeaderValue);

impl LoopMarker {
    /// Of a name without spaces.
    ///
    /// # Panics
    /// When the name has characters that no header may have.
    #[must_use]
    pub fn named(name: &str) -> LoopMarker {
        LoopMarker(HeaderValue::from_str(&format!("1.1 watchcache-{name}")).expect("a name of letters and digits"))
    }

    /// Whether this request was here before: upstream is ourselves.
    #[must_use]
    pub fn was_here(&self, headers: &HeaderMap) -> bool {
        let ours = self.0.as_bytes();
        headers.get_all(VIA).iter().flat_map(|via| via.as_bytes().split(|byte| *byte == b',')).any(|marker| marker.trim_ascii() == ours)
    }
}

/// Protocols that no connection is changed to: whoever speaks one of them then would speak past us.
const NEVER: [&[u8]; 3] = [b"h2c", b"h2", b"http"];

/// The protocols that a request asks its connection to change to, `websocket` or `SPDY/3.1`, but for versions of HTTP.
#[must_use]
pub fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let asks = tokens(headers, &CONNECTION).any(|token| token.eq_ignore_ascii_case(b"upgrade"));
    let is_http = |protocol: &&[u8]| {
        let name = protocol.split(|byte| *byte == b'/').next().unwrap_or_default().trim_ascii();
        NEVER.iter().any(|never| name.eq_ignore_ascii_case(never))
    };
    let protocols: Vec<&[u8]> = tokens(headers, &UPGRADE).filter(|protocol| !protocol.is_empty() && !is_http(protocol)).collect();
    HeaderValue::from_bytes(&protocols.join(&b", "[..])).ok().filter(|_| asks && !protocols.is_empty())
}

/// The parts of a header that is a list, in however many lines.
fn tokens<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h [u8]> {
    headers.get_all(name).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
}

/// Makes the headers of a client's request those that upstream gets. Nobody is named in them any longer, in any header that upstream believes, but for whom the
/// client wants to act as when `keeps_impersonation`.
pub fn outward(headers: &mut HeaderMap, marker: &LoopMarker, client: &str, keeps_impersonation: bool, trusted: &Trusted) {
    let upgrade = upgrade(headers);
    let takes_trailers = headers.get_all(TE).iter().any(|te| te.as_bytes().to_ascii_lowercase().windows(8).any(|word| word == b"trailers"));
    one_hop_less(headers);
    headers.remove(HOST);
    headers.remove(AUTHORIZATION);
    headers.remove(TRAILER);
    let keeps = |name: &str| keeps_impersonation && name.starts_with(IMPERSONATION_PREFIX) && !name.contains('_');
    remove(headers, |name| !keeps(name) && names_somebody(name) || trusted.has(name));
    if takes_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    if let Some(upgrade) = upgrade {
        headers.insert(UPGRADE, upgrade);
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    }
    headers.append(VIA, marker.0.clone());
    // In one line: upstream reads the first one alone.
    let forwarded = headers.get_all(FORWARDED_FOR).iter().map(HeaderValue::as_bytes).chain([client.as_bytes()]);
    let forwarded: Vec<&[u8]> = forwarded.collect();
    if let Ok(forwarded) = HeaderValue::from_bytes(&forwarded.join(&b", "[..])) {
        headers.insert(FORWARDED_FOR, forwarded);
    }
}

/// Makes the headers of upstream's answer those that the client gets. With 101 those of the new protocol stay.
pub fn inward(headers: &mut HeaderMap, is_upgraded: bool) {
    let upgrade = headers.get(UPGRADE).cloned().filter(|_| is_upgraded);
    one_hop_less(headers);
    remove(headers, names_somebody);
    if let Some(upgrade) = upgrade {
        headers.insert(UPGRADE, upgrade);
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    }
}

/// Takes away what was for us alone: the known ones, and those that `Connection` names. Whom somebody wants to act as is no affair of a connection: without it
/// he would act as himself.
fn one_hop_less(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = tokens(headers, &CONNECTION).filter_map(|name| HeaderName::from_bytes(name).ok()).collect();
    for name in named.iter().filter(|name| !name.as_str().starts_with(IMPERSONATION_PREFIX)).chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// Whether a header names somebody to a kube-apiserver with the usual flags, or to one behind a server that takes `_` for `-`, as those do that make variables
/// of headers.
fn names_somebody(name: &str) -> bool {
    let name = folded(name);
    name.starts_with(IDENTITY_PREFIX) || name.starts_with(IMPERSONATION_PREFIX)
}

fn remove(headers: &mut HeaderMap, is_one: impl Fn(&str) -> bool) {
    let found: Vec<HeaderName> = headers.keys().filter(|name| is_one(name.as_str())).cloned().collect();
    for name in found {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CLIENT: &str = "10.1.2.3";

    fn of(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair =
            |(name, value): &(&str, &str)| (HeaderName::try_from(*name).expect("a name"), HeaderValue::from_str(value).expect("a value"));
        let mut headers = HeaderMap::new();
        pairs.iter().map(pair).for_each(|(name, value)| {
            headers.append(name, value);
        });
        headers
    }

    fn told(headers: &HeaderMap) -> Vec<(String, String)> {
        let mut all: Vec<_> =
            headers.iter().map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())).collect();
        all.sort();
        all
    }

    #[test]
    fn nobody_is_named_any_longer() {
        let mut headers = of(&[
            ("authorization", "Bearer a"),
            ("x-remote-user", "root"),
            ("x-remote-group", "system:masters"),
            ("x-remote-extra-a", "b"),
            ("x-remote-uid", "1"),
            ("impersonate-user", "jane"),
            ("impersonate-extra-a", "b"),
            ("accept", "application/json"),
            ("host", "here"),
            ("x-forwarded-for", "1.1.1.1"),
        ]);
        let mut kept = headers.clone();
        outward(&mut headers, &LoopMarker::named("x"), CLIENT, false, &Trusted::default());
        let names: Vec<String> = headers.keys().map(ToString::to_string).collect();
        assert!(names.iter().all(|name| ["accept", "via", "x-forwarded-for"].contains(&name.as_str())), "{names:?}");
        assert_eq!(headers.get_all("x-forwarded-for").iter().collect::<Vec<_>>(), ["1.1.1.1, 10.1.2.3"]);
        outward(&mut kept, &LoopMarker::named("x"), CLIENT, true, &Trusted::default());
        assert!(kept.contains_key("impersonate-user") && kept.contains_key("impersonate-extra-a") && !kept.contains_key("x-remote-user"));
    }

    #[test]
    fn what_concerns_the_connection_stays_there() {
        let mut headers = of(&[
            ("connection", "keep-alive, X-Mine"),
            ("x-mine", "1"),
            ("keep-alive", "5"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("te", "gzip, Trailers"),
            ("proxy-authorization", "x"),
            ("x-other", "1"),
        ]);
        let mut answer = headers.clone();
        outward(&mut headers, &LoopMarker::named("x"), CLIENT, false, &Trusted::default());
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            told(&headers),
            [pair("te", "trailers"), pair("via", "1.1 watchcache-x"), pair("x-forwarded-for", "10.1.2.3"), pair("x-other", "1")]
        );
        inward(&mut answer, false);
        assert_eq!(told(&answer), [pair("x-other", "1")]);
    }

    #[test]
    fn an_upgrade_that_is_asked_for_goes_along() {
        let h2c = of(&[("connection", "Upgrade, HTTP2-Settings"), ("upgrade", "h2c"), ("http2-settings", "x")]);
        assert_eq!(upgrade(&h2c), None);
        let mut acts = of(&[("connection", "Impersonate-User"), ("impersonate-user", "nobody")]);
        outward(&mut acts, &LoopMarker::named("x"), CLIENT, true, &Trusted::default());
        assert!(acts.contains_key("impersonate-user"), "he would act as himself");
        for (connection, goes) in [("Upgrade", true), ("keep-alive, upgrade", true), ("close", false), ("upgraded", false)] {
            let mut headers = of(&[("connection", connection), ("upgrade", "SPDY/3.1")]);
            assert_eq!(upgrade(&headers).is_some(), goes, "{connection}");
            outward(&mut headers, &LoopMarker::named("x"), CLIENT, false, &Trusted::default());
            assert_eq!(headers.get(UPGRADE).is_some(), goes, "{connection}");
            assert_eq!(headers.get(CONNECTION).is_some(), goes, "{connection}");
        }
        let answered = of(&[("connection", "Upgrade"), ("upgrade", "websocket"), ("sec-websocket-accept", "x")]);
        let (mut with, mut without) = (answered.clone(), answered);
        inward(&mut with, true);
        inward(&mut without, false);
        assert!(with.contains_key(UPGRADE) && with.contains_key(CONNECTION) && !without.contains_key(UPGRADE));
        assert!(with.contains_key("sec-websocket-accept"));
    }

    #[test]
    fn a_request_that_was_here_is_known() {
        let (ours, other) = (LoopMarker::named("a"), LoopMarker::named("b"));
        let mut headers = of(&[("via", "1.0 fred, 1.1 p.example.net")]);
        assert!(!ours.was_here(&headers));
        outward(&mut headers, &ours, CLIENT, false, &Trusted::default());
        assert!(ours.was_here(&headers) && !other.was_here(&headers));
        assert!(ours.was_here(&of(&[("via", "1.0 fred,1.1 watchcache-a")])) && !ours.was_here(&of(&[("via", "1.1 watchcache-ab")])));
    }

    #[test]
    fn no_server_takes_another_name_for_ours() {
        let mut headers = of(&[
            ("x_remote_user", "root"),
            ("x-remote_group", "system:masters"),
            ("Impersonate_User", "root"),
            ("impersonate-user", "jane"),
            ("accept", "a"),
        ]);
        outward(&mut headers, &LoopMarker::named("x"), CLIENT, true, &Trusted::default());
        let mut names: Vec<&str> =
            headers.keys().map(HeaderName::as_str).filter(|name| !["via", "x-forwarded-for"].contains(name)).collect();
        names.sort_unstable();
        assert_eq!(names, ["accept", "impersonate-user"]);
    }

    #[test]
    fn no_connection_is_changed_to_another_version_of_http() {
        for (asked, goes) in [
            ("foo, h2c", Some("foo")),
            ("h2c, websocket", Some("websocket")),
            ("H2C", None),
            ("HTTP/2.0", None),
            ("h2, http/3 ,", None),
            ("SPDY/3.1", Some("SPDY/3.1")),
        ] {
            let mut headers = of(&[("connection", "upgrade"), ("upgrade", asked)]);
            outward(&mut headers, &LoopMarker::named("x"), CLIENT, false, &Trusted::default());
            assert_eq!(headers.get(UPGRADE).map(|value| value.to_str().expect("text")), goes, "{asked}");
        }
        let lines = of(&[("connection", "upgrade"), ("upgrade", "foo"), ("upgrade", "h2c")]);
        assert_eq!(upgrade(&lines), Some(HeaderValue::from_static("foo")));
    }

    proptest! {
        /// Whatever a client sends, nobody is named in what goes on.
        #[test]
        fn no_headers_name_anybody(pairs in prop::collection::vec(("(x[-_]remote[-_]|X[-_]Remote[-_]|impersonate[-_]|Impersonate[-_]|connection|Authorization|te|x-)[a-zA-Z%_-]{0,8}", "[ -~]{0,24}"), 0..12)) {
            let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let mut headers = of(&pairs);
            outward(&mut headers, &LoopMarker::named("x"), CLIENT, false, &Trusted::default());
            for name in headers.keys() {
                let folded = name.as_str().replace('_', "-");
                prop_assert!(!folded.starts_with("x-remote-") && !folded.starts_with("impersonate-") && name != AUTHORIZATION);
            }
        }
    }
}
