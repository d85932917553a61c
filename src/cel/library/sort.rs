//! The order in which Go's `sort.Slice` leaves what is equal: a quicksort that notices patterns.

/// Fewer elements than this and one are sorted by insertion, which keeps the order of equal ones.
const INSERTED_MAX: usize = 12;
/// From so many elements on, a pivot is the median of medians.
const NINTHER_MIN: usize = 50;
/// Pairs out of order that are moved before a part counts as not nearly sorted.
const MOVED_MAX: usize = 5;

/// What choosing a pivot says of the order.
#[derive(PartialEq, Eq)]
enum Hint {
    Unknown,
    Increasing,
    Decreasing,
}

/// Sorts values by a function that says whether one is less than another.
pub(crate) fn sort_by<T>(values: &mut [T], less: impl Fn(&T, &T) -> bool) {
    let bits = usize::BITS - values.len().leading_zeros();
    let end = values.len();
    Sorter { values, less }.sort(0, end, bits);
}

struct Sorter<'a, T, L> {
    values: &'a mut [T],
    less: L,
}

impl<T, L: Fn(&T, &T) -> bool> Sorter<'_, T, L> {
    fn less(&self, one: usize, other: usize) -> bool {
        (self.less)(&self.values[one], &self.values[other])
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.values.swap(one, other);
    }

    /// `limit`: how many bad pivots may be chosen before another way is taken.
    fn sort(&mut self, mut from: usize, mut to: usize, mut limit: u32) {
        let (mut was_balanced, mut was_partitioned) = (true, true);
        loop {
            let length = to - from;
            if length <= INSERTED_MAX {
                return self.insert(from, to);
            }
            if limit == 0 {
                return self.heap_sort(from, to);
            }
            if !was_balanced {
                self.scatter(from, to);
                limit -= 1;
            }
            let (mut pivot, mut hint) = self.pivot(from, to);
            if hint == Hint::Decreasing {
                self.values[from..to].reverse();
                pivot = (to - 1) - (pivot - from);
                hint = Hint::Increasing;
            }
            if was_balanced && was_partitioned && hint == Hint::Increasing && self.insert_some(from, to) {
                return;
            }
            if from > 0 && !self.less(from - 1, pivot) {
                from = self.partition_equal(from, to, pivot);
                continue;
            }
            let (middle, is_partitioned) = self.partition(from, to, pivot);
            was_partitioned = is_partitioned;
            let (left, right) = (middle - from, to - middle);
            was_balanced = left.min(right) >= length / 8;
            if left < right {
                self.sort(from, middle, limit);
                from = middle + 1;
            } else {
                self.sort(middle + 1, to, limit);
                to = middle;
            }
        }
    }

    fn insert(&mut self, from: usize, to: usize) {
        for next in from + 1..to {
            let mut at = next;
            while at > from && self.less(at, at - 1) {
                self.swap(at, at - 1);
                at -= 1;
            }
        }
    }

    /// Moves few elements; returns whether that was enough.
    fn insert_some(&mut self, from: usize, to: usize) -> bool {
        let mut at = from + 1;
        for _ in 0..MOVED_MAX {
            while at < to && !self.less(at, at - 1) {
                at += 1;
            }
            if at == to {
                return true;
            }
            if to - from < NINTHER_MIN {
                return false;
            }
            self.swap(at, at - 1);
            if at - from >= 2 {
                let mut down = at - 1;
                while down >= 1 && self.less(down, down - 1) {
                    self.swap(down, down - 1);
                    down -= 1;
                }
            }
            if to - at >= 2 {
                let mut up = at + 1;
                while up < to && self.less(up, up - 1) {
                    self.swap(up, up - 1);
                    up += 1;
                }
            }
        }
        false
    }

    /// Returns where the pivot is afterwards, and whether nothing had to be moved.
    fn partition(&mut self, from: usize, to: usize, pivot: usize) -> (usize, bool) {
        self.swap(from, pivot);
        let (mut low, mut high) = (from + 1, to - 1);
        let mut is_first = true;
        loop {
            while low <= high && self.less(low, from) {
                low += 1;
            }
            while low <= high && !self.less(high, from) {
                high -= 1;
            }
            if low > high {
                self.swap(high, from);
                return (high, is_first);
            }
            self.swap(low, high);
            (low, high, is_first) = (low + 1, high - 1, false);
        }
    }

    /// Moves what is equal to the pivot to the front; returns where the rest begins.
    fn partition_equal(&mut self, from: usize, to: usize, pivot: usize) -> usize {
        self.swap(from, pivot);
        let (mut low, mut high) = (from + 1, to - 1);
        loop {
            while low <= high && !self.less(from, low) {
                low += 1;
            }
            while low <= high && self.less(from, high) {
                high -= 1;
            }
            if low > high {
                return low;
            }
            self.swap(low, high);
            (low, high) = (low + 1, high - 1);
        }
    }

    /// Swaps some elements by chance, always the same.
    fn scatter(&mut self, from: usize, to: usize) {
        let length = to - from;
        let mask = (1_u64 << (usize::BITS - length.leading_zeros())) - 1;
        let mut random = length as u64;
        let middle = from + length / 4 * 2;
        for at in middle - 1..=middle + 1 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let other = usize::try_from(random & mask).unwrap_or(0);
            self.swap(at, from + if other >= length { other - length } else { other });
        }
    }

    fn pivot(&self, from: usize, to: usize) -> (usize, Hint) {
        let length = to - from;
        let mut swaps = 0;
        let quarter = |count: usize| from + length / 4 * count;
        let (mut low, mut middle, mut high) = (quarter(1), quarter(2), quarter(3));
        if length >= NINTHER_MIN {
            low = self.median(low - 1, low, low + 1, &mut swaps);
            middle = self.median(middle - 1, middle, middle + 1, &mut swaps);
            high = self.median(high - 1, high, high + 1, &mut swaps);
        }
        middle = self.median(low, middle, high, &mut swaps);
        let hint = match swaps {
            0 => Hint::Increasing,
            12 => Hint::Decreasing,
            _ => Hint::Unknown,
        };
        (middle, hint)
    }

    fn median(&self, one: usize, two: usize, three: usize, swaps: &mut u32) -> usize {
        let mut ordered = |one: usize, other: usize| {
            if !self.less(other, one) {
                return (one, other);
            }
            *swaps += 1;
            (other, one)
        };
        let (one, two) = ordered(one, two);
        let (two, _) = ordered(two, three);
        ordered(one, two).1
    }

    fn heap_sort(&mut self, from: usize, to: usize) {
        let length = to - from;
        for root in (0..=(length - 1) / 2).rev() {
            self.sift_down(root, length, from);
        }
        for end in (0..length).rev() {
            self.swap(from, from + end);
            self.sift_down(0, end, from);
        }
    }

    fn sift_down(&mut self, mut root: usize, end: usize, from: usize) {
        loop {
            let mut child = 2 * root + 1;
            if child >= end {
                return;
            }
            if child + 1 < end && self.less(from + child, from + child + 1) {
                child += 1;
            }
            if !self.less(from + root, from + child) {
                return;
            }
            self.swap(from + root, from + child);
            root = child;
        }
    }
}
