//! The console's environment variables, and those that tasks inherit.

use std::collections::BTreeMap;
use std::fmt::Write as _;

const EXPORT: &str = "PVM_EXPORT";

/// The variables, as `setenv` and `export` have them.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
}

impl Environment {
    /// The variables of this process.
    pub fn inherited() -> Self {
        let text = |part: std::ffi::OsString| part.into_string().ok();
        let variables = std::env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?)));
        Self { variables: variables.collect() }
    }

    /// Sets a variable.
    pub fn set(&mut self, name: &str, value: String) {
        self.variables.insert(name.to_owned(), value);
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// Every variable, one a line.
    pub fn list(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.variables {
            let _ = writeln!(text, "{name}={value}");
        }
        text
    }

    /// The list of names that tasks inherit, as it stands in `PVM_EXPORT`.
    pub fn export_list(&self) -> &str {
        self.get(EXPORT).unwrap_or_default()
    }

    /// Adds names to the list.
    pub fn export(&mut self, names: &[String]) {
        let mut list = self.exported();
        for name in names {
            if !list.contains(name) {
                list.push(name.clone());
            }
        }
        self.set(EXPORT, list.join(":"));
    }

    /// Removes names from the list.
    pub fn unexport(&mut self, names: &[String]) {
        let mut list = self.exported();
        list.retain(|name| !names.contains(name));
        self.set(EXPORT, list.join(":"));
    }

    /// The environment of a task that is spawned now.
    pub fn for_tasks(&self) -> Vec<(String, String)> {
        let list = self.exported();
        if list.is_empty() {
            return Vec::new();
        }
        let values = list.iter().filter_map(|name| Some((name.clone(), self.get(name)?.to_owned())));
        std::iter::once((EXPORT.to_owned(), list.join(":"))).chain(values).collect()
    }

    fn exported(&self) -> Vec<String> {
        self.export_list().split(':').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn exported_variables_go_to_tasks() {
        let mut environment = Environment::default();
        assert!(environment.for_tasks().is_empty());
        environment.set("A", "1 2".into());
        environment.export(&names(&["A", "UNSET", "A"]));
        assert_eq!(environment.export_list(), "A:UNSET");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(environment.for_tasks(), [pair("PVM_EXPORT", "A:UNSET"), pair("A", "1 2")]);
        environment.unexport(&names(&["A", "other"]));
        assert_eq!(environment.export_list(), "UNSET");
        assert_eq!(environment.list(), "A=1 2\nPVM_EXPORT=UNSET\n");
    }

    #[test]
    fn the_processs_variables_are_there() {
        assert_eq!(Environment::inherited().get("PATH"), std::env::var("PATH").ok().as_deref());
    }
}
