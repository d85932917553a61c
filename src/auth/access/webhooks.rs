//! Asks webhooks, and the API server of the host cluster, for verdicts (`--authorization-mode=Webhook`, `--authorization-kubeconfig`). What is asked and what
//! answers mean is `auth/authz/webhook`'s affair.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::last_verdicts::LastVerdicts;
use super::settings::{Mode, WebhookCall};
use crate::authz::webhook::{Digested, Question, Webhook};
use crate::authz::{Open, Verdict};
use crate::presence::{Heard, Presence};
use crate::right::AskingRight;
use client::{CallError, Client, FlightLimits, KubeconfigError, Limits, Login, Logins, SingleFlight, TooMany, WEBHOOK_BACKOFF, retried};

/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Questions that one webhook is asked at once, and those of them that one user asks: who has many leaves room for others.
pub(super) const QUESTIONS_MAX: usize = 256;
const QUESTIONS_OF_USER_MAX: usize = 32;
/// How long one question may take with all its tries; kube-apiserver has the time of the request instead.
const PATIENCE: Duration = Duration::from_secs(60);

/// The authorization webhooks, by their names.
#[derive(Default)]
pub(super) struct Webhooks(HashMap<String, Arc<Server>>);

struct Server {
    client: Client,
    login: Arc<Login>,
    /// The path and query below the server's URL.
    path: String,
    /// What comes of a question, and whether the webhook is away if it is nothing.
    flights: SingleFlight<Digested, String, (Answer, bool)>,
    last: Mutex<LastVerdicts>,
    presence: Arc<Presence>,
    /// Of a cluster, whether it lets us ask.
    right: Option<Arc<AskingRight>>,
}

/// The verdict of a webhook, or why there is none.
type Answer = Result<Verdict, Arc<str>>;

/// Opens the logins of all webhooks among these.
///
/// # Errors
/// What is wrong with one of their files.
pub(super) fn open(modes: &[Mode], logins: &Logins) -> Result<Vec<Arc<Login>>, KubeconfigError> {
    let webhooks = modes.iter().filter_map(|mode| match mode {
        Mode::Webhook(call) => Some(call),
        _ => None,
    });
    webhooks.map(|call| logins.open(call.flag, &call.kubeconfig)).collect()
}

impl Webhooks {
    /// Adds one more webhook, by its name.
    ///
    /// # Errors
    /// What is wrong with the file that says where it is.
    pub(super) fn add(&mut self, call: &WebhookCall, logins: &Logins) -> Result<(), KubeconfigError> {
        let login = logins.open(call.flag, &call.kubeconfig)?;
        let limits = Limits { timeout: call.timeout, answer_bytes_max: ANSWER_BYTES_MAX, concurrent_max: QUESTIONS_MAX };
        let wrong = |what| KubeconfigError { flag: call.flag, path: call.kubeconfig.clone(), what };
        let client = Client::following(&login, limits).map_err(wrong)?;
        let flights = SingleFlight::new(FlightLimits::of(QUESTIONS_MAX, QUESTIONS_OF_USER_MAX));
        let server = Server {
            client,
            path: format!("{}?timeout={}", call.path, go_duration(call.timeout)),
            login,
            flights,
            last: Mutex::default(),
            presence: call.presence.clone(),
            right: call.settings.is_host.then(AskingRight::access_reviews),
        };
        self.0.insert(call.settings.name.clone(), Arc::new(server));
        Ok(())
    }

    /// Returns whether the cluster that is asked lets us ask, if there is one.
    pub(super) fn right(&self) -> Option<Arc<AskingRight>> {
        self.0.values().find_map(|server| server.right.clone())
    }

    /// Follows whether the cluster that is asked lets us ask, for ever.
    pub(super) fn follow_right(&self) -> impl Future<Output = ()> + Send + use<> {
        let server = self.0.values().find(|server| server.right.is_some()).cloned();
        async move {
            let Some((server, right)) = server.as_ref().and_then(|server| Some((server, server.right.as_ref()?))) else { return };
            right.follow(&server.client, || server.url(), "authorization.k8s.io/v1", "SubjectAccessReview").await;
        }
    }

    /// The verdict of a webhook, and what it means when it does not answer. Waits at most `until` for its turn to ask.
    ///
    /// # Errors
    /// There was none in time.
    pub(super) async fn ask(&self, open: &Open, asker: String, until: Instant) -> Result<Verdict, TooMany> {
        let (webhook, question) = (&open.webhook, &open.question);
        let Some(server) = self.0.get(&webhook.settings.name).cloned() else { return Ok(webhook.failed("nobody knows where it is")) };
        let began = Instant::now();
        let before = server.last.lock().get(&asker, &question.digest(), began);
        let asking = || Asking { server: server.clone(), webhook: webhook.clone(), question: question.clone(), asker: asker.clone() };
        let is_away = server.presence.is_away();
        if let Some(verdict) = before.clone().filter(|_| is_away) {
            let asking = asking();
            server.presence.probe(move || async move { asking.verdict().await });
            return Ok(verdict);
        }
        let asked = server.flights.get(question.digest(), asker.clone(), question.bytes(), until, || {
            let (asking, has_before) = (asking(), before.is_some());
            async move { asking.server.presence.ask(has_before, || asking.verdict()).await }
        });
        // What is answered later than that counts from then on.
        let asked = tokio::select! {
            biased;
            asked = asked => Some(asked),
            () = server.presence.silence(began), if before.is_some() || is_away => None,
        };
        let (answer, is_away) = match asked {
            Some(asked) => asked.inspect_err(|error| {
                tracing::warn!(webhook = webhook.settings.name, %error, "cannot ask an authorization webhook");
            })?,
            None => (Err("it does not answer".into()), true),
        };
        Ok(answer.unwrap_or_else(|why| {
            let before = if is_away { server.last.lock().get(&asker, &question.digest(), Instant::now()) } else { None };
            before.unwrap_or_else(|| webhook.failed(&why))
        }))
    }
}

