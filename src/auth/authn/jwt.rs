//! Compact JWS: splits the three base64 parts into algorithm, key id and claims, and verifies the signature.

use std::fmt;

use aws_lc_rs::hmac;
use base64::Engine;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value, json};

use super::RAW_URL;
use super::keys::PublicKey;

/// Bytes that a token may have; ours. One of kube-apiserver has about 1,000, those of OIDC providers with many groups some 10,000.
pub const TOKEN_BYTES_MAX: usize = 64 << 10;

/// What kube-apiserver's library says of a signature that no key vouches for, and of an algorithm that the key is not for.
const NO_KEY_VOUCHES: &str = "go-jose/go-jose: error in cryptographic primitive";
const NO_DATE: &str = "go-jose/go-jose/jwt: expected number value to unmarshal NumericDate";
const NO_AUDIENCE: &str = "go-jose/go-jose/jwt: expected string or array value to unmarshal to Audience";

/// The ways to sign that we read. `none` and those with a shared secret are not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    Rs512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// ECDSA on P-521 with SHA-512.
    Es512,
    /// RSASSA-PSS with SHA-256.
    Ps256,
    /// RSASSA-PSS with SHA-384.
    Ps384,
    /// RSASSA-PSS with SHA-512.
    Ps512,
}

impl Algorithm {
    /// All of them, by their names.
    pub const ALL: [Algorithm; 9] = [
        Algorithm::Es256,
        Algorithm::Es384,
        Algorithm::Es512,
        Algorithm::Ps256,
        Algorithm::Ps384,
        Algorithm::Ps512,
        Algorithm::Rs256,
        Algorithm::Rs384,
        Algorithm::Rs512,
    ];

    /// As the header names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Rs256 => "RS256",
            Algorithm::Rs384 => "RS384",
            Algorithm::Rs512 => "RS512",
            Algorithm::Es256 => "ES256",
            Algorithm::Es384 => "ES384",
            Algorithm::Es512 => "ES512",
            Algorithm::Ps256 => "PS256",
            Algorithm::Ps384 => "PS384",
            Algorithm::Ps512 => "PS512",
        }
    }
}

/// A token that could be read. Nothing of it is true before [`Token::verified`] says so.
#[derive(Debug)]
pub(super) struct Token<'t> {
    /// Header and claims as they were signed.
    signed: &'t str,
    /// What the header calls its algorithm.
    alg: String,
    /// None when it is one that we do not read, or when the header has a critical extension that we do not know: then no key vouches for it.
    algorithm: Option<Algorithm>,
    /// Which key signed; empty when the header does not say.
    kid: String,
    claims: Claims,
    signature: Vec<u8>,
}

/// Not a token in this form, so other ways to read it may be tried.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

impl<'t> Token<'t> {
    pub(super) fn parse(text: &'t str) -> Result<Token<'t>, Unreadable> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err(Unreadable);
        }
        let (signed, signature) = text.rsplit_once('.').ok_or(Unreadable)?;
        let (header, claims) = signed.split_once('.').filter(|(_, claims)| !claims.contains('.')).ok_or(Unreadable)?;
        let decode = |part: &str| RAW_URL.decode(part).map_err(|_| Unreadable);
        let header = Claims::parse(&decode(header)?).filter(|header| header.twice.is_none()).ok_or(Unreadable)?;
        // Whoever sends a token does not choose the key that it is checked with.
        if header.members.contains_key("jwk") || header.members.contains_key("x5c") {
            return Err(Unreadable);
        }
        let text_of = |name| header.text(name).map_err(|_| Unreadable);
        let name = text_of("alg")?;
        let alg = name.to_owned();
        let algorithm = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name);
        Ok(Token {
            signed,
            alg,
            algorithm: algorithm.filter(|_| has_no_unknown_extension(&header.members)),
            kid: text_of("kid")?.to_owned(),
            claims: Claims::parse(&decode(claims)?).ok_or(Unreadable)?,
            signature: decode(signature)?,
        })
    }

    /// The issuer that it claims, from which nothing follows but whom to ask about it.
    pub(super) fn issuer(&self) -> &str {
        self.claims.text("iss").unwrap_or_default()
    }

    pub(super) fn kid(&self) -> &str {
        &self.kid
    }

    /// The name of its algorithm, be it one that we read or not.
    pub(super) fn alg(&self) -> &str {
        &self.alg
    }

    #[cfg(test)]
    pub(super) fn algorithm(&self) -> Option<Algorithm> {
        self.algorithm
    }

    /// The claims, if one of these keys vouches for them and no member is there twice.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn verified<'k>(&self, keys: impl IntoIterator<Item = &'k PublicKey>) -> Result<&Claims, String> {
        let mut keys = keys.into_iter().peekable();
        if keys.peek().is_none() {
            return Err("invalid signature, no keys found".to_owned());
        }
        let is_vouched = self.algorithm.is_some_and(|algorithm| keys.any(|key| key.verifies(algorithm, self.signed, &self.signature)));
        if !is_vouched {
            return Err(NO_KEY_VOUCHES.to_owned());
        }
        match &self.claims.twice {
            Some(name) => Err(format!("json: duplicate key '{name}' in object")),
            None => Ok(&self.claims),
        }
    }
}

