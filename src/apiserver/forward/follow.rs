//! What upstream serves, followed while it changes: asks its discovery and its version again and again, each time over a new connection.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use axum::body::Body;
use http::header::{ACCEPT, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::{Duration, Instant, sleep, timeout};
use upstream::{Agreed, Named, Offered, Recent, Said, Trusted, Upstream, Visit, Whole, headers};

use super::super::api::Api;
use super::{FIRST_LOOKS, LOOK_INTERVAL, LOOK_TIMEOUT, LOOKER, Replica};
use auth::{AUTHENTICATED, User};
use catalogue::{Served, releases};

/// Upstream is asked in its short form where it has one.
const WANTED: HeaderValue =
    HeaderValue::from_static("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json");
const SHORT_FORM: &str = "as=APIGroupDiscoveryList";
/// How long a long form is not asked for again: it takes two dozen questions.
const LONG_FORM_FOR: Duration = Duration::from_secs(60);
/// Answers that are asked for at first, before anything counts as known: servers of one address may be of two releases.
const FIRST_ANSWERS: usize = 3;

/// See the file's header.
#[derive(Default)]
pub(super) struct Follow {
    agreed: ArcSwapOption<Agreed>,
    asking: Mutex<Asking>,
}

#[derive(Default)]
struct Asking {
    began: Option<Instant>,
    recent: Recent,
    /// By path, what was said last and how it may be asked for again.
    known: BTreeMap<&'static str, Known>,
    answers: usize,
}

struct Known {
    offered: Offered,
    etag: Option<HeaderValue>,
    at: Instant,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Version {
    major: String,
    minor: String,
}

impl Version {
    /// The minor, of a release whose major is ours; some builds add a plus.
    fn into_minor(self) -> Option<String> {
        let minor = self.minor.trim_end_matches('+');
        (self.major == "1" && !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit())).then(|| minor.to_owned())
    }
}

impl Follow {
    /// What upstream's servers agree on; none before it is known.
    pub(super) fn agreed(&self) -> Option<Arc<Agreed>> {
        self.agreed.load_full()
    }

    /// Whether each of upstream's servers serves this.
    pub(super) fn reads(&self, served: &Served, part: Option<&str>) -> bool {
        self.agreed.load().as_ref().is_some_and(|agreed| match part {
            None => agreed.reads(named(served), catalogue::MINOR),
            Some(part) => agreed.reads(named(served), catalogue::MINOR) && agreed.reads_part(named(served), part, catalogue::MINOR),
        })
    }

    /// Whether the releases of all show the objects of this as they are shown here, and print their Tables so where one is asked for.
    pub(super) fn shows(&self, served: &Served, is_table: bool) -> bool {
        let alike = |minor: &String| releases::shows(minor, served) && (!is_table || releases::prints(minor, served));
        self.agreed.load().as_ref().is_some_and(|agreed| agreed.minors.iter().all(alike))
    }

    /// Asks once, as whom the headers say; whether anything has changed.
    ///
    /// # Errors
    /// What is wrong with upstream's answers, for people.
    pub(super) async fn look(&self, visit: &Visit, who: &HeaderMap) -> Result<bool, String> {
        let mut asking = self.asking.lock().await;
        let Whole { status, body, .. } = visit.get("/version", who.clone()).await?;
        // A release that is not told is none that this server knows. Whoever is too busy to tell it has not said anything.
        let minor = match status {
            StatusCode::OK => serde_json::from_slice::<Version>(&body).ok().and_then(Version::into_minor).unwrap_or_default(),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => String::new(),
            status => return Err(format!("it answers {} to /version", status.as_u16())),
        };
        let mut offered = Some(Offered::default());
        for path in ["/api", "/apis"] {
            match asking.ask(visit, who, path).await? {
                Some(found) => offered.iter_mut().for_each(|offered| offered.add(&found)),
                None => offered = None,
            }
        }
        let now = Instant::now();
        let began = *asking.began.get_or_insert(now);
        asking.recent.said(Said { minor, offered }, now.duration_since(began).as_secs());
        asking.answers += 1;
        if asking.answers < FIRST_ANSWERS {
            return Ok(false);
        }
        let agreed = asking.recent.agreed();
        let is_new = self.agreed.load().as_deref() != Some(&agreed);
        if is_new {
            self.agreed.store(Some(Arc::new(agreed)));
        }
        Ok(is_new)
    }

    /// Whether the first answers are still wanted.
    pub(super) fn is_new(&self) -> bool {
        self.agreed.load().is_none()
    }
}

impl Replica {
    /// As whom this server itself asks upstream what it has.
    pub(in super::super) fn ourselves(&self, upstream: &Upstream<Body>) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::new();
        headers::outward(&mut headers, &self.hop, "127.0.0.1", false, &Trusted::default());
        let groups = self.check_groups.iter().cloned().chain([AUTHENTICATED.to_owned()]).collect();
        let user = User { name: LOOKER.to_owned(), groups, ..User::default() };
        upstream.auth_mode().name(&user, None, &mut headers).map_err(|error| error.to_string())?;
        Ok(headers)
    }

    /// Asks again and again what upstream serves, until the process ends.
    pub async fn follow(self: Arc<Self>, api: Arc<Api>) {
        loop {
            let upstream = self.upstream.now();
            if upstream.is_verified() {
                let looked = async {
                    let (visit, who) = (upstream.visit().await?, self.ourselves(&upstream)?);
                    self.follow.look(&visit, &who).await
                };
                let looked = timeout(LOOK_TIMEOUT, looked).await.unwrap_or_else(|_| Err("it does not answer in time".to_owned()));
                match looked {
                    Ok(is_new) => {
                        if self.discovery.swap(None).is_some() {
                            self.proof.begin_anew();
                        }
                        match self.discovery_wrong(&api.resources.load()).filter(|_| is_new) {
                            Some((notes, _)) => tracing::warn!(%notes, "upstream serves something else than this server"),
                            None if is_new => tracing::info!("upstream serves what this server serves"),
                            None => {}
                        }
                    }
                    Err(why) => self.discovery.store(Some(Arc::new(format!("what upstream serves cannot be read: {why}")))),
                }
            }
            self.end_what_is_not_ours(&api);
            // Whoever comes back may be of another release.
            let is_away = self.discovery.load().is_some();
            sleep(if is_away || self.follow.is_new() { FIRST_LOOKS } else { LOOK_INTERVAL }).await;
        }
    }
}

