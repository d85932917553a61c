//! A single-flight of questions to another server: the same question is asked once for all that wait for it. There is a limit for all, and one for each
//! client that asks, so that one client's questions leave room for those of others. Who is above a limit waits, as many as [`FlightLimits`] let wait.
//! Long questions are weighed besides, for as long as they are on their way or somebody waits with them.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout_at};

/// The question was not asked in time, or too many wait already. It says nothing about its answer.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("too many questions are waiting for an answer, please try again later")]
pub struct TooMany;

/// How many questions may be in flight, and how many may wait.
#[derive(Clone, Copy, Debug)]
pub struct FlightLimits {
    /// Questions in flight at once.
    pub in_flight: usize,
    /// Those of them of one client.
    pub in_flight_each: usize,
    /// Who waits at once, for a permit or for an answer.
    pub waiting: usize,
    /// Those of them of one client.
    pub waiting_each: usize,
    /// Who waits for the answer to one question.
    pub waiting_together: usize,
    /// Bytes of the long ones among the questions, of all who ask. A client may have half of what the others leave.
    pub bytes: usize,
}

impl FlightLimits {
    /// So many questions in flight, of which a client may have some. For each of them a few may wait.
    #[must_use]
    pub const fn of(in_flight: usize, in_flight_each: usize) -> FlightLimits {
        let (waiting, waiting_each) = (in_flight * WAITING_FOR_EACH, in_flight_each * WAITING_FOR_EACH);
        FlightLimits { in_flight, in_flight_each, waiting, waiting_each, waiting_together: waiting_each, bytes: BYTES_MAX }
    }
}

/// Who may wait for each question that may be in flight.
const WAITING_FOR_EACH: usize = 16;

/// Bytes of long questions: the longest there are, of 3 MiB, find room when others have asked several of them.
const BYTES_MAX: usize = 64 << 20;

/// A question up to this length weighs nothing: the number of those who wait bounds them.
const SHORT_BYTES: usize = 4 << 10;

/// A client may have this part of the bytes that are left.
const PART: usize = 2;

/// See the file's header. `K` tells questions apart, `C` those who ask.
pub struct SingleFlight<K, C, A> {
    flights: Arc<Mutex<Flights<K, C, A>>>,
    in_flight: Arc<Semaphore>,
    limits: FlightLimits,
}

struct Flights<K, C, A> {
    answers: HashMap<K, Arc<watch::Sender<Stage<A>>>>,
    clients: HashMap<C, ClientShare>,
    /// Of all clients.
    waiting: usize,
    bytes: usize,
}

/// Kept while it waits for something, or has a question on its way.
struct ClientShare {
    waiting: usize,
    flights: usize,
    bytes: usize,
    in_flight: Arc<Semaphore>,
}

/// The stage of a question, and the place among those who wait for it.
type Joined<K, C, A> = (watch::Receiver<Stage<A>>, Waiting<K, C, A>);

/// How far a question is.
enum Stage<A> {
    /// It has no place.
    Waits,
    Flights,
    Answered(A),
}

