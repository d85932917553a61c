//! What others may know of a group's log and of its members: how much it holds, what one of them has not taken yet.

use super::{Group, Seat};
use model::Revision;

/// What a live member has not taken of its group's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Untaken {
    /// How many events.
    pub events: usize,
    /// The revision of the first one.
    pub first: Option<Revision>,
}

impl Seat {
    /// Its number in the group.
    #[must_use]
    pub fn number(&self) -> usize {
        self.index
    }
}

impl Group {
    /// Bytes that its log holds.
    pub(in super::super) fn log_bytes(&self) -> usize {
        self.log().bytes
    }

    /// What the member in this seat has not taken yet; `None` when it catches up from the ring, or nobody sits there.
    #[must_use]
    pub fn pending(&self, seat: usize) -> Option<Untaken> {
        let log = self.log();
        let cursor = log.members.get(seat)?.as_ref()?.cursor?;
        let skip = usize::try_from(cursor.checked_sub(log.first)?).ok()?;
        Some(Untaken { events: log.frames.len().saturating_sub(skip), first: log.frames.get(skip).map(|frame| frame.revision) })
    }

    /// Wakes whoever waits in this seat.
    pub fn wake(&self, seat: usize) {
        let waker = self.log().members.get_mut(seat).and_then(|member| member.as_mut()?.waker.take());
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
        task::{Wake, Waker},
    };

    use super::*;
    use crate::dispatch::{
        GroupKey, GroupLimits,
        frame::{EncodedEvent, Frame},
        group::Taken,
    };
    use codec::Encoder;
    use model::Filter;

    struct Bell(AtomicBool);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn what_a_member_lacks_is_what_it_has_not_taken() {
        let encoder = Arc::new(Encoder::built_in("v1", "ConfigMap", "ConfigMapList", ""));
        let key = GroupKey { representation: "v1/configmaps".into(), filter: Filter::default().into() };
        let group = Arc::new(Group::new(key, encoder, Revision(10), GroupLimits::default(), Arc::default()));
        let (live, late) = (group.sit(), group.sit());
        assert!(live.join(Revision(10)));
        assert_eq!((group.pending(live.number()), group.log_bytes()), (Some(Untaken { events: 0, first: None }), 0));
        let events = [11, 12, 13].map(|revision| EncodedEvent { revision: Revision(revision), frame: Frame::Made(Ok("event".into())) });
        group.append(events.into_iter(), Revision(10));
        assert_eq!((group.pending(live.number()), group.log_bytes()), (Some(Untaken { events: 3, first: Some(Revision(11)) }), 15));
        assert_eq!((group.pending(late.number()), group.pending(7)), (None, None), "who catches up has no place in the log");
        let (mut seen, mut out) = (Revision(10), Vec::new());
        assert_eq!(live.take(&mut seen, 1, &mut out, Waker::noop()), Taken::Some);
        assert_eq!(group.pending(live.number()), Some(Untaken { events: 2, first: Some(Revision(12)) }));
        assert_eq!(live.take(&mut seen, 100, &mut out, Waker::noop()), Taken::Some);
        let bell = Arc::new(Bell(AtomicBool::new(false)));
        assert_eq!(live.take(&mut seen, 100, &mut out, &Waker::from(bell.clone())), Taken::Nothing);
        group.wake(late.number());
        assert!(!bell.0.load(Ordering::SeqCst));
        group.wake(live.number());
        assert!(bell.0.load(Ordering::SeqCst));
    }
}
