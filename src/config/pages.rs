//! Shell completions and manual pages, made from the description of the command line.

use clap::CommandFactory;
use clap_complete::shells;
use clap_mangen::Man;

use super::args::{Cli, Page, Shell};

/// What a shell reads to complete our command lines.
pub(super) fn completions(shell: Shell) -> String {
    let mut text = Vec::new();
    let (mut program, name) = (Cli::command(), "watchcache");
    match shell {
        Shell::Bash => clap_complete::generate(shells::Bash, &mut program, name, &mut text),
        Shell::Fish => clap_complete::generate(shells::Fish, &mut program, name, &mut text),
        Shell::Zsh => clap_complete::generate(shells::Zsh, &mut program, name, &mut text),
    }
    utf8(text)
}

/// A page of the manual in roff: `watchcache(1)`, or that of a command, as `watchcache-serve(1)`.
pub(super) fn manual(page: Option<Page>) -> String {
    // The program's page names the commands that have pages.
    let hidden = |command: clap::Command| command.hide(true);
    let mut program = Cli::command().disable_help_subcommand(true);
    for without_page in ["completions", "man", "kube-apiserver", "etcd", "setup-envtest"] {
        program = program.mut_subcommand(without_page, hidden);
    }
    program.build();
    let named = page.map(|page| match page {
        Page::Serve => "serve",
        Page::Store => "store",
        Page::Aggregate => "aggregate",
    });
    let source = program.render_version().trim_end().to_owned();
    let command = match named.and_then(|name| program.find_subcommand(name)) {
        Some(command) => command.clone(),
        None => program,
    };
    let mut text = Vec::new();
    Man::new(command).source(source).render(&mut text).expect("a Vec takes everything");
    utf8(text)
}

fn utf8(text: Vec<u8>) -> String {
    String::from_utf8(text).expect("it is made of strings")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The long flags of a command.
    fn flags(command: &str) -> Vec<String> {
        let mut program = Cli::command();
        program.build();
        let command = program.find_subcommand(command).expect("a command of ours");
        command.get_arguments().filter_map(|argument| argument.get_long().map(str::to_owned)).collect()
    }

    /// Whether a flag stands there, not as the beginning of a longer one.
    fn names(text: &str, flag: &str) -> bool {
        text.match_indices(flag).any(|(at, _)| !text[at + flag.len()..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-'))
    }

    #[test]
    fn the_manual_names_each_flag() {
        for (page, command) in [(Page::Serve, "serve"), (Page::Store, "store"), (Page::Aggregate, "aggregate")] {
            let text = manual(Some(page)).replace("\\-", "-");
            assert!(text.contains(&format!(".TH watchcache-{command} 1")), "{text}");
            let missing: Vec<String> = flags(command).into_iter().filter(|flag| !names(&text, &format!("--{flag}"))).collect();
            assert!(missing.is_empty(), "{command}: {missing:?}");
        }
        let text = manual(None).replace("\\-", "-");
        assert!(
            text.contains("watchcache-serve(1)") && text.contains("watchcache-store(1)") && !text.contains("watchcache-man(1)"),
            "{text}"
        );
    }

    #[test]
    fn completions_name_each_flag() {
        for (shell, before) in [(Shell::Bash, "--"), (Shell::Fish, "-l "), (Shell::Zsh, "--")] {
            let text = completions(shell);
            let all = ["serve", "store", "aggregate"].into_iter().flat_map(flags);
            let missing: Vec<String> = all.filter(|flag| !names(&text, &format!("{before}{flag}"))).collect();
            assert!(missing.is_empty(), "{shell:?}: {missing:?}");
        }
    }
}
