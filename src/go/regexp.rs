//! The syntax of Go's regular expressions, in which a schema writes a `pattern`: whether one can be compiled, and in Go's words why not; and programs that
//! match texts.
//!
//! Follows `regexp/syntax` of Go 1.26 step by step, for its errors show what it had read. Limits of depth and size are those of `Program::compile`.

mod classes;
mod parts;
mod program;

pub use program::{COMPILED_BYTES_MAX, PATTERNS_BYTES_MAX, Program, TooManySteps};

/// More copies than this of one part, all repetitions around it together, are refused.
const COPIES_MAX: u32 = 1_000;

const CHAR_RANGE: &str = "invalid character class range";
const ESCAPE: &str = "invalid escape sequence";
const NAMED_CAPTURE: &str = "invalid named capture";
const PERL: &str = "invalid or unsupported Perl syntax";
const REPEAT_OPERATOR: &str = "invalid nested repetition operator";
const REPEAT_SIZE: &str = "invalid repeat count";
const NO_BRACKET: &str = "missing closing ]";
const NO_PAREN: &str = "missing closing )";
const NO_OPERAND: &str = "missing argument to repetition operator";
const TRAILING: &str = "trailing backslash at end of expression";
const PAREN: &str = "unexpected )";

/// Why Go's `regexp.Compile` would refuse this; nothing when it would not.
pub fn wrong(pattern: &str) -> Option<String> {
    let mut parser = Parser { whole: pattern, rest: pattern, outer: Vec::new(), group: Group::default() };
    let Err(Wrong(what, part)) = parser.parse() else { return None };
    Some(format!("error parsing regexp: {what}: `{part}`"))
}

/// What is wrong, and the part of the pattern that Go shows.
struct Wrong<'p>(&'static str, &'p str);

struct Parser<'p> {
    whole: &'p str,
    rest: &'p str,
    /// The groups around the one that is open.
    outer: Vec<Group>,
    group: Group,
}

/// What a repetition must know of a group: the copies that repetitions inside of its parts come to, 0 where there is none.
#[derive(Default)]
struct Group {
    /// Those of the last part, which may be repeated; none at the beginning and after a bar.
    operand: Option<u32>,
    /// The most of any part before it.
    copies: u32,
}

impl Group {
    fn end_operand(&mut self) {
        self.copies = self.copies.max(self.operand.take().unwrap_or(0));
    }
}

