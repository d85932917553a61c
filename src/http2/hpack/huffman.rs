//! The Huffman code of HPACK (RFC 7541 §5.2, Appendix B). Decodes with two tables, which the compiler makes of the lengths of the codes.
//!
//! The code is canonical: codes of one length follow each other in the order of their symbols, and longer ones are greater. So the lengths say everything.

use super::HpackError;

/// Bits of the code of each byte, as Appendix B has them. The symbol for the end of a string has [`LONGEST`], too, and is the last.
const BITS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, // 0x00
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, // 0x10
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, // space to /
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, // 0 to ?
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, // @ to O
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, // P to _
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, // ` to o
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, // p to 0x7f
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, // 0x80
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, // 0x90
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, // 0xa0
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, // 0xb0
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, // 0xc0
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, // 0xd0
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, // 0xe0
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, // 0xf0
];

/// Bits of the shortest and of the longest codes.
const SHORTEST: usize = 5;
const LONGEST: usize = 30;

/// Codes of so many bits are found in one step: all letters and digits, and most of what stands between them.
const SHORT: usize = 8;

/// The codes of one length.
#[derive(Clone, Copy)]
struct Length {
    /// The first of them.
    first: u32,
    /// What is less than this, in the [`LONGEST`] next bits, has this length or a smaller one.
    end: u32,
    /// Where the first one's symbol is in the order of all.
    place: u32,
}

/// By the number of their bits.
static LENGTHS: [Length; LONGEST + 1] = lengths();

/// The bytes in the order of their codes.
static SYMBOLS: [u8; 256] = symbols();

/// By the next [`SHORT`] bits: the symbol and the bits of its code, zero when they are more.
static SHORT_CODES: [(u8, u8); 1 << SHORT] = short_codes();

const fn lengths() -> [Length; LONGEST + 1] {
    let mut lengths = [Length { first: 0, end: 0, place: 0 }; LONGEST + 1];
    let (mut bits, mut code, mut place) = (1, 0, 0);
    while bits <= LONGEST {
        code <<= 1;
        let first = code;
        let mut symbol = 0;
        while symbol < BITS.len() {
            code += (BITS[symbol] as usize == bits) as u32;
            symbol += 1;
        }
        lengths[bits] = Length { first, end: code << (LONGEST - bits), place };
        place += code - first;
        bits += 1;
    }
    // Only the end of a string is left.
    assert!(code == (1 << LONGEST) - 1 && place == 256);
    lengths
}

const fn symbols() -> [u8; 256] {
    let mut symbols = [0; 256];
    let (mut bits, mut place) = (1, 0);
    while bits <= LONGEST {
        let mut symbol = 0;
        while symbol < BITS.len() {
            if BITS[symbol] as usize == bits {
                symbols[place] = symbol as u8;
                place += 1;
            }
            symbol += 1;
        }
        bits += 1;
    }
    symbols
}

const fn short_codes() -> [(u8, u8); 1 << SHORT] {
    let (lengths, symbols) = (lengths(), symbols());
    let mut codes = [(0, 0); 1 << SHORT];
    let (mut next, mut bits) = (0, 1);
    while next < codes.len() {
        while bits <= SHORT && (next << (LONGEST - SHORT)) as u32 >= lengths[bits].end {
            bits += 1;
        }
        if bits > SHORT {
            break;
        }
        let place = lengths[bits].place + (next >> (SHORT - bits)) as u32 - lengths[bits].first;
        codes[next] = (symbols[place as usize], bits as u8);
        next += 1;
    }
    codes
}

/// Appends what this string stands for.
pub(super) fn decode(mut coded: &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    out.reserve(coded.len() * 8 / SHORTEST);
    // The next bits, the first one on top, and how many of them count. What is below those is of the byte that comes next, or zero.
    let (mut bits, mut count) = (0u64, 0);
    while !coded.is_empty() {
        (bits, count, coded) = refill(bits, count, coded);
        while count >= LONGEST {
            let (symbol, length) = first_symbol(bits).ok_or(HpackError::EndOfString)?;
            out.push(symbol);
            bits <<= length;
            count -= length;
        }
    }
    // The padding is the beginning of the code for the end of a string: only ones, and less than a byte of them.
    bits |= u64::MAX >> count;
    while let Some((symbol, length)) = first_symbol(bits).filter(|(_, length)| *length <= count) {
        out.push(symbol);
        bits = bits << length | ((1 << length) - 1);
        count -= length;
    }
    if count < 8 && bits == u64::MAX { Ok(()) } else { Err(HpackError::WrongPadding) }
}

/// Takes whole bytes until 56 bits count at least, or none is left.
fn refill(mut bits: u64, mut count: usize, mut coded: &[u8]) -> (u64, usize, &[u8]) {
    if let Some(next) = coded.first_chunk() {
        let bytes = (63 - count) / 8;
        return (bits | u64::from_be_bytes(*next) >> count, count + 8 * bytes, &coded[bytes..]);
    }
    while count < 56
        && let Some((byte, rest)) = coded.split_first()
    {
        bits |= u64::from(*byte) << (56 - count);
        count += 8;
        coded = rest;
    }
    (bits, count, coded)
}

