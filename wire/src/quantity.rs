//! Times and sizes, as people write them in commands and in the file of queues.

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
