//! The node authorizer: a kubelet may read what its pods need, decided from an index of pods, volumes, attachments and slices.

mod decide;
mod references;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use equivalent::Equivalent;
use imbl::{HashMap, OrdSet};
use serde_json::from_slice;

use super::Affected;
use decide::{GROUP, USER_PREFIX};
use references::{Bound, Pod, Volume};

/// A kind whose objects say what belongs to which node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Belongs to its node, with all that it refers to.
    Pod,
    /// Belongs, with its secrets, to the nodes of its claim's pods.
    PersistentVolume,
    /// Belongs to the node that its spec names.
    VolumeAttachment,
    /// Belongs to the node that its spec names, if any.
    ResourceSlice,
}

impl Kind {
    /// The kind of a resource.
    #[must_use]
    pub fn of(group: &str, resource: &str) -> Option<Kind> {
        match (group, resource) {
            ("", "pods") => Some(Kind::Pod),
            ("", "persistentvolumes") => Some(Kind::PersistentVolume),
            ("storage.k8s.io", "volumeattachments") => Some(Kind::VolumeAttachment),
            ("resource.k8s.io", "resourceslices") => Some(Kind::ResourceSlice),
            _ => None,
        }
    }
}

/// What a node may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Sort {
    Attachment,
    Claim,
    ConfigMap,
    Pod,
    ResourceClaim,
    Secret,
    ServiceAccount,
    Slice,
    Volume,
}

/// One such object. It need not be there: others name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Vertex {
    sort: Sort,
    namespace: Arc<str>,
    name: Arc<str>,
}

#[derive(Clone, Copy, Hash)]
struct VertexRef<'a> {
    sort: Sort,
    namespace: &'a str,
    name: &'a str,
}

impl Equivalent<Vertex> for VertexRef<'_> {
    fn equivalent(&self, thing: &Vertex) -> bool {
        self.sort == thing.sort && *self.name == *thing.name && *self.namespace == *thing.namespace
    }
}

/// That a thing belongs to a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Edge {
    thing: Vertex,
    node: Arc<str>,
}

#[derive(Hash)]
struct EdgeRef<'a> {
    thing: VertexRef<'a>,
    node: &'a str,
}

impl Equivalent<Edge> for EdgeRef<'_> {
    fn equivalent(&self, edge: &Edge) -> bool {
        *self.node == *edge.node && self.thing.equivalent(&edge.thing)
    }
}

/// What one object says: these things belong to this node.
#[derive(Debug, PartialEq)]
struct Said {
    node: Arc<str>,
    things: Vec<Vertex>,
}

/// What one bound volume says: it belongs, with these secrets, to whoever has the claim.
#[derive(Debug, PartialEq)]
struct Claimed {
    claim: Vertex,
    secrets: Vec<Vertex>,
}

/// Which objects belong to which nodes. A clone costs nothing and never changes: the program changes one and shows it to readers when it is done. An update
/// costs what the object refers to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeGraph {
    /// By the object that says it.
    said: HashMap<Vertex, Arc<Said>>,
    /// How many objects say so.
    edges: HashMap<Edge, u32>,
    volumes: HashMap<Arc<str>, Arc<Claimed>>,
    /// Namespace and name of a secret, and a volume that uses it.
    secrets: OrdSet<(Arc<str>, Arc<str>, Arc<str>)>,
}

impl NodeGraph {
    /// Takes in an object as JSON, in place of the one that has its name.
    ///
    /// # Errors
    /// It is no such object. Then it says nothing, and the one before it is gone.
    pub fn put(&mut self, kind: Kind, namespace: &str, name: &str, object: &[u8]) -> Result<(), serde_json::Error> {
        let parsed = match kind {
            Kind::Pod => from_slice::<Pod>(object).map(|pod| self.say(Sort::Pod, namespace, name, pod.said(namespace, name))),
            Kind::PersistentVolume => from_slice::<Volume>(object).map(|volume| self.claim(name, volume.claimed())),
            Kind::VolumeAttachment => {
                from_slice::<Bound>(object).map(|it| self.say(Sort::Attachment, "", name, it.said(Sort::Attachment, name)))
            }
            Kind::ResourceSlice => from_slice::<Bound>(object).map(|it| self.say(Sort::Slice, "", name, it.said(Sort::Slice, name))),
        };
        if parsed.is_err() {
            self.remove(kind, namespace, name);
        }
        parsed
    }

