//! Questions that are on their way to another server. The same question is asked once for all that wait for it; there is a limit for all, and one for each
//! client that asks, so that one client's questions leave room for those of others.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;
use tokio::sync::watch;

/// So many are on their way that this one is not asked.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("too many questions are waiting for an answer")]
pub struct TooMany;

/// See the file's header. `K` tells questions apart, `C` those who ask.
pub struct Questions<K, C, A> {
    under_way: Arc<Mutex<UnderWay<K, C, A>>>,
    all_max: usize,
    each_max: usize,
}

struct UnderWay<K, C, A> {
    answers: HashMap<K, watch::Receiver<Option<A>>>,
    of: HashMap<C, usize>,
}

impl<K, C, A> Questions<K, C, A>
where
    K: Clone + Eq + Hash + Send + 'static,
    C: Clone + Eq + Hash + Send + 'static,
    A: Clone + Send + Sync + 'static,
{
    /// At most `all_max` at once, of which `each_max` of one client.
    #[must_use]
    pub fn new(all_max: usize, each_max: usize) -> Self {
        let under_way = UnderWay { answers: HashMap::new(), of: HashMap::new() };
        Questions { under_way: Arc::new(Mutex::new(under_way)), all_max, each_max }
    }

    /// Asks, or waits for who has asked the same. The question goes on when nobody waits for it any more, so it must end by itself.
    ///
    /// # Errors
    /// When too many are on their way, or the question ended without an answer.
    pub async fn ask<F>(&self, key: K, client: C, question: impl FnOnce() -> F) -> Result<A, TooMany>
    where
        F: Future<Output = A> + Send + 'static,
    {
        let mut answer = self.join(key, client, question)?;
        let answered = answer.wait_for(Option::is_some).await;
        answered.ok().and_then(|answer| answer.clone()).ok_or(TooMany)
    }

    fn join<F>(&self, key: K, client: C, question: impl FnOnce() -> F) -> Result<watch::Receiver<Option<A>>, TooMany>
    where
        F: Future<Output = A> + Send + 'static,
    {
        let mut under_way = lock(&self.under_way);
        if let Some(answer) = under_way.answers.get(&key) {
            return Ok(answer.clone());
        }
        let of_client = under_way.of.get(&client).copied().unwrap_or(0);
        if under_way.answers.len() >= self.all_max || of_client >= self.each_max {
            return Err(TooMany);
        }
        let (tell, answer) = watch::channel(None);
        under_way.of.insert(client.clone(), of_client + 1);
        under_way.answers.insert(key.clone(), answer.clone());
        let place = Place { under_way: self.under_way.clone(), key, client };
        let question = question();
        tokio::spawn(async move {
            let answer = question.await;
            drop(place);
            // Nobody may be waiting any more.
            let _ = tell.send(Some(answer));
        });
        Ok(answer)
    }
}

/// A question's place among those under way; gives it back however the question ends.
struct Place<K: Eq + Hash, C: Eq + Hash, A> {
    under_way: Arc<Mutex<UnderWay<K, C, A>>>,
    key: K,
    client: C,
}

impl<K: Eq + Hash, C: Eq + Hash, A> Drop for Place<K, C, A> {
    fn drop(&mut self) {
        let mut under_way = lock(&self.under_way);
        under_way.answers.remove(&self.key);
        let left = under_way.of.get_mut(&self.client).map(|count| {
            *count -= 1;
            *count
        });
        if left == Some(0) {
            under_way.of.remove(&self.client);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while the lock is held.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use tokio::time::sleep;

    use super::*;

    fn questions() -> Arc<Questions<&'static str, u8, u32>> {
        Arc::new(Questions::new(3, 2))
    }

    async fn slow() -> u32 {
        sleep(Duration::from_secs(1)).await;
        1
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_question_is_asked_once() {
        let (questions, asked) = (questions(), Arc::new(AtomicU32::new(0)));
        let all: Vec<_> = (0..100)
            .map(|client| {
                let (questions, asked) = (questions.clone(), asked.clone());
                tokio::spawn(async move {
                    let question = || async move {
                        sleep(Duration::from_secs(1)).await;
                        asked.fetch_add(1, Ordering::Relaxed) + 7
                    };
                    questions.ask("a", client, question).await
                })
            })
            .collect();
        for one in all {
            assert_eq!(one.await.expect("no panic"), Ok(7));
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        assert_eq!(questions.ask("a", 0, || async { 8 }).await, Ok(8), "it is asked again when the answer is old");
    }

    #[tokio::test(start_paused = true)]
    async fn one_client_leaves_room_for_others() {
        let questions = questions();
        let ask = |key, client| {
            let questions = questions.clone();
            tokio::spawn(async move { questions.ask(key, client, slow).await })
        };
        let first = [ask("a", 1), ask("b", 1)];
        tokio::task::yield_now().await;
        assert_eq!(questions.ask("c", 1, slow).await, Err(TooMany), "the client has its two");
        let other = ask("c", 2);
        tokio::task::yield_now().await;
        assert_eq!(questions.ask("d", 3, slow).await, Err(TooMany), "there are three");
        assert_eq!(questions.ask("a", 3, slow).await, Ok(1), "who joins takes no place");
        for one in first.into_iter().chain([other]) {
            assert_eq!(one.await.expect("no panic"), Ok(1));
        }
        assert_eq!(questions.ask("d", 1, slow).await, Ok(1), "the places are free again");
        let under_way = lock(&questions.under_way);
        assert!(under_way.answers.is_empty() && under_way.of.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_goes_on_without_who_asked_first() {
        let questions = questions();
        let first = tokio::spawn({
            let questions = questions.clone();
            async move { questions.ask("a", 1, slow).await }
        });
        tokio::task::yield_now().await;
        let second = questions.ask("a", 2, || async { 9 });
        first.abort();
        assert_eq!(second.await, Ok(1));
    }
}
