//! Times, sizes and bandwidths, as people write them in commands, in hostfiles and in the file of queues.

/// Milliseconds of a time: `90` or `90s`, `15m`, `1h30m`, `2d`, `1:30:00`.
pub fn time(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no time: write 90s, 15m, 1h30m, 2d or 1:30:00");
    let seconds = if text.contains(':') {
        let parts = text.split(':').map(|part| part.parse().ok()).collect::<Option<Vec<u64>>>();
        let parts = parts.filter(|parts| (2..=3).contains(&parts.len())).ok_or_else(wrong)?;
        parts.iter().try_fold(0_u64, |sum, part| sum.checked_mul(60)?.checked_add(*part))
    } else {
        units(text, &[('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)], 1)
    };
    seconds.and_then(|seconds| seconds.checked_mul(1000)).filter(|time| *time > 0).ok_or_else(wrong)
}

/// Bytes of a size: `1048576`, `512K`, `100M`, `4G`, `1T`, in powers of 1024.
pub fn size(text: &str) -> Result<u64, String> {
    let plain = text.strip_suffix("iB").or_else(|| text.strip_suffix('B')).unwrap_or(text);
    let sizes = [('K', 1 << 10), ('M', 1 << 20), ('G', 1 << 30), ('T', 1 << 40)];
    let bytes = units(&plain.to_ascii_uppercase(), &sizes, 1);
    bytes.filter(|bytes| *bytes > 0).ok_or_else(|| format!("{text:?} is no size: write 512K, 100M or 4G"))
}

/// The units of bandwidths, the greatest first.
const RATES: [(&str, u64); 5] =
    [("Tbit", 1_000_000_000_000), ("Gbit", 1_000_000_000), ("Mbit", 1_000_000), ("kbit", 1000), ("bit", 1)];
/// The greatest bandwidth, in bits per second: sums over all tasks of all jobs stay finite.
pub const BANDWIDTH_MAX: u64 = 1_000_000_000_000;

/// Bits per second of a bandwidth: `40Mbit`, `1Gbit`, `2.5Gbit`, `100Mbit/s`, in powers of 1000; a terabit at most.
pub fn bandwidth(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("{text:?} is no bandwidth: write 500kbit, 40Mbit, 1Gbit or 2.5Gbit, and 1Tbit at most");
    let plain = text.strip_suffix("/s").unwrap_or(text);
    let (number, unit) = plain.split_at(plain.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?);
    let (_, unit) = RATES.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or_else(wrong)?;
    // No sign, no exponent.
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && number.len() <= 20;
    let number: f64 = number.parse().ok().filter(|_| is_plain).ok_or_else(wrong)?;
    let bits = (number * unit as f64).round();
    if (1.0..=BANDWIDTH_MAX as f64).contains(&bits) { Ok(bits as u64) } else { Err(wrong()) }
}

/// A bandwidth in bits per second, as [`bandwidth`] takes it.
pub fn bandwidth_text(bits: u64) -> String {
    let (name, unit) = RATES.into_iter().find(|(_, unit)| bits >= *unit).unwrap_or(("bit", 1));
    let (whole, rest) = (bits / unit, bits % unit);
    if rest == 0 {
        return format!("{whole}{name}");
    }
    let digits = unit.ilog10() as usize;
    let fraction = format!("{rest:0digits$}");
    format!("{whole}.{}{name}", fraction.trim_end_matches('0'))
}

/// Numbers with units, one after the other; a number alone has the last one.
fn units(text: &str, known: &[(char, u64)], alone: u64) -> Option<u64> {
    let (mut sum, mut number) = (0_u64, None::<u64>);
    for letter in text.chars() {
        if let Some(digit) = letter.to_digit(10) {
            number = Some(number.unwrap_or(0).checked_mul(10)?.checked_add(digit.into())?);
        } else {
            let (_, unit) = known.iter().find(|(name, _)| *name == letter)?;
            sum = sum.checked_add(number.take()?.checked_mul(*unit)?)?;
        }
    }
    match number {
        None if text.is_empty() => None,
        None => Some(sum),
        Some(rest) => sum.checked_add(rest.checked_mul(alone)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidths() {
        for (text, bits, shown) in [
            ("40Mbit", 40_000_000, "40Mbit"),
            ("1Gbit/s", 1_000_000_000, "1Gbit"),
            ("2.5gbit", 2_500_000_000, "2.5Gbit"),
            ("1500kbit", 1_500_000, "1.5Mbit"),
            ("7bit", 7, "7bit"),
            ("1Tbit", 1_000_000_000_000, "1Tbit"),
        ] {
            assert_eq!(bandwidth(text), Ok(bits), "{text}");
            assert_eq!(bandwidth_text(bits), shown);
            assert_eq!(bandwidth(shown), Ok(bits));
        }
        assert_eq!(
            (bandwidth_text(0), bandwidth_text(1_000_001)),
            ("0bit".to_owned(), "1.000001Mbit".to_owned())
        );
        for wrong in [
            "",
            "40",
            "Mbit",
            "40M",
            "40MB",
            "-1Mbit",
            "1e3Mbit",
            ".Mbit",
            "1.2.3Mbit",
            "0Mbit",
            "0.4bit",
            "2Tbit",
            "infbit",
            "1 Mbit",
        ] {
            assert!(bandwidth(wrong).is_err_and(|error| error.contains("is no bandwidth")), "{wrong}");
        }
    }

    #[test]
    fn times_and_sizes() {
        for (text, seconds) in [
            ("90", 90),
            ("90s", 90),
            ("15m", 900),
            ("1h30m", 5400),
            ("2d", 172_800),
            ("1:30:00", 5400),
            ("2:05", 125),
        ] {
            assert_eq!(time(text), Ok(seconds * 1000), "{text}");
        }
        for (text, bytes) in
            [("7", 7), ("512K", 524_288), ("4g", 4 << 30), ("1GiB", 1 << 30), ("2MB", 2 << 20)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for wrong in [
            "",
            "x",
            "1x",
            "h",
            "-1",
            "1.5h",
            "1:",
            "1:2:3:4",
            "0",
            "99999999999999999999",
            "18446744073709551615d",
        ] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "G", "1X", "0", "-1M", "1.5G", "99999999999T"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
