//! TokenReviews on ours and on kube-apiserver, of tokens that either has issued and of what can be made of them with the issuer's key: the answers are the
//! same.
//!
//! `WATCHCACHE_TEST_REVIEWS` says how many reviews (400), `WATCHCACHE_TEST_SEED` repeats a run.

use std::{
    collections::BTreeMap,
    env, fs,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use rcgen::{KeyPair, SigningKey};
use serde_json::{Value, json};

use super::{Outcome, floor::stand, say};
use crate::{
    alone::{Failure, asked},
    client::Client,
};

const DEFAULT: &str = "/api/v1/namespaces/default";
const ISSUER: &str = "https://kubernetes.default.svc";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
/// Changes of claims or header, besides none.
const CHANGES: usize = 26;
/// Bytes of half a signature.
const SCALAR_BYTES: usize = 32;

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn part(token: &str, at: usize) -> Result<Value, Failure> {
    let text = token.split('.').nth(at).ok_or("a part is missing")?;
    Ok(serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(text)?)?)
}

/// A signature as a JWT has it: both numbers of the ASN.1 form at their full length.
fn signature(key: &KeyPair, message: &str) -> Result<Vec<u8>, Failure> {
    let der = key.sign(message.as_bytes())?;
    let number = |at: usize| -> Option<(&[u8], usize)> {
        let length = usize::from(*der.get(at + 1)?);
        Some((der.get(at + 2..at + 2 + length)?, at + 2 + length))
    };
    let (r, next) = number(2).ok_or("no r")?;
    let (s, _) = number(next).ok_or("no s")?;
    let full = |number: &[u8]| {
        let digits = &number[number.len().saturating_sub(SCALAR_BYTES)..];
        [vec![0; SCALAR_BYTES - digits.len()], digits.to_vec()].concat()
    };
    Ok([full(r), full(s)].concat())
}

