//! `kube-rs-operator KUBECONFIG`: an operator made with kube-rs, and what is asked of it: one line for each check, exit status 1 when one fails.
//!
//! It keeps a ConfigMap for each Thing, which owns it, and holds the Thing with a finalizer. What it owns goes by itself: nothing else runs beside the server.

use std::{
    error::Error,
    fmt,
    future::Future,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config, Resource, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, PropagationPolicy},
    config::{KubeConfigOptions, Kubeconfig},
    core::{ApiResource, GroupVersionKind},
    runtime::{
        Controller,
        controller::Action,
        finalizer::{Event, finalizer},
        watcher,
    },
};
use serde_json::json;

const GROUP: &str = "kube-rs.example";
const NAMESPACE: &str = "default";
const FINALIZER: &str = "kube-rs.example/finalizer";
/// How long a check may take to hold.
const PATIENCE: Duration = Duration::from_secs(30);

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// What could not be reconciled, and is tried again.
#[derive(Debug)]
struct Failed(String);

impl fmt::Display for Failed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl Error for Failed {}

/// What the reconciler works with.
struct Operator {
    client: Client,
    finalized: AtomicUsize,
}

fn things() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, "v1", "Thing"), "things")
}

async fn reconcile(thing: Arc<DynamicObject>, operator: Arc<Operator>) -> std::result::Result<Action, Failed> {
    let all: Api<DynamicObject> = Api::namespaced_with(operator.client.clone(), NAMESPACE, &things());
    let done = finalizer(&all, FINALIZER, thing, |event| async {
        match event {
            Event::Apply(thing) => apply(&thing, &operator).await,
            Event::Cleanup(_) => {
                operator.finalized.fetch_add(1, Ordering::Relaxed);
                Ok(Action::await_change())
            }
        }
    });
    done.await.map_err(|error| Failed(error.to_string()))
}

async fn apply(thing: &DynamicObject, operator: &Operator) -> std::result::Result<Action, kube::Error> {
    let owner = thing.controller_owner_ref(&things());
    let name = format!("of-{}", thing.name_any());
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": [owner]}, "data": {"spec": thing.data["spec"].to_string()},
    });
    let params = PatchParams::apply("kube-rs-operator").force();
    let maps: Api<ConfigMap> = Api::namespaced(operator.client.clone(), NAMESPACE);
    maps.patch(&name, &params, &Patch::Apply(map)).await?;
    let all: Api<DynamicObject> = Api::namespaced_with(operator.client.clone(), NAMESPACE, &things());
    let status = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Thing", "status": {"ready": true}});
    all.patch_status(&thing.name_any(), &params, &Patch::Apply(status)).await?;
    Ok(Action::await_change())
}

/// Prints whether a question is answered with yes in time.
async fn check<F: Future<Output = kube::Result<bool>>>(name: &str, question: impl Fn() -> F) -> bool {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let held = question().await;
        if matches!(held, Ok(true)) {
            say(&format!("ok: kube-rs operator: {name}"));
            return true;
        }
        if Instant::now() > deadline {
            say(&format!("FAILED: kube-rs operator: {name}: {held:?}"));
            return false;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[expect(clippy::print_stdout, reason = "it is read by people and by CI")]
fn say(line: &str) {
    println!("{line}");
}

async fn play(kubeconfig: &str) -> Result<bool> {
    let config = Config::from_custom_kubeconfig(Kubeconfig::read_from(kubeconfig)?, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let definitions_of = ApiResource::from_gvk(&GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition"));
    let definitions: Api<DynamicObject> = Api::all_with(client.clone(), &definitions_of);
    let version = json!({
        "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    });
    let spec = json!({
        "group": GROUP, "scope": "Namespaced", "names": {"plural": "things", "singular": "thing", "kind": "Thing"}, "versions": [version],
    });
    let name = format!("things.{GROUP}");
    definitions.create(&PostParams::default(), &DynamicObject::new(&name, &definitions_of).data(json!({"spec": spec}))).await?;
    let all: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &things());
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let mut well = check("the definition is served", || async { all.list(&Default::default()).await.map(|_| true) }).await;

    let operator = Arc::new(Operator { client, finalized: AtomicUsize::new(0) });
    let controller = Controller::new_with(all.clone(), watcher::Config::default(), things()).owns(maps.clone(), watcher::Config::default());
    let running = controller.run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(200)), operator.clone());
    let running = tokio::spawn(running.for_each(|_| async {}));

    let policies = [PropagationPolicy::Background, PropagationPolicy::Foreground, PropagationPolicy::Orphan];
    for (number, policy) in policies.into_iter().enumerate() {
        let (name, owned) = (format!("thing-{number}"), format!("of-thing-{number}"));
        let stays = matches!(policy, PropagationPolicy::Orphan);
        all.create(&PostParams::default(), &DynamicObject::new(&name, &things()).data(json!({"spec": {"size": number}}))).await?;
        let is_ready = || async {
            let thing = all.get(&name).await?;
            Ok(thing.data["status"]["ready"] == true && thing.finalizers().contains(&FINALIZER.to_owned()))
        };
        well &= check(&format!("a Thing is made ready ({policy:?})"), is_ready).await;
        let first = maps.get(&owned).await?.uid();
        maps.delete(&owned, &DeleteParams::default()).await?;
        let is_there_again = || async { Ok(maps.get_opt(&owned).await?.is_some_and(|map| map.uid() != first)) };
        well &= check("what it owns is made again", is_there_again).await;
        all.delete(&name, &DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() }).await?;
        let is_gone = || async { Ok(all.get_opt(&name).await?.is_none() && operator.finalized.load(Ordering::Relaxed) > number) };
        well &= check("the finalizer runs, and the Thing goes", is_gone).await;
        let is_right = || async {
            let left = maps.get_opt(&owned).await?;
            Ok(if stays { left.is_some_and(|map| map.owner_references().is_empty()) } else { left.is_none() })
        };
        well &= check(if stays { "its ConfigMap stays, and is nobody's" } else { "its ConfigMap goes" }, is_right).await;
    }
    running.abort();
    definitions.delete(&name, &DeleteParams::default()).await?;
    well &= check("the definition goes", || async { Ok(definitions.get_opt(&name).await?.is_none()) }).await;
    Ok(well)
}

#[tokio::main]
async fn main() -> ExitCode {
    let Some(kubeconfig) = std::env::args().nth(1) else {
        say("usage: kube-rs-operator KUBECONFIG");
        return ExitCode::from(2);
    };
    match play(&kubeconfig).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("FAILED: kube-rs operator: {error}"));
            ExitCode::FAILURE
        }
    }
}
