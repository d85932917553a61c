//! Lists and gets, one after another on each connection; every answer is checked to be complete. Knows paths and pages, not what is in a body.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, anyhow, bail, ensure};
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, timeout};

use super::body::drain;
use super::client::{self, Connection};
use super::{Command, Driver, Paths, Percentiles, Protocol, REQUEST_SECONDS, Reply, Requests, Target};
use crate::certs::Certificates;

/// Opens the connections, then makes requests whenever the driver asks for some.
pub(super) async fn serve(target: &Target, protocol: Protocol, work: Requests, driver: &mut Driver) -> Result<()> {
    let tls = client::tls(&Certificates::at(&target.certificates), protocol)?;
    let mut connections = Vec::with_capacity(work.connections);
    for _ in 0..work.connections {
        connections.push(Connection::open(target, &tls, protocol).await?);
    }
    driver.reply(&Reply::Opened).await?;
    let work = Arc::new(work);
    while let Some(command) = driver.next().await? {
        let Command::Requests { count } = command else { bail!("a load of requests has no watches") };
        let tally = share_out(&work, &mut connections, count).await?;
        let latency = Percentiles::of(tally.micros).context("no requests to take percentiles of")?;
        let Tally { plain_bytes, wire_bytes, compressed, .. } = tally;
        driver.reply(&Reply::Requests { plain_bytes, wire_bytes, compressed, latency }).await?;
    }
    Ok(())
}

/// What a number of requests brought.
#[derive(Default)]
struct Tally {
    plain_bytes: u64,
    wire_bytes: u64,
    compressed: bool,
    micros: Vec<i64>,
}

async fn share_out(work: &Arc<Requests>, connections: &mut Vec<Connection>, count: u64) -> Result<Tally> {
    let taken = Arc::new(AtomicU64::new(0));
    let mut workers = JoinSet::new();
    for mut connection in connections.drain(..) {
        let (work, taken) = (Arc::clone(work), Arc::clone(&taken));
        workers.spawn(async move {
            let mut tally = Tally::default();
            loop {
                let turn = taken.fetch_add(1, Ordering::Relaxed);
                if turn >= count {
                    return anyhow::Ok((connection, tally));
                }
                exchange(&mut connection, &work, turn, &mut tally).await?;
            }
        });
    }
    let mut all = Tally::default();
    while let Some(worker) = workers.join_next().await {
        let (connection, tally) = worker.context("a task that makes requests")??;
        connections.push(connection);
        all.plain_bytes += tally.plain_bytes;
        all.wire_bytes += tally.wire_bytes;
        all.compressed |= tally.compressed;
        all.micros.extend(tally.micros);
    }
    Ok(all)
}

/// One request, or, for pages, as many as the list has.
async fn exchange(connection: &mut Connection, work: &Requests, turn: u64, tally: &mut Tally) -> Result<()> {
    let (path, objects) = path_of(&work.paths, turn)?;
    let (mut page, mut shown) = (path.to_owned(), 0);
    let began = Instant::now();
    loop {
        let answer = connection.read_as(&page, work.form, work.gzip).await?;
        let is_watch = matches!(work.paths, Paths::Stream { .. });
        let body = timeout(Duration::from_secs(REQUEST_SECONDS), drain(answer, work.form, is_watch)).await;
        let body = body.context("an answer took too long")?.with_context(|| format!("the answer to {page}"))?;
        shown += body.objects;
        tally.plain_bytes += body.plain_bytes;
        tally.wire_bytes += body.wire_bytes;
        tally.compressed |= body.compressed;
        match (&work.paths, body.next) {
            (Paths::Pages { .. }, Some(next)) if shown < objects => page = format!("{path}&continue={next}"),
            _ => break,
        }
    }
    ensure!(shown == objects, "GET {page} showed {shown} objects, not {objects}");
    tally.micros.push(i64::try_from(began.elapsed().as_micros())?);
    Ok(())
}

fn path_of(paths: &Paths, turn: u64) -> Result<(&str, u64)> {
    match paths {
        Paths::List { path, objects } | Paths::Pages { path, objects } | Paths::Stream { path, objects } => Ok((path, *objects)),
        Paths::Objects { paths } => {
            let turn = usize::try_from(turn)?.checked_rem(paths.len()).ok_or_else(|| anyhow!("no objects to ask for"))?;
            Ok((&paths[turn], 1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_asked_for_in_turn() {
        let paths = Paths::Objects { paths: vec!["/a".into(), "/b".into()] };
        let asked: Vec<_> = (0..3).map(|turn| path_of(&paths, turn).expect("two paths").0).collect();
        assert_eq!(asked, ["/a", "/b", "/a"]);
        assert!(path_of(&Paths::Objects { paths: Vec::new() }, 0).is_err());
        assert_eq!(path_of(&Paths::List { path: "/l".into(), objects: 9 }, 5).expect("a list"), ("/l", 9));
    }
}
