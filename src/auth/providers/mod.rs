//! Asks others whose a token is that nobody here knows: OpenID providers, then a webhook, then the cluster that this server extends (kube-apiserver's order,
//! after the token file, service accounts and bootstrap tokens).
//!
//! A question has [`QUESTION_TIME_MAX`]. The same token is asked about once, however many requests wait, and one address cannot have all questions under
//! way: who finds no place waits for one, so a token that hangs delays nobody else for long. That there was none says nothing about a token.

mod config_file;
mod host;
mod oidc;
pub mod settings;
mod token_review;

use std::fmt;
use std::fs;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use thiserror::Error;
use tokio::time::Instant;

use self::settings as config;
use crate::authn::oidc::{AuthenticationConfiguration, JwtAuthenticator};
use crate::authn::{Algorithm, Anonymous, AuthenticatedUser, Authenticator, Identity, NeedsRemote, Refusal};
use crate::right::AskingRight;
pub use client::TooMany;
use client::{KubeconfigError, Logins, Trust, WaiterLimit};
use config_file::ConfigFile;
use host::Host;
use oidc::Issuers;
use telemetry::Metrics;
use token_review::{TokenReviewer, Unreviewed, Way};

/// How long the answer about a token may take, whoever is asked and however often; kube-apiserver's number for a token that several requests share.
pub const QUESTION_TIME_MAX: Duration = Duration::from_secs(30);

/// So much before the end of a request's time it is told that there was no place for its question.
const BEFORE_THE_END: Duration = Duration::from_millis(50);

/// Requests that wait for what others say of their tokens, and those of one address.
const WAITING_MAX: usize = 4_096;
const WAITING_EACH_MAX: usize = 1_024;

/// Connections that questions to one server about tokens may need, and those to OpenID providers, of which few are asked at once.
pub const CONNECTIONS_EACH: usize = token_review::QUESTIONS_MAX;
pub const CONNECTIONS_OPENID: usize = 64;

/// Why there is nobody to ask. One line with the flag.
#[derive(Debug, Error)]
pub enum ProvidersError {
    /// A kubeconfig file.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// What else is wrong.
    #[error("{0}")]
    Other(String),
}

/// What the files say that the flags name, before anybody is asked.
#[derive(Default)]
pub struct Sources {
    issuers: Vec<JwtAuthenticator>,
    algorithms: Vec<Algorithm>,
    file: Option<ConfigFile>,
    reviewers: Vec<TokenReviewer>,
    host: Option<Host>,
}

impl Sources {
    /// Reads them.
    ///
    /// # Errors
    /// A file that cannot be read or makes no sense.
    pub fn read(config: &config::Providers, logins: &Logins) -> Result<Sources, ProvidersError> {
        let mut sources = Sources::default();
        match &config.oidc {
            None => {}
            Some(config::Oidc::Flags { flags, ca_file, algorithms }) => {
                let mut flags = flags.as_ref().clone();
                if let Some(path) = ca_file {
                    let wrong = |why: &dyn fmt::Display| ProvidersError::Other(format!("--oidc-ca-file {}: {why}", path.display()));
                    flags.certificate_authority = fs::read_to_string(path).map_err(|error| wrong(&error))?;
                    Trust::from_pem(flags.certificate_authority.as_bytes()).map_err(|error| wrong(&error))?;
                }
                let configuration =
                    AuthenticationConfiguration { jwt: vec![flags.authenticator()], ..AuthenticationConfiguration::default() };
                if let Some(why) = configuration.wrong(&config.account_issuers).first() {
                    return Err(ProvidersError::Other(format!("invalid authentication configuration: {why}")));
                }
                sources.issuers = configuration.jwt;
                sources.algorithms.clone_from(algorithms);
            }
            Some(config::Oidc::File { path, anonymous_flag }) => {
                let (file, configuration) = ConfigFile::read(path, &config.account_issuers)?;
                if *anonymous_flag && file.anonymous().is_some() {
                    let why = "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file";
                    return Err(ProvidersError::Other(why.to_owned()));
                }
                sources.issuers = configuration.jwt;
                sources.algorithms = Algorithm::ALL.to_vec();
                sources.file = Some(file);
            }
        }
        if let Some(webhook) = &config.webhook {
            sources.reviewers.push(TokenReviewer::new(Way::Webhook(webhook), logins)?);
        }
        if let Some(cluster) = &config.cluster {
            let login = logins.open(cluster.flag, &cluster.kubeconfig)?;
            sources.reviewers.push(TokenReviewer::new(Way::Cluster(&login, cluster), logins)?);
            if !cluster.skip_lookup {
                sources.host = Some(Host::new(&login, cluster)?);
            }
        }
        Ok(sources)
    }

    /// Who needs no credentials, if a file says.
    #[must_use]
    pub fn anonymous(&self) -> Option<Anonymous> {
        self.file.as_ref().and_then(|file| file.anonymous().cloned())
    }
}

/// Why nothing is known of a token. It is no judgement: who asks again may hear another answer.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum NotSaid {
    /// Nobody was asked.
    #[error(transparent)]
    TooMany(#[from] TooMany),
    /// The API server behind this one has not said anything of it.
    #[error("the API server behind this one does not say whose this token is, please try again later")]
    NoWord,
}

