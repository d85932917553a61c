//! The recorded mixture: what the clients of a small cluster ask for and write, how often, and of which objects there are how many. Recorded by
//! `record.py`; knows no server.

use anyhow::{Context, Result, anyhow, ensure};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::load::Form;
use crate::measure::as_float;

const REQUESTS: &str = include_str!("../mixture/requests.tsv");
const OBJECTS: &str = include_str!("../mixture/objects.jsonl");

/// Nodes of the recorded cluster.
const NODES: f64 = 2.0;

/// Collections that grow with a cluster; of the others an API server makes all objects itself, and they are as many in any cluster.
const GROWING: [&str; 11] = [
    "configmaps",
    "csinodes",
    "deployments",
    "endpointslices",
    "events",
    "leases",
    "nodes",
    "pods",
    "replicasets",
    "secrets",
    "serviceaccounts",
];

/// Of these there is one for each node, with its name.
const OF_NODES: [&str; 3] = ["csinodes", "leases", "nodes"];

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agent {
    /// One on each node.
    Kubelet,
    /// One of each, whatever the size of the cluster: controllers, the scheduler, a person.
    Other(usize),
}

/// The agents but kubelets.
pub(crate) const OTHERS: [&str; 3] = ["controller-manager", "kubectl", "scheduler"];

/// Watches of one kind that an agent has open.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    pub(crate) agent: Agent,
    pub(crate) form: Form,
    pub(crate) count: usize,
    pub(crate) path: String,
}

/// Reads of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) agent: Agent,
    pub(crate) form: Form,
    /// Each second, of all agents of this kind.
    pub(crate) rate: f64,
    pub(crate) path: String,
}

/// Writes of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    /// Each second.
    pub(crate) rate: f64,
    /// Whether an object is created and another deleted, or one is changed.
    pub(crate) creates: bool,
    sample: usize,
}

/// A collection, and one of its objects.
#[derive(Clone, Debug, Deserialize)]
struct Sample {
    collection: String,
    count: u64,
    object: Value,
}

/// The mixture of a cluster with so many nodes.
pub(crate) struct Mixture {
    nodes: u64,
    pub(crate) watches: Vec<Watch>,
    pub(crate) reads: Vec<Read>,
    pub(crate) writes: Vec<Write>,
    samples: Vec<Sample>,
}

impl Mixture {
    /// Everything that grows with a cluster grows with the number of nodes: objects, kubelets, reads and writes, not the watches of the others.
    pub(crate) fn of(nodes: u64) -> Result<Self> {
        let samples: Vec<Sample> = OBJECTS.lines().map(serde_json::from_str).collect::<serde_json::Result<_>>().context("objects.jsonl")?;
        let mut mixture = Self { nodes, watches: Vec::new(), reads: Vec::new(), writes: Vec::new(), samples };
        for line in REQUESTS.lines() {
            mixture.line(line).with_context(|| format!("requests.tsv: {line}"))?;
        }
        Ok(mixture)
    }

    fn line(&mut self, line: &str) -> Result<()> {
        let columns: Vec<&str> = line.split('\t').collect();
        let [who, verb, form, rate, path] = columns[..] else { return Err(anyhow!("not five columns")) };
        let (minutely, path): (f64, _) = (rate.parse()?, path.to_owned());
        let each_second = minutely / 60.0 * as_float(self.nodes);
        if who == "all" {
            // Deletions are made of what was created.
            if let Some(sample) = self.samples.iter().position(|sample| sample.collection == path && is_growing(&sample.collection))
                && verb != "delete"
                && verb != "deletecollection"
            {
                self.writes.push(Write { rate: each_second / NODES, creates: verb == "create", sample });
            }
            return Ok(());
        }
        let form = match (form, verb) {
            // kubectl shows lists as Tables, and waits for single objects.
            ("json", "list") => Form::Table,
            ("json", _) => Form::Json,
            ("metadata", _) => Form::Metadata,
            _ => Form::Protobuf,
        };
        let other = OTHERS.iter().position(|other| *other == who).map(Agent::Other);
        let agent = if who == "kubelet" { Agent::Kubelet } else { other.context("nobody's request")? };
        // A kubelet's line is that of one of them, the others' of all.
        let rate = if agent == Agent::Kubelet { each_second } else { each_second / NODES };
        if verb == "watch" {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few watches")]
            let count = minutely.round() as usize;
            self.watches.push(Watch { agent, form, count, path });
        } else {
            self.reads.push(Read { agent, form, rate, path });
        }
        Ok(())
    }

