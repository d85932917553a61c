//! Measurement of the recorded mixture: what a server takes for it, and whether its memory stays.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::{Bench, Subject, as_float, plain, row};
use crate::certs::Certificates;
use crate::load::{Connection, Job, Load, Protocol, Target, Work, now_micros, tls};
use crate::mixture::{Mixture, Turns};

/// Seconds of the mixture before those that are measured: connections, watches and caches fill.
const WARM_SECONDS: u64 = 20;

/// Seconds of each measured piece of it.
const PIECE_SECONDS: u64 = 60;

/// Seconds after the last client has gone, for the memory that is given back.
const AFTER: Duration = Duration::from_secs(60);

/// Connections that write.
const WRITERS: usize = 8;

/// Creates the objects of the mixture.
pub(crate) async fn create(target: &Target, nodes: u64) -> Result<()> {
    let tls = tls(&Certificates::at(&target.certificates), Protocol::Http1)?;
    let objects = Mixture::of(nodes)?.objects();
    let mut creators = JoinSet::new();
    for first in 0..WRITERS {
        let mut connection = Connection::open(target, &tls, Protocol::Http1).await?;
        let mine: Vec<_> = objects.iter().skip(first).step_by(WRITERS).cloned().collect();
        creators.spawn(async move {
            for (collection, object) in mine {
                connection.write(http::Method::POST, &collection, object.into()).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(creator) = creators.join_next().await {
        creator.context("a task that creates objects")??;
    }
    Ok(())
}

/// Writes at the recorded pace for so long; how many there were.
async fn write(target: &Target, nodes: u64, lasting: Duration) -> Result<u64> {
    // The number of this run: no name comes twice.
    let run = now_micros();
    let tls = tls(&Certificates::at(&target.certificates), Protocol::Http1)?;
    let mixture = Mixture::of(nodes)?;
    let mut turns = Turns::of(mixture.writes.iter().map(|write| write.rate))?;
    let (began, rate) = (Instant::now(), turns.rate());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some thousand writes")]
    let count = (rate * lasting.as_secs_f64()) as u64;
    let mut shares: Vec<Vec<_>> = vec![Vec::new(); WRITERS];
    for nth in 0..count {
        let due = began + Duration::from_secs_f64(as_float(nth) / rate);
        shares[usize::try_from(nth)? % WRITERS].push((due, mixture.write(&mixture.writes[turns.next()], run, nth)));
    }
    let mut writers = JoinSet::new();
    for share in shares {
        let mut connection = Connection::open(target, &tls, Protocol::Http1).await?;
        writers.spawn(async move {
            let mut made = 0;
            for (due, requests) in share {
                sleep_until(due).await;
                for (method, path, body) in requests {
                    connection.write(method, &path, body.into()).await?;
                    made += 1;
                }
            }
            anyhow::Ok(made)
        });
    }
    let mut made = 0;
    while let Some(writer) = writers.join_next().await {
        made += writer.context("a task that writes")??;
    }
    Ok(made)
}

impl Bench {
    /// The clients of a cluster of so many nodes at the subject for so many minutes, their writes through the writing server.
    pub(crate) async fn mixture(&mut self, subject: &Subject, writing: &Target, nodes: u64, minutes: u64) -> Result<()> {
        self.rest(subject).await?;
        let before = subject.meter.rss()?;
        let job = Job { target: subject.target.clone(), protocol: Protocol::Http2, work: Work::Mixture { nodes } };
        let mut load = Load::open(&job).await.context("open the clients of the mixture")?;
        let warm = Duration::from_secs(WARM_SECONDS);
        tokio::try_join!(load.mix(warm), write(writing, nodes, warm))?;

        let (side, figures) = (subject.side, &mut self.figures);
        let title = |what: &str| format!("recorded mixture of {nodes} nodes: {what}");
        figures.add(side, row("mixture", "before", title("memory before"), "MB RSS"), as_float(before) / 1e6);
        let mut failed = 0;
        for minute in 1..=minutes {
            let began = Instant::now();
            let (cpu, client) = (subject.meter.cpu()?, load.meter().cpu()?);
            let piece = Duration::from_secs(PIECE_SECONDS);
            let (mixed, written) = tokio::try_join!(load.mix(piece), write(writing, nodes, piece))?;
            // Longer than the piece when the writer, or the last reads, were late.
            let seconds = began.elapsed().as_secs_f64();
            if seconds > as_float(PIECE_SECONDS) * 1.05 {
                figures.note(format!("{side:?}, minute {minute} of the mixture took {seconds:.0} s: its pace was not kept."));
            }
            failed += mixed.failed;
            let [cpu, client] =
                [(subject.meter.cpu()? - cpu), (load.meter().cpu()? - client)].map(|spent| spent.as_secs_f64() / seconds * 1e3);
            let rss = as_float(subject.meter.rss()?) / 1e6;
            eprintln!("compare: {side:?}, minute {minute} of the mixture: {cpu:.1} ms CPU/s, {rss:.1} MB, p99 {:.1} ms", mixed.latency.p99);
            figures.add(side, row("mixture", "cpu", title("CPU each second"), "ms CPU"), cpu);
            figures.add(side, plain("mixture", "reads", title("… reads"), "1/s"), as_float(mixed.reads) / seconds);
            figures.add(side, plain("mixture", "bytes", title("… bytes read"), "MB/s"), as_float(mixed.bytes) / 1e6 / seconds);
            figures.add(
                side,
                plain("mixture", "writes", title("… writes, through the writing server"), "1/s"),
                as_float(written) / seconds,
            );
            figures.add(side, plain("mixture", "events", title("… events to watches"), "1/s"), as_float(mixed.events) / seconds);
            figures.add(side, plain("mixture", "opened", title("… watches opened again"), "1/s"), as_float(mixed.reopened) / seconds);
            figures.add(side, row("mixture", "p50", title("… due → answer, p50"), "ms"), mixed.latency.p50);
            figures.add(side, row("mixture", "p99", title("… due → answer, p99"), "ms"), mixed.latency.p99);
            figures.add(side, plain("mixture", "client", title("… load generator, each second"), "ms CPU"), client);
            figures.add(side, row("mixture", "rss", title("memory, the mean of the minutes"), "MB RSS"), rss);
            if minute == 1 {
                figures.add(side, row("mixture", "first", title("memory after the first minute"), "MB RSS"), rss);
            }
            if minute == minutes {
                figures.add(side, row("mixture", "last", title("memory after the last minute"), "MB RSS"), rss);
            }
            if let Some(why) = mixed.first_failure {
                figures.note(format!("{side:?}, minute {minute} of the mixture: {} requests failed, the first with: {why}", mixed.failed));
            }
        }
        figures.add(side, plain("mixture", "failed", title("… requests that failed, in all"), ""), as_float(failed));
        load.close().await?;
        sleep(AFTER).await;
        let after = as_float(subject.meter.rss()?) / 1e6;
        self.figures.add(side, row("mixture", "after", title("memory 60 s after the last client has gone"), "MB RSS"), after);
        Ok(())
    }
}
