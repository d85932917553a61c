//! The changes, made through kube-apiserver. Knows nothing of the server under test.

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::Result;

/// Writers at a time.
const WRITERS: usize = 16;
/// Distance between the objects of neighbouring changes: prime, so that they are spread over all objects.
const STRIDE: usize = 7_919;

/// Makes changes to one namespace's ConfigMaps.
pub(crate) struct Writes {
    client: Client,
    namespace: String,
    objects: usize,
}

impl Writes {
    /// Nothing is written yet.
    pub(crate) fn new(client: Client, namespace: &str, objects: usize) -> Self {
        Self { client, namespace: namespace.to_owned(), objects }
    }

    /// Makes the namespace and the ConfigMaps.
    pub(crate) async fn begin(&self) -> Result<()> {
        let namespace = serde_json::from_value::<Namespace>(json!({"metadata": {"name": self.namespace}}))?;
        allow(409, Api::<Namespace>::all(self.client.clone()).create(&PostParams::default(), &namespace).await)?;
        stream::iter(0..self.objects).map(Ok).try_for_each_concurrent(WRITERS, |n| self.create(n, "new")).await
    }

    /// Makes this many changes: updates, every fifth time a deletion; what is not there is created.
    pub(crate) async fn change(&self, count: usize) -> Result<()> {
        stream::iter(0..count).map(Ok).try_for_each_concurrent(WRITERS, |n| self.change_one(n)).await
    }

    async fn change_one(&self, n: usize) -> Result<()> {
        let object = n * STRIDE % self.objects;
        let name = name(object);
        let text = format!("change {n}");
        let found = if n.is_multiple_of(5) {
            allow(404, self.maps().delete(&name, &DeleteParams::default()).await)?
        } else {
            let patch = Patch::Merge(json!({"data": {"text": text}}));
            allow(404, self.maps().patch(&name, &PatchParams::default(), &patch).await)?
        };
        if found { Ok(()) } else { self.create(object, &text).await }
    }

    async fn create(&self, n: usize, text: &str) -> Result<()> {
        let map =
            json!({"metadata": {"name": name(n), "labels": {"n": (n % 10).to_string()}}, "data": {"text": format!("<{text}>&\u{2028}")}});
        let map: ConfigMap = serde_json::from_value(map)?;
        debug_assert_eq!(map.name_any(), name(n));
        allow(409, self.maps().create(&PostParams::default(), &map).await).map(drop)
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

fn name(n: usize) -> String {
    format!("cm-{n:05}")
}

/// Whether it succeeded; an answer with this code is no error, for another writer or an earlier run may have been there.
fn allow<T>(code: u16, answer: kube::Result<T>) -> Result<bool> {
    match answer {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == code => Ok(false),
        Err(error) => Err(error.into()),
    }
}
