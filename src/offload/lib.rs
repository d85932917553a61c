//! Work that takes a processor for long leaves the threads of requests, the feed and watches to others, a few pieces at a time.
//!
//! [`run_blocking`] is for work that must go on in its task, [`Offload`] for that of writes, in turns, and [`run_on_thread`] for what can be sent to a thread
//! of its own.

use std::{
    future::Future,
    panic::resume_unwind,
    sync::{Arc, LazyLock},
    thread::available_parallelism,
};

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::{block_in_place, spawn_blocking},
};

use fair::{Turn, Turns, asked_by};
use telemetry::contain;

/// Bytes of JSON, YAML or protobuf from which on work is large. The worst bodies cost a microsecond for each byte (docs/performance.md): what is smaller
/// keeps a thread for some twenty milliseconds at most, commonly for a fraction of one; to leave the thread costs some ten microseconds.
pub const LARGE_BYTES: usize = 16 << 10;

/// Bytes of a merge patch, or a strategic one, from which on to apply it is large work: each may touch all of an object. Every JSON patch is, whose copies
/// may double the object with each operation.
pub const LARGE_PATCH_BYTES: usize = 1 << 10;

/// Pieces of large work that run at the same time, at least; on more cores half as many as there are. Others wait their turn, as long as their requests may.
const AT_ONCE_MIN: usize = 2;

/// Bytes of a body or an object from which on it may keep a thread for a second and a hundred MB: the others keep one turn for themselves.
const HUGE_BYTES: usize = 256 << 10;

/// Requests with large bodies or on large objects that are under way at the same time, from their first turn to etcd's answer: a tree may take fifty times
/// the memory of its bytes.
const REQUESTS_AT_ONCE: usize = 8;

/// Other requests that are under way at the same time: more than etcd takes at once, and less than a GB of trees.
const SMALL_AT_ONCE: usize = 1_024;

/// How much large work of writes runs at a time.
pub struct Offload {
    turns: Turns,
    requests: Turns,
    small: Turns,
    /// Requests with huge bodies: one fewer than there are turns.
    huge: Turns,
}

/// The place of a request among those that are under way, until it is dropped.
pub struct Admitted<'a> {
    offload: &'a Offload,
    is_large: bool,
    bytes: usize,
    held: Option<Place>,
}

struct Place {
    _huge: Option<Turn>,
    _request: Turn,
}

impl Admitted<'_> {
    /// Waits for others with the place given back, and then for a place again.
    pub async fn outside<T>(&mut self, work: impl Future<Output = T>) -> T {
        self.held = None;
        let done = work.await;
        self.held = Some(self.offload.place(self.is_large, self.bytes).await);
        done
    }
}

impl Default for Offload {
    fn default() -> Self {
        Self {
            turns: Turns::new(at_once()),
            requests: Turns::new(REQUESTS_AT_ONCE),
            small: Turns::new(SMALL_AT_ONCE),
            huge: Turns::new(at_once() - 1),
        }
    }
}

fn at_once() -> usize {
    available_parallelism().map_or(AT_ONCE_MIN, |cores| (cores.get() / 2).max(AT_ONCE_MIN))
}

impl Offload {
    /// Lets a request in before its first turn, whose body, or the object that it changes, has so many bytes; it is in until what this answers is dropped.
    pub async fn admit(&self, is_large: bool, bytes: usize) -> Admitted<'_> {
        let held = Some(self.place(is_large, bytes).await);
        Admitted { offload: self, is_large, bytes, held }
    }

    async fn place(&self, is_large: bool, bytes: usize) -> Place {
        // First this one: who waits for it takes no place of others.
        let huge = if bytes >= HUGE_BYTES { Some(self.huge.take().await) } else { None };
        let requests = if is_large || bytes >= LARGE_BYTES { &self.requests } else { &self.small };
        Place { _huge: huge, _request: requests.take().await }
    }

    /// Does `work`; when it is large, so that nobody else's request or watch waits for it. Nothing has been begun before its turn comes, and it is never
    /// given up in the middle.
    pub async fn run<T>(&self, is_large: bool, work: impl FnOnce() -> T) -> T {
        if !is_large {
            return work();
        }
        let _turn = self.turns.take().await;
        run_blocking(work)
    }
}

/// Long computations that run at the same time; others wait their turn, as long as their requests may. Each may hold several copies of a list.
const LONG_AT_ONCE: usize = 4;

static LONG: LazyLock<Turns> = LazyLock::new(|| Turns::new(LONG_AT_ONCE));

/// What is made once for all who watch the same, and runs at the same time.
const FOR_ALL_AT_ONCE: usize = 2;

static FOR_ALL: LazyLock<Turns> = LazyLock::new(|| Turns::new(FOR_ALL_AT_ONCE));

/// Runs `work` on a thread of its own, where it may take its time. Once begun it is not given up, whoever waits for it.
pub async fn run_on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    on_thread(&LONG, work).await
}

