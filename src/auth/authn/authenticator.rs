//! Tries the configured authenticators in kube-apiserver's order (spec api-surface §12).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use http::HeaderMap;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use rustls::pki_types::CertificateDer;
use rustls::server::danger::ClientCertVerifier;

use super::cache::Key;
use super::cache::{self, Cache};
use super::directory::Directory;
use super::host::{Host, HostAuthorities, HostProxy};
use super::jwt::TOKEN_BYTES_MAX;
use super::keys::PublicKey;
use super::request_header::{RequestHeaders, clear_standard};
use super::service_account::Accounts;
use super::x509::{Authorities, CertificateTrust, ClientCertificate, PresentedChain, Proxy, handshake_verifier};
use super::{
    Anonymous, AuthenticatedUser, AuthnOutcome, Credential, Identity, NeedsRemote, Refusal, bootstrap_token, intersection, protocol, tokens,
};
use reload::{FileError, Named, Reload, Reloaded};

/// Configures the authenticators.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// `--client-ca-file`.
    pub client_ca_file: Option<PathBuf>,
    /// The authority that is made for `--write-admin-kubeconfig`; trusted besides.
    pub own_ca_file: Option<PathBuf>,
    /// `--token-auth-file`.
    pub token_file: Option<PathBuf>,
    /// `--requestheader-client-ca-file`: then a proxy in front is trusted.
    pub proxy_ca_file: Option<PathBuf>,
    /// `--requestheader-allowed-names`: CNs of the proxy; any when there are none.
    pub proxy_names: Vec<String>,
    /// Other `--requestheader-…` flags.
    pub proxy_headers: RequestHeaders,
    /// Tokens of service accounts.
    pub accounts: Option<AccountsConfig>,
    /// `--enable-bootstrap-token-auth`.
    pub bootstrap_tokens: bool,
    /// `--api-audiences`, or the issuers of service accounts' tokens.
    pub audiences: Vec<String>,
    /// `--anonymous-auth`.
    pub anonymous: Anonymous,
    /// `--authentication-kubeconfig`: of a cluster whose authorities of certificates are trusted besides those of the files.
    pub host_kubeconfig: Option<PathBuf>,
    /// Whether an OpenID provider or a webhook is asked about tokens that no local authenticator knows.
    pub asks_remote: bool,
}

/// Flags of service accounts' tokens.
#[derive(Clone, Debug, Default)]
pub struct AccountsConfig {
    /// `--service-account-issuer`; the first one issues.
    pub issuers: Vec<String>,
    /// `--service-account-key-file`.
    pub key_files: Vec<PathBuf>,
    /// `--service-account-lookup`.
    pub lookup: bool,
}

/// The configured authenticators.
#[derive(Debug)]
pub struct Authenticator {
    proxies: Option<Proxies>,
    authorities: Option<Reloaded<Authorities>>,
    tokens: Reloaded<tokens::Tokens>,
    accounts: Option<Reloaded<Accounts>>,
    bootstrap_tokens: bool,
    audiences: Vec<String>,
    anonymous: Anonymous,
    asks_remote: bool,
    host: Host,
    cache: Cache,
}

/// The proxy in front.
#[derive(Debug)]
struct Proxies {
    authorities: Reloaded<Authorities>,
    names: Vec<String>,
    headers: RequestHeaders,
}

/// What an authenticator needs to know of a request besides its headers.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Its path.
    pub path: &'a str,
    /// The certificate of its connection.
    pub certificate: &'a ClientCertificate,
    /// Whether it asks for a WebSocket: then a token may be among the subprotocols.
    pub is_socket: bool,
    /// Where bound objects are looked up.
    pub directory: &'a dyn Directory,
    /// Now.
    pub now: SystemTime,
}

