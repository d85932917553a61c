//! Runs a program within limits: its time, and the bytes that it may write. It has nothing to read, and is killed with all that it
//! has begun when it takes too long.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// What is kept of what it writes to standard error. What is more is read and forgotten.
const ERROR_BYTES_MAX: usize = 4 << 10;
/// How long what it has left behind may hold its output open, once it has ended.
const LEFT_OPEN: Duration = Duration::from_secs(1);

/// What a program may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChildLimits {
    pub(super) time: Duration,
    /// Bytes of standard output.
    pub(super) output_bytes: usize,
}

/// What a program has left when it ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) output: Vec<u8>,
    /// The beginning of what it wrote to standard error.
    pub(super) error: Vec<u8>,
}

/// Why there is no output.
#[derive(Debug, Error)]
pub(super) enum ChildError {
    #[error("{0}")]
    NotStarted(io::Error),
    #[error("{0}")]
    Io(io::Error),
    #[error("it did not end within {0:?}, and was killed")]
    TimedOut(Duration),
    #[error("it wrote more than {0} bytes, and was killed")]
    TooMuch(usize),
}

/// Runs a program until it ends. It is killed when the caller no longer waits.
pub(super) async fn run(program: &Path, args: &[String], env: &[(OsString, OsString)], limits: ChildLimits) -> Result<Ended, ChildError> {
    let mut command = Command::new(program);
    command.args(args).envs(env.iter().map(|(name, value)| (name, value))).process_group(0).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut group = Group(command.spawn().map_err(ChildError::NotStarted)?);
    timeout(limits.time, group.ended(limits)).await.unwrap_or(Err(ChildError::TimedOut(limits.time)))
}

/// A program and all that it has begun: killed when this is dropped before the program has ended.
struct Group(Child);

impl Group {
    async fn ended(&mut self, limits: ChildLimits) -> Result<Ended, ChildError> {
        let (mut output, mut error) = (Vec::new(), Vec::new());
        let (out, err) = (self.0.stdout.take(), self.0.stderr.take());
        let status = {
            let mut reads = std::pin::pin!(async {
                tokio::try_join!(whole(out, &mut output, limits.output_bytes), beginning(err, &mut error)).map(drop)
            });
            tokio::select! {
                read = &mut reads => {
                    read?;
                    self.0.wait().await.map_err(ChildError::Io)?
                }
                status = self.0.wait() => {
                    let status = status.map_err(ChildError::Io)?;
                    timeout(LEFT_OPEN, reads).await.unwrap_or(Ok(()))?;
                    status
                }
            }
        };
        Ok(Ended { status, output, error })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // It has no number any more once it has been waited for.
        let group = self.0.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

async fn whole(from: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>, bytes_max: usize) -> Result<(), ChildError> {
    let Some(from) = from else { return Ok(()) };
    from.take(bytes_max as u64 + 1).read_to_end(into).await.map_err(ChildError::Io)?;
    if into.len() > bytes_max { Err(ChildError::TooMuch(bytes_max)) } else { Ok(()) }
}

async fn beginning(from: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) -> Result<(), ChildError> {
    let Some(mut from) = from else { return Ok(()) };
    let mut buffer = [0; 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let room = ERROR_BYTES_MAX - into.len();
        into.extend_from_slice(&buffer[..read.min(room)]);
    }
    Ok(())
}
