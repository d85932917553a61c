//! Names of signers of certificates, and of the bundles of their authorities (`pkg/apis/core/validation/names.go`).

use serde_json::Value;

use crate::{at::At, causes::Causes, meta, names};
use go::quote::quoted;

/// Bytes of the domain of a signer.
const DOMAIN_BYTES_MAX: usize = 253;
/// Bytes of a signer's name: a domain, a namespace and a name of an object.
const NAME_BYTES_MAX: usize = DOMAIN_BYTES_MAX + 1 + 253 + 63 + 1;

/// Whether Kubernetes has reserved a signer for itself.
pub(crate) fn is_kubernetes(signer: &str) -> bool {
    let host = signer.split_once('/').map_or(signer, |(host, _)| host);
    host == "kubernetes.io" || host.ends_with(".kubernetes.io")
}

/// `ValidateSignerName`.
pub(crate) fn signer(at: &At<'_, '_>, causes: &mut Causes) {
    if !meta::present(at, "", causes) {
        return;
    }
    let Some((domain, path)) = at.text().split_once('/').filter(|(_, path)| !path.contains('/')) else {
        return causes.invalid_text(at, "must be a fully qualified domain and path of the form 'example.com/signer-name'");
    };
    if domain.len() > DOMAIN_BYTES_MAX {
        causes.too_long(at, DOMAIN_BYTES_MAX);
    }
    first_wrong(domain, names::label, at, causes);
    if !domain.contains('.') {
        let shown: Value = domain.into();
        causes.invalid_as(at, &shown, "should be a domain with at least two segments separated by dots");
    }
    first_wrong(path, names::subdomain, at, causes);
    if at.text().len() > NAME_BYTES_MAX {
        causes.too_long(at, NAME_BYTES_MAX);
    }
}

/// Reports the first label that is wrong.
fn first_wrong(text: &str, judge: fn(&str) -> Vec<String>, at: &At<'_, '_>, causes: &mut Causes) {
    let wrong = text.split('.').map(|label| (label, judge(label))).find(|(_, whys)| !whys.is_empty());
    if let Some((label, whys)) = wrong {
        let shown = text.into();
        whys.iter().for_each(|why| causes.invalid_as(at, &shown, &format!("validating label {}: {why}", quoted(label))));
    }
}

/// Why a text is no name of a ClusterTrustBundle of a signer, which is empty for bundles without one (`ValidateClusterTrustBundleName`).
pub(crate) fn bundle(signer: &str, name: &str) -> Vec<String> {
    if signer.is_empty() {
        if name.contains(':') {
            return vec!["ClusterTrustBundle without signer name must not have \":\" in its name".to_owned()];
        }
        return names::subdomain(name);
    }
    let prefix = signer.replace('/', ":") + ":";
    match name.strip_prefix(&prefix) {
        Some(rest) => names::subdomain(rest),
        None => vec![format!("ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}")],
    }
}

/// The signer that the name of a bundle means; empty when it means none.
pub(crate) fn of_bundle(name: &str) -> String {
    name.rsplit_once(':').map(|(signer, _)| signer.replace(':', "/")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn signers_have_a_domain_and_a_path() {
        let texts = |name: &str| {
            let object = json!(name);
            let errors = Causes::of(|causes| signer(&At::named("x", &object), causes));
            errors.into_iter().map(|error| error.message.chars().take(70).collect::<String>()).collect::<Vec<_>>()
        };
        assert_eq!(texts("a.b/c.d"), [""; 0]);
        assert_eq!(texts(""), ["Required value"]);
        assert_eq!(texts("a.b"), [r#"Invalid value: "a.b": must be a fully qualified domain and path of the"#]);
        assert_eq!(texts("a/b"), [r#"Invalid value: "a": should be a domain with at least two segments sepa"#]);
        assert_eq!(
            texts("A.b/_"),
            [
                r#"Invalid value: "A.b": validating label "A": a lowercase RFC 1123 label"#,
                r#"Invalid value: "_": validating label "_": a lowercase RFC 1123 subdoma"#
            ]
        );
        assert!(is_kubernetes("kubernetes.io/a") && is_kubernetes("b.kubernetes.io/a") && !is_kubernetes("ckubernetes.io/a"));
        assert_eq!((bundle("", "a:b").len(), bundle("a.b/c", "a.b:c:d").len(), bundle("a.b/c", "d").len()), (1, 0, 1));
        assert_eq!((of_bundle("a.b:c:d").as_str(), of_bundle("d").as_str()), ("a.b/c", ""));
    }
}
