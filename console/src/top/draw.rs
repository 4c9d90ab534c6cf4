//! Draws the screen.

use super::Screen;
use super::app::{App, Panel};
use super::table::{Cell, Column, Order, Table};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph, Row, Wrap};

/// Widest column but the last.
const WIDTH_MAX: usize = 32;
/// Lines of a table besides its rows: the title and the names of columns.
const HEAD: usize = 2;
/// From this height on the second screen explains all columns of the table that has the focus.
const ROOMY: u16 = 28;

const KEYS: &[(&str, &str)] = &[
    ("q", "quit"),
    ("Tab", "next table"),
    ("up, down, PageUp, PageDown, Home, End", "move in the table"),
    ("left, right", "sort by the column beside"),
    ("r", "reverse the order"),
    ("/", "show only rows with a text; Enter ends it, Esc removes it"),
    ("Space", "pause"),
    ("c", "coscheduling, and back"),
    ("?", "this help"),
];

/// Draws everything.
pub fn draw(frame: &mut Frame, app: &mut App) {
    let explains_all = app.screen == Screen::Coscheduling && frame.area().height >= ROOMY;
    let columns = app.tables.get(app.focus()).map_or(&[][..], |table| table.columns);
    let about = if explains_all { columns.len() as u16 + 1 } else { 1 };
    let layout =
        [Constraint::Length(1), Constraint::Min(0), Constraint::Length(about), Constraint::Length(1)];
    let [top, middle, explained, bottom] = Layout::vertical(layout).areas(frame.area());
    let pause = if app.is_paused { " [paused]" } else { "" };
    frame.render_widget(Line::styled(format!("{}{pause}", app.summary), bold()), top);
    tables(frame, app, middle);
    if explains_all {
        frame.render_widget(explanations(columns), explained);
    } else {
        frame.render_widget(explanation(app), explained);
    }
    frame.render_widget(footer(app), bottom);
    if app.is_helping {
        help(frame, app);
    }
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

/// Divides the lines of the screen among tables, given the number of rows of each. A table other than the last has no more lines than it
/// needs, and no more than an equal part of those that are left.
fn heights(rows: &[usize], lines: usize) -> Vec<usize> {
    let mut left = lines;
    let mut heights = Vec::new();
    for (at, &count) in rows.iter().enumerate() {
        let after = rows.len() - at - 1;
        let height = if after == 0 { left } else { (count.max(1) + HEAD).min(left / (after + 1)) };
        heights.push(height);
        left -= height;
    }
    heights
}

fn tables(frame: &mut Frame, app: &mut App, area: Rect) {
    let tables = std::mem::take(&mut app.tables);
    let counts: Vec<usize> = tables.iter().map(|table| table.rows.len()).collect();
    let mut y = area.y;
    for (at, (table, height)) in tables.iter().zip(heights(&counts, area.height.into())).enumerate() {
        let height = height as u16;
        let place = Rect { y, height, ..area };
        y += height;
        if usize::from(height) > HEAD {
            let (filter, is_focused) = (app.filter.clone(), at == app.focus());
            one(frame, table, app.panel(table.title), &filter, is_focused, place);
        }
    }
    app.tables = tables;
}

fn one(frame: &mut Frame, table: &Table, panel: &mut Panel, filter: &str, is_focused: bool, area: Rect) {
    let rows = table.shown(filter, panel.order);
    panel.fit(rows.len(), usize::from(area.height).saturating_sub(HEAD));
    let shown: Vec<&[Cell]> = rows.iter().skip(panel.first).take(panel.height).copied().collect();
    let widths = widths(table.columns, &shown);
    let titles =
        table.columns.iter().enumerate().map(|(at, column)| title(column, widths[at], at, panel.order));
    let lines = shown.iter().enumerate().map(|(at, row)| {
        let cells = table.columns.iter().zip(*row).map(|(column, cell)| aligned(column, cell.text.clone()));
        let is_marked = is_focused && panel.first + at == panel.marked;
        let style = if is_marked { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        Row::new(cells.collect::<Vec<_>>()).style(style)
    });
    // A text at the end has the rest of the line.
    let last = table.columns.len().saturating_sub(1);
    let constraints = table.columns.iter().zip(&widths).enumerate().map(|(at, (column, &width))| {
        let width = width as u16;
        if at == last && !column.is_number { Constraint::Min(width) } else { Constraint::Length(width) }
    });
    let place = match (rows.len(), table.rows.len()) {
        (0, 0) => " none ".to_owned(),
        (few, all) if few < all => format!(" {few} of {all} "),
        (all, _) if all > panel.height => {
            format!(" {}-{} of {all} ", panel.first + 1, panel.first + shown.len())
        }
        (all, _) => format!(" {all} "),
    };
    let head = if is_focused { bold() } else { dim() };
    let block = Block::new()
        .borders(Borders::TOP)
        .border_style(head)
        .title(Span::styled(format!(" {} ", table.title), head))
        .title(Line::styled(place, head).alignment(Alignment::Right));
    let drawn = ratatui::widgets::Table::new(lines, constraints.collect::<Vec<_>>())
        .header(Row::new(titles.collect::<Vec<_>>()).style(bold()))
        .block(block);
    frame.render_widget(drawn, area);
}

fn widths(columns: &[Column], rows: &[&[Cell]]) -> Vec<usize> {
    let width = |at: usize, column: &Column| {
        let longest = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.text.chars().count()).max();
        // A mark of the order stands beside the title.
        let title = column.title.chars().count() + 1;
        longest.unwrap_or(0).min(WIDTH_MAX).max(title).max(if column.is_number {
            column.width.into()
        } else {
            0
        })
    };
    columns.iter().enumerate().map(|(at, column)| width(at, column)).collect()
}

fn aligned(column: &Column, text: String) -> Line<'static> {
    let side = if column.is_number { Alignment::Right } else { Alignment::Left };
    Line::from(text).alignment(side)
}

