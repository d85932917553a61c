//! An event with symbols for what no two runs have in common: times, ids, revisions, generated names, tokens, addresses. Everything else stays byte for byte.

/// The line of an event, comparable.
pub(super) fn symbolic(line: &str) -> String {
    let mut text = without_managed_fields(line);
    for (before, symbol, fits) in SYMBOLS {
        text = replaced(&text, before, symbol, *fits);
    }
    ages(&text)
}

/// How many bytes of a text belong to what a symbol stands for; none when it is something else.
type Fits = fn(&str) -> Option<usize>;

/// What stands before it, the symbol, and how long it is.
const SYMBOLS: &[(&str, &str, Fits)] = &[
    ("20", "$time", time),
    ("", "$uid", uid),
    ("\"resourceVersion\":\"", "$revision", revision),
    ("\"continue\":\"", "$continue", |text| text.find('"').filter(|end| *end > 0)),
    ("gen-", "$name", |text| text.get(..5).filter(|name| name.bytes().all(|c| c.is_ascii_alphanumeric())).map(str::len)),
    ("eyJ", "$token", |text| text.find(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c)))),
    ("127.0.0.1:", "$port", |text| Some(text.bytes().take_while(u8::is_ascii_digit).count()).filter(|digits| *digits > 0)),
];

/// Replaces what follows each `before`, where it fits.
fn replaced(text: &str, before: &str, symbol: &str, fits: Fits) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(before)
            && let Some(bytes) = fits(after)
        {
            out.push_str(before);
            out.push_str(symbol);
            rest = &after[bytes..];
            continue;
        }
        let next = rest.chars().next().map_or(0, char::len_utf8);
        out.push_str(&rest[..next]);
        rest = &rest[next..];
    }
    out
}

/// `YY-MM-DDT…Z`, what follows the century.
fn time(text: &str) -> Option<usize> {
    let end = text.find('Z')?;
    let fits = text.as_bytes().iter().take(end).enumerate().all(|(at, byte)| match at {
        2 | 5 => *byte == b'-',
        8 => *byte == b'T',
        _ => byte.is_ascii_digit() || at > 8 && matches!(byte, b':' | b'.'),
    });
    (end > 16 && fits).then_some(end + 1)
}

fn uid(text: &str) -> Option<usize> {
    let uid = text.as_bytes().get(..36)?;
    let fits =
        uid.iter().enumerate().all(|(at, byte)| if [8, 13, 18, 23].contains(&at) { *byte == b'-' } else { byte.is_ascii_hexdigit() });
    fits.then_some(36)
}

/// Not `0`, and not the `1` that a request asks for.
fn revision(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0 && !matches!(&text[..digits], "0" | "1")).then_some(digits)
}

/// Ours computes none.
fn without_managed_fields(line: &str) -> String {
    let (mut text, member) = (line.to_owned(), "\"managedFields\":");
    while let Some(at) = text.find(member) {
        let end = at + member.len() + value_length(&text[at + member.len()..]);
        let after = text[end..].strip_prefix(',');
        let before = if after.is_none() { text[..at].strip_suffix(',').unwrap_or(&text[..at]) } else { &text[..at] };
        text = format!("{before}{}", after.unwrap_or(&text[end..]));
    }
    text
}

/// The bytes of a JSON list or object.
fn value_length(text: &str) -> usize {
    let (mut depth, mut is_string, mut is_escaped) = (0, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => {
                is_escaped = false;
                continue;
            }
            '\\' => is_escaped = true,
            '"' => is_string = !is_string,
            '[' | '{' if !is_string => depth += 1,
            ']' | '}' if !is_string => depth -= 1,
            _ => {}
        }
        if depth == 0 && !is_string {
            return at + c.len_utf8();
        }
    }
    text.len()
}

/// The age in a row of a Table is that of its moment.
fn ages(text: &str) -> String {
    let mut parts = text.split("\"cells\":[");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (cells, rest) = part.split_once(']').unwrap_or((part, ""));
        let is_age = |cell: &str| cell.trim_matches('"').strip_suffix('s').is_some_and(|digits| digits.parse::<u8>().is_ok());
        let cells: Vec<&str> = cells.split(',').map(|cell| if is_age(cell) { "\"$age\"" } else { cell }).collect();
        out.push_str(&format!("\"cells\":[{}]{rest}", cells.join(",")));
    }
    out
}

#[test]
fn only_what_differs_gets_symbols() {
    let line = r#"{"id":"da74a542-d8db-42a6-811b-1fd643510bbc","at":"2026-11-22T18:06:23.140269Z","metadata":{"name":"gen-abcde","managedFields":[{"a":"]"}],"resourceVersion":"12"},"rows":[{"cells":["x",1,"3s"]}],"rv":{"resourceVersion":"1"}}"#;
    let told = r#"{"id":"$uid","at":"20$time","metadata":{"name":"gen-$name","resourceVersion":"$revision"},"rows":[{"cells":["x",1,"$age"]}],"rv":{"resourceVersion":"1"}}"#;
    assert_eq!(symbolic(line), told);
    assert_eq!(symbolic(r#"{"metadata":{"name":"a","managedFields":[]}}"#), r#"{"metadata":{"name":"a"}}"#);
}
