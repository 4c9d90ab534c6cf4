//! What the screen shows, and how keys change it.

use super::Screen;
use super::table::{Order, Table};
use super::tables;
use crate::view::View;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::collections::HashMap;

/// Longest filter.
const FILTER_MAX: usize = 100;

/// What a key asks of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Nothing.
    None,
    /// The end.
    Quit,
    /// To be stopped, as a shell's job.
    Suspend,
}

/// State of a table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Panel {
    /// How it is sorted.
    pub order: Order,
    /// Which of the shown rows is marked.
    pub marked: usize,
    /// The first row on the screen.
    pub first: usize,
    /// Rows that fit, as last drawn.
    pub height: usize,
}

/// State of the screen.
#[derive(Debug, Default)]
pub struct App {
    /// Which screen.
    pub screen: Screen,
    /// Its tables.
    pub tables: Vec<Table>,
    /// Totals, above the tables.
    pub summary: String,
    /// Only rows with this text are shown.
    pub filter: String,
    /// The filter is being typed.
    pub is_typing: bool,
    /// The help covers the tables.
    pub is_helping: bool,
    /// The tables stay as they are.
    pub is_paused: bool,
    view: View,
    focus: usize,
    panels: HashMap<(Screen, &'static str), Panel>,
}

impl App {
    /// A screen that waits for its first view.
    pub fn new(screen: Screen) -> Self {
        let mut app = Self { screen, summary: "waiting for the hosts".to_owned(), ..Self::default() };
        app.rebuild();
        app
    }

    /// A new state of the machine.
    pub fn update(&mut self, view: View) {
        if !self.is_paused {
            self.summary = tables::summary(&view);
            self.view = view;
            self.rebuild();
        }
    }

    fn rebuild(&mut self) {
        self.tables = self.screen.tables(&self.view);
        self.focus = self.focus.min(self.tables.len().saturating_sub(1));
    }

    /// Index of the table that keys act on.
    pub fn focus(&self) -> usize {
        self.focus
    }

    /// The state of a table.
    pub fn panel(&mut self, title: &'static str) -> &mut Panel {
        self.panels.entry((self.screen, title)).or_default()
    }

    fn focused(&mut self) -> Option<(&Table, &mut Panel)> {
        let table = self.tables.get(self.focus)?;
        Some((table, self.panels.entry((self.screen, table.title)).or_default()))
    }

    /// A key has been pressed.
    pub fn key(&mut self, key: KeyEvent) -> Wish {
        if key.kind == KeyEventKind::Release {
            return Wish::None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Wish::Quit,
                KeyCode::Char('z') => Wish::Suspend,
                _ => Wish::None,
            };
        }
        if self.is_typing {
            self.type_filter(key.code);
            return Wish::None;
        }
        if std::mem::take(&mut self.is_helping) {
            return if key.code == KeyCode::Char('q') { Wish::Quit } else { Wish::None };
        }
        match key.code {
            KeyCode::Char('q') => return Wish::Quit,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.is_helping = true,
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('c') => self.change_screen(),
            KeyCode::Tab => self.change_focus(1),
            KeyCode::BackTab => self.change_focus(-1),
            code => self.act_on_table(code),
        }
        Wish::None
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(typed) if self.filter.len() < FILTER_MAX => self.filter.push(typed),
            _ => {}
        }
    }

    fn change_screen(&mut self) {
        self.screen = match self.screen {
            Screen::Overview => Screen::Coscheduling,
            Screen::Coscheduling => Screen::Overview,
        };
        self.focus = 0;
        self.rebuild();
    }

    fn change_focus(&mut self, step: isize) {
        let count = self.tables.len().cast_signed();
        if count > 0 {
            self.focus = (self.focus.cast_signed() + step).rem_euclid(count).cast_unsigned();
        }
    }

    fn act_on_table(&mut self, code: KeyCode) {
        let filter = self.filter.clone();
        let Some((table, panel)) = self.focused() else { return };
        let rows = table.shown(&filter, Order::default()).len();
        let page = panel.height.max(1);
        match code {
            KeyCode::Up | KeyCode::Char('k') => panel.marked = panel.marked.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => panel.marked += 1,
            KeyCode::PageUp => panel.marked = panel.marked.saturating_sub(page),
            KeyCode::PageDown => panel.marked += page,
            KeyCode::Home => panel.marked = 0,
            KeyCode::End => panel.marked = rows,
            KeyCode::Right => panel.order.next(table.columns.len()),
            KeyCode::Left => panel.order.previous(table.columns.len()),
            KeyCode::Char('r') => panel.order.is_reversed = !panel.order.is_reversed,
            _ => {}
        }
        panel.marked = panel.marked.min(rows.saturating_sub(1));
    }
}

impl Panel {
    /// Moves the window so that the marked row is in it. The window is no longer than the table, and begins no later than its last rows.
    pub fn fit(&mut self, rows: usize, height: usize) {
        self.height = height;
        self.marked = self.marked.min(rows.saturating_sub(1));
        let last = self.marked.saturating_sub(height.saturating_sub(1));
        self.first = self.first.clamp(last, self.marked.max(last)).min(rows.saturating_sub(height));
    }
}

impl Order {
    /// By the next column; after the last one, in the machine's order.
    fn next(&mut self, columns: usize) {
        self.column = self.column.map_or(Some(0), |column| Some(column + 1).filter(|&next| next < columns));
    }

