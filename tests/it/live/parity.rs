//! The same bytes: GET and LIST bodies of ours and of kube-apiserver, at the same revision, for every resource that is served.

use std::{collections::BTreeSet, io, time::Duration};

use futures_util::{StreamExt, stream};
use serde_json::Value;

use super::{
    Outcome,
    floor::stand,
    objects::{self, AWKWARD},
    say,
};
use crate::client::{Answer, Client, INDENTED, query};

/// Resources that may be refused: stored in another version than the served one, where the difference is more than a few fields.
const MAY_REFUSE: [&str; 3] = [
    "/apis/events.k8s.io/v1/events",
    "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
    "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
];
/// Tries to see both servers at one revision: kube-apiserver writes a lease every few seconds, so a handful is enough.
const TRIES: usize = 60;
/// GETs at a time.
const READERS: usize = 8;
/// Differences that are printed; all are counted.
const PRINTED: usize = 20;

#[tokio::test]
#[ignore = "needs etcd and kube-apiserver: WATCHCACHE_TEST_PEERS"]
async fn parity() -> Outcome {
    let floor = stand().await?;
    let (ours, theirs) = (floor.ours(), floor.theirs());
    objects::define(&theirs).await?;
    objects::create(&theirs, vec![objects::namespace("parity")]).await?;
    objects::create(&theirs, objects::built_ins("parity")).await?;
    objects::create(&theirs, objects::custom("parity")).await?;
    for path in ["/apis/ex.io/v1/gauges", "/apis/ex.io/v2/widgets", "/apis/ex.io/v1alpha1/things"] {
        objects::served(&ours, path).await?;
    }

    let mut tally = Tally::default();
    let collections = collections(&ours).await?;
    for path in &collections {
        lists(&mut tally, &ours, &theirs, path).await?;
    }
    let missing: Vec<String> = self::collections(&theirs).await?.into_iter().filter(|path| !collections.contains(path)).collect();
    tally.print(&missing);
    if !tally.differences.is_empty() || !tally.broken_refusals.is_empty() {
        return Err(format!("{} differences, {} refusals that should not be", tally.differences.len(), tally.broken_refusals.len()).into());
    }
    let awkward = tally.awkward;
    if tally.objects < 1_300 || awkward == 0 {
        return Err(format!(
            "{} objects compared, {awkward} of them with awkward text: the data set is not what it should be",
            tally.objects
        )
        .into());
    }
    Ok(())
}

/// What was compared, and what came of it.
#[derive(Default)]
struct Tally {
    resources: usize,
    with_objects: usize,
    objects: usize,
    bytes: usize,
    /// GET bodies that contain the awkward text.
    awkward: usize,
    /// Lists whose own revision could not be made equal; all their items were.
    by_items: usize,
    differences: Vec<String>,
    refused: Vec<String>,
    broken_refusals: Vec<String>,
}

impl Tally {
    fn compare(&mut self, what: &str, ours: &[u8], theirs: &[u8]) {
        self.bytes += theirs.len();
        self.differences.extend(difference(ours, theirs).map(|d| format!("{what}: {d}")));
    }

    fn refuse(&mut self, path: &str, answer: &Answer) {
        let status: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let line = format!("{path}: {} {}", answer.status, status["message"].as_str().unwrap_or("without a Status"));
        if MAY_REFUSE.contains(&path) && status["kind"] == "Status" && status["message"].is_string() {
            self.refused.push(line);
        } else {
            self.broken_refusals.push(line);
        }
    }

    fn print(&self, missing: &[String]) {
        say(&format!(
            "live parity: {} resources ({} with objects), {} objects, {} bytes compared, {} differences; {} lists compared by their items",
            self.resources,
            self.with_objects,
            self.objects,
            self.bytes,
            self.differences.len(),
            self.by_items
        ));
        for (name, lines) in
            [("difference", &self.differences), ("refused", &self.refused), ("refused, but should not be", &self.broken_refusals)]
        {
            for line in lines.iter().take(PRINTED) {
                say(&format!("live parity: {name}: {line}"));
            }
        }
        for path in missing {
            say(&format!("live parity: not in our discovery: {path}"));
        }
    }
}

