//! A summary as a picture: what tasks did when, the critical path through them, and the matrix of messages. SVG.

use super::critical::What;
use super::record::{DOINGS, Doing, Moment, Record, Task};
use super::summary::{Matrix, Summary};
use super::text::time;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Widths, in pixels: of names, of the time, and of the margin.
const NAMES: i64 = 190;
const WIDE: i64 = 1000;
const MARGIN: i64 = 20;
/// Height of a row, and of the bar in it.
const ROW: i64 = 16;
const BAR: i64 = 11;
/// Tasks that are drawn: those of the critical path, and the first ones.
const ROWS_MAX: usize = 80;
/// Hosts or tasks of the matrix.
const MATRIX_MAX: usize = 64;
/// The most cells' side.
const CELL_MAX: i64 = 26;

fn colour(doing: Doing) -> &'static str {
    match doing {
        Doing::Computing => "#3d9b63",
        Doing::Waiting => "#e9b95c",
        Doing::Sending => "#2f6bd0",
        Doing::Daemon => "#9a5fb8",
        Doing::Unknown => "#d4d8de",
    }
}

/// The picture.
pub fn svg(record: &Record, summary: &Summary) -> String {
    let rows = rows(record, summary);
    let begin = record.tasks.iter().map(|task| task.begin).min().unwrap_or(0);
    let mut drawing = Drawing { out: String::new(), begin, length: record.length().max(1) };
    let top = 64;
    for (at, &task) in rows.iter().enumerate() {
        drawing.row(record, &record.tasks[task], top + at as i64 * ROW);
    }
    let bottom = top + rows.len() as i64 * ROW;
    drawing.axis(top, bottom);
    drawing.path(summary, &rows, top);
    let left_out = record.tasks.len() - rows.len();
    if left_out > 0 {
        drawing.text((MARGIN, bottom + 14), "start", &format!("{left_out} more tasks"));
    }
    let end = drawing.matrix(record, summary, bottom + 60);
    drawing.legend();
    let (width, height) = (2 * MARGIN + NAMES + WIDE, end + MARGIN);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\" fill=\"#222\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{}</svg>\n",
        drawing.out
    )
}

/// The tasks that are drawn, in the order of their ids.
fn rows(record: &Record, summary: &Summary) -> Vec<usize> {
    let on_path = summary.on_path.iter().map(|one| one.task);
    let mut rows = BTreeSet::new();
    for task in on_path.chain(0..record.tasks.len()) {
        if rows.len() >= ROWS_MAX {
            break;
        }
        rows.insert(task);
    }
    rows.into_iter().collect()
}

struct Drawing {
    out: String,
    begin: Moment,
    length: Moment,
}

impl Drawing {
    fn x(&self, moment: Moment) -> f64 {
        (MARGIN + NAMES) as f64 + self.column(moment)
    }

    /// Pixels from the begin.
    fn column(&self, moment: Moment) -> f64 {
        (moment - self.begin) as f64 / self.length as f64 * WIDE as f64
    }

