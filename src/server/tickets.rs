//! Tickets with which a client resumes a TLS session at any server that has the same keys: a replica, or this one after a restart.
//!
//! A resumed handshake is made without a signature and without certificates. Whom the client's certificate names is in the ticket; what it is worth is judged
//! for each connection (`auth/authn`), resumed or not.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey},
    hkdf::{HKDF_SHA256, Salt},
};
use rustls::server::ProducesTickets;

use reload::Wrong;

/// How long a ticket counts, in seconds: as long as those of rustls, which changes its keys as often. At most a week (RFC 8446 §4.6.1).
const LIFETIME: u32 = 12 * 60 * 60;

/// Bytes of a file with a key, at least.
const SECRET_LEN: usize = 32;

/// Tells which key a ticket is of.
const NAME_LEN: usize = 16;

/// The keys, of which the first makes tickets and all open them.
#[derive(Debug)]
pub(super) struct Tickets(Vec<Key>);

#[derive(Debug)]
struct Key {
    name: [u8; NAME_LEN],
    key: RandomizedNonceKey,
}

impl Tickets {
    /// Of the contents of `--tls-session-ticket-key-file`s. One that is given twice counts once.
    ///
    /// # Errors
    /// One of them is too short to be a secret.
    pub(super) fn read(files: &[Vec<u8>]) -> Result<Self, Wrong> {
        let key = |(at, secret): (usize, &Vec<u8>)| {
            if secret.len() < SECRET_LEN {
                Err((at, format!("{} bytes: at least {SECRET_LEN} random ones are needed", secret.len())))
            } else {
                Ok(Key::of(secret))
            }
        };
        files.iter().enumerate().map(key).collect::<Result<_, _>>().map(Self)
    }

    fn encrypt_at(&self, now: u64, session: &[u8]) -> Option<Vec<u8>> {
        self.0.first()?.seal(now, session)
    }

    fn decrypt_at(&self, now: u64, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, sealed) = ticket.split_at_checked(NAME_LEN)?;
        let key = self.0.iter().find(|key| key.name == name)?;
        let (made, session) = key.open(sealed)?;
        // Another server's clock may be ahead.
        (now.saturating_sub(made) < LIFETIME.into()).then_some(session)
    }
}

impl Key {
    /// Whatever the secret is made of, its bytes all count.
    fn of(secret: &[u8]) -> Self {
        let secret = Salt::new(HKDF_SHA256, b"watchcache session tickets").extract(secret);
        let (mut name, mut key) = ([0; NAME_LEN], [0; 32]);
        for (info, out) in [(&b"name"[..], &mut name[..]), (b"key", &mut key[..])] {
            let parts = [info];
            let made = secret.expand(&parts, Len(out.len())).and_then(|made| made.fill(out));
            made.expect("a short output, as long as it was asked to be");
        }
        Self { name, key: RandomizedNonceKey::new(&AES_256_GCM, &key).expect("a key of this length") }
    }

    /// Name, nonce, and sealed: when it was made (seconds, big endian), and the session.
    fn seal(&self, now: u64, session: &[u8]) -> Option<Vec<u8>> {
        let mut sealed = [&now.to_be_bytes()[..], session].concat();
        let nonce = self.key.seal_in_place_append_tag(Aad::from(&self.name), &mut sealed).ok()?;
        Some([&self.name[..], nonce.as_ref(), &sealed].concat())
    }

    /// When it was made, and the session; none of what this key has not made.
    fn open(&self, sealed: &[u8]) -> Option<(u64, Vec<u8>)> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN)?;
        let mut sealed = sealed.to_vec();
        let opened = self.key.open_in_place(Nonce::try_assume_unique_for_key(nonce).ok()?, Aad::from(&self.name), &mut sealed).ok()?;
        let (made, session) = opened.split_first_chunk()?;
        Some((u64::from_be_bytes(*made), session.to_vec()))
    }
}

struct Len(usize);

impl aws_lc_rs::hkdf::KeyType for Len {
    fn len(&self) -> usize {
        self.0
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        !self.0.is_empty()
    }

    fn lifetime(&self) -> u32 {
        LIFETIME
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.encrypt_at(now(), plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.decrypt_at(now(), cipher)
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &[u8] = b"who the client is, and a secret";

    fn tickets(secrets: &[u8]) -> Tickets {
        let files: Vec<Vec<u8>> = secrets.iter().map(|byte| vec![*byte; 48]).collect();
        Tickets::read(&files).expect("long enough")
    }

    #[test]
    fn whoever_has_the_key_opens_a_ticket_in_its_time() {
        let (first, both, other) = (tickets(&[1]), tickets(&[2, 1]), tickets(&[2]));
        let ticket = first.encrypt_at(1_000, SESSION).expect("a ticket");
        assert_ne!(ticket, first.encrypt_at(1_000, SESSION).expect("a ticket"));
        assert!(!ticket.windows(8).any(|part| part == &SESSION[..8]));
        for (tickets, now, want) in [
            (&first, 1_000, Some(SESSION)),
            (&first, 990, Some(SESSION)),
            (&both, 1_000 + u64::from(LIFETIME) - 1, Some(SESSION)),
            (&both, 1_000 + u64::from(LIFETIME), None),
            (&other, 1_000, None),
            (&tickets(&[]), 1_000, None),
        ] {
            assert_eq!(tickets.decrypt_at(now, &ticket).as_deref(), want, "{now}");
        }
        assert_eq!(both.encrypt_at(1_000, SESSION).and_then(|ticket| other.decrypt_at(1_000, &ticket)).as_deref(), Some(SESSION));
        for at in 0..ticket.len() {
            let mut broken = ticket.clone();
            broken[at] ^= 1;
            assert_eq!((first.decrypt_at(1_000, &broken), first.decrypt_at(1_000, &ticket[..at])), (None, None), "{at}");
        }
    }

    #[test]
    fn a_key_is_long_enough() {
        let (file, why) = Tickets::read(&[vec![1; 32], vec![1; 31]]).expect_err("one is too short");
        assert_eq!((file, why.as_str()), (1, "31 bytes: at least 32 random ones are needed"));
        assert!(!tickets(&[]).enabled() && tickets(&[1]).enabled());
    }
}