    /// How many connections this agent has.
    pub(crate) fn agents(&self, agent: Agent) -> u64 {
        if agent == Agent::Kubelet { self.nodes } else { 1 }
    }

    /// A recorded path, of this kubelet if it is one's, and of the object `nth` of its kind if it names one.
    pub(crate) fn path(&self, path: &str, node: u64, nth: u64) -> String {
        let plain = path.replace("/namespaces/{namespace}", "");
        let is_of =
            |sample: &&Sample| plain.strip_prefix(&sample.collection).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']));
        let of = self.samples.iter().find(is_of);
        let (name, namespace) = match of {
            Some(sample) if is_growing(&sample.collection) => (name_of(nth % self.count(sample)), namespace_of(sample)),
            Some(sample) => (sample.object["metadata"]["name"].as_str().unwrap_or_default().to_owned(), namespace_of(sample)),
            None => ("default".to_owned(), "default"),
        };
        // A read as new as a revision that is known by now costs what any read from memory does.
        path.replace("{node}", &name_of(node)).replace("{name}", &name).replace("{namespace}", namespace).replace("{revision}", "0")
    }

    fn count(&self, sample: &Sample) -> u64 {
        if OF_NODES.iter().any(|of| sample.collection.ends_with(&format!("/{of}"))) {
            return self.nodes;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few thousand objects")]
        let count = (as_float(sample.count) / NODES * as_float(self.nodes)).ceil() as u64;
        count
    }

    /// The objects that there are at the beginning: where they are created, and what.
    pub(crate) fn objects(&self) -> Vec<(String, String)> {
        let growing = self.samples.iter().filter(|sample| is_growing(&sample.collection));
        growing.flat_map(|sample| (0..self.count(sample)).map(|nth| self.object(sample, &name_of(nth), nth))).collect()
    }

    fn object(&self, sample: &Sample, name: &str, nth: u64) -> (String, String) {
        let mut object = sample.object.clone();
        object["metadata"]["name"] = json!(name);
        if sample.collection.ends_with("/pods") {
            object["spec"]["nodeName"] = json!(name_of(nth % self.nodes));
        }
        if sample.collection.ends_with("/leases") {
            object["spec"]["holderIdentity"] = json!(name);
        }
        (collection_of(sample), object.to_string())
    }

    /// The requests of the write `nth` of a run, whose number they carry, so that no name comes twice.
    pub(crate) fn write(&self, write: &Write, run: u64, nth: u64) -> Vec<(Method, String, String)> {
        let sample = &self.samples[write.sample];
        if !write.creates {
            let path = format!("{}/{}", collection_of(sample), name_of(nth % self.count(sample)));
            let stamp = json!({"metadata": {"annotations": {"compare.example.com/stamp": format!("{run}-{nth}")}}});
            return vec![(Method::PATCH, path, stamp.to_string())];
        }
        let name = format!("new-{run}-{nth}");
        let (collection, object) = self.object(sample, &name, nth);
        let gone = format!("{collection}/{name}?gracePeriodSeconds=0");
        vec![(Method::POST, collection, object), (Method::DELETE, gone, String::new())]
    }
}

fn collection_of(sample: &Sample) -> String {
    let Some(namespace) = sample.object["metadata"]["namespace"].as_str() else { return sample.collection.clone() };
    let (base, resource) = sample.collection.rsplit_once('/').unwrap_or_default();
    format!("{base}/namespaces/{namespace}/{resource}")
}

fn namespace_of(sample: &Sample) -> &str {
    sample.object["metadata"]["namespace"].as_str().unwrap_or("default")
}

fn is_growing(collection: &str) -> bool {
    GROWING.iter().any(|growing| collection.ends_with(&format!("/{growing}")))
}

/// The name of the object, or node, `nth`.
fn name_of(nth: u64) -> String {
    format!("mix-{nth:05}")
}

/// Rates are summed and cut into turns: each kind gets its share, spread as evenly as whole turns can be.
pub(crate) struct Turns {
    rates: Vec<f64>,
    owed: Vec<f64>,
    total: f64,
}

impl Turns {
    /// Of rates each second.
    pub(crate) fn of(rates: impl IntoIterator<Item = f64>) -> Result<Self> {
        let rates: Vec<f64> = rates.into_iter().collect();
        let total = rates.iter().sum();
        ensure!(total > 0.0, "nothing to do");
        Ok(Self { owed: vec![0.0; rates.len()], rates, total })
    }