/// Compares a collection: compact, indented, and each object alone.
async fn lists(tally: &mut Tally, ours: &Client, theirs: &Client, path: &str) -> Outcome {
    let Some(body) = list(tally, ours, theirs, path).await? else { return Ok(()) };
    list(tally, &ours.called(INDENTED), &theirs.called(INDENTED), path).await?;
    let list: Value = serde_json::from_slice(&body)?;
    let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
    tally.resources += 1;
    tally.with_objects += usize::from(!items.is_empty());
    let targets = items.iter().map(|item| object_path(path, item));
    let mut pairs = stream::iter(targets).map(|target| get(ours, theirs, target)).buffer_unordered(READERS);
    while let Some(pair) = pairs.next().await {
        let (target, ours, theirs) = pair?;
        tally.objects += 1;
        tally.awkward += usize::from(memchr::memmem::find(&theirs, br"\u003cb\u003e\u0026").is_some());
        tally.compare(&target, &ours, &theirs);
    }
    Ok(())
}

/// Compares one list; `None` when ours refuses it.
async fn list(tally: &mut Tally, ours: &Client, theirs: &Client, path: &str) -> io::Result<Option<Vec<u8>>> {
    let newest = format!("{path}{}", query(&[("limit", "1")]));
    let any = format!("{path}{}", query(&[("resourceVersion", "0")]));
    let mut last = None;
    for _ in 0..TRIES {
        // A consistent read takes their cache to etcd's revision, where ours is already.
        objects::fetched(theirs, &newest).await?;
        let (left, right) = (ours.fetch(&any).await?, objects::fetched(theirs, &any).await?);
        if right.status != 200 {
            tally.differences.push(format!("{path}: theirs answers {}", right.status));
            return Ok(None);
        }
        if left.status != 200 {
            tally.refuse(path, &left);
            return Ok(None);
        }
        if list_revision(&left.body) == list_revision(&right.body) {
            tally.compare(path, &left.body, &right.body);
            return Ok(Some(right.body.to_vec()));
        }
        last = Some((left, right));
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    let (left, right) = last.expect("TRIES is not 0");
    tally.by_items += 1;
    tally.compare(path, &without_revision(&left.body), &without_revision(&right.body));
    Ok(Some(right.body.to_vec()))
}

/// One object from both; read again when it changed in between.
async fn get(ours: &Client, theirs: &Client, path: String) -> io::Result<(String, Vec<u8>, Vec<u8>)> {
    let target = format!("{path}{}", query(&[("resourceVersion", "0")]));
    let mut bodies = (Vec::new(), Vec::new());
    for _ in 0..TRIES {
        let (left, right) = (ours.fetch(&target).await?, objects::fetched(theirs, &target).await?);
        bodies = (left.body.to_vec(), right.body.to_vec());
        if bodies.0 == bodies.1 || (left.status == 200 && revision_of(&left.body) == revision_of(&right.body)) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok((path, bodies.0, bodies.1))
}

/// Paths of all collections that can be listed and read, from discovery.
pub(super) async fn collections(client: &Client) -> Result<BTreeSet<String>, Box<dyn std::error::Error>> {
    let mut roots = vec!["/api/v1".to_owned()];
    let groups = json(client, "/apis").await?;
    for version in groups["groups"].as_array().into_iter().flatten().flat_map(|g| g["versions"].as_array().into_iter().flatten()) {
        roots.push(format!("/apis/{}", version["groupVersion"].as_str().ok_or("a group version without a name")?));
    }
    let mut paths = BTreeSet::new();
    for root in roots {
        for resource in json(client, &root).await?["resources"].as_array().into_iter().flatten() {
            let name = resource["name"].as_str().unwrap_or("");
            let can = |verb: &str| resource["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|v| v == verb));
            // A resource without `watch` is not stored (componentstatuses).
            if !name.contains('/') && can("list") && can("get") && can("watch") {
                paths.insert(format!("{root}/{name}"));
            }
        }
    }
    Ok(paths)
}

async fn json(client: &Client, path: &str) -> Result<Value, Box<dyn std::error::Error>> {
    let answer = client.fetch(path).await?;
    if answer.status != 200 {
        return Err(format!("{path}: {}", answer.status).into());
    }
    Ok(serde_json::from_slice(&answer.body)?)
}

/// The path of an object, from its collection's and its JSON.
pub(super) fn object_path(collection: &str, object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().unwrap_or("").replace('%', "%25");
    match object["metadata"]["namespace"].as_str() {
        None => format!("{collection}/{name}"),
        Some(namespace) => {
            let (root, resource) = collection.rsplit_once('/').expect("a collection's path has a slash");
            format!("{root}/namespaces/{namespace}/{resource}/{name}")
        }
    }
}

fn revision_of(body: &[u8]) -> Option<String> {
    let object: Value = serde_json::from_slice(body).ok()?;
    object["metadata"]["resourceVersion"].as_str().map(String::from)
}

fn list_revision(body: &[u8]) -> Option<String> {
    revision_of(body)
}

/// A list's body with the digits of its own revision taken out; the items keep theirs.
fn without_revision(body: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(body);
    let Some(revision) = list_revision(body) else { return body.to_vec() };
    // The envelope's metadata stands before the items of a built-in list and after those of a custom one.
    let at = if text.trim_start_matches(['{', '\n', ' ']).starts_with("\"kind\"") { text.find(&revision) } else { text.rfind(&revision) };
    at.map_or(body.to_vec(), |at| [&body[..at], &body[at + revision.len()..]].concat())
}

/// Where two bodies part, with what stands there.
fn difference(ours: &[u8], theirs: &[u8]) -> Option<String> {
    if ours == theirs {
        return None;
    }
    let at = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    let around = |body: &[u8]| String::from_utf8_lossy(&body[at.saturating_sub(40)..body.len().min(at + 60)]).into_owned();
    Some(format!("at byte {at} ours has {:?}, theirs {:?}", around(ours), around(theirs)))
}

#[test]
fn a_difference_is_found_where_it_is() {
    assert_eq!(difference(b"same", b"same"), None);
    assert_eq!(difference(b"abc", b"abd").as_deref(), Some(r#"at byte 2 ours has "abc", theirs "abd""#));
    assert!(difference(b"abc", b"abcd").is_some(), "a prefix is a difference");
}

#[test]
fn only_the_revision_of_the_list_is_taken_out() {
    let built_in = br#"{"kind":"L","metadata":{"resourceVersion":"17"},"items":[{"metadata":{"resourceVersion":"17"}}]}"#;
    let expected = r#"{"kind":"L","metadata":{"resourceVersion":""},"items":[{"metadata":{"resourceVersion":"17"}}]}"#;
    assert_eq!(String::from_utf8_lossy(&without_revision(built_in)), expected);
    let indented = String::from_utf8_lossy(built_in).replace("{\"kind", "{\n  \"kind");
    let told = without_revision(indented.as_bytes());
    assert!(String::from_utf8_lossy(&told).contains(r#""metadata":{"resourceVersion":""},"items""#), "an indented one too");
    let custom = br#"{"apiVersion":"v","items":[{"metadata":{"resourceVersion":"17"}}],"metadata":{"resourceVersion":"17"}}"#;
    let expected = r#"{"apiVersion":"v","items":[{"metadata":{"resourceVersion":"17"}}],"metadata":{"resourceVersion":""}}"#;
    assert_eq!(String::from_utf8_lossy(&without_revision(custom)), expected);
}

#[test]
fn the_awkward_text_has_what_go_escapes() {
    for c in ['<', '>', '&', '\u{e9}', '\u{2028}'] {
        assert!(AWKWARD.contains(c), "{c:?}");
    }
}
