//! `same`: one seed, one list of operations, two servers, every answer compared. Knows the operations; [`random`] makes them, [`compare`] judges.

mod answer;
mod expiry;
mod large;
mod operation;
mod random;
mod report;
mod watches;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use proto::testing::Client;
use tokio::time::{Instant, sleep};

use self::{
    answer::{Answer, Explained, compare},
    operation::{Operation, ask},
    random::Random,
    report::Report,
    watches::{Log, Streams, Told},
};
use crate::connection::{connect, connect_for_streams, head, watches_behind};

/// How long a watch event may take to come on both sides before its absence is a difference.
const SETTLE: Duration = Duration::from_secs(20);

/// Between two looks at what has come on the streams.
const LOOK: Duration = Duration::from_millis(1);

/// After so many looks without a word on a stream there is none: a cancellation of nothing and some progress requests are not answered. Looks, not time:
/// while the machine stands still, nobody answers.
const SILENCE: usize = 150;

/// After so many looks an answer that must come is missing.
const ANSWER: usize = 20_000;

/// etcd looks for watches that begin in the past every 100 ms (`watchResyncPeriod`): until then compactions, progress requests and cancellations find
/// them behind, so that what they answer is a matter of time. It takes this long at least, and as long as etcd itself counts watches that are behind.
const CATCH_UP: Duration = Duration::from_millis(300);

/// Operations between two comparisons of all watches.
const WATCHES_EVERY: usize = 50;

/// Sizes and addresses of a comparison.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Address of the etcd, empty: http://127.0.0.1:2379
    #[arg(long)]
    etcd: String,
    /// Address of the store, empty as well; a second etcd tests the tester.
    #[arg(long)]
    store: String,
    /// Random operations, besides the fixed ones at the end (large requests, leases that end).
    #[arg(long, default_value_t = 20_000)]
    operations: usize,
    /// Seed of the operations; random without.
    #[arg(long)]
    seed: Option<u64>,
    /// Differences after which it gives up.
    #[arg(long, default_value_t = 20)]
    differences_max: usize,
}

/// Compares, prints what differed; whether nothing did that is not explained.
pub(crate) async fn run(options: &Options) -> Result<bool> {
    let seed = options.seed.unwrap_or_else(rand::random);
    println!("seed {seed}");
    let mut pair = Pair::connect(options).await?;
    let mut random = Random::new(seed);
    while pair.report.operations() < options.operations && pair.report.differences() < options.differences_max {
        let operation = random.operation();
        let (answer, agreed) = pair.ask(&operation).await?;
        random.learn(&operation, &answer);
        if !agreed && pair.parted().await? {
            println!("the revisions differ from here on: nothing after it can be compared");
            break;
        }
    }
    if pair.report.differences() == 0 {
        large::run(&mut pair).await?;
        expiry::run(&mut pair).await?;
    }
    pair.report.print();
    Ok(pair.report.differences() == 0)
}

/// Both sides, and what was found.
struct Pair {
    etcd: Side,
    store: Side,
    report: Report,
    /// A watch may still be behind.
    behind: bool,
    head: i64,
    compacted: i64,
    /// Where the watches of each stream began that named a revision.
    starts: BTreeMap<usize, BTreeSet<i64>>,
    /// What was asked on each open stream, for the person who reads a difference.
    asked: BTreeMap<usize, Vec<String>>,
}

struct Side {
    calls: Client,
    streamed: Client,
    streams: Streams,
    url: String,
}

impl Side {
    async fn connect(url: &str) -> Result<Self> {
        let mut calls = connect(url)?;
        let head = head(&mut calls).await.with_context(|| format!("{url} does not answer"))?;
        ensure!(head == 1, "{url} is not empty: its revision is {head}, an empty one's is 1");
        Ok(Self { calls, streamed: connect_for_streams(url)?, streams: Streams::default(), url: url.to_owned() })
    }

