//! A command line of a Go program, read as its flag package reads it, with that package's words for what is wrong.

use go::duration;
use go::quote::quoted;

use super::tls::named_pair;

/// A flag as the program declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flag<'t> {
    /// Its long name.
    pub(super) name: &'t str,
    /// Its letter; empty for none.
    pub(super) letter: &'t str,
    /// Its type, by the name that the package has for it.
    pub(super) kind: &'t str,
    /// What it means without a value; empty when it needs one.
    pub(super) bare: &'t str,
}

impl Flag<'_> {
    /// The name as error texts have it.
    fn title(&self) -> String {
        if self.letter.is_empty() { format!("--{}", self.name) } else { format!("-{}, --{}", self.letter, self.name) }
    }
}

/// What a command line says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Typed<'t> {
    /// Flags by their names, each with its value, in the order in which they were typed.
    pub(super) values: Vec<(&'t str, String)>,
    /// What is no flag.
    pub(super) operands: Vec<String>,
}

/// Reads what follows the name of a program that uses pflag. `_` in a name is `-`.
///
/// # Errors
/// pflag's text about the first mistake.
pub(super) fn read<'t>(line: &[String], flags: &[Flag<'t>]) -> Result<Typed<'t>, String> {
    let mut typed = Typed { values: Vec::new(), operands: Vec::new() };
    let mut rest = line.iter();
    while let Some(word) = rest.next() {
        match word.strip_prefix('-') {
            None | Some("") => typed.operands.push(word.clone()),
            Some("-") => {
                typed.operands.extend(rest.by_ref().cloned());
            }
            Some(short) => match short.strip_prefix('-') {
                Some(long) => typed.values.push(of_name(word, long, flags, &mut rest)?),
                None => of_letters(short, flags, &mut rest, &mut typed)?,
            },
        }
    }
    Ok(typed)
}

/// `--name`, `--name=value` or `--name value`.
fn of_name<'t, 'l>(
    word: &str,
    long: &str,
    flags: &[Flag<'t>],
    rest: &mut impl Iterator<Item = &'l String>,
) -> Result<(&'t str, String), String> {
    if long.starts_with(['-', '=']) {
        return Err(format!("bad flag syntax: {word}"));
    }
    let (name, value) = match long.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (long, None),
    };
    let normal = name.replace('_', "-");
    let flag = flags.iter().find(|flag| flag.name == normal).ok_or_else(|| format!("unknown flag: --{name}"))?;
    let value = match value {
        Some(value) => value,
        None if !flag.bare.is_empty() => flag.bare,
        None => rest.next().ok_or_else(|| format!("flag needs an argument: --{name}"))?,
    };
    Ok((flag.name, checked(flag, value)?))
}