    fn previous(&mut self, columns: usize) {
        self.column = self.column.map_or(columns.checked_sub(1), |column| column.checked_sub(1));
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::view::{Host, TaskRates, TurnRates};
    use pvm3::{HostInfo, Tid};

    /// A machine with these hosts and no tasks.
    pub fn view(hosts: usize) -> View {
        let host = |number: usize| {
            let tid = Tid::from_raw((number as i32 + 1) << 18);
            Host {
                info: HostInfo {
                    tid,
                    name: format!("node{number}"),
                    arch: "LINUX64".into(),
                    speed: 1000,
                    signature: 0,
                },
                load: None,
                turns: None,
                turn_rates: TurnRates::default(),
                rates: TaskRates::default(),
                tasks: number % 7,
            }
        };
        View { hosts: (0..hosts).map(host).collect(), ..View::default() }
    }

    fn press(app: &mut App, codes: &[KeyCode]) -> Wish {
        let keys = codes.iter().map(|&code| KeyEvent::new(code, KeyModifiers::NONE));
        keys.map(|key| app.key(key)).last().unwrap_or(Wish::None)
    }

    fn of(hosts: usize) -> App {
        let mut app = App::new(Screen::Overview);
        app.update(view(hosts));
        app
    }

    #[test]
    fn the_marked_row_stays_among_the_rows_and_in_the_window() {
        let mut app = of(50);
        app.panel("Hosts").fit(50, 10);
        press(&mut app, &[KeyCode::Down, KeyCode::PageDown]);
        assert_eq!(app.panel("Hosts").marked, 11);
        app.panel("Hosts").fit(50, 10);
        assert_eq!(app.panel("Hosts").first, 2);
        press(&mut app, &[KeyCode::End, KeyCode::Down]);
        app.panel("Hosts").fit(50, 10);
        assert_eq!((app.panel("Hosts").marked, app.panel("Hosts").first), (49, 40));
        app.panel("Hosts").fit(3, 10);
        assert_eq!((app.panel("Hosts").marked, app.panel("Hosts").first), (2, 0));
        app.panel("Hosts").fit(0, 0);
        press(&mut app, &[KeyCode::Home, KeyCode::Up]);
        app.panel("Hosts").fit(50, 10);
        assert_eq!((app.panel("Hosts").marked, app.panel("Hosts").first), (0, 0));
    }

    #[test]
    fn columns_are_chosen_to_the_right_and_to_the_left() {
        let mut app = of(3);
        press(&mut app, &[KeyCode::Right, KeyCode::Right, KeyCode::Char('r')]);
        assert_eq!(app.panel("Hosts").order, Order { column: Some(1), is_reversed: true });
        press(&mut app, &[KeyCode::Left, KeyCode::Left]);
        assert_eq!(app.panel("Hosts").order.column, None);
        press(&mut app, &[KeyCode::Left]);
        assert_eq!(app.panel("Hosts").order.column, Some(8));
        press(&mut app, &[KeyCode::Right]);
        assert_eq!(app.panel("Hosts").order.column, None);
    }

    #[test]
    fn letters_of_a_filter_are_no_commands() {
        let mut app = of(30);
        assert_eq!(
            press(&mut app, &[KeyCode::Char('/'), KeyCode::Char('q'), KeyCode::Char('1')]),
            Wish::None
        );
        assert_eq!((&*app.filter, app.is_typing), ("q1", true));
        press(&mut app, &[KeyCode::Backspace, KeyCode::Backspace, KeyCode::Backspace, KeyCode::Char('7')]);
        press(&mut app, &[KeyCode::Enter, KeyCode::End]);
        assert_eq!((app.panel("Hosts").marked, app.is_typing), (2, false), "node7, node17 and node27");
        press(&mut app, &[KeyCode::Esc]);
        assert!(app.filter.is_empty());
    }

    #[test]
    fn a_pause_keeps_the_tables() {
        let mut app = of(3);
        press(&mut app, &[KeyCode::Char(' ')]);
        app.update(view(7));
        assert_eq!(app.tables[0].rows.len(), 3);
        press(&mut app, &[KeyCode::Char(' ')]);
        app.update(view(7));
        assert_eq!(app.tables[0].rows.len(), 7);
    }

    #[test]
    fn each_screen_keeps_its_order_and_quits() {
        let mut app = of(3);
        press(&mut app, &[KeyCode::Tab, KeyCode::Right]);
        assert_eq!((app.focus(), app.panel("Tasks").order.column), (1, Some(0)));
        press(&mut app, &[KeyCode::Char('c')]);
        assert_eq!(
            (app.screen, app.focus(), app.panel("Tasks").order.column),
            (Screen::Coscheduling, 0, None)
        );
        press(&mut app, &[KeyCode::BackTab]);
        assert_eq!(app.focus(), 2);
        press(&mut app, &[KeyCode::Char('c')]);
        assert_eq!((app.focus(), app.panel("Tasks").order.column), (0, Some(0)));
        assert_eq!(press(&mut app, &[KeyCode::Char('?'), KeyCode::Char('x')]), Wish::None);
        assert!(!app.is_helping, "any key leaves the help");
        assert_eq!(press(&mut app, &[KeyCode::Char('q')]), Wish::Quit);
        let control = |key| KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL);
        assert_eq!((app.key(control('c')), app.key(control('z'))), (Wish::Quit, Wish::Suspend));
    }
}
