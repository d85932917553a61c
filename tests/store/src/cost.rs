//! What the kernel says a process cost. Knows nothing of what it runs.

use anyhow::{Context, Result};

/// User and system time of a process until now, seconds.
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).with_context(|| format!("no process {pid}"))?;
    ticks(&stat).map(|ticks| ticks as f64 / 100.0).context("/proc/PID/stat has not the fields of proc(5)")
}

/// After the command's closing bracket: state is field 3, utime 14, stime 15 (proc(5)); a tick is 10 ms on Linux.
fn ticks(stat: &str) -> Option<u64> {
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let at = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(at(11)? + at(12)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_a_name_with_brackets() {
        let stat = "4711 (a (b) c) S 1 4711 4711 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0 1 2 3";
        assert_eq!(ticks(stat), Some(300));
        assert_eq!(ticks("4711 (x) S 1"), None);
    }
}
