//! The flags of kube-apiserver, as recorded from it, and what each means here.

use std::sync::LazyLock;

use crate::config::pflag::Flag;

/// What the real program says of its command line (tests/peers/flags): flags, admission plugins, API versions.
const RECORDED: &str = include_str!("recorded.txt");
/// What becomes of each flag here: name, class, text.
const CLASSES: &str = include_str!("classes.txt");

/// A flag of kube-apiserver.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) flag: Flag<'static>,
    /// Its value when it is not given.
    pub(super) default: &'static str,
    pub(super) class: Class,
}

/// What a flag means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// What the flag of this name means to `watchcache serve`.
    Serve(&'static str),
    /// Read by this room; the text says what it does.
    Read(&'static str),
    /// Nothing, and nobody can see that; why.
    Ignored(&'static str),
    /// Nothing yet; what the author of a test should know.
    Unbuilt(&'static str),
    /// A value other than the default is refused; why.
    Refused(&'static str),
}

impl Class {
    /// The class as its name and its text say it.
    fn read(name: &str, word: &str, text: &'static str) -> Option<Self> {
        Some(match word {
            "serve" => Self::Serve(if text.is_empty() { serve_name(name)? } else { text }),
            "read" => Self::Read(text),
            "ignored" => Self::Ignored(text),
            "unbuilt" => Self::Unbuilt(text),
            "refused" => Self::Refused(text),
            _ => return None,
        })
    }
}

/// The same name, which lives as long as the table.
fn serve_name(name: &str) -> Option<&'static str> {
    recorded("flag").find_map(|mut columns| columns.next().filter(|known| *known == name))
}

/// The lines of this kind without their first word, as their columns.
fn recorded(kind: &'static str) -> impl Iterator<Item = std::str::Split<'static, char>> {
    RECORDED.lines().filter_map(move |line| {
        let mut columns = line.split('\t');
        (columns.next() == Some(kind)).then_some(columns)
    })
}

/// All flags, sorted by name.
pub(super) static FLAGS: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let classes = || CLASSES.lines().filter(|line| !line.starts_with('#'));
    let class = |wanted: &str| {
        classes().find_map(|line| {
            let (name, rest) = line.split_once(' ')?;
            let (word, text) = rest.split_once(' ').unwrap_or((rest, ""));
            (name == wanted).then(|| Class::read(name, word, text)).flatten()
        })
    };
    let known = |mut columns: std::str::Split<'static, char>| {
        let mut next = || columns.next().unwrap_or_default();
        let (name, letter, kind, bare, default) = (next(), next(), next(), next(), next());
        // Its type says that it is another one, and takes names without a value.
        let kind = if name == "runtime-config" { "configurationMap" } else { kind };
        // A test sees that each has one.
        let class = class(name).unwrap_or(Class::Refused("it is not known here"));
        Known { flag: Flag { name, letter, kind, bare }, default, class }
    };
    recorded("flag").map(known).collect()
});

/// The admission plugins that kube-apiserver has, each with whether it is on by default.
pub(super) fn plugins() -> impl Iterator<Item = (&'static str, bool)> {
    recorded("plugin").map(|mut columns| (columns.next().unwrap_or_default(), columns.next() == Some("true")))
}

/// The API versions that kube-apiserver has, as `GROUP/VERSION`, each with whether it can be turned on; the core group is the empty text.
pub(super) fn versions() -> impl Iterator<Item = (&'static str, bool)> {
    recorded("version").map(|mut columns| (columns.next().unwrap_or_default(), columns.next() != Some("decoded")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::config::args::Cli;

    /// Each flag of kube-apiserver has a class, and each line of classes a flag.
    #[test]
    fn each_flag_has_one_class() {
        let named: Vec<&str> =
            CLASSES.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(' ').next().unwrap_or_default()).collect();
        let unique: BTreeSet<&str> = named.iter().copied().collect();
        assert_eq!(named.len(), unique.len(), "a flag has two classes");
        let flags: BTreeSet<&str> = FLAGS.iter().map(|known| known.flag.name).collect();
        assert_eq!(flags, unique);
        let unread: Vec<&str> = CLASSES
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter(|line| {
                let mut words = line.splitn(3, ' ');
                let (name, word, text) =
                    (words.next().unwrap_or_default(), words.next().unwrap_or_default(), words.next().unwrap_or_default());
                Class::read(name, word, text.to_owned().leak()).is_none() || (word != "serve" && text.is_empty())
            })
            .collect();
        assert!(unread.is_empty(), "{unread:?}");
    }

    #[test]
    fn what_serve_reads_is_a_flag_of_serve() {
        let program = Cli::command();
        let serve = program.find_subcommand("serve").expect("a command of ours");
        let ours: BTreeSet<&str> = serve.get_arguments().filter_map(clap::Arg::get_long).collect();
        for known in FLAGS.iter() {
            if let Class::Serve(name) = known.class {
                assert!(ours.contains(name), "--{} is given to serve as --{name}", known.flag.name);
            }
        }
    }

    /// A flag that `serve` has by the same name means the same, or its class says otherwise.
    #[test]
    fn flags_of_the_same_name_are_not_lost() {
        let program = Cli::command();
        let serve = program.find_subcommand("serve").expect("a command of ours");
        for name in serve.get_arguments().filter_map(clap::Arg::get_long) {
            if let Some(known) = FLAGS.iter().find(|known| known.flag.name == name) {
                assert!(!matches!(known.class, Class::Refused(_) | Class::Unbuilt(_)), "--{name} is a flag of serve");
            }
        }
    }

    #[test]
    fn the_record_has_flags_plugins_and_versions() {
        assert!(FLAGS.len() > 150 && plugins().count() > 30 && versions().count() > 50);
        assert!(plugins().any(|plugin| plugin == ("NamespaceLifecycle", true)) && plugins().any(|plugin| plugin == ("AlwaysDeny", false)));
        assert!(versions().any(|version| version == ("/v1", true)) && versions().any(|version| version == ("apps/v1beta1", false)));
    }
}