/// Returns the signature of a content by a shared secret, as a JWS without the content: who has both can check it.
#[must_use]
pub fn detached_signature(key_id: &str, secret: &[u8], content: &str) -> String {
    let header = RAW_URL.encode(json!({"alg": "HS256", "kid": key_id}).to_string());
    let signed = format!("{header}.{}", RAW_URL.encode(content));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes());
    format!("{header}..{}", RAW_URL.encode(signature))
}

/// `crit` names extensions that a reader must know; the only one that we know is `b64`, and that it is true.
fn has_no_unknown_extension(header: &Map<String, Value>) -> bool {
    let is_known = match header.get("crit") {
        None | Some(Value::Null) => true,
        Some(Value::Array(names)) => names.iter().all(|name| name == "b64"),
        Some(_) => false,
    };
    is_known && matches!(header.get("b64"), None | Some(Value::Null | Value::Bool(true)))
}

/// A JSON object of a token, and whether a member of it or of an object inside it was there twice.
#[derive(Debug)]
pub(super) struct Claims {
    members: Map<String, Value>,
    twice: Option<String>,
}

impl Claims {
    /// Null stands for no members, as in Go. No value is deeper than `serde_json` goes, 128 levels.
    fn parse(bytes: &[u8]) -> Option<Claims> {
        let mut twice = None;
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        let value = Tree { twice: &mut twice }.deserialize(&mut reader).ok()?;
        reader.end().ok()?;
        match value {
            Value::Object(members) => Some(Claims { members, twice }),
            Value::Null => Some(Claims { members: Map::new(), twice }),
            _ => None,
        }
    }

    /// Any member; null is as none.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    /// Whether it is there, be it null.
    pub(super) fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// A text; none is an empty one.
    pub(super) fn text(&self, name: &str) -> Result<&str, String> {
        text(self.get(name))
    }

    /// A date, seconds since 1970; fractions are cut, as Go cuts them.
    pub(super) fn date(&self, name: &str) -> Result<Option<i64>, String> {
        date(self.get(name))
    }

    /// Whether the claims that every token has are of their types; Go tells of dates and audiences first.
    pub(super) fn check_registered(&self) -> Result<(), String> {
        self.audiences()?;
        for name in ["exp", "iat", "nbf"] {
            self.date(name)?;
        }
        for name in ["iss", "jti", "sub"] {
            self.text(name)?;
        }
        Ok(())
    }

    /// `aud`: one text or a list of them.
    pub(super) fn audiences(&self) -> Result<Vec<String>, String> {
        match self.members.get("aud") {
            None => Ok(Vec::new()),
            Some(Value::String(one)) => Ok(vec![one.clone()]),
            Some(Value::Array(all)) => {
                all.iter().map(|one| one.as_str().map(str::to_owned)).collect::<Option<_>>().ok_or_else(|| NO_AUDIENCE.to_owned())
            }
            Some(_) => Err(NO_AUDIENCE.to_owned()),
        }
    }
}

pub(super) fn text(value: Option<&Value>) -> Result<&str, String> {
    match value {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(mistyped(other, "string")),
    }
}

pub(super) fn date(value: Option<&Value>) -> Result<Option<i64>, String> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(number)) => Ok(Some(number.as_i64().unwrap_or_else(|| seconds(number)))),
        Some(_) => Err(NO_DATE.to_owned()),
    }
}

/// What Go makes of a float that is no `int64`: the smallest one, so such an `exp` is in the past.
#[expect(clippy::cast_possible_truncation, reason = "cut, as Go cuts it")]
fn seconds(number: &Number) -> i64 {
    /// 2^63.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    number.as_f64().filter(|float| float.abs() < LIMIT).map_or(i64::MIN, |float| float as i64)
}

/// Go's words for a value that is of another type than the field.
pub(super) fn mistyped(value: &Value, wanted: &str) -> String {
    let found = go::json::kind(value);
    format!("json: cannot unmarshal {found} into Go value of type {wanted}")
}

