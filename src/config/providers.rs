//! Flags about whom to ask whose a token is: OpenID providers, a webhook, the cluster that this server extends.

use auth::authn::Algorithm;
use auth::authn::oidc::Flags;
use auth::providers::settings::{HostCluster, Oidc, Providers, TokenReviewVersion, TokenWebhook};

use super::args::ServeArgs;

pub(super) fn providers(args: &ServeArgs) -> Result<Providers, String> {
    let webhook = match args.authentication_token_webhook_config_file.clone() {
        None => None,
        Some(config_file) => {
            let (version, cache_ttl) = (review_version(args)?, args.authentication_token_webhook_cache_ttl);
            Some(TokenWebhook { config_file, version, cache_ttl })
        }
    };
    // Whoever is known here by a certificate would be nobody where his requests are forwarded to.
    let has_no_certificates = args.source_kubeconfig().is_some();
    let cluster = args.host_kubeconfig("--authentication-kubeconfig", args.authentication_kubeconfig.as_ref()).map(|(flag, kubeconfig)| {
        HostCluster {
            flag,
            kubeconfig,
            skip_lookup: has_no_certificates
                || args.authentication_skip_lookup
                || (args.client_ca_file.is_some() && args.requestheader_client_ca_file.is_some()),
            tolerate_lookup_failure: args.authentication_tolerate_lookup_failure,
            needs_proxy: args.requestheader_client_ca_file.is_none(),
            is_upstream: has_no_certificates,
            presence: args.presence(),
        }
    });
    if cluster.is_none() && (args.authentication_skip_lookup || args.authentication_tolerate_lookup_failure) {
        return Err(
            "--authentication-skip-lookup and --authentication-tolerate-lookup-failure need --authentication-kubeconfig or --kubeconfig"
                .to_owned(),
        );
    }
    Ok(Providers { oidc: oidc(args)?, webhook, cluster, account_issuers: args.service_account_issuer.clone() })
}

/// kube-apiserver's words.
fn review_version(args: &ServeArgs) -> Result<TokenReviewVersion, String> {
    match args.authentication_token_webhook_version.as_str() {
        "v1" => Ok(TokenReviewVersion::V1),
        "v1beta1" => Ok(TokenReviewVersion::V1Beta1),
        other => Err(format!("unsupported authentication webhook version {other:?}, supported versions are \"v1\", \"v1beta1\"")),
    }
}

/// kube-apiserver's rules and words.
fn oidc(args: &ServeArgs) -> Result<Option<Oidc>, String> {
    let texts = [
        &args.oidc_issuer_url,
        &args.oidc_client_id,
        &args.oidc_username_claim,
        &args.oidc_username_prefix,
        &args.oidc_groups_claim,
        &args.oidc_groups_prefix,
    ];
    let is_any_set = texts.iter().any(|text| text.is_some())
        || args.oidc_ca_file.is_some()
        || !args.oidc_signing_algs.is_empty()
        || !args.oidc_required_claim.is_empty();
    if let Some(path) = args.authentication_config.clone() {
        if is_any_set {
            return Err("authentication-config file and oidc-* flags are mutually exclusive".to_owned());
        }
        return Ok(Some(Oidc::File { path, anonymous_flag: args.anonymous_auth.is_some() }));
    }
    if !is_any_set {
        return Ok(None);
    }
    let [issuer_url, client_id, username_claim, username_prefix, groups_claim, groups_prefix] =
        texts.map(|text| text.clone().unwrap_or_default());
    if issuer_url.is_empty() || client_id.is_empty() {
        return Err("oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set".to_owned());
    }
    let flags = Flags {
        issuer_url,
        client_id,
        certificate_authority: String::new(),
        username_claim: if args.oidc_username_claim.is_some() { username_claim } else { "sub".to_owned() },
        username_prefix,
        groups_claim,
        groups_prefix,
        required_claims: args.oidc_required_claim.iter().map(|pair| required_claim(pair)).collect::<Result<_, _>>()?,
    };
    Ok(Some(Oidc::Flags { flags: Box::new(flags), ca_file: args.oidc_ca_file.clone(), algorithms: algorithms(&args.oidc_signing_algs)? }))
}

fn required_claim(pair: &str) -> Result<(String, String), String> {
    let (name, value) =
        pair.split_once('=').ok_or_else(|| format!("--oidc-required-claim {pair:?}: malformed pair, expect string=string"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn algorithms(names: &[String]) -> Result<Vec<Algorithm>, String> {
    if names.is_empty() {
        return Ok(vec![Algorithm::Rs256]);
    }
    let known = |name: &String| Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name);
    names.iter().map(|name| known(name).ok_or_else(|| format!("oidc: unsupported signing alg: {name:?}"))).collect()
}
