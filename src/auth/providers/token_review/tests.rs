//! What a reviewer makes of answers, and of a server that is away.

use std::io::Write;

use client::testing::Reaction;
use proptest::prelude::*;

use super::*;

fn evaluated(status: &Value) -> Reviewed {
    let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let body = json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": status}).to_string();
    TokenReviewVersion::V1.status(body.as_bytes())?.evaluated(&texts(&["a", "b"]), &texts(&["a", "c"]))
}

/// A server that says what it is told to, and a reviewer that asks it for each request.
struct Bench {
    says: Arc<Mutex<Reaction>>,
    other: client::testing::Server,
    reviewer: TokenReviewer,
}

impl Bench {
    async fn new() -> Self {
        let says = Arc::new(Mutex::new(Reaction::Drop));
        let react = says.clone();
        let other = client::testing::Server::start(move |_| react.lock().clone()).await;
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(other.kubeconfig("").as_bytes()).expect("written");
        let login = Login::read("--a-flag", file.path()).expect("good");
        let cluster = config::HostCluster {
            flag: "--a-flag",
            kubeconfig: file.path().to_owned(),
            skip_lookup: true,
            tolerate_lookup_failure: false,
            needs_proxy: false,
            is_upstream: true,
            presence: Presence::new(Duration::from_secs(60)).away_after(Duration::from_millis(300)),
        };
        let mut reviewer = TokenReviewer::new(Way::Cluster(&login, &cluster), &Logins::default()).expect("a reviewer");
        Arc::get_mut(&mut reviewer.answers).expect("nobody asks yet").keeps = Duration::ZERO;
        Self { says, other, reviewer }
    }

