//! Shard selectors and what becomes of them; the texts were recorded from kube-apiserver 1.36.3 with `ShardedListAndWatch=true`.

use proptest::prelude::*;

use super::*;
use crate::test_object_of;

/// Stand for what a selector mostly is; `{R}` is the whole range below 2^63.
fn spelled(text: &str) -> String {
    text.replace("{R}", "shardRange({U}, {H}, {M})")
        .replace("{U}", UID)
        .replace("{H}", "'0x0000000000000000'")
        .replace("{M}", "'0x8000000000000000'")
        .replace(
            "{EXPR}",
            "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
        )
}

#[test]
fn every_spelling_is_shown_alike() {
    for (text, shown) in [
        ("{R}", "{R}"),
        ("  {R}\u{a0}", "{R}"),
        ("shardRange( {U} ,{H},{M} )", "{R}"),
        ("\nshardRange (object . metadata . uid,\n{H},{M}) // c", "{R}"),
        ("shardRange({U}, \"0x0000000000000000\", '''0x8000000000000000''')", "{R}"),
        ("shardRange({U}, r{H}, '\\x30x8\\u0030\\0600000000000000')", "{R}"),
        ("(({R}))", "{R}"),
        ("shardRange((object).metadata.uid, {H}, {M})", "{R}"),
        ("a.b.shardRange({U}, {H}, {M})", "{R}"),
        ("shardRange({U}, {M}, '0x10000000000000000')||{R}", "shardRange({U}, {M}, '0x10000000000000000') || {R}"),
        ("{R} || ({R} || {R})", "{R} || {R} || {R}"),
        (
            "shardRange(object.metadata.namespace, {H}, '0x800000000000000a')",
            "shardRange(object.metadata.namespace, {H}, '0x800000000000000a')",
        ),
    ] {
        let shard = Shard::parse(&spelled(text)).unwrap_or_else(|why| panic!("{text}: {why}"));
        assert_eq!(shard.to_string(), spelled(shown), "{text}");
        assert_eq!(Shard::parse(&shard.to_string()), Ok(shard), "{text}");
    }
}

#[test]
fn what_is_no_range_is_refused_in_the_words_of_the_real_server() {
    for (text, why) in [
        ("  ", "empty shard selector is not allowed; omit the parameter for unfiltered lists"),
        ("bogus", "unexpected expression kind 3; expected shardRange() call or || operator"),
        ("[1]", "unexpected expression kind 4; expected shardRange() call or || operator"),
        ("-1", "unexpected expression kind 5; expected shardRange() call or || operator"),
        ("b'a'", "unexpected expression kind 5; expected shardRange() call or || operator"),
        ("{R} || true", "unexpected expression kind 5; expected shardRange() call or || operator"),
        ("{'a': 1}", "unexpected expression kind 6; expected shardRange() call or || operator"),
        ("a.b(1).c", "unexpected expression kind 7; expected shardRange() call or || operator"),
        ("a.Foo{b: 1}", "unexpected expression kind 8; expected shardRange() call or || operator"),
        ("!!x", "unexpected expression kind 3; expected shardRange() call or || operator"),
        ("shardRange()", "shardRange() requires exactly 3 arguments, got 0"),
        ("{R} || shardRange({U}, {H})", "shardRange() requires exactly 3 arguments, got 2"),
        ("ShardRange({U}, {H}, {M})", "unsupported function \"ShardRange\"; only shardRange() and || are allowed"),
        (".shardRange({U}, {H}, {M})", "unsupported function \".shardRange\"; only shardRange() and || are allowed"),
        ("{R} && {R}", "unsupported function \"_&&_\"; only shardRange() and || are allowed"),
        ("{R} && a || {R}", "unsupported function \"_&&_\"; only shardRange() and || are allowed"),
        ("!{R}", "unsupported function \"!_\"; only shardRange() and || are allowed"),
        ("-x", "unsupported function \"-_\"; only shardRange() and || are allowed"),
        ("x in y", "unsupported function \"@in\"; only shardRange() and || are allowed"),
        ("a <= b", "unsupported function \"_<=_\"; only shardRange() and || are allowed"),
        ("a ? b : c", "unsupported function \"_?_:_\"; only shardRange() and || are allowed"),
        ("a[0]", "unsupported function \"_[_]\"; only shardRange() and || are allowed"),
        (
            "shardRange(metadata.uid, {H}, {M})",
            "unsupported field path \"metadata.uid\"; supported: object.metadata.uid, object.metadata.namespace",
        ),
        (
            "shardRange(.object.metadata.uid, {H}, {M})",
            "unsupported field path \".object.metadata.uid\"; supported: object.metadata.uid, object.metadata.namespace",
        ),
        (
            "shardRange('{U}', {H}, {M})",
            "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind 5",
        ),
        (
            "shardRange(object.metadata['uid'], {H}, {M})",
            "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind 1",
        ),
        (
            "{R} || shardRange(object.metadata.namespace, {H}, {M})",
            "all shard ranges must use the same field, got \"object.metadata.uid\" and \"object.metadata.namespace\"",
        ),
    ] {
        assert_eq!(Shard::parse(&spelled(text)), Err(why.to_owned()), "{text}");
    }
}

