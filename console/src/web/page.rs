//! The files of the page, which are part of the program.

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

/// The file behind a path: its type and its text.
pub fn file(path: &str) -> Option<(&'static str, &'static str)> {
    Some(match path {
        "/" => (HTML, include_str!("page/index.html")),
        "/style.css" => (CSS, include_str!("page/style.css")),
        "/app.js" => (JS, include_str!("page/app.js")),
        "/canvas.js" => (JS, include_str!("page/canvas.js")),
        "/columns.js" => (JS, include_str!("page/columns.js")),
        "/feed.js" => (JS, include_str!("page/feed.js")),
        "/format.js" => (JS, include_str!("page/format.js")),
        "/matrix.js" => (JS, include_str!("page/matrix.js")),
        "/model.js" => (JS, include_str!("page/model.js")),
        "/spacetime.js" => (JS, include_str!("page/spacetime.js")),
        "/table.js" => (JS, include_str!("page/table.js")),
        "/trace.js" => (JS, include_str!("page/trace.js")),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module that is imported or named in the page but not served would leave the page empty.
    #[test]
    fn all_that_the_page_loads_is_served() {
        let (_, page) = file("/").unwrap();
        let mut left = vec!["app.js".to_owned(), "style.css".to_owned()];
        assert!(left.iter().all(|name| page.contains(&format!("\"{name}\""))));
        let mut seen = Vec::new();
        while let Some(name) = left.pop() {
            let (_, text) = file(&format!("/{name}")).unwrap_or_else(|| panic!("{name} is not served"));
            let imports = text.lines().filter(|line| line.starts_with("import "));
            let names =
                imports.filter_map(|line| Some(line.split_once("\"./")?.1.split_once('"')?.0.to_owned()));
            left.extend(names.filter(|name| !seen.contains(name)));
            seen.push(name);
        }
        assert!(seen.len() > 5, "{seen:?}");
        assert!(
            !page.contains("<style") && !page.contains(" style=") && !page.contains("http"),
            "the policy forbids it"
        );
    }
}
