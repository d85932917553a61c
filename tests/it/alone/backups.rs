//! `watchcache store backup`, `restore`, `check` and `defragment` beside a server, as an operator types them: their lines, and disks that are full.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    process::{Command, Output},
};

use serde_json::json;

use super::{Alone, Failure, Outcome, asked, names, revision};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Bytes of a ConfigMap's data.
const LARGE: usize = 500_000;
/// No file grows beyond 4 or 8 MiB, as the shell counts; the signal that comes with it is not for us.
const FULL: &str = "trap '' XFSZ; ulimit -f 8192";

/// Runs `watchcache store` with these arguments, after a shell has done something: whether it ended well, and what it said then, or why it did not.
fn store(shell: &str, arguments: &[&str]) -> Result<(bool, String), Failure> {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{shell}\nexec \"$0\" store \"$@\"")]).arg(env!("CARGO_BIN_EXE_watchcache")).args(arguments);
    let Output { status, stdout, stderr } = command.output()?;
    // A line for each second may have told on standard error how far it was.
    let said = String::from_utf8(if status.success() { stdout } else { stderr })?;
    let line = said.lines().last().unwrap_or_default().to_owned();
    Ok((status.success(), line))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a temporary directory has a name of letters")
}

async fn fill(server: &Alone, count: usize) -> Outcome {
    for n in 0..count {
        let map = json!({"metadata": {"name": format!("m{n}")}, "data": {"large": "x".repeat(LARGE)}});
        asked(&server.client(), ("POST", MAPS), Some(&map), 201).await?;
    }
    Ok(())
}

#[tokio::test]
async fn what_is_restored_is_listed_anew() -> Outcome {
    let (dir, other) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let (data, backup) = (dir.path().join("data"), dir.path().join("backup"));
    let server = Alone::start(dir.path()).await?;
    fill(&server, 3).await?;
    let (well, line) = store("", &["backup", text(&backup), "--data-dir", text(&data)])?;
    assert!(well && line.starts_with("saved revision ") && line.ends_with(&format!("into {}", backup.display())), "{line}");
    asked(&server.client(), ("DELETE", &format!("{MAPS}/m0")), None, 200).await?;
    let seen = asked(&server.client(), ("GET", MAPS), None, 200).await?;
    // To whoever keeps it elsewhere, as `kubectl exec` does.
    let kept = dir.path().join("kept");
    let (well, line) = store(&format!("exec > {}", text(&kept)), &["backup", "-", "--data-dir", text(&data)])?;
    assert!(well && line.is_empty(), "{line}");
    let (well, line) = store("", &["check", text(&kept)])?;
    assert!(well && line.contains("a whole backup of revision "), "{line}");
    let (well, line) = store("", &["check", "--data-dir", text(&data)])?;
    assert!(!well && line.contains("in use by another process"), "{line}");
    let (well, line) = store("", &["restore", text(&backup), "--data-dir", text(&data)])?;
    assert!(!well && line.contains("in use by another process"), "{line}");
    drop(server);

    let restored = other.path().join("data");
    let (well, line) = store("", &["restore", text(&backup), "--data-dir", text(&restored)])?;
    assert!(well && line.starts_with("restored revision ") && line.contains("which begins at revision 1000000"), "{line}");
    let (well, line) = store("", &["check", "--data-dir", text(&restored)])?;
    assert!(well && line.contains("a whole store at revision 1000000"), "{line}");
    let server = Alone::start(other.path()).await?;
    let list = asked(&server.client(), ("GET", MAPS), None, 200).await?;
    assert!(names(&list).contains(&"m0".to_owned()), "what came after the backup did not happen");
    assert!(revision(&list)? > revision(&seen)? + 999_000_000);
    // Whoever saw the other history begins anew.
    let target = format!("{MAPS}?watch=true&resourceVersion={}", revision(&seen)?);
    let mut watch = server.client().watch(&target).await?.map_err(|answer| format!("{answer:?}"))?;
    let event = watch.next().await?.ok_or("the watch ended in silence")?;
    let event = format!("{event:?}");
    assert!(event.contains("410") || event.contains("Expired"), "{event}");
    Ok(())
}

