//! The examples of RFC 7541 Appendix C, each error, and random blocks against a model of what they mean.

use proptest::{collection::vec, prelude::*, sample::Index};

use super::*;

type Field = (Vec<u8>, Vec<u8>);

fn fields(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<Field>, HpackError> {
    let mut fields = Vec::new();
    decoder.decode(block, |name, value| fields.push((name.to_vec(), value.as_ref().to_vec()))).map(|()| fields)
}

/// One `name: value` a line.
fn shown(fields: Vec<Field>) -> String {
    let line = |(name, value): Field| format!("{}: {}\n", name.escape_ascii(), value.escape_ascii());
    fields.into_iter().map(line).collect()
}

/// What the dynamic table has, the newest first.
fn table(decoder: &mut Decoder) -> Vec<Field> {
    (62u8..127).map_while(|index| fields(decoder, &[INDEXED | index]).ok()).flatten().collect()
}

fn size(table: &[Field]) -> usize {
    table.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |two: &[u8]| u8::from_str_radix(str::from_utf8(two).expect("digits"), 16).expect("two digits");
    digits.chunks(2).map(byte).collect()
}

/// The blocks of one connection: what is in each, and how many entries the table has after it, and their size.
fn check(table_bytes: usize, blocks: &[(&str, &str, (usize, usize))]) {
    let mut decoder = Decoder::new(table_bytes);
    for (hex, expected, of_table) in blocks {
        let read = fields(&mut decoder, &bytes(hex)).expect("an example");
        assert_eq!(shown(read), expected.replace("\n        ", "\n").trim_start());
        let table = table(&mut decoder);
        assert_eq!((table.len(), size(&table)), *of_table, "{hex}");
    }
}

fn shared(value: Value<'_>) -> Bytes {
    match value {
        Value::Shared(bytes) => bytes,
        Value::Passing(bytes) => Bytes::copy_from_slice(bytes),
    }
}

/// Ten bytes made 40 KB.
#[test]
fn what_the_table_has_is_shared_by_all_that_name_it() {
    let mut decoder = Decoder::new(4_096);
    let mut block = vec![INSERTED];
    encode_string(b"x", &mut block);
    encode_string(&[b'v'; 4_000], &mut block);
    block.extend([INDEXED | 62; 10]);
    let mut values = Vec::new();
    decoder.decode(&block, |_, value| values.push(shared(value))).expect("valid");
    decoder.decode(&[INDEXED | 62], |_, value| values.push(shared(value))).expect("valid");
    assert_eq!(values.len(), 12);
    assert!(values.iter().all(|value| value.len() == 4_000 && value.as_ptr() == values[0].as_ptr()));
}

#[test]
fn integers_of_c_1() {
    for (value, prefix_bits, hex) in [(10, 5, "0a"), (1_337, 5, "1f9a0a"), (42, 8, "2a"), (0, 4, "00"), (15, 4, "0f00"), (127, 7, "7f00")] {
        let mut out = Vec::new();
        encode_integer(value, prefix_bits, &mut out);
        assert_eq!(out, bytes(hex));
        assert_eq!(integer(&mut &out[..], prefix_bits), Ok(value));
    }
}

#[test]
fn fields_of_c_2() {
    let custom = "custom-key: custom-header\n";
    check(4_096, &[("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", custom, (1, 55))]);
    check(4_096, &[("040c 2f73 616d 706c 652f 7061 7468", ":path: /sample/path\n", (0, 0))]);
    check(4_096, &[("1008 7061 7373 776f 7264 0673 6563 7265 74", "password: secret\n", (0, 0))]);
    check(4_096, &[("82", ":method: GET\n", (0, 0))]);
}

const REQUESTS: [&str; 3] = [
    "
        :method: GET
        :scheme: http
        :path: /
        :authority: www.example.com
        ",
    "
        :method: GET
        :scheme: http
        :path: /
        :authority: www.example.com
        cache-control: no-cache
        ",
    "
        :method: GET
        :scheme: https
        :path: /index.html
        :authority: www.example.com
        custom-key: custom-value
        ",
];

#[test]
fn requests_of_c_3_and_c_4() {
    check(
        4_096,
        &[
            ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", REQUESTS[0], (1, 57)),
            ("8286 84be 5808 6e6f 2d63 6163 6865", REQUESTS[1], (2, 110)),
            ("8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65", REQUESTS[2], (3, 164)),
        ],
    );
    check(
        4_096,
        &[
            ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", REQUESTS[0], (1, 57)),
            ("8286 84be 5886 a8eb 1064 9cbf", REQUESTS[1], (2, 110)),
            ("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", REQUESTS[2], (3, 164)),
        ],
    );
}

const RESPONSES: [&str; 3] = [
    "
        :status: 302
        cache-control: private
        date: Mon, 21 Oct 2013 20:13:21 GMT
        location: https://www.example.com
        ",
    "
        :status: 307
        cache-control: private
        date: Mon, 21 Oct 2013 20:13:21 GMT
        location: https://www.example.com
        ",
    "
        :status: 200
        cache-control: private
        date: Mon, 21 Oct 2013 20:13:22 GMT
        location: https://www.example.com
        content-encoding: gzip
        set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1
        ",
];

/// In a table of 256 bytes, where each answer evicts.
#[test]
fn responses_of_c_5_and_c_6() {
    check(
        256,
        &[
            (
                "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d 546e 1768 \
                 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                RESPONSES[0],
                (4, 222),
            ),
            ("4803 3330 37c1 c0bf", RESPONSES[1], (4, 222)),
            (
                "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f 6f3d 4153 \
                 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e \
                 3d31",
                RESPONSES[2],
                (3, 215),
            ),
        ],
    );
    check(
        256,
        &[
            (
                "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 \
                 e9ae 82ae 43d3",
                RESPONSES[0],
                (4, 222),
            ),
            ("4883 640e ffc1 c0bf", RESPONSES[1], (4, 222)),
            (
                "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b \
                 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
                RESPONSES[2],
                (3, 215),
            ),
        ],
    );
}

#[test]
fn a_name_may_be_of_the_entry_that_its_field_evicts() {
    // "name: value" counts 41 bytes, and two of them do not fit.
    let mut decoder = Decoder::new(60);
    assert_eq!(fields(&mut decoder, b"\x40\x04name\x05value").map(shown), Ok("name: value\n".into()));
    assert_eq!(fields(&mut decoder, b"\x7e\x05other").map(shown), Ok("name: other\n".into()));
    assert_eq!(shown(table(&mut decoder)), "name: other\n");
    // Here the new one does not fit either, and nothing is left.
    let large = [b"\x7e\x19", &[b'8'; 25][..]].concat();
    assert_eq!(fields(&mut decoder, &large), Ok(vec![(b"name".to_vec(), vec![b'8'; 25])]));
    assert_eq!(table(&mut decoder), []);
    assert_eq!(fields(&mut decoder, b"\xbe"), Err(HpackError::UnknownIndex));
}

#[test]
fn what_fits_exactly_stays() {
    let mut decoder = Decoder::new(41);
    for _ in 0..2 {
        fields(&mut decoder, b"\x40\x04name\x05value").expect("a field");
        assert_eq!(shown(table(&mut decoder)), "name: value\n");
    }
    let mut decoder = Decoder::new(40);
    assert_eq!(fields(&mut decoder, b"\x40\x04name\x05value").map(shown), Ok("name: value\n".into()));
    assert_eq!(table(&mut decoder), []);
}

#[test]
fn the_size_is_updated_before_the_first_field() {
    let mut decoder = Decoder::new(4_096);
    let read = fields(&mut decoder, b"\x40\x04name\x05value\x40\x05other\x03two").expect("two fields");
    assert_eq!(read.len(), 2);
    // To 40: the newest stays. To 0 and back: nothing does.
    assert_eq!(fields(&mut decoder, b"\x3f\x09\xbe").map(shown), Ok("other: two\n".into()));
    assert_eq!(fields(&mut decoder, b"\xbf"), Err(HpackError::UnknownIndex));
    assert_eq!(fields(&mut decoder, b"\x20\x3f\xe1\x1f").map(shown), Ok(String::new()));
    assert_eq!(table(&mut decoder), []);
    // To 4,097, thrice, and after a field.
    assert_eq!(fields(&mut decoder, b"\x3f\xe2\x1f"), Err(HpackError::TableTooLarge));
    assert_eq!(fields(&mut decoder, b"\x20\x20\x20\x82"), Err(HpackError::MisplacedSizeUpdate));
    assert_eq!(fields(&mut decoder, b"\x82\x20"), Err(HpackError::MisplacedSizeUpdate));
    assert_eq!(fields(&mut Decoder::new(0), b"\x20\x82").map(shown), Ok(":method: GET\n".into()));
    assert_eq!(fields(&mut Decoder::new(0), b"\x21\x82"), Err(HpackError::TableTooLarge));
}

#[test]
fn each_error_is_told() {
    let cases: &[(&[u8], HpackError)] = &[
        (b"\x80", HpackError::UnknownIndex),
        (b"\xbe", HpackError::UnknownIndex),
        (b"\x7e\x01a", HpackError::UnknownIndex),
        (b"\x0f\x2f\x01a", HpackError::UnknownIndex),
        (b"\xff\xff\xff\xff\x7f", HpackError::UnknownIndex),
        (b"\xff\xff\xff\xff\xff\x00", HpackError::IntegerTooLarge),
        (b"\xff\x80\x80\x80\x80\x00", HpackError::IntegerTooLarge),
        (b"\x00\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", HpackError::IntegerTooLarge),
        (b"\xff", HpackError::Truncated),
        (b"\xff\xff\xff\xff", HpackError::Truncated),
        (b"\x3f\xe1", HpackError::Truncated),
        (b"\x00", HpackError::Truncated),
        (b"\x00\x02a", HpackError::Truncated),
        (b"\x00\x01a", HpackError::Truncated),
        (b"\x00\x01a\x02b", HpackError::Truncated),
        (b"\x44", HpackError::Truncated),
        (b"\x44\xff\xff\xff\xff\x7f", HpackError::Truncated),
        (b"\x04\x81\x1e", HpackError::WrongPadding),
        (b"\x04\x82\x1f\xff", HpackError::WrongPadding),
        (b"\x04\x84\xff\xff\xff\xff", HpackError::EndOfString),
    ];
    for (block, error) in cases {
        assert_eq!(fields(&mut Decoder::new(4_096), block), Err(*error), "{}", block.escape_ascii());
    }
}

#[test]
fn statuses_and_fields_are_short_where_the_static_table_has_them() {
    for status in 100..1_000u16 {
        let (mut by_status, mut by_field) = (Vec::new(), Vec::new());
        encode_status(status, &mut by_status);
        encode_field(b":status", status.to_string().as_bytes(), &mut by_field);
        assert_eq!(by_status, by_field);
        assert_eq!(fields(&mut Decoder::new(0), &by_status).map(shown), Ok(format!(":status: {status}\n")));
        let is_there = [200, 204, 206, 304, 400, 404, 500].contains(&status);
        assert_eq!(by_status.len(), if is_there { 1 } else { 5 }, "{status}");
    }
    let mut out = Vec::new();
    encode_field(b"content-type", b"application/json", &mut out);
    encode_field(b"accept-encoding", b"gzip, deflate", &mut out);
    encode_field(b"audit-id", b"7", &mut out);
    assert_eq!(out, b"\x0f\x10\x10application/json\x90\x00\x08audit-id\x017");
}

#[test]
fn what_is_large_does_not_stay_with_the_thread() {
    let decode = |length: usize| {
        let coded = huffman::tests::encode(&vec![b'a'; length]);
        let mut block = vec![4, HUFFMAN_CODED | 127];
        encode_integer(coded.len(), 7, &mut block);
        block.splice(1..3, [block[2] | HUFFMAN_CODED]);
        block.extend(coded);
        assert_eq!(fields(&mut Decoder::new(0), &block), Ok(vec![(b":path".to_vec(), vec![b'a'; length])]));
        let scratch = SPARE.take();
        let kept = scratch.value.capacity();
        scratch.spare();
        kept
    };
    assert!((1_000..=SPARE_BYTES_MAX).contains(&decode(1_000)));
    assert_eq!(decode(1 << 20), 0);
}

/// How a random field is written.
#[derive(Clone, Debug)]
enum Written {
    Indexed(Index),
    /// The first byte without its index, the bits of that, and whether name and value are Huffman coded.
    Literal(u8, u32, Name, Vec<u8>, bool),
}

#[derive(Clone, Debug)]
enum Name {
    Indexed(Index),
    Text(Vec<u8>, bool),
}

/// Up to two sizes, and fields.
type Block = (Vec<usize>, Vec<Written>);

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 0..12), "[a-z0-9/.-]{0,40}".prop_map(String::into_bytes), vec(Just(b'x'), 100..300)]
}