/// Reads a value and notes the first member that is there twice.
struct Tree<'a> {
    twice: &'a mut Option<String>,
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element_seed(Tree { twice: &mut *self.twice })? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(Tree { twice: &mut *self.twice })?;
            if all.contains_key(&name) && self.twice.is_none() {
                *self.twice = Some(name.clone());
            }
            all.insert(name, value);
        }
        Ok(Value::Object(all))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token(header: &str, claims: &str) -> String {
        format!("{}.{}.AAAA", RAW_URL.encode(header), RAW_URL.encode(claims))
    }

    /// As kube-controller-manager 1.36.3 signs `cluster-info`.
    #[test]
    fn a_detached_signature_is_that_of_kube_controller_manager() {
        let signed = detached_signature("abcdef", b"0123456789abcdef", "content");
        assert_eq!(signed, "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..psz1NayrXM3IaFzKZGsb5n_mBl7MjtlsZ1xE8MRmF_4");
    }

    #[test]
    fn what_is_no_token_is_unreadable() {
        let good = token(r#"{"alg":"RS256"}"#, "{}");
        assert!(Token::parse(&good).is_ok());
        let long = token(r#"{"alg":"RS256"}"#, &format!(r#"{{"a":"{}"}}"#, "x".repeat(1 << 20)));
        let deep = token(r#"{"alg":"RS256"}"#, &format!("{}1{}", r#"{"a":"#.repeat(1000), "}".repeat(1000)));
        let others = [
            String::new(),
            "a".to_owned(),
            "a.b".to_owned(),
            "..".to_owned(),
            format!("{good}.AA"),
            format!("{good}=="),
            good.replace("AAAA", "A+A/"),
            token(r#"{"alg":5}"#, "{}"),
            token(r#"{"alg":"RS256","kid":[]}"#, "{}"),
            token(r#"{"alg":"none","alg":"RS256"}"#, "{}"),
            token(r#"{"alg":"RS256","jwk":{}}"#, "{}"),
            token("[]", "{}"),
            token("{} {}", "{}"),
            token("{}", "[]"),
            token("{}", "{"),
            long,
            deep,
        ];
        for other in others {
            assert_eq!(Token::parse(&other).map(|_| ()), Err(Unreadable), "{}", &other[..other.len().min(80)]);
        }
    }

    #[test]
    fn only_signatures_that_a_public_key_checks_have_an_algorithm() {
        let algorithm = |header: &str| Token::parse(&token(header, "{}")).expect("readable").algorithm();
        assert_eq!(algorithm(r#"{"alg":"ES512","kid":"k","typ":"JWT"}"#), Some(Algorithm::Es512));
        assert_eq!(algorithm(r#"{"alg":"RS256","crit":["b64"],"b64":true}"#), Some(Algorithm::Rs256));
        for none in ["none", "HS256", "HS384", "HS512", "EdDSA", "rs256", ""] {
            assert_eq!(algorithm(&format!(r#"{{"alg":"{none}"}}"#)), None, "{none}");
        }
        for none in [r#"{"crit":["exp"]}"#, r#"{"crit":"exp"}"#, r#"{"b64":false}"#, "null"] {
            assert_eq!(algorithm(&none.replace('{', r#"{"alg":"RS256","#)), None, "{none}");
        }
    }

    #[test]
    fn claims_are_read_as_go_reads_them() {
        let claims = |text: &str| Claims::parse(text.as_bytes()).expect("an object");
        let dates = claims(r#"{"a":1.9,"b":-1.9,"c":1e300,"d":null,"e":"1","f":18446744073709551615}"#);
        let date = |name: &str| dates.date(name);
        assert_eq!((date("a"), date("b"), date("c")), (Ok(Some(1)), Ok(Some(-1)), Ok(Some(i64::MIN))));
        assert_eq!((date("d"), date("none"), date("e"), date("f")), (Ok(None), Ok(None), Err(NO_DATE.into()), Ok(Some(i64::MIN))));
        let audiences = |text: &str| claims(text).audiences();
        assert_eq!(audiences(r#"{"aud":"a"}"#), Ok(vec!["a".to_owned()]));
        assert_eq!(audiences(r#"{"aud":["a","b"]}"#), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(audiences("{}"), Ok(vec![]));
        for wrong in [r#"{"aud":null}"#, r#"{"aud":{}}"#, r#"{"aud":[1]}"#] {
            assert_eq!(audiences(wrong), Err(NO_AUDIENCE.to_owned()), "{wrong}");
        }
        assert_eq!(claims(r#"{"sub":5}"#).text("sub"), Err("json: cannot unmarshal number into Go value of type string".to_owned()));
        assert_eq!(claims(r#"{"a":{"b":[{"c":1,"c":2}]},"a":0}"#).twice.as_deref(), Some("c"));
    }

    proptest! {
        #[test]
        fn never_panics(text in r#"[a-zA-Z0-9_.=+{}"\\:-]{0,200}"#, header in ".{0,60}", claims in ".{0,60}") {
            let _ = Token::parse(&text);
            let _ = Token::parse(&token(&header, &claims));
        }

        #[test]
        fn objects_read_as_serde_json_reads_them(text in r#"[{}\[\]",:0-9a-c.e-]{0,40}"#) {
            let theirs = serde_json::from_str::<Map<String, Value>>(&text).ok();
            let ours = Claims::parse(text.as_bytes()).map(|claims| claims.members);
            if theirs.is_some() {
                prop_assert_eq!(ours, theirs);
            }
        }
    }
}
