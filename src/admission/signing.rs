//! `certificatesigningrequests`, whoever writes them: the admission plugins CertificateApproval, CertificateSigning and CertificateSubjectRestriction.

use go::quote::quoted;

use crate::{Attributes, Cluster, Operation, Verdict, certificate, forbid, tree};

/// The signer of certificates with which users come to an API server.
const CLIENTS: &str = "kubernetes.io/kube-apiserver-client";
/// The group that may do everything.
const MASTERS: &str = "system:masters";

/// Judges who approves and who signs, by the signer of the request that is there; and who is to be named in a certificate.
pub(crate) fn admit(write: &Attributes<'_>, cluster: &dyn Cluster) -> Verdict {
    match (write.operation, write.subresource, write.object, write.old) {
        (Operation::Create, "", Some(object), _) if tree::text(object, &["spec", "signerName"]) == CLIENTS => {
            // Validation, which kube-apiserver has before this plugin, refuses what is no request or is not signed: `spec.request` is invalid.
            let Some(request) = certificate::request(object).ok().filter(|request| request.check_signature().is_ok()) else {
                return Ok(());
            };
            if request.names.organizations.iter().any(|name| name == MASTERS) {
                return forbid(format!("use of {CLIENTS} signer with {MASTERS} group is not allowed"));
            }
            Ok(())
        }
        (Operation::Update, "approval", _, Some(old)) => confirm(cluster, "approve", tree::text(old, &["spec", "signerName"])),
        (Operation::Update, "status", Some(new), Some(old)) => {
            let is_same = |name: &str| tree::same(tree::at(new, &["status", name]), tree::at(old, &["status", name]));
            if is_same("certificate") && is_same("conditions") {
                return Ok(());
            }
            confirm(cluster, "sign", tree::text(old, &["spec", "signerName"]))
        }
        _ => Ok(()),
    }
}

/// Whether the writer may do this for the signer, or for all signers of its domain.
fn confirm(cluster: &dyn Cluster, verb: &'static str, signer: &str) -> Verdict {
    let domain = signer.split('/').next().unwrap_or_default();
    if cluster.may_act_for_signer(verb, signer) || cluster.may_act_for_signer(verb, &format!("{domain}/*")) {
        return Ok(());
    }
    forbid(format!("user not permitted to {verb} requests with signerName {}", quoted(signer)))
}