/// A token with this header and these claims.
pub(crate) fn signed(key: &KeyPair, header: &str, claims: &str) -> Result<String, Failure> {
    let message = format!("{}.{}", encoded(header), encoded(claims));
    Ok(format!("{message}.{}", encoded(signature(key, &message)?)))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The token with something changed; 0 leaves it alone.
fn changed(token: &str, change: usize, key: &KeyPair, rng: &mut StdRng) -> Result<String, Failure> {
    let (mut header, mut claims) = (part(token, 0)?, part(token, 1)?);
    let own = "kubernetes.io";
    match change {
        0 => return Ok(token.to_owned()),
        1 => return Ok(format!("{}x", &token[..token.len() - 1])),
        2 => return Ok(token.split('.').take(2).collect::<Vec<_>>().join(".") + "."),
        3 => return Ok(format!("{token}.x")),
        4 => header["alg"] = json!("none"),
        5 => header["alg"] = json!("HS256"),
        6 => header["kid"] = json!("another"),
        7 => drop(header.as_object_mut().map(|header| header.remove("kid"))),
        8 => claims["exp"] = json!(now() - 1),
        9 => claims["nbf"] = json!(now() + 3600),
        10 => claims["iat"] = json!(now() + 3600),
        11 => drop(claims.as_object_mut().map(|claims| claims.remove("exp"))),
        12 => claims["iss"] = json!("https://elsewhere"),
        13 => claims["aud"] = json!(["other"]),
        14 => claims["aud"] = json!(ISSUER),
        15 => drop(claims.as_object_mut().map(|claims| claims.remove("aud"))),
        16 => claims["sub"] = json!("system:serviceaccount:default:other"),
        17 => claims[own]["serviceaccount"]["uid"] = json!("wrong"),
        18 => claims[own]["serviceaccount"]["name"] = json!("missing"),
        19 => claims[own]["namespace"] = json!("kube-system"),
        20 => claims[own]["pod"] = json!({"name": "p", "uid": "wrong"}),
        21 => claims[own]["pod"] = json!({"name": "missing", "uid": "u"}),
        22 => claims[own]["secret"] = json!({"name": "missing", "uid": "u"}),
        23 => claims[own]["node"] = json!({"name": "missing", "uid": "u"}),
        24 => drop(claims.as_object_mut().map(|claims| claims.remove(own))),
        25 => claims["exp"] = json!("soon"),
        _ => {
            let names: Vec<String> = claims.as_object().ok_or("no claims")?.keys().cloned().collect();
            let name = names.choose(rng).ok_or("no claims")?;
            claims[name] = json!([1, {"a": null}]);
        }
    }
    signed(key, &header.to_string(), &claims.to_string())
}

/// Makes what tokens are bound to, and asks both servers for tokens.
async fn tokens(theirs: &Client, ours: &Client) -> Result<Vec<String>, Failure> {
    let pod = |name: &str, account: &str| {
        json!({
            "metadata": {"name": name},
            "spec": {"serviceAccountName": account, "nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        })
    };
    for account in ["robot", "other", "gone"] {
        asked(theirs, ("POST", &format!("{DEFAULT}/serviceaccounts")), Some(&json!({"metadata": {"name": account}})), 201).await?;
    }
    asked(theirs, ("POST", "/api/v1/nodes"), Some(&json!({"metadata": {"name": "n"}})), 201).await?;
    asked(theirs, ("POST", &format!("{DEFAULT}/pods")), Some(&pod("p", "robot")), 201).await?;
    asked(theirs, ("POST", &format!("{DEFAULT}/pods")), Some(&pod("q", "robot")), 201).await?;
    asked(theirs, ("POST", &format!("{DEFAULT}/secrets")), Some(&json!({"metadata": {"name": "s"}})), 201).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let bound = |kind: &str, name: &str| json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}}});
    let requests = [
        ("robot", json!({"spec": {}})),
        ("other", json!({"spec": {"audiences": ["other"]}})),
        ("robot", json!({"spec": {"audiences": [ISSUER, "other"], "expirationSeconds": 3600}})),
        ("robot", bound("Pod", "p")),
        ("robot", bound("Pod", "q")),
        ("robot", bound("Secret", "s")),
        ("robot", bound("Node", "n")),
        ("gone", json!({"spec": {}})),
    ];
    let mut tokens = vec!["janetoken".to_owned(), "a.b.c".to_owned(), "x".to_owned(), "é".to_owned(), " ".to_owned(), "y".repeat(1 << 20)];
    for (account, request) in &requests {
        for client in [theirs, ours] {
            let target = format!("{DEFAULT}/serviceaccounts/{account}/token");
            let answer = asked(client, ("POST", &target), Some(request), 201).await?;
            tokens.push(answer["status"]["token"].as_str().ok_or("no token")?.to_owned());
        }
    }
    // What is bound to these is worth nothing any more.
    for path in ["pods/q?gracePeriodSeconds=0", "serviceaccounts/gone"] {
        asked(theirs, ("DELETE", &format!("{DEFAULT}/{path}")), None, 200).await?;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    Ok(tokens)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd and kube-apiserver: WATCHCACHE_TEST_PEERS"]
async fn tokens_are_reviewed_alike() -> Outcome {
    let floor = stand().await?;
    let plainly = |error: Failure| error.to_string();
    let theirs = floor.theirs();
    let (_running, address) = floor.secured("watchcache-tokens").await?;
    let ours = floor.site.client(address);
    let number = |name: &str, default: u64| env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (count, seed) = (number("WATCHCACHE_TEST_REVIEWS", 400), number("WATCHCACHE_TEST_SEED", rand::random()));
    let mut rng = StdRng::seed_from_u64(seed);
    let key = KeyPair::from_pem(&fs::read_to_string(floor.site.path().join("accounts.key"))?)?;
    let tokens = tokens(&theirs, &ours).await.map_err(plainly)?;
    let (mut wrong, mut good, mut errors) = (Vec::new(), 0, BTreeMap::<String, usize>::new());
    for nth in 0..count {
        let token = tokens.choose(&mut rng).ok_or("no token")?;
        let change = if rng.random_bool(0.3) { 0 } else { rng.random_range(1..=CHANGES) };
        let made = if part(token, 0).is_ok() { changed(token, change, &key, &mut rng).map_err(plainly)? } else { token.clone() };
        let mut review = json!({"spec": {"token": made}});
        if rng.random_bool(0.4) {
            review["spec"]["audiences"] = [json!([ISSUER]), json!(["other"]), json!(["other", ISSUER]), json!(["nobody"]), json!([])]
                .choose(&mut rng)
                .cloned()
                .ok_or("no audiences")?;
        }
        let target = ("POST", REVIEWS);
        let (left, right) = tokio::join!(asked(&theirs, target, Some(&review), 201), asked(&ours, target, Some(&review), 201));
        let (left, right) = (left.map_err(plainly)?, right.map_err(plainly)?);
        good += usize::from(left["status"]["authenticated"] == true);
        if let Some(error) = left["status"]["error"].as_str() {
            *errors.entry(error.chars().take(40).collect()).or_default() += 1;
        }
        if left["status"] != right["status"] {
            let audiences = &review["spec"]["audiences"];
            wrong.push(format!("{nth}, change {change}, for {audiences}: theirs {}, ours {}", left["status"], right["status"]));
        }
    }
    say(&format!("live tokens: seed {seed}, {count} reviews, {good} good, {} sorts of errors, {} differ", errors.len(), wrong.len()));
    assert!(good > 0 && (good as u64) < count && errors.len() > 5, "a run in which all are answered alike shows nothing");
    if wrong.is_empty() { Ok(()) } else { Err(wrong[..wrong.len().min(10)].join("\n").into()) }
}

/// A token counts on ours as soon as kube-apiserver has issued it, though the account was made a moment ago.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd and kube-apiserver: WATCHCACHE_TEST_PEERS"]
async fn a_token_counts_at_once() -> Outcome {
    let floor = stand().await?;
    let theirs = floor.theirs();
    let (_running, address) = floor.secured("watchcache-at-once").await?;
    for nth in 0..100 {
        let account = json!({"metadata": {"name": format!("fresh{nth}")}});
        asked(&theirs, ("POST", &format!("{DEFAULT}/serviceaccounts")), Some(&account), 201).await.map_err(|error| error.to_string())?;
        let target = format!("{DEFAULT}/serviceaccounts/fresh{nth}/token");
        let answer = asked(&theirs, ("POST", &target), Some(&json!({"spec": {}})), 201).await.map_err(|error| error.to_string())?;
        let token = answer["status"]["token"].as_str().ok_or("no token")?;
        let answer = floor.site.client_of(address, token).fetch("/api").await?;
        if answer.status != 200 {
            return Err(format!("token {nth}: {}", answer.status).into());
        }
    }
    Ok(())
}
