//! What a process costs: CPU time by its clock, memory by its status file. Knows process ids, not what the processes do.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use nix::time::ClockId;
use nix::unistd::Pid;
use tokio::time::{Instant, sleep};

/// A process is at rest when it uses less than this share of one core. kube-apiserver with nothing to do takes 2–5 %.
const REST_SHARE: f64 = 0.10;

/// At rest for so many seconds in a row counts as settled.
const REST_SECONDS: u32 = 3;

/// Meters of one process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    pid: i32,
}

impl Meter {
    /// A meter of the process `pid`.
    pub(crate) fn of(pid: u32) -> Result<Self> {
        Ok(Self { pid: i32::try_from(pid).context("process id")? })
    }

    /// CPU time of all threads since the process began, those that have ended included (`clock_getcpuclockid(3)`): nanoseconds, not ticks.
    pub(crate) fn cpu(self) -> Result<Duration> {
        let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(self.pid)).with_context(|| format!("CPU clock of process {}", self.pid))?;
        Ok(clock.now().with_context(|| format!("CPU time of process {}", self.pid))?.into())
    }

    /// Resident memory now, bytes (`VmRSS`).
    pub(crate) fn rss(self) -> Result<u64> {
        self.status_bytes("VmRSS:")
    }

    /// The highest resident memory since `forget_peak`, bytes (`VmHWM`).
    pub(crate) fn rss_peak(self) -> Result<u64> {
        self.status_bytes("VmHWM:")
    }

    /// Sets the peak to what is resident now (`proc(5)`, `clear_refs` 5).
    pub(crate) fn forget_peak(self) -> Result<()> {
        fs::write(format!("/proc/{}/clear_refs", self.pid), "5").with_context(|| format!("reset the memory peak of process {}", self.pid))
    }

    fn status_bytes(self, field: &str) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).with_context(|| format!("memory of process {}", self.pid))?;
        field_kib(&status, field).map(|kib| kib * 1024).ok_or_else(|| anyhow!("no {field} in the status of process {}", self.pid))
    }
}

/// Waits until every process is at rest, and at most `limit`. False when one of them never came to rest.
pub(crate) async fn settle(meters: &[Meter], limit: Duration) -> Result<bool> {
    let end = Instant::now() + limit;
    let mut rested = 0;
    while rested < REST_SECONDS {
        if Instant::now() >= end {
            return Ok(false);
        }
        let before = meters.iter().map(|meter| meter.cpu()).collect::<Result<Vec<_>>>()?;
        let began = Instant::now();
        sleep(Duration::from_secs(1)).await;
        let elapsed = began.elapsed().as_secs_f64();
        let mut all_rest = true;
        for (meter, before) in meters.iter().zip(before) {
            all_rest &= (meter.cpu()? - before).as_secs_f64() < REST_SHARE * elapsed;
        }
        rested = if all_rest { rested + 1 } else { 0 };
    }
    Ok(true)
}

fn field_kib(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with(field))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_sees_work_of_its_own_process() {
        let meter = Meter::of(std::process::id()).expect("a process id fits");
        let before = meter.cpu().expect("our own clock");
        let sum = (0..20_000_000_u64).fold(0, |sum: u64, n| sum.rotate_left(3) ^ n);
        assert_ne!(sum, 1);
        assert!(meter.cpu().expect("our own clock") > before);
        assert!(meter.rss().expect("our own memory") > 100_000);
    }

    #[test]
    fn status_fields_are_read_in_kib() {
        let status = "Name:\tx\nVmHWM:\t  123 kB\nVmRSS:\t   45 kB\n";
        assert_eq!(field_kib(status, "VmRSS:"), Some(45));
        assert_eq!(field_kib(status, "VmHWM:"), Some(123));
        assert_eq!(field_kib(status, "VmSwap:"), None);
    }
}
