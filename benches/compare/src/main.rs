//! Measures watchcache beside kube-apiserver: one run, one machine, one etcd, the subjects taking turns. The README says what the rows mean.

mod certs;
mod cpu;
mod curves;
mod custom;
mod floor;
mod header;
mod helper;
mod load;
mod measure;
mod mixture;
mod peers;
mod pods;
mod svg;
mod table;
mod writer;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Parser, Subcommand, ValueEnum};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use crate::cpu::Meter;
use crate::header::Header;
use crate::load::{Form, Protocol, Target};
use crate::measure::{Bench, Listing, Selector, Shape, Sizes, Start, Subject};
use crate::peers::{Peer, Programs, Side, Stage, Storage};
use crate::table::{Figures, Row};
use crate::writer::{Kind, Writer};

/// Measures watchcache beside kube-apiserver and prints one table.
#[derive(Parser)]
#[command(subcommand_negates_reqs = true, args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    command: Option<Role>,
    #[command(flatten)]
    run: Option<Run>,
}

/// What this program is started as by itself.
#[derive(Subcommand)]
enum Role {
    /// The load process of a run: reads a job from stdin.
    #[command(hide = true)]
    Load,
    /// The bare TLS server beside the servers: reads what to send from stdin.
    #[command(hide = true)]
    Floor,
}

#[derive(clap::Args)]
struct Run {
    /// Path of the etcd program.
    #[arg(long, required = true)]
    etcd: PathBuf,
    /// Path of the kube-apiserver program.
    #[arg(long, required = true)]
    kube_apiserver: PathBuf,
    /// Path of the watchcache program; without it kube-apiserver is compared with itself, which shows the noise of the method.
    #[arg(long)]
    watchcache: Option<PathBuf>,
    /// One more argument for `watchcache serve`; may be repeated.
    #[arg(long, allow_hyphen_values = true)]
    watchcache_arg: Vec<String>,
    /// ConfigMaps in the namespace.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    objects: u64,
    /// Watches, all of the whole namespace.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(1..=15_000))]
    watchers: u16,
    /// Watches in each of three and a half loads that are only held open, for their memory; 0 leaves that out.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u16).range(0..=15_000))]
    idle_watches: u16,
    /// Writes each second.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..=300))]
    rate: u16,
    /// Seconds of writes in each measurement.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// How often each subject gets its turn.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=20))]
    rounds: u8,
    /// Lists in each measurement.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    lists: u64,
    /// Gets in each measurement.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    gets: u64,
    /// PUTs through each subject in each measurement, with `watchcache serve --allow-writes`; 0 leaves them out.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    writes: u64,
    /// Writes a second of each measurement at heavy rates.
    #[arg(long, value_delimiter = ',', default_value = "100,200,400", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rates: Vec<u64>,
    /// Watches of each point of the curves by watches.
    #[arg(long, value_delimiter = ',', default_value = "100,1000,3000", value_parser = clap::value_parser!(u16).range(1..=15_000))]
    curve_watchers: Vec<u16>,
    /// Objects of each point of the curves by objects; the first number is also that of the curves by watches.
    #[arg(long, value_delimiter = ',', default_value = "10000,100000", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    curve_objects: Vec<u64>,
    /// CustomResourceDefinitions of each point of the curves by definitions.
    #[arg(long, value_delimiter = ',', default_value = "1,50,100,200", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    curve_definitions: Vec<u64>,
    /// Informers that start at once.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    informers: u16,
    /// Pods that they read.
    #[arg(long, default_value_t = 6_000, value_parser = clap::value_parser!(u64).range(1..=200_000))]
    informer_pods: u64,
    /// Nodes of the cluster whose mixture is replayed: the recorded one has two.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(2..=5_000))]
    mixture_nodes: u64,
    /// Minutes of the mixture in each turn of watchcache. One of kube-apiserver has two at most: it is there for the ratios.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=240))]
    mixture_minutes: u64,
    /// Folder for the drawings of the curves.
    #[arg(long, default_value = "curves")]
    curves_dir: PathBuf,
    /// Measure these parts only; without it, those that are not marked "only when named".
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// What the kube-apiservers store: theirs, and what watchcache finds in etcd.
    #[arg(long, value_enum, default_value_t = Storage::Json)]
    storage: Storage,
    /// First of five consecutive ports; 0 takes what is free.
    #[arg(long, default_value_t = 0)]
    base_port: u16,
    /// Minutes after which the run is given up.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=600))]
    minutes: u64,
    /// Also write every value of every round to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Keep data and logs in this new folder instead of a temporary one.
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// The parts of a run that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// CPU until ready, memory without and with objects.
    Start,
    /// Memory of idle watches.
    Idle,
    /// Events to watches, and past them.
    Watches,
    /// Lists and gets in JSON.
    Requests,
    /// Lists, gets and watches in protobuf, lists as Table, compressed lists.
    Forms,
    /// PUTs, when `--writes` says how many.
    Writes,
    /// Lists by label and by name; only when named.
    Selectors,
    /// Watches at the rates of `--rates`; only when named.
    Rates,
    /// The same events from bare TLS sockets, at `--rate`, and at those of `--rates` when these are measured too; only when named.
    Floor,
    /// Lists, watches and memory of custom resources; only when named.
    Custom,
    /// Growth with watches and with objects, with drawings; only when named.
    Curves,
    /// Growth with definitions of custom resources, with drawings; only when named.
    Definitions,
    /// The recorded mixture of a cluster's clients; only when named.
    Mixture,
    /// Many informers of Pods that start at once; only when named.
    Informers,
}