    fn text(&mut self, (x, y): (i64, i64), anchor: &str, text: &str) {
        let _ =
            writeln!(self.out, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{}</text>", escaped(text));
    }

    fn bar(&mut self, (x, y): (f64, i64), width: f64, doing: Doing) {
        let colour = colour(doing);
        let _ = writeln!(
            self.out,
            "<rect x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{BAR}\" fill=\"{colour}\"/>"
        );
    }

    fn legend(&mut self) {
        for (at, doing) in DOINGS.into_iter().enumerate() {
            let x = MARGIN + at as i64 * 100;
            self.bar((x as f64, MARGIN), 11.0, doing);
            self.text((x + 16, MARGIN + 10), "start", doing.name());
        }
        let x = MARGIN + 500;
        let _ = writeln!(
            self.out,
            "<path d=\"M{x} {y}h24\" stroke=\"#c2273d\" stroke-width=\"2\"/>",
            y = MARGIN + 6
        );
        self.text((x + 30, MARGIN + 10), "start", "critical path");
    }

    fn axis(&mut self, top: i64, bottom: i64) {
        for tenth in 0..=10 {
            let moment = self.begin + self.length / 10 * tenth;
            let x = self.x(moment).round() as i64;
            let _ = writeln!(self.out, "<path d=\"M{x}.5 {}V{bottom}\" stroke=\"#0002\"/>", top - 6);
            let anchor = if tenth == 10 { "end" } else { "middle" };
            self.text((x, top - 10), anchor, &time(moment - self.begin));
        }
    }

    /// A task's row. However many calls it has, no bar is drawn within a pixel: there, what it did longest counts.
    fn row(&mut self, record: &Record, task: &Task, y: i64) {
        let name = format!("{} {} {}", task.id, record.hosts[task.host], task.program);
        let name: String = name.chars().take(32).collect();
        self.text((MARGIN, y + BAR - 1), "start", &name);
        let mut runs: Vec<(usize, usize, Doing)> = Vec::new();
        for (pixel, doing) in self.pixels(task) {
            match runs.last_mut() {
                Some((_, end, last)) if (*end, *last) == (pixel, doing) => *end += 1,
                _ => runs.push((pixel, pixel + 1, doing)),
            }
        }
        for (from, end, doing) in runs {
            self.bar(((MARGIN + NAMES) as f64 + from as f64, y), (end - from) as f64, doing);
        }
    }

    /// What a task did longest in each pixel of its life.
    fn pixels(&self, task: &Task) -> Vec<(usize, Doing)> {
        let mut times = vec![[0.0_f64; DOINGS.len()]; WIDE as usize];
        for part in &task.parts {
            let (mut from, to) = (self.column(part.begin).max(0.0), self.column(part.end));
            while from < to {
                let pixel = (from as usize).min(times.len() - 1);
                let end = to.min(pixel as f64 + 1.0);
                times[pixel][part.doing as usize] += end - from;
                if end <= from {
                    break;
                }
                from = end;
            }
        }
        let longest = |times: &[f64; DOINGS.len()]| {
            let best = DOINGS
                .into_iter()
                .max_by(|&one, &other| times[one as usize].total_cmp(&times[other as usize]));
            best.filter(|&doing| times[doing as usize] > 0.0)
        };
        times.iter().enumerate().filter_map(|(pixel, times)| Some((pixel, longest(times)?))).collect()
    }

    fn path(&mut self, summary: &Summary, rows: &[usize], top: i64) {
        let y = |task: usize| rows.binary_search(&task).ok().map(|row| top + row as i64 * ROW + BAR / 2);
        let mut d = String::new();
        let mut last = String::new();
        for step in &summary.path {
            let ends = match step.what {
                What::Task(task) | What::Start(task) => [task, task],
                What::Message { from, to } => [from, to],
            };
            for (task, moment) in ends.into_iter().zip([step.begin, step.end]) {
                let Some(y) = y(task) else { continue };
                let point = format!("{:.1} {y}", self.x(moment));
                // Of a path of a million steps most are within a pixel.
                if point != last {
                    let _ = write!(d, "{}{point}", if d.is_empty() { "M" } else { "L" });
                    last = point;
                }
            }
        }
        let _ = writeln!(
            self.out,
            "<path d=\"{d}\" fill=\"none\" stroke=\"#c2273d\" stroke-width=\"2\" stroke-linejoin=\"round\"/>"
        );
    }

    /// Returns where it ends.
    fn matrix(&mut self, record: &Record, summary: &Summary, top: i64) -> i64 {
        let of_tasks = record.tasks.len() <= MATRIX_MAX;
        let (what, names, matrix): (_, Vec<&str>, &Matrix) = if of_tasks {
            ("tasks", record.tasks.iter().map(|task| &*task.id).collect(), &summary.tasks_matrix)
        } else {
            ("hosts", record.hosts.iter().map(|host| &**host).collect(), &summary.hosts_matrix)
        };
        let shown = names.len().min(MATRIX_MAX);
        let rest = if shown < names.len() { format!(" (the first {shown})") } else { String::new() };
        let title = format!("Messages between {what}{rest}: rows send, columns receive, darker is more");
        self.text((MARGIN, top - 20), "start", &title);
        let side = CELL_MAX.min(640 / shown.max(1) as i64);
        let (left, top) = (MARGIN + NAMES, top + 70);
        let most = matrix.values().map(|cell| cell.messages).max().unwrap_or(0);
        for (at, name) in names.iter().take(shown).enumerate() {
            let (name, middle) = (name.chars().take(24).collect::<String>(), at as i64 * side + side / 2 + 4);
            self.text((left - 6, top + middle), "end", &name);
            let (x, y) = (left + middle, top - 6);
            let _ = writeln!(
                self.out,
                "<text x=\"{x}\" y=\"{y}\" transform=\"rotate(-60 {x} {y})\">{}</text>",
                escaped(&name.chars().take(14).collect::<String>())
            );
        }
        for (&(from, to), cell) in matrix.iter().filter(|((from, to), _)| *from < shown && *to < shown) {
            // By powers: one busy pair is not all that is to be seen.
            let depth = ((cell.messages as f64).ln_1p() / (most as f64).ln_1p()).clamp(0.12, 1.0);
            let (x, y) = (left + to as i64 * side, top + from as i64 * side);
            let told =
                format!("{} to {}: {} messages, {} bytes", names[from], names[to], cell.messages, cell.bytes);
            let _ = writeln!(
                self.out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{side}\" height=\"{side}\" fill=\"#0b57a8\" fill-opacity=\"{depth:.2}\"><title>{}</title></rect>",
                escaped(&told)
            );
        }
        let length = side * shown as i64;
        let _ = writeln!(
            self.out,
            "<rect x=\"{left}\" y=\"{top}\" width=\"{length}\" height=\"{length}\" fill=\"none\" stroke=\"#0004\"/>"
        );
        top + length
    }
}

/// Text in XML; characters that XML does not know become question marks.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for char in text.chars() {
        match char {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            char if char.is_control() || ['\u{fffe}', '\u{ffff}'].contains(&char) => out.push('?'),
            char => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::file;
    use crate::trace::summary::tests::FARM;

    #[test]
    fn a_picture_has_rows_the_path_and_the_matrix() {
        let record = file::read(FARM.as_bytes()).unwrap();
        let picture = svg(&record, &Summary::of(&record));
        for part in [
            "<svg xmlns=",
            "t80002 node&lt;2&gt; work",
            // The waits of the first 20 and the 70 ms after them look the same.
            "<rect x=\"240.0\" y=\"64\" width=\"870.0\" height=\"11\" fill=\"#e9b95c\"/>",
            "<title>t80002 to t40001: 1 messages, 200 bytes</title>",
            "Messages between tasks: rows send",
        ] {
            assert!(picture.contains(part), "{part}\n{picture}");
        }
        let path = picture.lines().find(|line| line.contains("stroke-linejoin")).unwrap();
        assert!(path.contains("M210.0 69L230.0 69L230.0 101L1090.0 101L1110.0 69L1210.0 69"), "{path}");
        assert!(picture.ends_with("</svg>\n"));
    }

    #[test]
    fn names_cannot_break_the_picture() {
        assert_eq!(escaped("a<b>&\"\u{1}\n"), "a&lt;b&gt;&amp;&quot;??");
    }

    #[test]
    fn the_picture_of_many_calls_is_small() {
        let spans: Vec<String> = (0..20_000)
            .map(|at| {
                let cat = ["sending", "computing"][at % 2];
                format!("{{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"name\":\"x\",\"cat\":\"{cat}\",\"ts\":{at},\"dur\":1}}")
            })
            .collect();
        let text = format!(
            "{{\"traceEvents\":[{{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"name\":\"x\",\"cat\":\"task\",\"ts\":0,\"dur\":20000}},{}]}}",
            spans.join(",")
        );
        let record = file::read(text.as_bytes()).unwrap();
        assert!(svg(&record, &Summary::of(&record)).len() < 200_000);
    }
}
