//! The Markdown that the documentation uses: headings, paragraphs, lists, tables and code, with code, bold text and
//! links inside.

/// A block of a text.
#[derive(Debug, PartialEq, Eq)]
pub enum Block {
    /// A heading, and how deep it is.
    Heading(usize, String),
    /// A paragraph.
    Paragraph(String),
    /// An unordered list.
    List(Vec<String>),
    /// A table's rows, the first its heading.
    Table(Vec<Vec<String>>),
    /// Lines that stay as they are.
    Code(Vec<String>),
}

/// A piece of a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Span<'a> {
    /// Plain text.
    Plain(&'a str),
    /// Code, or what else is to be typed as it stands.
    Code(&'a str),
    /// Text that stands out.
    Bold(&'a str),
    /// A page of this documentation: its file's name.
    Page(&'a str),
}

/// The blocks of a text.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim().is_empty() || line.starts_with("<!--") {
            continue;
        }
        if line.starts_with("```") {
            let code = lines.by_ref().take_while(|line| !line.starts_with("```"));
            blocks.push(Block::Code(code.map(str::to_owned).collect()));
        } else if let Some((marks, title)) = heading(line) {
            blocks.push(Block::Heading(marks, title.to_owned()));
        } else if line.starts_with('|') {
            let mut rows = vec![cells(line)];
            while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                if !row.starts_with("|-") {
                    rows.push(cells(row));
                }
            }
            blocks.push(Block::Table(rows));
        } else {
            let mut paragraph = vec![line];
            while let Some(more) = lines.next_if(|line| continues(line)) {
                paragraph.push(more);
            }
            blocks.push(paragraph_or_list(&paragraph));
        }
    }
    blocks
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let title = line.trim_start_matches('#');
    let marks = line.len() - title.len();
    (marks > 0).then(|| (marks, title.trim()))
}

fn continues(line: &str) -> bool {
    !line.trim().is_empty() && !["```", "|", "#"].iter().any(|start| line.starts_with(start))
}

fn cells(line: &str) -> Vec<String> {
    let line = line.trim().trim_start_matches('|');
    let line = line.strip_suffix('|').unwrap_or(line);
    let mut cells = vec![String::new()];
    let mut in_code = false;
    let mut before = ' ';
    for character in line.chars() {
        in_code ^= character == '`';
        match (character, cells.last_mut()) {
            ('|', _) if !in_code && before != '\\' => cells.push(String::new()),
            ('\\', _) if !in_code => {}
            (_, Some(cell)) => cell.push(character),
            (_, None) => {}
        }
        before = character;
    }
    cells.into_iter().map(|cell| cell.trim().to_owned()).collect()
}

fn paragraph_or_list(lines: &[&str]) -> Block {
    if !lines[0].starts_with("- ") {
        return Block::Paragraph(join(lines.iter().copied()));
    }
    let mut items: Vec<Vec<&str>> = Vec::new();
    for line in lines {
        match (line.strip_prefix("- "), items.last_mut()) {
            (Some(item), _) => items.push(vec![item]),
            (None, Some(item)) => item.push(line),
            (None, None) => {}
        }
    }
    Block::List(items.into_iter().map(|item| join(item.into_iter())).collect())
}

fn join<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

/// The pieces of a line; of a link only its text, unless it leads to another page.
pub fn spans(text: &str) -> Vec<Span<'_>> {
    let mut spans = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (span, after) = first_span(rest);
        spans.push(span);
        rest = after;
    }
    spans
}

fn first_span(text: &str) -> (Span<'_>, &str) {
    if let Some((code, after)) = text.strip_prefix('`').and_then(|rest| rest.split_once('`')) {
        return (Span::Code(code), after);
    }
    if let Some((bold, after)) = text.strip_prefix("**").and_then(|rest| rest.split_once("**")) {
        return (Span::Bold(bold), after);
    }
    if let Some((shown, after)) = text.strip_prefix('[').and_then(|rest| rest.split_once("]("))
        && let Some((target, after)) = after.split_once(')')
    {
        // A place within a page is cited as the page.
        let page = target.split_once('#').map_or(target, |(page, _)| page);
        let is_page = page.strip_suffix(".md").is_some_and(|name| !name.contains('/'));
        return (if is_page { Span::Page(page) } else { Span::Plain(shown) }, after);
    }
    // At least one character: what begins like the above but is none of them is plain.
    let start = text.chars().next().map_or(0, char::len_utf8);
    let marks = ["`", "**", "["].iter().filter_map(|mark| text[start..].find(mark));
    let end = marks.min().map_or(text.len(), |index| start + index);
    (Span::Plain(&text[..end]), &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_distinguished() {
        let text = "# One\na\nb\n\n- c\n  d\n- e\n\n| x | `y|z` |\n|---|---|\n| 1 | 2 |\n```sh\n# f\n```\n";
        let row = |cells: &[&str]| cells.iter().map(|&cell| cell.to_owned()).collect::<Vec<_>>();
        assert_eq!(
            blocks(text),
            [
                Block::Heading(1, "One".into()),
                Block::Paragraph("a b".into()),
                Block::List(vec!["c d".into(), "e".into()]),
                Block::Table(vec![row(&["x", "`y|z`"]), row(&["1", "2"])]),
                Block::Code(vec!["# f".into()]),
            ]
        );
    }

    #[test]
    fn spans_are_distinguished() {
        assert_eq!(
            spans("a `b` **c** [d](e) [h](i.md#j) [f] `g"),
            [
                Span::Plain("a "),
                Span::Code("b"),
                Span::Plain(" "),
                Span::Bold("c"),
                Span::Plain(" "),
                Span::Plain("d"),
                Span::Plain(" "),
                Span::Page("i.md"),
                Span::Plain(" "),
                Span::Plain("[f] "),
                Span::Plain("`g"),
            ]
        );
    }
}
