//! The functions beside what those of Kubernetes return: `tests/data/cel` has what was asked of them.

use go::regexp;
use serde_json::Value;

use super::{
    address::{Cidr, Ip},
    formats::NamedFormat,
    quantity::Quantity,
    semver::Semver,
    url::{self, Url},
};

/// Asks each line of a file: a function, its arguments, and what it returned.
fn check(lines: &str, call: fn(&str, &[Value]) -> Result<String, String>) {
    let mut checked = 0;
    for line in lines.lines() {
        let row: Vec<Value> = serde_json::from_str(line).expect("a row");
        let [function, args @ .., want] = row.as_slice() else { panic!("{line}") };
        let got = call(text(function), args).unwrap_or_else(|why| format!("error: {why}"));
        assert!(is_same(&got, text(want)), "{line}\n{got}");
        checked += 1;
    }
    assert!(checked > 50);
}

/// A text that was seen in full before is abbreviated.
fn is_same(got: &str, want: &str) -> bool {
    let lists = (serde_json::from_str::<Vec<String>>(got), serde_json::from_str::<Vec<String>>(want));
    let (Ok(got), Ok(want)) = lists else { return got == want };
    got.len() == want.len()
        && got
            .iter()
            .zip(&want)
            .all(|(got, want)| got == want || want.strip_suffix('…').is_some_and(|beginning| got.starts_with(beginning)))
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn list<T: ToString>(values: impl IntoIterator<Item = T>) -> String {
    Value::from_iter(values.into_iter().map(|value| value.to_string())).to_string()
}

#[test]
fn quantities() {
    check(include_str!("../../../tests/data/cel/quantity.txt"), |function, args| {
        if function == "isQuantity" {
            return Ok(Quantity::is(text(&args[0])).to_string());
        }
        let one = Quantity::parse(text(&args[0]))?;
        let other = || args[1].as_i64().map_or_else(|| Quantity::parse(text(&args[1])), |number| Ok(Quantity::of(number)));
        let integer =
            |one: Quantity| one.integer().map(|value| value.to_string()).ok_or_else(|| "cannot convert value to integer".to_owned());
        let float = |one: Quantity| crate::value::double_text(one.approximate());
        Ok(match function {
            "integer" => integer(one)?,
            "float" => float(one),
            "sign" => one.sign().to_string(),
            "compare" => (one.cmp(&other()?) as i8).to_string(),
            "sumFloat" => float(one.plus(&other()?)?),
            "differenceFloat" => float(one.minus(&other()?)?),
            "sumInteger" | "addInt" => integer(one.plus(&other()?)?)?,
            "subInt" => integer(one.minus(&other()?)?)?,
            _ => panic!("{function}"),
        })
    });
}

#[test]
fn addresses() {
    check(include_str!("../../../tests/data/cel/net.txt"), |function, args| {
        let first = text(&args[0]);
        Ok(match function {
            "isIP" => Ip::parse(first).is_ok().to_string(),
            "ip" => Ip::parse(first)?.to_string(),
            "isCanonical" => Ip::is_canonical(first)?.to_string(),
            "ipFlags" => {
                let ip = Ip::parse(first)?;
                let flags = [
                    ip.is_unspecified(),
                    ip.is_loopback(),
                    ip.is_link_local_multicast(),
                    ip.is_link_local_unicast(),
                    ip.is_global_unicast(),
                ];
                list([ip.family().to_string()].into_iter().chain(flags.map(|flag| flag.to_string())))
            }
            "isCIDR" => Cidr::parse(first).is_ok().to_string(),
            "cidr" => {
                let cidr = Cidr::parse(first)?;
                list([cidr.to_string(), cidr.masked().to_string(), cidr.prefix_length().to_string(), cidr.ip().to_string()])
            }
            "containsCIDR" => Cidr::parse(first)?.contains(Cidr::parse(text(&args[1]))?).to_string(),
            "containsIP" => Cidr::parse(first)?.contains_ip(Ip::parse(text(&args[1]))?).to_string(),
            _ => panic!("{function}"),
        })
    });
}

#[test]
fn versions() {
    check(include_str!("../../../tests/data/cel/semver.txt"), |function, args| {
        let first = text(&args[0]);
        let numbers = |version: Semver| list([version.major(), version.minor(), version.patch()]);
        Ok(match function {
            "isSemver" => Semver::parse(first, false).is_ok().to_string(),
            "isNormalized" => Semver::parse(first, true).is_ok().to_string(),
            "semver" => numbers(Semver::parse(first, false)?),
            "normalized" => numbers(Semver::parse(first, true)?),
            "compareSemver" => (Semver::parse(first, false)?.cmp(&Semver::parse(text(&args[1]), false)?) as i8).to_string(),
            _ => panic!("{function}"),
        })
    });
}

#[test]
fn urls() {
    check(include_str!("../../../tests/data/cel/url.txt"), |function, args| {
        let first = text(&args[0]);
        Ok(match function {
            "isURL" => Url::is(first).to_string(),
            "url" => {
                let url = Url::parse(first)?;
                list([url.scheme(), url.host(), url.hostname(), url.port(), url.escaped_path()])
            }
            "query" => {
                let query = Url::parse(first)?.query();
                let parameter = |(name, values): &(String, Vec<String>)| format!("{name}={}", values.join(","));
                query.iter().map(parameter).collect::<Vec<_>>().join("|")
            }
            "uri" => list(url::problem(first)),
            "sameURL" => (Url::parse(first)? == Url::parse(text(&args[1]))?).to_string(),
            _ => panic!("{function}"),
        })
    });
}

#[test]
fn formats() {
    check(include_str!("../../../tests/data/cel/format.txt"), |_, args| {
        Ok(list(NamedFormat::named(text(&args[0])).expect("a format").problems(text(&args[1]))))
    });
}

#[test]
fn matches() {
    const STEPS: u64 = 1_000_000;
    let find = |pattern: &str, searched: &str, most: i64| -> Result<Vec<String>, String> {
        let program =
            regexp::Program::compile(pattern, &mut regexp::COMPILED_BYTES_MAX.clone()).map_err(|why| format!("Illegal regex: {why}"))?;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let all = program.find_all(searched, most, &mut STEPS.clone()).expect("steps");
        let first = program.find(searched, &mut STEPS.clone()).expect("steps");
        assert!(most == 0 || all.first().copied() == first || all.is_empty() && first.is_none(), "{pattern} {searched:?}");
        Ok(all.into_iter().map(str::to_owned).collect())
    };
    for line in include_str!("../../../tests/data/cel/regex.txt").lines() {
        let row: Vec<Value> = serde_json::from_str(line).expect("a row");
        let arg = |at: usize| text(&row[at]);
        if arg(0) == "matches" {
            for case in row[2].as_array().expect("cases") {
                assert_eq!(Value::from(find(arg(1), text(&case[0]), -1).expect("an expression")), case[1], "{} {}", row[1], case[0]);
            }
            continue;
        }
        let most = row.get(4).and_then(|_| row[3].as_i64()).unwrap_or(-1);
        let got = find(arg(2), arg(1), most).map_or_else(|why| format!("error: {why}"), list);
        assert_eq!(got, text(row.last().expect("a result")), "{line}");
    }
}