    async fn ask(&mut self, operation: &Operation) -> Result<Answer> {
        match operation {
            Operation::Watch { stream, create } => self.streams.watch(&mut self.streamed, *stream, create).await?,
            Operation::CancelWatch { stream, watch } => self.streams.cancel(*stream, *watch).await?,
            Operation::Progress { stream } => self.streams.progress(*stream).await?,
            Operation::CloseStream { stream } => self.streams.close(*stream),
            _ => return Ok(ask(&mut self.calls, operation).await),
        }
        Ok(Answer::Later)
    }
}

impl Pair {
    async fn connect(options: &Options) -> Result<Self> {
        let (etcd, store) = (Side::connect(&options.etcd).await?, Side::connect(&options.store).await?);
        Ok(Self {
            etcd,
            store,
            report: Report::default(),
            behind: false,
            head: 1,
            compacted: 0,
            starts: BTreeMap::new(),
            asked: BTreeMap::new(),
        })
    }

    /// Asks both, and counts the operation; etcd's answer, and whether the store's was the same.
    async fn ask(&mut self, operation: &Operation) -> Result<(Answer, bool)> {
        use Operation::{CancelWatch, CloseStream, Compact, Progress, Watch};
        let watching = matches!(operation, Watch { .. } | CancelWatch { .. } | Progress { .. });
        if self.begins_next(operation) {
            self.report.explained(Explained::ProgressAtStart);
            return Ok((Answer::Later, true));
        }
        if matches!(operation, Compact { .. } | Progress { .. } | CancelWatch { .. } | CloseStream { .. }) {
            self.catch_up().await;
            self.settle(operation).await?;
        }
        let (etcd, store) = tokio::join!(self.etcd.ask(operation), self.store.ask(operation));
        let (etcd, store) = (etcd.context("etcd")?, store.context("the store")?);
        self.report.count(operation);
        let mut agreed = true;
        match compare(operation, &etcd, &store) {
            Ok(None) => {}
            Ok(Some(explained)) => self.report.explained(explained),
            Err(()) => {
                agreed = false;
                self.report.differs(operation, &format!("{etcd:?}"), &format!("{store:?}"));
            }
        }
        self.behind |= matches!(operation, Watch { create, .. } if create.start_revision > 0);
        if let Answer::Refused { message, .. } = &etcd {
            self.report.refused(message);
        }
        self.learn(operation, &etcd);
        if matches!(operation, Watch { create, .. } if (1..=self.compacted).contains(&create.start_revision)) {
            // It is about to be canceled, and what the next one on the stream is answered depends on that.
            self.catch_up().await;
        }
        match operation {
            Watch { stream, .. } => self.answered(*stream, Told::answers_watch, ANSWER).await?,
            CancelWatch { stream, .. } => self.answered(*stream, Told::answers_cancel, SILENCE).await?,
            Progress { stream } => self.answered(*stream, Told::answers_progress, SILENCE).await?,
            _ => {}
        }
        if watching || self.report.operations().is_multiple_of(WATCHES_EVERY) {
            agreed &= self.settle(operation).await?;
        }
        Ok((etcd, agreed))
    }

    /// After a difference: whether the two have parted for good. Watches begin anew, for what follows on them is no difference of its own.
    async fn parted(&mut self) -> Result<bool> {
        self.close_streams();
        Ok(head(&mut self.etcd.calls).await? != head(&mut self.store.calls).await?)
    }

    /// Leaves all watches.
    fn close_streams(&mut self) {
        self.etcd.streams.close_all();
        self.store.streams.close_all();
        self.starts.clear();
        self.asked.clear();
    }

    fn learn(&mut self, operation: &Operation, answer: &Answer) {
        self.head = self.head.max(answer.revision().unwrap_or(0));
        match operation {
            Operation::Compact { revision, .. } if matches!(answer, Answer::Compact(_)) => self.compacted = *revision,
            Operation::Watch { stream, create } => {
                self.starts.entry(*stream).or_default().insert(create.start_revision);
                self.remember(*stream, operation);
            }
            Operation::CancelWatch { stream, .. } | Operation::Progress { stream } => self.remember(*stream, operation),
            Operation::CloseStream { stream } => self.forget(*stream),
            _ => {}
        }
    }

