//! The file of a backup: what a store holds at one revision, in frames, with a checksum at its end. Reads and writes bytes in order, whatever they are kept in.
//!
//! ```text
//! watchcache backup 1\n
//! frame …     kind (1 byte), bytes of its content (4 bytes), content: a head, leases, changes by revision, an end
//! zeros       up to a multiple of 512 bytes
//! SHA-256     of everything before
//! ```
//!
//! The last two are where etcd's snapshots have them: `etcdctl snapshot save` looks for them by the size of the file.

use std::io::{self, Read, Write};

use sha2::{Digest, Sha256};

use super::log::{Place, Record};

/// How a backup begins; its version follows.
const TITLE: &[u8] = b"watchcache backup ";
/// The version that is written, and the only one that is read.
const VERSION: u64 = 1;
/// Digits of a version, at most.
const VERSION_DIGITS_MAX: usize = 19;
/// A multiple of this is before the checksum (etcd's smallest sector).
const SECTOR_BYTES: u64 = 512;
/// Content of one frame: above the largest request that the store takes.
const FRAME_BYTES_MAX: usize = 16 << 20;

const HEAD: u8 = 1;
const LEASE: u8 = 2;
const CHANGE: u8 = 3;
const END: u8 = 4;
/// Kind and length.
const FRAME_HEAD: usize = 1 + 4;

/// What a backup is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The newest revision, of which this is the state.
    pub(super) revision: i64,
    /// Whose it was.
    pub(super) cluster_id: u64,
    /// Seconds since 1970.
    pub(super) made_at: u64,
    pub(super) leases: u64,
    /// Keys that are there, each with its newest change.
    pub(super) keys: u64,
}

/// One part of the state.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Lease { id: i64, ttl: i64 },
    Change { place: Place, record: Record<'a> },
}

/// Why a file is no backup that can be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unusable {
    #[error("it is no backup of a store")]
    Foreign,
    #[error("its version is {0}, this program knows only {VERSION}; use the program that made it")]
    OtherVersion(u64),
    #[error("it is damaged or cut short: it ends after {0} bytes, in the middle of something")]
    Cut(u64),
    #[error("it is damaged: {0}")]
    Damaged(String),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Writes a backup; [`ArchiveWriter::end`] makes it whole.
pub(super) struct ArchiveWriter<W> {
    to: W,
    hash: Sha256,
    bytes: u64,
}

impl<W: Write> ArchiveWriter<W> {
    pub(super) fn begin(to: W, head: &Head) -> io::Result<Self> {
        let mut archive = Self { to, hash: Sha256::new(), bytes: 0 };
        archive.write(TITLE)?;
        archive.write(format!("{VERSION}\n").as_bytes())?;
        let numbers = [head.revision.cast_unsigned(), head.cluster_id, head.made_at, head.leases, head.keys];
        archive.frame(HEAD, &numbers.map(u64::to_be_bytes).concat(), &[])?;
        Ok(archive)
    }

    pub(super) fn lease(&mut self, id: i64, ttl: i64) -> io::Result<()> {
        self.frame(LEASE, &[id, ttl].map(i64::to_be_bytes).concat(), &[])
    }

    pub(super) fn change(&mut self, place: Place, record: &Record<'_>) -> io::Result<()> {
        let mut at = [0; PLACE_BYTES];
        at[..8].copy_from_slice(&place.main.to_be_bytes());
        at[8..].copy_from_slice(&place.sub.to_be_bytes());
        self.frame(CHANGE, &at, &record.encode())
    }

    /// Writes the end and the checksum; the backup has so many bytes.
    pub(super) fn end(mut self) -> io::Result<u64> {
        self.frame(END, &[], &[])?;
        let zeros = padding(self.bytes);
        self.write(&[0; SECTOR_BYTES as usize][..zeros])?;
        let sum = self.hash.clone().finalize();
        self.write(&sum)?;
        self.to.flush()?;
        Ok(self.bytes)
    }

    fn frame(&mut self, kind: u8, first: &[u8], rest: &[u8]) -> io::Result<()> {
        let length = u32::try_from(first.len() + rest.len()).expect("a change is far below 4 GiB");
        let mut head = [kind; FRAME_HEAD];
        head[1..].copy_from_slice(&length.to_be_bytes());
        [&head, first, rest].into_iter().try_for_each(|bytes| self.write(bytes))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        self.to.write_all(bytes)
    }
}

const PLACE_BYTES: usize = 8 + 4;

/// Zeros that belong after so many bytes.
fn padding(bytes: u64) -> usize {
    (bytes.next_multiple_of(SECTOR_BYTES) - bytes) as usize
}

/// Reads a backup, and believes it only at its end.
pub(super) struct ArchiveReader<R> {
    from: R,
    hash: Sha256,
    bytes: u64,
    head: Head,
    /// Leases and changes that came.
    leases: u64,
    keys: u64,
    last: Place,
    frame: Vec<u8>,
}

