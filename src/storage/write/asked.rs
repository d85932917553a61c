//! What etcd has now, for the controllers of this server, who act on it.

use std::sync::Arc;

use serde_json::Value;

use super::{Writer, failure::WriteError, object_ref::ObjectRef, tree};
use etcd::RangeRequest;
use model::Revision;
use registry::Resource;

impl Writer {
    /// Returns the object as etcd has it, in the version that is stored; none when it is not there.
    ///
    /// # Errors
    /// etcd does not answer, or what it has cannot be read.
    pub async fn newest(&self, target: &ObjectRef) -> Result<Option<Value>, WriteError> {
        Ok(self.fresh(target).await?.map(|current| current.tree))
    }

    /// Returns how many objects of a resource etcd has in a namespace, whether they can be read or not, and at which revision.
    ///
    /// # Errors
    /// etcd does not answer.
    pub async fn count(&self, resource: &Arc<Resource>, namespace: &str) -> Result<(u64, Revision), WriteError> {
        let key = format!("{}{namespace}/", resource.served.storage.key_prefix(&self.prefix)).into_bytes();
        let end = [&key[..key.len() - 1], b"0"].concat();
        let asked = RangeRequest { key, end, limit: 1, count_only: true, ..RangeRequest::default() };
        let answer = self.etcd(&resource.served).range(asked).await?;
        Ok((answer.count, answer.header.revision))
    }

    /// Now, as a `MicroTime` has it.
    #[must_use]
    pub fn now_micros(&self) -> String {
        tree::rfc3339_micros(time::OffsetDateTime::now_utc())
    }
}
