//! The configuration of OpenID providers and of anonymous requests: `--oidc-…` flags and `--authentication-config`. Reads no file: the caller passes
//! trees.

use std::collections::HashSet;

use go::quote::quoted;
use serde::Deserialize;
use serde_json::Value;

use crate::authn::{Anonymous, x509};
use crate::strict::NoConfiguration;
use crate::strict::Shape::{self, Any, List, Object};

/// Providers that there may be; kube-apiserver's number.
const PROVIDERS_MAX: usize = 64;
const API_VERSION: &str = "apiserver.config.k8s.io/v1";
const KIND: &str = "AuthenticationConfiguration";
/// What expressions in CEL are told.
const NO_CEL: &str = "CEL expressions are not supported";

/// `AuthenticationConfiguration` of `apiserver.config.k8s.io/v1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuthenticationConfiguration {
    /// OpenID providers.
    pub jwt: Vec<JwtAuthenticator>,
    /// Who needs no credentials, instead of `--anonymous-auth`.
    pub anonymous: Option<AnonymousConfig>,
}

/// Who needs no credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AnonymousConfig {
    /// Whether anybody.
    pub enabled: bool,
    /// Only on these paths.
    pub conditions: Vec<AnonymousCondition>,
}

/// A path that needs no credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AnonymousCondition {
    /// The path.
    pub path: String,
}

/// An OpenID provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JwtAuthenticator {
    /// Who makes the tokens.
    pub issuer: Issuer,
    /// What their claims must say.
    pub claim_validation_rules: Vec<ClaimValidationRule>,
    /// What of the user their claims say.
    pub claim_mappings: ClaimMappings,
    /// What users must be; in CEL alone.
    pub user_validation_rules: Vec<Value>,
}

/// Who makes tokens, and for whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Issuer {
    /// The claim `iss`.
    pub url: String,
    /// Where it tells about itself, if not below its own URL.
    #[serde(rename = "discoveryURL")]
    pub discovery_url: Option<String>,
    /// Whom its TLS must be of, as PEM; otherwise the system's authorities.
    pub certificate_authority: String,
    /// One of them must be in `aud`.
    pub audiences: Vec<String>,
    /// `MatchAny`.
    pub audience_match_policy: String,
    /// By which way it is reached.
    pub egress_selector_type: String,
}

/// What a claim must say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimValidationRule {
    /// Name of the claim.
    pub claim: String,
    /// Its value.
    pub required_value: String,
    /// CEL.
    pub expression: String,
    /// What is said when the expression is false.
    pub message: String,
}

/// What of the user claims say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClaimMappings {
    /// The name.
    pub username: Mapping,
    /// The groups.
    pub groups: Mapping,
    /// The uid.
    pub uid: UidMapping,
    /// Further facts; in CEL alone.
    pub extra: Vec<Value>,
}

/// A claim that says something, and what is put before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Mapping {
    /// Name of the claim.
    pub claim: String,
    /// Put before each value.
    pub prefix: Option<String>,
    /// CEL.
    pub expression: String,
}

/// A claim that says the uid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct UidMapping {
    /// Name of the claim.
    pub claim: String,
    /// CEL.
    pub expression: String,
}

const MAPPING: Shape = Object(&[("claim", Any), ("prefix", Any), ("expression", Any)]);
const RULE: Shape = Object(&[("claim", Any), ("requiredValue", Any), ("expression", Any), ("message", Any)]);
const ISSUER: Shape = Object(&[
    ("url", Any),
    ("discoveryURL", Any),
    ("certificateAuthority", Any),
    ("audiences", Any),
    ("audienceMatchPolicy", Any),
    ("egressSelectorType", Any),
]);
const MAPPINGS: Shape = Object(&[
    ("username", MAPPING),
    ("groups", MAPPING),
    ("uid", Object(&[("claim", Any), ("expression", Any)])),
    ("extra", List(&Object(&[("key", Any), ("valueExpression", Any)]))),
]);
const CONFIGURATION: Shape = Object(&[
    ("kind", Any),
    ("apiVersion", Any),
    (
        "jwt",
        List(&Object(&[
            ("issuer", ISSUER),
            ("claimValidationRules", List(&RULE)),
            ("claimMappings", MAPPINGS),
            ("userValidationRules", List(&Object(&[("expression", Any), ("message", Any)]))),
        ])),
    ),
    ("anonymous", Object(&[("enabled", Any), ("conditions", List(&Object(&[("path", Any)])))])),
]);

impl AuthenticationConfiguration {
    /// Of the tree of a file, without looking at what its values say: see [`AuthenticationConfiguration::wrong`].
    ///
    /// # Errors
    /// When it is something else, or has fields that nobody reads.
    pub fn from_tree(tree: &Value) -> Result<AuthenticationConfiguration, NoConfiguration> {
        CONFIGURATION.read(tree, KIND, &[API_VERSION])
    }

