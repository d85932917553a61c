//! Who we are at a server, as requests say it: a token, one from a file that others renew or from a plugin, a name and a password,
//! and whom we act as.

mod child;
mod issued;
mod plugin;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::header::{AUTHORIZATION, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

pub(crate) use self::issued::{Issued, PluginVersion};
pub(crate) use self::plugin::{Plugin, PluginCommand, PluginSpec};

/// How long a token of a file is sent before the file is read again. client-go waits a minute; a token that was replaced because it
/// leaked should go sooner.
const REREAD: Duration = Duration::from_secs(10);
/// How soon it is read again when the server has refused the token.
const REREAD_REFUSED: Duration = Duration::from_secs(1);
/// What has changed is read again after this time: it counts when it has not changed since.
const AT_REST: Duration = Duration::from_millis(50);
/// Bytes that are read of a token file.
const TOKEN_BYTES_MAX: usize = 64 << 10;

/// See the file's header.
#[derive(Clone)]
pub(crate) enum Credentials {
    None,
    Fixed(HeaderValue),
    /// What is sent when the file cannot be read.
    TokenFile(PathBuf, Option<HeaderValue>),
    Plugin(Arc<Plugin>),
}

/// Without the secret.
impl fmt::Debug for Credentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Credentials::None => out.write_str("None"),
            Credentials::Fixed(_) => out.write_str("Fixed"),
            Credentials::TokenFile(path, _) => out.debug_tuple("TokenFile").field(path).finish(),
            Credentials::Plugin(plugin) => out.debug_tuple("Plugin").field(&plugin.spec().command).finish(),
        }
    }
}

impl Credentials {
    pub(crate) fn token(token: &str) -> Result<Credentials, String> {
        bearer(token).map(Credentials::Fixed)
    }

    pub(crate) fn basic(name: &str, password: &str) -> Result<Credentials, String> {
        basic(name, password).map(Credentials::Fixed)
    }

    /// The token of a file, or a token until the file can be read.
    pub(crate) fn token_file(path: PathBuf, token: Option<&String>) -> Credentials {
        Credentials::TokenFile(path, token.and_then(|token| bearer(token).ok()))
    }

    /// What a plugin says; the plugin of before if it is the same one.
    pub(crate) fn plugin(spec: PluginSpec, before: Option<&Credentials>) -> Credentials {
        match before {
            Some(Credentials::Plugin(plugin)) if *plugin.spec() == spec => Credentials::Plugin(plugin.clone()),
            _ => Credentials::Plugin(Plugin::new(spec)),
        }
    }
}

/// The value of `Authorization` with a name and a password.
pub(crate) fn basic(name: &str, password: &str) -> Result<HeaderValue, String> {
    header(&format!("Basic {}", BASE64_STANDARD.encode(format!("{name}:{password}"))))
}

/// The value of `Authorization` with a token.
fn bearer(token: &str) -> Result<HeaderValue, String> {
    header(&format!("Bearer {token}"))
}

