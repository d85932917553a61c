//! Chains of certificates, judged as Go's crypto/x509 judges them for kube-apiserver: from a client's certificate to an authority of a file.

use aws_lc_rs::signature::{self, UnparsedPublicKey, VerificationAlgorithm};

use super::certificate::{Certificate, Curve, Key};
use super::der::{self, Reader, constructed};

/// Signatures that one judgement may check, as in Go: a client chooses what it sends along.
const SIGNATURES_MAX: u32 = 100;

/// Bits of the shortest RSA key; Go takes 1,024, which nobody should.
pub(super) const RSA_BITS_MIN: usize = 2048;

const UNKNOWN_AUTHORITY: &str = "certificate signed by unknown authority";

/// Why a chain is not trusted.
pub(super) type Why = String;

/// What a judgement rests on.
pub(super) struct ChainVerifier<'a, 'd> {
    pub(super) roots: &'a [Certificate<'d>],
    /// What the client has sent along.
    pub(super) others: &'a [Certificate<'d>],
    /// Seconds since 1970.
    pub(super) now: i64,
    /// Judges the names of a chain in which an authority constrains them.
    pub(super) names_fit: &'a dyn Fn() -> Result<(), Why>,
}

impl<'a, 'd> ChainVerifier<'a, 'd> {
    /// Whether a chain leads from this certificate to a root, and clients may use it.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn evaluate(&self, leaf: &'a Certificate<'d>) -> Result<(), Why> {
        self.is_valid(leaf, Position::Leaf, &[])?;
        if self.roots.iter().any(|root| root.raw == leaf.raw) {
            return self.fits(&[leaf]);
        }
        let mut search = Search { checks: 0, hint: None };
        self.extend(&mut vec![leaf], &mut search).map_err(|end| match end {
            End::Limit => "signature check attempts limit reached while verifying certificate chain".to_owned(),
            End::None => search.hint.map_or(UNKNOWN_AUTHORITY.to_owned(), |hint| format!("{UNKNOWN_AUTHORITY} ({hint})")),
        })
    }

    /// Looks for an authority above the last one of this chain; the first chain that fits counts.
    fn extend(&self, chain: &mut Vec<&'a Certificate<'d>>, search: &mut Search) -> Result<(), End> {
        for (place, certificates) in [(Position::Root, self.roots), (Position::Between, self.others)] {
            for parent in parents(chain[chain.len() - 1], certificates) {
                search.checks += 1;
                if search.checks > SIGNATURES_MAX {
                    return Err(End::Limit);
                }
                if parent.key == Key::Other || is_in(parent, chain) {
                    continue;
                }
                let child = chain[chain.len() - 1];
                if let Err(why) = is_signed_by(child, parent).and_then(|()| self.is_valid(parent, place, chain)) {
                    search.hint.get_or_insert(why);
                    continue;
                }
                chain.push(parent);
                let found = match place {
                    Position::Root => self.fits(chain).map_err(|why| {
                        search.hint.get_or_insert(why);
                        End::None
                    }),
                    _ => self.extend(chain, search),
                };
                chain.pop();
                match found {
                    Err(End::None) => {}
                    done => return done,
                }
            }
        }
        Err(End::None)
    }

    /// Whether a certificate may stand at this place above this chain.
    fn is_valid(&self, certificate: &Certificate<'_>, place: Position, chain: &[&Certificate<'_>]) -> Result<(), Why> {
        if certificate.extensions.has_unknown_critical {
            return Err("unhandled critical extension".to_owned());
        }
        if self.now < certificate.not_before || self.now > certificate.not_after {
            return Err("certificate has expired or is not yet valid".to_owned());
        }
        let authority = certificate.extensions.authority;
        if place == Position::Between && !authority.is_some_and(|(is_authority, _)| is_authority) {
            return Err("certificate is not authorized to sign other certificates".to_owned());
        }
        if let Some((_, Some(most))) = authority
            && place != Position::Leaf
            && u64::try_from(chain.len() - 1).is_ok_and(|between| between > most)
        {
            return Err("too many intermediates for path length constraint".to_owned());
        }
        Ok(())
    }

    /// Whether all that a whole chain says of policies, usages and names allows it.
    fn fits(&self, chain: &[&Certificate<'_>]) -> Result<(), Why> {
        // What a root says of policies does not count.
        if chain[..chain.len() - 1].iter().any(|certificate| certificate.extensions.requires_policy) {
            return Err("policies are required, which this server does not judge".to_owned());
        }
        if chain.iter().any(|certificate| certificate.extensions.for_clients == Some(false)) {
            return Err("certificate specifies an incompatible key usage".to_owned());
        }
        let named = chain.iter().position(|certificate| certificate.extensions.alternative_names.is_some());
        let constrained = chain.iter().rposition(|certificate| certificate.extensions.constrains_names);
        match (named, constrained) {
            (Some(named), Some(constrained)) if named < constrained => (self.names_fit)(),
            _ => Ok(()),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Leaf,
    Between,
    Root,
}

/// What a search has done, and what was wrong first.
struct Search {
    checks: u32,
    hint: Option<Why>,
}

enum End {
    /// No chain from here.
    None,
    /// Too much was tried.
    Limit,
}

/// The certificates with the issuer's name; first those whose key is the one that the child names.
fn parents<'a, 'd>(child: &Certificate<'d>, certificates: &'a [Certificate<'d>]) -> Vec<&'a Certificate<'d>> {
    let mut found: Vec<_> = certificates.iter().filter(|parent| parent.subject == child.issuer).collect();
    let wanted = child.extensions.authority_key_id;
    found.sort_by_key(|parent| match parent.extensions.key_id {
        id if id == wanted => 0,
        id if id.is_empty() || wanted.is_empty() => 1,
        _ => 2,
    });
    found
}

/// Whether a chain has a certificate of the same name and key, so that none goes in a circle.
fn is_in(certificate: &Certificate<'_>, chain: &[&Certificate<'_>]) -> bool {
    let same = |other: &&Certificate<'_>| {
        (other.subject, other.key_info, other.extensions.alternative_names)
            == (certificate.subject, certificate.key_info, certificate.extensions.alternative_names)
    };
    chain.iter().any(same)
}

/// Whether a certificate is signed with the key of another one, which may do that.
fn is_signed_by(child: &Certificate<'_>, parent: &Certificate<'_>) -> Result<(), Why> {
    let is_authority = match parent.extensions.authority {
        None => parent.version != 3,
        Some((is_authority, _)) => is_authority,
    };
    if !is_authority || parent.extensions.signs_certificates == Some(false) {
        return Err("invalid signature: parent certificate cannot sign this kind of certificate".to_owned());
    }
    let (algorithm, key) = algorithm(child.algorithm, parent.key)?;
    UnparsedPublicKey::new(algorithm, key).verify(child.signed, child.signature).map_err(|_| "the signature is wrong".to_owned())
}

/// `sha256WithRSAEncryption` and its neighbours: 1.2.840.113549.1.1, before one more number.
const PKCS1: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
/// `ecdsa-with-SHA256` and its neighbours: 1.2.840.10045.4.3, before one more number.
const ECDSA_SHA2: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
/// `ecdsa-with-SHA1`
const ECDSA_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
/// `sha256` and its neighbours: 2.16.840.1.101.3.4.2, before one more number.
const SHA2: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02];
/// `id-mgf1`
const MGF1: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x08];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

