//! Manual pages in the language of `man`.

use crate::markup::{Block, Span, blocks, spans};
use crate::sheet::Sheet;
use std::fmt::Write as _;

/// A page that is being written.
#[derive(Debug)]
pub struct Roff {
    text: String,
}

impl Roff {
    /// Begins a page: `pvm_send`, 3, "send a message".
    pub fn new(name: &str, section: u8, summary: &str) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        let title = name.to_uppercase();
        let mut page = Self { text: String::new() };
        page.line(".\\\" Written by pvm-docs. The source is in docs and in the command lines.");
        page.line(&format!(
            ".TH \"{}\" {section} \"\" \"PVM {version}\" \"Parallel Virtual Machine\"",
            escape(&title)
        ));
        // Names of files and options stay whole.
        page.line(".nh");
        page.section("name");
        page.line(&format!("{} \\- {}", escape(name), inline(summary)));
        page
    }

    /// The page.
    pub fn finish(self) -> String {
        self.text
    }

    /// Begins a paragraph. The first of a section needs no request.
    fn paragraph(&mut self) {
        if !self.text.lines().next_back().is_some_and(|line| line.starts_with(".SH")) {
            self.line(".PP");
        }
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Heading(_, title) => self.section(title),
            Block::Paragraph(text) => {
                self.paragraph();
                self.line(&inline(text));
            }
            Block::List(items) => {
                for item in items {
                    self.line(".IP \\(bu 2");
                    self.line(&inline(item));
                }
            }
            Block::Code(lines) => self.example(lines.iter().map(String::as_str)),
            Block::Table(rows) => {
                let terms = rows.iter().skip(1).filter_map(|row| row.split_first());
                let described: Vec<(&str, String)> =
                    terms.map(|(term, rest)| (term.as_str(), describe(&rows[0], rest))).collect();
                self.terms(described.iter().map(|(term, text)| (*term, text.as_str())));
            }
        }
    }

    fn line(&mut self, line: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{line}");
    }
}

impl Sheet for Roff {
    fn section(&mut self, title: &str) {
        let title = escape(&title.to_uppercase());
        self.line(&format!(".SH \"{title}\""));
    }

    fn text(&mut self, text: &str) {
        for block in blocks(text) {
            self.block(&block);
        }
    }

    fn terms<'a>(&mut self, terms: impl IntoIterator<Item = (&'a str, &'a str)>) {
        for (term, description) in terms {
            self.line(".TP");
            self.line(&inline(term));
            self.line(&inline(description));
        }
    }

    fn literal<'a>(&mut self, lines: impl IntoIterator<Item = &'a str>) {
        self.paragraph();
        self.line(".nf");
        for line in lines {
            self.line(&format!("\\fB{}\\fP", escape(line)));
        }
        self.line(".fi");
    }

    fn example<'a>(&mut self, lines: impl IntoIterator<Item = &'a str>) {
        self.paragraph();
        self.line(".RS 4");
        self.line(".nf");
        for line in lines {
            let line = escape(line);
            self.line(if line.is_empty() { "\\&" } else { &line });
        }
        self.line(".fi");
        self.line(".RE");
    }

    fn see_also<'a>(&mut self, pages: impl IntoIterator<Item = (&'a str, u8)>) {
        let pages: Vec<String> =
            pages.into_iter().map(|(name, section)| format!("\\fB{}\\fP({section})", escape(name))).collect();
        if !pages.is_empty() {
            self.section("see also");
            self.line(&pages.join(",\n"));
        }
    }

    fn part(&mut self, title: &str, _: &str, _: &str, text: &str) {
        self.text_section(title, text);
    }
}

/// The cells of a row but the first: the longest is the description, others follow it with their column's title.
fn describe(head: &[String], cells: &[String]) -> String {
    let main = head.iter().skip(1).position(|title| title == "meaning" || title == "what it is").unwrap_or(0);
    let mut text = cells.get(main).cloned().unwrap_or_default();
    for (index, cell) in cells.iter().enumerate() {
        if index != main && !cell.is_empty() && cell != "–" {
            let title = head.get(index + 1).map_or("", String::as_str);
            let _ = write!(text, " ({title}: {cell})");
        }
    }
    text
}

/// Stands for the folder in which this documentation is installed, which `make install` knows.
pub const DOCS: &str = "@DOCS@";

/// A line with its bold parts and code, which man shows bold, too.
pub fn inline(text: &str) -> String {
    let parts = spans(text).into_iter().map(|span| match span {
        Span::Plain(text) => escape_inside(text),
        Span::Code(text) | Span::Bold(text) => format!("\\fB{}\\fP", escape_inside(text)),
        Span::Page(file) => format!("\\fB{DOCS}/{}\\fP", escape_inside(file)),
    });
    guard(parts.collect())
}

/// A line of plain text.
pub fn escape(text: &str) -> String {
    guard(escape_inside(text))
}

/// A dot or quote at the beginning of a line would be a request.
fn guard(line: String) -> String {
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

fn escape_inside(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\e"),
            '-' => out.push_str("\\-"),
            '\'' => out.push_str("\\(aq"),
            '"' => out.push_str("\\(dq"),
            '^' => out.push_str("\\(ha"),
            '~' => out.push_str("\\(ti"),
            '`' => out.push_str("\\(ga"),
            '\n' => out.push(' '),
            character if character.is_ascii() => out.push(character),
            // Writing to a string cannot fail.
            character => drop(write!(out, "\\[u{:04X}]", character as u32)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_special_to_man_are_escaped() {
        assert_eq!(escape(".a\\-b"), "\\&.a\\e\\-b");
        assert_eq!(
            inline("`pvm_send` is **not** \u{2265} 'x'"),
            "\\fBpvm_send\\fP is \\fBnot\\fP \\[u2265] \\(aqx\\(aq"
        );
    }

    #[test]
    fn a_table_becomes_terms() {
        let mut page = Roff::new("x", 1, "y");
        page.text("| option | meaning | default |\n|---|---|---|\n| `a` | b | c |\n| `d` | e | – |");
        let text = page.finish();
        assert!(text.ends_with(".TP\n\\fBa\\fP\nb (default: c)\n.TP\n\\fBd\\fP\ne\n"), "{text}");
    }
}
