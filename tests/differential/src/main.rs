//! Random objects of every built-in resource, written to watchcache and to kube-apiserver: wherever that accepts, code, answer, warnings and the object that is
//! there then must be the same.

mod client;
mod make;
mod place;
mod refusals;
mod repair;
mod resource;
mod run;
mod same;
mod table;
mod types;
mod wrong;

use std::{io::Write, path::PathBuf, process::ExitCode, time::Instant};

use anyhow::{Result, ensure};
use clap::Parser;
use futures_util::future::join_all;
use serde_json::json;

use crate::{
    client::{Connection, Server},
    resource::{NAMESPACE, Resource, discover},
    run::Report,
    types::Types,
};

/// Resources that are compared at once.
const LANES: usize = 6;
/// Characters of a value in the report.
const SHOWN_MAX: usize = 1500;

/// Compares what two servers make of the same random objects.
#[derive(Parser)]
struct Args {
    /// URL of watchcache, `https://127.0.0.1:8443`
    #[arg(long)]
    ours: String,
    /// URL of kube-apiserver, `https://127.0.0.1:6443`
    #[arg(long)]
    theirs: String,
    /// Token for both: of the same user, whom some objects name
    #[arg(long)]
    token: Option<String>,
    /// Authority of the certificates of both
    #[arg(long)]
    ca: Option<PathBuf>,
    /// Decides about every object
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Objects of each resource
    #[arg(long, default_value_t = 300)]
    objects: usize,
    /// Only these resources: `v1/pods,apps/v1/deployments`, or a part of such a name
    #[arg(long, value_delimiter = ',')]
    resources: Vec<String>,
    /// Shows the request of each difference
    #[arg(long)]
    requests: bool,
    /// Compares what is refused instead: right objects made wrong, sent as dry runs
    #[arg(long)]
    refusals: bool,
    /// Differences of refusals that are shown of each resource
    #[arg(long, default_value_t = 20)]
    shown: usize,
    /// Differences that are known, `RESOURCE PATH` a line, `#` begins a remark; only others make the program fail
    #[arg(long)]
    known: Option<PathBuf>,
}

fn main() -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, compared(Args::parse()))
}