/// Whom to ask.
pub struct Providers {
    authenticator: Arc<Authenticator>,
    issuers: ArcSwap<Issuers>,
    reviewers: Vec<TokenReviewer>,
    host_wrong: Option<Arc<host::Missing>>,
    metrics: Arc<Metrics>,
    waiting: WaiterLimit<IpAddr>,
}

impl Providers {
    /// Begins to look for the keys of OpenID providers, and to follow the files and the host cluster, which is asked once before.
    ///
    /// # Errors
    /// An OpenID provider that cannot be used, or a host cluster that does not say whom it believes.
    pub async fn start(
        sources: Sources,
        authenticator: Arc<Authenticator>,
        metrics: Arc<Metrics>,
    ) -> Result<Arc<Providers>, ProvidersError> {
        let issuers = Issuers::start(&sources.issuers, &sources.algorithms).map_err(ProvidersError::Other)?;
        let host_wrong = sources.host.as_ref().map(Host::wrong);
        let (issuers, reviewers) = (ArcSwap::from_pointee(issuers), sources.reviewers);
        let waiting = WaiterLimit::new(WAITING_MAX, WAITING_EACH_MAX);
        let providers = Providers { authenticator, issuers, reviewers, host_wrong, metrics, waiting };
        let providers = Arc::new(providers);
        for reviewer in &providers.reviewers {
            tokio::spawn(reviewer.follow_right());
        }
        if let Some(file) = sources.file {
            let providers = providers.clone();
            tokio::spawn(async move { file.follow(&providers).await });
        }
        if let Some(mut host) = sources.host {
            host.first(&providers.authenticator).await?;
            let authenticator = providers.authenticator.clone();
            tokio::spawn(async move { host.follow(&authenticator).await });
        }
        Ok(providers)
    }

    /// Why the host cluster does not say whom it believes now, and whether it has said so before: then that counts on.
    #[must_use]
    pub fn host_wrong(&self) -> Option<(String, bool)> {
        self.host_wrong.as_ref()?.load().as_deref().cloned()
    }

    /// Returns whether the cluster that is asked about tokens lets us ask, if there is one.
    #[must_use]
    pub fn right(&self) -> Option<&AskingRight> {
        self.reviewers.iter().find_map(|reviewer| reviewer.right()).map(|right| &**right)
    }

    /// These are asked from now on.
    fn take(&self, issuers: Issuers) {
        self.issuers.store(Arc::new(issuers));
    }

    /// Whose token it is, for these audiences, or for those of the API when there are none. `client` is who asks.
    ///
    /// # Errors
    /// There was no place for the question `until` then, or too many wait for one already: nobody was asked. Or only upstream could say,
    /// and has not.
    pub async fn authenticate(
        &self,
        asked: NeedsRemote,
        audiences: &[String],
        client: IpAddr,
        until: Instant,
    ) -> Result<Identity, NotSaid> {
        let _waiting = self.waiting.enter(client)?;
        // It is told that there was no place before it is told that the time is over. Each question ends by itself; its time begins when it has a place.
        let place_until = until.checked_sub(BEFORE_THE_END).unwrap_or(until);
        let mut refusal = asked.refusal;
        match self.asked_issuers(&asked.token, audiences, client, place_until).await? {
            Ok(Some(authenticated)) => return Ok(self.known(&asked.token, audiences, authenticated)),
            Ok(None) => {}
            Err(why) => refusal = refusal.and(why),
        }
        let wanted = if audiences.is_empty() { self.authenticator.audiences() } else { audiences };
        for reviewer in &self.reviewers {
            match reviewer.review(&asked.token, wanted, self.authenticator.audiences(), client, place_until).await? {
                Ok(Some(authenticated)) => return Ok(self.known(&asked.token, audiences, authenticated)),
                Ok(None) => {}
                Err(Unreviewed::NoWord(_)) if reviewer.is_upstream() => return Err(NotSaid::NoWord),
                Err(why) => refusal = refusal.and(Refusal::from(why.to_string())),
            }
        }
        Ok(Identity::Invalid(refusal))
    }

    /// What OpenID providers say; their tokens are for the audiences of the API.
    async fn asked_issuers(
        &self,
        token: &str,
        audiences: &[String],
        client: IpAddr,
        until: Instant,
    ) -> Result<Result<Option<AuthenticatedUser>, Refusal>, TooMany> {
        let shared = self.authenticator.shared_audiences(Some(audiences).filter(|audiences| !audiences.is_empty()));
        let Some(audiences) = shared else { return Ok(Ok(None)) };
        let issuers = self.issuers.load_full();
        let evaluated = issuers.evaluate(token, client, until).await?;
        Ok(evaluated.map(|authenticated| authenticated.map(|authenticated| AuthenticatedUser { audiences, ..authenticated })))
    }

    fn known(&self, token: &str, audiences: &[String], authenticated: AuthenticatedUser) -> Identity {
        self.authenticator.remember(token, audiences, &authenticated, SystemTime::now());
        Identity::User(authenticated)
    }
}

#[cfg(test)]
mod tests;