/// `-v2`, `-v=2`, `-v 2`, and letters that need no value one after the other.
fn of_letters<'t, 'l>(
    letters: &str,
    flags: &[Flag<'t>],
    rest: &mut impl Iterator<Item = &'l String>,
    typed: &mut Typed<'t>,
) -> Result<(), String> {
    // Go's test flags are let through, for whatever reason.
    if letters.starts_with("test.") {
        return Ok(());
    }
    let mut left = letters;
    while let Some(letter) = left.chars().next() {
        let after = &left[letter.len_utf8()..];
        let found = flags.iter().find(|flag| flag.letter.starts_with(letter));
        let flag = found.ok_or_else(|| format!("unknown shorthand flag: {} in -{left}", rune(letter)))?;
        let (value, next) = match after.strip_prefix('=').filter(|value| !value.is_empty()) {
            Some(value) => (value, ""),
            None if !flag.bare.is_empty() => (flag.bare, after),
            None if !after.is_empty() => (after, ""),
            None => (rest.next().ok_or_else(|| format!("flag needs an argument: {} in -{left}", rune(letter)))?.as_str(), ""),
        };
        left = next;
        typed.values.push((flag.name, checked(flag, value)?));
    }
    Ok(())
}

/// A character between single quotes.
fn rune(letter: char) -> String {
    format!("'{letter}'")
}

/// The value as it is written plainly.
fn checked(flag: &Flag<'_>, value: &str) -> Result<String, String> {
    plain(flag.kind, value).map_err(|why| format!("invalid argument {} for {} flag: {why}", quoted(value), quoted(&flag.title())))
}

/// Reads a value of this type, as far as a mistake in it is one of the command line.
fn plain(kind: &str, value: &str) -> Result<String, String> {
    match kind {
        "bool" => boolean(value).map(|value| value.to_string()),
        "int" | "int64" => go::strconv::parse_int(value).map(|number| number.to_string()),
        "int32" => go::strconv::parse_int(value).and_then(|number| match i32::try_from(number) {
            Ok(number) => Ok(number.to_string()),
            Err(_) => Err(format!("strconv.ParseInt: parsing {}: value out of range", quoted(value))),
        }),
        "Level" => level(value).map(|number| number.to_string()),
        "uint" | "uint64" => go::strconv::parse_uint(value).map(|number| number.to_string()),
        "int32Slice" => value.split(',').try_for_each(|part| plain("int32", part).map(drop)).map(|()| value.to_owned()),
        "namedCertKey" => named_pair(value).map(|_| value.to_owned()),
        "portRange" => ports(value).map(|()| value.to_owned()),
        "quantity" => go::quantity::canonical(value).map_err(str::to_owned).map(|_| value.to_owned()),
        "mapStringString" if !value.contains('=') => Err("malformed pair, expect string=string".to_owned()),
        "stringToString" => match value.split(',').find(|pair| !pair.contains('=')) {
            Some(pair) => Err(format!("{pair} must be formatted as key=value")),
            None => Ok(value.to_owned()),
        },
        "version" if value != "raw" && !value.starts_with('v') => boolean(value).map(|value| value.to_string()),
        "float32" | "float64" if value.parse::<f64>().is_err() => {
            Err(format!("strconv.ParseFloat: parsing {}: invalid syntax", quoted(value)))
        }
        "duration" => duration::parse(value).map(|_| value.to_owned()),
        "ip" if !value.is_empty() && value.trim().parse::<std::net::IpAddr>().is_err() => {
            Err(format!("failed to parse IP: {}", quoted(value)))
        }
        "mapStringBool" => pairs_of_booleans(value).map(|()| value.to_owned()),
        "pattern=N,..." => patterns(value).map(|()| value.to_owned()),
        _ => Ok(value.to_owned()),
    }
}

/// How much is logged: Go's `ParseUint` with 31 bits.
fn level(value: &str) -> Result<u64, String> {
    go::strconv::parse_uint(value).and_then(|number| match i32::try_from(number) {
        Ok(_) => Ok(number),
        Err(_) => Err(format!("strconv.ParseUint: parsing {}: value out of range", quoted(value))),
    })
}

/// Both ends of `low-high` and `low+more`, or a single one, as numbers.
fn ports(value: &str) -> Result<(), String> {
    let mut parts = value.trim().split(['-', '+']).filter(|part| !part.is_empty());
    parts.try_for_each(|part| go::strconv::parse_int(part).map(drop)).map_err(|why| why.replace("ParseInt", "Atoi"))
}

/// `--vmodule`.
fn patterns(value: &str) -> Result<(), String> {
    for pattern in value.split(',').filter(|pattern| !pattern.is_empty()) {
        match pattern.split('=').collect::<Vec<_>>()[..] {
            [name, level] if !name.is_empty() && !level.is_empty() => {
                self::level(level).map_err(|why| format!("parsing verbosity in {}: {why}", quoted(pattern)))?;
            }
            _ => return Err(format!("{} does not have the pattern=N format", quoted(pattern))),
        }
    }
    Ok(())
}

/// Go's `strconv.ParseBool`.
///
/// # Errors
/// Its text.
pub(super) fn boolean(value: &str) -> Result<bool, String> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        other => Err(format!("strconv.ParseBool: parsing {}: invalid syntax", quoted(other))),
    }
}

