//! `certificatesigningrequests`: a kubelet asks for certificates of its own node only.

use base64::{Engine, engine::general_purpose::STANDARD};
use x509_parser::{certification_request::X509CertificationRequest, pem::Pem, prelude::FromDer, x509::X509Name};

use crate::{Attributes, NODE_USER, Operation, Verdict, forbid, tree};

/// The signers of kubelets' certificates.
const SIGNERS: [&str; 2] = ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];

/// What stands around a request.
const LABEL: &str = "CERTIFICATE REQUEST";

pub(crate) fn admit(node: &str, write: &Attributes<'_>) -> Verdict {
    let (Operation::Create, Some(request)) = (write.operation, write.object) else { return Ok(()) };
    if !SIGNERS.contains(&tree::text(request, &["spec", "signerName"])) {
        return Ok(());
    }
    let name = common_name(tree::text(request, &["spec", "request"])).map_err(|why| format!("unable to parse csr: {why}"))?;
    if name != format!("{NODE_USER}{node}") {
        return forbid(format!("can only create a node CSR with CN={NODE_USER}{node}"));
    }
    Ok(())
}

/// The last common name of the subject; empty if there is none.
fn common_name(request: &str) -> Result<String, &'static str> {
    subject(request, |subject| {
        let last = subject.iter_common_name().last();
        last.and_then(|name| name.as_str().ok()).unwrap_or_default().to_owned()
    })
}

/// The organizations of the subject.
pub(crate) fn organizations(request: &str) -> Result<Vec<String>, &'static str> {
    subject(request, |subject| subject.iter_organization().filter_map(|name| Some(name.as_str().ok()?.to_owned())).collect())
}

/// What `read` finds in the subject of a request.
fn subject<T>(request: &str, read: impl FnOnce(&X509Name<'_>) -> T) -> Result<T, &'static str> {
    let pem = STANDARD.decode(request).unwrap_or_default();
    let der = first_block(&pem).ok_or("PEM block type must be CERTIFICATE REQUEST")?;
    let (rest, request) = X509CertificationRequest::from_der(&der).map_err(|_| malformed(&der))?;
    if !rest.is_empty() {
        return Err("asn1: syntax error: trailing data");
    }
    Ok(read(&request.certification_request_info.subject))
}

/// The bytes of the first block, if they are of a request.
fn first_block(pem: &[u8]) -> Option<Vec<u8>> {
    let block = Pem::iter_from_buffer(pem).next()?.ok()?;
    (block.label == LABEL).then_some(block.contents)
}

/// What Go says of bytes that are no request: what is no sequence is told apart.
fn malformed(der: &[u8]) -> &'static str {
    match der {
        [] => "asn1: syntax error: sequence truncated",
        [0x30, ..] => "asn1: syntax error: data truncated",
        _ => "asn1: structure error: tags don't match",
    }
}