#[test]
fn bounds_are_sixteen_digits() {
    for (start, end, why) in [
        ("{M}", "{H}", "shard range start 0x8000000000000000 must be less than end 0x0000000000000000"),
        ("{H}", "{H}", "shard range start 0x0000000000000000 must be less than end 0x0000000000000000"),
        (
            "'0x10000000000000000'",
            "'0x10000000000000000'",
            "shard range start 0x10000000000000000 must be less than end 0x10000000000000000",
        ),
        ("'0x0'", "{M}", "hexStart must be a 0x-prefixed 16-digit hex value, got \"0x0\" (did you mean \"0x0000000000000000\"?)"),
        ("{H}", "'0x7'", "hexEnd must be a 0x-prefixed 16-digit hex value, got \"0x7\" (did you mean \"0x0000000000000007\"?)"),
        ("'0000000000000000'", "{M}", "hexStart must have '0x' prefix, got \"0000000000000000\""),
        ("'0X0000000000000000'", "{M}", "hexStart must have '0x' prefix, got \"0X0000000000000000\""),
        ("{H}", "''", "hexEnd must have '0x' prefix, got \"\""),
        ("'0x'", "{M}", "hexStart: hex value is required after '0x'"),
        ("'0x000000000000000G'", "{M}", "hexStart: invalid hex character \"G\" in \"0x000000000000000G\""),
        ("{H}", "'0x800000000000000A'", "hexEnd: invalid hex character \"A\" in \"0x800000000000000A\""),
        ("'0x00000000é0000000'", "{M}", "hexStart: invalid hex character \"é\" in \"0x00000000é0000000\""),
        ("'0x1\"'", "{M}", "hexStart: invalid hex character \"\\\"\" in \"0x1\\\"\""),
        ("{H}", "'0x10000000000000001'", "hexEnd: 17-digit hex value must be '0x10000000000000000' (2^64), got \"0x10000000000000001\""),
        ("{H}", "'0x100000000000000000'", "hexEnd: hex value too long (18 chars, max 17): \"100000000000000000\""),
        ("1", "2", "hexStart must be a string literal, got int64"),
        ("-1", "{M}", "hexStart must be a string literal, got int64"),
        ("1u", "{M}", "hexStart must be a string literal, got uint64"),
        ("1.5", "{M}", "hexStart must be a string literal, got float64"),
        ("true", "{M}", "hexStart must be a string literal, got bool"),
        ("null", "{M}", "hexStart must be a string literal, got structpb.NullValue"),
        ("r{H}", "b{M}", "hexEnd must be a string literal, got []uint8"),
        ("a", "{M}", "hexStart must be a string literal (e.g. '0xff'), got expression kind 3"),
        ("{H}", "'0x8'+'000'", "hexEnd must be a string literal (e.g. '0xff'), got expression kind 1"),
    ] {
        let text = format!("shardRange({UID}, {start}, {end})");
        assert_eq!(Shard::parse(&spelled(&text)), Err(why.to_owned()), "{text}");
    }
}

