//! Public keys as Go's `crypto/x509` reads them.

use std::borrow::Cow;

use aws_lc_rs::signature::{self, EcdsaVerificationAlgorithm, ParsedPublicKey};

use crate::Malformed;
use crate::der::{self, Reader};

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const DSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x38, 0x04, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const P224: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x21];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const P521: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x23];

/// Bytes of an Ed25519 key.
const ED25519_BYTES: usize = 32;

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key<'d> {
    /// RSA.
    Rsa(RsaKey),
    /// An uncompressed point on this curve.
    Ec(Curve, Cow<'d, [u8]>),
    /// Ed25519.
    Ed25519(Cow<'d, [u8]>),
    /// DSA, with which Go checks no signature any more.
    Dsa,
    /// One that Go has no use for.
    Other,
}

/// The numbers of an RSA key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RsaKey {
    /// Without leading zeros, big-endian.
    pub(crate) modulus: Vec<u8>,
    pub(crate) exponent: i64,
}

/// A curve that Go knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the curves")]
pub enum Curve {
    P224,
    P256,
    P384,
    P521,
}

impl RsaKey {
    /// Bits of the modulus.
    #[must_use]
    pub fn bits(&self) -> usize {
        self.modulus.len() * 8 - self.modulus.first().map_or(0, |first| first.leading_zeros() as usize)
    }
}

impl<'d> Key<'d> {
    /// Reads a key of this algorithm, with its parameters as a whole element, from the bytes of a bit string with so many unused bits (`parsePublicKey`).
    ///
    /// # Errors
    /// Why Go could not read it.
    pub(crate) fn read(oid: &[u8], parameters: &[u8], (bytes, unused): (&'d [u8], u8)) -> Result<Key<'d>, Malformed> {
        let bytes = right_aligned(bytes, unused);
        match oid {
            RSA if parameters != der::NULL => Err("x509: RSA key missing NULL parameters".into()),
            RSA => rsa(&bytes).map(Key::Rsa),
            EC => {
                let curve = Reader::new(parameters).oid().ok_or("x509: invalid ECDSA parameters")?;
                let curve = Curve::of(curve).ok_or("x509: unsupported elliptic curve")?;
                curve.confirm_point(&bytes)?;
                Ok(Key::Ec(curve, bytes))
            }
            ED25519 if !parameters.is_empty() => Err("x509: Ed25519 key encoded with illegal parameters".into()),
            ED25519 if bytes.len() != ED25519_BYTES => Err("x509: wrong Ed25519 public key size".into()),
            ED25519 => Ok(Key::Ed25519(bytes)),
            DSA => dsa(&bytes, parameters).map(|()| Key::Dsa),
            _ => Ok(Key::Other),
        }
    }

    /// Returns what it is called in a log.
    #[must_use]
    pub fn kind(&self) -> String {
        match self {
            Key::Rsa(key) => format!("RSA of {} bits", key.bits()),
            Key::Ec(curve, _) => format!("ECDSA with {curve:?}"),
            Key::Ed25519(_) => "Ed25519".to_owned(),
            Key::Dsa | Key::Other => "of another kind than RSA, ECDSA and Ed25519".to_owned(),
        }
    }

    /// Returns the name of Go's type.
    pub(crate) fn go_type(&self) -> &'static str {
        match self {
            Key::Rsa(_) => "*rsa.PublicKey",
            Key::Ec(..) => "*ecdsa.PublicKey",
            Key::Ed25519(_) => "ed25519.PublicKey",
            Key::Dsa => "*dsa.PublicKey",
            Key::Other => "<nil>",
        }
    }
}

/// The bits of a bit string as a number: those that are unused stand in front.
pub(crate) fn right_aligned(bytes: &[u8], unused: u8) -> Cow<'_, [u8]> {
    if unused == 0 || bytes.is_empty() {
        return Cow::Borrowed(bytes);
    }
    let before = [0].iter().chain(bytes);
    Cow::Owned(bytes.iter().zip(before).map(|(byte, before)| (before << (8 - unused)) | (byte >> unused)).collect())
}

/// Modulus and exponent, both positive. What follows them is passed over.
fn rsa(bytes: &[u8]) -> Result<RsaKey, Malformed> {
    let mut numbers = Reader::new(bytes).sequence().ok_or("x509: invalid RSA public key")?;
    let modulus = numbers.integer().ok_or("x509: invalid RSA modulus")?;
    let exponent = numbers.signed().ok_or("x509: invalid RSA public exponent")?;
    if modulus[0] & 0x80 != 0 || modulus == [0] {
        return Err("x509: RSA modulus is not a positive number".into());
    }
    if exponent <= 0 {
        return Err("x509: RSA public exponent is not a positive number".into());
    }
    Ok(RsaKey { modulus: modulus.strip_prefix(&[0]).unwrap_or(modulus).to_vec(), exponent })
}

fn dsa(bytes: &[u8], parameters: &[u8]) -> Result<(), Malformed> {
    let y = Reader::new(bytes).integer().ok_or("x509: invalid DSA public key")?;
    let mut numbers = Reader::new(parameters).sequence().ok_or("x509: invalid DSA parameters")?;
    let mut all = [y; 4];
    for number in &mut all[1..] {
        *number = numbers.integer().ok_or("x509: invalid DSA parameters")?;
    }
    let is_positive = |number: &&[u8]| number[0] & 0x80 == 0 && **number != [0];
    if all.iter().all(is_positive) { Ok(()) } else { Err("x509: zero or negative DSA parameter".into()) }
}

impl Curve {
    fn of(oid: &[u8]) -> Option<Curve> {
        Some(match oid {
            P224 => Curve::P224,
            P256 => Curve::P256,
            P384 => Curve::P384,
            P521 => Curve::P521,
            _ => return None,
        })
    }

    /// Bytes of a coordinate.
    fn bytes(self) -> usize {
        match self {
            Curve::P224 => 28,
            Curve::P256 => 32,
            Curve::P384 => 48,
            Curve::P521 => 66,
        }
    }

    /// Whether these bytes are a point of the curve. Of P-224, with which nothing is checked here, only the form counts.
    fn confirm_point(self, bytes: &[u8]) -> Result<(), Malformed> {
        if bytes.first() != Some(&4) {
            return Err("ecdsa: invalid uncompressed public key".into());
        }
        if bytes.len() != 1 + 2 * self.bytes() {
            return Err(format!("invalid {self:?} point encoding").into());
        }
        let algorithm: &'static EcdsaVerificationAlgorithm = match self {
            Curve::P224 => return Ok(()),
            Curve::P256 => &signature::ECDSA_P256_SHA256_ASN1,
            Curve::P384 => &signature::ECDSA_P384_SHA384_ASN1,
            Curve::P521 => &signature::ECDSA_P521_SHA512_ASN1,
        };
        ParsedPublicKey::new(algorithm, bytes).map(drop).map_err(|_| format!("{self:?} point not on curve").into())
    }
}