impl<K, C, A> SingleFlight<K, C, A>
where
    K: Clone + Eq + Hash + Send + 'static,
    C: Clone + Eq + Hash + Send + 'static,
    A: Clone + Send + Sync + 'static,
{
    /// Nothing is asked yet.
    #[must_use]
    pub fn new(limits: FlightLimits) -> Self {
        let flights = Flights { answers: HashMap::new(), clients: HashMap::new(), waiting: 0, bytes: 0 };
        SingleFlight { flights: Arc::new(Mutex::new(flights)), in_flight: Arc::new(Semaphore::new(limits.in_flight)), limits }
    }

    /// Asks what is so many bytes long, or waits for who has asked the same; `until` then for a permit to be in flight. A question that is in flight goes on
    /// when nobody waits for it any more, so it must end by itself; one that has no permit is dropped.
    ///
    /// # Errors
    /// When there is no permit in time, too many wait or with too much, or the question ended without an answer.
    pub async fn get<F>(&self, key: K, client: C, bytes: usize, until: Instant, question: impl FnOnce() -> F) -> Result<A, TooMany>
    where
        F: Future<Output = A> + Send + 'static,
    {
        let (mut stage, _waiting) = self.join(key, client, bytes, question)?;
        let placed = timeout_at(until, stage.wait_for(|stage| !matches!(stage, Stage::Waits))).await.is_ok_and(|placed| placed.is_ok());
        if !placed {
            return Err(TooMany);
        }
        let answered = stage.wait_for(|stage| matches!(stage, Stage::Answered(_))).await;
        match answered.as_deref() {
            Ok(Stage::Answered(answer)) => Ok(answer.clone()),
            _ => Err(TooMany),
        }
    }

    fn join<F>(&self, key: K, client: C, bytes: usize, question: impl FnOnce() -> F) -> Result<Joined<K, C, A>, TooMany>
    where
        F: Future<Output = A> + Send + 'static,
    {
        let mut flights = self.flights.lock();
        let bytes = if bytes > SHORT_BYTES { bytes } else { 0 };
        let (of_client, bytes_of_client) = flights.clients.get(&client).map_or((0, 0), |client| (client.waiting, client.bytes));
        let has_place = flights.waiting < self.limits.waiting && of_client < self.limits.waiting_each;
        let bytes_max = self.limits.bytes.saturating_sub(flights.bytes) / PART;
        if !has_place || bytes > 0 && bytes_of_client.saturating_add(bytes) > bytes_max {
            return Err(TooMany);
        }
        if let Some(known) = flights.answers.get(&key).cloned() {
            if known.receiver_count() >= self.limits.waiting_together {
                return Err(TooMany);
            }
            let stage = known.subscribe();
            return Ok((stage, self.wait(&mut flights, client, bytes)));
        }
        let tell = Arc::new(watch::Sender::new(Stage::Waits));
        let stage = tell.subscribe();
        flights.answers.insert(key.clone(), tell.clone());
        let waiting = self.wait(&mut flights, client.clone(), bytes);
        // What is being sent is there besides, and stays when nobody waits any more.
        flights.bytes += bytes;
        let of_client = flights.clients.get_mut(&client).expect("it waits");
        of_client.flights += 1;
        of_client.bytes += bytes;
        let (own, all) = (of_client.in_flight.clone(), self.in_flight.clone());
        let entry = Entry { flights: self.flights.clone(), key, client, bytes, tell: tell.clone() };
        let question = question();
        tokio::spawn(async move {
            // Its own place first: who has many questions waits for those, and not before others.
            let placed = async { (own.acquire().await, all.acquire().await) };
            let mut placed = std::pin::pin!(placed);
            let _places = loop {
                tokio::select! {
                    in_flight = &mut placed => break in_flight,
                    () = tell.closed() => {}
                }
                if entry.is_forgotten() {
                    return;
                }
            };
            tell.send_replace(Stage::Flights);
            let answer = question.await;
            drop(entry);
            tell.send_replace(Stage::Answered(answer));
        });
        Ok((stage, waiting))
    }

    fn wait(&self, flights: &mut Flights<K, C, A>, client: C, bytes: usize) -> Waiting<K, C, A> {
        let in_flight = self.limits.in_flight_each;
        let new = || ClientShare { waiting: 0, flights: 0, bytes: 0, in_flight: Arc::new(Semaphore::new(in_flight)) };
        let of_client = flights.clients.entry(client.clone()).or_insert_with(new);
        of_client.waiting += 1;
        of_client.bytes += bytes;
        flights.waiting += 1;
        flights.bytes += bytes;
        Waiting { flights: self.flights.clone(), client, bytes }
    }
}

impl<K, C: Eq + Hash, A> Flights<K, C, A> {
    fn tidy(&mut self, client: &C) {
        if self.clients.get(client).is_some_and(|client| client.waiting == 0 && client.flights == 0) {
            self.clients.remove(client);
        }
    }
}

/// One who waits, counted until he does not.
struct Waiting<K, C: Clone + Eq + Hash, A> {
    flights: Arc<Mutex<Flights<K, C, A>>>,
    client: C,
    bytes: usize,
}