    fn remember(&mut self, stream: usize, operation: &Operation) {
        let line = format!("at {} (compacted {}): {operation:?}", self.head, self.compacted);
        self.asked.entry(stream).or_default().push(line);
    }

    fn forget(&mut self, stream: usize) {
        self.starts.remove(&stream);
        self.asked.remove(&stream);
    }

    /// A progress request on a stream with a watch from the next revision. The store answers it: that watch has been told of all there is. etcd does not,
    /// until there is a newer revision.
    fn begins_next(&self, operation: &Operation) -> bool {
        matches!(operation, Operation::Progress { stream } if self.starts.get(stream).is_some_and(|starts| starts.contains(&(self.head + 1))))
    }

    /// Gives etcd the time to catch up with watches that begin in the past.
    async fn catch_up(&mut self) {
        if !std::mem::take(&mut self.behind) {
            return;
        }
        sleep(CATCH_UP).await;
        let deadline = Instant::now() + SETTLE;
        for url in [&self.etcd.url, &self.store.url] {
            while Instant::now() < deadline && watches_behind(url).await.is_some_and(|count| count > 0.0) {
                sleep(LOOK).await;
            }
        }
    }

    /// Waits until both sides have answered on the stream, or long enough that they are not going to: what follows must not meet an answer that is
    /// under way.
    async fn answered(&self, stream: usize, answer: fn(&Told) -> bool, looks: usize) -> Result<()> {
        for _ in 0..looks {
            let (etcd, store) = (self.etcd.streams.has(stream, answer)?, self.store.streams.has(stream, answer)?);
            if etcd && store {
                break;
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// Waits until all watches of both sides were told the same; whether that came true.
    async fn settle(&mut self, operation: &Operation) -> Result<bool> {
        let deadline = Instant::now() + SETTLE;
        loop {
            let (etcd, store) = (self.etcd.streams.logs()?, self.store.streams.logs()?);
            if etcd == store && sound(&etcd) {
                Streams::kinds(&etcd).for_each(|kind| self.report.told(kind));
                self.etcd.streams.forget(&etcd)?;
                self.store.streams.forget(&store)?;
                self.leave_compacted(&etcd);
                return Ok(true);
            }
            if Instant::now() >= deadline {
                self.report_logs(operation, &etcd, &store);
                self.close_streams();
                return Ok(false);
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Leaves the streams on which a compaction has ended a watch. etcd keeps such a watch until the client cancels it: its id is taken, a cancellation
    /// of it is answered, and progress requests of the stream are not. The store forgets it at once.
    fn leave_compacted(&mut self, logs: &BTreeMap<usize, Log>) {
        for (number, _) in logs.iter().filter(|(_, log)| log.has_compacted()) {
            self.etcd.streams.close(*number);
            self.store.streams.close(*number);
            self.forget(*number);
            self.report.explained(Explained::CompactedWatchKept);
        }
    }

    fn report_logs(&mut self, operation: &Operation, etcd: &BTreeMap<usize, Log>, store: &BTreeMap<usize, Log>) {
        for (number, of_etcd) in etcd {
            let of_store = store.get(number).cloned().unwrap_or_default();
            if *of_etcd == of_store && of_etcd.broken.is_empty() {
                continue;
            }
            let (of_etcd, of_store) = of_etcd.differing(&of_store);
            self.report.differs(operation, &format!("stream {number}: {of_etcd}"), &format!("stream {number}: {of_store}"));
            self.report.explain(self.asked.get(number).map_or(&[], |asked| &asked[..]));
        }
    }
}

fn sound(logs: &BTreeMap<usize, Log>) -> bool {
    logs.values().all(|log| log.broken.is_empty())
}