    /// What is wrong with its values, in kube-apiserver's words and order. `disallowed` are the issuers of service accounts.
    #[must_use]
    pub fn wrong(&self, disallowed: &[String]) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.jwt.len() > PROVIDERS_MAX {
            return vec![format!("jwt: Too many: {}: must have at most {PROVIDERS_MAX} items", self.jwt.len())];
        }
        let (mut issuers, mut discoveries) = (HashSet::new(), HashSet::new());
        for (at, jwt) in self.jwt.iter().enumerate() {
            let path = format!("jwt[{at}]");
            jwt.wrong(disallowed, &path, &mut wrong);
            if !issuers.insert(&jwt.issuer.url) {
                wrong.push(format!("{path}.issuer.url: Duplicate value: {}", quoted(&jwt.issuer.url)));
            }
            if let Some(url) = jwt.issuer.discovery_url.as_ref().filter(|url| !url.is_empty() && !discoveries.insert(*url)) {
                wrong.push(format!("{path}.issuer.discoveryURL: Duplicate value: {}", quoted(url)));
            }
        }
        if let Some(AnonymousConfig { enabled: false, conditions }) = &self.anonymous
            && !conditions.is_empty()
        {
            let shown: Vec<String> = conditions.iter().map(|condition| format!(r#"{{"path":{}}}"#, quoted(&condition.path))).collect();
            let why = "enabled should be set to true when conditions are defined";
            wrong.push(format!("anonymous.conditions: Invalid value: [{}]: {why}", shown.join(",")));
        }
        wrong
    }

    /// Who needs no credentials, if it is said.
    #[must_use]
    pub fn anonymous(&self) -> Option<Anonymous> {
        self.anonymous.as_ref().map(|config| match (config.enabled, &config.conditions[..]) {
            (false, _) => Anonymous::No,
            (true, []) => Anonymous::Yes,
            (true, conditions) => Anonymous::Paths(conditions.iter().map(|condition| condition.path.clone()).collect()),
        })
    }
}

impl JwtAuthenticator {
    fn wrong(&self, disallowed: &[String], path: &str, wrong: &mut Vec<String>) {
        self.issuer.wrong(disallowed, &format!("{path}.issuer"), wrong);
        let mut seen = HashSet::new();
        for (at, rule) in self.claim_validation_rules.iter().enumerate() {
            let path = format!("{path}.claimValidationRules[{at}]");
            match (rule.claim.is_empty(), rule.expression.is_empty()) {
                (false, false) => wrong.push(invalid(&path, &rule.claim, "claim and expression can't both be set")),
                (true, true) => wrong.push(format!("{path}: Required value: claim or expression is required")),
                (true, false) => wrong.push(invalid(&format!("{path}.expression"), &rule.expression, NO_CEL)),
                (false, true) => {
                    if !rule.message.is_empty() {
                        wrong.push(invalid(&format!("{path}.message"), &rule.message, "may not be specified when claim is set"));
                    }
                    if !seen.insert(&rule.claim) {
                        wrong.push(format!("{path}.claim: Duplicate value: {}", quoted(&rule.claim)));
                    }
                }
            }
        }
        let (path_of, mappings) = (|name: &str| format!("{path}.claimMappings.{name}"), &self.claim_mappings);
        mappings.username.wrong(true, &path_of("username"), wrong);
        mappings.groups.wrong(false, &path_of("groups"), wrong);
        match (mappings.uid.claim.is_empty(), mappings.uid.expression.is_empty()) {
            (false, false) => wrong.push(invalid(&path_of("uid"), "", "claim and expression can't both be set")),
            (true, false) => wrong.push(invalid(&path_of("uid.expression"), &mappings.uid.expression, NO_CEL)),
            (_, true) => {}
        }
        let texts = |values: &[Value], member: &str| -> Vec<String> {
            values.iter().map(|value| value[member].as_str().unwrap_or_default().to_owned()).collect()
        };
        for (at, expression) in texts(&mappings.extra, "valueExpression").iter().enumerate() {
            wrong.push(invalid(&path_of(&format!("extra[{at}].valueExpression")), expression, NO_CEL));
        }
        for (at, expression) in texts(&self.user_validation_rules, "expression").iter().enumerate() {
            wrong.push(invalid(&format!("{path}.userValidationRules[{at}].expression"), expression, NO_CEL));
        }
    }
}

impl Issuer {
    fn wrong(&self, disallowed: &[String], path: &str, wrong: &mut Vec<String>) {
        let url_path = format!("{path}.url");
        if self.url.is_empty() {
            wrong.push(format!("{url_path}: Required value"));
        } else {
            if disallowed.contains(&self.url) {
                let mut all = disallowed.to_vec();
                all.sort();
                let why = format!("URL must not overlap with disallowed issuers: [{}]", all.join(" "));
                wrong.push(invalid(&url_path, &self.url, &why));
            }
            wrong_url(&self.url, &url_path, wrong);
        }
        if let Some(discovery) = self.discovery_url.as_deref().filter(|url| !url.is_empty()) {
            let path = format!("{path}.discoveryURL");
            if !self.url.is_empty() && self.url.trim_end_matches('/') == discovery.trim_end_matches('/') {
                wrong.push(invalid(&path, discovery, "discoveryURL must be different from URL"));
            }
            wrong_url(discovery, &path, wrong);
        }
        self.wrong_audiences(path, wrong);
        if !self.certificate_authority.is_empty()
            && let Err(why) = x509::Authorities::from_pem(self.certificate_authority.as_bytes())
        {
            wrong.push(invalid(&format!("{path}.certificateAuthority"), "<omitted>", &why));
        }
        if !matches!(self.egress_selector_type.as_str(), "" | "controlplane" | "cluster") {
            let why = "egress selector must be either controlplane or cluster";
            wrong.push(invalid(&format!("{path}.egressSelectorType"), &self.egress_selector_type, why));
        }
    }