fn pairs_of_booleans(value: &str) -> Result<(), String> {
    for pair in value.split(',').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or("malformed pair, expect string=bool")?;
        let (name, value) = (name.trim(), value.trim());
        boolean(value).map_err(|why| format!("invalid value of {name}: {value}, err: {why}"))?;
    }
    Ok(())
}

/// Reads what follows the name of a program that uses Go's own package `flag`: one dash or two, and the first word that is no flag ends the flags.
///
/// # Errors
/// That package's text about the first mistake.
pub(super) fn read_simple<'t>(line: &[String], flags: &[Flag<'t>]) -> Result<Typed<'t>, String> {
    let mut typed = Typed { values: Vec::new(), operands: Vec::new() };
    let mut rest = line.iter();
    while let Some(word) = rest.next() {
        let Some(dashed) = word.strip_prefix('-').filter(|dashed| !dashed.is_empty()) else {
            typed.operands.push(word.clone());
            break;
        };
        if dashed == "-" {
            break;
        }
        let long = dashed.strip_prefix('-').unwrap_or(dashed);
        if long.is_empty() || long.starts_with(['-', '=']) {
            return Err(format!("bad flag syntax: {word}"));
        }
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        let flag = flags.iter().find(|flag| flag.name == name).ok_or_else(|| format!("flag provided but not defined: -{name}"))?;
        let value = match value {
            Some(value) => value,
            None if !flag.bare.is_empty() => flag.bare,
            None => rest.next().ok_or_else(|| format!("flag needs an argument: -{name}"))?,
        };
        typed.values.push((flag.name, simple(flag, value)?));
    }
    typed.operands.extend(rest.cloned());
    Ok(typed)
}

