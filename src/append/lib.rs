//! Appends long texts in short steps.
//!
//! What is as long as a page or longer glibc copies with `rep movsb`, which takes AMD's Zen 3 and 4 some ten times as long as a loop unless the destination is
//! aligned (glibc bugs 30994 and 30995; glibc 2.39 no longer does it there). Ours never is: it begins where the text before it ends.

/// Bytes of a step: less than a page, from which on glibc does that with vectors of 32 bytes (of 64 bytes: two pages).
pub const STEP_BYTES: usize = 2 << 10;

/// Appends the bytes.
#[inline]
pub fn append(bytes: &[u8], out: &mut Vec<u8>) {
    if bytes.len() <= STEP_BYTES {
        return out.extend_from_slice(bytes);
    }
    out.reserve(bytes.len());
    bytes.chunks(STEP_BYTES).for_each(|step| out.extend_from_slice(step));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_are_appended_once() {
        for len in [0, 1, STEP_BYTES - 1, STEP_BYTES, STEP_BYTES + 1, 5 * STEP_BYTES, 5 * STEP_BYTES + 7] {
            let bytes: Vec<u8> = (0..len).map(|at| at as u8 ^ (at >> 8) as u8).collect();
            let mut out = b"before".to_vec();
            append(&bytes, &mut out);
            assert_eq!(out, [b"before", &bytes[..]].concat(), "{len}");
        }
    }
}
