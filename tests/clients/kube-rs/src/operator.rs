//! Is an operator made with kube-rs, and what is asked of it: one line for each check, exit status 1 when one fails.
//!
//! It keeps a ConfigMap and a Secret for each Gadget, which owns them, and holds the Gadget with a finalizer. What it owns goes by itself: nothing else runs
//! beside the server, which is told by a kubeconfig.

use std::{
    error::Error,
    future::Future,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use clap::Parser;
use futures::StreamExt;
use k8s_openapi::{
    api::core::v1::{ConfigMap, Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Config, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams, PropagationPolicy},
    config::{KubeConfigOptions, Kubeconfig},
    core::GroupVersionKind,
    runtime::{
        controller::{Action, Config as ControllerConfig, Controller},
        finalizer::{Event, finalizer},
        watcher,
    },
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

const GROUP: &str = "kube-rs.example";
const FINALIZER: &str = "kube-rs.example/finalizer";
const NAMESPACE: &str = "default";
const PATIENCE: Duration = Duration::from_secs(30);

type Failure = Box<dyn Error + Send + Sync>;

#[derive(Parser)]
struct Options {
    kubeconfig: std::path::PathBuf,
}

#[derive(Debug)]
struct Failed(Failure);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Error for Failed {}

impl From<kube::Error> for Failed {
    fn from(error: kube::Error) -> Self {
        Self(error.into())
    }
}

/// Reconciles Gadgets.
struct Operator {
    client: Client,
    gadgets: ApiResource,
    finalized: AtomicUsize,
}

impl Operator {
    fn gadgets(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), NAMESPACE, &self.gadgets)
    }

    fn owned<K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    async fn apply(&self, gadget: &DynamicObject) -> Result<Action, Failed> {
        let name = format!("of-{}", gadget.name_any());
        let metadata = ObjectMeta {
            name: Some(name.clone()),
            owner_references: gadget.controller_owner_ref(&self.gadgets).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        };
        let params = PatchParams::apply("kube-rs-operator").force();
        let data = Some([("spec".to_owned(), gadget.data["spec"].to_string())].into());
        let config_map = ConfigMap { metadata: metadata.clone(), data: data.clone(), ..ConfigMap::default() };
        self.owned::<ConfigMap>().patch(&name, &params, &Patch::Apply(&config_map)).await?;
        let secret = Secret { metadata, string_data: data, ..Secret::default() };
        self.owned::<Secret>().patch(&name, &params, &Patch::Apply(&secret)).await?;
        if gadget.data["status"]["ready"] != true {
            let status = Patch::Merge(json!({"status": {"ready": true}}));
            self.gadgets().patch_status(&gadget.name_any(), &PatchParams::default(), &status).await?;
        }
        Ok(Action::await_change())
    }
}

async fn reconcile(gadget: Arc<DynamicObject>, operator: Arc<Operator>) -> Result<Action, Failed> {
    let gadgets = operator.gadgets();
    let reconciled = finalizer(&gadgets, FINALIZER, gadget, |event| async {
        match event {
            Event::Apply(gadget) => operator.apply(&gadget).await,
            Event::Cleanup(_) => {
                operator.finalized.fetch_add(1, Ordering::Relaxed);
                Ok(Action::await_change())
            }
        }
    });
    reconciled.await.map_err(|error| Failed(error.into()))
}

#[allow(clippy::needless_pass_by_value, reason = "the signature that the controller wants")]
fn again(_: Arc<DynamicObject>, _: &Failed, _: Arc<Operator>) -> Action {
    Action::requeue(Duration::from_millis(200))
}

/// Asks until it holds, and prints whether it did.
async fn check<F: Future<Output = Result<bool, kube::Error>>>(name: &str, question: impl Fn() -> F) -> bool {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = question().await;
        if matches!(answer, Ok(true)) {
            println!("ok: operator: {name}");
            return true;
        }
        if Instant::now() > deadline {
            println!("FAILED: operator: {name} {answer:?}");
            return false;
        }
        sleep(Duration::from_millis(50)).await;
    }
}

async fn is_gone<K>(api: &Api<K>, name: &str) -> Result<bool, kube::Error>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    Ok(api.get_opt(name).await?.is_none())
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("gadgets.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

async fn run(options: &Options) -> Result<bool, Failure> {
    let config = Config::from_custom_kubeconfig(Kubeconfig::read_from(&options.kubeconfig)?, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &serde_json::from_value(definition())?).await?;
    let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, "v1", "Gadget"), "gadgets");
    let operator = Arc::new(Operator { client: client.clone(), gadgets: kind.clone(), finalized: AtomicUsize::new(0) });
    let (gadgets, config_maps, secrets) = (operator.gadgets(), operator.owned::<ConfigMap>(), operator.owned::<Secret>());
    let mut held = check("the definition is served", || async { gadgets.list(&Default::default()).await.map(|_| true) }).await;

    let controller = Controller::new_with(gadgets.clone(), watcher::Config::default(), kind.clone())
        .with_config(ControllerConfig::default().concurrency(4))
        .owns(config_maps.clone(), watcher::Config::default())
        .owns(secrets.clone(), watcher::Config::default())
        .run(reconcile, again, operator.clone());
    let running = tokio::spawn(controller.for_each(|_| async {}));

    let propagations = [PropagationPolicy::Background, PropagationPolicy::Foreground, PropagationPolicy::Orphan];
    for (number, propagation) in propagations.into_iter().enumerate() {
        let (name, owned) = (format!("gadget-{number}"), format!("of-gadget-{number}"));
        let gadget = DynamicObject::new(&name, &kind).data(json!({"spec": {"size": number}}));
        gadgets.create(&PostParams::default(), &gadget).await?;
        let ready = || async {
            let gadget = gadgets.get(&name).await?;
            Ok(gadget.data["status"]["ready"] == true && gadget.finalizers().iter().any(|held| held == FINALIZER))
        };
        held &= check(&format!("a Gadget is made ready ({propagation:?})"), ready).await;
        let first = config_maps.get(&owned).await?.uid();
        config_maps.delete(&owned, &DeleteParams::default()).await?;
        let again = || async { Ok(config_maps.get_opt(&owned).await?.is_some_and(|now| now.uid() != first)) };
        held &= check("what it owns is made again", again).await;
        let is_orphaned = matches!(propagation, PropagationPolicy::Orphan);
        gadgets.delete(&name, &DeleteParams { propagation_policy: Some(propagation), ..DeleteParams::default() }).await?;
        let finalized = || async { Ok(is_gone(&gadgets, &name).await? && operator.finalized.load(Ordering::Relaxed) > number) };
        held &= check("the finalizer runs, and the Gadget goes", finalized).await;
        if is_orphaned {
            let alone = || async { Ok(config_maps.get(&owned).await?.owner_references().is_empty()) };
            held &= check("its ConfigMap stays, and is nobody's", alone).await;
        } else {
            held &= check("its ConfigMap goes", || is_gone(&config_maps, &owned)).await;
            held &= check("its Secret goes", || is_gone(&secrets, &owned)).await;
        }
    }
    let name = format!("gadgets.{GROUP}");
    definitions.delete(&name, &DeleteParams::default()).await?;
    held &= check("the definition goes", || is_gone(&definitions, &name)).await;
    running.abort();
    Ok(held)
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Options::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("operator: {error}");
            ExitCode::FAILURE
        }
    }
}
