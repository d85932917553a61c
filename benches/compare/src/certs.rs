//! The run's own certificates: one CA, a serving pair, an admin client and the service account keys. Knows files, not processes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose};

/// A folder of PEM files that lives as long as the run's folder.
#[derive(Clone, Debug)]
pub(crate) struct Certificates {
    dir: PathBuf,
}

impl Certificates {
    /// Writes a CA and everything it signs into `dir`.
    ///
    /// The client is `admin` of `system:masters`: kube-apiserver's priority and fairness exempts that group, so that no queue is measured.
    pub(crate) fn generate(dir: &Path) -> Result<Self> {
        let certificates = Self { dir: dir.to_owned() };
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name.push(DnType::CommonName, "compare-ca");
        certificates.write("ca.crt", &params.self_signed(&key)?.pem())?;
        let issuer = Issuer::new(params, key);

        let names = ["localhost", "kubernetes.default.svc", "127.0.0.1"].map(str::to_owned);
        certificates.leaf(&issuer, "srv", CertificateParams::new(names)?, ExtendedKeyUsagePurpose::ServerAuth)?;
        let mut admin = CertificateParams::new(Vec::new())?;
        admin.distinguished_name.push(DnType::CommonName, "admin");
        admin.distinguished_name.push(DnType::OrganizationName, "system:masters");
        certificates.leaf(&issuer, "admin", admin, ExtendedKeyUsagePurpose::ClientAuth)?;

        let accounts = KeyPair::generate()?;
        certificates.write("sa.key", &accounts.serialize_pem())?;
        certificates.write("sa.pub", &accounts.public_key_pem())?;
        Ok(certificates)
    }

    /// The certificates that another process of this run has written to `dir`.
    pub(crate) fn at(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// The folder.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The path of one file, as a flag wants it.
    pub(crate) fn path(&self, file: &str) -> String {
        self.dir.join(file).display().to_string()
    }

    fn leaf(&self, issuer: &Issuer<'_, KeyPair>, name: &str, mut params: CertificateParams, usage: ExtendedKeyUsagePurpose) -> Result<()> {
        let key = KeyPair::generate()?;
        if name == "srv" {
            params.distinguished_name.push(DnType::CommonName, "compare-server");
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        self.write(&format!("{name}.crt"), &params.signed_by(&key, issuer)?.pem())?;
        self.write(&format!("{name}.key"), &key.serialize_pem())
    }

    fn write(&self, file: &str, pem: &str) -> Result<()> {
        let path = self.dir.join(file);
        fs::write(&path, pem).with_context(|| format!("write {}", path.display()))
    }
}