    /// Forgets an object; does nothing when it is not there.
    pub fn remove(&mut self, kind: Kind, namespace: &str, name: &str) {
        match kind {
            Kind::Pod => self.say(Sort::Pod, namespace, name, None),
            Kind::PersistentVolume => self.claim(name, None),
            Kind::VolumeAttachment => self.say(Sort::Attachment, "", name, None),
            Kind::ResourceSlice => self.say(Sort::Slice, "", name, None),
        }
    }

    /// Adds those from whom the change of an object may have taken something: what it was is in this graph, what it is in `after`. What is new takes nothing.
    pub fn lost(&self, after: &NodeGraph, kind: Kind, namespace: &str, name: &str, affected: &mut Affected) {
        let sort = match kind {
            Kind::Pod => Sort::Pod,
            Kind::VolumeAttachment => Sort::Attachment,
            Kind::ResourceSlice => Sort::Slice,
            Kind::PersistentVolume => {
                if self.volumes.get(name).is_some_and(|before| after.volumes.get(name) != Some(before)) {
                    affected.add_group(GROUP);
                }
                return;
            }
        };
        let by = VertexRef { sort, namespace: if kind == Kind::Pod { namespace } else { "" }, name };
        let before = self.said.get(&by).filter(|before| after.said.get(&by) != Some(before));
        before.into_iter().for_each(|before| affected.add_user(&format!("{USER_PREFIX}{}", before.node)));
    }

    /// An object says this from now on, and no longer what it said before.
    fn say(&mut self, sort: Sort, namespace: &str, name: &str, said: Option<Said>) {
        let by = VertexRef { sort, namespace, name };
        if self.said.get(&by).map(|before| &**before) == said.as_ref() {
            return;
        }
        if let Some(before) = self.said.remove(&by) {
            for thing in &before.things {
                let edge = Edge { thing: thing.clone(), node: Arc::clone(&before.node) };
                match self.edges.get_mut(&edge) {
                    Some(count) if *count > 1 => *count -= 1,
                    _ => drop(self.edges.remove(&edge)),
                }
            }
        }
        let Some(said) = said else { return };
        for thing in &said.things {
            *self.edges.entry(Edge { thing: thing.clone(), node: Arc::clone(&said.node) }).or_insert(0) += 1;
        }
        self.said.insert(Vertex { sort, namespace: namespace.into(), name: name.into() }, Arc::new(said));
    }

    fn claim(&mut self, name: &str, claimed: Option<Claimed>) {
        if self.volumes.get(name).map(|before| &**before) == claimed.as_ref() {
            return;
        }
        let name: Arc<str> = name.into();
        let by = |secret: &Vertex| (Arc::clone(&secret.namespace), Arc::clone(&secret.name), Arc::clone(&name));
        if let Some(before) = self.volumes.remove(&name) {
            before.secrets.iter().for_each(|secret| drop(self.secrets.remove(&by(secret))));
        }
        let Some(claimed) = claimed else { return };
        claimed.secrets.iter().for_each(|secret| drop(self.secrets.insert(by(secret))));
        self.volumes.insert(name, Arc::new(claimed));
    }

    /// Whether a thing belongs to a node: a pod of the node refers to it, or it is that pod; or it is a volume, or the secret of one, whose claim does.
    fn belongs(&self, thing: VertexRef<'_>, node: &str) -> bool {
        if self.edges.contains_key(&EdgeRef { thing, node }) {
            return true;
        }
        let is_claimed = |volume: &str| {
            self.volumes.get(volume).is_some_and(|volume| {
                let Vertex { sort, namespace, name } = &volume.claim;
                self.edges.contains_key(&EdgeRef { thing: VertexRef { sort: *sort, namespace, name }, node })
            })
        };
        match thing.sort {
            Sort::Volume => thing.namespace.is_empty() && is_claimed(thing.name),
            Sort::Secret => {
                let first: (Arc<str>, Arc<str>, Arc<str>) = (thing.namespace.into(), thing.name.into(), "".into());
                let mut uses =
                    self.secrets.range(first..).take_while(|(namespace, name, _)| (&**namespace, &**name) == (thing.namespace, thing.name));
                uses.any(|(_, _, volume)| is_claimed(volume))
            }
            _ => false,
        }
    }
}