impl<'p> Parser<'p> {
    fn parse(&mut self) -> Result<(), Wrong<'p>> {
        let mut last_repeat = "";
        while let Some(next) = self.rest.chars().next() {
            let before = self.rest;
            let mut repeat = "";
            match next {
                '(' if before.starts_with("(?") => self.perl_group()?,
                '(' => self.open(&before[1..]),
                '|' => {
                    self.group.end_operand();
                    self.rest = &before[1..];
                }
                ')' => self.close()?,
                '[' => {
                    let rest = class(before)?;
                    self.part(rest);
                }
                '*' | '+' | '?' => {
                    self.repeat(None, &before[1..], last_repeat)?;
                    repeat = before;
                }
                '{' if let Some((counts, after)) = Counts::read(before) => {
                    if !counts.are_valid() {
                        return Err(Wrong(REPEAT_SIZE, until(before, after)));
                    }
                    self.repeat(Some(counts), after, last_repeat)?;
                    repeat = before;
                }
                '\\' => self.escape()?,
                literal => self.part(&before[literal.len_utf8()..]),
            }
            last_repeat = repeat;
        }
        if self.outer.is_empty() { Ok(()) } else { Err(Wrong(NO_PAREN, self.whole)) }
    }

    /// A part ends here that nothing inside of it repeats.
    fn part(&mut self, rest: &'p str) {
        self.group.end_operand();
        self.group.operand = Some(0);
        self.rest = rest;
    }

    fn open(&mut self, rest: &'p str) {
        self.outer.push(std::mem::take(&mut self.group));
        self.rest = rest;
    }

    fn close(&mut self) -> Result<(), Wrong<'p>> {
        let Some(outer) = self.outer.pop() else { return Err(Wrong(PAREN, self.whole)) };
        let mut inner = std::mem::replace(&mut self.group, outer);
        inner.end_operand();
        self.part(&self.rest[1..]);
        self.group.operand = Some(inner.copies);
        Ok(())
    }

    /// A repetition of the last part, up to `after`: without counts `*`, `+` or `?`. `last`: what follows from the repetition right before it.
    fn repeat(&mut self, counts: Option<Counts>, after: &'p str, last: &'p str) -> Result<(), Wrong<'p>> {
        let before = self.rest;
        let after = after.strip_prefix('?').unwrap_or(after);
        if !last.is_empty() {
            return Err(Wrong(REPEAT_OPERATOR, until(last, after)));
        }
        let Some(copies) = self.group.operand else { return Err(Wrong(NO_OPERAND, until(before, after))) };
        if let Some(counts) = counts {
            let copies = counts.copies(copies);
            if copies > COPIES_MAX {
                return Err(Wrong(REPEAT_SIZE, until(before, after)));
            }
            self.group.operand = Some(copies);
        }
        self.rest = after;
        Ok(())
    }

    /// What begins with `(?`: a group with a name or without a number, or flags, which change nothing in the syntax.
    fn perl_group(&mut self) -> Result<(), Wrong<'p>> {
        let whole = self.rest;
        let name_at = match whole.as_bytes() {
            [_, _, b'P', b'<', _, ..] => Some(4),
            [_, _, b'<', _, ..] => Some(3),
            _ => None,
        };
        if let Some(at) = name_at {
            let Some(end) = whole.find('>') else { return Err(Wrong(NAMED_CAPTURE, whole)) };
            let name = &whole[at..end];
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                return Err(Wrong(NAMED_CAPTURE, &whole[..=end]));
            }
            self.open(&whole[end + 1..]);
            return Ok(());
        }
        let mut rest = &whole[2..];
        let (mut negated, mut flagged) = (false, false);
        while let Some(next) = rest.chars().next() {
            rest = &rest[next.len_utf8()..];
            match next {
                'i' | 'm' | 's' | 'U' => flagged = true,
                '-' if !negated => (negated, flagged) = (true, false),
                ':' if flagged || !negated => {
                    self.open(rest);
                    return Ok(());
                }
                ')' if flagged || !negated => {
                    self.rest = rest;
                    return Ok(());
                }
                _ => break,
            }
        }
        Err(Wrong(PERL, until(whole, rest)))
    }

    fn escape(&mut self) -> Result<(), Wrong<'p>> {
        let whole = self.rest;
        match whole.as_bytes().get(1) {
            Some(b'A' | b'b' | b'B' | b'z') => self.part(&whole[2..]),
            Some(b'C') => return Err(Wrong(ESCAPE, &whole[..2])),
            Some(b'Q') => {
                let (literal, rest) = whole[2..].split_once("\\E").unwrap_or((&whole[2..], ""));
                if literal.is_empty() {
                    self.rest = rest;
                } else {
                    self.part(rest);
                }
            }
            _ => {
                let rest = match named_class(whole)? {
                    Some(rest) => rest,
                    None => escaped(whole)?.1,
                };
                self.part(rest);
            }
        }
        Ok(())
    }
}

/// The counts of a repetition, `{1,3}`; what is too large for it is above `COPIES_MAX` all the same.
#[derive(Clone, Copy, Debug)]
struct Counts {
    least: u32,
    /// None: no end.
    most: Option<u32>,
}

impl Counts {
    /// Those at the beginning, and what follows; without a proper form the brace is a character like others.
    fn read(text: &str) -> Option<(Self, &str)> {
        let (least, rest) = number(text.strip_prefix('{')?)?;
        let (most, rest) = match rest.strip_prefix(',') {
            None => (Some(least), rest),
            Some(rest) if rest.starts_with('}') => (None, rest),
            Some(rest) => number(rest).map(|(most, rest)| (Some(most), rest))?,
        };
        Some((Self { least, most }, rest.strip_prefix('}')?))
    }

    fn are_valid(self) -> bool {
        self.least <= COPIES_MAX && self.most.is_none_or(|most| most <= COPIES_MAX && self.least <= most)
    }

    /// The copies of a part that has so many already.
    fn copies(self, inner: u32) -> u32 {
        match self.most.unwrap_or(self.least) {
            0 if self.most.is_some() => 0,
            0 => inner,
            times => times * inner.max(1),
        }
    }
}