impl Part {
    /// Whether a run without `--only` has it.
    fn is_usual(self) -> bool {
        !matches!(self, Self::Selectors | Self::Rates | Self::Floor | Self::Custom | Self::Mixture | Self::Informers) && !self.is_growth()
    }

    /// Whether it is measured on the ConfigMaps of the run.
    fn has_config_maps(self) -> bool {
        !matches!(self, Self::Custom | Self::Informers) && !self.is_growth()
    }

    /// Whether each of its points has an etcd of its own.
    fn is_growth(self) -> bool {
        matches!(self, Self::Curves | Self::Definitions)
    }
}

impl Run {
    fn has(&self, part: Part) -> bool {
        if self.only.is_empty() { part.is_usual() } else { self.only.contains(&part) }
    }

    /// What is asked for, in words.
    fn load(&self) -> String {
        let Self { objects, watchers, rate, seconds, rounds, writes, storage, curve_objects, curve_watchers, curve_definitions, .. } = self;
        let load = match self.only.as_slice() {
            [Part::Writes] => format!("{objects} ConfigMaps; {writes} PUTs by {} connections", writer::CREATORS),
            [Part::Mixture] => {
                format!(
                    "{objects} ConfigMaps and the recorded mixture of {} nodes for {} minutes",
                    self.mixture_nodes, self.mixture_minutes
                )
            }
            [Part::Curves] => format!("{curve_objects:?} ConfigMaps; {curve_watchers:?} watches, {rate} writes/s for {seconds} s"),
            [Part::Definitions] => format!("{curve_definitions:?} definitions of custom resources"),
            [Part::Informers] => format!("{} informers of {} Pods of about 8 KB", self.informers, self.informer_pods),
            [Part::Custom] => format!("{objects} custom resources; {watchers} watches, {rate} writes/s for {seconds} s"),
            _ => format!("{objects} ConfigMaps; {watchers} watches, {rate} writes/s for {seconds} s"),
        };
        format!("{load}; rounds: {rounds}; etcd holds {storage:?}; TLS with client certificates")
    }
}

