//! The body of a request, read whole: within its length, its time, and the bytes that all bodies may take together.

use std::{ops::Deref, sync::Arc};

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use super::{
    budget::{Account, BASE, Reservation},
    conn::Conn,
};

/// Room for a body whose length is not announced, bytes, to begin with.
const FIRST_ROOM: usize = 16 << 10;

/// Why there is no body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoBody {
    /// The request's time is over, or nothing came for too long.
    TimedOut,
    /// The server stops.
    Stopping,
    /// It could not be read: why.
    Broken(String),
    /// It is larger than it may be.
    TooLarge,
    /// Bodies take all the memory that they may have.
    NoRoom,
}

/// A whole body, counted until it is dropped.
#[derive(Debug, Default)]
pub struct Whole {
    bytes: Vec<u8>,
    /// Bytes that `holds` stand for; there is never room for more.
    room: usize,
    holds: Vec<Reservation>,
    bytes_max: usize,
}

impl Deref for Whole {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Whole {
    /// Reads all of a body of at most `bytes_max`, until `until` at the latest. A stop of the server ends it at once: nobody can know whether the rest would
    /// come.
    pub async fn read<B>(body: B, bytes_max: usize, conn: &Conn, until: Instant) -> Result<Self, NoBody>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let (mut body, mut whole, mut stop) = (body, Self { bytes_max, ..Self::default() }, conn.stop.clone());
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        whole.make_room(announced, &conn.bodies)?;
        loop {
            let until = until.min(Instant::now() + conn.silence_max);
            let frame = tokio::select! {
                biased;
                frame = timeout_at(until, body.frame()) => frame,
                _ = stop.wait_for(|stopped| *stopped) => return Err(NoBody::Stopping),
            };
            match frame {
                Ok(None) => return Ok(whole),
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        whole.push(&data, &conn.bodies)?;
                    }
                }
                Ok(Some(Err(error))) => return Err(NoBody::Broken(error.to_string())),
                Err(_) => return Err(NoBody::TimedOut),
            }
        }
    }

    /// Drops the bytes when they are read; what they were made into counts in their place.
    pub fn read_out(self) -> Vec<Reservation> {
        self.holds
    }

    /// Copied, so that many small pieces cost what they have and not what they came in.
    fn push(&mut self, data: &[u8], account: &Arc<Account>) -> Result<(), NoBody> {
        let needed = self.bytes.len() + data.len();
        if needed > self.room {
            self.make_room(needed.max((2 * self.room).clamp(FIRST_ROOM, self.bytes_max)), account)?;
        }
        if needed > self.bytes.capacity() {
            // What is announced need not come.
            let capacity = needed.max((2 * self.bytes.capacity()).clamp(FIRST_ROOM, self.bytes_max)).min(self.room);
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    /// Takes room for so many bytes altogether.
    fn make_room(&mut self, bytes: usize, account: &Arc<Account>) -> Result<(), NoBody> {
        if bytes > self.bytes_max {
            return Err(NoBody::TooLarge);
        }
        while self.room < bytes {
            // The first step is small: an account that holds nothing may take anything, which is meant for answers.
            let step = if self.room == 0 { bytes.min(BASE) } else { bytes - self.room };
            let hold = account.try_take(step).ok_or(NoBody::NoRoom)?;
            self.room += step;
            self.holds.push(hold);
        }
        Ok(())
    }
}
