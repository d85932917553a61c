//! What a credential plugin says: an ExecCredential with a token, a certificate, or both, and when they end.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use go::quote::quoted;
use go::yaml::reader;
use http::HeaderValue;
use serde_json::Value;

use super::bearer;
use crate::node::Node;
use crate::trust::{Certificate, Trust, certificate, settings};

/// A version of the API that a plugin speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PluginVersion {
    V1,
    V1Beta1,
}

impl PluginVersion {
    /// The version of an `apiVersion`.
    pub(crate) fn of(text: &str) -> Option<PluginVersion> {
        [PluginVersion::V1, PluginVersion::V1Beta1].into_iter().find(|version| version.text() == text)
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            PluginVersion::V1 => "client.authentication.k8s.io/v1",
            PluginVersion::V1Beta1 => "client.authentication.k8s.io/v1beta1",
        }
    }
}

/// What was issued by a run of a plugin.
pub(crate) struct Issued {
    /// The value of `Authorization`.
    pub(crate) token: Option<HeaderValue>,
    pub(crate) certificate: Option<Arc<Certificate>>,
    /// When it was issued, and when it ends.
    issued: SystemTime,
    ends: Option<SystemTime>,
}

/// Without the secrets.
impl std::fmt::Debug for Issued {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Issued").field("ends", &self.ends).finish_non_exhaustive()
    }
}

impl Issued {
    /// Reads what a plugin of this version has written, in JSON or YAML.
    ///
    /// # Errors
    /// As far as it is cheap, client-go's text.
    pub(super) fn read(output: &[u8], version: PluginVersion, now: SystemTime) -> Result<Issued, String> {
        let tree = tree(output).map_err(|why| format!("decoding stdout: {why}"))?;
        let root = Node::root(&tree);
        let wrong = |why: String| format!("decoding stdout: {why}");
        let (api_version, kind) = (root.text_of("apiVersion").map_err(wrong)?, root.text_of("kind").map_err(wrong)?);
        if api_version.is_empty() {
            return Err("decoding stdout: Object 'apiVersion' is missing".to_owned());
        }
        if !matches!(kind.as_str(), "" | "ExecCredential") || PluginVersion::of(&api_version).is_none() {
            return Err(format!("decoding stdout: no kind {} is registered for version {}", quoted(&kind), quoted(&api_version)));
        }
        if api_version != version.text() {
            let configured = version.text();
            return Err(format!("exec plugin is configured to use API version {configured}, plugin returned version {api_version}"));
        }
        let spec = root.member("spec").map_err(wrong)?;
        spec.member("interactive").and_then(|interactive| interactive.flag()).map_err(wrong)?;
        spec.member("cluster").and_then(|cluster| cluster.members()).map_err(wrong)?;
        let status = root.member("status").map_err(wrong)?;
        status.members().map_err(wrong)?;
        if !status.is_there() {
            return Err("exec plugin didn't return a status field".to_owned());
        }
        Issued::of_status(&status, now)
    }

    fn of_status(status: &Node<'_>, now: SystemTime) -> Result<Issued, String> {
        let text = |name: &str| status.text_of(name).map_err(|why| format!("decoding stdout: {why}"));
        let (token, chain, key) = (text("token")?, text("clientCertificateData")?, text("clientKeyData")?);
        let ends = match status.member("expirationTimestamp")?.is_there() {
            false => None,
            true => {
                Some(moment(&text("expirationTimestamp")?).map_err(|why| format!("decoding stdout: status.expirationTimestamp: {why}"))?)
            }
        };
        if token.is_empty() && chain.is_empty() && key.is_empty() {
            return Err("exec plugin didn't return a token or cert/key pair".to_owned());
        }
        if chain.is_empty() != key.is_empty() {
            return Err("exec plugin returned only certificate or key, not both".to_owned());
        }
        let pair = (!chain.is_empty()).then(|| {
            let pair = certificate(chain.as_bytes(), key.as_bytes())?;
            settings(&Trust::Anyone, Some(&pair)).map(|_| Arc::new(pair))
        });
        let certificate = pair.transpose().map_err(|why| format!("failed parsing client key/certificate: {why}"))?;
        let token = (!token.is_empty()).then(|| bearer(&token)).transpose()?;
        Ok(Issued { token, certificate, issued: now, ends })
    }

    /// Whether it is over.
    pub(super) fn is_over(&self, now: SystemTime) -> bool {
        self.ends.is_some_and(|ends| ends < now)
    }

