//! Windows: how much may still be sent, and how much may still come (RFC 9113 §5.2, §6.9).

/// What a window begins with, of a connection always and of a stream until something else is announced (RFC 9113 §6.9.2).
pub(crate) const FIRST: u32 = 65_535;

/// The largest window (RFC 9113 §6.9.1).
pub(crate) const MOST: i64 = 0x7fff_ffff;

/// What we may send. It is below zero after the client has made its first window smaller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room(i64);

impl Room {
    pub(crate) fn new(bytes: u32) -> Self {
        Self(i64::from(bytes))
    }

    /// Bytes that may be sent now.
    pub(crate) fn bytes(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    /// So many are sent.
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.0 -= i64::try_from(bytes).unwrap_or(MOST);
    }

    /// More, or fewer; whether that is a window.
    pub(crate) fn change(&mut self, by: i64) -> bool {
        self.0 += by;
        self.0 <= MOST
    }
}

/// What the client may send, and what of it was taken and not told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    left: u32,
    /// To be told in one WINDOW_UPDATE, when it is worth it.
    taken: u32,
}

impl Allowance {
    pub(crate) fn new(bytes: u32) -> Self {
        Self { left: bytes, taken: 0 }
    }

    /// So many came; whether they were allowed.
    pub(crate) fn spend(&mut self, bytes: usize) -> bool {
        let left = u32::try_from(bytes).ok().and_then(|bytes| self.left.checked_sub(bytes));
        left.map(|left| self.left = left).is_some()
    }

    /// Whether nothing more may come.
    pub(crate) fn is_spent(self) -> bool {
        self.left == 0
    }

    /// So many of them were taken. More than half of all: they may come again, and the client is to be told of so many.
    pub(crate) fn take(&mut self, bytes: usize, all: u32) -> Option<u32> {
        self.taken = self.taken.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        if self.taken == 0 || self.taken < all / 2 {
            return None;
        }
        self.left += self.taken;
        Some(std::mem::take(&mut self.taken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_may_be_below_nothing_and_no_larger_than_the_largest() {
        let mut room = Room::new(10);
        room.spend(8);
        assert!(room.change(-7));
        assert_eq!((room.bytes(), room.0), (0, -5));
        assert!(room.change(9));
        assert_eq!(room.bytes(), 4);
        assert!(room.change(MOST - 4) && !room.change(1));
    }

    #[test]
    fn what_was_taken_is_told_when_it_is_half() {
        let mut allowance = Allowance::new(100);
        assert!(allowance.spend(70) && !allowance.spend(31) && allowance.spend(30));
        assert_eq!((allowance.take(49, 100), allowance.take(1, 100), allowance.take(0, 100)), (None, Some(50), None));
        assert!(allowance.spend(50) && !allowance.spend(1));
    }
}
