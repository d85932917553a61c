//! `--authentication-config`: read at the start, and again when its contents change. A file that makes no sense is told in the log, and what was read before
//! stays (kube-apiserver's `ApplyTo` of the authentication options).

use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::time::sleep;

use super::{Providers, ProvidersError, oidc::Issuers};
use crate::authn::oidc::AuthenticationConfiguration;
use crate::authn::{Algorithm, Anonymous};
use go::yaml::reader;

/// The flag.
const FLAG: &str = "--authentication-config";
/// Between two looks at the file; kube-apiserver is told by the system, and looks each minute.
const LOOK: Duration = Duration::from_secs(5);
/// How long the providers of a changed file may take to tell about themselves; kube-apiserver's number.
const READY_TIME_MAX: Duration = Duration::from_secs(60);
/// Bytes that the file may have.
const FILE_BYTES_MAX: usize = 3 << 20;

/// A file that could be read.
pub(super) struct ConfigFile {
    path: PathBuf,
    /// What was in it, be it good or bad, when it was read last.
    seen: Vec<u8>,
    /// What may not change.
    anonymous: Option<Anonymous>,
    /// Issuers of service accounts' tokens, which no provider may have.
    disallowed: Vec<String>,
}

impl ConfigFile {
    /// Reads the file for the first time.
    ///
    /// # Errors
    /// One line with the flag.
    pub(super) fn read(path: &Path, disallowed: &[String]) -> Result<(ConfigFile, AuthenticationConfiguration), ProvidersError> {
        let wrong = |why: String| ProvidersError::Other(format!("{FLAG} {}: {why}", path.display()));
        let seen = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let configuration = parsed(&seen, disallowed).map_err(wrong)?;
        let anonymous = configuration.anonymous();
        Ok((ConfigFile { path: path.to_owned(), seen, anonymous, disallowed: disallowed.to_vec() }, configuration))
    }

    pub(super) fn anonymous(&self) -> Option<&Anonymous> {
        self.anonymous.as_ref()
    }

    /// Looks at the file for ever.
    pub(super) async fn follow(mut self, providers: &Providers) {
        providers.metrics.authentication_config(&hash(&self.seen));
        loop {
            sleep(LOOK).await;
            match self.look(providers).await {
                Ok(false) => {}
                Ok(true) => {
                    tracing::info!(path = %self.path.display(), "reloaded authentication config");
                    providers.metrics.authentication_config_reloaded(true);
                    providers.metrics.authentication_config(&hash(&self.seen));
                }
                Err(why) => {
                    tracing::error!(path = %self.path.display(), %why, "the authentication config cannot be used; the former one stays");
                    providers.metrics.authentication_config_reloaded(false);
                }
            }
        }
    }

    /// Takes what the file says if it has changed. A file that is wrong is told once; one that cannot be read, or whose providers do not answer, is tried
    /// again.
    async fn look(&mut self, providers: &Providers) -> Result<bool, String> {
        let bytes = tokio::fs::read(&self.path).await.map_err(|error| error.to_string())?;
        if bytes == self.seen {
            return Ok(false);
        }
        let checked = parsed(&bytes, &self.disallowed).and_then(|configuration| {
            let is_same = configuration.anonymous() == self.anonymous;
            is_same.then_some(configuration).ok_or_else(|| "anonymous: Forbidden: changed from initial configuration file".to_owned())
        });
        let configuration = match checked {
            Ok(configuration) => configuration,
            Err(why) => {
                self.seen = bytes;
                return Err(why);
            }
        };
        let issuers = Issuers::start(&configuration.jwt, &Algorithm::ALL)?;
        issuers.ready(READY_TIME_MAX).await?;
        providers.take(issuers);
        self.seen = bytes;
        Ok(true)
    }
}

/// The configuration in a file, if it is good.
fn parsed(bytes: &[u8], disallowed: &[String]) -> Result<AuthenticationConfiguration, String> {
    if bytes.is_empty() {
        return Err("empty config data".to_owned());
    }
    if bytes.len() > FILE_BYTES_MAX {
        return Err(format!("more than {FILE_BYTES_MAX} bytes"));
    }
    let document = reader::parse(bytes).map_err(|wrong| wrong.to_string())?;
    if !document.duplicates.is_empty() {
        return Err(format!("strict decoding error: {}", document.duplicates.join(", ")));
    }
    let configuration = AuthenticationConfiguration::from_tree(&document.value).map_err(|error| error.to_string())?;
    match &configuration.wrong(disallowed)[..] {
        [] => Ok(configuration),
        [one] => Err(format!("invalid authentication configuration: {one}")),
        many => Err(format!("invalid authentication configuration: [{}]", many.join(", "))),
    }
}

fn hash(bytes: &[u8]) -> String {
    let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_file_is_told_in_one_line() {
        let why = |text: &str| parsed(text.as_bytes(), &[]).map(|_| ()).expect_err(text);
        assert_eq!(why(""), "empty config data");
        assert!(why("a: b").starts_with("no kind \"\" is registered"));
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";
        assert_eq!(why(&format!("{head}jwt: []\njwt: []\n")), "strict decoding error: line 4: key \"jwt\" already set in map");
        assert!(
            why(&format!("{head}jwt: [{{}}]\n")).starts_with("invalid authentication configuration: [jwt[0].issuer.url: Required value, ")
        );
        assert!(why(&format!("{head}x: 1\n")).contains("unknown field \"x\""));
        assert!(parsed(head.as_bytes(), &[]).is_ok(), "nobody is asked");
        assert!(!why("{").contains('\n'));
        assert_eq!(hash(b""), format!("sha256:{}", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
    }
}
