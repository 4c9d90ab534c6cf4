//! What the values of options share.

/// Slots that a host can have.
pub const SLOTS: std::ops::RangeInclusive<u32> = 1..=1_000_000;

/// Enough of a word to find it by.
pub fn shortened(word: &str) -> String {
    const ENOUGH: usize = 40;
    match word.char_indices().nth(ENOUGH) {
        Some((end, _)) => format!("{}…", &word[..end]),
        None => word.to_owned(),
    }
}