/// How a signature with this algorithm is checked with this key, and the bytes of the key.
fn algorithm<'d>(identifier: &[u8], key: Key<'d>) -> Result<(&'static dyn VerificationAlgorithm, &'d [u8]), Why> {
    use Hash::{Sha256, Sha384, Sha512};
    let unknown = || "cannot verify signature: algorithm unimplemented".to_owned();
    let mut parts = Reader::new(identifier);
    let oid = parts.oid().ok_or_else(unknown)?;
    let insecure = || "cannot verify signature: insecure algorithm with MD5 or SHA-1".to_owned();
    let mismatch = || format!("signature algorithm does not fit the authority's key, which is {}", key.kind());
    if oid == ED25519 {
        return match key {
            Key::Ed25519(bytes) if parts.is_empty() => Ok((&signature::ED25519, bytes)),
            Key::Ed25519(_) => Err(unknown()),
            _ => Err(mismatch()),
        };
    }
    if let Some([number]) = oid.strip_prefix(PKCS1) {
        let (is_pss, hash) = match number {
            4 | 5 => return Err(insecure()),
            10 => (true, pss(&mut parts).ok_or_else(unknown)?),
            11 => (false, Sha256),
            12 => (false, Sha384),
            13 => (false, Sha512),
            _ => return Err(unknown()),
        };
        let Key::Rsa(bytes, bits) = key else { return Err(mismatch()) };
        if bits < RSA_BITS_MIN {
            return Err(format!("the authority's RSA key has {bits} bits, and needs {RSA_BITS_MIN}"));
        }
        let algorithm: &'static dyn VerificationAlgorithm = match (is_pss, hash) {
            (false, Sha256) => &signature::RSA_PKCS1_2048_8192_SHA256,
            (false, Sha384) => &signature::RSA_PKCS1_2048_8192_SHA384,
            (false, Sha512) => &signature::RSA_PKCS1_2048_8192_SHA512,
            (true, Sha256) => &signature::RSA_PSS_2048_8192_SHA256,
            (true, Sha384) => &signature::RSA_PSS_2048_8192_SHA384,
            (true, Sha512) => &signature::RSA_PSS_2048_8192_SHA512,
        };
        return Ok((algorithm, bytes));
    }
    let hash = match oid.strip_prefix(ECDSA_SHA2) {
        Some([2]) => Sha256,
        Some([3]) => Sha384,
        Some([4]) => Sha512,
        _ if oid == ECDSA_SHA1 => return Err(insecure()),
        _ => return Err(unknown()),
    };
    let Key::Ec(curve, bytes) = key else { return Err(mismatch()) };
    let algorithm: &'static dyn VerificationAlgorithm = match (curve, hash) {
        (Curve::P256, Sha256) => &signature::ECDSA_P256_SHA256_ASN1,
        (Curve::P256, Sha384) => &signature::ECDSA_P256_SHA384_ASN1,
        (Curve::P256, Sha512) => &signature::ECDSA_P256_SHA512_ASN1,
        (Curve::P384, Sha256) => &signature::ECDSA_P384_SHA256_ASN1,
        (Curve::P384, Sha384) => &signature::ECDSA_P384_SHA384_ASN1,
        (Curve::P384, Sha512) => &signature::ECDSA_P384_SHA512_ASN1,
        (Curve::P521, Sha256) => &signature::ECDSA_P521_SHA256_ASN1,
        (Curve::P521, Sha384) => &signature::ECDSA_P521_SHA384_ASN1,
        (Curve::P521, Sha512) => &signature::ECDSA_P521_SHA512_ASN1,
        (Curve::P224, _) => return Err(format!("the authority's key is {}, which this server does not check", key.kind())),
    };
    Ok((algorithm, bytes))
}

