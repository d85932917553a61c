//! Tests of the embedded store from outside, beside a real etcd: `same` compares answers, `bench` costs, `kill` what a SIGKILL leaves, `keep` backups.

mod bench;
mod clients;
mod connection;
mod cost;
mod history;
mod keep;
mod kill;
mod readable;
mod same;
mod server;

use clap::{Parser, Subcommand};

/// Tests of the embedded store from outside. Exit code 0: nothing was found.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Options {
    #[command(subcommand)]
    test: Test,
}

#[derive(Debug, Subcommand)]
enum Test {
    /// Sends the same random operations to an empty etcd and to an empty store, and compares every answer.
    Same(same::Options),
    /// Puts from 1, 16, 256 writers on each target in turn; throughput, latency and the server's processor time in one table.
    Bench(bench::Options),
    /// Kills the real binary at random moments under concurrent writers, and checks what it has when it is back.
    Kill(kill::Options),
    /// Saves, restores and defragments a store under writers, by its commands, etcdctl and the crate `etcd-client`, and compares with what was acknowledged.
    Keep(keep::Options),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let well = match Options::parse().test {
        Test::Same(options) => same::run(&options).await?,
        Test::Bench(options) => bench::run(&options).await?,
        Test::Kill(options) => kill::run(&options).await?,
        Test::Keep(options) => keep::run(&options).await?,
    };
    if !well {
        std::process::exit(1);
    }
    Ok(())
}
