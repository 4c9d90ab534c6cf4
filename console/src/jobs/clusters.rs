//! The clusters of hosts and their links, as a table and as JSON.

use pvm_wire::quantity;
use pvm3::HostCluster;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// A line per cluster.
pub fn table(clusters: &[HostCluster]) -> String {
    let mut text = format!(
        "{:<16} {:>7} {:>7} {:>6} {:>10} {:>10} {:>10} {:>10}  {}\n",
        "CLUSTER", "SLOTS", "FREE", "H", "LINK", "DEMAND", "MEASURED", "CONGESTION", "HOSTS"
    );
    for cluster in clusters {
        let bandwidth = match cluster.bandwidth {
            None => "-".to_owned(),
            Some(bits) if cluster.is_bandwidth_measured => format!("~{}", rate(bits as f64)),
            Some(bits) => quantity::bandwidth_text(bits),
        };
        let congestion = cluster.congestion.map_or_else(|| "-".to_owned(), |factor| format!("{factor:.2}"));
        let _ = writeln!(
            text,
            "{:<16} {:>7} {:>7} {:>6.2} {bandwidth:>10} {:>10} {:>10} {congestion:>10}  {}",
            cluster.name.as_deref().unwrap_or("-"),
            cluster.slots,
            cluster.free,
            cluster.factor,
            rate(cluster.demand),
            rate(cluster.measured),
            host_list(&cluster.hosts),
        );
    }
    text
}

/// Hosts of a cluster.
pub fn host_list(hosts: &[String]) -> String {
    if hosts.is_empty() { "no host".to_owned() } else { hosts.join(", ") }
}

/// Bits per second in at most four digits.
pub fn rate(bits: f64) -> String {
    if bits <= 0.0 {
        return "-".to_owned();
    }
    let units = ["bit", "kbit", "Mbit", "Gbit", "Tbit"];
    let exponent = ((bits.max(1.0).log10() / 3.0) as usize).min(units.len() - 1);
    let value = bits / 1000_f64.powi(exponent as i32);
    let digits = usize::from(value < 100.0 && value.fract() != 0.0);
    format!("{value:.digits$}{}", units[exponent])
}

/// As programs read it.
pub fn json(clusters: &[HostCluster]) -> Value {
    let one = |cluster: &HostCluster| {
        json!({
            "name": cluster.name, "hosts": cluster.hosts, "slots": cluster.slots, "free": cluster.free,
            "h": cluster.factor, "bandwidth_bps": cluster.bandwidth,
            "bandwidth_is_measured": cluster.is_bandwidth_measured, "demand_bps": cluster.demand,
            "measured_bps": cluster.measured, "congestion": cluster.congestion,
        })
    };
    json!({ "clusters": clusters.iter().map(one).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_a_line() {
        let east = HostCluster {
            name: Some("east".into()),
            hosts: vec!["a".into(), "b".into()],
            slots: 8,
            free: 3,
            factor: 2.0,
            bandwidth: Some(987_654_321),
            is_bandwidth_measured: true,
            demand: 1_600_000_000.0,
            measured: 2_500_000.0,
            congestion: Some(0.625),
        };
        let rest = HostCluster {
            name: None,
            hosts: Vec::new(),
            slots: 0,
            free: 0,
            factor: 1.0,
            bandwidth: None,
            is_bandwidth_measured: false,
            demand: 0.0,
            measured: 0.0,
            congestion: None,
        };
        let clusters = [rest, east];
        let text = table(&clusters);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1..],
            [
                "-                      0       0   1.00          -          -          -          -  no host",
                "east                   8       3   2.00   ~988Mbit    1.6Gbit    2.5Mbit       0.62  a, b",
            ],
            "{text}"
        );
        let json = json(&clusters);
        assert_eq!(
            (
                &json["clusters"][1]["h"],
                &json["clusters"][1]["demand_bps"],
                &json["clusters"][0]["congestion"]
            ),
            (&json!(2.0), &json!(1_600_000_000.0), &Value::Null)
        );
        assert_eq!([0.4, 999.0, 123_456.0, 5e14].map(rate), ["0.4bit", "999bit", "123kbit", "500Tbit"]);
    }
}
