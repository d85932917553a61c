//! Kubernetes' protobuf: what kube-apiserver answers and stores in it is what `codec::proto` makes of the JSON, and the other way round.

use std::{collections::BTreeMap, env, fs, io, net::SocketAddr, path::Path};

use ::proto::testing::{Client as Etcd, Range, get};
use base64::{Engine, prelude::BASE64_STANDARD};
use codec::proto::{self, Unknown};
use serde_json::{Value, json};

use super::{
    Outcome,
    objects::{self, AWKWARD, Creation},
    parity::{collections, object_path},
    peers::Site,
    say,
};
use crate::client::Client;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// Tries to read an object twice while nobody writes it; kube-apiserver writes its lease every few seconds.
const TRIES: usize = 60;
/// Objects in etcd that are those that were served, at least: all but a few leases of some 200.
const FOUND_LEAST: usize = 180;
/// Longest message taken from etcd, bytes.
const MESSAGE_LIMIT: usize = 64 << 20;
/// Longest JSON of a golden line, bytes: larger objects say little more.
const RECORDED_MAX: usize = 4 << 10;

#[tokio::test]
#[ignore = "needs etcd and kube-apiserver: WATCHCACHE_TEST_PEERS"]
async fn protobuf_is_that_of_kube_apiserver() -> Outcome {
    let programs =
        env::var_os("WATCHCACHE_TEST_PEERS").ok_or("WATCHCACHE_TEST_PEERS does not name a folder with etcd and kube-apiserver")?;
    let site = Site::prepare(Path::new(&programs))?;
    let (_etcd, etcd) = site.etcd()?;
    let flags = ["--storage-media-type", PROTOBUF, "--runtime-config=api/all=true"];
    let (theirs, address) = site.apiserver_with("kube-apiserver", etcd, &flags)?;
    let client = site.client(address);
    theirs.ready(&client).await?;
    create(&client, "proto").await?;

    let mut tally = Tally::default();
    for path in ["/api", "/apis", "/api/v1", "/apis/apps/v1", "/api/v1/namespaces/default/pods/none", "/api/v1/pods?limit=1"] {
        tally.answer(&client, path).await?;
    }
    // Custom resources have no protobuf.
    for collection in collections(&client).await?.into_iter().filter(|path| !path.contains("/ex.io/")) {
        let list = tally.answer(&client, &collection).await?;
        for item in list["items"].as_array().into_iter().flatten() {
            let path = object_path(&collection, item);
            tally.answer(&client, &path).await?;
            for part in ["status", "scale"] {
                tally.answer(&client, &format!("{path}/{part}")).await?;
            }
        }
    }
    for path in
        ["/api/v1/namespaces/proto/pods", "/apis/apps/v1/deployments", "/apis/ex.io/v1/widgets", "/api/v1/namespaces/proto/pods/one"]
    {
        tally.metadata(&client, path).await?;
    }
    tally.stored(etcd).await?;
    tally.outcome()
}

/// Something of every kind that kube-apiserver does not make by itself.
async fn create(client: &Client, ns: &str) -> Outcome {
    objects::create(client, vec![objects::namespace(ns)]).await?;
    objects::create(
        client,
        vec![objects::pod(ns, "one", Some("node")), objects::config_map(ns, 0), objects::config_map(ns, 9), objects::secret(ns, 0)],
    )
    .await?;
    // Protobuf keeps the JSON of a revision as it was sent, `<` or `\u003c`; the JSON that kube-apiserver prints does not say which it was.
    let few = objects::few_of_many(ns).into_iter().filter(|(path, _)| !path.ends_with("/controllerrevisions"));
    objects::create(client, few.collect()).await?;
    objects::create(client, objects::definitions()).await?;
    objects::create(client, others(ns)).await
}

