//! A file whose writes are left to the system: for tests, where a lost machine loses nothing that anybody wants.

use std::io;
use std::ops::Bound;

use redb::{BackendError, StorageBackend};

/// A storage that is never synced. What a process has written is there after it was killed, for the system has it.
#[derive(Debug)]
pub(super) struct Unsynced<B>(pub(super) B);

impl<B: StorageBackend> StorageBackend for Unsynced<B> {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use redb::backends::InMemoryBackend;
    use redb::{Database, ReadableDatabase, TableDefinition};

    use super::*;

    const TABLE: TableDefinition<'_, &str, u64> = TableDefinition::new("t");

    /// Counts syncs.
    #[derive(Debug)]
    struct Counted(InMemoryBackend, Arc<AtomicUsize>);

    impl StorageBackend for Counted {
        fn len(&self) -> io::Result<u64> {
            self.0.len()
        }
        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.0.read(offset, out)
        }
        fn set_len(&self, len: u64) -> io::Result<()> {
            self.0.set_len(len)
        }
        fn sync_data(&self) -> io::Result<()> {
            self.1.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.0.write(offset, data)
        }
    }

    fn write(database: &Database) -> u64 {
        let txn = database.begin_write().expect("a transaction");
        txn.open_table(TABLE).expect("a table").insert("key", 7).expect("written");
        txn.commit().expect("committed");
        let read = database.begin_read().expect("a transaction").open_table(TABLE).expect("a table");
        redb::ReadableTable::get(&read, "key").expect("read").map_or(0, |value| value.value())
    }

    #[test]
    fn nothing_is_synced_and_all_is_there() {
        let syncs = Arc::new(AtomicUsize::new(0));
        let counted = || Counted(InMemoryBackend::new(), syncs.clone());
        let synced = Database::builder().create_with_backend(counted()).expect("a database");
        assert_eq!(write(&synced), 7);
        assert!(syncs.swap(0, Ordering::Relaxed) > 0);
        let unsynced = Database::builder().create_with_backend(Unsynced(counted())).expect("a database");
        let before = syncs.load(Ordering::Relaxed);
        assert_eq!((write(&unsynced), syncs.load(Ordering::Relaxed)), (7, before));
        drop(unsynced);
        assert_eq!(syncs.load(Ordering::Relaxed), 0);
        drop(synced);
    }
}