#[test]
fn what_is_no_expression_is_refused_in_the_words_of_the_real_server() {
    for (text, why) in [
        ("shardRange({U}, 0x0000000000000000, 0x8000000000000000)", "invalid int literal"),
        ("9223372036854775808", "invalid int literal"),
        ("if", "reserved identifier: if"),
        ("a[?b]", "unsupported syntax '[?'"),
        ("shardRange(object.metadata.?uid, {H}, {M})", "unsupported syntax '.?'"),
        ("{R} || ", "Syntax error: mismatched input '<EOF>' expecting {EXPR}"),
        ("// only", "Syntax error: mismatched input '<EOF>' expecting {EXPR}"),
        ("in", "Syntax error: mismatched input 'in' expecting {EXPR}"),
        ("shardRange(a,)", "Syntax error: mismatched input ')' expecting {EXPR}"),
        (" || {R}", "Syntax error: extraneous input '||' expecting {EXPR}"),
        ("a || || b", "Syntax error: extraneous input '||' expecting {EXPR}"),
        ("{R})", "Syntax error: extraneous input ')' expecting <EOF>"),
        ("{R},", "Syntax error: extraneous input ',' expecting <EOF>"),
        ("0xg", "Syntax error: extraneous input 'xg' expecting <EOF>"),
        ("a.1", "Syntax error: extraneous input '.1' expecting <EOF>"),
        ("'a' 'b'", "Syntax error: extraneous input ''b'' expecting <EOF>"),
        ("{R} {R}", "Syntax error: mismatched input 'shardRange' expecting <EOF>"),
        ("shardRange(a b)", "Syntax error: extraneous input 'b' expecting ')'"),
        ("shardRange({U}, {H}, {M}", "Syntax error: missing ')' at '<EOF>'"),
        ("a[1", "Syntax error: missing ']' at '<EOF>'"),
        ("a?.b", "Syntax error: mismatched input '<EOF>' expecting ':'"),
        ("a.", "Syntax error: no viable alternative at input '.'"),
        ("a.'b'", "Syntax error: no viable alternative at input '.'b''"),
        ("a.in", "Syntax error: no viable alternative at input '.in'"),
        ("{R} | {R}", "Syntax error: token recognition error at: '| '"),
        ("a # b", "Syntax error: token recognition error at: '#'"),
        ("aaaaaé(", "Syntax error: token recognition error at: 'é'"),
        ("'unclosed", "Syntax error: token recognition error at: ''unclosed'"),
        ("'a\\q'", "Syntax error: token recognition error at: ''a\\q'"),
        ("'a\nb'", "Syntax error: token recognition error at: ''a\n'"),
    ] {
        assert_eq!(Shard::parse(&spelled(text)), Err(format!("CEL parse error: {}", spelled(why))), "{text}");
    }
    for deep in ["(".repeat(300) + "a" + &")".repeat(300), "[".repeat(100_000), "-(".repeat(100_000)] {
        assert_eq!(Shard::parse(&deep), Err("CEL parse error: expression recursion limit exceeded: 250".to_owned()));
    }
    // Brackets around members made 14,000 expressions inside of each other.
    let bracketed = |members: &str| "(".repeat(100) + "a" + &members.repeat(100);
    for deep in ["a.".repeat(300), bracketed(&(".b".repeat(100) + ")")), bracketed(".b.b)")] {
        assert_eq!(Shard::parse(&deep), Err("CEL parse error: max recursion depth exceeded".to_owned()));
    }
    assert_eq!(
        Shard::parse(&bracketed(".b)")),
        Err("unexpected expression kind 7; expected shardRange() call or || operator".to_owned()),
        "as deep as without brackets"
    );
    assert!(Shard::parse(&vec![spelled("{R}"); 900].join(" || ")).is_ok());
}