/// The title of a column, with an arrow if the table is sorted by it: down if what is shown first is first in the column's own order.
fn title(column: &Column, width: usize, at: usize, order: Order) -> Line<'static> {
    let mark = match (order.column == Some(at), order.is_reversed) {
        (false, _) => "",
        (true, false) => "\u{25be}",
        (true, true) => "\u{25b4}",
    };
    let style = if mark.is_empty() { bold() } else { bold().add_modifier(Modifier::UNDERLINED) };
    let text = format!("{}{mark}", column.title);
    let text = if column.is_number { format!("{text:>width$}") } else { text };
    Line::styled(text, style)
}

/// What the column shows by which the table is sorted.
fn explanation(app: &mut App) -> Line<'static> {
    let Some(table) = app.tables.get(app.focus()) else { return Line::default() };
    let (title, columns) = (table.title, table.columns);
    let column = app.panel(title).order.column.and_then(|at| columns.get(at));
    column.map_or_else(Line::default, |column| Line::styled(about(column), dim()))
}

fn about(column: &Column) -> String {
    format!("{}: {}", column.title, column.about)
}

fn explanations(columns: &[Column]) -> Paragraph<'static> {
    let lines: Vec<Line<'static>> = columns.iter().map(explained).collect();
    Paragraph::new(lines).block(Block::new().borders(Borders::TOP).border_style(dim()).title(" Columns "))
}

fn explained(column: &Column) -> Line<'static> {
    Line::from(vec![Span::styled(format!("{:>10}  ", column.title), bold()), Span::raw(column.about)])
}

fn footer(app: &App) -> Line<'static> {
    if app.is_typing {
        return Line::from(format!("/{}\u{2588}", app.filter));
    }
    let mut spans = Vec::new();
    if !app.filter.is_empty() {
        spans.push(Span::styled(format!(" with \"{}\", Esc: all ", app.filter), bold()));
    }
    let brief = [
        ("q", "quit"),
        ("Tab", "table"),
        ("\u{2190}\u{2192}", "sort"),
        ("r", "reverse"),
        ("/", "filter"),
        ("Space", "pause"),
        ("c", if app.screen == Screen::Overview { "coscheduling" } else { "overview" }),
        ("?", "help"),
    ];
    for (key, does) in brief {
        spans.push(Span::styled(format!(" {key} "), Style::new().add_modifier(Modifier::REVERSED)));
        spans.push(Span::raw(format!(" {does} ")));
    }
    Line::from(spans)
}