impl<R: Read> ArchiveReader<R> {
    pub(super) fn begin(from: R) -> Result<Self, Unusable> {
        let head = Head { revision: 0, cluster_id: 0, made_at: 0, leases: 0, keys: 0 };
        let mut archive = Self { from, hash: Sha256::new(), bytes: 0, head, leases: 0, keys: 0, last: Place::default(), frame: Vec::new() };
        archive.title()?;
        let kind = archive.next_frame()?;
        let numbers: Vec<u64> = archive.frame.chunks_exact(8).map(|bytes| u64::from_be_bytes(bytes.try_into().expect("eight"))).collect();
        let (HEAD, [revision, cluster_id, made_at, leases, keys]) = (kind, &numbers[..]) else {
            return Err(archive.damaged("has no head"));
        };
        archive.head = Head { revision: revision.cast_signed(), cluster_id: *cluster_id, made_at: *made_at, leases: *leases, keys: *keys };
        if archive.head.revision < 1 {
            return Err(archive.damaged("says that its revision is not positive"));
        }
        Ok(archive)
    }

    pub(super) fn head(&self) -> &Head {
        &self.head
    }

    /// Bytes that were read.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next part; none at the end, when the checksum was right.
    pub(super) fn next(&mut self) -> Result<Option<Part<'_>>, Unusable> {
        match self.next_frame()? {
            LEASE if self.keys == 0 => self.lease().map(Some),
            CHANGE => self.change().map(Some),
            END if self.frame.is_empty() => self.end().map(|()| None),
            kind => Err(self.damaged(&format!("has a part of kind {kind} that does not belong there"))),
        }
    }

    fn lease(&mut self) -> Result<Part<'_>, Unusable> {
        let Some((id, Ok(ttl))) = self.frame.split_first_chunk().map(|(id, ttl)| (id, <[u8; 8]>::try_from(ttl))) else {
            return Err(self.damaged("has a lease that cannot be read"));
        };
        self.leases += 1;
        Ok(Part::Lease { id: i64::from_be_bytes(*id), ttl: i64::from_be_bytes(ttl) })
    }

    fn change(&mut self) -> Result<Part<'_>, Unusable> {
        let place = match self.frame.first_chunk::<PLACE_BYTES>() {
            Some([main @ .., a, b, c, d]) => Place { main: i64::from_be_bytes(*main), sub: u32::from_be_bytes([*a, *b, *c, *d]) },
            None => return Err(self.damaged("has a change that cannot be read")),
        };
        let is_next = self.keys == 0 || place > self.last;
        if !is_next || place.main < 1 || place.main > self.head.revision {
            return Err(self.damaged("has a change that does not belong there"));
        }
        (self.keys, self.last) = (self.keys + 1, place);
        let record = Record::decode(place, &self.frame[PLACE_BYTES..]).filter(|record| record.put.is_some());
        match record {
            Some(record) => Ok(Part::Change { place, record }),
            None => Err(Unusable::Damaged(format!("what ends at byte {} has a change that cannot be read", self.bytes))),
        }
    }

    fn end(&mut self) -> Result<(), Unusable> {
        if (self.leases, self.keys) != (self.head.leases, self.head.keys) {
            return Err(self.damaged("has other numbers of keys and leases than its head says"));
        }
        let zeros = padding(self.bytes);
        let mut rest = [0; SECTOR_BYTES as usize];
        self.read(&mut rest[..zeros])?;
        let sum = self.hash.clone().finalize();
        let mut told = [0; 32];
        self.read(&mut told)?;
        if told != sum[..] || rest.iter().any(|byte| *byte != 0) {
            return Err(Unusable::Damaged("its checksum is not that of what is in it".into()));
        }
        match self.from.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(self.damaged("goes on after its end")),
        }
    }

    fn title(&mut self) -> Result<(), Unusable> {
        let mut title = [0; TITLE.len()];
        self.read(&mut title).map_err(|error| if matches!(error, Unusable::Cut(_)) { Unusable::Foreign } else { error })?;
        if title != TITLE {
            return Err(Unusable::Foreign);
        }
        let mut version = 0_u64;
        for _ in 0..VERSION_DIGITS_MAX {
            let mut digit = [0];
            self.read(&mut digit)?;
            match digit[0] {
                b'0'..=b'9' => version = version * 10 + u64::from(digit[0] - b'0'),
                b'\n' if version == VERSION => return Ok(()),
                b'\n' => return Err(Unusable::OtherVersion(version)),
                _ => break,
            }
        }
        Err(Unusable::Foreign)
    }

    /// Reads the next frame's content and says of which kind it is.
    fn next_frame(&mut self) -> Result<u8, Unusable> {
        let mut head = [0; FRAME_HEAD];
        self.read(&mut head)?;
        let [kind, length @ ..] = head;
        let length = u32::from_be_bytes(length) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(self.damaged(&format!("has a part of {length} bytes")));
        }
        let mut frame = std::mem::take(&mut self.frame);
        frame.resize(length, 0);
        let read = self.read(&mut frame);
        self.frame = frame;
        read.map(|()| kind)
    }

    fn read(&mut self, into: &mut [u8]) -> Result<(), Unusable> {
        let mut read = 0;
        while read < into.len() {
            match self.from.read(&mut into[read..]) {
                Ok(0) => return Err(Unusable::Cut(self.bytes + read as u64)),
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.hash.update(&*into);
        self.bytes += into.len() as u64;
        Ok(())
    }

    fn damaged(&self, what: &str) -> Unusable {
        Unusable::Damaged(format!("what ends at byte {} {what}", self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::log::Version;
    use super::*;

    const REVISION: i64 = 90;

    fn written(leases: &[(i64, i64)], values: &[Vec<u8>]) -> Vec<u8> {
        let head = Head { revision: REVISION, cluster_id: 7, made_at: 8, leases: leases.len() as u64, keys: values.len() as u64 };
        let mut bytes = Vec::new();
        let mut archive = ArchiveWriter::begin(&mut bytes, &head).expect("a Vec takes everything");
        leases.iter().for_each(|(id, ttl)| archive.lease(*id, *ttl).expect("a Vec takes everything"));
        for (number, value) in values.iter().enumerate() {
            let place = Place { main: number as i64 / 2 + 2, sub: number as u32 % 2 };
            let version = Version { place, created: 2, number: 1, lease: 0, bytes: 1 };
            archive.change(place, &Record { key: &[b'k', number as u8], put: Some((version, value)) }).expect("a Vec takes everything");
        }
        assert_eq!(archive.end().expect("a Vec takes everything"), bytes.len() as u64);
        bytes
    }

    /// Leases, and the values of keys.
    type Parts = (Vec<(i64, i64)>, Vec<Vec<u8>>);

    fn read(bytes: &[u8]) -> Result<Parts, Unusable> {
        let mut archive = ArchiveReader::begin(bytes)?;
        let (mut leases, mut values) = (Vec::new(), Vec::new());
        while let Some(part) = archive.next()? {
            match part {
                Part::Lease { id, ttl } => leases.push((id, ttl)),
                Part::Change { record, .. } => values.push(record.put.expect("a put").1.to_vec()),
            }
        }
        Ok((leases, values))
    }

    fn said(bytes: &[u8]) -> String {
        read(bytes).expect_err("unusable").to_string()
    }

    #[test]
    fn each_byte_counts_and_each_end() {
        let whole = written(&[(3, 60)], &[b"first".to_vec(), Vec::new(), b"last".to_vec()]);
        assert_eq!(whole.len() % 512, 32, "etcdctl looks for the checksum by the size");
        assert_eq!(read(&whole).expect("whole").1.len(), 3);
        for at in 0..whole.len() {
            assert!(read(&whole[..at]).is_err(), "cut after {at}");
            for flip in [1, 0x80, 0xff] {
                let mut other = whole.clone();
                other[at] ^= flip;
                assert!(read(&other).is_err(), "byte {at} by {flip}");
            }
        }
        assert!(said(&[&whole[..], b"x"].concat()).contains("goes on after its end"));
        assert!(said(&whole[..700.min(whole.len() - 1)]).contains("cut short"));
        assert_eq!(said(b""), "it is no backup of a store");
        assert_eq!(said(&[0; 1024]), "it is no backup of a store");
        let newer = [b"watchcache backup 12", &whole[TITLE.len() + 1..]].concat();
        assert!(said(&newer).starts_with("its version is 12, this program knows only 1"));
    }

    #[test]
    fn what_cannot_be_is_refused_whatever_its_checksum() {
        let version = Version { place: Place { main: 5, sub: 0 }, created: 2, number: 1, lease: 0, bytes: 1 };
        let put = |main: i64| (Place { main, sub: 0 }, Record { key: b"k", put: Some((version, b"v")) });
        let with = |keys: u64, changes: &[(Place, Record<'_>)]| {
            let head = Head { revision: REVISION, cluster_id: 7, made_at: 8, leases: 0, keys };
            let mut bytes = Vec::new();
            let mut archive = ArchiveWriter::begin(&mut bytes, &head).expect("a Vec takes everything");
            changes.iter().for_each(|(place, record)| archive.change(*place, record).expect("a Vec takes everything"));
            archive.end().expect("a Vec takes everything");
            said(&bytes)
        };
        assert!(with(2, &[put(5), put(5)]).contains("does not belong there"));
        assert!(with(1, &[put(REVISION + 1)]).contains("does not belong there"));
        assert!(with(1, &[put(0)]).contains("does not belong there"));
        assert!(with(2, &[put(5)]).contains("other numbers"));
        assert!(with(1, &[(Place { main: 5, sub: 0 }, Record { key: b"k", put: None })]).contains("cannot be read"));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(leases: Vec<(i64, i64)>, values in proptest::collection::vec(any::<Vec<u8>>(), 0..20)) {
            prop_assert_eq!(read(&written(&leases, &values)).expect("whole"), (leases, values));
        }

        #[test]
        fn junk_is_no_panic(junk: Vec<u8>, keep in 0_usize..200) {
            let whole = written(&[], &[b"v".to_vec()]);
            let _ = read(&[&whole[..keep.min(whole.len())], &junk].concat());
        }
    }
}