/// The symbol whose code the bits begin with, and how many bits it has. None: the end of a string.
fn first_symbol(bits: u64) -> Option<(u8, usize)> {
    let (symbol, length) = SHORT_CODES[(bits >> (64 - SHORT)) as usize];
    if length > 0 { Some((symbol, length.into())) } else { first_long_symbol(bits) }
}

fn first_long_symbol(bits: u64) -> Option<(u8, usize)> {
    let next = (bits >> (64 - LONGEST)) as u32;
    let length = (SHORT + 1..=LONGEST).find(|length| next < LENGTHS[*length].end)?;
    let Length { first, place, .. } = LENGTHS[length];
    let symbol = SYMBOLS[(place + (next >> (LONGEST - length)) - first) as usize];
    Some((symbol, length))
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The code of a byte, and its bits.
    fn code(byte: u8) -> (u32, usize) {
        let length = usize::from(BITS[usize::from(byte)]);
        let before = BITS[..usize::from(byte)].iter().filter(|bits| usize::from(**bits) == length).count();
        (LENGTHS[length].first + before as u32, length)
    }

    /// These codes after each other, filled up with ones.
    fn joined(codes: impl Iterator<Item = (u32, usize)>) -> Vec<u8> {
        let mut bits: Vec<bool> = codes.flat_map(|(code, length)| (0..length).rev().map(move |at| code >> at & 1 == 1)).collect();
        bits.resize(bits.len().next_multiple_of(8), true);
        bits.chunks(8).map(|byte| byte.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit))).collect()
    }

    /// For the tests of whole blocks: we write none such.
    pub(in super::super) fn encode(text: &[u8]) -> Vec<u8> {
        joined(text.iter().map(|byte| code(*byte)))
    }

    fn decoded(coded: &[u8]) -> Result<Vec<u8>, HpackError> {
        let mut out = Vec::new();
        decode(coded, &mut out).map(|()| out)
    }

    #[test]
    fn codes_are_those_of_appendix_b() {
        let codes = [
            (0, 0x1ff8, 13),
            (9, 0xff_ffea, 24),
            (10, 0x3fff_fffc, 30),
            (22, 0x3fff_fffe, 30),
            (b' ', 0x14, 6),
            (b'!', 0x3f8, 10),
            (b'&', 0xf8, 8),
            (b'0', 0x0, 5),
            (b'9', 0x1f, 6),
            (b'Z', 0xfd, 8),
            (b'\\', 0x7_fff0, 19),
            (b'a', 0x3, 5),
            (b'z', 0x7b, 7),
            (b'~', 0x1ffd, 13),
            (128, 0xf_ffe6, 20),
            (199, 0x1ff_ffec, 25),
            (255, 0x3ff_ffee, 26),
        ];
        for (byte, expected, bits) in codes {
            assert_eq!(code(byte), (expected, bits), "{byte}");
        }
    }

    #[test]
    fn each_byte_comes_back() {
        for byte in 0..=255 {
            for times in 1..=20 {
                let text = vec![byte; times];
                assert_eq!(decoded(&encode(&text)).as_ref(), Ok(&text));
            }
        }
        assert_eq!(decoded(&[]), Ok(Vec::new()));
    }

    #[test]
    fn padding_is_ones_and_shorter_than_a_byte() {
        // "a" is 00011.
        assert_eq!(decoded(&[0b0001_1111]), Ok(b"a".to_vec()));
        for wrong in [&[0b0001_1110][..], &[0b0001_1011], &[0b0001_1111, 0xff], &[0xff], &[0xff; 2], &[0xff; 3]] {
            assert_eq!(decoded(wrong), Err(HpackError::WrongPadding), "{wrong:?}");
        }
        // Eight a are five bytes, without any.
        let whole = encode(&[b'a'; 8]);
        assert_eq!((whole.len(), decoded(&whole)), (5, Ok(vec![b'a'; 8])));
        assert_eq!(decoded(&[&whole[..], &[0xff]].concat()), Err(HpackError::WrongPadding));
        // The longest code cut short.
        assert_eq!(decoded(&encode(&[22])[..3]), Err(HpackError::WrongPadding));
    }

    #[test]
    fn the_end_of_a_string_is_not_within_it() {
        let end = ((1 << LONGEST) - 1, LONGEST);
        assert_eq!(decoded(&joined([end].into_iter())), Err(HpackError::EndOfString));
        for before in 0..20 {
            let codes = vec![code(b'a'); before].into_iter().chain([end, code(b'a')]);
            assert_eq!(decoded(&joined(codes)), Err(HpackError::EndOfString), "after {before}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_comes_back(text in any::<Vec<u8>>()) {
            prop_assert_eq!(decoded(&encode(&text)), Ok(text));
        }

        /// A string has one form only, so that what is accepted is what would be written.
        #[test]
        fn what_is_accepted_has_this_form(coded in any::<Vec<u8>>()) {
            if let Ok(text) = decoded(&coded) {
                prop_assert_eq!(encode(&text), coded);
            }
        }
    }
}
