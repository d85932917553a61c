//! Keeps an object of one name in each active namespace.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::sleep_until;

use super::{
    Controllers,
    objects::{names, tree},
    queue::{After, Queue},
};
use model::Object;
use registry::Resource;
use retry::{Backoff, Reminder};
use storage::write::failure::{ForbiddenCause, WriteError};

/// Namespaces that are looked at at once.
const WORKERS: usize = 16;
/// Waits after failures.
const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(50), Duration::from_secs(60), 0.2);
/// How often the log has a line about failures.
const REMIND_EVERY: Duration = Duration::from_secs(10);

/// What each namespace should have.
pub(super) trait Wanted: Sync {
    /// Its name.
    const NAME: &str;

    /// Of what it is.
    fn resource(&self) -> &Arc<Resource>;

    /// Brings it about in a namespace that is active.
    fn keep(&self, controllers: &Controllers, namespace: &str) -> impl Future<Output = Result<(), WriteError>> + Send;
}

/// Runs for ever.
pub(super) async fn run<W: Wanted>(controllers: &Controllers, wanted: &W) {
    let Some(namespaces) = controllers.built_in("", "namespaces") else { return };
    let (of_namespaces, of_wanted) = (&namespaces.handle.published, &wanted.resource().handle.published);
    // What the cache does not have yet may be there.
    let mut seen_wanted = None;
    let _ = of_wanted.next(&mut seen_wanted).await;
    let (mut seen, mut queue, mut running) = (None, Queue::<String>::new(BACKOFF), FuturesUnordered::new());
    let mut reminder = Reminder::every(REMIND_EVERY);
    loop {
        while running.len() < WORKERS
            && let Some(namespace) = queue.take(Instant::now())
        {
            running.push(look(controllers, &namespaces, wanted, namespace));
        }
        let due = queue.next_due().filter(|_| running.len() < WORKERS);
        tokio::select! {
            (snapshot, keys) = of_namespaces.next(&mut seen) => {
                let mut add = |object: &Arc<Object>| queue.add(object.name().to_owned(), Instant::now());
                match keys {
                    Some(keys) => keys.iter().filter_map(|key| snapshot.store.find(key)).for_each(&mut add),
                    None => snapshot.store.scan(b"", b"").for_each(&mut add),
                }
            }
            (_, keys) = of_wanted.next(&mut seen_wanted) => {
                let mut add = |namespace: &str| queue.add(namespace.to_owned(), Instant::now());
                match keys {
                    Some(keys) => keys.iter().filter_map(|key| of_name::<W>(key)).for_each(&mut add),
                    None => of_namespaces.known().snapshot.store.scan(b"", b"").for_each(|object| add(object.name())),
                }
            }
            Some((namespace, done)) = running.next() => {
                let after = match done {
                    Ok(()) => After::Rest,
                    Err(error) => {
                        if reminder.is_due() {
                            let (resource, name) = (&*wanted.resource().served.resource, W::NAME);
                            tracing::warn!(%error, namespace, resource, name, "what each namespace has cannot be written; trying again");
                        }
                        After::Retry
                    }
                };
                queue.done(&namespace, after, Instant::now());
            }
            () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => {}
        }
    }
}

/// The namespace in the key of an object of this name.
fn of_name<W: Wanted>(key: &Bytes) -> Option<&str> {
    names(key).filter(|(_, name)| *name == W::NAME).map(|(namespace, _)| namespace)
}

async fn look<W: Wanted>(
    controllers: &Controllers,
    namespaces: &Arc<Resource>,
    wanted: &W,
    namespace: String,
) -> (String, Result<(), WriteError>) {
    let found = controllers.cached(&super::objects::place(namespaces, "", &namespace));
    let is_active = found.and_then(|object| tree(namespaces, &object)).is_some_and(|object| object["status"]["phase"] == "Active");
    if !is_active {
        return (namespace, Ok(()));
    }
    let done = match wanted.keep(controllers, &namespace).await {
        // The cache is behind, or the namespace is about to go.
        Err(
            WriteError::AlreadyExists { .. }
            | WriteError::NotFound(_)
            | WriteError::Forbidden { cause: Some(ForbiddenCause::Terminating(_)), .. },
        ) => Ok(()),
        done => done,
    };
    (namespace, done)
}