fn written() -> impl Strategy<Value = Written> {
    let name =
        prop_oneof![any::<Index>().prop_map(Name::Indexed), (text(), any::<bool>()).prop_map(|(text, coded)| Name::Text(text, coded))];
    let kind = prop_oneof![3 => Just((INSERTED, 6)), 1 => Just((0, 4)), 1 => Just((0x10, 4))];
    let literal = (kind, name, text(), any::<bool>());
    prop_oneof![
        any::<Index>().prop_map(Written::Indexed),
        literal.prop_map(|((first, bits), name, value, coded)| Written::Literal(first, bits, name, value, coded)),
    ]
}

fn blocks(table_bytes_max: usize) -> impl Strategy<Value = Vec<Block>> {
    let sizes = prop_oneof![4 => Just(Vec::new()), 1 => vec(0..=table_bytes_max, 1..=2)];
    vec((sizes, vec(written(), 0..12)), 0..12)
}

/// What a client remembers: the simplest thing that could be right.
struct Model {
    table: Vec<Field>,
    bytes_max: usize,
}

impl Model {
    /// Writes a block, and says what is in it.
    fn write(&mut self, (sizes, fields): &Block) -> (Vec<u8>, Vec<Field>) {
        let mut block = Vec::new();
        for size in sizes {
            put(SIZE_UPDATE, *size, 5, &mut block);
            self.bytes_max = *size;
            self.evict();
        }
        let fields = fields.iter().map(|written| self.write_field(written, &mut block)).collect();
        (block, fields)
    }

