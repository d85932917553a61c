//! CustomResourceDefinitions: large ones, many, one near the limit, and some with names that are taken.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::{
    attack::{
        ground::{Ground, Target},
        options::Size,
        report::Told,
    },
    http::{Listener, Talk},
};

/// Definitions of [`LARGE_BYTES`].
const LARGE: Size = Size(20, 300);
const LARGE_BYTES: usize = 62_000;
/// Definitions of [`HUGE_BYTES`].
const HUGE: Size = Size(4, 100);
const HUGE_BYTES: usize = 1_200_000;
/// Small definitions.
const SMALL: Size = Size(100, 2000);
/// What etcd takes, 1.5 MiB; and steps towards the largest definition that is taken: its status, which comes later, finds little room.
const LARGEST_BYTES: usize = 3 << 19;
const STEP_BYTES: usize = 100;
const STEPS: usize = 60;
/// How long processor time at rest is measured.
const RESTING: Size = Size(5, 20);
/// Processor time that small definitions may cost at rest, seconds a second.
const RESTING_CPU: f64 = 0.2;
/// How long the server may take to look at small definitions before it is at rest.
const CALM: Duration = Duration::from_secs(5);
/// How long an ordinary definition may take to be established beside the largest.
const ESTABLISHED: Duration = Duration::from_secs(5);
/// Built-in resources, and where they are.
const SHADOWED: [(&str, &str); 2] = [("customresourcedefinitions", "apiextensions.k8s.io"), ("apiservices", "apiregistration.k8s.io")];
/// How long one write may take.
const WRITE: Duration = Duration::from_secs(60);
const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A definition of about so many bytes, most of them descriptions in its schema.
fn definition(plural: &str, group: &str, version: &str, bytes: usize) -> Value {
    let properties: serde_json::Map<_, _> =
        (0..bytes / 240).map(|n| (format!("p{n:05}"), json!({"type": "string", "description": "d".repeat(195)}))).collect();
    let spec = json!({"type": "object", "properties": properties});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    let names = json!({"plural": plural, "singular": plural, "kind": format!("K{plural}"), "listKind": format!("K{plural}List")});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}"), "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
        "spec": {"group": group, "scope": "Namespaced", "names": names,
            "versions": [{"name": version, "served": true, "storage": true, "schema": schema}]}})
}