    /// Whether it is so near its end that it should be renewed: a tenth of its time before, at most `before`.
    pub(super) fn is_due(&self, now: SystemTime, before: Duration) -> bool {
        let due = self.ends.map(|ends| {
            let lasts = ends.duration_since(self.issued).unwrap_or_default();
            ends - (lasts / 10).min(before)
        });
        due.is_some_and(|due| due <= now)
    }
}

/// The tree of a text: JSON if it begins as such, else YAML.
fn tree(output: &[u8]) -> Result<Value, String> {
    if output.trim_ascii_start().starts_with(b"{") {
        return serde_json::from_slice(output).map_err(|error| error.to_string());
    }
    reader::parse(output).map(|document| document.value).map_err(|wrong| wrong.to_string())
}

fn moment(text: &str) -> Result<SystemTime, String> {
    let (seconds, nanos) = go::time::parse(text)?;
    let since = Duration::new(seconds.unsigned_abs(), 0);
    let at = if seconds < 0 { UNIX_EPOCH.checked_sub(since) } else { UNIX_EPOCH.checked_add(since) };
    let at = at.and_then(|at| at.checked_add(Duration::from_nanos(u64::try_from(nanos).unwrap_or_default())));
    at.ok_or_else(|| "a time that cannot be".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(output: &str) -> Result<Issued, String> {
        Issued::read(output.as_bytes(), PluginVersion::V1, UNIX_EPOCH)
    }

    fn credential(status: &Value) -> String {
        json!({"apiVersion": PluginVersion::V1.text(), "kind": "ExecCredential", "status": status}).to_string()
    }

    #[test]
    fn credentials_are_tokens_and_certificates() {
        let made = rcgen::generate_simple_self_signed(vec!["we".to_owned()]).expect("a name");
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let both =
            json!({"token": "a", "clientCertificateData": chain, "clientKeyData": key, "expirationTimestamp": "1970-01-01T00:10:00Z"});
        let issued = read(&credential(&both)).expect("good");
        assert_eq!(issued.token.as_ref().map(HeaderValue::as_bytes), Some(&b"Bearer a"[..]));
        assert!(issued.certificate.is_some());
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let minute = Duration::from_secs(60);
        assert_eq!(
            [539, 540, 600].map(|now| (issued.is_due(at(now), minute), issued.is_over(at(now)))),
            [(false, false), (true, false), (true, false)]
        );
        assert!(issued.is_over(at(601)));
        let forever =
            read("apiVersion: client.authentication.k8s.io/v1\nkind: ExecCredential\nstatus: {token: a, more: [1]}").expect("YAML");
        assert!(!forever.is_due(at(1 << 40), minute) && !forever.is_over(at(1 << 40)));
        let other = rcgen::generate_simple_self_signed(vec!["we".to_owned()]).expect("a name").signing_key.serialize_pem();
        let mixed = credential(&json!({"clientCertificateData": chain, "clientKeyData": other}));
        assert!(read(&mixed).expect_err("another key").starts_with("failed parsing client key/certificate: "));
    }

    #[test]
    fn what_is_no_credential_is_refused() {
        let of = |status: Value| read(&credential(&status)).expect_err("wrong");
        assert_eq!(of(Value::Null), "exec plugin didn't return a status field");
        assert_eq!(of(json!({})), "exec plugin didn't return a token or cert/key pair");
        assert_eq!(of(json!({"clientKeyData": "x"})), "exec plugin returned only certificate or key, not both");
        assert_eq!(of(json!({"token": 1})), "decoding stdout: status.token: expected a string, found number");
        assert!(of(json!({"token": "a", "expirationTimestamp": "soon"})).contains("expirationTimestamp"));
        assert!(of(json!({"token": "a\nb"})).contains("no header may have"));
        assert!(of(json!([])).contains("expected an object"));
        let beta = credential(&json!({"token": "a"})).replace("/v1", "/v1beta1");
        let versions =
            "configured to use API version client.authentication.k8s.io/v1, plugin returned version client.authentication.k8s.io/v1beta1";
        assert!(read(&beta).expect_err("another version").ends_with(versions));
        let twice = credential(&json!({"token": "a"})).repeat(2);
        for wrong in [
            "",
            "{",
            "[]",
            "token",
            "{}",
            r#"{"kind":"ExecCredential"}"#,
            &twice,
            &credential(&json!({"token": "a"})).replace("/v1", "/v2"),
        ] {
            assert!(read(wrong).expect_err(wrong).starts_with("decoding stdout: "), "{wrong}");
        }
    }
}