/// A decimal number without leading zeros.
fn number(text: &str) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    let is_number = digits.len() == 1 || !digits.starts_with('0');
    (is_number && !digits.is_empty()).then(|| (digits.parse().unwrap_or(u32::MAX), rest))
}

/// The rest after a class in brackets.
fn class(whole: &str) -> Result<&str, Wrong<'_>> {
    let inside = &whole[1..];
    let mut rest = inside.strip_prefix('^').unwrap_or(inside);
    let mut first = true;
    while first || !rest.starts_with(']') {
        first = false;
        if let Some(after) = posix_class(rest)? {
            rest = after;
            continue;
        }
        if let Some(after) = named_class(rest)? {
            rest = after;
            continue;
        }
        let range = rest;
        let (low, after) = class_char(rest, whole)?;
        rest = after;
        let Some(after) = rest.strip_prefix('-').filter(|after| !after.is_empty() && !after.starts_with(']')) else { continue };
        let (high, after) = class_char(after, whole)?;
        rest = after;
        if high < low {
            return Err(Wrong(CHAR_RANGE, until(range, rest)));
        }
    }
    Ok(&rest[1..])
}

/// The rest after `[:alpha:]`, if there is such a thing.
fn posix_class(text: &str) -> Result<Option<&str>, Wrong<'_>> {
    const NAMES: [&str; 14] =
        ["alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word", "xdigit"];
    let Some((name, rest)) = text.strip_prefix("[:").and_then(|inside| inside.split_once(":]")) else { return Ok(None) };
    if NAMES.contains(&name.strip_prefix('^').unwrap_or(name)) { Ok(Some(rest)) } else { Err(Wrong(CHAR_RANGE, until(text, rest))) }
}

/// The rest after `\d` or `\p{Greek}`, if there is such a thing.
fn named_class(text: &str) -> Result<Option<&str>, Wrong<'_>> {
    match text.as_bytes() {
        [b'\\', b'd' | b'D' | b's' | b'S' | b'w' | b'W', ..] => return Ok(Some(&text[2..])),
        [b'\\', b'p' | b'P', ..] => {}
        _ => return Ok(None),
    }
    let (name, rest) = match text[2..].strip_prefix('{') {
        Some(inside) => inside.split_once('}').ok_or(Wrong(CHAR_RANGE, text))?,
        None => text[2..].split_at(text[2..].chars().next().map_or(0, char::len_utf8)),
    };
    if is_unicode_class(name.strip_prefix('^').unwrap_or(name)) { Ok(Some(rest)) } else { Err(Wrong(CHAR_RANGE, until(text, rest))) }
}

/// One character of a class in brackets, and the rest.
fn class_char<'p>(text: &'p str, class: &'p str) -> Result<(u32, &'p str), Wrong<'p>> {
    match text.chars().next() {
        None => Err(Wrong(NO_BRACKET, class)),
        Some('\\') => escaped(text),
        Some(other) => Ok((other.into(), &text[other.len_utf8()..])),
    }
}

/// The character that an escape at the beginning stands for, and the rest.
fn escaped(whole: &str) -> Result<(u32, &str), Wrong<'_>> {
    let mut chars = whole[1..].chars();
    let Some(first) = chars.next() else { return Err(Wrong(TRAILING, "")) };
    let octal = |chars: &std::str::Chars<'_>| chars.as_str().bytes().next().is_some_and(|b| matches!(b, b'0'..=b'7'));
    let value = match first {
        '0'..='7' if first == '0' || octal(&chars) => {
            let mut value = u32::from(first) - u32::from('0');
            for _ in 0..2 {
                if octal(&chars) {
                    value = value * 8 + chars.next().and_then(|digit| digit.to_digit(8)).unwrap_or(0);
                }
            }
            Some(value)
        }
        'x' => hexadecimal(&mut chars),
        'a' => Some(0x07),
        'f' => Some(0x0c),
        'n' => Some(0x0a),
        'r' => Some(0x0d),
        't' => Some(0x09),
        'v' => Some(0x0b),
        other => Some(other.into()).filter(|_| other.is_ascii() && !other.is_ascii_alphanumeric()),
    };
    value.map(|value| (value, chars.as_str())).ok_or_else(|| Wrong(ESCAPE, until(whole, chars.as_str())))
}

