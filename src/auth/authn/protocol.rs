//! A bearer token among the subprotocols of a WebSocket handshake, the one header of it that a page in a browser may fill (spec list-watch §4.10). Knows
//! no handshake.

use base64::Engine;
use http::{HeaderMap, HeaderValue, header::SEC_WEBSOCKET_PROTOCOL};

use super::RAW_URL;

const PREFIX: &[u8] = b"base64url.bearer.authorization.k8s.io.";

/// A token, and what is left of the header without it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) token: Vec<u8>,
    pub(super) others: HeaderValue,
}

/// A token that is not to be read, or is there twice, or without another subprotocol that the answer could name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unusable;

/// The token that these headers offer, if they do. An empty one is none.
pub(super) fn offered(headers: &HeaderMap) -> Result<Option<Offer>, Unusable> {
    let (mut token, mut others) = (None, Vec::new());
    for protocol in headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b',')) {
        let protocol = protocol.trim_ascii();
        match protocol.strip_prefix(PREFIX) {
            None => others.push(protocol),
            Some(_) if token.is_some() => return Err(Unusable),
            Some(encoded) => {
                let decoded = RAW_URL.decode(encoded).ok().filter(|token| std::str::from_utf8(token).is_ok());
                token = Some(decoded.ok_or(Unusable)?);
            }
        }
    }
    match token.filter(|token| !token.is_empty()) {
        None => Ok(None),
        Some(_) if others.is_empty() => Err(Unusable),
        Some(token) => {
            let others = HeaderValue::from_bytes(&others.join(&b","[..])).expect("parts of a header's value are one");
            Ok(Some(Offer { token, others }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(values: &[&str]) -> Result<Option<(String, String)>, Unusable> {
        let values = values.iter().map(|value| HeaderValue::from_str(&value.replace('@', "base64url.bearer.authorization.k8s.io.")));
        let headers = values.map(|value| (SEC_WEBSOCKET_PROTOCOL, value.expect("a value"))).collect();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
        super::offered(&headers).map(|offer| offer.map(|Offer { token, others }| (text(&token), text(others.as_bytes()))))
    }

    #[test]
    fn a_token_is_taken_out_from_among_others() {
        let found = |others: &str| Ok(Some(("adm".to_owned(), others.to_owned())));
        assert_eq!(offered(&["@YWRt, v1"]), found("v1"));
        assert_eq!(offered(&["v1,@YWRt , v2"]), found("v1,v2"));
        assert_eq!(offered(&["v1", "@YWRt", "v2"]), found("v1,v2"));
        assert_eq!(offered(&["@YWRt,"]), found(""));
        assert_eq!(offered(&["@YR,v1"]), Ok(Some(("a".into(), "v1".into()))), "spare bits");
    }

    #[test]
    fn none_is_offered_or_none_that_can_be_used() {
        for none in [&[][..], &["v1"], &["@, v1"], &["@"], &["base64url.bearer, v1"]] {
            assert_eq!(offered(none), Ok(None), "{none:?}");
        }
        for unusable in ["@YWRt", "@YWRt=,v1", "@YW+t,v1", "@YWRt,@YWRt,v1", "@,@YWRt,v1", "@_w,v1"] {
            assert_eq!(offered(&[unusable]), Err(Unusable), "{unusable}");
        }
    }
}
