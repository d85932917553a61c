//! The `Authorization` header that we send: a token, one from a file that others renew, or a name and a password.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long a token of a file is sent before the file is read again. client-go waits a minute; a token that was replaced because it leaked should go sooner.
const REREAD: Duration = Duration::from_secs(10);
/// Bytes that are read of a token file.
const TOKEN_BYTES_MAX: usize = 64 << 10;

/// See the file's header.
#[derive(Clone)]
pub(crate) enum Credentials {
    None,
    Fixed(HeaderValue),
    TokenFile(PathBuf),
}

/// Without the secret.
impl fmt::Debug for Credentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Credentials::None => out.write_str("None"),
            Credentials::Fixed(_) => out.write_str("Fixed"),
            Credentials::TokenFile(path) => out.debug_tuple("TokenFile").field(path).finish(),
        }
    }
}

impl Credentials {
    pub(crate) fn token(token: &str) -> Result<Credentials, String> {
        bearer(token).map(Credentials::Fixed)
    }

    pub(crate) fn basic(name: &str, password: &str) -> Result<Credentials, String> {
        header(&format!("Basic {}", BASE64_STANDARD.encode(format!("{name}:{password}")))).map(Credentials::Fixed)
    }
}

fn bearer(token: &str) -> Result<HeaderValue, String> {
    header(&format!("Bearer {token}"))
}

fn header(text: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(text).map_err(|_| "the token has characters that no header may have".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// The header of one file's token, read once in a while.
#[derive(Debug, Default)]
pub(crate) struct Renewed {
    last: Mutex<Option<(HeaderValue, Instant)>>,
}

impl Renewed {
    /// The header to send now, if one is to be sent. A file that cannot be read leaves the token as it was.
    pub(crate) async fn header(&self, credentials: &Credentials) -> Result<Option<HeaderValue>, String> {
        let path = match credentials {
            Credentials::None => return Ok(None),
            Credentials::Fixed(value) => return Ok(Some(value.clone())),
            Credentials::TokenFile(path) => path,
        };
        let mut last = self.last.lock().await;
        if let Some((value, at)) = &*last
            && at.elapsed() < REREAD
        {
            return Ok(Some(value.clone()));
        }
        let read = match tokio::fs::read(path).await {
            Ok(bytes) => token_of(&bytes),
            Err(error) => Err(error.to_string()),
        };
        match (read.and_then(|token| bearer(&token)), last.take()) {
            (Ok(value), _) => {
                *last = Some((value.clone(), Instant::now()));
                Ok(Some(value))
            }
            (Err(why), Some((value, _))) => {
                tracing::warn!(path = %path.display(), %why, "the token file cannot be read; its last token is sent on");
                *last = Some((value.clone(), Instant::now()));
                Ok(Some(value))
            }
            (Err(why), None) => Err(format!("tokenFile {}: {why}", path.display())),
        }
    }
}

/// The `Authorization` header of one server, as it is to be sent now.
#[derive(Debug)]
pub struct Authorization {
    credentials: Credentials,
    renewed: Renewed,
}

impl Authorization {
    pub(crate) fn of(credentials: Credentials) -> Authorization {
        Authorization { credentials, renewed: Renewed::default() }
    }

    /// The header; none when there are no credentials but perhaps a certificate.
    ///
    /// # Errors
    /// A token file that could never be read.
    pub async fn header(&self) -> Result<Option<HeaderValue>, String> {
        self.renewed.header(&self.credentials).await
    }
}

/// The token of a file, without the space around it.
pub(crate) fn token_of(bytes: &[u8]) -> Result<String, String> {
    if bytes.len() > TOKEN_BYTES_MAX {
        return Err(format!("more than {TOKEN_BYTES_MAX} bytes"));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "not a text".to_owned())?.trim();
    if text.is_empty() { Err("read empty token".to_owned()) } else { Ok(text.to_owned()) }
}