fn simple(flag: &Flag<'_>, value: &str) -> Result<String, String> {
    let is_boolean = flag.kind == "bool";
    plain(flag.kind, value).map_err(|why| {
        let why = if why.ends_with("value out of range") { "value out of range" } else { "parse error" };
        let what = if is_boolean { format!("boolean value {} for", quoted(value)) } else { format!("value {} for flag", quoted(value)) };
        format!("invalid {what} -{}: {why}", flag.name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: [Flag<'static>; 9] = [
        Flag { name: "allow-privileged", letter: "", kind: "bool", bare: "true" },
        Flag { name: "secure-port", letter: "", kind: "int", bare: "" },
        Flag { name: "etcd-servers", letter: "", kind: "stringSlice", bare: "" },
        Flag { name: "feature-gates", letter: "", kind: "mapStringBool", bare: "" },
        Flag { name: "bind-address", letter: "", kind: "ip", bare: "" },
        Flag { name: "request-timeout", letter: "", kind: "duration", bare: "" },
        Flag { name: "v", letter: "v", kind: "Level", bare: "" },
        Flag { name: "vmodule", letter: "", kind: "pattern=N,...", bare: "" },
        Flag { name: "help", letter: "h", kind: "bool", bare: "true" },
    ];

    fn words(line: &str) -> Vec<String> {
        line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    /// `name=value` of each flag, then the operands.
    fn told(typed: Result<Typed<'_>, String>) -> Result<String, String> {
        let typed = typed?;
        let values = typed.values.into_iter().map(|(name, value)| format!("{name}={value}"));
        Ok(values.chain(typed.operands).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn flags_are_read_as_pflag_reads_them() {
        for (line, want) in [
            ("", Ok("")),
            ("--secure-port=1 --secure-port 2", Ok("secure-port=1 secure-port=2")),
            ("--secure_port=1", Ok("secure-port=1")),
            ("--allow-privileged", Ok("allow-privileged=true")),
            ("--allow-privileged=F x", Ok("allow-privileged=false x")),
            ("--allow-privileged false", Ok("allow-privileged=true false")),
            ("--etcd-servers=", Ok("etcd-servers=")),
            ("--etcd-servers --v=1", Ok("etcd-servers=--v=1")),
            ("-v2 -v=3 -v 4 -hv5", Ok("v=2 v=3 v=4 help=true v=5")),
            ("-h -- --secure-port", Ok("help=true --secure-port")),
            ("- x", Ok("- x")),
            ("--nope", Err("unknown flag: --nope")),
            ("--no_pe=1 --x", Err("unknown flag: --no_pe")),
            ("--secure-port", Err("flag needs an argument: --secure-port")),
            ("-v", Err("flag needs an argument: 'v' in -v")),
            ("-hz", Err("unknown shorthand flag: 'z' in -z")),
            ("---x", Err("bad flag syntax: ---x")),
            ("--=x", Err("bad flag syntax: --=x")),
            ("--secure-port=x", Err("invalid argument \"x\" for \"--secure-port\" flag: strconv.ParseInt: parsing \"x\": invalid syntax")),
            (
                "--allow-privileged=yes",
                Err("invalid argument \"yes\" for \"--allow-privileged\" flag: strconv.ParseBool: parsing \"yes\": invalid syntax"),
            ),
            (
                "--feature-gates=A=true,B",
                Err("invalid argument \"A=true,B\" for \"--feature-gates\" flag: malformed pair, expect string=bool"),
            ),
            (
                "--feature-gates=A=x",
                Err(
                    "invalid argument \"A=x\" for \"--feature-gates\" flag: invalid value of A: x, err: strconv.ParseBool: parsing \"x\": invalid syntax",
                ),
            ),
            ("--v=x", Err("invalid argument \"x\" for \"-v, --v\" flag: strconv.ParseUint: parsing \"x\": invalid syntax")),
            (
                "--v=2147483648",
                Err("invalid argument \"2147483648\" for \"-v, --v\" flag: strconv.ParseUint: parsing \"2147483648\": value out of range"),
            ),
            ("--vmodule=a=1,b=2,", Ok("vmodule=a=1,b=2,")),
            ("--vmodule=a=1,b", Err("invalid argument \"a=1,b\" for \"--vmodule\" flag: \"b\" does not have the pattern=N format")),
            ("--bind-address=a", Err("invalid argument \"a\" for \"--bind-address\" flag: failed to parse IP: \"a\"")),
            ("--request-timeout=5", Err("invalid argument \"5\" for \"--request-timeout\" flag: time: missing unit in duration \"5\"")),
        ] {
            assert_eq!(told(read(&words(line), &FLAGS)), want.map(str::to_owned).map_err(str::to_owned), "{line}");
        }
    }

    /// As etcd 3.7.3 answers.
    #[test]
    fn flags_are_read_as_gos_own_package_reads_them() {
        for (line, want) in [
            ("-secure-port 1 --secure-port=2", Ok("secure-port=1 secure-port=2")),
            ("-allow-privileged --secure-port=2 x --y", Ok("allow-privileged=true secure-port=2 x --y")),
            ("-allow-privileged false", Ok("allow-privileged=true false")),
            ("--nope=1", Err("flag provided but not defined: -nope")),
            ("--secure_port=1", Err("flag provided but not defined: -secure_port")),
            ("--secure-port", Err("flag needs an argument: -secure-port")),
            ("--allow-privileged=x", Err("invalid boolean value \"x\" for -allow-privileged: parse error")),
            ("--secure-port=x", Err("invalid value \"x\" for flag -secure-port: parse error")),
            ("---x", Err("bad flag syntax: ---x")),
        ] {
            assert_eq!(told(read_simple(&words(line), &FLAGS)), want.map(str::to_owned).map_err(str::to_owned), "{line}");
        }
    }
}
