//! A body on its way to a client: its bytes are counted until they are written.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::{
    activity::{InFlight, Timing},
    answer::{Guard, LongRunning},
    budget::{Account, Reservation, Wait},
};

/// A body whose bytes are those of a connection, and which keeps its request open until the last of them is written.
#[derive(Debug)]
pub(super) struct AccountedBody<B> {
    body: B,
    account: Arc<Account>,
    wait: Wait,
    /// Of a body that was made before it is sent. Other bodies are made when there is room.
    made: Option<Arc<Reservation>>,
    /// Among the requests that are under way, until the body is gone.
    _guard: Option<Guard>,
    open: Arc<InFlight>,
    /// Until it may rest.
    long: Option<LongRunning>,
}

impl<B: Body<Data = Bytes>> AccountedBody<B> {
    /// A body for the connection of this account; `made` has what the body holds already. The answer begins, and has its time.
    pub(super) fn new(
        body: B,
        account: &Arc<Account>,
        (made, guard): (Option<Arc<Reservation>>, Option<Guard>),
        open: InFlight,
        Timing { longest, long_running: long }: Timing,
    ) -> Self {
        let whole = || body.size_hint().exact().filter(|bytes| *bytes > 0).and_then(|bytes| usize::try_from(bytes).ok());
        let made = made.or_else(|| Some(Arc::new(account.add(whole()?))));
        let open = Arc::new(open.answered(longest, long.as_ref().map(|long| long.until)));
        Self { body, account: account.clone(), wait: Wait::of(account), made, _guard: guard, open, long }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for AccountedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        let has_room = this.made.is_some() || this.wait.poll_frame(cx.waker()).is_ready();
        let frame = if has_room { Pin::new(&mut this.body).poll_frame(cx) } else { Poll::Pending };
        if this.long.as_ref().is_some_and(LongRunning::may_rest) {
            this.open.rest();
            this.long = None;
        }
        // Of a watch that may stand still nobody asks what is written.
        let open = this.open.goes_on().then(|| this.open.clone());
        frame.map_ok(|frame| frame.map_data(|data| this.account.sending(data, open)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
