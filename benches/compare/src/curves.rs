//! Growth: the same measurements with more and more watches, and with more and more objects, as rows and as drawings.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::load::Protocol;
use crate::measure::{Bench, Shape, Subject, as_float};
use crate::peers::{Programs, Side, Stage};
use crate::svg::{Curve, Line};
use crate::table::Figures;
use crate::writer::Writer;
use crate::{Run, empty_rss, open, progress, still_run};

/// Measures with each number of objects on an etcd of its own, with each number of watches on the first of them, and writes the drawings.
pub(crate) async fn measure(args: &Run, programs: &Programs, dir: &Path, mut figures: Figures) -> Result<Figures> {
    for (turn, objects) in args.curve_objects.iter().enumerate() {
        let dir = dir.join(format!("objects-{objects}"));
        fs::create_dir(&dir).with_context(|| format!("create {}", dir.display()))?;
        let stage = Stage::build(programs.clone(), &dir, args.base_port)?;
        progress(&format!("starting etcd and the writer, for {objects} objects"));
        let mut etcd = stage.etcd().await?;
        let mut writing = stage.writer().await?;
        figures.scope(&with_objects(*objects));
        let empty = empty_rss(&stage).await?;
        progress("creating objects");
        let writer = Writer::populate(stage.target(&writing), *objects).await?;
        let (mut servers, mut bench, subjects) = open(args, &stage, writer, writing.meter(), figures).await?;
        let watchers = if turn == 0 { args.curve_watchers.as_slice() } else { &[] };
        let measured = grow(&mut bench, &subjects, empty, args, watchers).await;
        still_run(servers.iter_mut().chain([&mut etcd, &mut writing]))?;
        measured?;
        figures = bench.figures;
        draw(args, &stage, &figures)?;
    }
    Ok(figures)
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

/// Writes what is known so far: a run that is given up leaves the beginnings of its curves.
fn draw(args: &Run, stage: &Stage, figures: &Figures) -> Result<()> {
    let (watches, objects) = ("watches, HTTP/2, a connection each", "objects (ConfigMaps of 1.5 KB)");
    let by_watches: Vec<_> = args.curve_watchers.iter().map(|count| (f64::from(*count), with_watches(*count))).collect();
    let by_objects: Vec<_> = args.curve_objects.iter().map(|count| (as_float(*count), with_objects(*count))).collect();
    let curves = [
        ("watches-memory", "Memory with idle watches", watches, "MB RSS", &by_watches, "idle_rss_h2"),
        ("watches-cpu", "CPU of an event to one watch", watches, "µs CPU", &by_watches, "deliver_h2"),
        ("objects-list", "One LIST of all objects, JSON, HTTP/2, p50", objects, "ms", &by_objects, "list_p50_h2"),
        ("objects-memory", "Memory with objects", objects, "MB RSS", &by_objects, "rss_loaded"),
    ];
    fs::create_dir_all(&args.curves_dir).with_context(|| format!("create {}", args.curves_dir.display()))?;
    for (file, title, x, y, scopes, key) in curves {
        let lines = Side::BOTH.map(|side| {
            let point = |(x, scope): &(f64, String)| Some((*x, figures.mean(side, &format!("{scope}: {key}"))?));
            Line { name: stage.name(side), points: scopes.iter().filter_map(point).collect() }
        });
        let path = args.curves_dir.join(format!("{file}.svg"));
        fs::write(&path, Curve { title, x, y, lines }.svg()).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}
