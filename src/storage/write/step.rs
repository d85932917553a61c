//! Decisions that may have to wait. A decision is pure: what it does not know it asks for by returning a [`Need`], which is met while the write holds nothing,
//! and then the same is decided again with the answer.
//!
//! ```text
//! decide(object, answers) ─▶ Ok: done
//!    ▲                    └▶ Stop::Needs(need) ─▶ [`Decider`] gives its place back, meets the need, takes a place ─┐
//!    └────────────────────────────────────────────── answers, one more ◀──────────────────────────────────────────┘
//! ```

use std::{future::Future, pin::Pin};

use serde_json::Value;

pub use super::conversions::Missing;
use super::{conversions::Conversions, failure::WriteError};
use conversion::Converter;
use offload::{Admitted, Offload};

/// Why nothing is decided.
#[derive(Debug, PartialEq)]
pub enum Stop {
    /// The write is refused.
    Refused(WriteError),
    /// Something must be known first. Then it is decided again.
    Needs(Need),
}

/// What must be known before a decision is made.
#[derive(Debug, PartialEq)]
pub enum Need {
    /// An answer that the [`Approver`] has to ask for.
    Approval,
    /// An object in another version, which a webhook makes.
    Conversion(Missing),
}

impl<E: Into<WriteError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Refused(error.into())
    }
}

/// Judges what is written.
pub trait Approver: Send + Sync {
    /// Judges an object that is to be written, with the one that it replaces. Without a new one the old one is to be deleted, which is null if it cannot be
    /// read.
    ///
    /// # Errors
    /// The write is refused, or somebody must be asked first.
    fn approve(&self, new: Option<&Value>, old: Option<&Value>) -> Result<(), Stop>;

    /// Asks what the last call of [`Self::approve`] needs. Nothing is held meanwhile.
    fn ask(&self) -> Asked<'_>;
}

/// The end of a question.
///
/// # Errors
/// Nobody could be asked.
pub type Asked<'a> = Pin<Box<dyn Future<Output = Result<(), WriteError>> + Send + 'a>>;

/// What one write has found out.
pub(super) struct Answers<'a> {
    approver: Option<&'a dyn Approver>,
    webhook: Option<&'a Converter>,
    pub(super) conversions: Conversions,
    /// The object is too large for etcd with its managed fields: it is written without them.
    pub(super) without_managed: bool,
}

impl<'a> Answers<'a> {
    /// `webhook`: what makes other versions of the object.
    pub(super) fn new(webhook: Option<&'a Converter>, approver: Option<&'a dyn Approver>) -> Self {
        Self { approver, webhook, conversions: Conversions::default(), without_managed: false }
    }

    /// Returns whether the new object may take the place of the old one.
    pub(super) fn approve(&self, new: Option<&Value>, old: Option<&Value>) -> Result<(), Stop> {
        self.approver.map_or(Ok(()), |approver| approver.approve(new, old))
    }

    async fn meet(&mut self, need: Need) -> Result<(), WriteError> {
        match need {
            Need::Approval => match self.approver {
                Some(approver) => approver.ask().await,
                None => Ok(()),
            },
            Need::Conversion(missing) => self.conversions.make(self.webhook, missing).await,
        }
    }
}

/// Makes the decisions of one write. It holds a place among the requests that are under way, but while it waits for others.
pub(super) struct Decider<'a> {
    offload: &'a Offload,
    admitted: Option<Admitted<'a>>,
    pub(super) answers: Answers<'a>,
}

impl<'a> Decider<'a> {
    /// `admitted` is none of what another write does on its way.
    pub(super) fn new(offload: &'a Offload, admitted: impl Into<Option<Admitted<'a>>>, answers: Answers<'a>) -> Self {
        Self { offload, admitted: admitted.into(), answers }
    }

    /// Waits for others with the place given back.
    pub(super) async fn outside<T>(&mut self, work: impl Future<Output = T>) -> T {
        match &mut self.admitted {
            Some(admitted) => admitted.outside(work).await,
            None => work.await,
        }
    }