/// The hash of RSA-PSS, when all its parameters are of one hash and have their usual values.
fn pss(identifier: &mut Reader<'_>) -> Option<Hash> {
    let mut parameters = identifier.sequence()?;
    let hash = hash(parameters.optional(constructed(0))??)?;
    let mut mask = Reader::new(parameters.optional(constructed(1))??).sequence()?;
    if mask.oid()? != MGF1 || self::hash(mask.any()?.whole)? != hash {
        return None;
    }
    let salt = Reader::new(parameters.optional(constructed(2))??).unsigned()?;
    let trailer = match parameters.optional(constructed(3))? {
        None => 1,
        Some(trailer) => Reader::new(trailer).unsigned()?,
    };
    let usual = match hash {
        Hash::Sha256 => 32,
        Hash::Sha384 => 48,
        Hash::Sha512 => 64,
    };
    (salt == usual && trailer == 1).then_some(hash)
}

/// The hash that an algorithm identifier names.
fn hash(identifier: &[u8]) -> Option<Hash> {
    let mut identifier = Reader::new(identifier).sequence()?;
    let hash = match identifier.oid()?.strip_prefix(SHA2)? {
        [1] => Hash::Sha256,
        [2] => Hash::Sha384,
        [3] => Hash::Sha512,
        _ => return None,
    };
    (identifier.is_empty() || identifier.any()?.whole == der::NULL).then_some(hash)
}