/// One thread: a load process must not take both cores of a small machine from the server.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = match (args.command, args.run) {
        (Some(Role::Load), _) => load::run().await,
        (Some(Role::Floor), _) => floor::run(),
        (None, Some(run)) => guarded(run).await,
        (None, None) => Err(anyhow!("--etcd and --kube-apiserver are required")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compare: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The run, bounded in time and ended by signals; whatever it started is killed when its future is dropped.
async fn guarded(args: Run) -> Result<()> {
    raise_file_limit()?;
    let mut terminate = signal(SignalKind::terminate())?;
    let limit = Duration::from_secs(args.minutes * 60);
    tokio::select! {
        outcome = timeout(limit, compare(&args)) => outcome.with_context(|| format!("not done after {} minutes", args.minutes))?,
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        _ = terminate.recv() => bail!("terminated"),
    }
}

async fn compare(args: &Run) -> Result<()> {
    // Dropped last, after the processes that write there.
    let dir = match &args.dir {
        Some(dir) => Folder::keep(dir)?,
        None => Folder::Temporary(TempDir::new().context("create a temporary folder")?),
    };
    let mut watchcache_args = args.watchcache_arg.clone();
    if args.writes > 0 {
        watchcache_args.push("--allow-writes".to_owned());
    }
    let programs = Programs {
        etcd: args.etcd.clone(),
        kube_apiserver: args.kube_apiserver.clone(),
        watchcache: args.watchcache.clone(),
        watchcache_args,
        storage: args.storage,
    };
    let stage = Stage::build(programs.clone(), dir.path(), args.base_port)?;
    let mut figures = Figures::default();
    if args.only.is_empty() || args.only.iter().any(|part| !part.is_growth()) {
        progress("starting etcd and the writer");
        let mut etcd = stage.etcd().await?;
        let mut writing = stage.writer().await?;
        let measured = measure_all(args, &stage, stage.target(&writing), writing.meter()).await;
        // A server that has died explains the failure of a load better than the load can.
        still_run([&mut etcd, &mut writing])?;
        figures = measured?;
    }
    if args.has(Part::Curves) {
        figures = curves::by_objects(args, &programs, dir.path(), figures).await?;
    }
    if args.has(Part::Definitions) {
        figures = curves::by_definitions(args, &programs, dir.path(), figures).await?;
    }
    let header = Header::of_this_run(args.load(), Side::BOTH.map(|side| stage.name(side).to_owned()));
    println!("{}", figures.markdown(&header));
    if let Some(path) = &args.json {
        let json = serde_json::to_vec_pretty(&figures.json(&header))?;
        fs::write(path, json).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// Where a run keeps certificates, logs and etcd's data.
enum Folder {
    Temporary(TempDir),
    Kept(PathBuf),
}

impl Folder {
    fn keep(dir: &Path) -> Result<Self> {
        fs::create_dir(dir).with_context(|| format!("create {}", dir.display()))?;
        Ok(Self::Kept(dir.canonicalize()?))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Temporary(dir) => dir.path(),
            Self::Kept(dir) => dir,
        }
    }
}

/// Every measurement that is asked for, on objects of one kind after another.
async fn measure_all(args: &Run, stage: &Stage, target: Target, writing: Meter) -> Result<Figures> {
    let mut figures = Figures::default();
    if args.only.is_empty() || args.only.iter().any(|part| part.has_config_maps()) {
        let empty = if args.has(Part::Start) { Some(empty_rss(stage).await?) } else { None };
        progress("creating objects");
        let writer = Writer::populate(target.clone(), args.objects).await?;
        if args.has(Part::Mixture) {
            progress("creating the objects of the mixture");
            measure::create_mixture(&target, args.mixture_nodes).await?;
        }
        let (mut servers, mut bench, subjects) = open(args, stage, writer, writing, figures).await?;
        let measured = measure_config_maps(&mut bench, &subjects, empty, args, &target).await;
        still_run(&mut servers)?;
        measured?;
        figures = bench.figures;
    }
    if args.has(Part::Custom) {
        figures.scope("custom resources");
        writer::define(&target, 1).await?;
        let empty = empty_rss(stage).await?;
        progress("creating custom resources");
        let writer = Writer::create(target.clone(), args.objects, Kind::Widget).await?;
        let (mut servers, mut bench, subjects) = open(args, stage, writer, writing, figures).await?;
        let measured = measure_custom(&mut bench, &subjects, empty, args).await;
        still_run(&mut servers)?;
        measured?;
        figures = bench.figures;
    }
    if args.has(Part::Informers) {
        figures.scope("Pods");
        writer::make_room_for_pods(&target).await?;
        progress("creating Pods");
        let writer = Writer::create(target, args.informer_pods, Kind::Pod).await?;
        let (mut servers, mut bench, subjects) = open(args, stage, writer, writing, figures).await?;
        let measured = measure_informers(&mut bench, &subjects, args).await;
        still_run(&mut servers)?;
        measured?;
        figures = bench.figures;
    }
    Ok(figures)
}

/// Starts both subjects with all objects.
async fn open(args: &Run, stage: &Stage, writer: Writer, writing: Meter, mut figures: Figures) -> Result<([Peer; 2], Bench, [Subject; 2])> {
    let (their_server, theirs) = start(stage, Side::Theirs, &writer, &mut figures).await?;
    let (our_server, ours) = start(stage, Side::Ours, &writer, &mut figures).await?;
    let meters = vec![theirs.meter, ours.meter, writing];
    let sizes = Sizes { objects: writer.objects(), ..sizes(args) };
    Ok(([their_server, our_server], Bench { sizes, writer, figures, meters }, [theirs, ours]))
}

async fn start(stage: &Stage, side: Side, writer: &Writer, figures: &mut Figures) -> Result<(Peer, Subject)> {
    progress(&format!("starting {}", stage.name(side)));
    let server = stage.subject(side).await?;
    let subject = Subject { side, target: stage.target(&server), meter: server.meter() };
    measure::caught_up(&subject, writer).await?;
    let title = format!("start until ready with {} objects", writer.objects());
    figures.add(side, Row { key: "ready".into(), title, unit: "s CPU", ratio: true }, subject.meter.cpu()?.as_secs_f64());
    Ok((server, subject))
}

fn still_run<'a>(servers: impl IntoIterator<Item = &'a mut Peer>) -> Result<()> {
    servers.into_iter().try_for_each(Peer::still_runs)
}

/// What is asked for of ConfigMaps, the subjects taking turns within each measurement; `empty` is the RSS of each without objects.
async fn measure_config_maps(bench: &mut Bench, subjects: &[Subject], empty: Option<[u64; 2]>, args: &Run, writing: &Target) -> Result<()> {
    for (subject, empty) in subjects.iter().zip(empty.into_iter().flatten()) {
        bench.memory(subject, empty).await?;
    }
    for subject in subjects.iter().filter(|_| args.has(Part::Forms)) {
        progress(&format!("first list in protobuf, {:?}", subject.side));
        bench.first_protobuf(subject).await?;
    }
    for subject in subjects.iter().filter(|_| args.has(Part::Idle)) {
        progress(&format!("idle watches, {:?}", subject.side));
        bench.idle_watches(subject).await?;
    }
    for round in 1..=args.rounds {
        progress(&format!("round {round} of {}", args.rounds));
        if args.has(Part::Watches) {
            measure_watches(bench, subjects).await?;
        }
        if args.has(Part::Requests) {
            measure_requests(bench, subjects).await?;
        }
        if args.has(Part::Forms) {
            measure_forms(bench, subjects).await?;
        }
        if args.has(Part::Writes) {
            measure_writes(bench, subjects).await?;
        }
        if args.has(Part::Selectors) {
            measure_selectors(bench, subjects).await?;
        }
        if args.has(Part::Rates) {
            measure_rates(bench, subjects, &args.rates).await?;
        }
        if args.has(Part::Floor) {
            measure_floor(bench, subjects, args).await?;
        }
        for subject in subjects.iter().filter(|_| args.has(Part::Mixture)) {
            progress(&format!("the recorded mixture of {} nodes, {:?}", args.mixture_nodes, subject.side));
            let minutes = if subject.side == Side::Theirs { args.mixture_minutes.min(2) } else { args.mixture_minutes };
            bench.mixture(subject, writing, args.mixture_nodes, minutes).await?;
        }
    }
    Ok(())
}

/// The same for custom resources.
async fn measure_custom(bench: &mut Bench, subjects: &[Subject], empty: [u64; 2], args: &Run) -> Result<()> {
    for (subject, empty) in subjects.iter().zip(empty) {
        bench.memory(subject, empty).await?;
    }
    for round in 1..=args.rounds {
        for subject in subjects {
            progress(&format!("custom resources, round {round}, {:?}", subject.side));
            bench.lists(subject, Protocol::Http2, false).await?;
        }
        for subject in subjects {
            bench.fan_out(subject, Shape::ALL[1]).await?;
        }
    }
    Ok(())
}

/// Informers that start at once, in each form.
async fn measure_informers(bench: &mut Bench, subjects: &[Subject], args: &Run) -> Result<()> {
    for round in 1..=args.rounds {
        for start in Start::ALL {
            for subject in subjects {
                progress(&format!("{} informers, {}, round {round}, {:?}", args.informers, start.title, subject.side));
                bench.informers(subject, start, usize::from(args.informers)).await?;
            }
        }
    }
    Ok(())
}

async fn measure_watches(bench: &mut Bench, subjects: &[Subject]) -> Result<()> {
    for shape in Shape::ALL {
        for subject in subjects {
            progress(&format!("watches, {}, {:?}", shape.title, subject.side));
            bench.fan_out(subject, shape).await?;
        }
    }
    for subject in subjects {
        progress(&format!("watches with another label, {:?}", subject.side));
        bench.pass_over(subject).await?;
    }
    Ok(())
}

async fn measure_requests(bench: &mut Bench, subjects: &[Subject]) -> Result<()> {
    for (protocol, gzip) in [(Protocol::Http1, false), (Protocol::Http2, false), (Protocol::Http2, true)] {
        for subject in subjects {
            progress(&format!("lists, {protocol:?}, gzip {gzip}, {:?}", subject.side));
            bench.lists(subject, protocol, gzip).await?;
        }
    }
    for protocol in [Protocol::Http1, Protocol::Http2] {
        for subject in subjects {
            progress(&format!("gets, {protocol:?}, {:?}", subject.side));
            bench.gets(subject, protocol, Form::Json).await?;
        }
    }
    Ok(())
}

async fn measure_forms(bench: &mut Bench, subjects: &[Subject]) -> Result<()> {
    for listing in Listing::ALL {
        for subject in subjects {
            progress(&format!("{}, {:?}", listing.title, subject.side));
            bench.listing(subject, listing).await?;
        }
    }
    for subject in subjects {
        progress(&format!("gets in protobuf, {:?}", subject.side));
        bench.gets(subject, Protocol::Http2, Form::Protobuf).await?;
    }
    for subject in subjects {
        progress(&format!("watches, {}, {:?}", Shape::PROTOBUF.title, subject.side));
        bench.fan_out(subject, Shape::PROTOBUF).await?;
    }
    Ok(())
}

async fn measure_writes(bench: &mut Bench, subjects: &[Subject]) -> Result<()> {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        for subject in subjects {
            progress(&format!("writes, {protocol:?}, {:?}", subject.side));
            bench.writes(subject, protocol).await?;
        }
    }
    Ok(())
}

