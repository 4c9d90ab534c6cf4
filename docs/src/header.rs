//! Prototypes, as the C headers have them.

use std::collections::BTreeMap;
use std::path::Path;

/// A header and what it declares.
#[derive(Debug)]
pub struct Prototype {
    /// The header's name.
    pub header: &'static str,
    /// The declaration, with a semicolon.
    pub text: String,
}

/// The headers that declare functions.
const HEADERS: [&str; 3] = ["pvm3.h", EXTENSIONS, "pvmtev.h"];
/// The one of what PVM 3.4 does not have, which programs include behind the first.
pub const EXTENSIONS: &str = "pvm3x.h";

/// Each function and variable of the headers, by its name.
pub fn prototypes(root: &Path) -> anyhow::Result<BTreeMap<String, Prototype>> {
    let mut all = BTreeMap::new();
    for header in HEADERS {
        let text = crate::read(root, &format!("libpvm/c/include/{header}"))?;
        for declaration in declarations(&text) {
            if let Some(name) = declared_name(&declaration) {
                all.insert(name, Prototype { header, text: declaration });
            }
        }
    }
    Ok(all)
}

/// The declarations outside of braces, without comments and preprocessor lines, each on one line.
fn declarations(header: &str) -> Vec<String> {
    let header = without_comments(header);
    let lines = header.lines().scan(false, |continued, line| {
        let directive = *continued || line.trim_start().starts_with('#');
        *continued = directive && line.ends_with('\\');
        Some(if directive { "" } else { line })
    });
    let text: Vec<&str> = lines.filter(|line| !matches!(line.trim(), "extern \"C\" {" | "}")).collect();
    let mut depth = 0;
    let mut outside = String::new();
    for character in text.join(" ").chars() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ if depth == 0 => outside.push(character),
            _ => {}
        }
    }
    let tidy = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    outside
        .split(';')
        .map(tidy)
        .filter(|text| !text.is_empty())
        .map(|text| plain_names(&text) + ";")
        .collect()
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |sum, part| sum + " " + part.split_once("*/").map_or("", |(_, after)| after))
}

/// Parameter names without the underscore that keeps them clear of macros.
fn plain_names(text: &str) -> String {
    let mut out = String::new();
    let mut before = ' ';
    for character in text.chars() {
        if character != '_' || before.is_alphanumeric() || before == '_' {
            out.push(character);
        }
        before = character;
    }
    out
}

/// The name that a declaration declares: of a function the first name before a parenthesis, of a variable the last.
fn declared_name(declaration: &str) -> Option<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let name_before = |text: &str| {
        let start = text.rfind(|c| !is_part(c)).map_or(0, |index| index + 1);
        Some(text[start..].to_owned()).filter(|name| !name.is_empty())
    };
    if let Some(variable) = declaration.strip_prefix("extern ") {
        return name_before(variable.trim_end_matches([';', '[', ']']));
    }
    declaration
        .match_indices('(')
        .filter_map(|(index, _)| name_before(&declaration[..index]))
        .find(|name| name.to_lowercase().starts_with("pvm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_found() {
        let header = "/* a; b */\n#define X(y) \\\n  z();\nstruct s {\n int a; /* c */\n};\nextern \"C\" {\nextern char *pvm_errlist[];\n\
                      int pvm_send(int _tid,\n\tint _tag);\nint (*pvm_recvf(int (*_match)(int _b)))(int _b);\n}\n";
        let found = declarations(header);
        let names: Vec<_> = found.iter().filter_map(|text| declared_name(text)).collect();
        assert_eq!(names, ["pvm_errlist", "pvm_send", "pvm_recvf"]);
        assert_eq!(found[2], "int pvm_send(int tid, int tag);");
        assert_eq!(found[3], "int (*pvm_recvf(int (*match)(int b)))(int b);");
    }
}