impl<K, C: Clone + Eq + Hash, A> Drop for Waiting<K, C, A> {
    fn drop(&mut self) {
        let mut flights = self.flights.lock();
        flights.waiting -= 1;
        flights.bytes -= self.bytes;
        if let Some(client) = flights.clients.get_mut(&self.client) {
            client.waiting -= 1;
            client.bytes -= self.bytes;
        }
        flights.tidy(&self.client);
    }
}

/// A question that waits for a permit or has one, until this is dropped.
struct Entry<K: Eq + Hash, C: Clone + Eq + Hash, A> {
    flights: Arc<Mutex<Flights<K, C, A>>>,
    key: K,
    client: C,
    bytes: usize,
    tell: Arc<watch::Sender<Stage<A>>>,
}

impl<K: Clone + Eq + Hash, C: Clone + Eq + Hash, A> Entry<K, C, A> {
    /// Whether nobody waits for the answer; then nobody can join any more.
    fn is_forgotten(&self) -> bool {
        let mut flights = self.flights.lock();
        let is_forgotten = self.tell.receiver_count() == 0;
        if is_forgotten {
            flights.answers.remove(&self.key);
        }
        is_forgotten
    }
}

impl<K: Eq + Hash, C: Clone + Eq + Hash, A> Drop for Entry<K, C, A> {
    fn drop(&mut self) {
        let mut flights = self.flights.lock();
        // The same question may have been asked anew since this one was forgotten.
        if flights.answers.get(&self.key).is_some_and(|tell| Arc::ptr_eq(tell, &self.tell)) {
            flights.answers.remove(&self.key);
        }
        flights.bytes -= self.bytes;
        if let Some(client) = flights.clients.get_mut(&self.client) {
            client.flights -= 1;
            client.bytes -= self.bytes;
        }
        flights.tidy(&self.client);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use tokio::task::{JoinHandle, yield_now};
    use tokio::time::sleep;

    use super::*;

    type Answered = JoinHandle<Result<u32, TooMany>>;

    struct Asker(Arc<SingleFlight<&'static str, u8, u32>>);

    impl Asker {
        fn new() -> Self {
            let room =
                FlightLimits { in_flight: 3, in_flight_each: 2, waiting: 200, waiting_each: 120, waiting_together: 100, bytes: 300 << 10 };
            Asker(Arc::new(SingleFlight::new(room)))
        }

        /// Asks what takes a second, and waits so many seconds for a place, and a moment.
        fn ask(&self, key: &'static str, client: u8, patience: u64) -> Answered {
            self.ask_long(key, client, 0, patience)
        }

        /// The same with a question of so many bytes.
        fn ask_long(&self, key: &'static str, client: u8, bytes: usize, patience: u64) -> Answered {
            let (questions, until) = (self.0.clone(), Instant::now() + Duration::from_secs(patience) + Duration::from_millis(50));
            tokio::spawn(async move { questions.get(key, client, bytes, until, slow).await })
        }

        fn is_empty(&self) -> bool {
            let asked = self.0.flights.lock();
            asked.answers.is_empty() && asked.clients.is_empty() && (asked.waiting, asked.bytes) == (0, 0)
        }
    }

    async fn slow() -> u32 {
        sleep(Duration::from_secs(1)).await;
        1
    }

    async fn of(answered: Answered) -> Result<u32, TooMany> {
        answered.await.expect("no panic")
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_question_is_asked_once() {
        let (asker, asked, until) = (Asker::new(), Arc::new(AtomicU32::new(0)), Instant::now());
        let all: Vec<_> = (0..100)
            .map(|client| {
                let (questions, asked) = (asker.0.clone(), asked.clone());
                tokio::spawn(async move {
                    let question = || async move {
                        sleep(Duration::from_secs(1)).await;
                        asked.fetch_add(1, Ordering::Relaxed) + 7
                    };
                    questions.get("a", client, 0, until + Duration::from_secs(1), question).await
                })
            })
            .collect();
        for one in all {
            assert_eq!(of(one).await, Ok(7));
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        let until = Instant::now() + Duration::from_secs(1);
        assert_eq!(asker.0.get("a", 0, 0, until, || async { 8 }).await, Ok(8), "it is asked again when the answer is old");
        assert!(asker.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_place_waits_for_one_and_others_have_theirs() {
        let (asker, began) = (Asker::new(), Instant::now());
        let first = [asker.ask("a", 1, 0), asker.ask("b", 1, 0)];
        yield_now().await;
        let (patient, hasty) = (asker.ask("c", 1, 5), asker.ask("d", 1, 0));
        assert_eq!(of(hasty).await, Err(TooMany), "the client has its two");
        let other = asker.ask("e", 2, 0);
        yield_now().await;
        assert_eq!(of(asker.ask("f", 3, 0)).await, Err(TooMany), "there are three");
        assert_eq!(of(asker.ask("a", 3, 0)).await, Ok(1), "who joins takes no place");
        for one in first.into_iter().chain([other]) {
            assert_eq!(of(one).await, Ok(1));
        }
        assert_eq!((of(patient).await, began.elapsed().as_secs()), (Ok(1), 2), "asked when a place was free");
        assert!(asker.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_counted() {
        let asker = Asker::new();
        let together: Vec<_> = (0..100).map(|_| asker.ask("a", 1, 9)).collect();
        yield_now().await;
        assert_eq!(of(asker.ask("a", 2, 9)).await, Err(TooMany), "for one answer");
        let more: Vec<_> = (0..20).map(|_| asker.ask("b", 1, 9)).collect();
        yield_now().await;
        assert_eq!(of(asker.ask("c", 1, 9)).await, Err(TooMany), "of one client");
        let others: Vec<_> = (0..80).map(|nth| asker.ask(["c", "d", "e"][nth % 3], 2, 9)).collect();
        yield_now().await;
        assert_eq!(of(asker.ask("g", 3, 9)).await, Err(TooMany), "of all");
        together.iter().chain(&more).chain(&others).for_each(JoinHandle::abort);
        sleep(Duration::from_secs(3)).await;
        assert!(asker.is_empty(), "nothing is kept of those who left");
    }

    /// A server that hangs kept 256 questions of 3 MiB, each four times.
    #[tokio::test(start_paused = true)]
    async fn long_questions_are_weighed() {
        let asker = Asker::new();
        let first = [asker.ask_long("a", 1, 30 << 10, 9), asker.ask_long("a", 1, 30 << 10, 9)];
        yield_now().await;
        assert_eq!(asker.0.flights.lock().bytes, 90 << 10, "what is sent, and what the two hold who wait");
        assert_eq!(of(asker.ask_long("b", 1, 30 << 10, 9)).await, Err(TooMany), "half of what the others leave is 105 KiB");
        let short = asker.ask_long("b", 1, SHORT_BYTES, 9);
        let other = asker.ask_long("c", 2, 50 << 10, 9);
        yield_now().await;
        for left in &first {
            left.abort();
        }
        yield_now().await;
        assert_eq!(asker.0.flights.lock().bytes, 130 << 10, "it is on its way, whoever has left");
        assert_eq!((of(short).await, of(other).await), (Ok(1), Ok(1)));
        yield_now().await;
        assert!(asker.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_goes_on_without_who_asked_first() {
        let asker = Asker::new();
        let first = asker.ask("a", 1, 9);
        yield_now().await;
        let second = asker.0.get("a", 2, 0, Instant::now() + Duration::from_secs(9), || async { 9 });
        first.abort();
        assert_eq!(second.await, Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_without_a_place_is_forgotten_with_those_who_wait() {
        let asker = Asker::new();
        let first = [asker.ask("a", 1, 9), asker.ask("b", 1, 9)];
        yield_now().await;
        let left = asker.ask("c", 1, 9);
        yield_now().await;
        left.abort();
        yield_now().await;
        yield_now().await;
        assert_eq!(asker.0.flights.lock().answers.len(), 2);
        for one in first {
            assert_eq!(of(one).await, Ok(1));
        }
        assert!(asker.is_empty());
    }
}