    /// Turns each second.
    pub(crate) fn rate(&self) -> f64 {
        self.total
    }

    /// Whose turn is next.
    pub(crate) fn next(&mut self) -> usize {
        let mut first = 0;
        for (kind, rate) in self.rates.iter().enumerate() {
            self.owed[kind] += rate;
            if self.owed[kind] > self.owed[first] {
                first = kind;
            }
        }
        self.owed[first] -= self.total;
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorded_mixture_grows_with_the_nodes() {
        let (small, large) = (Mixture::of(2).expect("it reads"), Mixture::of(200).expect("it reads"));
        let objects = |mixture: &Mixture, of: &str| mixture.objects().iter().filter(|(path, _)| path.ends_with(of)).count();
        assert_eq!((objects(&small, "/nodes"), objects(&large, "/nodes"), objects(&large, "/leases")), (2, 200, 200));
        assert_eq!(objects(&large, "/pods"), 100 * objects(&small, "/pods"));
        let rate = |mixture: &Mixture| mixture.reads.iter().map(|read| read.rate).sum::<f64>();
        assert!((rate(&large) / rate(&small) - 100.0).abs() < 0.01);
        let watched = |mixture: &Mixture| mixture.watches.iter().map(|watch| watch.count).sum::<usize>();
        assert_eq!(watched(&small), watched(&large), "those of a kubelet, and of the others");
    }

    #[test]
    fn every_path_is_whole() {
        let mixture = Mixture::of(4).expect("it reads");
        let one = mixture.path("/api/v1/namespaces/{namespace}/pods/{name}?a={node}", 3, 60);
        assert_eq!(one, "/api/v1/namespaces/default/pods/mix-00008?a=mix-00003", "there are 52");
        let paths = mixture.watches.iter().map(|watch| &watch.path).chain(mixture.reads.iter().map(|read| &read.path));
        for path in paths.map(|path| mixture.path(path, 3, 5)) {
            assert!(path.starts_with("/api") && !path.contains('{'), "{path}");
        }
        for write in &mixture.writes {
            let made = mixture.write(write, 1, 9);
            assert_eq!(made.len(), if write.creates { 2 } else { 1 });
            assert!(
                made.iter().all(|(_, path, body)| !path.contains('{') && (body.is_empty() || serde_json::from_str::<Value>(body).is_ok()))
            );
        }
    }

    #[test]
    fn turns_follow_the_rates() {
        let mut turns = Turns::of([3.0, 1.0, 0.0]).expect("rates");
        let taken: Vec<usize> = (0..8).map(|_| turns.next()).collect();
        assert_eq!((taken.iter().filter(|kind| **kind == 0).count(), taken.iter().filter(|kind| **kind == 1).count()), (6, 2));
        assert!(Turns::of([]).is_err());
    }
}