/// One of exactly so many bytes, if it has room for the rest of it.
fn padded(plural: &str, bytes: usize) -> Value {
    let mut definition = definition(plural, "attack.example.com", "v1", 0);
    let room = bytes.saturating_sub(definition.to_string().len() + r#","description":"""#.len());
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "d".repeat(room).into();
    definition
}

/// Creates one; the status.
async fn create(talk: &mut Option<Talk>, listener: &Listener, definition: &Value) -> u16 {
    send(talk, listener, "POST", PATH, ("application/json", Bytes::from(definition.to_string()))).await
}

/// A write on the connection that is there, or a new one after a failure; 0 is no answer.
async fn send(talk: &mut Option<Talk>, listener: &Listener, method: &str, path: &str, body: (&str, Bytes)) -> u16 {
    let asking = async {
        if talk.is_none() {
            *talk = Some(listener.talk().await?);
        }
        talk.as_mut().context("just opened")?.whole(method, path, Some(body)).await
    };
    match timeout(WRITE, asking).await {
        Ok(Ok((status, _))) => status,
        _ => {
            *talk = None;
            0
        }
    }
}

/// Counts what was answered with this status.
fn taken(statuses: &[u16], status: u16) -> String {
    format!("{}/{}", statuses.iter().filter(|s| **s == status).count(), statuses.len())
}

/// Large ones created and patched, then huge ones.
pub(super) async fn large_and_many(target: &Target, told: &mut Told) -> Result<()> {
    let (mut talk, listener) = (None, &target.plain);
    let (mut created, mut patched, mut huge) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..target.sizes.of(LARGE) {
        created.push(create(&mut talk, listener, &definition(&format!("large{n}s"), "attack.example.com", "v1", LARGE_BYTES)).await);
    }
    for n in 0..target.sizes.of(LARGE) {
        let path = format!("{PATH}/large{n}s.attack.example.com");
        let body = Bytes::from(json!({"metadata": {"annotations": {"patched": "yes"}}}).to_string());
        patched.push(send(&mut talk, listener, "PATCH", &path, ("application/merge-patch+json", body)).await);
    }
    for n in 0..target.sizes.of(HUGE) {
        huge.push(create(&mut talk, listener, &definition(&format!("huge{n}s"), "attack.example.com", "v1", HUGE_BYTES)).await);
    }
    told.note("created", taken(&created, 201));
    told.note("patched", taken(&patched, 200));
    told.note("huge", taken(&huge, 201));
    sleep(target.time).await;
    Ok(())
}

/// Many small ones, and what they cost when nobody does anything but the honest client; `before` is what that costs without them.
pub(super) async fn small(ground: &Ground, told: &mut Told, before: f64) -> Result<()> {
    let (mut talk, target, mut created) = (None, &ground.target, Vec::new());
    for n in 0..target.sizes.of(SMALL) {
        created.push(create(&mut talk, &target.plain, &definition(&format!("small{n}s"), "attack.example.com", "v1", 0)).await);
    }
    told.note("created", taken(&created, 201));
    sleep(CALM).await;
    let (start, first) = (Instant::now(), ground.server.cost()?.cpu_seconds);
    sleep(Duration::from_secs(target.sizes.of(RESTING) as u64)).await;
    let resting = (ground.server.cost()?.cpu_seconds - first) / start.elapsed().as_secs_f64();
    told.note("cpu_at_rest", format!("{before:.2}>{resting:.2}"));
    if resting > before + RESTING_CPU {
        told.blame(format!("at rest {resting:.2} of a core, {before:.2} without the definitions"));
    }
    Ok(())
}

/// One near the limit, then an ordinary one.
pub(super) async fn largest(target: &Target, told: &mut Told) -> Result<()> {
    let (mut talk, listener) = (None, &target.plain);
    let (mut largest, mut bytes) = (0, LARGEST_BYTES);
    while largest != 201 && bytes > LARGEST_BYTES - STEPS * STEP_BYTES {
        bytes -= STEP_BYTES;
        largest = create(&mut talk, listener, &padded("largests", bytes)).await;
    }
    told.note("bytes", bytes);
    let ordinary = create(&mut talk, listener, &definition("ordinaries", "attack.example.com", "v1", 1000)).await;
    told.note("created", format!("{largest},{ordinary}"));
    ensure!(ordinary == 201, "an ordinary definition got {ordinary}");
    let start = Instant::now();
    let is_established = async || {
        let (_, body) = listener.get(&format!("{PATH}/ordinaries.attack.example.com"), ESTABLISHED).await.ok()?;
        let definition: Value = serde_json::from_slice(&body).ok()?;
        let conditions = definition.pointer("/status/conditions")?.as_array()?.clone();
        conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True").then_some(())
    };
    while is_established().await.is_none() {
        if start.elapsed() > target.time.max(ESTABLISHED) {
            told.note("established", "never");
            told.blame(format!("an ordinary definition was not established within {:?}", start.elapsed()));
            return Ok(());
        }
        sleep(Duration::from_millis(50)).await;
    }
    told.note("established", format!("{}ms", start.elapsed().as_millis()));
    if start.elapsed() > ESTABLISHED {
        told.blame(format!("an ordinary definition took {:?} to be established", start.elapsed()));
    }
    Ok(())
}

/// Names that built-in resources have, in versions that they have not.
pub(super) async fn shadow(target: &Target, told: &mut Told) -> Result<()> {
    let (mut talk, listener, mut created) = (None, &target.plain, Vec::new());
    for (plural, group) in SHADOWED {
        let mut shadow = definition(plural, group, "v7", 1000);
        shadow["spec"]["scope"] = "Cluster".into();
        created.push(create(&mut talk, listener, &shadow).await.to_string());
    }
    // Objects of the new versions lie where the built-in ones are, if the definitions are heard.
    for (plural, group) in SHADOWED {
        let object = json!({"apiVersion": format!("{group}/v7"), "kind": format!("K{plural}"), "metadata": {"name": "shadow"}});
        let (path, body) = (format!("/apis/{group}/v7/{plural}"), Bytes::from(object.to_string()));
        let deadline = Instant::now() + ESTABLISHED;
        let mut status = 404;
        while status == 404 && Instant::now() < deadline {
            sleep(Duration::from_millis(200)).await;
            status = send(&mut talk, listener, "POST", &path, ("application/json", body.clone())).await;
        }
        created.push(status.to_string());
    }
    told.note("created", created.join(","));
    let end = Instant::now() + target.time;
    let mut broken = 0;
    while Instant::now() < end {
        for path in
            [PATH, "/apis/apiregistration.k8s.io/v1/apiservices", "/apis/apiextensions.k8s.io/v1", "/apis/apiregistration.k8s.io/v1"]
        {
            match listener.get(path, WRITE).await {
                Ok((200, _)) => {}
                Ok((status, _)) if broken == 0 => told.blame(format!("{path} answers {status}")),
                Err(error) if broken == 0 => told.blame(format!("{path}: {error:#}")),
                _ => {}
            }
            broken += 1;
        }
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_have_the_size_they_are_asked_for() {
        for bytes in [LARGE_BYTES, HUGE_BYTES] {
            let size = definition("xs", "g", "v1", bytes).to_string().len();
            assert!(size > bytes * 9 / 10 && size < bytes + 2000, "{bytes}: {size}");
        }
        assert_eq!(padded("largests", LARGEST_BYTES).to_string().len(), LARGEST_BYTES);
    }
}
