//! Deletes bootstrap tokens that have expired: kube-controller-manager's token-cleaner-controller.

use std::sync::Arc;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;
use time::OffsetDateTime;

use super::{super::Controllers, Rule, moment};

/// Where the tokens are, and their type.
pub(in super::super) const NAMESPACE: &str = "kube-system";
pub(in super::super) const TYPE: &str = "bootstrap.kubernetes.io/token";

const RULE: Rule = Rule { deadline, propagation: None };

pub(in super::super) async fn run(controllers: Arc<Controllers>) {
    let Some(secrets) = controllers.built_in("", "secrets") else { return };
    super::run(&controllers, &secrets, &RULE).await;
}

/// When a token ends; none of one that does not, and of other Secrets.
pub(in super::super) fn deadline(secret: &Value) -> Option<OffsetDateTime> {
    if secret["metadata"]["namespace"] != NAMESPACE || secret["type"] != TYPE {
        return None;
    }
    let expiration = secret["data"]["expiration"].as_str()?;
    let text = BASE64_STANDARD.decode(expiration).ok().and_then(|bytes| String::from_utf8(bytes).ok())?;
    if text.is_empty() {
        return None;
    }
    // A time that cannot be read has passed, as there.
    Some(moment(&text.into()).unwrap_or(OffsetDateTime::UNIX_EPOCH))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_tokens_with_a_time_expire() {
        let secret = |namespace: &str, kind: &str, expiration: &str| {
            let data = json!({"expiration": BASE64_STANDARD.encode(expiration)});
            deadline(&json!({"metadata": {"namespace": namespace}, "type": kind, "data": data}))
        };
        let time = "2026-01-01T00:00:00Z";
        assert_eq!(secret(NAMESPACE, TYPE, time), moment(&json!(time)));
        assert_eq!((secret("default", TYPE, time), secret(NAMESPACE, "Opaque", time), secret(NAMESPACE, TYPE, "")), (None, None, None));
        assert_eq!(secret(NAMESPACE, TYPE, "soon"), Some(OffsetDateTime::UNIX_EPOCH));
        assert_eq!(deadline(&json!({"metadata": {"namespace": NAMESPACE}, "type": TYPE})), None);
    }
}
