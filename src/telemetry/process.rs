//! CPU, memory, file descriptors and start of this process, read from `/proc` when metrics are asked for. Without `/proc` they are absent, but for CPU time,
//! which stays 0.

use std::fs;

use prometheus::Counter;

use super::{Catalogue, SampledGauge};

/// Linux counts CPU time in hundredths of a second for user space, on every architecture that Rust supports.
const TICKS_PER_SECOND: f64 = 100.0;
/// Fields of `/proc/self/stat` after the command's closing parenthesis.
const UTIME: usize = 11;
const STIME: usize = 12;
const STARTTIME: usize = 19;

#[derive(Debug)]
pub(super) struct Process {
    cpu_seconds: Counter,
    resident_bytes: SampledGauge,
    open_files: SampledGauge,
    open_files_max: SampledGauge,
}

impl Process {
    pub(super) fn new(catalogue: &Catalogue<'_>) -> Process {
        let gauge = |name: &str, help: &str| SampledGauge::new(catalogue, name, help);
        let start = gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.");
        let read = |path: &str| fs::read_to_string(path).ok();
        if let Some(seconds) = read("/proc/self/stat").zip(read("/proc/stat")).and_then(|(own, all)| start_seconds(&own, &all)) {
            start.set(seconds);
        }
        Process {
            cpu_seconds: catalogue.add(Counter::new("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.")),
            resident_bytes: gauge("process_resident_memory_bytes", "Resident memory size in bytes."),
            open_files: gauge("process_open_fds", "Number of open file descriptors."),
            open_files_max: gauge("process_max_fds", "Maximum number of open file descriptors."),
        }
    }

    /// CPU time of the process so far, of all its threads, seconds.
    pub(super) fn cpu_seconds(&self) -> f64 {
        self.refresh_cpu();
        self.cpu_seconds.get()
    }

    fn refresh_cpu(&self) {
        if let Some(seconds) = fs::read_to_string("/proc/self/stat").ok().and_then(|stat| cpu_seconds(&stat)) {
            // A counter only grows; two renders at once may both add, at most one tick too much.
            self.cpu_seconds.inc_by((seconds - self.cpu_seconds.get()).max(0.0));
        }
    }

    pub(super) fn refresh(&self) {
        self.refresh_cpu();
        if let Some(bytes) = resident_bytes() {
            self.resident_bytes.set(bytes as f64);
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            self.open_files.set(files.count() as f64);
        }
        if let Some((now, _)) = open_files_limits() {
            self.open_files_max.set(now as f64);
        }
    }
}

/// Memory of this process, as in `process_resident_memory_bytes`. `None` without `/proc`.
pub fn resident_bytes() -> Option<u64> {
    resident(&fs::read_to_string("/proc/self/status").ok()?)
}

/// How many files may be open: now, and at most when the process asks for more. `None` without `/proc`.
pub fn open_files_limits() -> Option<(u64, u64)> {
    limits(&fs::read_to_string("/proc/self/limits").ok()?)
}

fn limits(text: &str) -> Option<(u64, u64)> {
    let mut words = text.lines().find_map(|line| line.strip_prefix("Max open files"))?.split_ascii_whitespace();
    let mut limit = || match words.next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    };
    Some((limit()?, limit()?))
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some((ticks(UTIME)? + ticks(STIME)?) / TICKS_PER_SECOND)
}

/// When the process began, from its own `stat` and that of the system, which says when that began.
fn start_seconds(stat: &str, system: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks: f64 = fields.split_ascii_whitespace().nth(STARTTIME)?.parse().ok()?;
    let boot: f64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(boot + ticks / TICKS_PER_SECOND)
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_linux_writes() {
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 1 0 100 1000 10";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(start_seconds(stat, "cpu 1 2\nbtime 1700000000\n"), Some(1_700_000_001.0));
        assert_eq!(resident("Name:\tx\nVmRSS:\t   2048 kB\n"), Some(2_097_152));
        assert_eq!(
            limits("Max cpu time   unlimited   unlimited  seconds\nMax open files   1024   524288   files \n"),
            Some((1_024, 524_288))
        );
        assert_eq!(limits("Max open files   1024   unlimited   files \n"), Some((1_024, u64::MAX)));
        assert_eq!((cpu_seconds("nonsense"), resident("")), (None, None));
    }
}