/// Kinds that the comparison of bodies does without.
fn others(ns: &str) -> Vec<Creation> {
    let hook = json!([{"name": "h.ex.io", "clientConfig": {"url": "https://h.ex.io/x"}, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "rules": [{"apiGroups": ["none.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nones"]}]}]);
    let device = json!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c", "selectors": [{"cel": {"expression": "1 < 2"}}]}}],
        "config": [{"requests": ["r"], "opaque": {"driver": "d.ex.io", "parameters": {"b": "x y", "a": [1.50, null, "é"]}}}]}});
    let template = json!({"metadata": {"labels": {"t": "u"}}, "spec": {"containers": [{"name": "c", "image": "none:1"}]}});
    [
        (format!("/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaims"), json!({"spec": device.clone()})),
        (format!("/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaimtemplates"), json!({"spec": {"spec": device}})),
        (format!("/apis/apps/v1/namespaces/{ns}/controllerrevisions"), json!({"revision": 3, "data": {"b": 1, "a": {"z": "x\ty\u{7f}"}}})),
        ("/apis/resource.k8s.io/v1/deviceclasses".into(), json!({"spec": {"selectors": [{"cel": {"expression": "device.driver == 'x'"}}]}})),
        (
            "/apis/resource.k8s.io/v1/resourceslices".into(),
            json!({"spec": {"driver": "d.ex.io", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "d", "attributes": {"a": {"int": 5}, "b": {"bool": false}, "c": {"string": "s"}, "v": {"version": "1.2.3"}},
                    "capacity": {"memory": {"value": "1Gi"}}}]}}),
        ),
        ("/apis/storage.k8s.io/v1/csinodes".into(), json!({"spec": {"drivers": [{"name": "d", "nodeID": "n", "allocatable": {"count": 7}}]}})),
        ("/apis/storage.k8s.io/v1/volumeattachments".into(), json!({"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}}})),
        ("/apis/storage.k8s.io/v1/volumeattributesclasses".into(), json!({"driverName": "d", "parameters": {"p": AWKWARD}})),
        (format!("/apis/storage.k8s.io/v1/namespaces/{ns}/csistoragecapacities"), json!({"storageClassName": "s", "capacity": "1.5Gi"})),
        ("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations".into(), json!({"webhooks": hook.clone()})),
        ("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations".into(), json!({"webhooks": hook})),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings".into(),
            json!({"spec": {"policyName": "none", "validationActions": ["Deny"]}}),
        ),
        ("/apis/networking.k8s.io/v1/ipaddresses".into(), json!({"spec": {"parentRef": {"resource": "services", "namespace": "n", "name": "s"}}})),
        (
            format!("/apis/apps/v1/namespaces/{ns}/deployments"),
            json!({"spec": {"selector": {"matchLabels": {"t": "u"}}, "template": template, "strategy": {"rollingUpdate": {"maxSurge": "30%", "maxUnavailable": 0}}}}),
        ),
        (
            "/apis/certificates.k8s.io/v1/certificatesigningrequests".into(),
            json!({"spec": {"request": BASE64_STANDARD.encode(request()), "signerName": "ex.io/s", "usages": ["digital signature"]}}),
        ),
    ]
    .into_iter()
    .map(|(collection, mut object)| {
        let name = match collection.rsplit('/').next() {
            Some("ipaddresses") => "10.9.8.7",
            _ => "b",
        };
        object["metadata"] = json!({"name": name, "annotations": {"note": AWKWARD}, "finalizers": ["ex.io/f"]});
        (collection, object)
    })
    .collect()
}

/// A certificate request in PEM.
fn request() -> String {
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(Vec::new()).expect("no names");
    params.serialize_request(&key).and_then(|request| request.pem()).expect("a request")
}

#[derive(Default)]
struct Tally {
    compared: usize,
    kinds: BTreeMap<(String, String), String>,
    wrong: Vec<String>,
    /// Objects as they were answered, by uid and kind.
    served: BTreeMap<String, Value>,
    /// Those of them that were found in etcd.
    found: usize,
}

