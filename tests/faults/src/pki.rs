//! Keys and certificates of a scenario, made by `openssl`. Knows nothing of who shows them and who believes them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A key and its certificate, without a password, good for two days.
const MADE: [&str; 9] = ["req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-days", "2"];
/// What makes it one of a server or client on loopback.
const OF_LOOPBACK: [&str; 4] = ["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"];

/// A certificate authority; its files are in the folder of the scenario.
#[derive(Debug)]
pub(crate) struct Authority {
    dir: PathBuf,
    own: Pair,
}

/// A certificate and its key, as files.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    /// The certificate.
    pub(crate) certificate: PathBuf,
    /// Its key.
    pub(crate) key: PathBuf,
}

impl Authority {
    /// A new one of this name.
    pub(crate) async fn make(dir: &Path, name: &str) -> Result<Self> {
        let own = Pair::named(dir, name);
        own.make(name, &["-addext", "basicConstraints=critical,CA:TRUE"]).await?;
        Ok(Self { dir: dir.to_owned(), own })
    }

    /// The certificate by which it is believed.
    pub(crate) fn certificate(&self) -> &Path {
        &self.own.certificate
    }

    /// A certificate of this name that it signs, for whoever is on loopback.
    pub(crate) async fn sign(&self, name: &str) -> Result<Pair> {
        let pair = Pair::named(&self.dir, name);
        let (certificate, key) = (self.own.certificate.to_string_lossy(), self.own.key.to_string_lossy());
        pair.make(name, &[&["-CA", &certificate, "-CAkey", &key], &OF_LOOPBACK[..]].concat()).await?;
        Ok(pair)
    }
}

impl Pair {
    /// A certificate for loopback that is its own authority.
    pub(crate) async fn of_its_own(dir: &Path, name: &str) -> Result<Self> {
        let pair = Self::named(dir, name);
        pair.make("127.0.0.1", &OF_LOOPBACK).await?;
        Ok(pair)
    }

    fn named(dir: &Path, name: &str) -> Self {
        Self { certificate: dir.join(format!("{name}.crt")), key: dir.join(format!("{name}.key")) }
    }

    async fn make(&self, subject: &str, more: &[&str]) -> Result<()> {
        let (subject, certificate, key) = (format!("/CN={subject}"), self.certificate.to_string_lossy(), self.key.to_string_lossy());
        openssl(&[&MADE[..], &["-subj", &subject, "-keyout", &key, "-out", &certificate], more].concat()).await
    }
}

/// Runs it.
pub(crate) async fn openssl(args: &[&str]) -> Result<()> {
    let made = tokio::process::Command::new("openssl").args(args).output().await.context("openssl, for keys and certificates")?;
    anyhow::ensure!(made.status.success(), "openssl: {}", String::from_utf8_lossy(&made.stderr));
    Ok(())
}
