//! The log's thread: lines come out whole and in order, and a failure is counted.

use super::*;
use crate::queue::tests::send;

fn config(path: PathBuf) -> LogConfig {
    LogConfig { path: Some(path), format: Format::Json, rotation: None, mode: Mode::BlockingStrict, truncation: None }
}

#[tokio::test]
async fn what_was_sent_is_written() -> io::Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("new/audit.log");
    let queue = start(&config(path.clone()), &Counters::of_a_test())?;
    assert!(send(&queue, b"a\n".to_vec()).await);
    assert_eq!(std::fs::read_to_string(&path)?, "a\n");
    queue.send_later(b"b\n".to_vec());
    queue.close().await;
    assert_eq!(std::fs::read_to_string(&path)?, "a\nb\n");
    Ok(())
}

/// A disk that is full.
#[tokio::test]
async fn a_write_that_fails_is_counted_and_refuses_only_strictly() -> io::Result<()> {
    for (mode, goes_on) in [(Mode::BlockingStrict, false), (Mode::Blocking, true)] {
        let counters = Counters::of_a_test();
        let queue = start(&LogConfig { mode, ..config("/dev/full".into()) }, &counters)?;
        assert_eq!(send(&queue, b"a\n".to_vec()).await, goes_on);
        assert_eq!(counters.errors.with_label_values(&["log"]).get(), 1);
    }
    Ok(())
}

#[test]
fn a_file_that_cannot_be_made_is_told_at_the_start() {
    assert!(start(&config("/dev/null/audit.log".into()), &Counters::of_a_test()).is_err());
}
