//! Measurement of many definitions of custom resources: what a server takes until it has answered for each, and what it holds then.

use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;

use super::{Bench, Subject, as_float, busy, row};
use crate::writer;

/// Seconds in which nothing happens.
const IDLE_SECONDS: u64 = 10;

impl Bench {
    /// CPU since the start until a list of each was answered (kube-apiserver loads a custom resource when it is first asked for, watchcache at
    /// the start), then memory, and CPU while nothing happens.
    pub(crate) async fn definitions(&mut self, subject: &Subject, definitions: u64) -> Result<()> {
        writer::served(&subject.target, definitions).await?;
        let until_listed = subject.meter.cpu()?;
        self.rest(subject).await?;
        let resident = subject.meter.rss()?;
        let idle = busy(subject.meter, async || {
            sleep(Duration::from_secs(IDLE_SECONDS)).await;
            Ok(())
        });
        let share = idle.await?.0.as_secs_f64() / as_float(IDLE_SECONDS);
        let (side, figures) = (subject.side, &mut self.figures);
        let title = "start until each definition was listed".to_owned();
        figures.add(side, row("cpu", "definitions", title, "s CPU"), until_listed.as_secs_f64());
        figures.add(side, row("rss", "definitions", "memory".to_owned(), "MB RSS"), as_float(resident) / 1e6);
        figures.add(side, row("rest", "definitions", "nothing happens, each second".to_owned(), "ms CPU"), share * 1000.0);
        Ok(())
    }
}