    fn write_field(&mut self, written: &Written, block: &mut Vec<u8>) -> Field {
        match written {
            Written::Indexed(index) => {
                let (index, field) = self.entry(index);
                put(INDEXED, index, 7, block);
                field
            }
            Written::Literal(first, bits, name, value, is_coded) => {
                let name = match name {
                    Name::Indexed(index) => {
                        let (index, (name, _)) = self.entry(index);
                        put(*first, index, *bits, block);
                        name
                    }
                    Name::Text(name, is_coded) => {
                        block.push(*first);
                        put_string(name, *is_coded, block);
                        name.clone()
                    }
                };
                put_string(value, *is_coded, block);
                let field = (name, value.clone());
                if *first == INSERTED {
                    self.table.insert(0, field.clone());
                    self.evict();
                }
                field
            }
        }
    }

    /// An index, of the dynamic table in half of all cases if it has some, and its field.
    fn entry(&self, index: &Index) -> (usize, Field) {
        match index.index(2 * self.table.len() + 1) {
            place if place < self.table.len() => (62 + place, self.table[place].clone()),
            _ => {
                let index = 1 + index.index(61);
                let Ok(Found::Static(name, value)) = Table::new(0).at(index) else { unreachable!("it is static") };
                let (name, value) = (name.to_vec(), value.to_vec());
                (index, (name, value))
            }
        }
    }

