//! The representations of one served resource. Each is made when a client first asks for it, and then kept.

use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use catalogue::Served;
use codec::{Clock, Encoder, Include, MetaVersion, Table, Unencodable};

/// As what the objects of a request are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Representation {
    /// The kind that is asked for.
    pub shape: Shape,
    /// Whether lists and watch frames are protobuf; never of a custom resource's whole objects.
    pub protobuf: bool,
}

/// As what kind an object is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Its own.
    #[default]
    Whole,
    /// `PartialObjectMetadata`.
    Metadata(MetaVersion),
    /// A row of a `Table`; never in protobuf.
    Table(MetaVersion, Include),
}

/// An encoder, and the name by which groups of watchers share what it writes.
#[derive(Clone, Debug)]
pub struct NamedEncoder {
    /// How it is written.
    pub encoder: Arc<Encoder>,
    /// The same for versions of a stored resource that have the same bytes: `apps/v1/deployments`, `meta.k8s.io/v1`.
    pub name: Arc<str>,
}

/// The encoders of one served resource, one for each representation.
pub struct Encoders {
    whole: NamedEncoder,
    served: Arc<Served>,
    /// Made with the first Table that is asked for.
    table: OnceLock<Arc<Table>>,
    /// The time from which the ages in a Table are counted.
    now: Clock,
    /// Few, and looked for once a request.
    others: Mutex<Vec<(Representation, NamedEncoder)>>,
    /// Whether the log has the first object that could not be encoded.
    is_logged: AtomicBool,
}

impl Encoders {
    /// Those of a resource whose whole objects are written like this.
    #[must_use]
    pub fn new(whole: Encoder, served: Arc<Served>, now: Clock) -> Self {
        let name = format!("{}/{}", served.api_version(), served.resource).into();
        Self {
            whole: NamedEncoder { encoder: Arc::new(whole), name },
            served,
            table: OnceLock::new(),
            now,
            others: Mutex::default(),
            is_logged: AtomicBool::new(false),
        }
    }

    /// Whole objects in JSON.
    #[must_use]
    pub fn whole(&self) -> &NamedEncoder {
        &self.whole
    }

    /// Returns the encoder of a representation. What protobuf does not know is written as JSON: negotiation does not let it come to that.
    #[must_use]
    pub fn get(&self, representation: Representation) -> NamedEncoder {
        if representation == Representation::default() {
            return self.whole.clone();
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, named)) = others.iter().find(|(other, _)| *other == representation) {
            return named.clone();
        }
        let named = self.make(representation);
        others.push((representation, named.clone()));
        named
    }

    /// Logs why a watch ends at something that cannot be encoded: once for a resource, as each watch in that encoding meets the same.
    pub fn log_unencodable(&self, why: &Unencodable) {
        if !self.is_logged.swap(true, Ordering::Relaxed) {
            tracing::error!(resource = %self.whole.name, %why, "watches in this encoding end: an event cannot be encoded");
        }
    }

    /// How the `/scale` of an object is written, by [`Encoder::render`].
    #[must_use]
    pub fn scale(&self, representation: Representation) -> Encoder {
        match representation.shape {
            Shape::Table(version, include) => {
                let table = Arc::new(Table::of_scale(self.served.is_custom()));
                Encoder::table(version, table, include, &self.whole.encoder, self.now)
            }
            Shape::Whole | Shape::Metadata(_) => (*self.whole.encoder).clone(),
        }
    }

    fn make(&self, representation: Representation) -> NamedEncoder {
        let served = &self.served;
        let (encoder, name, kind) = match representation.shape {
            Shape::Whole => (
                (*self.whole.encoder).clone(),
                self.whole.name.clone(),
                (served.api_version(), served.kind.clone(), served.list_kind.clone()),
            ),
            Shape::Metadata(version) => {
                let api_version = version.api_version();
                let kind = (api_version.to_owned(), "PartialObjectMetadata".to_owned(), "PartialObjectMetadataList".to_owned());
                (Encoder::metadata_only(version, &served.storage), api_version.into(), kind)
            }
            Shape::Table(version, include) => {
                let table = self.table.get_or_init(|| Arc::new(Table::of(&served.storage, served.printer_columns())));
                let encoder = Encoder::table(version, table.clone(), include, &self.whole.encoder, self.now);
                let name = format!("{} {version:?} {include:?}", self.whole.name).into();
                return NamedEncoder { encoder: Arc::new(encoder), name };
            }
        };
        if !representation.protobuf {
            return NamedEncoder { encoder: Arc::new(encoder), name };
        }
        let (api_version, kind, list_kind) = kind;
        let stored = matches!(&served.storage.shape, model::Shape::BuiltIn { api_version: stored, .. } if *stored == api_version);
        match encoder.in_protobuf(&api_version, &kind, &list_kind, stored && representation.shape == Shape::Whole) {
            Some(encoder) => NamedEncoder { encoder: Arc::new(encoder), name: format!("{name} protobuf").into() },
            None => NamedEncoder { encoder: Arc::new(encoder), name },
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing::subscriber::with_default;

    use super::*;
    use crate::test_resource;

    #[test]
    fn the_log_has_the_reason_once() {
        let (log, writer) = std::io::pipe().expect("a pipe");
        let (encoders, why) = (test_resource("", "configmaps").encoders, Unencodable::NoKind("the reason".to_owned()));
        let subscriber = tracing_subscriber::fmt().with_writer(Arc::new(writer)).finish();
        with_default(subscriber, || [(); 3].iter().for_each(|()| encoders.log_unencodable(&why)));
        let text = std::io::read_to_string(log).expect("text");
        assert!(text.lines().count() == 1 && text.contains("the reason") && text.contains("v1/configmaps"), "{text}");
    }
}