impl Tally {
    /// Compares an answer in both forms; the JSON.
    async fn answer(&mut self, client: &Client, path: &str) -> Result<Value, Box<dyn std::error::Error>> {
        let (text, message) = both(client, path, "").await?;
        let json: Value = serde_json::from_str(&text)?;
        if json["kind"] == "Status" && json["code"] == 404 && path.ends_with("/scale") | path.ends_with("/status") {
            return Ok(json);
        }
        match proto::open(&message) {
            Ok(unknown) => self.compare(path, &message, &unknown, &text),
            Err(error) => self.wrong.push(format!("{path}: {error}: {}", message.escape_ascii())),
        }
        if !path.ends_with("/scale") {
            self.served.insert(identity(&json), json.clone());
        }
        Ok(json)
    }

    /// Compares the metadata alone. The items of such a list say their kind in JSON, which no message does; and of a whole object its metadata is taken.
    async fn metadata(&mut self, client: &Client, path: &str) -> Outcome {
        let kind = if path.ends_with("/one") { "PartialObjectMetadata" } else { "PartialObjectMetadataList" };
        let (text, message) = both(client, path, &format!(";as={kind};g=meta.k8s.io;v=v1")).await?;
        let of = proto::message("meta.k8s.io/v1", kind).ok_or("no message of metadata")?;
        let unknown = proto::open(&message)?;
        let made = of.from_json(text.as_bytes())?;
        if (unknown.api_version, unknown.kind, unknown.raw) != ("meta.k8s.io/v1", kind, &made[..]) {
            self.wrong.push(format!("{path}: {kind} of {text}"));
        }
        if kind == "PartialObjectMetadata" {
            let (whole, _) = both(client, path, "").await?;
            if of.from_json(whole.as_bytes())? != unknown.raw {
                self.wrong.push(format!("{path}: metadata of {whole}"));
            }
            self.compare(path, &message, &unknown, &text);
        }
        Ok(())
    }

    fn compare(&mut self, path: &str, message: &[u8], unknown: &Unknown<'_>, text: &str) {
        self.compared += 1;
        let mut again = Vec::new();
        proto::envelope_into(unknown.api_version, unknown.kind, unknown.raw, &mut again);
        if again != message {
            self.wrong.push(format!("{path}: another envelope"));
        }
        let Some(of) = proto::message(unknown.api_version, unknown.kind) else {
            return self.wrong.push(format!("{path}: no message of {} {}", unknown.api_version, unknown.kind));
        };
        let mut told = Vec::new();
        let made = match of.to_json(unknown.raw, usize::MAX, &mut told).and_then(|()| of.from_json(text.as_bytes())) {
            Ok(made) => made,
            Err(error) => return self.wrong.push(format!("{path}: {error}")),
        };
        if told != text.as_bytes() {
            self.wrong.push(format!("{path}: JSON\n  {}\n  {text}", String::from_utf8_lossy(&told)));
        }
        if made != unknown.raw {
            self.wrong.push(format!("{path}: message of {text}\n  {}\n  {}", made.escape_ascii(), unknown.raw.escape_ascii()));
        }
        let line = || format!("{}\t{}\t{}\t{text}\n", unknown.api_version, unknown.kind, BASE64_STANDARD.encode(unknown.raw));
        let kept = self.kinds.entry((unknown.kind.to_owned(), unknown.api_version.to_owned())).or_default();
        let most = if unknown.kind.ends_with("List") { RECORDED_MAX / 4 } else { RECORDED_MAX };
        if text.len() <= most && kept.len() < line().len() {
            *kept = line();
        }
    }

