//! The atomics of `snapshot`, so that the schedule explorer can stand in for them (`--features shuttle`).

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

#[cfg(not(feature = "shuttle"))]
pub(crate) use arc_swap::ArcSwap;

#[cfg(feature = "shuttle")]
pub(crate) use explored::ArcSwap;
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The explorer does not know `arc_swap`: its loads and stores are one step each, and here the explorer may change threads before every one.
#[cfg(feature = "shuttle")]
mod explored {
    use std::sync::Arc;

    use shuttle::sync::atomic::{AtomicU64, Ordering};

    pub(crate) struct ArcSwap<T> {
        inner: arc_swap::ArcSwap<T>,
        turn: AtomicU64,
    }

    impl<T> ArcSwap<T> {
        pub(crate) fn from_pointee(value: T) -> Self {
            Self { inner: arc_swap::ArcSwap::from_pointee(value), turn: AtomicU64::new(0) }
        }

        pub(crate) fn load_full(&self) -> Arc<T> {
            self.turn.load(Ordering::SeqCst);
            self.inner.load_full()
        }

        pub(crate) fn store(&self, value: Arc<T>) {
            self.turn.load(Ordering::SeqCst);
            self.inner.store(value);
        }
    }
}
