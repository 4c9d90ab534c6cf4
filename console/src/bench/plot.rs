//! The result as a picture: curves over the sizes of messages and batches, one chart below the other.

use super::args::Part;
use super::result::{Limit, Line, Outcome};
use super::table::place;
use anyhow::{Context, Result};
use pvm_sim::report::{Plot, Point, Series};
use std::fmt::Write as _;

/// The most curves of a chart: there are as many colours.
const CURVES: usize = 9;

/// The charts as one SVG document; `None` if there is nothing with more than one size.
pub fn svg(outcome: &Outcome) -> Result<Option<String>> {
    let charts: Vec<Plot> = Part::ALL.into_iter().filter_map(|part| chart(part, outcome)).collect();
    if charts.is_empty() {
        return Ok(None);
    }
    let drawn: Vec<String> = charts.iter().map(Plot::svg).collect::<Result<_, _>>()?;
    stack(&drawn).map(Some)
}

/// Charts below each other: each is an element of its own in one document.
fn stack(charts: &[String]) -> Result<String> {
    let (mut width, mut height, mut inside) = (0, 0, String::new());
    for chart in charts {
        let (chart_width, chart_height) = (attribute(chart, "width"), attribute(chart, "height"));
        let (chart_width, chart_height): (u32, u32) = (
            chart_width.context("a chart without a width")?,
            chart_height.context("a chart without a height")?,
        );
        let _ = writeln!(inside, "{}", chart.replacen("<svg ", &format!("<svg y=\"{height}\" "), 1));
        width = width.max(chart_width);
        height += chart_height;
    }
    Ok(format!(
        "<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" xmlns=\"http://www.w3.org/2000/svg\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#FFFFFF\"/>\n{inside}</svg>\n"
    ))
}

/// A number among the attributes of a document's first element.
fn attribute(document: &str, name: &str) -> Option<u32> {
    let (_, rest) = document.split_once("<svg ")?;
    let (element, _) = rest.split_once('>')?;
    let (_, value) = element.split_once(&format!("{name}=\""))?;
    value.split('"').next()?.parse().ok()
}

/// The chart of a part that was measured with more than one size.
fn chart(part: Part, outcome: &Outcome) -> Option<Plot> {
    let series = curves(part, outcome);
    if !series.iter().any(|series| series.points.len() > 1) {
        return None;
    }
    let (title, x, y) = match part {
        Part::Spawn => ("Spawn", "tasks in a batch", "tasks per second"),
        Part::Latency => ("Latency", "length of a message, bytes", "half a round trip, µs"),
        Part::Bandwidth => ("Bandwidth", "length of a message, bytes", "bandwidth, MB/s"),
        Part::Rate => ("Rate", "length of a message, bytes", "messages per second"),
        Part::AllToAll => {
            ("All to all", "length of a message, bytes", "bandwidth of all hosts together, MB/s")
        }
    };
    Some(Plot::measured(part.name(), title, (x, y), series))
}

/// A curve for each place and route, and behind it one for its limit if that is measured over the sizes, too.
fn curves(part: Part, outcome: &Outcome) -> Vec<Series> {
    let mut curves: Vec<Series> = Vec::new();
    let mut add = |name: String, point: Point| match curves.iter_mut().find(|curve| curve.name == name) {
        // Two routes have one limit.
        Some(curve) if curve.points.iter().any(|other| other.x.total_cmp(&point.x).is_eq()) => {}
        Some(curve) => curve.points.push(point),
        None => curves.push(Series { name, points: vec![point] }),
    };
    for line in outcome.lines.iter().filter(|line| line.part == part) {
        let x = line.size as f64;
        let scale = scale(part);
        let name = place(line, outcome);
        if let Some(value) = &line.value {
            add(name.clone(), Point { x, y: value.median * scale, half: value.half() * scale });
        }
        if let Some(Limit::Measured { name: limit, value, .. }) = &line.limit {
            add(limit_name(limit, line, &name), Point { x, y: value * scale, half: 0.0 });
        }
    }
    curves.truncate(CURVES);
    curves
}

/// The limit of the way by the daemons is that of the other.
fn limit_name(limit: &str, line: &Line, place: &str) -> String {
    let place = if line.is_by_daemons { place.trim_end_matches(", by daemons") } else { place };
    format!("{limit}, {place}")
}

/// Bytes are shown as megabytes.
fn scale(part: Part) -> f64 {
    if matches!(part, Part::Bandwidth | Part::AllToAll) { 1e-6 } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plan::Place;
    use crate::bench::result::tests::host;
    use pvm_sim::stats::Measured;

    fn outcome() -> Outcome {
        let line = |part, is_by_daemons, size: u64| Line {
            part,
            place: Place::Pair(0, 1),
            is_by_daemons,
            size,
            value: Measured::of(&[-1.0, 0.0, 1.0].map(|off| size as f64 + off)),
            limit: Some(Limit::Measured { name: "link", value: 2.0 * size as f64, share: 50.0 }),
            busy: None,
            note: None,
        };
        let sizes = [1, 64, 1024];
        let lines = [Part::Latency, Part::Bandwidth]
            .into_iter()
            .flat_map(|part| {
                [false, true]
                    .into_iter()
                    .flat_map(move |by_daemons| sizes.map(|size| (part, by_daemons, size)))
            })
            .map(|(part, by_daemons, size)| line(part, by_daemons, size));
        Outcome { hosts: vec![host("a"), host("b")], rounds: 3, seconds: 5.0, lines: lines.collect() }
    }

    #[test]
    fn a_limit_has_one_curve_for_all_routes() {
        let curves = curves(Part::Latency, &outcome());
        let shape: Vec<(&str, usize)> =
            curves.iter().map(|curve| (curve.name.as_str(), curve.points.len())).collect();
        assert_eq!(shape[0], ("a to b", 3));
        assert_eq!(shape[1].0, "link, a to b");
        assert_eq!(shape[2], ("a to b, by daemons", 3));
        assert_eq!(shape.len(), 3);
    }

    #[test]
    fn charts_are_below_each_other_with_names_on_their_axes() {
        let svg = svg(&outcome()).unwrap().unwrap();
        for text in ["half a round trip, µs", "MB/s", "length of a message, bytes", "link, a to b", "± half"]
        {
            assert!(svg.contains(text), "{text}");
        }
        assert!(svg.starts_with("<svg width=\"943\" height=\"1000\""), "{svg:.200}");
        assert!(svg.contains("<svg y=\"500\" "));
        assert_eq!(svg.matches("<svg ").count(), svg.matches("</svg>").count());
    }

    #[test]
    fn single_sizes_have_no_chart() {
        let mut outcome = outcome();
        outcome.lines.truncate(1);
        assert_eq!(svg(&outcome).unwrap(), None);
    }
}
