//! The source: what is known of each function, as the files in `docs/functions` say it.

use anyhow::{Context, ensure};
use serde::Deserialize;
use std::path::Path;

/// Functions of one subject: a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Area {
    /// The subject, in one word: that of the file's name.
    #[serde(skip)]
    pub name: String,
    /// The subject.
    pub title: String,
    /// Its manual pages.
    #[serde(rename = "page")]
    pub pages: Vec<Page>,
}

/// A manual page: a function, or some that belong together. Texts are in the Markdown of [`crate::markup`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// Its name, usually that of its first function.
    pub name: String,
    /// What it is about, in a few words.
    pub summary: String,
    /// Its C functions and variables, each with a summary; none: the one that the page is named after, unless
    /// that is a Fortran subroutine.
    #[serde(default)]
    functions: Vec<Function>,
    /// Its Fortran subroutines, with their arguments.
    #[serde(default)]
    pub fortran: Vec<String>,
    /// What it does.
    pub text: String,
    /// Arguments and their meaning.
    #[serde(default)]
    pub arguments: Vec<(String, String)>,
    /// What is returned.
    #[serde(default)]
    pub result: String,
    /// Error codes and when they are returned.
    #[serde(default)]
    pub errors: Vec<(String, String)>,
    /// Lines of a C program.
    #[serde(default)]
    pub example: String,
    /// Other pages to look at.
    #[serde(default)]
    pub see: Vec<String>,
    /// Deliberate differences from PVM 3.4.
    #[serde(default, rename = "difference")]
    pub differences: Vec<Difference>,
}

/// A function and what it does, in a few words.
#[derive(Clone, Debug, Deserialize)]
pub struct Function(pub String, pub String);

/// A deliberate difference from PVM 3.4.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// The functions concerned, of C or Fortran; none: all of the page.
    #[serde(default)]
    pub functions: Vec<String>,
    /// What is so here.
    pub here: String,
    /// What is so in PVM 3.4.
    pub there: String,
    /// Why.
    pub why: String,
}

impl Page {
    /// Its C functions and variables.
    pub fn functions(&self) -> Vec<Function> {
        let only_fortran = self.name.starts_with("pvmf");
        if self.functions.is_empty() && !only_fortran {
            vec![Function(self.name.clone(), self.summary.clone())]
        } else {
            self.functions.clone()
        }
    }

    /// The names of its Fortran subroutines.
    pub fn subroutines(&self) -> impl Iterator<Item = &str> {
        self.fortran.iter().map(|call| call.split('(').next().unwrap_or(call))
    }

    /// The Fortran subroutine that goes with a C function: the one of its name, or that of a page with one function.
    pub fn subroutine_of(&self, function: &str) -> Option<&str> {
        let name = function.strip_prefix("pvm_").map(|name| format!("pvmf{}", name.replace('_', "")));
        let same = self.subroutines().find(|&subroutine| {
            name.as_deref() == Some(subroutine) || subroutine.eq_ignore_ascii_case(function)
        });
        same.or_else(|| if self.functions().len() == 1 { self.subroutines().next() } else { None })
    }

    /// The differences that concern a function.
    pub fn differences_of(&self, function: &str) -> impl Iterator<Item = &Difference> {
        self.differences
            .iter()
            .filter(move |it| it.functions.is_empty() || it.functions.iter().any(|name| name == function))
    }
}

/// The files of `docs/functions`, in the order of their names.
pub fn load(root: &Path) -> anyhow::Result<Vec<Area>> {
    let folder = root.join("docs/functions");
    let files = crate::files(&folder, "toml")?;
    ensure!(!files.is_empty(), "{}: no functions", folder.display());
    let area = |path: &std::path::PathBuf| {
        let shown = || path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(shown)?;
        let mut area: Area = toml::from_str(&text).with_context(shown)?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        stem.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-').clone_into(&mut area.name);
        Ok(area)
    };
    files.iter().map(area).collect()
}