/// What follows `\x`: two digits, or any number of them in braces. Stops behind the first character that does not fit.
fn hexadecimal(chars: &mut std::str::Chars<'_>) -> Option<u32> {
    let first = chars.next()?;
    if first != '{' {
        // Both are read before either is looked at.
        let second = chars.next();
        return Some(first.to_digit(16)? * 16 + second?.to_digit(16)?);
    }
    let mut value = None;
    loop {
        match chars.next()? {
            '}' => return value,
            digit => value = Some(value.unwrap_or(0) * 16 + digit.to_digit(16)?).filter(|value| *value <= char::MAX.into()),
        }
        value?;
    }
}

/// What is in `whole` before `rest`, its end.
fn until<'p>(whole: &'p str, rest: &str) -> &'p str {
    &whole[..whole.len() - rest.len()]
}

/// Whether Go has a table of this name: a category, its long name, or a script. Separators and case do not count; so scripts of several words, which
/// Go's table has with a separator, are not found.
fn is_unicode_class(name: &str) -> bool {
    let mut canonical: String = name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).collect();
    canonical.make_ascii_lowercase();
    if let Some(first) = canonical.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    UNICODE_CLASSES.split(' ').any(|known| known == canonical) && !canonical.is_empty()
}

/// `Categories`, `Scripts` and `CategoryAliases` of Go's package `unicode` (Unicode 15.0), as far as their names are found.
const UNICODE_CLASSES: &str = "\
    Adlam Ahom Any Arabic Armenian Ascii Assigned Avestan Balinese Bamum Batak Bengali Bhaiksuki Bopomofo Brahmi Braille Buginese \
    Buhid C Carian Casedletter Cc Cf Chakma Cham Cherokee Chorasmian Closepunctuation Cn Cntrl Co Combiningmark Common \
    Connectorpunctuation Control Coptic Cs Cuneiform Currencysymbol Cypriot Cyrillic Dashpunctuation Decimalnumber Deseret Devanagari \
    Digit Dogra Duployan Elbasan Elymaic Enclosingmark Ethiopic Finalpunctuation Format Georgian Glagolitic Gothic Grantha Greek \
    Gujarati Gurmukhi Han Hangul Hanunoo Hatran Hebrew Hiragana Inherited Initialpunctuation Javanese Kaithi Kannada Katakana Kawi \
    Kharoshthi Khmer Khojki Khudawadi L Lao Latin Lc Lepcha Letter Letternumber Limbu Lineseparator Lisu Ll Lm Lo Lowercaseletter Lt \
    Lu Lycian Lydian M Mahajani Makasar Malayalam Mandaic Manichaean Marchen Mark Mathsymbol Mc Me Medefaidrin Miao Mn Modi \
    Modifierletter Modifiersymbol Mongolian Mro Multani Myanmar N Nabataean Nandinagari Nd Newa Nko Nl No Nonspacingmark Number Nushu \
    Ogham Openpunctuation Oriya Osage Osmanya Other Otherletter Othernumber Otherpunctuation Othersymbol P Palmyrene \
    Paragraphseparator Pc Pd Pe Pf Phoenician Pi Po Privateuse Ps Punct Punctuation Rejang Runic S Samaritan Saurashtra Sc Separator \
    Sharada Shavian Siddham Sinhala Sk Sm So Sogdian Soyombo Spaceseparator Spacingmark Sundanese Surrogate Symbol Syriac Tagalog \
    Tagbanwa Takri Tamil Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Titlecaseletter Toto Ugaritic Unassigned \
    Uppercaseletter Vai Vithkuqi Wancho Yezidi Yi Z Zl Zp Zs";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Each was given to Go's `regexp.Compile`; the second column is its error.
    #[test]
    fn what_go_refuses_is_refused_in_its_words() {
        for line in include_str!("../../tests/data/definitions/patterns.txt").lines() {
            let (pattern, error) = line.split_once('\t').expect("two columns");
            assert_eq!(wrong(pattern).unwrap_or_default(), error, "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn every_text_is_a_pattern_or_none(text in any::<String>(), likely in r"[-a|()\[\]{}*+?^$.\\:<>PpdQExi019,é]{0,40}") {
            for pattern in [text, likely] {
                let _ = wrong(&pattern);
            }
        }
    }
}