/// Recorded: six ConfigMaps, of which the lower half had these.
#[test]
fn hashes_are_those_of_the_real_server() {
    let lower = Shard::parse(&spelled("{R}")).expect("a shard");
    for (uid, hashed, is_lower) in [
        ("1797abea-ee19-4d36-ba63-639a7d45e51e", 0xfc60_b18d_c809_79ce, false),
        ("1bfc8ce9-47b5-4ed6-9a6e-bec3999d27a3", 0x1653_ab6b_e43d_eeb1, true),
        ("81833351-3446-4419-8036-ebd7802e5b68", 0x0c23_3b25_27a1_92e3, true),
        ("b3586cfa-527b-494b-b8f4-be42304e0fd3", 0x8182_9f46_e448_cc8a, false),
        ("a0d9aba1-9ae9-4649-883a-683b5f6be26f", 0x34b3_ad3e_18c7_bd04, true),
        ("fbf27880-e62e-4984-9356-16b8fefffa9b", 0x0510_e92e_311d_6878, true),
    ] {
        assert_eq!(hash(uid), hashed, "{uid}");
        assert_eq!(lower.matches(&of(uid)), is_lower, "{uid}");
    }
    // A namespace "t", and no namespace at all, are in the upper half.
    assert_eq!((hash("t"), hash("")), (0xaf63_e94c_8602_02a3, 0xcbf2_9ce4_8422_2325));
}

fn of(uid: &str) -> Object {
    hashed(hash(uid))
}

fn hashed(uid_hash: u64) -> Object {
    let mut object = test_object_of("/registry/configmaps/t/a", 1, &[], &[]);
    object.uid_hash = uid_hash;
    object
}

fn part(field: Field, from: u64, to: Option<u64>) -> Option<Shard> {
    (to.is_none_or(|to| from < to)).then(|| Shard::of(field, Box::new([Range { start: from, end: to }])))
}

proptest! {
    /// Wherever the hashes are cut, every object is in exactly one part, and the parts survive being written and read.
    #[test]
    fn parts_make_a_whole(uid in "[0-9a-f-]{0,36}", mut cuts in prop::collection::vec(any::<u64>(), 0..6)) {
        let object = of(&uid);
        cuts.sort_unstable();
        for field in [Field::Uid, Field::Namespace] {
            let starts = std::iter::once(0).chain(cuts.iter().copied());
            let ends = cuts.iter().copied().map(Some).chain([None]);
            let parts: Vec<Shard> = starts.zip(ends).filter_map(|(from, to)| part(field, from, to)).collect();
            prop_assert_eq!(parts.iter().filter(|part| part.matches(&object)).count(), 1);
            let all: Vec<String> = parts.iter().map(ToString::to_string).collect();
            let whole = Shard::parse(&all.join(" || "));
            prop_assert!(whole.as_ref().is_ok_and(|whole| whole.matches(&object)));
            prop_assert_eq!(whole.map(|whole| whole.ranges.len()), Ok(parts.len()));
        }
    }

    /// Ranges may overlap, touch, repeat and stand in any order.
    #[test]
    fn a_hash_is_in_the_shard_when_it_is_in_one_of_its_ranges(
        ranges in prop::collection::vec((0_u64..40, prop::option::weighted(0.9, 0_u64..40)), 1..12),
    ) {
        let near_the_end = |n: u64| if n < 30 { n } else { u64::MAX - (40 - n) };
        let ranges: Vec<Range> = ranges.into_iter()
            .map(|(start, end)| Range { start: near_the_end(start), end: end.map(near_the_end) })
            .filter(|range| range.end.is_none_or(|end| range.start < end))
            .collect();
        let shard = Shard::of(Field::Uid, ranges.iter().copied().collect());
        for hash in (0..32).chain(u64::MAX - 12..=u64::MAX) {
            let object = hashed(hash);
            let plain = ranges.iter().any(|range| range.start <= hash && range.end.is_none_or(|end| hash < end));
            prop_assert_eq!(shard.matches(&object), plain, "{:?} {}", ranges, hash);
        }
    }

    #[test]
    fn every_text_is_read_or_refused(text in any::<String>()) {
        let _ = Shard::parse(&text);
    }

    #[test]
    fn every_likely_text_is_read_or_refused(pieces in prop::collection::vec(prop::sample::select(vec![
        "shardRange", "(", ")", "object.metadata.uid", ",", "'0x0000000000000000'", "'0x10000000000000000'", "||", "&&", "!", "-", "1", ".5",
        "0x", "e", "r'", "'", "\"", "\\x4", "\\", "[", "]", "{", "}", ":", "?", ".", " ", "é", "//", "\n", "in", "|", "b'''",
    ]), 0..24)) {
        let text = pieces.concat();
        if let Ok(shard) = Shard::parse(&text) {
            prop_assert_eq!(Shard::parse(&shard.to_string()), Ok(shard));
        }
    }
}