impl Authenticator {
    /// Reads the files that `config` names.
    ///
    /// # Errors
    /// A file that cannot be read or parsed; the message is one line with the flag's name.
    pub fn load(config: &Config) -> Result<Authenticator, FileError> {
        let named = |flag, path: &Option<PathBuf>| path.clone().map(|path| Named { flag, path });
        let authorities = |files: Vec<Named>| match files[..] {
            [] => Ok(None),
            _ => Reloaded::load(files, Authorities::of_files).map(Some),
        };
        let clients = [named("--client-ca-file", &config.client_ca_file), named("--write-admin-kubeconfig", &config.own_ca_file)];
        let tokens = named("--token-auth-file", &config.token_file).into_iter().collect();
        let tokens = Reloaded::load(tokens, |files| tokens::Tokens::from_csv(&files.concat()).map_err(|what| (0, what)))?;
        let accounts = config.accounts.as_ref().map(|accounts| {
            let (config, audiences) = (accounts.clone(), config.audiences.clone());
            let files = accounts.key_files.iter().map(|path| Named { flag: "--service-account-key-file", path: path.clone() });
            Reloaded::load(files.collect(), move |files| {
                let mut keys = Vec::new();
                for (number, pem) in files.iter().enumerate() {
                    keys.extend(PublicKey::from_pem(pem).map_err(|error| (number, error.to_string()))?);
                }
                Ok(Accounts { issuers: config.issuers.clone(), keys, audiences: audiences.clone(), lookup: config.lookup })
            })
        });
        let (names, headers) = (config.proxy_names.clone(), config.proxy_headers.clone());
        let proxies = authorities(named("--requestheader-client-ca-file", &config.proxy_ca_file).into_iter().collect())?;
        Ok(Authenticator {
            proxies: proxies.map(|authorities| Proxies { authorities, names, headers }),
            authorities: authorities(clients.into_iter().flatten().collect())?,
            tokens,
            accounts: accounts.transpose()?,
            bootstrap_tokens: config.bootstrap_tokens,
            audiences: config.audiences.clone(),
            anonymous: config.anonymous.clone(),
            asks_remote: config.asks_remote,
            host: Host::new(config.host_kubeconfig.clone()),
            cache: Cache::default(),
        })
    }

    /// Returns what is read from files, for reloading.
    pub fn reloads(&self) -> impl Iterator<Item = &dyn Reload> {
        let proxies = self.proxies.iter().map(|proxies| &proxies.authorities as &dyn Reload);
        let authorities = self.authorities.iter().map(|authorities| authorities as &dyn Reload);
        let accounts = self.accounts.iter().map(|accounts| accounts as &dyn Reload);
        proxies.chain(authorities).chain([&self.tokens as &dyn Reload, &self.host]).chain(accounts)
    }

    /// Trusts the authorities of the host cluster, in the place of files that are not named.
    pub fn trust_host(&self, host: HostAuthorities) {
        self.host.set(host);
    }

    /// Returns the authorities of client certificates.
    pub(super) fn client_authorities(&self) -> Option<Arc<Authorities>> {
        match &self.authorities {
            Some(files) => Some(files.now()),
            None => self.host.now()?.clients.clone(),
        }
    }

    /// Calls `look` with the proxy in front, if there is one: its authorities, names and headers.
    pub(super) fn with_proxy<T>(&self, look: impl FnOnce(&Arc<Authorities>, &[String], &RequestHeaders) -> T) -> Option<T> {
        if let Some(Proxies { authorities, names, headers }) = &self.proxies {
            return Some(look(&authorities.now(), names, headers));
        }
        let host = self.host.now()?;
        let HostProxy { authorities, names, headers } = host.proxy.as_ref()?;
        Some(look(authorities, names, headers))
    }

    /// Returns the audiences of the API.
    #[must_use]
    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// Returns the keys that tokens of service accounts may be signed with.
    #[must_use]
    pub fn account_keys(&self) -> Vec<PublicKey> {
        self.accounts.as_ref().map_or(Vec::new(), |accounts| accounts.now().keys.clone())
    }

    /// Returns what the TLS listener requires of a client's certificate: nothing but possession of its key, so that an untrusted one ends in a 401 and not in a
    /// broken handshake. `None` when no authority is configured: then no certificate is asked for.
    pub fn handshake_verifier(&self) -> Option<Arc<dyn ClientCertVerifier>> {
        let proxy = self.with_proxy(|authorities, _, _| Arc::clone(authorities));
        let all: Vec<Arc<Authorities>> = self.client_authorities().into_iter().chain(proxy).collect();
        handshake_verifier(&all)
    }

    /// Counts the changes of the authorities of certificates.
    pub fn authorities_generation(&self) -> u64 {
        let proxies = self.proxies.as_ref().map(|proxies| &proxies.authorities);
        self.authorities.iter().chain(proxies).map(Reloaded::generation).sum::<u64>() + self.host.generation()
    }

