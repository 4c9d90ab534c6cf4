//! What a page of the reference consists of, whatever language it is written in.

/// A page that is being written.
pub trait Sheet {
    /// Begins a section.
    fn section(&mut self, title: &str);

    /// Adds a text.
    fn text(&mut self, text: &str);

    /// Adds terms, each with its description.
    fn terms<'a>(&mut self, terms: impl IntoIterator<Item = (&'a str, &'a str)>);

    /// Adds lines that are to be typed as they stand.
    fn literal<'a>(&mut self, lines: impl IntoIterator<Item = &'a str>);

    /// Adds lines of an example.
    fn example<'a>(&mut self, lines: impl IntoIterator<Item = &'a str>);

    /// Adds a section whose text is, or is generated into, a part of another page: the part below `heading` of the file `page` in `docs`, or
    /// all of it.
    fn part(&mut self, title: &str, page: &str, heading: &str, text: &str);

    /// Names other pages: `("pvm_send", 3)`.
    fn see_also<'a>(&mut self, pages: impl IntoIterator<Item = (&'a str, u8)>);

    /// Adds a section, if there is anything in it.
    fn text_section(&mut self, title: &str, text: &str) {
        if !text.trim().is_empty() {
            self.section(title);
            self.text(text);
        }
    }
}