    fn evict(&mut self) {
        while size(&self.table) > self.bytes_max {
            self.table.pop();
        }
    }
}

fn put(first: u8, value: usize, prefix_bits: u32, block: &mut Vec<u8>) {
    let at = block.len();
    encode_integer(value, prefix_bits, block);
    block[at] |= first;
}

fn put_string(text: &[u8], is_coded: bool, block: &mut Vec<u8>) {
    let coded = if is_coded { huffman::tests::encode(text) } else { text.to_vec() };
    put(if is_coded { HUFFMAN_CODED } else { 0 }, coded.len(), 7, block);
    block.extend(coded);
}

proptest! {
    #[test]
    fn what_is_encoded_comes_back(sent in vec((text(), text()), 0..12), status in 100..1_000u16) {
        let mut block = Vec::new();
        encode_status(status, &mut block);
        sent.iter().for_each(|(name, value)| encode_field(name, value, &mut block));
        let mut decoder = Decoder::new(4_096);
        let read = fields(&mut decoder, &block).expect("ours");
        prop_assert_eq!(&read[0], &(b":status".to_vec(), status.to_string().into_bytes()));
        prop_assert_eq!(&read[1..], sent);
        prop_assert_eq!(table(&mut decoder), []);
    }

    /// Fields in any form that a client may write them, and a table that they fill.
    #[test]
    fn a_client_is_understood((bytes_max, blocks) in (0usize..1_000).prop_flat_map(|bytes_max| (Just(bytes_max), blocks(bytes_max)))) {
        let mut decoder = Decoder::new(bytes_max);
        let mut model = Model { table: Vec::new(), bytes_max };
        for written in blocks {
            let (block, sent) = model.write(&written);
            prop_assert_eq!(fields(&mut decoder, &block), Ok(sent));
            prop_assert_eq!(table(&mut decoder), &model.table[..]);
        }
    }

    /// A block that is cut off has the first of its fields, and may be an error; one with a wrong byte is anything but a panic.
    #[test]
    fn pieces_and_wrong_bytes_do_no_harm(blocks in blocks(300), cut in any::<Index>(), byte in any::<u8>()) {
        let mut model = Model { table: Vec::new(), bytes_max: 300 };
        let blocks: Vec<(Vec<u8>, Vec<Field>)> = blocks.iter().map(|written| model.write(written)).collect();
        for (last, (block, sent)) in blocks.iter().enumerate() {
            let decoder = || {
                let mut decoder = Decoder::new(300);
                blocks[..last].iter().for_each(|(block, _)| decoder.decode(block, |_, _| {}).expect("a valid block"));
                decoder
            };
            let at = cut.index(block.len() + 1);
            let mut read = Vec::new();
            let whole = decoder().decode(&block[..at], |name, value| read.push((name.to_vec(), value.as_ref().to_vec())));
            prop_assert!(sent.starts_with(&read));
            prop_assert!(matches!(whole, Ok(()) | Err(HpackError::Truncated)), "{:?}", whole);
            let mut wrong = block.clone();
            wrong.splice(at.saturating_sub(1)..at, [byte]);
            let mut decoder = decoder();
            let _ = decoder.decode(&wrong, |_, _| {});
            prop_assert!(size(&table(&mut decoder)) <= 300);
        }
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(blocks in vec(any::<Vec<u8>>(), 0..8)) {
        let mut decoder = Decoder::new(200);
        for block in blocks {
            let _ = decoder.decode(&block, |_, _| {});
            prop_assert!(size(&table(&mut decoder)) <= 200);
        }
    }
}