    /// Evaluates the chain that a handshake presented.
    pub fn presented(&self, chain: Option<&[CertificateDer<'_>]>, now: SystemTime) -> PresentedChain {
        let chain: Vec<_> = chain.unwrap_or_default().iter().map(|certificate| certificate.clone().into_owned()).collect();
        let generation = self.authorities_generation();
        PresentedChain::new(generation, self.certificate(&chain, now), chain)
    }

    /// Returns the trust in the certificate of a connection: evaluated again when the authorities have changed.
    pub fn evaluated(&self, presented: &PresentedChain, now: SystemTime) -> Arc<ClientCertificate> {
        let generation = self.authorities_generation();
        presented.evaluated(generation, |chain| self.certificate(chain, now))
    }

    /// Whether a credential is still valid, or a file has revoked it. `presented` is the certificate of the connection that it came on.
    pub fn is_still_valid(&self, credential: &Credential, presented: &PresentedChain, now: SystemTime) -> bool {
        match credential {
            Credential::Lasting => true,
            Credential::Certificate => matches!(self.evaluated(presented, now).trust, CertificateTrust::Trusted { .. }),
            Credential::Proxy => matches!(self.evaluated(presented, now).proxy, Proxy::Trusted(_)),
            Credential::Token(known) => self.tokens.now().user(&known.0).as_ref() == Some(&known.1),
        }
    }

    fn certificate(&self, chain: &[CertificateDer<'_>], now: SystemTime) -> ClientCertificate {
        let [leaf, rest @ ..] = chain else { return ClientCertificate::ABSENT };
        let trust = self.client_authorities().map_or(CertificateTrust::Absent, |authorities| authorities.evaluate(leaf, rest, now));
        let proxy = self.with_proxy(|authorities, names, _| authorities.evaluate_proxy(names, leaf, rest, now));
        ClientCertificate { trust, proxy: proxy.unwrap_or(Proxy::Absent) }
    }

    /// Authenticates a request on the TLS listener. The first credential that holds wins; a wrong one with no right one beside it is `Invalid`. Headers that a
    /// proxy in front may set are gone afterwards, and so is a token that was accepted, so that no handler sees them.
    ///
    /// A WebSocket's own token is tried last, and only if no token of a header needs a remote authenticator.
    pub fn identify(&self, headers: &mut HeaderMap, context: &Context<'_>) -> AuthnOutcome {
        let ask = self.outcome(headers, context);
        clear_standard(headers);
        self.with_proxy(|_, _, names| names.clear(headers));
        if matches!(ask, AuthnOutcome::Identity(Identity::User(_))) {
            headers.remove(AUTHORIZATION);
        }
        ask
    }

    fn outcome(&self, headers: &mut HeaderMap, context: &Context<'_>) -> AuthnOutcome {
        let known = |authenticated| AuthnOutcome::Identity(Identity::User(authenticated));
        let mut refusal: Option<Refusal> = None;
        let refuse = |refusal: &mut Option<Refusal>, other: Refusal| *refusal = Some(refusal.take().unwrap_or_default().and(other));
        let now = context.now;
        match &context.certificate.proxy {
            Proxy::Trusted(expires) if now <= *expires => {
                if let Some(user) = self.with_proxy(|_, _, names| names.user(headers)).flatten() {
                    return known(AuthenticatedUser {
                        expires: Some(*expires),
                        credential: Credential::Proxy,
                        ..AuthenticatedUser::of(user)
                    });
                }
            }
            Proxy::Trusted(_) => refuse(&mut refusal, "the certificate has expired".to_owned().into()),
            Proxy::Untrusted(why) => refuse(&mut refusal, why.clone().into()),
            Proxy::Absent => {}
        }
        match &context.certificate.trust {
            CertificateTrust::Trusted { user, expires } if now <= *expires => {
                let (user, expires) = (Arc::clone(user), Some(*expires));
                return known(AuthenticatedUser { user, expires, credential: Credential::Certificate, ..AuthenticatedUser::default() });
            }
            CertificateTrust::Trusted { .. } => refuse(&mut refusal, "the certificate has expired".to_owned().into()),
            CertificateTrust::Untrusted(why) => refuse(&mut refusal, why.clone().into()),
            CertificateTrust::Absent => {}
        }
        if let Some(token) = headers.get(AUTHORIZATION).and_then(|value| bearer(value.as_bytes())) {
            match self.token(token, None, context.directory, now) {
                Ok(authenticated) => return known(authenticated),
                Err(other) => refuse(&mut refusal, other),
            }
            if let Some(needs_remote) = self.needs_remote(token, refusal.as_ref()) {
                return needs_remote;
            }
        }
        if context.is_socket {
            match protocol::offered(headers) {
                Ok(None) => {}
                Err(protocol::Unusable) => refuse(&mut refusal, Refusal::default()),
                Ok(Some(offer)) => match self.token(&offer.token, None, context.directory, now) {
                    Ok(authenticated) => {
                        headers.insert(SEC_WEBSOCKET_PROTOCOL, offer.others);
                        return known(authenticated);
                    }
                    Err(other) => {
                        refuse(&mut refusal, other);
                        if let Some(needs_remote) = self.needs_remote(&offer.token, refusal.as_ref()) {
                            headers.insert(SEC_WEBSOCKET_PROTOCOL, offer.others);
                            return needs_remote;
                        }
                    }
                },
            }
        }
        AuthnOutcome::Identity(match (refusal, self.anonymous.user(context.path)) {
            (Some(refusal), _) => Identity::Invalid(refusal),
            (None, Some(user)) => Identity::User(AuthenticatedUser::of(user)),
            (None, None) => Identity::None,
        })
    }

    /// What a TokenReview says of a token that is for one of these audiences; for those of the API when there are none. A token that is no credential at all,
    /// as kube-apiserver reads `Bearer TOKEN`, is anonymous.
    pub fn review(&self, token: &str, audiences: &[String], directory: &dyn Directory, now: SystemTime) -> AuthnOutcome {
        let value = format!("Bearer {token}");
        let audiences = Some(audiences).filter(|audiences| !audiences.is_empty());
        let Some(token) = bearer(value.as_bytes()) else {
            let audiences = audiences.unwrap_or(&self.audiences).to_vec();
            return AuthnOutcome::Identity(match self.anonymous.user("") {
                Some(user) => Identity::User(AuthenticatedUser { audiences, ..AuthenticatedUser::of(user) }),
                None => Identity::None,
            });
        };
        match self.token(token, audiences, directory, now) {
            Ok(authenticated) => AuthnOutcome::Identity(Identity::User(authenticated)),
            Err(refusal) => self.needs_remote(token, Some(&refusal)).unwrap_or(AuthnOutcome::Identity(Identity::Invalid(refusal))),
        }
    }

    /// Refers a token to the remote authenticators, if there are any, and it is one that they can be asked about.
    fn needs_remote(&self, token: &[u8], refusal: Option<&Refusal>) -> Option<AuthnOutcome> {
        let token = std::str::from_utf8(token).ok().filter(|token| self.asks_remote && token.len() <= TOKEN_BYTES_MAX)?.to_owned();
        Some(AuthnOutcome::NeedsRemote(NeedsRemote { token, refusal: refusal.cloned().unwrap_or_default() }))
    }

    /// Caches for ten seconds the user of a token whom a remote authenticator knew.
    pub fn remember(&self, token: &str, audiences: &[String], authenticated: &AuthenticatedUser, now: SystemTime) {
        let audiences = Some(audiences).filter(|audiences| !audiences.is_empty());
        self.cache.put(self.cache_key(&tokens::digest(token.as_bytes()), audiences), authenticated, now);
    }

    /// For which of the audiences that are asked for credentials are that say nothing about audiences, as those of OpenID providers: for those of the API.
    /// `None` when they are for none of them.
    pub fn shared_audiences(&self, asked: Option<&[String]>) -> Option<Vec<String>> {
        let asked = asked.unwrap_or(&self.audiences);
        Some(intersection(&self.audiences, asked)).filter(|shared| asked.is_empty() || !shared.is_empty())
    }

    /// Under which a token is remembered as long as the keys are the same.
    fn cache_key(&self, digest: &Key, audiences: Option<&[String]>) -> Key {
        cache::key_of(digest, audiences, self.accounts.as_ref().map_or(0, Reloaded::generation))
    }

    /// Asks all that know tokens.
    fn token(
        &self,
        token: &[u8],
        audiences: Option<&[String]>,
        directory: &dyn Directory,
        now: SystemTime,
    ) -> Result<AuthenticatedUser, Refusal> {
        let Some(text) = std::str::from_utf8(token).ok().filter(|text| text.len() <= TOKEN_BYTES_MAX) else {
            return Err(Refusal::default());
        };
        let shared = self.shared_audiences(audiences);
        let digest = tokens::digest(token);
        if let Some(user) = shared.as_ref().and_then(|_| self.tokens.now().user(&digest)) {
            let credential = Credential::Token(Box::new((digest, Arc::clone(&user))));
            return Ok(AuthenticatedUser { user, audiences: shared.unwrap_or_default(), credential, ..AuthenticatedUser::default() });
        }
        // Before the keys are looked at: what the old ones vouched for is not found under the new ones.
        let key = self.cache_key(&digest, audiences);
        if let Some(authenticated) = self.cache.get(&key, now) {
            return Ok(authenticated);
        }
        let accounts = self.accounts.as_ref().map(Reloaded::now);
        let (found, refusal) = match accounts.map_or(Ok(None), |accounts| accounts.evaluate(text, audiences, directory, now)) {
            Ok(found) => (found, Refusal::default()),
            Err(refusal) => (None, refusal),
        };
        let bootstrap = || {
            let audiences = shared.filter(|_| self.bootstrap_tokens)?;
            Some(AuthenticatedUser { audiences, ..bootstrap_token::evaluate(text, directory, now)? })
        };
        let authenticated = found.or_else(bootstrap).ok_or(refusal)?;
        self.cache.put(key, &authenticated, now);
        Ok(authenticated)
    }
}

/// The token of `Authorization: Bearer TOKEN`, as kube-apiserver reads it: first header only, scheme in any case, text after a second space ignored.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let mut parts = value.trim_ascii().split(|byte| *byte == b' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case(b"bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests;
