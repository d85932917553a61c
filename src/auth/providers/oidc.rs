//! OpenID providers: finds each one's keys in the background, and judges tokens with them. Fetches the keys again when a token names one that is not known
//! and those that are have lasted long enough, once for all requests that wait, of which there is a limit for all and one for each address.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use http::header::{AGE, CACHE_CONTROL};
use http::{HeaderMap, StatusCode, Uri};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::QUESTION_TIME_MAX;
use crate::authn::oidc::{Answer, DISCOVERY_BYTES_MAX, JwtAuthenticator, Provider, ProviderKeys, discovery_url, keys_url};
use crate::authn::{Algorithm, AuthenticatedUser, Refusal};
use client::{Client, FlightLimits, Limits, SingleFlight, TooMany, Trust};

/// Between two tries to find a provider's keys; kube-apiserver's number.
const FIND_PAUSE: Duration = Duration::from_secs(10);
/// Requests to one provider at once: one finds its keys, one fetches them.
const CONCURRENT_MAX: usize = 2;
/// Requests that wait for the keys of one provider, and those of one address: fewer than may wait for what others say of their tokens, so that a provider that
/// hangs leaves room for those who have others to ask.
const WAITING_MAX: usize = super::WAITING_MAX / 4;
const WAITING_EACH_MAX: usize = super::WAITING_EACH_MAX / 4;
/// Keys are fetched again after this time at the latest, whatever the provider says; ours.
const KEYS_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// The providers of one configuration. Those of another one take their place whole.
pub(super) struct Issuers {
    all: Vec<Arc<Issuer>>,
    /// Find the keys; end with this.
    _finding: JoinSet<()>,
}

/// Whose token it is, if the provider made it; or why it is nobody's.
type Evaluated = Result<Option<AuthenticatedUser>, Refusal>;

/// One provider.
struct Issuer {
    provider: Provider,
    client: Client,
    /// Where it tells about itself.
    discovery: Uri,
    /// Where its keys are, once it has told.
    keys_url: OnceLock<Uri>,
    keys: ArcSwap<ProviderKeys>,
    /// Held by whoever fetches.
    fetching: Mutex<()>,
    /// Those who wait for the keys.
    flights: SingleFlight<(), IpAddr, Result<(), String>>,
}

impl Issuers {
    /// Begins to find the keys of these providers. Must be called inside of a runtime.
    ///
    /// # Errors
    /// A provider's certificate authority, or its URL, that cannot be used.
    pub(super) fn start(configured: &[JwtAuthenticator], algorithms: &[Algorithm]) -> Result<Issuers, String> {
        let all: Vec<Arc<Issuer>> =
            configured.iter().map(|config| Issuer::new(config, algorithms).map(Arc::new)).collect::<Result<_, _>>()?;
        let mut finding = JoinSet::new();
        for issuer in &all {
            finding.spawn(issuer.clone().find());
        }
        Ok(Issuers { all, _finding: finding })
    }

    /// Whose token it is, if one of them made it. The first one that made it decides. `client` is who asks.
    ///
    /// # Errors
    /// Too many wait for the keys, or nobody was asked for them `until` then.
    pub(super) async fn evaluate(&self, token: &str, client: IpAddr, until: Instant) -> Result<Evaluated, TooMany> {
        for issuer in &self.all {
            match issuer.evaluate(token, client, until).await? {
                Ok(None) => {}
                evaluated => return Ok(evaluated),
            }
        }
        Ok(Ok(None))
    }

    /// Waits until all have told where their keys are.
    ///
    /// # Errors
    /// Which one has not in this time.
    pub(super) async fn ready(&self, within: Duration) -> Result<(), String> {
        let until = Instant::now() + within;
        for issuer in &self.all {
            while issuer.keys_url.get().is_none() {
                if Instant::now() >= until {
                    return Err(format!("oidc: authenticator for issuer {:?} is not healthy", issuer.provider.config.issuer.url));
                }
                sleep(Duration::from_millis(100)).await;
            }
        }
        Ok(())
    }
}

impl Issuer {
    fn new(config: &JwtAuthenticator, algorithms: &[Algorithm]) -> Result<Issuer, String> {
        let issuer = &config.issuer;
        let wrong = |why: String| format!("OpenID provider {:?}: {why}", issuer.url);
        let trust = match issuer.certificate_authority.as_str() {
            "" => Trust::System,
            pem => Trust::from_pem(pem.as_bytes()).map_err(wrong)?,
        };
        let limits = Limits { timeout: QUESTION_TIME_MAX, answer_bytes_max: DISCOVERY_BYTES_MAX, concurrent_max: CONCURRENT_MAX };
        let discovery = discovery_url(&issuer.url, issuer.discovery_url.as_deref());
        Ok(Issuer {
            provider: Provider { config: config.clone(), algorithms: algorithms.to_vec() },
            client: Client::trusting(&trust, limits).map_err(wrong)?,
            discovery: discovery.parse().map_err(|error: http::uri::InvalidUri| wrong(error.to_string()))?,
            keys_url: OnceLock::new(),
            keys: ArcSwap::default(),
            fetching: Mutex::default(),
            flights: SingleFlight::new(FlightLimits {
                waiting: WAITING_MAX,
                waiting_each: WAITING_EACH_MAX,
                waiting_together: WAITING_MAX,
                ..FlightLimits::of(1, 1)
            }),
        })
    }

