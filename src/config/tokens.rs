//! Flags about authentication: which authenticators there are, and who issues tokens.

use std::path::PathBuf;
use std::time::Duration;

use auth::authn::{self, AccountsConfig, Anonymous, RequestHeaders};

use super::args::ServeArgs;
use super::secure::AUTHORITY_FILE;
use super::{Authorization, Providers, store::embedded};

/// Who issues tokens of service accounts.
#[derive(Clone, Debug)]
pub struct TokenIssuer {
    /// The file with the key; none where no token is issued, unless one is made.
    pub key_file: Option<PathBuf>,
    /// Whether a key is made in the data directory when no file is named.
    pub makes_key: bool,
    /// The issuer.
    pub name: String,
    /// Whom tokens are for when nobody says.
    pub audiences: Vec<String>,
    /// Longest life; zero for none.
    pub expiration_max: Duration,
    /// Whether kubelets' tokens live a year.
    pub extends: bool,
    /// Where the keys are, when that is not here.
    pub keys_url: Option<String>,
}

/// The authenticators of the TLS listener.
pub(super) fn authenticators(args: &ServeArgs, authorization: &Authorization, providers: &Providers) -> authn::Config {
    let mut key_files = args.service_account_key_file.clone();
    if key_files.is_empty() {
        key_files.extend(args.service_account_signing_key_file.clone());
    }
    authn::Config {
        client_ca_file: args.client_ca_file.clone(),
        own_ca_file: args.write_admin_kubeconfig.is_some().then(|| embedded(args).data_dir.join(AUTHORITY_FILE)),
        token_file: args.token_auth_file.clone(),
        proxy_ca_file: args.requestheader_client_ca_file.clone(),
        proxy_names: args.requestheader_allowed_names.clone(),
        proxy_headers: RequestHeaders {
            user: args.requestheader_username_headers.clone(),
            uid: args.requestheader_uid_headers.clone(),
            group: args.requestheader_group_headers.clone(),
            extra_prefix: args.requestheader_extra_headers_prefix.clone(),
        },
        accounts: Some(AccountsConfig { issuers: args.service_account_issuer.clone(), key_files, lookup: args.service_account_lookup }),
        bootstrap_tokens: args.enable_bootstrap_token_auth,
        audiences: audiences(args),
        anonymous: if authorization.anonymous { Anonymous::Yes } else { Anonymous::No },
        host_kubeconfig: providers.cluster.as_ref().map(|cluster| cluster.kubeconfig.clone()),
        asks_remote: providers.any(),
    }
}

/// Who issues tokens; `is_embedded`: there is a data directory in which a key can be made.
pub(super) fn issuer(args: &ServeArgs, is_embedded: bool) -> TokenIssuer {
    TokenIssuer {
        key_file: args.service_account_signing_key_file.clone(),
        makes_key: is_embedded && args.service_account_key_file.is_empty(),
        name: args.service_account_issuer.first().cloned().unwrap_or_default(),
        audiences: audiences(args),
        expiration_max: args.service_account_max_token_expiration,
        extends: args.service_account_extend_token_expiration,
        keys_url: args.service_account_jwks_uri.clone(),
    }
}

fn audiences(args: &ServeArgs) -> Vec<String> {
    if args.api_audiences.is_empty() { args.service_account_issuer.clone() } else { args.api_audiences.clone() }
}