/// A question for a webhook, with what is kept of its answer whether or not somebody still waits for it.
struct Asking {
    server: Arc<Server>,
    webhook: Arc<Webhook>,
    question: Question,
    asker: String,
}

impl Asking {
    /// Asks, and keeps what is said.
    async fn verdict(&self) -> (Answer, Heard) {
        let (answer, heard) = self.server.verdict(&self.webhook, &self.question).await;
        if let Ok(verdict) = &answer {
            let now = Instant::now();
            self.server.last.lock().put(&self.asker, self.question.digest(), verdict, now, now + self.server.presence.counts_for());
        }
        (answer, heard)
    }
}

/// As client-go tells a server how long it waits.
fn go_duration(timeout: Duration) -> String {
    if timeout.subsec_nanos() == 0 { format!("{}s", timeout.as_secs()) } else { format!("{}ms", timeout.as_millis()) }
}

impl Server {
    fn url(&self) -> Uri {
        self.login.url(&self.path)
    }

    async fn verdict(&self, webhook: &Webhook, question: &Question) -> (Answer, Heard) {
        let url = self.url();
        let answer = retried(&WEBHOOK_BACKOFF, Instant::now() + PATIENCE, || self.client.post(&url, question.review())).await;
        let heard = Heard::of(&answer);
        self.right.iter().for_each(|right| right.heard(&answer));
        let verdict = answer.map_err(|error| self.failure(&error)).and_then(|answer| match answer.failure() {
            Some(why) => Err(why),
            None => webhook.answered(question, &answer.body, super::now()).map_err(|error| error.to_string()),
        });
        let answer = verdict.map_err(|error| {
            // A right that is not there is reported once.
            if !self.right.as_ref().is_some_and(|right| right.is_refused()) {
                tracing::warn!(webhook = webhook.settings.name, error, "an authorization webhook did not answer");
            }
            error.into()
        });
        (answer, heard)
    }

