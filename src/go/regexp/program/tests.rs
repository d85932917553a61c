//! What programs match, beside what Go matches, and what they take.

use proptest::prelude::*;
use serde::Deserialize;

use super::*;

const WORK: usize = 1 << 20;

fn program(pattern: &str) -> Result<Program, String> {
    Program::compile(pattern, &mut { WORK })
}

fn matches(pattern: &str, text: &str) -> bool {
    let program = program(pattern).unwrap_or_else(|why| panic!("{pattern}: {why}"));
    program.matches(text, &mut 1_000_000).unwrap_or_else(|_| panic!("{pattern} {text:?}"))
}

/// Each was given to Go's `regexp.MatchString`.
#[test]
fn what_matches_in_go_matches() {
    for (pattern, text, want) in [
        (r"^\d$", "٣", false),
        (r"^\d$", "3", true),
        (r"^\w+$", "é", false),
        (r"(?i)^\w$", "ſ", true),
        (r"^\s$", "\u{b}", false),
        (r"^\s$", "\u{a0}", false),
        (r"^\S$", "\u{a0}", true),
        ("^{[a-z]+}$", "{ab}", true),
        ("a{,5}", "a{,5}", true),
        ("a{,5}", "aa", false),
        ("a{", "a{", true),
        (r"^\Q.*\E$", ".*", true),
        (r"^\Q.*\E$", "ab", false),
        (r"^\Qab\E+$", "abbb", true),
        (r"^\123$", "S", true),
        (r"^a$", "a\n", false),
        (r"(?m)^a$", "b\na\n", true),
        (r"^.$", "\n", false),
        (r"(?s)^.$", "\n", true),
        (r"^[^a]$", "\n", true),
        (r"\bé", "é", false),
        (r"\Bé", "é", true),
        (r"é\b", "éa", true),
        (r"^(?i)K$", "\u{212a}", true),
        (r"a(?i)b|c", "C", true),
        (r"a(?i)*$", "", true),
        (r"^[a&&b]$", "&", true),
        (r"^[[a]$", "[", true),
        (r"^[+--]$", ",", true),
        (r"^[]a]$", "]", true),
        (r"^[\]a-]$", "-", true),
        (r"^[[:word:]]$", "_", true),
        (r"^[[:^alpha:]]$", "1", true),
        (r"^\p{^Greek}$", "a", true),
        (r"^\P{^Greek}$", "β", true),
        (r"^\pL$", "é", true),
        (r"^[\x{0}-\x{D900}]$", "a", true),
        (r"\x{D800}", "a", false),
        (r"\p{Cs}", "a", false),
        (r"^(?P<n>a)(?<m>b)$", "ab", true),
        (r"^(?:)*$", "", true),
        (r"^*a", "a", true),
        (r"a~#x", "a~#x", true),
        (r"(?i)\Q.\E.", ".x", true),
        (r"^(?:a|bc|)+$", "abca", true),
        (r"^(a?){3}a{3}$", "aaa", true),
        (r"", "", true),
    ] {
        assert_eq!(matches(pattern, text), want, "{pattern} {text:?}");
    }
}

#[test]
fn generated_patterns_match_what_they_match_in_go() {
    #[derive(Deserialize)]
    struct Case<'c>(#[serde(borrow)] std::borrow::Cow<'c, str>, #[serde(borrow)] std::borrow::Cow<'c, str>, bool);
    for line in include_str!("../../../../tests/data/definitions/matches.jsonl").lines() {
        let Case(pattern, text, want) = serde_json::from_str(line).expect("a case");
        assert_eq!(matches(&pattern, &text), want, "{pattern} {text:?}");
    }
}

#[test]
fn what_go_refuses_is_refused_and_depth_has_its_limit() {
    let error = |pattern: &str| program(pattern).err();
    assert_eq!(error("a**").as_deref(), Some("error parsing regexp: invalid nested repetition operator: `**`"));
    let nested = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(error(&nested(999)), None);
    assert!(error(&nested(1_000)).is_some_and(|why| why.starts_with("error parsing regexp: expression nests too deeply: `(((")));
    assert_eq!(error(&"(?:a".repeat(20_000)).map(|why| why.len() > 40), Some(true));
}

#[test]
fn a_class_is_held_once_and_repetitions_are_small() {
    let bytes = |pattern: &str| program(pattern).expect("a pattern").bytes();
    assert!(bytes(r"\pL{1,90}|z1") < 16 << 10, "{}", bytes(r"\pL{1,90}|z1"));
    assert!(bytes(r"(\pL{900}\pN{900}){1}") < 64 << 10);
}

#[test]
fn what_is_too_large_is_refused_for_little_work() {
    let classes = || (0..4_000_u32).map(|i| format!(r"[\pL\x{{{:x}}}]", 0x1_0000 + i)).collect::<String>();
    let folds = || (0..2_000_u32).map(|i| format!(r"(?i)[\x{{0}}-\x{{1{i:04x}}}]")).collect::<String>();
    for pattern in ["(?:abcdefghij){1000}".repeat(90), classes(), folds(), "(a|b){1000}".repeat(2_000), "a".repeat(PATTERN_BYTES_MAX + 1)] {
        let mut work = WORK;
        let why = Program::compile(&pattern, &mut work).err().unwrap_or_default();
        assert!(why.starts_with("error parsing regexp: expression too large: `"), "{:.60}: {why:.60}", pattern);
    }
}

#[test]
fn steps_are_counted() {
    let program = program("(a?){500}a{500}").expect("a pattern");
    let text = "a".repeat(499);
    assert_eq!(program.matches(&text, &mut 10_000), Err(TooManySteps));
    let mut steps = 10_000_000;
    assert_eq!(program.matches(&text, &mut steps), Ok(false));
    assert!(steps < 9_800_000);
    assert_eq!(super::Program::compile("^a", &mut { WORK }).expect("a pattern").matches(&"b".repeat(1 << 20), &mut 100), Ok(false));
}

proptest! {
    #[test]
    fn every_text_is_a_program_or_none(
        text in any::<String>(), likely in r"[-a|()\[\]{}*+?^$.\\:&~<>PpLdQEis019,é]{0,40}", subject in any::<String>()
    ) {
        for pattern in [text, likely] {
            let made = program(&pattern);
            prop_assert_eq!(made.is_err(), super::super::wrong(&pattern).is_some(), "{}", pattern);
            if let Ok(program) = made {
                let _ = program.matches(&subject, &mut 100_000);
            }
        }
    }
}