    /// Decides until nothing is needed any more.
    ///
    /// # Errors
    /// A need could not be met. Then nothing is decided; what is refused is the inner error.
    pub(super) async fn decide<T>(
        &mut self,
        is_large: bool,
        mut decide: impl FnMut(&Answers<'_>) -> Result<T, Stop>,
    ) -> Result<Result<T, WriteError>, WriteError> {
        loop {
            match self.offload.run(is_large, || decide(&self.answers)).await {
                Ok(done) => return Ok(Ok(done)),
                Err(Stop::Refused(error)) => return Ok(Err(error)),
                Err(Stop::Needs(need)) => match &mut self.admitted {
                    Some(admitted) => admitted.outside(self.answers.meet(need)).await?,
                    None => self.answers.meet(need).await?,
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use serde_json::json;
    use tokio::{sync::Semaphore, time::timeout};

    use super::*;

    /// Knows after so many answers. A question is answered when there is a permit.
    struct Slow {
        wanted: usize,
        known: AtomicUsize,
        permits: Semaphore,
    }

    impl Slow {
        fn new(wanted: usize, permits: usize) -> Self {
            Self { wanted, known: AtomicUsize::new(0), permits: Semaphore::new(permits) }
        }
    }

    impl Approver for Slow {
        fn approve(&self, new: Option<&Value>, _: Option<&Value>) -> Result<(), Stop> {
            if self.known.load(Ordering::Relaxed) < self.wanted {
                return Err(Stop::Needs(Need::Approval));
            }
            match new {
                Some(Value::Bool(false)) => Err(WriteError::BadRequest("no".to_owned()).into()),
                _ => Ok(()),
            }
        }

        fn ask(&self) -> Asked<'_> {
            Box::pin(async {
                self.permits.acquire().await.map_err(|_| WriteError::TooMany("closed".to_owned()))?.forget();
                self.known.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
        }
    }

    /// Bytes of a body of which one is under way at a time on two cores.
    const HUGE: usize = 1 << 20;

    async fn has_room(offload: &Offload) -> bool {
        timeout(Duration::from_millis(20), offload.admit(true, HUGE)).await.is_ok()
    }

    /// Fills all places for huge bodies but one, which the caller takes.
    async fn filled(offload: &Offload) -> Vec<Admitted<'_>> {
        let mut others = Vec::new();
        while let Ok(one) = timeout(Duration::from_millis(20), offload.admit(true, HUGE)).await {
            others.push(one);
        }
        others.pop();
        others
    }

    #[tokio::test(start_paused = true)]
    async fn a_need_is_met_and_the_same_is_decided_again() {
        let (slow, offload) = (Slow::new(3, 3), Offload::default());
        let mut decider = Decider::new(&offload, offload.admit(false, 0).await, Answers::new(None, Some(&slow)));
        let mut tries = 0;
        let decided = decider.decide(false, |answers| {
            tries += 1;
            answers.approve(Some(&json!({})), None)?;
            Ok(tries)
        });
        assert_eq!(decided.await, Ok(Ok(4)));
        let refused = decider.decide(false, |answers| answers.approve(Some(&json!(false)), None)).await;
        assert_eq!(refused, Ok(Err(WriteError::BadRequest("no".to_owned()))), "an answer counts for the whole write");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_held_while_somebody_is_asked() {
        let (slow, offload) = (Slow::new(1, 0), Offload::default());
        let _others = filled(&offload).await;
        let mut decider = Decider::new(&offload, offload.admit(true, HUGE).await, Answers::new(None, Some(&slow)));
        assert!(!has_room(&offload).await);
        let (decided, room) = tokio::join!(decider.decide(false, |answers| answers.approve(None, None)), async {
            tokio::task::yield_now().await;
            let room = has_room(&offload).await;
            slow.permits.add_permits(1);
            room
        });
        assert_eq!((decided, room), (Ok(Ok(())), true));
        assert!(!has_room(&offload).await, "it has its place again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_need_that_is_not_met_decides_nothing() {
        let (slow, offload) = (Slow::new(1, 0), Offload::default());
        let _others = filled(&offload).await;
        let mut decider = Decider::new(&offload, offload.admit(true, HUGE).await, Answers::new(None, Some(&slow)));
        let cancelled = timeout(Duration::from_millis(20), decider.decide(false, |answers| answers.approve(None, None))).await;
        assert!(cancelled.is_err());
        assert!(has_room(&offload).await, "a request that ends while it waits holds nothing");
        slow.permits.close();
        let failed = decider.decide(false, |answers| answers.approve(None, None)).await;
        assert_eq!(failed, Err(WriteError::TooMany("closed".to_owned())));
        drop(decider);
        assert!(has_room(&offload).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_conversion_is_made_once() {
        let offload = Offload::default();
        let mut decider = Decider::new(&offload, offload.admit(false, 0).await, Answers::new(None, None));
        let mut tries = 0;
        // Without a webhook that is an error of the conversion, not of the write.
        let made = decider.decide(false, |answers| {
            tries += 1;
            answers.conversions.find(&json!({"a": 1}), "x/v2").map_err(|missing| Stop::Needs(Need::Conversion(missing)))
        });
        assert_eq!(made.await, Ok(Ok(Err("no version x/v2 is served".to_owned()))));
        assert_eq!(tries, 2);
    }
}
