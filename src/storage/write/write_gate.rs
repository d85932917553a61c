//! Gates writes: none go to an etcd that a kube-apiserver uses, because they would bypass the admission there.

use std::sync::atomic::{AtomicU8, Ordering};

use super::{Writer, failure::WriteError};

/// Shared by the detection and by the writers.
#[derive(Debug, Default)]
pub struct WriteGate(AtomicU8);

/// Whether writes are permitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Permission {
    /// etcd has not been asked yet.
    Unknown = 0,
    /// Nobody else serves this etcd, or the operator says that it is fine.
    Granted = 1,
    /// A kube-apiserver uses it.
    Denied = 2,
}

impl WriteGate {
    /// Sets what was detected. Once denied it stays so until a restart: a kube-apiserver that is away may be restarting.
    pub fn set(&self, permission: Permission) {
        let newer = |old: u8| (old != Permission::Denied as u8).then_some(permission as u8);
        // Nothing to do when it is denied already.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, newer);
    }

    /// Returns what is known now.
    #[must_use]
    pub fn now(&self) -> Permission {
        match self.0.load(Ordering::Relaxed) {
            1 => Permission::Granted,
            2 => Permission::Denied,
            _ => Permission::Unknown,
        }
    }
}

impl Writer {
    /// Checks that writes are permitted.
    ///
    /// # Errors
    /// 405 on the etcd of a kube-apiserver, 503 before that is known.
    pub fn may_write(&self) -> Result<(), WriteError> {
        match self.gate.now() {
            Permission::Granted => Ok(()),
            Permission::Unknown => Err(WriteError::NotYet("etcd has not told yet whether a kube-apiserver uses it".to_owned())),
            Permission::Denied => Err(WriteError::NotAllowed(
                "this server only reads: a kube-apiserver uses its etcd, and writes would pass by that server's admission and validation; \
                 --allow-writes permits them"
                    .to_owned(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denied_is_for_good() {
        let write_gate = WriteGate::default();
        assert_eq!(write_gate.now(), Permission::Unknown);
        write_gate.set(Permission::Granted);
        write_gate.set(Permission::Denied);
        write_gate.set(Permission::Granted);
        assert_eq!(write_gate.now(), Permission::Denied);
    }
}
