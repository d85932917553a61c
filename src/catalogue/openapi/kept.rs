//! Documents that were made, compressed: what was asked for is asked for again, by the next client.

use std::{
    io::{Read, Write},
    sync::LazyLock,
};

use bytes::Bytes;
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use parking_lot::Mutex;
use recent::Recent;

use super::{Hash, protobuf, schemas::SpecVersion};

/// Compressed bytes of documents that are kept: all of Kubernetes' own take about 1.5 MB as JSON. One that is larger than half of it is made each time.
const KEPT_BYTES_MAX: usize = 8 << 20;
/// Documents that are kept.
const KEPT_MAX: usize = 4_096;

/// In which form a document is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Compact JSON.
    Json,
    /// gnostic's messages.
    Protobuf,
}

/// A document in gzip.
#[derive(Clone, Debug)]
pub struct Compressed(Bytes);

type Kept = Recent<(Hash, Form), Compressed, ()>;
static KEPT: LazyLock<Mutex<Kept>> = LazyLock::new(|| Mutex::new(Recent::new(KEPT_MAX, KEPT_BYTES_MAX)));

impl Compressed {
    fn new(plain: &[u8]) -> Self {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(plain).expect("memory takes it");
        Self(encoder.finish().expect("memory takes it").into())
    }

    /// Returns it as it is kept.
    #[must_use]
    pub fn gzip(&self) -> &Bytes {
        &self.0
    }

    /// Returns it as it was made.
    #[must_use]
    pub fn plain(&self) -> Bytes {
        let mut plain = Vec::new();
        GzDecoder::new(&*self.0).read_to_end(&mut plain).expect("it is compressed");
        plain.into()
    }
}

/// Returns what is kept of the document with this hash.
pub(super) fn get(hash: &Hash, form: Form) -> Option<Compressed> {
    KEPT.lock().get(&(Hash::clone(hash), form), ()).cloned()
}

/// Keeps a document with this hash, whose JSON is this.
pub(super) fn put(hash: &Hash, form: Form, version: SpecVersion, json: &[u8]) -> Compressed {
    let made = match form {
        Form::Json => Compressed::new(json),
        Form::Protobuf => Compressed::new(&protobuf::encode(version, json)),
    };
    KEPT.lock().put((Hash::clone(hash), form), made.clone(), made.0.len(), (), None);
    made
}