async fn measure_selectors(bench: &mut Bench, subjects: &[Subject]) -> Result<()> {
    for selector in Selector::ALL {
        for subject in subjects {
            progress(&format!("lists by {}, {:?}", selector.title(), subject.side));
            bench.selector(subject, selector).await?;
        }
    }
    Ok(())
}

async fn measure_rates(bench: &mut Bench, subjects: &[Subject], rates: &[u64]) -> Result<()> {
    for rate in rates {
        for shape in Shape::ALL {
            for subject in subjects {
                progress(&format!("{rate} writes/s, {}, {:?}", shape.title, subject.side));
                bench.heavy(subject, shape, *rate).await?;
            }
        }
    }
    Ok(())
}

/// The bare sockets, beside the servers over HTTP/1.1.
async fn measure_floor(bench: &mut Bench, subjects: &[Subject], args: &Run) -> Result<()> {
    for subject in subjects.iter().filter(|_| !args.has(Part::Watches)) {
        progress(&format!("watches, {}, {:?}", Shape::ALL[0].title, subject.side));
        bench.fan_out(subject, Shape::ALL[0]).await?;
    }
    let heavy = args.rates.iter().copied().filter(|_| args.has(Part::Rates));
    for rate in std::iter::once(u64::from(args.rate)).chain(heavy) {
        for subject in subjects {
            progress(&format!("bare sockets, {rate} writes/s, events of {:?}", subject.side));
            bench.floor(subject, rate).await?;
        }
    }
    Ok(())
}

/// RSS of each subject on an empty cluster, bytes, at rest.
async fn empty_rss(stage: &Stage) -> Result<[u64; 2]> {
    let mut empty = [0; 2];
    for (side, empty) in Side::BOTH.into_iter().zip(&mut empty) {
        progress(&format!("starting {} without objects", stage.name(side)));
        let server = stage.subject(side).await?;
        cpu::settle(&[server.meter()], Duration::from_secs(60)).await?;
        *empty = server.meter().rss()?;
    }
    Ok(empty)
}

fn sizes(args: &Run) -> Sizes {
    Sizes {
        objects: args.objects,
        watchers: usize::from(args.watchers),
        idle_watches: usize::from(args.idle_watches),
        rate: u64::from(args.rate),
        seconds: args.seconds,
        lists: args.lists,
        gets: args.gets,
        writes: args.writes,
    }
}

/// Thousands of connections need as many files, here and in the servers, which inherit the limit.
fn raise_file_limit() -> Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).context("raise the limit of open files")
}

fn progress(what: &str) {
    eprintln!("compare: {what}");
}
