//! Growth: the same measurements with more and more watches, objects, and definitions of custom resources, as rows and as drawings.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::load::{Protocol, Target};
use crate::measure::{Bench, Shape, Subject, as_float};
use crate::peers::{Peer, Programs, Side, Stage};
use crate::svg::{Curve, Line};
use crate::table::Figures;
use crate::writer::{self, Writer};
use crate::{Run, empty_rss, open, progress, still_run};

/// ConfigMaps beside the custom resources of the curves by definitions.
const BESIDE_DEFINITIONS: u64 = 100;

/// Objects of each definition.
const OBJECTS_OF_DEFINITION: u64 = 10;

/// What one number of objects or definitions is measured on: an etcd of its own with the server that writes to it.
struct Ground {
    stage: Stage,
    etcd: Peer,
    writing: Peer,
}

impl Ground {
    async fn prepare(args: &Run, programs: &Programs, dir: &Path, scope: &str) -> Result<Self> {
        let dir = dir.join(scope.replace(' ', "-"));
        fs::create_dir(&dir).with_context(|| format!("create {}", dir.display()))?;
        let stage = Stage::build(programs.clone(), &dir, args.base_port)?;
        progress(&format!("starting etcd and the writer, {scope}"));
        Ok(Self { etcd: stage.etcd().await?, writing: stage.writer().await?, stage })
    }

    fn target(&self) -> Target {
        self.stage.target(&self.writing)
    }

    /// An error when one of these servers has ended, or one of the others.
    fn still_runs(&mut self, others: &mut [Peer]) -> Result<()> {
        still_run(others.iter_mut().chain([&mut self.etcd, &mut self.writing]))
    }
}

/// Measures with each number of objects, with each number of watches on the first of them, and writes the drawings.
pub(crate) async fn by_objects(args: &Run, programs: &Programs, dir: &Path, mut figures: Figures) -> Result<Figures> {
    for (turn, objects) in args.curve_objects.iter().enumerate() {
        let scope = with_objects(*objects);
        let mut ground = Ground::prepare(args, programs, dir, &scope).await?;
        figures.scope(&scope);
        let empty = empty_rss(&ground.stage).await?;
        progress("creating objects");
        let writer = Writer::populate(ground.target(), *objects).await?;
        let (mut servers, mut bench, subjects) = open(args, &ground.stage, writer, ground.writing.meter(), figures).await?;
        let watchers = if turn == 0 { args.curve_watchers.as_slice() } else { &[] };
        let measured = grow(&mut bench, &subjects, empty, args, watchers).await;
        ground.still_runs(&mut servers)?;
        measured?;
        figures = bench.figures;
        draw(args, &ground.stage, &figures)?;
    }
    Ok(figures)
}

/// Measures with each number of definitions, and writes the drawings.
pub(crate) async fn by_definitions(args: &Run, programs: &Programs, dir: &Path, mut figures: Figures) -> Result<Figures> {
    for definitions in &args.curve_definitions {
        let scope = with_definitions(*definitions);
        let mut ground = Ground::prepare(args, programs, dir, &scope).await?;
        figures.scope(&scope);
        progress("creating definitions and objects");
        let writer = Writer::populate(ground.target(), BESIDE_DEFINITIONS).await?;
        writer::define(&ground.target(), *definitions).await?;
        writer::fill(&ground.target(), *definitions, OBJECTS_OF_DEFINITION).await?;
        let (mut servers, mut bench, subjects) = open(args, &ground.stage, writer, ground.writing.meter(), figures).await?;
        let measured = list_each(&mut bench, &subjects, *definitions).await;
        ground.still_runs(&mut servers)?;
        measured?;
        figures = bench.figures;
        draw(args, &ground.stage, &figures)?;
    }
    Ok(figures)
}

async fn list_each(bench: &mut Bench, subjects: &[Subject], definitions: u64) -> Result<()> {
    for subject in subjects {
        progress(&format!("{definitions} definitions, {:?}", subject.side));
        bench.definitions(subject, definitions).await?;
    }
    Ok(())
}

/// Memory and lists with the objects that there are, then watches, the smallest number first.
async fn grow(bench: &mut Bench, subjects: &[Subject], empty: [u64; 2], args: &Run, watchers: &[u16]) -> Result<()> {
    for (subject, empty) in subjects.iter().zip(empty) {
        bench.memory(subject, empty).await?;
    }
    for subject in (0..args.rounds).flat_map(|_| subjects) {
        progress(&format!("lists of {} objects, {:?}", bench.sizes.objects, subject.side));
        bench.lists(subject, Protocol::Http2, false).await?;
    }
    for watches in watchers {
        bench.figures.scope(&with_watches(*watches));
        bench.sizes.watchers = usize::from(*watches);
        for subject in (0..args.rounds).flat_map(|_| subjects) {
            progress(&format!("{watches} watches, {:?}", subject.side));
            bench.memory_with_idle(subject, Shape::ALL[1]).await?;
            bench.fan_out(subject, Shape::ALL[1]).await?;
        }
    }
    Ok(())
}

fn with_objects(objects: u64) -> String {
    format!("with {objects} objects")
}

fn with_watches(watches: u16) -> String {
    format!("with {watches} watches")
}

fn with_definitions(definitions: u64) -> String {
    format!("with {definitions} definitions")
}

/// Writes what is known so far: a run that is given up leaves the beginnings of its curves.
fn draw(args: &Run, stage: &Stage, figures: &Figures) -> Result<()> {
    let (watches, objects) = ("watches, HTTP/2, a connection each", "objects (ConfigMaps of 1.5 KB)");
    let by_watches: Vec<_> = args.curve_watchers.iter().map(|count| (f64::from(*count), with_watches(*count))).collect();
    let definitions = "CustomResourceDefinitions";
    let by_definitions: Vec<_> = args.curve_definitions.iter().map(|count| (as_float(*count), with_definitions(*count))).collect();
    let by_objects: Vec<_> = args.curve_objects.iter().map(|count| (as_float(*count), with_objects(*count))).collect();
    let curves = [
        ("watches-memory", "Memory with idle watches", watches, "MB RSS", &by_watches, "idle_rss_h2"),
        ("watches-cpu", "CPU of an event to one watch", watches, "µs CPU", &by_watches, "deliver_h2"),
        ("objects-list", "One LIST of all objects, JSON, HTTP/2, p50", objects, "ms", &by_objects, "list_p50_h2"),
        ("objects-memory", "Memory with objects", objects, "MB RSS", &by_objects, "rss_loaded"),
        ("definitions-memory", "Memory with definitions", definitions, "MB RSS", &by_definitions, "rss_definitions"),
        ("definitions-cpu", "CPU until each definition was listed", definitions, "s CPU", &by_definitions, "cpu_definitions"),
    ];
    fs::create_dir_all(&args.curves_dir).with_context(|| format!("create {}", args.curves_dir.display()))?;
    for (file, title, x, y, scopes, key) in curves {
        let lines = Side::BOTH.map(|side| {
            let point = |(x, scope): &(f64, String)| Some((*x, figures.mean(side, &format!("{scope}: {key}"))?));
            Line { name: stage.name(side), points: scopes.iter().filter_map(point).collect() }
        });
        if lines.iter().all(|line| line.points.is_empty()) {
            continue;
        }
        let path = args.curves_dir.join(format!("{file}.svg"));
        fs::write(&path, Curve { title, x, y, lines }.svg()).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}