#[tokio::test]
async fn a_full_disk_spoils_neither_the_store_nor_an_older_backup() -> Outcome {
    let dir = tempfile::tempdir()?;
    let (data, backup, new) = (dir.path().join("data"), dir.path().join("backup"), dir.path().join("new"));
    let server = Alone::start(dir.path()).await?;
    fs::write(&backup, "older")?;
    fill(&server, 40).await?;
    let (well, line) = store(FULL, &["backup", text(&backup), "--data-dir", text(&data)])?;
    assert!(!well && line.contains("File too large"), "{line}");
    assert_eq!(fs::read(&backup)?, b"older");
    assert!(!dir.path().join("backup.part").exists());
    assert!(store("", &["backup", text(&backup), "--data-dir", text(&data)])?.0);
    let (well, line) = store(FULL, &["restore", text(&backup), "--data-dir", text(&new)])?;
    assert!(!well && line.contains("File too large"), "{line}");
    assert!(!new.exists(), "what was begun is gone");
    drop(server);
    let (well, line) = store(FULL, &["defragment", "--data-dir", text(&data)])?;
    assert!(!well && line.contains("the store goes on in the file that it had") && line.contains("File too large"), "{line}");
    let (well, line) = store("", &["check", "--data-dir", text(&data)])?;
    assert!(well, "{line}");
    let left: Vec<_> = fs::read_dir(&data)?.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<_>>()?;
    assert!(!left.iter().any(|name| name == "store.redb.new"), "{left:?}");
    Ok(())
}

/// Makes forty large objects and deletes all but the last two: those are at the end of the file, so that it cannot shrink by itself.
async fn fill_and_delete(server: &Alone) -> Outcome {
    fill(server, 40).await?;
    for n in 0..38 {
        asked(&server.client(), ("DELETE", &format!("{MAPS}/m{n}")), None, 200).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_defragmentation_says_what_history_holds() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start_with(dir.path(), &["--etcd-compaction-interval=24h"]).await?;
    fill_and_delete(&server).await?;
    let (well, line) = store("", &["defragment", "--data-dir", text(&dir.path().join("data"))])?;
    let history = line.strip_suffix(" of them history that is kept until the next compaction").and_then(|line| line.rsplit(' ').next());
    let history: usize = history.ok_or_else(|| line.clone())?.parse()?;
    assert!(well && (38 * LARGE..40 * LARGE).contains(&history), "{line}");
    Ok(())
}

#[tokio::test]
async fn a_server_is_defragmented_while_it_serves_and_tells_what_it_takes() -> Outcome {
    let dir = tempfile::tempdir()?;
    let data = dir.path().join("data");
    let server = Alone::start_with(dir.path(), &["--quota-backend-bytes=64Mi", "--etcd-compaction-interval=1s"]).await?;
    let metric = async |name: &str| super::metric(&server.client(), name, "").await;
    assert_eq!(metric("watchcache_store_quota_bytes ").await? as u64, 64 << 20, "it is there as soon as the server answers");
    fill_and_delete(&server).await?;
    // All that was deleted must be compacted, for what a copy begins with is what it has at the end. Compactions take two intervals.
    let began = std::time::Instant::now();
    loop {
        let kept = metric("watchcache_store_size_bytes ").await? - metric("watchcache_store_free_bytes ").await?;
        if kept < 4.0 * LARGE as f64 {
            break;
        }
        assert!(began.elapsed() < super::PATIENCE, "{kept} bytes are kept");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    let bytes = || Ok::<_, Failure>(fs::metadata(data.join("store.redb"))?.blocks() * 512);
    let before = bytes()?;
    let (well, line) = store("", &["defragment", "--data-dir", text(&data)])?;
    assert!(well && line.contains(" bytes now"), "{line}");
    let after = bytes()?;
    assert!(after < before / 4, "{before} {after}: {line}");
    fill(&server, 1).await?;
    Ok(())
}
