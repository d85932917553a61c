//! How many connections fit into this process's limit of open files. Each connection is one file.

use rustix::process::{Resource, Rlimit, setrlimit};

use telemetry::open_files_limits;

/// Files that are not connections of clients: some 20 at rest (runtimes, signals, listeners, log, store), one for each connection to etcd, one that waits at
/// each listener, those that `/metrics` reads from `/proc`; and room for what nobody thought of.
const RESERVED: u64 = 64;

/// Raises the limit of open files as far as the system lets us; answers how many of `wanted` connections fit, and what an operator should know about it.
pub(super) fn connections(wanted: usize) -> (usize, Option<String>) {
    // Without /proc nothing is known, and accept will tell.
    let Some((now, most)) = open_files_limits() else { return (wanted, None) };
    if now < most {
        let limit = |number: u64| (number != u64::MAX).then_some(number);
        // A sandbox may forbid it; what counts is what there is then.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit(most), maximum: limit(most) });
    }
    fitting(wanted, open_files_limits().map_or(now, |(now, _)| now))
}

fn fitting(wanted: usize, files: u64) -> (usize, Option<String>) {
    let fit = usize::try_from(files.saturating_sub(RESERVED)).unwrap_or(usize::MAX).max(1);
    if wanted <= fit {
        return (wanted, None);
    }
    let warning = format!(
        "{files} files may be open, of which {RESERVED} are not for clients: {fit} connections are accepted, not {wanted} (--max-connections); \
         raise the hard limit (LimitNOFILE=, ulimit -Hn)"
    );
    (fit, Some(warning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_not_accepted() {
        assert_eq!(fitting(20_000, 65_536), (20_000, None));
        assert_eq!(fitting(20_000, u64::MAX), (20_000, None));
        assert_eq!(fitting(20_000, 20_064), (20_000, None));
        let (fit, warning) = fitting(20_000, 1_024);
        assert_eq!(fit, 960);
        assert!(warning.is_some_and(|line| line.contains("960") && line.contains("LimitNOFILE")));
        assert_eq!(fitting(20_000, 64).0, 1, "a server that serves one at a time is one");
        assert_eq!(fitting(20_000, 3).0, 1);
    }
}