    /// Every value that etcd has: what we read and write again is the same.
    async fn stored(&mut self, etcd: SocketAddr) -> Outcome {
        let mut kv = Etcd::connect(&format!("http://{etcd}"))?.kv.max_decoding_message_size(MESSAGE_LIMIT);
        let mut seen = 0;
        for pair in &kv.range(get("/registry/").prefix()).await?.into_inner().kvs {
            let Ok(unknown) = proto::open(&pair.value) else { continue };
            let path = std::str::from_utf8(&pair.key).unwrap_or("a key");
            let Some(of) = proto::message(unknown.api_version, unknown.kind) else {
                self.wrong.push(format!("{path}: no message of {} {}", unknown.api_version, unknown.kind));
                continue;
            };
            seen += 1;
            let mut text = Vec::new();
            match of.to_json(unknown.raw, usize::MAX, &mut text) {
                Ok(()) => {
                    let text = String::from_utf8_lossy(&text);
                    self.compare(path, &pair.value, &unknown, &text);
                    self.served_as_stored(path, &text, pair.mod_revision);
                }
                Err(error) => self.wrong.push(format!("{path}: {error}")),
            }
        }
        if seen < 200 {
            self.wrong.push(format!("{seen} values in etcd are too few"));
        }
        Ok(())
    }

    /// What is stored is what is served, unless it was written in between, as kube-apiserver does with its leases.
    fn served_as_stored(&mut self, path: &str, text: &str, revision: i64) {
        let mut stored: Value = serde_json::from_str(text).unwrap_or_default();
        if stored["kind"] == "PersistentVolumeClaim" && stored["status"] == json!({}) {
            // A default that is only filled in when it is read, as from JSON.
            stored["status"]["phase"] = "Pending".into();
        }
        if stored["kind"] == "HorizontalPodAutoscaler" && stored["spec"]["behavior"]["scaleDown"].is_object() {
            // Such a one too: of a behavior that was written as autoscaling/v1.
            stored["spec"]["behavior"]["scaleDown"]["selectPolicy"] = "Max".into();
            let policies =
                [json!({"type": "Pods", "value": 4, "periodSeconds": 15}), json!({"type": "Percent", "value": 100, "periodSeconds": 15})];
            if stored["spec"]["behavior"]["scaleUp"].is_null() {
                stored["spec"]["behavior"]["scaleUp"] =
                    json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": policies});
            }
        }
        stored["metadata"]["resourceVersion"] = revision.to_string().into();
        let same = |served: &&Value| served["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"];
        if let Some(served) = self.served.get(&identity(&stored)).filter(same) {
            self.found += 1;
            if *served != stored {
                self.wrong.push(format!("{path}: stored {text}\n  served {served}"));
            }
        }
    }

    fn outcome(self) -> Outcome {
        say(&format!(
            "live proto: {} messages of {} kinds compared, {} stored as served, {} differ",
            self.compared,
            self.kinds.len(),
            self.found,
            self.wrong.len()
        ));
        for wrong in self.wrong.iter().take(8) {
            say(&format!("  {wrong:.2000}"));
        }
        if let Some(file) = env::var_os("WATCHCACHE_PROTO_RECORD") {
            fs::write(file, self.kinds.into_values().collect::<String>())?;
        } else if self.kinds.len() < 150 {
            return Err(format!("{} kinds are too few", self.kinds.len()).into());
        }
        if self.found < FOUND_LEAST {
            return Err(format!("{} of the objects in etcd were compared with what was served: too few", self.found).into());
        }
        if self.wrong.is_empty() { Ok(()) } else { Err(format!("{} differences", self.wrong.len()).into()) }
    }
}

/// An object in one of its versions.
fn identity(object: &Value) -> String {
    format!("{} {} {}", object["metadata"]["uid"], object["kind"], object["apiVersion"])
}

/// The JSON without its newline, and the protobuf, of the same state; `parameters` of the media types.
async fn both(client: &Client, path: &str, parameters: &str) -> io::Result<(String, Vec<u8>)> {
    let accept = |form: &str| [("Accept".to_owned(), format!("{form}{parameters}"))];
    for _ in 0..TRIES {
        let before = client.whole("GET", path, &accept("application/json"), b"").await?;
        let message = client.whole("GET", path, &accept(PROTOBUF), b"").await?;
        let after = client.whole("GET", path, &accept("application/json"), b"").await?;
        if before.body == after.body {
            let text = String::from_utf8(before.body).map_err(io::Error::other)?;
            return Ok((text.trim_end_matches('\n').to_owned(), message.body));
        }
    }
    Err(io::Error::other(format!("{path} does not hold still")))
}
