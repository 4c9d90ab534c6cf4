//! Lists of hosts in Slurm's short form: `node[01-04,7]`, several of them separated by commas.

use super::values::shortened;

/// Hosts that one list may stand for: a virtual machine has no more.
const HOSTS_MAX: usize = 4095;

/// The names that a list stands for, in its order.
///
/// # Errors
///
/// A text for people, if the list is malformed or names too many hosts.
pub fn expand(list: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for item in items(list).map_err(|reason| wrong(list, reason))? {
        let room = HOSTS_MAX - names.len();
        names.extend(expand_item(item, room).map_err(|reason| wrong(list, reason))?);
    }
    Ok(names)
}

fn wrong(list: &str, reason: &str) -> String {
    format!("`{}`: {reason}", shortened(list))
}

/// The parts between the commas that are not in brackets.
fn items(list: &str) -> Result<Vec<&str>, &'static str> {
    let (mut items, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, character) in list.char_indices() {
        match character {
            '[' if inside => return Err("a bracket within a bracket"),
            '[' => inside = true,
            ']' if !inside => return Err("a bracket is closed that was not opened"),
            ']' => inside = false,
            ',' if !inside => {
                items.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err("a bracket is not closed");
    }
    items.push(&list[start..]);
    if items.iter().any(|item| item.is_empty()) { Err("a name is missing") } else { Ok(items) }
}

/// One name, in which any number of brackets may stand: `rack[1-2]node[1-4]`.
fn expand_item(item: &str, room: usize) -> Result<Vec<String>, &'static str> {
    const TOO_MANY: &str = "too many hosts";
    let mut names = vec![String::new()];
    let mut rest = item;
    while let Some((before, after)) = rest.split_once('[') {
        let (ranges, behind) = after.split_once(']').ok_or("a bracket is not closed")?;
        let mut longer = Vec::new();
        for name in &names {
            for range in ranges.split(',') {
                for number in numbers(range)? {
                    if longer.len() == room {
                        return Err(TOO_MANY);
                    }
                    longer.push(format!("{name}{before}{number}"));
                }
            }
        }
        (names, rest) = (longer, behind);
    }
    if names.len() > room {
        return Err(TOO_MANY);
    }
    Ok(names.into_iter().map(|name| name + rest).collect())
}

/// `7`, or `01-04`, whose numbers have as many digits as the first.
fn numbers(range: &str) -> Result<impl Iterator<Item = String>, &'static str> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let number = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<u32>().ok().filter(|_| is_number).ok_or("a range in brackets has the form 1-4")
    };
    let (width, numbers) = (first.len(), number(first)?..=number(last)?);
    if numbers.is_empty() {
        return Err("a range ends before it starts");
    }
    Ok(numbers.map(move |number| format!("{number:0width$}")))
}

/// Numbers per host in Slurm's short form, `2(x3),4`: 2 for each of three hosts, then 4.
///
/// # Errors
///
/// A text for people, if it is malformed or has too many numbers.
pub fn counts(text: &str) -> Result<Vec<u32>, String> {
    let mut counts = Vec::new();
    for item in text.split(',') {
        let (count, times) = match item.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')').unwrap_or_default()),
            None => (item, "1"),
        };
        let parsed = count.parse::<u32>().ok().zip(times.parse::<usize>().ok());
        let (count, times) = parsed.ok_or_else(|| wrong(text, "expected numbers such as 2(x3),4"))?;
        if times > HOSTS_MAX - counts.len() {
            return Err(wrong(text, "too many hosts"));
        }
        counts.extend(std::iter::repeat_n(count, times));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_are_slurms() {
        for (list, names) in [
            ("n1", "n1"),
            ("n1,n2", "n1 n2"),
            ("n[1-3]", "n1 n2 n3"),
            ("n[08-10,2]", "n08 n09 n10 n2"),
            ("n[1-2]-ib,gpu7", "n1-ib n2-ib gpu7"),
            ("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2"),
            ("[1-2]", "1 2"),
        ] {
            assert_eq!(expand(list).map(|names| names.join(" ")), Ok(names.to_owned()), "{list}");
        }
        assert_eq!(expand("n[1-4095]").map(|names| names.len()), Ok(4095));
    }

    #[test]
    fn what_is_no_list_is_an_error() {
        for (list, reason) in [
            ("", "`: a name is missing"),
            ("n1,,n2", "a name is missing"),
            ("n[1-2", "not closed"),
            ("n1]", "not opened"),
            ("n[[1]]", "within a bracket"),
            ("n[2-1]", "ends before it starts"),
            ("n[]", "the form 1-4"),
            ("n[-1]", "the form 1-4"),
            ("n[+1]", "the form 1-4"),
            ("n[1-99999999999]", "the form 1-4"),
            ("n[0-4294967295]", "too many hosts"),
            ("n[1-4000],m[1-4000]", "too many hosts"),
            ("a[1-999]b[1-999]c[1-999]", "too many hosts"),
        ] {
            let said = expand(list).unwrap_err();
            assert!(said.contains(reason), "{list}: {said}");
        }
    }

    #[test]
    fn counts_are_slurms() {
        assert_eq!(counts("2(x3),4"), Ok(vec![2, 2, 2, 4]));
        for wrong in ["", "x", "2(x", "2(x3", "2(x-1)", "1(x5000)", "4(x4294967295),4(x4294967295)"] {
            assert!(counts(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "[-n0-9,\\[\\](x)é]{0,40}") {
            let _ = (expand(&text), counts(&text));
        }
    }
}