/// Has `work` done on a thread of its own that nobody asks for alone: turns go round among the names of what it is for. Without a runtime it is done at once,
/// for nothing else runs that could wait for it.
pub fn begin_for(whose: Arc<str>, work: impl FnOnce() + Send + 'static) {
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn(asked_by(whose, on_thread(&FOR_ALL, work)))),
        Err(_) => work(),
    }
}

async fn on_thread<T: Send + 'static>(turns: &Turns, work: impl FnOnce() -> T + Send + 'static) -> T {
    let turn = turns.take().await;
    let done = spawn_blocking(move || {
        let _turn = turn;
        contain(work)
    });
    done.await.unwrap_or_else(|error| resume_unwind(error.into_panic()))
}

/// Does work that takes long, so that others go on meanwhile.
pub fn run_blocking<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        // There is no other thread that could go on.
        Err(_) | Ok(RuntimeFlavor::CurrentThread) => work(),
        Ok(_) => block_in_place(work),
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::*;

    /// On a runtime with one thread for tasks, which the work would keep from everything else.
    #[test]
    fn others_run_meanwhile() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a thread");
        let (done, wait) = mpsc::channel();
        let work = runtime.spawn(async move { Offload::default().run(true, move || wait.recv_timeout(Duration::from_secs(120))).await });
        let told = runtime.spawn(async move { done.send(7) });
        assert_eq!(runtime.block_on(told).expect("no panic"), Ok(()));
        assert_eq!(runtime.block_on(work).expect("no panic"), Ok(7), "nobody could tell it");
    }

    #[tokio::test]
    async fn huge_bodies_leave_room_for_others() {
        let offload = Offload::default();
        let mut huge = Vec::new();
        while let Ok(admitted) = tokio::time::timeout(Duration::from_millis(20), offload.admit(true, HUGE_BYTES)).await {
            huge.push(admitted);
        }
        assert_eq!(huge.len(), at_once() - 1);
        assert!(tokio::time::timeout(Duration::from_secs(120), offload.admit(true, HUGE_BYTES - 1)).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_others_holds_no_place() {
        let offload = Offload::default();
        let mut first = offload.admit(true, HUGE_BYTES).await;
        let mut others = Vec::new();
        while let Ok(other) = tokio::time::timeout(Duration::from_millis(20), offload.admit(true, HUGE_BYTES)).await {
            others.push(other);
        }
        drop(others);
        let all = first.outside(async {
            let mut all = Vec::new();
            while let Ok(one) = tokio::time::timeout(Duration::from_millis(20), offload.admit(true, HUGE_BYTES)).await {
                all.push(one);
            }
            all.len()
        });
        assert_eq!(all.await, at_once() - 1, "its place is free meanwhile");
        assert!(first.held.is_some(), "and it has one again");
        let cancelled = tokio::time::timeout(Duration::from_millis(20), first.outside(std::future::pending::<()>())).await;
        assert!(cancelled.is_err() && first.held.is_none(), "who gives up while it waits holds nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn large_requests_leave_room_for_small_ones() {
        let offload = Offload::default();
        let mut large = Vec::new();
        while let Ok(admitted) = tokio::time::timeout(Duration::from_millis(20), offload.admit(false, LARGE_BYTES)).await {
            large.push(admitted);
        }
        assert_eq!(large.len(), REQUESTS_AT_ONCE);
        assert!(tokio::time::timeout(Duration::from_millis(20), offload.admit(false, 0)).await.is_ok());
    }

    #[test]
    fn few_run_at_once() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a thread");
        let offload = std::sync::Arc::new(Offload::default());
        let (entered, seen) = mpsc::channel();
        let (go, gate) = mpsc::channel::<()>();
        let gate = std::sync::Arc::new(parking_lot::Mutex::new(gate));
        for i in 0..=at_once() {
            let (offload, entered, gate) = (offload.clone(), entered.clone(), gate.clone());
            runtime.spawn(async move {
                offload
                    .run(true, || {
                        entered.send(i).expect("somebody counts");
                        gate.lock().recv().expect("it is opened")
                    })
                    .await;
            });
        }
        let long = Duration::from_secs(120);
        for _ in 0..at_once() {
            seen.recv_timeout(long).expect("there is room");
        }
        assert!(seen.recv_timeout(Duration::from_millis(50)).is_err(), "there is no room for one more");
        go.send(()).expect("they wait");
        seen.recv_timeout(long).expect("one has left");
        for _ in 0..at_once() {
            go.send(()).expect("they wait");
        }
    }

    /// On a runtime of one thread, which the work would keep from everything else.
    #[tokio::test]
    async fn others_run_while_it_takes_long() {
        let (done, wait) = mpsc::channel();
        let work = tokio::spawn(run_on_thread(move || wait.recv_timeout(Duration::from_secs(120))));
        tokio::task::yield_now().await;
        done.send(7).expect("it waits");
        assert_eq!(work.await.expect("no panic"), Ok(7));
    }
}
