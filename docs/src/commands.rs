//! Manual pages of commands, section 1.

use crate::ManualPage;
use crate::roff::Roff;
use crate::sheet::Sheet;
use anyhow::Context;
use clap::Command;
use pvm_console::shell::help::TOPICS;
use serde::Deserialize;
use std::path::Path;

/// What `docs/commands.toml` adds to what a command's own help says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Additions {
    /// The commands.
    command: Vec<Addition>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Addition {
    /// The command's name, with a hyphen for a subcommand's blank.
    name: String,
    /// What it is, in a few words.
    summary: String,
    /// What follows the name; empty: what the command line's description says.
    #[serde(default)]
    synopsis: Vec<String>,
    /// What it does, besides what its help says.
    #[serde(default)]
    text: String,
    /// More sections: title and text.
    #[serde(default)]
    sections: Vec<(String, String)>,
    /// Parts of other pages as sections: title, file in `docs`, heading in it; no heading: the whole file.
    #[serde(default)]
    parts: Vec<(String, String, String)>,
    /// Whether the console's commands are listed.
    #[serde(default)]
    console: bool,
    /// Other pages to look at.
    see: Vec<(String, u8)>,
}

/// The page of each command.
pub fn pages(root: &Path) -> anyhow::Result<Vec<ManualPage>> {
    additions(root)?.iter().map(|addition| page(root, addition)).collect()
}

/// The names of all commands that have a page.
pub fn names(root: &Path) -> anyhow::Result<Vec<String>> {
    Ok(additions(root)?.into_iter().map(|addition| addition.name).collect())
}

/// Describes all commands, one after the other; `begin` begins the entry of one, by its name and its summary.
pub fn describe_all<S: Sheet>(
    root: &Path,
    out: &mut S,
    begin: impl Fn(&mut S, &str, &str),
) -> anyhow::Result<()> {
    for addition in additions(root)? {
        begin(out, &addition.name, &addition.summary);
        describe(root, out, &addition)?;
    }
    Ok(())
}

fn additions(root: &Path) -> anyhow::Result<Vec<Addition>> {
    let text = crate::read(root, "docs/commands.toml")?;
    let additions: Additions = toml::from_str(&text).context("docs/commands.toml")?;
    Ok(additions.command)
}

/// The description of a command's command line, if it has one.
fn described(name: &str) -> Option<Command> {
    match name {
        "pvm" => Some(pvm_console::cli::command()),
        "pvmd" => Some(pvmd::cli::command()),
        _ => pvm_console::cli::command().find_subcommand(name.strip_prefix("pvm-")?).cloned(),
    }
    .filter(|_| name != "pvm-task-manager")
}

fn page(root: &Path, addition: &Addition) -> anyhow::Result<ManualPage> {
    let name = &addition.name;
    let mut out = Roff::new(name, 1, &addition.summary);
    describe(root, &mut out, addition)?;
    Ok(ManualPage { path: format!("man1/{name}.1"), text: out.finish() })
}

fn describe(root: &Path, out: &mut impl Sheet, addition: &Addition) -> anyhow::Result<()> {
    let command = described(&addition.name);
    synopsis(out, addition, command.clone());
    let (notes, examples) = command.as_ref().map(help_after).unwrap_or_default();
    out.section("description");
    out.text(&format!("{}\n\n{notes}", addition.text));
    if let Some(command) = &command {
        options(out, command);
        subcommands(out, command);
    }
    if addition.console {
        console_commands(out);
    }
    for (title, text) in &addition.sections {
        out.text_section(title, text);
    }
    for (title, file, heading) in &addition.parts {
        let text = crate::read(root, &format!("docs/{file}"))?;
        let part = part_of(&text, heading)
            .with_context(|| format!("docs/{file}: no heading \u{201c}{heading}\u{201d}"))?;
        out.part(title, file, heading, &part);
    }
    if !examples.is_empty() {
        out.section("examples");
        out.example(examples.iter().map(String::as_str));
    }
    out.see_also(addition.see.iter().map(|(name, section)| (name.as_str(), *section)));
    Ok(())
}

fn synopsis(out: &mut impl Sheet, addition: &Addition, command: Option<Command>) {
    out.section("synopsis");
    if addition.synopsis.is_empty()
        && let Some(mut command) = command
    {
        let shown = addition.name.replacen("pvm-", "pvm ", 1);
        let usage = command.render_usage().to_string();
        let rest =
            usage.split_once(' ').and_then(|(_, usage)| usage.split_once(' ')).map_or("", |(_, rest)| rest);
        out.literal([format!("{shown} {rest}").as_str()]);
    } else {
        out.literal(addition.synopsis.iter().map(String::as_str));
    }
}

/// What a command's help says after the options: notes, and examples.
fn help_after(command: &Command) -> (String, Vec<String>) {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (notes, examples) = text.split_once("Examples:\n").unwrap_or((&text, ""));
    // Examples are indented; what follows them at the margin is a note again.
    let (examples, more): (Vec<&str>, Vec<&str>) = examples.lines().partition(|line| line.starts_with(' '));
    let notes = format!("{notes}\n{}", more.join("\n"));
    (notes, examples.into_iter().map(|line| line.trim_start().to_owned()).collect())
}

fn options(out: &mut impl Sheet, command: &Command) {
    let shown: Vec<_> = command.get_arguments().filter(|argument| !argument.is_hide_set()).collect();
    if shown.is_empty() {
        return;
    }
    out.section("options");
    for argument in shown {
        let short = argument.get_short().map(|letter| format!("`-{letter}`"));
        let long = argument.get_long().map(|word| format!("`--{word}`"));
        let takes_value = argument.get_action().takes_values();
        let values = argument.get_value_names().filter(|_| takes_value).unwrap_or_default();
        let values: Vec<&str> = values.iter().map(clap::builder::Str::as_str).collect();
        let flags: Vec<String> = short.into_iter().chain(long).collect();
        let term = format!("{} {}", flags.join(", "), values.join(" "));
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        out.terms([(term.trim(), help.as_str())]);
    }
}

fn subcommands(out: &mut impl Sheet, command: &Command) {
    let mut all = command.get_subcommands().peekable();
    if all.peek().is_none() {
        return;
    }
    out.section("commands");
    for subcommand in all {
        let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
        out.terms([(format!("`{} {}`", command.get_name(), subcommand.get_name()).as_str(), about.as_str())]);
    }
}

fn console_commands(out: &mut impl Sheet) {
    out.section("console");
    out.text("The console reads these commands, one a line; `help` lists them.");
    for topic in TOPICS {
        out.terms([(format!("`{}` {}", topic.name, topic.arguments).trim(), topic.summary)]);
        if !topic.details.is_empty() {
            out.example(topic.details.lines());
        }
    }
}

/// What follows a heading up to the next, or the whole text without its title.
fn part_of(text: &str, heading: &str) -> Option<String> {
    let after = |text: &str, line: &str| text.split_once(line).map(|(_, rest)| rest.to_owned());
    if heading.is_empty() {
        return text.strip_prefix("# ").and_then(|text| after(text, "\n"));
    }
    let part = after(text, &format!("\n## {heading}\n"))?;
    Some(part.split("\n## ").next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_by_their_heading() {
        let text = "# T\n\nintro\n\n## A\n\na\n\n## B\n\nb\n";
        assert_eq!(part_of(text, "A").as_deref(), Some("\na\n"));
        assert_eq!(part_of(text, "B").as_deref(), Some("\nb\n"));
        assert_eq!(part_of(text, "C"), None);
        assert!(part_of(text, "").unwrap().contains("intro"));
    }
}
