//! `docs/reference/flags.md`, made of the description of the command line.

use std::fmt::Write;

use clap::{Arg, Command, CommandFactory};

use super::args::Cli;
use super::{etcd_program, kube_apiserver};

const HEAD: &str = "# Flags

Made from the code: a test fails when this page is not what the program takes. `watchcache COMMAND --help` prints the same. Flags that mean what a flag of kube-apiserver means carry its name. Durations are Go's (`1h30m`, `500ms`); a list is separated by commas, or the flag is given
several times where this says so. How they work together: [operations](../operations.md).
";

#[test]
fn the_page_is_what_the_program_takes() {
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let mut page = HEAD.to_owned();
    for command in program.get_subcommands() {
        tell(&mut page, command, "watchcache");
    }
    corpus::reference("flags.md", &page);
}

/// Writes a command, its flags by their headings, and the commands below it.
fn tell(page: &mut String, command: &Command, before: &str) {
    let name = format!("{before} {}", command.get_name());
    let level = "#".repeat(name.split(' ').count());
    let _ = write!(page, "\n{level} {name}\n\n{}.\n", escaped(&text(command.get_about())));
    let arguments: Vec<&Arg> =
        command.get_arguments().filter(|argument| !matches!(argument.get_id().as_str(), "help" | "version")).collect();
    let mut headings: Vec<Option<&str>> = Vec::new();
    for argument in &arguments {
        let heading = argument.get_help_heading();
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    if let Some(rows) = of_another_program(command.get_name()) {
        page.push_str(&rows);
        return;
    }
    for heading in headings {
        if let Some(heading) = heading {
            let _ = write!(page, "\n{level}# {heading}\n");
        }
        page.push_str("\n| flag | default | |\n|---|---|---|\n");
        for argument in arguments.iter().filter(|argument| argument.get_help_heading() == heading) {
            page.push_str(&row(argument));
        }
    }
    for below in command.get_subcommands() {
        tell(page, below, &name);
    }
}

/// The flags of a program that ours stands in for; none of a command of our own.
fn of_another_program(name: &str) -> Option<String> {
    let rows: Vec<(&str, &str, String)> = match name {
        kube_apiserver::NAME => kube_apiserver::rows().collect(),
        etcd_program::NAME => etcd_program::rows().collect(),
        _ => return None,
    };
    let mut table = "\n| flag | default there | here |\n|---|---|---|\n".to_owned();
    for (flag, default, meaning) in rows {
        let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
        let _ = writeln!(table, "| `--{flag}` | {default} | {} |", escaped(&meaning));
    }
    Some(table)
}

fn row(argument: &Arg) -> String {
    let values = argument.get_value_names().unwrap_or_default().join(" ");
    let takes_values = argument.get_action().takes_values();
    let name = match argument.get_long() {
        Some(long) if takes_values => format!("--{long} {values}"),
        Some(long) => format!("--{long}"),
        None => values,
    };
    let help = text(argument.get_long_help().or(argument.get_help()));
    // A default that depends on something is told at the end of the text.
    let (help, told) = match help.rsplit_once("[default: ") {
        Some((help, told)) => (help.trim().to_owned(), told.strip_suffix(']').map(str::to_owned)),
        None => (help, None),
    };
    let defaults: Vec<String> = argument.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    let default = match told {
        Some(told) => escaped(&told),
        None if takes_values => defaults.join(", "),
        None => String::new(),
    };
    let possible: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|_| takes_values)
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}` ({})", value.get_name(), text(Some(help)).trim_end_matches('.')),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    let possible = if possible.is_empty() { String::new() } else { format!(". One of {}", possible.join(", ")) };
    format!("| `{}` | {default} | {}{possible} |\n", name.replace('|', "\\|"), escaped(&help))
}

fn text(told: Option<&clap::builder::StyledStr>) -> String {
    told.map(ToString::to_string).unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Without what Markdown would read as its own: the texts have no marks but code.
fn escaped(text: &str) -> String {
    let mut is_code = false;
    text.chars().fold(String::new(), |mut made, c| {
        is_code ^= c == '`';
        if matches!(c, '|') || (!is_code && matches!(c, '<' | '*' | '[' | '_')) {
            made.push('\\');
        }
        made.push(c);
        made
    })
}