impl Asking {
    /// One document; none when it may not be read.
    async fn ask(&mut self, visit: &Visit, who: &HeaderMap, path: &'static str) -> Result<Option<Offered>, String> {
        let mut headers = who.clone();
        headers.insert(ACCEPT, WANTED);
        let known = self.known.get(path);
        if let Some(etag) = known.and_then(|known| known.etag.clone()) {
            headers.insert(IF_NONE_MATCH, etag);
        }
        let Whole { status, headers, body } = visit.get(path, headers).await?;
        let is_short = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).is_some_and(|kind| kind.contains(SHORT_FORM));
        let offered = match (status, known) {
            (StatusCode::NOT_MODIFIED, Some(known)) => known.offered.clone(),
            (status, _) if status.is_client_error() => return Ok(None),
            (StatusCode::OK, _) if is_short => Offered::aggregated(&body, catalogue::is_built_in_group)?,
            (StatusCode::OK, Some(known)) if known.etag.is_none() && known.at.elapsed() < LONG_FORM_FOR => {
                return Ok(Some(known.offered.clone()));
            }
            (StatusCode::OK, _) => long_form(visit, who, path, &body).await?,
            (status, _) => return Err(format!("it answers {} to {path}", status.as_u16())),
        };
        let etag = headers.get(ETAG).filter(|_| is_short || status == StatusCode::NOT_MODIFIED).cloned();
        self.known.insert(path, Known { offered: offered.clone(), etag, at: Instant::now() });
        Ok(Some(offered))
    }
}

/// The same of an upstream without the short form: a document for each version of a group.
async fn long_form(visit: &Visit, who: &HeaderMap, path: &str, body: &[u8]) -> Result<Offered, String> {
    let mut offered = Offered::default();
    let versions = if path == "/api" { vec![(String::new(), "v1".to_owned())] } else { Offered::group_versions(body)? };
    for (group, version) in versions.into_iter().filter(|(group, _)| catalogue::is_built_in_group(group)) {
        let target = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let mut headers = who.clone();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let Whole { status, body, .. } = visit.get(&target, headers).await?;
        if status == StatusCode::OK {
            offered.add_plain(&group, &version, &body)?;
        }
    }
    Ok(offered)
}

fn named(served: &Served) -> Named<'_> {
    Named { group: &served.group, version: &served.version, resource: &served.resource, kind: &served.kind, namespaced: served.namespaced }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_that_is_known_is_the_one_that_is_served() {
        let version: Version = serde_json::from_slice(&catalogue::discovery::version()).expect("JSON");
        assert_eq!(version.into_minor().as_deref(), Some(catalogue::MINOR));
    }

    #[test]
    fn a_minor_is_one_of_kubernetes_1() {
        let minor = |text: &str| serde_json::from_str::<Version>(text).ok().and_then(Version::into_minor);
        assert_eq!(minor(r#"{"major":"1","minor":"36+"}"#).as_deref(), Some("36"));
        for none in ["{}", "no JSON", r#"{"major":"2","minor":"36"}"#, r#"{"major":"1","minor":""}"#, r#"{"major":"1","minor":"36a"}"#] {
            assert_eq!(minor(none), None, "{none}");
        }
    }
}