async fn compared(args: Args) -> Result<ExitCode> {
    let began = Instant::now();
    let types = Types::parse(include_str!("../../../src/catalogue/types.txt"));
    let known = args.known.as_ref().map(std::fs::read_to_string).transpose()?.unwrap_or_default();
    let known: Vec<&str> = known.lines().map(|line| line.split('#').next().unwrap_or("").trim()).filter(|line| !line.is_empty()).collect();
    let (ours, theirs) = (
        Server::new(&args.ours, args.ca.as_deref(), args.token.as_deref())?,
        Server::new(&args.theirs, args.ca.as_deref(), args.token.as_deref())?,
    );
    for server in [&ours, &theirs] {
        prepare(&mut server.connection()).await?;
    }
    let mut resources = discover(&mut ours.connection(), &mut theirs.connection(), args.refusals).await?;
    let wanted = |resource: &Resource| args.resources.is_empty() || args.resources.iter().any(|part| resource.name.contains(part.as_str()));
    resources.retain(wanted);
    ensure!(!resources.is_empty(), "no resource of that name is served by both");
    if args.refusals {
        return refused(&args, &resources, |resource| refusals::run(&ours, &theirs, resource, &types, args.seed, args.objects)).await;
    }
    let reports = in_lanes(&resources, |resource| run::run(&ours, &theirs, resource, &types, args.seed, args.objects)).await;
    let mut out = std::io::stdout().lock();
    let (mut sum, mut unknown, mut failed) = (Report::default(), 0, 0);
    for (resource, report) in reports {
        match report {
            Ok(report) => {
                unknown += told(&mut out, resource, &report, &known, args.requests)?;
                sum.objects += report.objects;
                sum.accepted += report.accepted;
                sum.writes += report.writes;
                sum.equal += report.equal;
                sum.accepted_alone += report.accepted_alone;
            }
            Err(error) => {
                failed += 1;
                writeln!(out, "{}: {error:#}", resource.name)?;
            }
        }
    }
    writeln!(
        out,
        "seed {}: {} resources, {} objects, {} accepted; {} writes, {} equal, {} kinds of unknown differences, {} writes accepted here alone; {} s",
        args.seed,
        resources.len(),
        sum.objects,
        sum.accepted,
        sum.writes,
        sum.equal,
        unknown,
        sum.accepted_alone,
        began.elapsed().as_secs()
    )?;
    Ok(if unknown + failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints what both refuse of wrong objects; fails when a resource that is validated falls below what it must reach.
async fn refused<'r, F: Future<Output = Result<refusals::Report>>>(
    args: &Args,
    resources: &'r [Resource],
    one: impl Fn(&'r Resource) -> F,
) -> Result<ExitCode> {
    let began = Instant::now();
    let validated = table::Validated::parse(include_str!("../validated.txt"))?;
    let mut out = std::io::stdout().lock();
    let (mut reports, mut failed) = (Vec::new(), 0);
    for (resource, report) in in_lanes(resources, one).await {
        match report {
            Ok(report) => {
                table::differences(&mut out, resource, &report, args.shown)?;
                reports.push((resource, report));
            }
            Err(error) => {
                failed += 1;
                writeln!(out, "{}: {error:#}", resource.name)?;
            }
        }
    }
    reports.sort_by(|a, b| a.0.name.cmp(&b.0.name));
    let below = table::table(&mut out, &reports, &validated)?;
    writeln!(
        out,
        "seed {}: {} resources, {below} below what they must reach, {failed} failed; {} s",
        args.seed,
        reports.len(),
        began.elapsed().as_secs()
    )?;
    Ok(if below + failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Does something for all resources, several at once.
async fn in_lanes<'r, T, F: Future<Output = Result<T>>>(
    resources: &'r [Resource],
    one: impl Fn(&'r Resource) -> F,
) -> Vec<(&'r Resource, Result<T>)> {
    let one = &one;
    let lane = |lane: usize| async move {
        let mut reports = Vec::new();
        for resource in resources.iter().skip(lane).step_by(LANES) {
            reports.push((resource, one(resource).await));
        }
        reports
    };
    join_all((0..LANES).map(lane)).await.into_iter().flatten().collect()
}

/// Makes the namespace.
async fn prepare(server: &mut Connection) -> Result<()> {
    let namespace = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": NAMESPACE}});
    let answer = server.send("POST", "/api/v1/namespaces", "application/json", &namespace.to_string()).await?;
    ensure!(answer.is_success() || answer.code == 409, "the namespace: {} {}", answer.code, answer.body);
    Ok(())
}

/// Prints what came of a resource; how many of its differences are not known.
fn told(out: &mut impl Write, resource: &Resource, report: &Report, known: &[&str], requests: bool) -> Result<usize> {
    let (name, objects, accepted) = (&resource.name, report.objects, report.accepted);
    let (writes, equal, fields, all) = (report.writes, report.equal, report.fields.len(), report.fields_all);
    writeln!(out, "{name}: {objects} objects, {accepted} accepted; {writes} writes, {equal} equal; {fields} of {all} fields")?;
    let short = |text: &str| text.chars().take(SHOWN_MAX).collect::<String>();
    let mut unknown = 0;
    for ((step, path, what), group) in &report.groups {
        let line = format!("{name} {path}");
        let is_known = known.iter().any(|it| *it == line.trim_end());
        unknown += usize::from(!is_known);
        let mark = if is_known { "known" } else { "DIFFERS" };
        writeln!(out, "  {mark} {} {step} {path} {what}", group.count)?;
        if !is_known {
            writeln!(out, "      ours   {}\n      theirs {}", short(&group.example.ours), short(&group.example.theirs))?;
            if requests {
                writeln!(out, "      sent {}", group.request)?;
            }
        }
    }
    Ok(unknown)
}
