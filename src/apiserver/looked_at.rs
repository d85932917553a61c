//! Which headers of a request this server looks at.

use http::{
    HeaderName,
    header::{
        ACCEPT, ACCEPT_ENCODING, ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, CONNECTION,
        CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, IF_NONE_MATCH, ORIGIN, TRANSFER_ENCODING, UPGRADE, USER_AGENT, VIA,
    },
};

use super::respond::AUDIT_ID;

/// Returns whether a header is looked at here, whatever the flags say. Other servers may look at more.
pub(super) fn is_looked_at(name: &HeaderName) -> bool {
    let known = [
        ACCEPT,
        ACCEPT_ENCODING,
        ACCESS_CONTROL_REQUEST_HEADERS,
        ACCESS_CONTROL_REQUEST_METHOD,
        AUDIT_ID,
        AUTHORIZATION,
        CONNECTION,
        CONTENT_ENCODING,
        CONTENT_LENGTH,
        CONTENT_TYPE,
        EXPECT,
        HOST,
        IF_NONE_MATCH,
        ORIGIN,
        TRANSFER_ENCODING,
        UPGRADE,
        USER_AGENT,
        VIA,
    ];
    let more = ["x-forwarded-for", "x-real-ip", "sec-fetch-site"];
    known.contains(name)
        || more.contains(&name.as_str())
        || ["impersonate-", "sec-websocket-"].iter().any(|prefix| name.as_str().starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use http::header::{COOKIE, RANGE};

    use super::*;

    #[test]
    fn what_a_handler_reads_is_looked_at() {
        for name in
            ["impersonate-user", "impersonate-extra-x", "sec-websocket-key", "x-forwarded-for", "accept", "authorization", "audit-id"]
        {
            assert!(is_looked_at(&HeaderName::from_static(name)), "{name}");
        }
        assert!(!is_looked_at(&COOKIE) && !is_looked_at(&RANGE));
    }
}
