//! Reads trace messages, as a tracer does.

use crate::body::{BodyError, BodyReader};
use crate::events::{DATA, ENTRY, EVENTS, EXIT, kind, mark};
use std::collections::BTreeMap;

/// Data of one event that are kept described.
const DATA_MAX: usize = 64;

/// An event that somebody has told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Its name.
    pub name: String,
    /// When a function was entered (`Some(true)`) or left (`Some(false)`).
    pub entry: Option<bool>,
    /// Its data: their short names, and their values as text.
    pub data: Vec<(&'static str, String)>,
}

/// Knows what events mean from their descriptions.
#[derive(Clone, Debug, Default)]
pub struct EventReader {
    /// Datum and type of each datum, by the event's number.
    layouts: BTreeMap<i32, Vec<(i32, i32)>>,
}

impl EventReader {
    /// The events of a message. What cannot be read ends it; what was read before is told.
    pub fn read(&mut self, body: &[u8]) -> (Vec<Told>, Result<(), BodyError>) {
        let (mut reader, mut told) = (BodyReader::new(body), Vec::new());
        while !reader.rest().is_empty() {
            match self.part(&mut reader) {
                Ok(Some(event)) => told.push(event),
                Ok(None) => {}
                Err(error) => return (told, Err(error)),
            }
        }
        (told, Ok(()))
    }

    fn part(&mut self, reader: &mut BodyReader<'_>) -> Result<Option<Told>, BodyError> {
        match reader.int()? {
            mark::BUFFER | mark::BUFFER_END => Ok(None),
            mark::DATA => {
                // The data that there are: this system knows them.
                while reader.int()? >= 0 {
                    reader.str()?;
                    reader.str()?;
                }
                Ok(None)
            }
            mark::DESCRIPTION => {
                let number = reader.int()?;
                reader.str()?;
                let (mut layout, mut data) = (Vec::new(), Vec::new());
                loop {
                    let datum = reader.int()?;
                    if datum < 0 {
                        break;
                    }
                    let kind = reader.int()?;
                    if layout.len() < DATA_MAX {
                        layout.push((datum, kind));
                    }
                    data.push((name_of(datum), value(reader, kind)?));
                }
                if event_name(number).is_some() {
                    self.layouts.insert(number, layout);
                }
                Ok(Some(told(number, data)))
            }
            mark::RECORD => {
                let number = reader.int()?;
                let layout = self.layouts.get(&number).ok_or(BodyError::Text)?;
                let data = layout
                    .iter()
                    .map(|&(datum, kind)| Ok((name_of(datum), value(reader, kind)?)))
                    .collect::<Result<_, BodyError>>()?;
                reader.int()?;
                Ok(Some(told(number, data)))
            }
            // An event of the program's own has no description.
            _ => Err(BodyError::Text),
        }
    }
}

fn event_name(number: i32) -> Option<&'static str> {
    let index = usize::try_from(number & !(ENTRY | EXIT)).ok()?;
    EVENTS.get(index).map(|name| name.to_str().unwrap_or_default())
}

fn name_of(datum: i32) -> &'static str {
    let entry = usize::try_from(datum).ok().and_then(|index| DATA.get(index));
    entry.map_or("?", |(name, _)| name.to_str().unwrap_or_default())
}

fn told(number: i32, data: Vec<(&'static str, String)>) -> Told {
    let entry = match number & (ENTRY | EXIT) {
        ENTRY => Some(true),
        EXIT => Some(false),
        _ => None,
    };
    Told { name: event_name(number).unwrap_or("?").to_owned(), entry, data }
}

fn value(reader: &mut BodyReader<'_>, kind: i32) -> Result<String, BodyError> {
    if kind & kind::ARRAY == 0 {
        return single(reader, kind);
    }
    // Every element has four bytes at least.
    let count = reader.count(4)?;
    let values: Result<Vec<String>, BodyError> =
        (0..count).map(|_| single(reader, kind & !kind::ARRAY)).collect();
    Ok(format!("[{}]", values?.join(" ")))
}

fn single(reader: &mut BodyReader<'_>, kind: i32) -> Result<String, BodyError> {
    match kind {
        kind::STRING => Ok(format!("{:?}", reader.os_str()?.to_string_lossy())),
        kind::INT | kind::LONG => Ok(reader.int()?.to_string()),
        _ => Err(BodyError::Text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Datum, Event, Head, Writer, data_message};

    #[test]
    fn what_is_written_is_read() {
        let mut writer = Writer::new(true);
        for (describes, tid) in [(true, 7), (false, 8)] {
            writer.begin(Event::Spawn, EXIT, Head { seconds: 1, micros: 2, tid }, describes);
            writer.int(Datum::CC, 2).ints(Datum::STL, &[5, 6]).text(Datum::SE, "a b").end();
        }
        let body = writer.finish();
        let mut reader = EventReader::default();
        assert_eq!(reader.read(&data_message()), (vec![], Ok(())));
        let (told, end) = reader.read(&body);
        assert_eq!(end, Ok(()));
        assert_eq!((told.len(), told[1].name.as_str(), told[1].entry), (2, "spawn", Some(false)));
        let data: Vec<String> = told[1].data.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(data, ["TS=1", "TU=2", "TID=8", "CC=2", "STL=[5 6]", "SE=\"a b\""]);
        for length in 0..body.len() {
            // Whatever is cut off, nothing worse than an error comes of it.
            let _ = EventReader::default().read(&body[..length]);
        }
    }

    #[test]
    fn a_record_without_a_description_cannot_be_read() {
        let mut writer = Writer::new(false);
        writer.begin(Event::Kill, ENTRY, Head { seconds: 1, micros: 2, tid: 3 }, false);
        writer.end();
        assert!(EventReader::default().read(&writer.finish()).1.is_err());
    }
}
