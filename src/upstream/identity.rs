//! Names the client to upstream. A request is never proxied as ourselves: a client has upstream the rights that it has here. Pure.

use auth::User;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use thiserror::Error;

/// How a request to upstream is authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthMode {
    /// We are its front proxy: it believes `X-Remote-…` beside our certificate. What the client wants to impersonate goes along, and upstream judges it.
    FrontProxy,
    /// We act as the client, with credentials of ours that may. Whom the client impersonates was judged here.
    Impersonation,
    /// The client's own token; it is nobody without one.
    OwnToken,
}

/// A user with a name, group or fact that no header can carry: with a newline, say. Without a name the headers would name nobody, and our certificate would
/// count.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("this user's name, groups or extra cannot be told to the API server behind this one")]
pub struct UnencodableUser;

/// The headers of one mode.
struct Names {
    user: HeaderName,
    uid: HeaderName,
    group: HeaderName,
    extra: &'static str,
}

/// What stands in a header's name unescaped: Go's `headerKeyEscape`, RFC 7230 tokens without `%`.
const TOKEN: AsciiSet = NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'*')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

impl AuthMode {
    /// Whether whom the client wants to act as is for upstream to judge.
    #[must_use]
    pub fn keeps_impersonation(self) -> bool {
        self != AuthMode::Impersonation
    }

    /// Names the user in headers that name nobody. `token` is what the client itself sent as `Authorization`.
    ///
    /// # Errors
    /// A user whom headers cannot name.
    pub fn name(self, user: &User, token: Option<&HeaderValue>, headers: &mut HeaderMap) -> Result<(), UnencodableUser> {
        let names = match self {
            AuthMode::OwnToken => {
                token.map(|token| headers.insert(AUTHORIZATION, token.clone()));
                return Ok(());
            }
            AuthMode::FrontProxy => Names {
                user: HeaderName::from_static("x-remote-user"),
                uid: HeaderName::from_static("x-remote-uid"),
                group: HeaderName::from_static("x-remote-group"),
                extra: "x-remote-extra-",
            },
            AuthMode::Impersonation => Names {
                user: HeaderName::from_static("impersonate-user"),
                uid: HeaderName::from_static("impersonate-uid"),
                group: HeaderName::from_static("impersonate-group"),
                extra: "impersonate-extra-",
            },
        };
        if user.name.is_empty() {
            return Err(UnencodableUser);
        }
        headers.insert(names.user, value(&user.name)?);
        if !user.uid.is_empty() {
            headers.insert(names.uid, value(&user.uid)?);
        }
        for group in &user.groups {
            headers.append(&names.group, value(group)?);
        }
        for (key, values) in &user.extra {
            let escaped = percent_encode(key.as_bytes(), &TOKEN);
            let name = HeaderName::try_from(format!("{}{escaped}", names.extra)).map_err(|_| UnencodableUser)?;
            for text in values {
                headers.append(&name, value(text)?);
            }
        }
        Ok(())
    }
}

/// Header values lose spaces at their ends on the way, which would name somebody else.
fn value(text: &str) -> Result<HeaderValue, UnencodableUser> {
    if text.trim_matches([' ', '\t']) != text {
        return Err(UnencodableUser);
    }
    HeaderValue::from_str(text).map_err(|_| UnencodableUser)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jane() -> User {
        User {
            name: "jané".to_owned(),
            uid: "1".to_owned(),
            groups: vec!["a".to_owned(), "system:authenticated".to_owned()],
            extra: vec![("example.org/Scopes".to_owned(), vec!["x".to_owned(), "y".to_owned()])],
        }
    }

    fn told(auth_mode: AuthMode, token: Option<&str>) -> Vec<String> {
        let token = token.map(|token| HeaderValue::from_str(token).expect("a value"));
        let mut headers = HeaderMap::new();
        auth_mode.name(&jane(), token.as_ref(), &mut headers).expect("speakable");
        let mut all: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value.as_bytes()))).collect();
        all.sort();
        all
    }

    #[test]
    fn a_front_proxy_names_everything() {
        let wanted = [
            "x-remote-extra-example.org%2fscopes=x",
            "x-remote-extra-example.org%2fscopes=y",
            "x-remote-group=a",
            "x-remote-group=system:authenticated",
            "x-remote-uid=1",
            "x-remote-user=jané",
        ];
        assert_eq!(told(AuthMode::FrontProxy, Some("Bearer a")), wanted);
        let impersonated: Vec<String> = wanted.iter().map(|line| line.replace("x-remote", "impersonate")).collect();
        assert_eq!(told(AuthMode::Impersonation, Some("Bearer a")), impersonated);
    }

    #[test]
    fn a_token_goes_along_only_by_itself() {
        assert_eq!(told(AuthMode::OwnToken, Some("Bearer a")), ["authorization=Bearer a"]);
        assert!(told(AuthMode::OwnToken, None).is_empty());
    }

    #[test]
    fn who_cannot_be_named_is_not_sent_as_somebody_else() {
        for name in ["", "a\nb", "a\r", "\0", " a", "a\t"] {
            let user = User { name: name.to_owned(), ..User::default() };
            assert_eq!(AuthMode::FrontProxy.name(&user, None, &mut HeaderMap::new()), Err(UnencodableUser), "{name:?}");
            if name.is_empty() {
                continue;
            }
            let grouped = User { name: "a".to_owned(), groups: vec![name.to_owned()], ..User::default() };
            assert_eq!(AuthMode::Impersonation.name(&grouped, None, &mut HeaderMap::new()), Err(UnencodableUser), "{name:?}");
        }
    }
}