fn header(text: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(text).map_err(|_| "the token has characters that no header may have".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// The token of a file as it was read last.
#[derive(Debug, Default)]
struct FileToken {
    value: Option<HeaderValue>,
    read: Option<Instant>,
    /// Why it could not be read, which is logged once.
    wrong: Option<String>,
}

impl FileToken {
    /// Reads the file if that was long ago. A file that cannot be read leaves the token as it was.
    async fn look(&mut self, path: &Path, after: Duration) {
        if self.read.is_some_and(|at| at.elapsed() < after) {
            return;
        }
        let mut found = token_in(path).await;
        if self.value.is_some() && found.as_ref().ok() != self.value.as_ref() {
            sleep(AT_REST).await;
            let again = token_in(path).await;
            if again.as_ref().ok() != found.as_ref().ok() {
                // It is being written: this look counts for nothing.
                return;
            }
            found = again;
        }
        self.read = Some(Instant::now());
        match found {
            Ok(value) => {
                if self.wrong.take().is_some() {
                    tracing::info!(path = %path.display(), "the token file can be read again");
                }
                self.value = Some(value);
            }
            Err(why) => {
                if self.value.is_some() && self.wrong.as_ref() != Some(&why) {
                    tracing::warn!(path = %path.display(), %why, "the token file cannot be read; its last token is sent on");
                }
                self.wrong = Some(why);
            }
        }
    }
}

async fn token_in(path: &Path) -> Result<HeaderValue, String> {
    use tokio::io::AsyncReadExt;
    let mut bytes = Vec::new();
    let file = tokio::fs::File::open(path).await.map_err(|error| error.to_string())?;
    file.take(TOKEN_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).await.map_err(|error| error.to_string())?;
    token_of(&bytes).and_then(|token| bearer(&token))
}

/// What is sent to one server to say who we are, as it is now.
#[derive(Debug)]
pub struct Authorization {
    credentials: Credentials,
    file_token: Mutex<FileToken>,
    /// Headers that name whom we act as.
    impersonation: Vec<(HeaderName, HeaderValue)>,
    /// What is sent to a proxy that forwards the request.
    proxy: Option<HeaderValue>,
}

/// What was sent with a request, for when the server refuses it.
#[derive(Clone, Debug)]
pub struct SentCredentials(Sent);

#[derive(Clone, Debug)]
enum Sent {
    Fixed,
    FileToken(HeaderValue),
    Issued(Arc<Issued>),
}

impl Authorization {
    pub(crate) fn of(credentials: Credentials) -> Authorization {
        Authorization { credentials, file_token: Mutex::default(), impersonation: Vec::new(), proxy: None }
    }

    /// The same, where we act as another.
    pub(crate) fn acting_as(self, impersonation: Vec<(HeaderName, HeaderValue)>) -> Authorization {
        Authorization { impersonation, ..self }
    }

    /// The same, where a proxy forwards requests.
    pub(crate) fn through(self, proxy: Option<HeaderValue>) -> Authorization {
        Authorization { proxy, ..self }
    }

    /// Adds our credentials to the headers of a request; and whom we act as, unless they name somebody already.
    ///
    /// # Errors
    /// A token file that could never be read, or a plugin that says nothing.
    pub async fn apply(&self, headers: &mut HeaderMap) -> Result<SentCredentials, String> {
        let (value, sent) = match &self.credentials {
            Credentials::None => (None, Sent::Fixed),
            Credentials::Fixed(value) => (Some(value.clone()), Sent::Fixed),
            Credentials::TokenFile(path, token) => {
                let value = self.file_token(path, token.as_ref(), REREAD).await?;
                (Some(value.clone()), Sent::FileToken(value))
            }
            Credentials::Plugin(plugin) => {
                let issued = plugin.issued().await.map_err(|why| format!("getting credentials: {why}"))?;
                (issued.token.clone(), Sent::Issued(issued))
            }
        };
        headers.extend(value.map(|value| (AUTHORIZATION, value)));
        headers.extend(self.proxy.clone().map(|value| (PROXY_AUTHORIZATION, value)));
        if !headers.contains_key("impersonate-user") {
            for (name, value) in &self.impersonation {
                headers.append(name, value.clone());
            }
        }
        Ok(SentCredentials(sent))
    }

    async fn file_token(&self, path: &Path, token: Option<&HeaderValue>, after: Duration) -> Result<HeaderValue, String> {
        let mut file = self.file_token.lock().await;
        file.look(path, after).await;
        let value = file.value.as_ref().or(token).cloned();
        value.ok_or_else(|| format!("tokenFile {}: {}", path.display(), file.wrong.as_deref().unwrap_or("it is being written")))
    }

    /// Has credentials renewed that the server has refused (401). Returns whether there are others now.
    pub async fn renew(&self, refused: &SentCredentials) -> bool {
        match (&self.credentials, &refused.0) {
            (Credentials::Plugin(plugin), Sent::Issued(issued)) => plugin.renew(issued).await,
            (Credentials::TokenFile(path, token), Sent::FileToken(value)) => {
                self.file_token(path, token.as_ref(), REREAD_REFUSED).await.is_ok_and(|now| now != *value)
            }
            _ => false,
        }
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

#[cfg(test)]
mod tests;