    /// What is told of a call that failed: of one without an answer in time kube-apiserver's words.
    fn failure(&self, error: &CallError) -> String {
        match error {
            CallError::TimedOut => {
                let url = self.url().to_string();
                format!("Post {url:?}: net/http: request canceled (Client.Timeout exceeded while awaiting headers)")
            }
            error => error.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::atomic::{AtomicBool, Ordering};

    use crate::User;
    use crate::authz::webhook::{Settings, Version};
    use crate::authz::{Attributes, Decision, Target};
    use client::testing::{Reaction, ReceivedRequest, Server as Other};

    use super::*;

    const FLAG: &str = "--authorization-webhook-config-file";

    /// Allows `visitor` everything, refuses to be asked about `wrong`, and has no answer about others.
    fn react(asked: &ReceivedRequest) -> Reaction {
        let review: serde_json::Value = serde_json::from_slice(&asked.body).expect("JSON");
        match review["spec"]["user"].as_str() {
            Some("visitor") => Reaction::json(&serde_json::json!({"status": {"allowed": true}})),
            Some("wrong") => Reaction::Answer(400, "text/plain", "no".into()),
            _ => Reaction::Hang,
        }
    }

    struct Asker {
        webhooks: Arc<Webhooks>,
        webhook: Arc<Webhook>,
    }

    impl Asker {
        fn new(other: &Other) -> Asker {
            Asker::counting_on(other, Arc::default())
        }

        fn counting_on(other: &Other, presence: Arc<Presence>) -> Asker {
            let mut file = tempfile::NamedTempFile::new().expect("a file");
            file.write_all(other.kubeconfig("/review").as_bytes()).expect("written");
            let (allowed_ttl, refused_ttl) = (None, None);
            let settings =
                Settings { name: "w".to_owned(), version: Version::V1, allowed_ttl, refused_ttl, denies_on_error: false, is_host: false };
            let (kubeconfig, timeout) = (file.path().to_owned(), Duration::from_secs(30));
            let mut webhooks = Webhooks::default();
            webhooks
                .add(&WebhookCall { settings: settings.clone(), flag: FLAG, kubeconfig, path: "", timeout, presence }, &Logins::default())
                .expect("it is there");
            Asker { webhooks: Arc::new(webhooks), webhook: Arc::new(Webhook::new(settings)) }
        }

        fn ask(&self, name: &str, path: &str, patience: Duration) -> impl Future<Output = Result<Verdict, TooMany>> + Send + 'static {
            let user = User { name: name.to_owned(), ..User::default() };
            let question = self.webhook.question(&Attributes { user: &user, verb: "get", target: Target::Path(path) });
            let (webhooks, open) = (self.webhooks.clone(), Open { webhook: self.webhook.clone(), question });
            async move { webhooks.ask(&open, user.name, Instant::now() + patience).await }
        }
    }

    /// What was said last counts while there is no answer, a no as well as a yes; nothing counts that was never said.
    #[tokio::test]
    async fn the_last_answer_counts_while_there_is_none() {
        let (away, allows) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
        let other = Other::start({
            let (away, allows) = (away.clone(), allows.clone());
            move |_| match away.load(Ordering::Relaxed) {
                true => Reaction::Answer(502, "text/plain", "no".into()),
                false => Reaction::json(&serde_json::json!({"status": {"allowed": allows.load(Ordering::Relaxed)}})),
            }
        })
        .await;
        let presence = Presence::new(Duration::from_secs(60)).away_after(Duration::from_millis(300));
        let (counting, plain) = (Asker::counting_on(&other, presence.clone()), Asker::new(&other));
        let long = Duration::from_secs(60);
        let decided = async |asker: &Asker, path: &str| {
            let verdict = asker.ask("jane", path, long).await.expect("there is room");
            (verdict.decision, verdict.error.is_some())
        };
        assert_eq!((decided(&counting, "/a").await, decided(&plain, "/a").await), ((Decision::Allow, false), (Decision::Allow, false)));
        away.store(true, Ordering::Relaxed);
        assert_eq!(decided(&counting, "/a").await, (Decision::Allow, false));
        assert_eq!(decided(&counting, "/b").await, (Decision::NoOpinion, true), "it was never asked");
        assert_eq!(decided(&plain, "/a").await, (Decision::NoOpinion, true));
        away.store(false, Ordering::Relaxed);
        allows.store(false, Ordering::Relaxed);
        // Until that is noticed what was said last counts.
        while decided(&counting, "/a").await.0 != Decision::NoOpinion {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        away.store(true, Ordering::Relaxed);
        assert_eq!(decided(&counting, "/a").await, (Decision::NoOpinion, false), "what was taken away stays so");
    }

    /// Nobody waits for a silent server longer than until it counts as away; what it says later counts from then on.
    #[tokio::test]
    async fn a_silent_server_is_not_waited_for() {
        let says = Arc::new(Mutex::new(Reaction::json(&serde_json::json!({"status": {"allowed": true}}))));
        let react = says.clone();
        let other = Other::start(move |_| react.lock().clone()).await;
        let asker = Asker::counting_on(&other, Presence::new(Duration::from_secs(60)).away_after(Duration::from_millis(300)));
        let decided = async |path: &str| {
            let began = Instant::now();
            let verdict = asker.ask("jane", path, Duration::from_secs(60)).await.expect("there is room");
            assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
            (verdict.decision, verdict.error.is_some())
        };
        assert_eq!(decided("/a").await, (Decision::Allow, false));
        let refused = Reaction::json(&serde_json::json!({"status": {"allowed": false}}));
        *says.lock() = Reaction::After(Duration::from_millis(1_500), Box::new(refused));
        assert_eq!(decided("/a").await, (Decision::Allow, false), "it has not said anything yet");
        assert_eq!(decided("/b").await, (Decision::NoOpinion, true), "it was never asked");
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        *says.lock() = Reaction::Drop;
        assert_eq!(decided("/a").await, (Decision::NoOpinion, false), "it has said so meanwhile");
    }

    #[tokio::test]
    async fn a_lack_of_room_and_of_an_answer_is_no_judgement() {
        let other = Other::start(react).await;
        let asker = Asker::new(&other);
        let (long, short) = (Duration::from_secs(60), Duration::from_millis(300));
        let hanging: Vec<_> = (0..QUESTIONS_OF_USER_MAX).map(|nth| tokio::spawn(asker.ask("jane", &format!("/{nth}"), long))).collect();
        while other.asked().len() < QUESTIONS_OF_USER_MAX {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(asker.ask("jane", "/more", short).await.map(|verdict| verdict.decision), Err(TooMany));
        assert_eq!(
            asker.ask("visitor", "/", long).await.map(|verdict| verdict.decision),
            Ok(Decision::Allow),
            "others have their own places"
        );
        let wrong = asker.ask("wrong", "/", long).await.expect("it was asked");
        assert_eq!(
            (wrong.decision, wrong.error.as_deref()),
            (Decision::NoOpinion, Some("the server rejected our request for an unknown reason"))
        );
        let paths: Vec<String> = other.asked().iter().map(|asked| asked.uri.to_string()).collect();
        assert!(paths.iter().all(|path| path.ends_with("/review?timeout=30s")), "{paths:?}");
        hanging.iter().for_each(tokio::task::JoinHandle::abort);
    }
}
