//! The critical path: the chain of work and messages that determined when the program ended.
//!
//! From the end backwards. A task that waited for a message was held up by its sender until that sent, so the path goes on there; what a
//! task received without having waited held it up for nothing. A task that waited for none was held up by the one that spawned it.

use super::record::{Message, Moment, Part, Record};

/// A part of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it is.
    pub what: What,
    /// When it begins.
    pub begin: Moment,
    /// When it ends.
    pub end: Moment,
}

/// What a part of the path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A task went on.
    Task(usize),
    /// A task was started, and is not yet known to run.
    Start(usize),
    /// A message was on its way.
    Message {
        /// Its sender.
        from: usize,
        /// Its receiver.
        to: usize,
    },
}

/// The path, from the begin to the end of the program.
pub fn path(record: &Record) -> Vec<Step> {
    let holds = Holds::of(record);
    let last = record.tasks.iter().enumerate().max_by_key(|(_, task)| (task.end, -task.begin));
    let Some((mut task, end)) = last.map(|(number, task)| (number, task.end)) else { return Vec::new() };
    let (mut moment, mut steps) = (end, Vec::new());
    let mut add = |what, begin: Moment, end: Moment| {
        if begin < end {
            steps.push(Step { what, begin, end });
        }
    };
    loop {
        if let Some(message) = holds.before(task, moment) {
            let Message { from, to, sent, received, .. } = *message;
            add(What::Task(task), received, moment);
            add(What::Message { from, to }, sent, received);
            (task, moment) = (from, sent);
            continue;
        }
        let begin = record.tasks[task].begin.min(moment);
        add(What::Task(task), begin, moment);
        match spawner(record, task, begin) {
            Some((other, end)) if begin < moment => {
                let end = end.min(begin);
                add(What::Start(task), end, begin);
                (task, moment) = (other, end);
            }
            _ => break,
        }
    }
    steps.reverse();
    steps
}

/// The parts of the tasks' lives that lie on the path.
pub fn parts<'a>(record: &'a Record, path: &'a [Step]) -> impl Iterator<Item = (usize, Part)> + 'a {
    let of_task = |step: &Step| match step.what {
        What::Task(task) => Some((task, step.begin, step.end)),
        What::Start(_) | What::Message { .. } => None,
    };
    path.iter().filter_map(of_task).flat_map(move |(task, begin, end)| {
        record.tasks[task].between(begin, end).map(move |part| (task, part))
    })
}

/// The messages that held up their receivers, by these.
struct Holds<'a>(Vec<Vec<&'a Message>>);

impl<'a> Holds<'a> {
    fn of(record: &'a Record) -> Self {
        let mut of_tasks = vec![Vec::new(); record.tasks.len()];
        for message in &record.messages {
            // Where clocks differ a message may seem to have come before it was sent.
            if message.awaited < message.sent && message.sent < message.received {
                of_tasks[message.to].push(message);
            }
        }
        for messages in &mut of_tasks {
            messages.sort_by_key(|message| message.received);
        }
        Self(of_tasks)
    }

    /// The last message that held a task up until then.
    fn before(&self, task: usize, moment: Moment) -> Option<&'a Message> {
        let messages = &self.0[task];
        let count = messages.partition_point(|message| message.received <= moment);
        messages[..count].last().copied()
    }
}

/// The task that has spawned this one, and the end of its call: the call in which this one began or, as its begin may be noticed late, the
/// last one before.
fn spawner(record: &Record, task: usize, begin: Moment) -> Option<(usize, Moment)> {
    let call = |number: usize| {
        let spans = &record.tasks[number].spans;
        let count = spans.partition_point(|span| span.begin < begin);
        let call = spans[..count].iter().rev().find(|span| span.is_spawn)?;
        Some((call.end >= begin, call.begin, number, call.end))
    };
    let others = (0..record.tasks.len()).filter(|&other| other != task);
    others.filter_map(call).max().map(|(_, _, number, end)| (number, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::record::{Doing, Span, Task};

    fn task(begin: Moment, end: Moment, spawned: Option<(Moment, Moment)>) -> Task {
        let call = |(begin, end)| Span { begin, end, doing: Doing::Daemon, awaited: None, is_spawn: true };
        let spans: Vec<Span> = spawned.map(call).into_iter().collect();
        let parts = Task::cut(begin, end, &spans);
        Task { id: String::new(), program: String::new(), host: 0, begin, end, spans, parts }
    }

    fn message(from: usize, to: usize, (awaited, sent, received): (Moment, Moment, Moment)) -> Message {
        Message { from, to, sent, awaited, received, bytes: 1 }
    }

    fn step(what: What, begin: Moment, end: Moment) -> Step {
        Step { what, begin, end }
    }

    #[test]
    fn it_goes_back_over_the_messages_that_were_waited_for() {
        let record = Record {
            tasks: vec![task(0, 100, Some((5, 12))), task(10, 90, None), task(11, 90, None)],
            messages: vec![
                // The quick worker's result was there before anybody waited.
                message(2, 0, (60, 30, 61)),
                message(1, 0, (61, 80, 84)),
            ],
            ..Record::default()
        };
        let expected = [
            step(What::Task(0), 0, 10),
            step(What::Task(1), 10, 80),
            step(What::Message { from: 1, to: 0 }, 80, 84),
            step(What::Task(0), 84, 100),
        ];
        let found = path(&record);
        assert_eq!(found, expected);
        let total: Moment = found.iter().map(|step| step.end - step.begin).sum();
        assert_eq!(total, record.length(), "it has no gaps");
        let on_path: Vec<_> =
            parts(&record, &found).map(|(task, part)| (task, part.begin, part.doing)).collect();
        assert_eq!(
            on_path,
            [(0, 0, Doing::Unknown), (0, 5, Doing::Daemon), (1, 10, Doing::Unknown), (0, 84, Doing::Unknown),]
        );
    }

    #[test]
    fn a_task_may_be_noticed_late() {
        let record = Record {
            tasks: vec![task(0, 100, Some((5, 12))), task(20, 90, None)],
            messages: vec![message(1, 0, (13, 80, 84))],
            ..Record::default()
        };
        let expected = [
            step(What::Task(0), 0, 12),
            step(What::Start(1), 12, 20),
            step(What::Task(1), 20, 80),
            step(What::Message { from: 1, to: 0 }, 80, 84),
            step(What::Task(0), 84, 100),
        ];
        assert_eq!(path(&record), expected);
    }

    #[test]
    fn it_ends_whatever_the_times_are() {
        assert!(path(&Record::default()).is_empty());
        let messages = (0..50).map(|at| message(at % 2, (at + 1) % 2, (at as i64, 5, 5 + at as i64 % 3)));
        let record = Record {
            tasks: vec![task(0, 10, Some((0, 10))), task(0, 10, Some((0, 10)))],
            messages: messages.collect(),
            ..Record::default()
        };
        assert!(path(&record).len() < 10);
    }
}