    /// Asks until it is known where the keys are. Tokens are refused before.
    async fn find(self: Arc<Self>) {
        loop {
            match self.discovered().await {
                Ok(url) => {
                    // Nobody else sets it.
                    let _ = self.keys_url.set(url);
                    // Without them now, the first token fetches them.
                    if let Err(why) = self.fetch().await {
                        tracing::warn!(issuer = self.provider.config.issuer.url, %why, "the keys of an OpenID provider could not be fetched");
                    }
                    return;
                }
                Err(why) => {
                    let issuer = &self.provider.config.issuer.url;
                    tracing::warn!(issuer, %why, "an OpenID provider does not tell about itself; its tokens are refused until it does");
                }
            }
            sleep(FIND_PAUSE).await;
        }
    }

    async fn discovered(&self) -> Result<Uri, String> {
        let body = self.get(&self.discovery).await?.1;
        let url = keys_url(&body, &self.provider.config.issuer.url)?;
        url.parse().map_err(|error| format!("jwks_uri {url:?}: {error}"))
    }

    /// A document, if its status is 200.
    async fn get(&self, url: &Uri) -> Result<(HeaderMap, bytes::Bytes), String> {
        let answer = self.client.get(url).await.map_err(|error| error.to_string())?;
        if answer.status == StatusCode::OK {
            return Ok((answer.headers, answer.body));
        }
        let text = String::from_utf8_lossy(&answer.body[..answer.body.len().min(200)]).into_owned();
        Err(format!("{}: {text}", answer.status))
    }

    /// Fetches the keys, unless somebody else just has.
    async fn fetch(&self) -> Result<(), String> {
        let _one = self.fetching.lock().await;
        let mut keys = ProviderKeys::clone(&self.keys.load());
        let Some(url) = self.keys_url.get().filter(|_| keys.may_fetch(SystemTime::now())) else { return Ok(()) };
        let fetched = match self.get(url).await {
            Ok((headers, jwks)) => {
                let now = SystemTime::now();
                keys.fetched(&jwks, now + good_for(&headers), now)
            }
            Err(why) => Err(format!("oidc: get keys failed: {why}")),
        };
        if fetched.is_err() {
            keys.failed(SystemTime::now());
        }
        self.keys.store(Arc::new(keys));
        fetched
    }

    async fn evaluate(self: &Arc<Self>, token: &str, client: IpAddr, until: Instant) -> Result<Evaluated, TooMany> {
        let evaluated = self.provider.evaluate(token, &self.keys.load(), SystemTime::now());
        if matches!(evaluated, Ok(None)) {
            return Ok(Ok(None));
        }
        if self.keys_url.get().is_none() {
            return Ok(Err(Refusal::from("oidc: authenticator not initialized".to_owned())));
        }
        if !matches!(evaluated, Ok(Some(Answer::Fetch))) {
            return Ok(evaluated.map(authenticated));
        }
        let fetched = self.flights.get((), client, 0, until, || self.clone().fetch_in_time());
        let fetched = fetched.await.inspect_err(|error| {
            tracing::warn!(%error, issuer = self.provider.config.issuer.url, "cannot wait for the keys of an OpenID provider");
        })?;
        let unverified = |why: &str| Refusal::from(format!("oidc: verify token: failed to verify signature: {why}"));
        Ok(match fetched {
            Err(why) => Err(unverified(&why)),
            Ok(()) => match self.provider.evaluate(token, &self.keys.load(), SystemTime::now()) {
                Ok(Some(Answer::Fetch)) => Err(unverified("failed to verify id token signature")),
                evaluated => evaluated.map(authenticated),
            },
        })
    }

    async fn fetch_in_time(self: Arc<Self>) -> Result<(), String> {
        match timeout(QUESTION_TIME_MAX, self.fetch()).await {
            Ok(fetched) => fetched.map_err(|why| format!("fetching keys {why}")),
            Err(_) => Err("context deadline exceeded".to_owned()),
        }
    }
}

fn authenticated(answer: Option<Answer>) -> Option<AuthenticatedUser> {
    match answer {
        Some(Answer::AuthenticatedUser(authenticated)) => Some(authenticated),
        Some(Answer::Fetch) | None => None,
    }
}

/// How long `Cache-Control` lets a shared cache keep an answer; not at all when it does not say.
fn good_for(headers: &HeaderMap) -> Duration {
    let all: Vec<String> = headers.get_all(CACHE_CONTROL).iter().filter_map(|value| Some(value.to_str().ok()?.to_lowercase())).collect();
    let directives: Vec<&str> = all.iter().flat_map(|line| line.split(',')).map(str::trim).collect();
    if directives.iter().any(|name| ["no-store", "no-cache", "private"].iter().any(|no| name.split('=').next() == Some(no))) {
        return Duration::ZERO;
    }
    let seconds = |name: &str| {
        let value = directives.iter().find_map(|directive| directive.strip_prefix(name)?.strip_prefix('='));
        value.and_then(|value| value.trim_matches('"').parse::<u64>().ok())
    };
    let age = headers.get(AGE).and_then(|age| age.to_str().ok()?.parse::<u64>().ok()).unwrap_or(0);
    let most = seconds("s-maxage").or_else(|| seconds("max-age")).unwrap_or(0);
    Duration::from_secs(most.saturating_sub(age)).min(KEYS_AGE_MAX)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn keys_are_good_as_long_as_the_provider_says() {
        let good = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CACHE_CONTROL, HeaderValue::from_static(value));
            good_for(&headers).as_secs()
        };
        assert_eq!(good_for(&HeaderMap::new()), Duration::ZERO);
        assert_eq!((good("max-age=60"), good("public, Max-Age=60, s-maxage=\"90\""), good("max-age=x")), (60, 90, 0));
        assert_eq!((good("no-store, max-age=60"), good("max-age=18446744073709551615")), (0, 24 * 3600));
        let mut old = HeaderMap::new();
        old.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=60"));
        old.insert(AGE, HeaderValue::from_static("70"));
        assert_eq!(good_for(&old), Duration::ZERO);
    }
}