    fn says(&self, status: &Value) {
        *self.says.lock() = Reaction::json(&json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": status}));
    }

    fn says_jane(&self) {
        self.says(&json!({"authenticated": true, "user": {"username": "jane"}, "audiences": ["a"]}));
    }

    fn is_away(&self) {
        *self.says.lock() = Reaction::Drop;
    }

    async fn who(&self, token: &str) -> Result<Option<String>, String> {
        let (until, audiences) = (Instant::now() + Duration::from_secs(20), ["a".to_owned()]);
        let reviewed = self.reviewer.review(token, &audiences, &audiences, IpAddr::from([127, 0, 0, 1]), until);
        let reviewed = reviewed.await.expect("there is room").map_err(|error| error.to_string());
        reviewed.map(|authenticated| authenticated.map(|authenticated| authenticated.user.name.clone()))
    }

    /// Until it is noticed that the server answers.
    async fn is_back(&self) {
        while self.reviewer.presence.is_away() {
            let _ = self.who("somebody else").await;
        }
    }
}

fn jane() -> Result<Option<String>, String> {
    Ok(Some("jane".to_owned()))
}

/// Whom it named last counts while there is no answer; what it said since then, in whatever words, does away with that.
#[tokio::test]
async fn the_last_answer_counts_while_there_is_none() {
    for refusal in [json!({"authenticated": false}), json!({"authenticated": false, "error": "the token is revoked"})] {
        let bench = Bench::new().await;
        bench.says_jane();
        assert_eq!(bench.who("t").await, jane());
        bench.is_away();
        assert_eq!(bench.who("t").await, jane());
        assert!(bench.who("u").await.is_err(), "nobody has said whose it is");
        bench.says(&refusal);
        bench.is_back().await;
        assert_ne!(bench.who("t").await, jane());
        bench.is_away();
        assert_eq!(bench.who("t").await, Ok(None), "{refusal}");
    }
}

/// One question that fails is no sign that nobody answers, nor is an answer that is too long.
#[tokio::test]
async fn nothing_counts_of_a_server_that_answers() {
    let bench = Bench::new().await;
    bench.says_jane();
    assert_eq!(bench.who("t").await, jane());
    *bench.says.lock() = Reaction::Answer(200, "application/json", vec![b' '; ANSWER_BYTES_MAX + 1].into());
    assert!(bench.who("t").await.is_err());
    *bench.says.lock() = Reaction::Answer(503, "text/plain", "busy".into());
    let (asked, others) = tokio::join!(bench.who("t"), async {
        for _ in 0..20 {
            bench.reviewer.presence.ask(false, async || ((), Heard::Answer)).await;
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    });
    assert_eq!((asked.is_err(), others), (true, ()), "it is busy");
}

/// While it is away nobody waits for it, and one question at a time finds out when it is back.
#[tokio::test]
async fn nobody_waits_for_who_is_away() {
    let bench = Bench::new().await;
    bench.says_jane();
    assert_eq!(bench.who("t").await, jane());
    bench.is_away();
    assert_eq!(bench.who("t").await, jane());
    *bench.says.lock() = Reaction::Hang;
    // What is asked in the background just after a failure would not be asked.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let asked = bench.other.asked().len();
    let began = Instant::now();
    for _ in 0..100 {
        assert_eq!(bench.who("t").await, jane());
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(began.elapsed() < Duration::from_secs(5) && bench.other.asked().len() == asked + 1, "{}", bench.other.asked().len());
}

/// Whoever was named before waits for a silent server only until it counts as away, a stranger then as long; what it says later counts from
/// then on.
#[tokio::test]
async fn a_silent_server_is_not_waited_for() {
    let bench = Bench::new().await;
    bench.says_jane();
    assert_eq!(bench.who("t").await, jane());
    *bench.says.lock() = Reaction::Hang;
    let began = Instant::now();
    assert_eq!(bench.who("t").await, jane());
    assert_eq!(bench.who("u").await, Err(AWAY.to_owned()));
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    let bench = Bench::new().await;
    bench.says_jane();
    assert_eq!(bench.who("t").await, jane());
    let refused = Reaction::json(&json!({"status": {"authenticated": false}}));
    *bench.says.lock() = Reaction::After(Duration::from_millis(1_500), Box::new(refused));
    assert_eq!(bench.who("t").await, jane(), "it has not said anything yet");
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    bench.is_away();
    assert_eq!(bench.who("t").await, Ok(None), "it has said so meanwhile");
}

/// A token does not outlast its own word, and what is no such token lasts.
#[tokio::test]
async fn a_token_ends_when_it_says() {
    let of = |claims: &str| format!("x.{}.y", RAW_URL.encode(claims));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs();
    assert!(lasts(&of(&format!(r#"{{"exp":{}}}"#, now + 60))).is_some_and(|left| left.as_secs().abs_diff(60) <= 1));
    assert_eq!((lasts(&of(r#"{"exp":1.5}"#)), lasts(&of(r#"{"exp":-1}"#))), (Some(Duration::ZERO), Some(Duration::ZERO)));
    for other in ["", "a.b.c", "a.b", &of("{}"), &of(r#"{"exp":"1"}"#), &of(r#"{"exp":1e300}"#)] {
        assert_eq!(lasts(other), None, "{other}");
    }
    let bench = Bench::new().await;
    bench.says_jane();
    let (over, lasting) = (of(r#"{"exp":1}"#), of(&format!(r#"{{"exp":{}}}"#, now + 3_600)));
    assert_eq!((bench.who(&over).await, bench.who(&lasting).await), (jane(), jane()));
    bench.is_away();
    assert_eq!((bench.who(&lasting).await, bench.who(&over).await.is_err()), (jane(), true));
}

/// Tokens of nobody push out nobody's.
#[tokio::test]
async fn refusals_are_kept_only_over_somebody() {
    let bench = Bench::new().await;
    bench.says(&json!({"authenticated": false}));
    assert_eq!(bench.who("t").await, Ok(None));
    assert!(bench.reviewer.answers.before.lock().is_empty());
}

#[test]
fn an_answer_names_a_user() {
    let user = json!({"username": "jane", "uid": "1", "groups": ["g"], "extra": {"b": ["2"], "a": ["1", null]}});
    assert!(evaluated(&json!({"authenticated": true, "user": user})).is_err(), "a list has no nulls");
    let user = json!({"username": "jane", "uid": null, "groups": ["g"], "extra": {"b": ["2"], "a": ["1"]}});
    let authenticated = evaluated(&json!({"authenticated": true, "user": user})).expect("good").expect("a user");
    assert_eq!((authenticated.user.name.as_str(), authenticated.user.groups.join(" ").as_str()), ("jane", "g system:authenticated"));
    assert_eq!((authenticated.user.extra[0].0.as_str(), authenticated.audiences.join(" ").as_str()), ("a", "a"));
}

#[test]
fn an_answer_may_be_for_others() {
    let audiences = |audiences: Value| evaluated(&json!({"authenticated": true, "user": {"username": "x"}, "audiences": audiences}));
    assert_eq!(audiences(json!(["z"])), Ok(None));
    assert_eq!(audiences(json!(["z", "b"])).map(|authenticated| authenticated.expect("a user").audiences), Ok(vec!["b".to_owned()]));
    assert_eq!(evaluated(&json!({"authenticated": false, "error": "no"})), Err("no".to_owned()));
    assert_eq!(evaluated(&json!({"user": {"username": "x"}})), Ok(None));
    assert_eq!(evaluated(&Value::Null), Ok(None));
}

#[test]
fn what_is_no_review_is_an_error() {
    let status = |body: &str| TokenReviewVersion::V1Beta1.status(body.as_bytes()).map(|_| ());
    assert_eq!(status("{}"), Ok(()));
    assert!(status("<html>").is_err_and(|why| why.starts_with("couldn't get version/kind; json parse error: ")));
    assert!(status(r#"{"kind":"Status"}"#).is_err());
    assert!(status(r#"{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1"}"#).is_err(), "of the other version");
    assert!(status(r#"{"status":{"authenticated":"yes"}}"#).is_err());
}

#[test]
fn the_question_has_token_and_audiences() {
    let body = TokenReviewVersion::V1.review("abc", &["x".to_owned()]);
    let expected = json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {}, "spec": {"token": "abc", "audiences": ["x"]}, "status": {"user": {}}});
    assert_eq!(serde_json::from_slice::<Value>(&body).expect("JSON"), expected);
}

proptest! {
    #[test]
    fn never_panics(text in ".{0,100}", status in corpus::any_json()) {
        let _ = TokenReviewVersion::V1.status(text.as_bytes());
        let _ = evaluated(&status);
    }
}