fn help(frame: &mut Frame, app: &App) {
    let mut lines = vec![Line::styled("Keys", bold())];
    lines.extend(KEYS.iter().map(|(key, does)| Line::from(format!("  {key}: {does}"))));
    for table in &app.tables {
        lines.push(Line::default());
        lines.push(Line::styled(table.title, bold()));
        lines.extend(table.columns.iter().map(|column| Line::from(format!("  {}", about(column)))));
    }
    lines.push(Line::default());
    lines.push(Line::from("Any key goes back."));
    let block = Block::bordered().title(" pvm top ");
    frame.render_widget(Clear, frame.area());
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), frame.area());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::app::tests::view;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    fn app(hosts: usize) -> App {
        let mut app = App::new(Screen::Overview);
        app.update(view(hosts));
        app
    }

    fn drawn(app: &mut App, (width, height): (u16, u16)) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, app)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect()
    }

    fn press(app: &mut App, code: KeyCode) {
        app.key(KeyEvent::new(code, KeyModifiers::NONE));
    }

    #[test]
    fn tables_have_what_they_need_and_no_more_than_their_part() {
        assert_eq!(heights(&[3, 10], 30), [5, 25]);
        assert_eq!(heights(&[100, 10], 30), [15, 15]);
        assert_eq!(heights(&[0, 1, 1000], 10), [3, 3, 4]);
        assert_eq!(heights(&[5, 5], 0), [0, 0]);
        assert!(heights(&[], 9).is_empty());
    }

    #[test]
    fn the_sorted_column_is_marked_and_explained() {
        let mut app = app(12);
        for _ in 0..2 {
            press(&mut app, KeyCode::Right);
        }
        let lines = drawn(&mut app, (80, 30));
        assert!(lines[0].starts_with("12 hosts, 0 tasks; CPU of tasks 0.0 cores"), "{lines:#?}");
        assert!(lines[2].contains("TASKS\u{25be}"), "{lines:#?}");
        assert!(lines[3].starts_with("node6 "), "{lines:#?}");
        assert_eq!(lines[28], "TASKS: its tasks", "{lines:#?}");
        press(&mut app, KeyCode::Char('r'));
        assert!(drawn(&mut app, (80, 30))[3].starts_with("node7 "));
    }

    #[test]
    fn a_filter_is_shown_with_what_it_leaves() {
        let mut app = app(12);
        "/node1".chars().for_each(|typed| press(&mut app, KeyCode::Char(typed)));
        assert!(drawn(&mut app, (80, 30))[29].starts_with("/node1"));
        press(&mut app, KeyCode::Enter);
        let lines = drawn(&mut app, (80, 30));
        assert!(lines[1].ends_with(" 3 of 12"), "{lines:#?}");
        assert!(lines[29].contains("with \"node1\", Esc: all"), "{lines:#?}");
    }

    #[test]
    fn the_second_screen_explains_its_columns_and_the_help_all() {
        let mut app = app(2);
        press(&mut app, KeyCode::Char('c'));
        let text = drawn(&mut app, (120, 40)).join("\n");
        for column in ["TURNS BY  how teams without", "BOOST%  time in which", "Teams", "Turns"] {
            assert!(text.contains(column), "{column}: {text}");
        }
        press(&mut app, KeyCode::Char('?'));
        let text = drawn(&mut app, (120, 60)).join("\n");
        assert!(text.contains("left, right: sort") && text.contains("SLOWDOWN: time it takes"), "{text}");
    }

    #[test]
    fn any_size_can_be_drawn() {
        let mut app = app(300);
        for size in [(1, 1), (10, 2), (20, 3), (200, 4), (3, 100), (300, 100)] {
            for key in ['c', '?', 'x', '/'] {
                press(&mut app, KeyCode::Char(key));
                drawn(&mut app, size);
            }
            press(&mut app, KeyCode::Esc);
        }
    }
}
