//! The input of the console: a terminal or a pipe.
//!
//! A thread waits for the next line, so that the console can print what tasks write meanwhile.

use super::completion::{Completion, Shared};
use rustyline::error::ReadlineError;
use rustyline::history::{DefaultHistory, History as _, SearchDirection};
use rustyline::{CompletionType, Config, Editor, ExternalPrinter};
use std::collections::VecDeque;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// The prompt.
pub const PROMPT: &str = "pvm> ";

/// A line of input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A line, without its end.
    Text(String),
    /// There will be no more.
    End,
    /// Nothing yet.
    Nothing,
}

/// Lines as they are edited.
type LineEditor = Editor<Completion, DefaultHistory>;

/// The console's standard input and output.
pub struct Input {
    lines: Receiver<Line>,
    wanted: Sender<()>,
    printer: Option<Box<dyn ExternalPrinter + Send>>,
}

impl Input {
    /// Reads standard input: with editing and history if it is a terminal.
    pub fn open(words: Shared) -> Self {
        let (wanted, requests) = channel();
        let (sender, lines) = channel();
        let mut printer = None;
        let terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        // Lines that are pasted are carried out at once, as by PVM's console; and bracketed paste would stay on in the
        // terminal if the console ended while it waits.
        let config = Config::builder().bracketed_paste(false).completion_type(CompletionType::List).build();
        match terminal.then(|| LineEditor::with_config(config)) {
            Some(Ok(mut editor)) => {
                editor.set_helper(Some(Completion::new(words.clone())));
                printer = editor.create_external_printer().ok().map(|it| Box::new(it) as Box<_>);
                std::thread::spawn(move || edit(editor, &words, &requests, &sender));
            }
            _ => drop(std::thread::spawn(move || read(&requests, &sender))),
        }
        Self { lines, wanted, printer }
    }

    /// Prompts for the next line; [`Input::next`] returns it.
    pub fn prompt(&self) {
        // If the thread has ended, `next` reports it.
        let _ = self.wanted.send(());
    }

    /// Whether a person types the lines.
    pub fn is_edited(&self) -> bool {
        self.printer.is_some()
    }

    /// The next line, if it arrives within this time.
    pub fn next(&self, time: Duration) -> Line {
        match self.lines.recv_timeout(time) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => Line::Nothing,
            Err(RecvTimeoutError::Disconnected) => Line::End,
        }
    }

    /// Prints, without disturbing what is being typed.
    pub fn print(&mut self, text: &str) {
        match &mut self.printer {
            Some(printer) if !text.is_empty() => drop(printer.print(text.to_owned())),
            _ => {
                let mut stdout = io::stdout().lock();
                // A reader that has left is noticed by the shell, not here.
                let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
            }
        }
    }
}

fn edit(mut editor: LineEditor, words: &Shared, requests: &Receiver<()>, lines: &Sender<Line>) {
    let history = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".pvm_history"));
    if let Some(history) = &history {
        let _ = editor.load_history(history);
        words.with(|words| words.history.splice(..0, entries(editor.history())).for_each(drop));
    }
    let mut ready = VecDeque::new();
    while requests.recv().is_ok() {
        if ready.is_empty() {
            ready = edited(&mut editor, history.as_deref());
        }
        if lines.send(ready.pop_front().unwrap_or(Line::End)).is_err() {
            return;
        }
    }
}

fn entries(history: &DefaultHistory) -> Vec<String> {
    let entry = |index| history.get(index, SearchDirection::Forward).ok().flatten();
    (0..history.len()).map_while(entry).map(|found| found.entry.into_owned()).collect()
}

/// The next input: several lines if they were pasted in one piece.
fn edited(editor: &mut LineEditor, history: Option<&Path>) -> VecDeque<Line> {
    let text = match editor.readline(PROMPT) {
        Ok(text) => text,
        Err(ReadlineError::Interrupted) => String::new(),
        Err(_) => return VecDeque::from([Line::End]),
    };
    for line in text.lines() {
        if matches!(editor.add_history_entry(line), Ok(true))
            && let Some(history) = history
        {
            // The console may be ended at any moment; the history should not be.
            let _ = editor.append_history(history);
        }
    }
    if text.is_empty() {
        return VecDeque::from([Line::Text(text)]);
    }
    text.lines().map(|line| Line::Text(line.to_owned())).collect()
}

/// As PVM's console, prompts and repeats the command also when input is not from a terminal.
fn read(requests: &Receiver<()>, lines: &Sender<Line>) {
    let echo = !io::stdin().is_terminal();
    while requests.recv().is_ok() {
        let mut stdout = io::stdout();
        let _ = stdout.write_all(PROMPT.as_bytes()).and_then(|()| stdout.flush());
        let mut bytes = Vec::new();
        let line = match io::stdin().lock().read_until(b'\n', &mut bytes) {
            Ok(length) if length > 0 => {
                let text = String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned();
                if echo {
                    let _ = writeln!(stdout, "{text}");
                }
                Line::Text(text)
            }
            _ => Line::End,
        };
        if lines.send(line).is_err() {
            return;
        }
    }
}
