//! What a trace has: tasks, what they did when, and their messages.

/// Nanoseconds since the start of the trace.
pub type Moment = i64;

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doing {
    /// Its own work, between two calls.
    Computing,
    /// Waiting for a message, or for members of a group.
    Waiting,
    /// Sending.
    Sending,
    /// Asking the daemon: spawning, for instance.
    Daemon,
    /// None of its calls is known.
    Unknown,
}

/// All that there is to do.
pub const DOINGS: [Doing; 5] =
    [Doing::Computing, Doing::Waiting, Doing::Sending, Doing::Daemon, Doing::Unknown];

impl Doing {
    /// As tables name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Computing => "computing",
            Self::Waiting => "waiting",
            Self::Sending => "sending",
            Self::Daemon => "daemon",
            Self::Unknown => "unknown",
        }
    }
}

/// A call, or the time between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// When it began.
    pub begin: Moment,
    /// When it ended.
    pub end: Moment,
    /// What it was.
    pub doing: Doing,
    /// Of a wait: what for.
    pub awaited: Option<Awaited>,
    /// It has begun a task.
    pub is_spawn: bool,
}

/// What a task waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Awaited {
    /// A message of this task.
    Task(String),
    /// Members of this group, in a call of this name.
    Group(String),
    /// A message that did not come.
    Nothing,
}

/// A part of a task's life in which it does one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// When it begins.
    pub begin: Moment,
    /// When it ends.
    pub end: Moment,
    /// What the task does.
    pub doing: Doing,
    /// The innermost span, if one is known.
    pub span: Option<usize>,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its id, as `t40002`.
    pub id: String,
    /// Its program.
    pub program: String,
    /// Its host: a number in [`Record::hosts`].
    pub host: usize,
    /// Its life.
    pub begin: Moment,
    /// Its end.
    pub end: Moment,
    /// In the order of their begins, outer ones first.
    pub spans: Vec<Span>,
    /// Its life, cut into what it did: without gaps, in order.
    pub parts: Vec<Part>,
}

/// A message that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its sender: a number in [`Record::tasks`].
    pub from: usize,
    /// Its receiver.
    pub to: usize,
    /// When the sender's call began.
    pub sent: Moment,
    /// When the receiver began to wait for it.
    pub awaited: Moment,
    /// When the receiver had it.
    pub received: Moment,
    /// Its length.
    pub bytes: u64,
}

/// A trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Names of the hosts.
    pub hosts: Vec<String>,
    /// In the order of their ids.
    pub tasks: Vec<Task>,
    /// In the order of the file.
    pub messages: Vec<Message>,
}

impl Record {
    /// From the first begin to the last end.
    pub fn length(&self) -> Moment {
        let begin = self.tasks.iter().map(|task| task.begin).min().unwrap_or(0);
        self.tasks.iter().map(|task| task.end).max().unwrap_or(0) - begin
    }
}

impl Task {
    /// Cuts the life of a task into parts by its spans: in each the innermost one counts.
    pub fn cut(begin: Moment, end: Moment, spans: &[Span]) -> Vec<Part> {
        let mut cut = Cut { parts: Vec::new(), at: begin, end };
        let mut open: Vec<usize> = Vec::new();
        for (number, span) in spans.iter().enumerate() {
            while let Some(&top) = open.last().filter(|&&top| spans[top].end <= span.begin) {
                cut.until(spans[top].end, Some((top, &spans[top])));
                open.pop();
            }
            cut.until(span.begin, open.last().map(|&top| (top, &spans[top])));
            open.push(number);
        }
        while let Some(top) = open.pop() {
            cut.until(spans[top].end, Some((top, &spans[top])));
        }
        cut.until(end, None);
        cut.parts
    }

    /// The parts that lie in this time, cut to it.
    pub fn between(&self, begin: Moment, end: Moment) -> impl Iterator<Item = Part> {
        let first = self.parts.partition_point(|part| part.end <= begin);
        let parts = self.parts[first..].iter().take_while(move |part| part.begin < end);
        parts.map(move |part| Part { begin: part.begin.max(begin), end: part.end.min(end), ..*part })
    }
}

struct Cut {
    parts: Vec<Part>,
    at: Moment,
    end: Moment,
}

impl Cut {
    fn until(&mut self, moment: Moment, span: Option<(usize, &Span)>) {
        let moment = moment.min(self.end);
        if moment <= self.at {
            return;
        }
        let doing = span.map_or(Doing::Unknown, |(_, span)| span.doing);
        self.parts.push(Part { begin: self.at, end: moment, doing, span: span.map(|(number, _)| number) });
        self.at = moment;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(begin: Moment, end: Moment, doing: Doing) -> Span {
        Span { begin, end, doing, awaited: None, is_spawn: false }
    }

    #[test]
    fn the_innermost_span_counts_and_gaps_are_unknown() {
        let spans = [
            span(10, 60, Doing::Daemon),
            span(20, 30, Doing::Sending),
            span(30, 50, Doing::Waiting),
            span(35, 40, Doing::Sending),
            span(70, 200, Doing::Computing),
        ];
        let parts = Task::cut(0, 100, &spans);
        let told: Vec<_> = parts.iter().map(|part| (part.begin, part.end, part.doing, part.span)).collect();
        assert_eq!(
            told,
            [
                (0, 10, Doing::Unknown, None),
                (10, 20, Doing::Daemon, Some(0)),
                (20, 30, Doing::Sending, Some(1)),
                (30, 35, Doing::Waiting, Some(2)),
                (35, 40, Doing::Sending, Some(3)),
                (40, 50, Doing::Waiting, Some(2)),
                (50, 60, Doing::Daemon, Some(0)),
                (60, 70, Doing::Unknown, None),
                (70, 100, Doing::Computing, Some(4)),
            ]
        );
        let task = Task {
            id: "t1".into(),
            program: "p".into(),
            host: 0,
            begin: 0,
            end: 100,
            spans: spans.to_vec(),
            parts,
        };
        let within: Vec<_> = task.between(25, 37).map(|part| (part.begin, part.end, part.doing)).collect();
        assert_eq!(within, [(25, 30, Doing::Sending), (30, 35, Doing::Waiting), (35, 37, Doing::Sending)]);
    }

    #[test]
    fn spans_in_disorder_do_no_harm() {
        let spans =
            [span(50, 40, Doing::Sending), span(-5, 20, Doing::Waiting), span(10, 1000, Doing::Daemon)];
        let parts = Task::cut(0, 100, &spans);
        assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].begin));
        assert_eq!((parts[0].begin, parts[parts.len() - 1].end), (0, 100));
        assert!(Task::cut(5, 5, &spans).is_empty());
    }
}