    fn wrong_audiences(&self, path: &str, wrong: &mut Vec<String>) {
        let (own, policy) = (format!("{path}.audiences"), self.audience_match_policy.as_str());
        if self.audiences.is_empty() {
            wrong.push(format!("{own}: Required value: at least one {own} is required"));
            return;
        }
        let mut seen = HashSet::new();
        for (at, audience) in self.audiences.iter().enumerate() {
            if audience.is_empty() {
                wrong.push(format!("{own}[{at}]: Required value"));
            }
            if !seen.insert(audience) {
                wrong.push(format!("{own}[{at}]: Duplicate value: {}", quoted(audience)));
            }
        }
        let why = match (self.audiences.len(), policy) {
            (_, "MatchAny") | (1, "") => return,
            (1, _) => "audienceMatchPolicy must be empty or MatchAny for single audience",
            _ => "audienceMatchPolicy must be MatchAny for multiple audiences",
        };
        wrong.push(invalid(&format!("{path}.audienceMatchPolicy"), policy, why));
    }
}

impl Mapping {
    fn wrong(&self, is_required: bool, path: &str, wrong: &mut Vec<String>) {
        match (self.claim.is_empty(), self.expression.is_empty()) {
            (false, false) => wrong.push(invalid(path, "", "claim and expression can't both be set")),
            (true, true) if is_required => wrong.push(format!("{path}: Required value: claim or expression is required")),
            (true, true) => {}
            (true, false) => wrong.push(invalid(&format!("{path}.expression"), &self.expression, NO_CEL)),
            (false, true) if self.prefix.is_none() => wrong.push(format!(
                "{path}.prefix: Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing"
            )),
            (false, true) => {}
        }
    }
}

fn invalid(path: &str, value: &str, why: &str) -> String {
    format!("{path}: Invalid value: {}: {why}", quoted(value))
}

fn wrong_url(text: &str, path: &str, wrong: &mut Vec<String>) {
    let url = match go::url::parse(text) {
        Ok(url) => url,
        Err(why) => return wrong.push(invalid(path, text, &why)),
    };
    for (is_wrong, why) in [
        (url.scheme != "https", "URL scheme must be https"),
        (url.user.is_some(), "URL must not contain a username or password"),
        (!url.query.is_empty(), "URL must not contain a query"),
        (!url.fragment.is_empty(), "URL must not contain a fragment"),
    ] {
        if is_wrong {
            wrong.push(invalid(path, text, why));
        }
    }
}

/// The `--oidc-…` flags, which stand for one provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--oidc-issuer-url`.
    pub issuer_url: String,
    /// `--oidc-client-id`.
    pub client_id: String,
    /// What is in `--oidc-ca-file`; empty for the system's authorities.
    pub certificate_authority: String,
    /// `--oidc-username-claim`, `sub` by default.
    pub username_claim: String,
    /// `--oidc-username-prefix`; `-` for none.
    pub username_prefix: String,
    /// `--oidc-groups-claim`.
    pub groups_claim: String,
    /// `--oidc-groups-prefix`.
    pub groups_prefix: String,
    /// `--oidc-required-claim`: names and values.
    pub required_claims: Vec<(String, String)>,
}

impl Flags {
    /// The provider; where nothing is put before names, but for `email`, it is the issuer.
    #[must_use]
    pub fn authenticator(self) -> JwtAuthenticator {
        let prefix = match self.username_prefix.as_str() {
            "" if self.username_claim != "email" => format!("{}#", self.issuer_url),
            "-" => String::new(),
            given => given.to_owned(),
        };
        let groups = if self.groups_claim.is_empty() {
            Mapping::default()
        } else {
            Mapping { claim: self.groups_claim, prefix: Some(self.groups_prefix), ..Mapping::default() }
        };
        let rule = |(claim, required_value)| ClaimValidationRule { claim, required_value, ..ClaimValidationRule::default() };
        JwtAuthenticator {
            issuer: Issuer {
                url: self.issuer_url,
                audiences: vec![self.client_id],
                certificate_authority: self.certificate_authority,
                ..Issuer::default()
            },
            claim_validation_rules: self.required_claims.into_iter().map(rule).collect(),
            claim_mappings: ClaimMappings {
                username: Mapping { claim: self.username_claim, prefix: Some(prefix), ..Mapping::default() },
                groups,
                ..ClaimMappings::default()
            },
            ..JwtAuthenticator::default()
        }
    }
}

#[cfg(test)]
mod tests;
