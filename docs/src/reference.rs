//! The reference of the book: what the manual pages say, in Markdown, in `docs/reference`.

use crate::functions::{self, Prototypes};
use crate::sheet::Sheet;
use crate::source::{self, Area};
use crate::{commands, header};
use anyhow::Context;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// The folder of these pages.
pub const FOLDER: &str = "docs/reference";
/// The page of the commands.
const COMMANDS: &str = "commands.md";
const GENERATED: &str = "<!-- written by `cargo run -p pvm-docs -- reference` -->";

/// Where the entry of each name is: `pvm_send`(3), `pvm-run`(1).
type Places = BTreeMap<(String, u8), String>;

/// All pages: the name of the file, and its text.
pub fn pages(root: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let areas = source::load(root)?;
    let prototypes = header::prototypes(root)?;
    let places = places(root, &areas)?;
    let calls = areas.iter().map(|area| Ok((file(area), calls(area, &prototypes, &places)?)));
    let commands = commands_page(root, &places).map(|text| (COMMANDS.to_owned(), text));
    calls.chain([commands]).collect()
}

/// Writes all pages, and removes those that are no more.
pub fn write(root: &Path) -> anyhow::Result<()> {
    let folder = root.join(FOLDER);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    for (file, text) in pages(root)? {
        let path = folder.join(file);
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

fn file(area: &Area) -> String {
    format!("{}.md", area.name)
}

fn places(root: &Path, areas: &[Area]) -> anyhow::Result<Places> {
    let mut places = Places::new();
    for area in areas {
        for page in &area.pages {
            let place = format!("{}#{}", file(area), page.name.to_lowercase());
            let functions = page.functions().into_iter().map(|function| function.0);
            let names = functions.chain(page.subroutines().map(str::to_owned)).chain([page.name.clone()]);
            places.extend(names.map(|name| ((name, 3), place.clone())));
        }
    }
    for name in commands::names(root)? {
        let place = format!("{COMMANDS}#{name}");
        places.insert((name, 1), place);
    }
    Ok(places)
}

/// The page of one area of calls.
fn calls(area: &Area, prototypes: &Prototypes, places: &Places) -> anyhow::Result<String> {
    let mut out = Markdown::new(&format!("Calls: {}", area.title), places, "c");
    for page in &area.pages {
        out.entry(&page.name, &page.summary);
        functions::describe(&mut out, area, page, prototypes).with_context(|| page.name.clone())?;
    }
    Ok(out.text)
}

fn commands_page(root: &Path, places: &Places) -> anyhow::Result<String> {
    let mut out = Markdown::new("Commands", places, "text");
    commands::describe_all(root, &mut out, |out, name, summary| out.entry(&shown(name), summary))?;
    Ok(out.text)
}

/// A command as it is typed: `pvm run`.
fn shown(name: &str) -> String {
    if name == "pvm-task-manager" { name.to_owned() } else { name.replacen("pvm-", "pvm ", 1) }
}

/// A page that is being written in Markdown.
struct Markdown<'a> {
    text: String,
    places: &'a Places,
    /// Of examples.
    language: &'static str,
}

impl<'a> Markdown<'a> {
    fn new(title: &str, places: &'a Places, language: &'static str) -> Self {
        Self { text: format!("# {title}\n\n{GENERATED}\n"), places, language }
    }

    /// Begins the entry of a call or a command.
    fn entry(&mut self, name: &str, summary: &str) {
        self.line(&format!("\n## {name}\n\n{}", self.linked(summary)));
    }

    fn line(&mut self, line: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{line}");
    }

    fn code<'b>(&mut self, language: &str, lines: impl IntoIterator<Item = &'b str>) {
        let lines: Vec<&str> = lines.into_iter().collect();
        self.line(&format!("\n```{language}\n{}\n```", lines.join("\n")));
    }

    /// A text whose names of manual pages lead to entries, and whose links lead out of this folder.
    fn linked(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, name, section, after)) = first_name(rest) {
            let place = self.places.get(&(name.to_owned(), section));
            let name = if section == 1 { shown(name) } else { name.to_owned() };
            out += before;
            out += &place.map_or_else(|| format!("`{name}`"), |place| format!("[`{name}`]({place})"));
            rest = after;
        }
        out += rest;
        out
    }
}

