//! `certificatesigningrequests`: a kubelet asks for certificates of its own node only.

use base64::{Engine, engine::general_purpose::STANDARD};
use x509::Malformed;
use x509::request::CertificateRequest;

use crate::{Attributes, NODE_USER, Operation, Verdict, forbid, tree};

/// The signers of kubelets' certificates.
const SIGNERS: [&str; 2] = ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];

pub(crate) fn admit(node: &str, write: &Attributes<'_>) -> Verdict {
    let (Operation::Create, Some(object)) = (write.operation, write.object) else { return Ok(()) };
    if !SIGNERS.contains(&tree::text(object, &["spec", "signerName"])) {
        return Ok(());
    }
    let request = request(object).map_err(|why| format!("unable to parse csr: {why}"))?;
    if request.names.common_name != format!("{NODE_USER}{node}") {
        return forbid(format!("can only create a node CSR with CN={NODE_USER}{node}"));
    }
    Ok(())
}

/// The request in an object, read as its signer reads it.
pub(crate) fn request(object: &serde_json::Value) -> Result<CertificateRequest, Malformed> {
    CertificateRequest::from_pem(&STANDARD.decode(tree::text(object, &["spec", "request"])).unwrap_or_default())
}
