//! `watchcache store backup`, `restore`, `check` and `defragment`: what they are told.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Revisions between the last one of a backup and the first one of what is restored from it: more than a store is written to between two backups.
const BUMP: u64 = 1_000_000_000;

/// A command about a store that ends when it is done.
#[derive(Clone, Debug, Subcommand)]
pub enum StoreCommand {
    /// Save what a store holds at one revision into a file, while it serves or when it is stopped
    Backup {
        /// The file; one that is there is replaced when the backup is complete. - is standard output
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The store
        #[command(flatten)]
        store: Which,
    },
    /// Make a data directory from a backup; clients of the old one have to list anew
    Restore {
        /// The backup
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The directory, which must be empty or not exist
        #[arg(long, value_name = "DIR")]
        data_dir: PathBuf,
        /// How far above the revision of the backup the store goes on: above all that clients may have seen since
        #[arg(long, default_value_t = BUMP, value_name = "NUMBER")]
        bump_revision: u64,
    },
    /// Read all of a backup, or of a stopped store, and say what is in it or what is wrong
    Check {
        /// The backup [default: the data directory]
        #[arg(value_name = "FILE", conflicts_with = "data_dir")]
        file: Option<PathBuf>,
        /// Directory of a stopped store
        #[arg(long, default_value = "./watchcache-data", value_name = "DIR")]
        data_dir: PathBuf,
    },
    /// Move a store into a new file without free pages, while it serves or when it is stopped
    Defragment {
        /// The store
        #[command(flatten)]
        store: Which,
    },
}

/// Which store is meant.
#[derive(Args, Clone, Debug)]
pub struct Which {
    /// Directory of the store, which a server may have open
    #[arg(long, default_value = "./watchcache-data", value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Address of a running store instead: http://host:port or unix:///path
    #[arg(long, value_name = "URL", value_parser = endpoint, conflicts_with = "data_dir")]
    pub endpoint: Option<String>,
}

fn endpoint(text: &str) -> Result<String, String> {
    match text.starts_with("http://") || text.starts_with("unix://") {
        true => Ok(text.to_owned()),
        false => Err("is neither http://host:port nor unix:///path".to_owned()),
    }
}