/// The first `name`(3) of a text: what is before it, the name, the section, and what follows.
fn first_name(text: &str) -> Option<(&str, &str, u8, &str)> {
    let (end, section) = [("`(1)", 1), ("`(3)", 3)]
        .iter()
        .filter_map(|&(mark, section)| Some((text.find(mark)?, section)))
        .min()?;
    let start = text[..end].rfind('`')?;
    Some((&text[..start], &text[start + 1..end], section, &text[end + 4..]))
}

impl Sheet for Markdown<'_> {
    fn section(&mut self, title: &str) {
        let mut characters = title.chars();
        let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
        self.line(&format!("\n**{first}{}**", characters.as_str()));
    }

    fn text(&mut self, text: &str) {
        let text = text.trim();
        if !text.is_empty() {
            let text = self.linked(text).replace("\n### ", "\n#### ");
            self.line(&format!("\n{text}"));
        }
    }

    fn terms<'a>(&mut self, terms: impl IntoIterator<Item = (&'a str, &'a str)>) {
        let is_list = self.text.lines().next_back().is_some_and(|line| line.starts_with("- "));
        if !is_list {
            self.line("");
        }
        for (term, description) in terms {
            let description = self.linked(description).replace('\n', " ");
            let colon = if description.is_empty() { "" } else { ": " };
            self.line(&format!("- {}{colon}{description}", self.linked(term)));
        }
    }

    fn literal<'a>(&mut self, lines: impl IntoIterator<Item = &'a str>) {
        // Lines that follow each other are one piece.
        if let Some(open) = self.text.strip_suffix("\n```\n") {
            self.text.truncate(open.len());
            let lines: Vec<&str> = lines.into_iter().collect();
            self.line(&format!("\n{}\n```", lines.join("\n")));
        } else {
            self.code("text", lines);
        }
    }

    fn example<'a>(&mut self, lines: impl IntoIterator<Item = &'a str>) {
        self.code(self.language, lines);
    }

    fn part(&mut self, title: &str, page: &str, heading: &str, _: &str) {
        let anchor = if heading.is_empty() { String::new() } else { format!("#{}", anchor(heading)) };
        self.section(title);
        let heading = if heading.is_empty() { page } else { heading };
        self.line(&format!("\nSee [{heading}](../{page}{anchor})."));
    }

    fn see_also<'a>(&mut self, pages: impl IntoIterator<Item = (&'a str, u8)>) {
        let pages = pages.into_iter().filter(|(name, _)| *name != "pvm_intro");
        let pages: Vec<String> =
            pages.map(|(name, section)| self.linked(&format!("`{name}`({section})"))).collect();
        if !pages.is_empty() {
            self.section("see also");
            self.line(&format!("\n{}", pages.join(", ")));
        }
    }
}

/// The name of a heading in links to it.
pub fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|&c| c.is_alphanumeric() || " -_".contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_manual_pages_become_links() {
        let places = Places::from([
            (("pvm_send".to_owned(), 3), "messages.md#pvm_send".to_owned()),
            (("pvm-run".to_owned(), 1), "commands.md#pvm-run".to_owned()),
        ]);
        let page = Markdown::new("T", &places, "c");
        assert_eq!(
            page.linked("`a`: `pvm-run`(1), `pvm_send`(3) or `ls`(1)."),
            "`a`: [`pvm run`](commands.md#pvm-run), [`pvm_send`](messages.md#pvm_send) or `ls`."
        );
    }

    #[test]
    fn headings_have_the_names_that_links_use() {
        assert_eq!(anchor("Options and errors"), "options-and-errors");
        assert_eq!(anchor("How it's `done`, 2_3"), "how-its-done-2_3");
    }
}
