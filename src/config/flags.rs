//! The flags of `watchcache serve` as `/flagz` tells them: what was typed, else the default.

use clap::{Arg, ArgAction, ArgMatches, CommandFactory};

use super::args::Cli;

/// Returns all flags, sorted by name; a list in brackets, an absent value as the empty text. None of them is a secret: those are in files.
pub(super) fn of_serve(matches: &ArgMatches) -> Vec<(String, String)> {
    let command = Cli::command();
    let (Some(serve), Some(matches)) = (command.find_subcommand("serve"), matches.subcommand_matches("serve")) else { return Vec::new() };
    let mut flags: Vec<_> = serve.get_arguments().filter_map(|arg| Some((arg.get_long()?.to_owned(), value(arg, matches)))).collect();
    flags.sort();
    flags
}

fn value(arg: &Arg, matches: &ArgMatches) -> String {
    let id = arg.get_id().as_str();
    if matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::SetFalse) {
        return matches.get_flag(id).to_string();
    }
    let values: Vec<_> = matches.get_raw(id).into_iter().flatten().map(|value| value.to_string_lossy()).collect();
    let is_list = matches!(arg.get_action(), ArgAction::Append) || arg.get_value_delimiter().is_some();
    if is_list { format!("[{}]", values.join(",")) } else { values.concat() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(line: &[&str]) -> Vec<(String, String)> {
        of_serve(&Cli::command().try_get_matches_from([&["watchcache", "serve"], line].concat()).expect("a right command line"))
    }

    #[test]
    fn flags_are_told_as_typed_or_by_default() {
        let told = flags(&["--data-dir", "/d", "--controllers=*,-namespace", "--etcd-compaction-interval", "1m"]);
        for (name, value) in [
            ("data-dir", "/d"),
            ("controllers", "[*,-namespace]"),
            ("etcd-compaction-interval", "1m"),
            ("etcd-prefix", "/registry"),
            ("etcd-servers", "[]"),
            ("etcd-cafile", ""),
            ("allow-writes", "false"),
        ] {
            assert!(told.contains(&(name.to_owned(), value.to_owned())), "{name} {told:?}");
        }
        assert!(told.len() > 50, "{told:?}");
    }

    /// Who may read `/flagz` may not be who may read a secret.
    #[test]
    fn secrets_are_in_files() {
        for (name, _) in flags(&[]) {
            let is_secret = ["password", "token", "secret", "key"].iter().any(|word| name.split('-').any(|part| part == *word));
            let is_harmless =
                ["file", "keyfile", "ttl", "version", "auth", "expiration", "sni-cert-key"].iter().any(|end| name.ends_with(end));
            assert!(!is_secret || is_harmless, "--{name} would be told");
        }
    }
}
