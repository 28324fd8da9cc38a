//! Which file of a crate names something of which other, read from the tokens of its modules:
//! `use` and every path in the code, also in macros. What only tests name does not count.
//!
//! Neighbour: [`cycles`](crate::cycles) judges it.

use anyhow::Context;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Passing a name on from module to module ends after so many steps.
const MAX_STEPS: usize = 20;

/// The files of a crate, each with the files that it needs.
#[derive(Default)]
pub struct Crate(BTreeMap<String, BTreeSet<String>>);

impl Crate {
    /// The files, sorted.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// What `file` needs, sorted.
    pub fn needs(&self, file: &str) -> impl Iterator<Item = &str> {
        self.0.get(file).into_iter().flatten().map(String::as_str)
    }

    #[cfg(test)]
    pub fn of(arrows: &[(&str, &[&str])]) -> Crate {
        let needs = |to: &[&str]| to.iter().map(|t| t.to_string()).collect();
        Crate(arrows.iter().map(|(from, to)| (from.to_string(), needs(to))).collect())
    }
}

/// Reads the crate whose root file is `start`, relative to `root`.
pub fn read(root: &Path, start: &Path) -> anyhow::Result<Crate> {
    let mut modules = Modules::default();
    let folder = start.parent().unwrap_or(Path::new("")).to_path_buf();
    let mut waiting = vec![(Vec::new(), start.to_path_buf(), folder)];
    while let Some((path, file, folder)) = waiting.pop() {
        let text = crate::tree::read(root, &file)?;
        let tokens: TokenStream =
            text.parse().map_err(|e| anyhow::anyhow!("reading {}: {e}", file.display()))?;
        let name = file.to_string_lossy().into_owned();
        for Child { name: child, around, file: told } in modules.enter(&path, &name, tokens) {
            let base = around.iter().fold(folder.clone(), |base, part| base.join(part));
            let told = told.map(|told| file.parent().unwrap_or(&file).join(told));
            let usual = [base.join(format!("{child}.rs")), base.join(&child).join("mod.rs")];
            let found = told.into_iter().chain(usual).find(|file| root.join(file).exists());
            let found = found.with_context(|| format!("{name}: no file for module {child}"))?;
            let inner = [&path[..], &around[..], std::slice::from_ref(&child)].concat();
            waiting.push((inner, found, base.join(&child)));
        }
    }
    Ok(modules.arrows())
}

/// A path of module and item names from the crate's root.
type Names = Vec<String>;

#[derive(Default)]
struct Module {
    file: String,
    /// Names that `use` brings in, and what they stand for.
    names: BTreeMap<String, Names>,
    /// Modules all of whose names are brought in.
    globs: Vec<Names>,
    /// Paths that the code names, as they are written.
    paths: Vec<Names>,
}

/// A module that lies in a file of its own.
struct Child {
    name: String,
    /// The inline modules around its declaration.
    around: Names,
    /// Its file, where `#[path]` tells it.
    file: Option<String>,
}

#[derive(Default)]
struct Modules(BTreeMap<Names, Module>);

impl Modules {
    /// Notes what a module's tokens name; returns the modules that lie in other files.
    fn enter(&mut self, path: &[String], file: &str, tokens: TokenStream) -> Vec<Child> {
        self.0.insert(path.to_vec(), Module { file: file.into(), ..Module::default() });
        let mut children = Vec::new();
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        self.items(path, &mut Vec::new(), file, &tokens, &mut children);
        children
    }

    fn items(
        &mut self,
        outer: &[String],
        inner: &mut Names,
        file: &str,
        tokens: &[TokenTree],
        children: &mut Vec<Child>,
    ) {
        let here = [outer, &inner[..]].concat();
        let mut at = 0;
        while at < tokens.len() {
            if is_for_tests(tokens, at) {
                at = end_of_item(tokens, at + 2);
                continue;
            }
            match (word(tokens, at).as_deref(), word(tokens, at + 1)) {
                (Some("mod"), Some(name)) => {
                    if let Some(TokenTree::Group(body)) = tokens.get(at + 2) {
                        inner.push(name);
                        let path = [outer, &inner[..]].concat();
                        let module = Module { file: file.into(), ..Module::default() };
                        self.0.insert(path, module);
                        let body: Vec<TokenTree> = body.stream().into_iter().collect();
                        self.items(outer, inner, file, &body, children);
                        inner.pop();
                    } else {
                        children.push(Child {
                            name,
                            around: inner.clone(),
                            file: told_file(tokens, at),
                        });
                    }
                    at += 3;
                }
                (Some("use"), _) => {
                    let end = end_of_item(tokens, at);
                    let module = self.0.get_mut(&here).expect("entered");
                    module.import(&mut Vec::new(), &tokens[at + 1..end]);
                    at = end;
                }
                _ => at = self.step(outer, inner, file, tokens, at, children),
            }
        }
    }

    /// A path, a group, or a token of no interest; returns where the next begins.
    fn step(
        &mut self,
        outer: &[String],
        inner: &mut Names,
        file: &str,
        tokens: &[TokenTree],
        at: usize,
        children: &mut Vec<Child>,
    ) -> usize {
        if let TokenTree::Group(group) = &tokens[at] {
            let group: Vec<TokenTree> = group.stream().into_iter().collect();
            self.items(outer, inner, file, &group, children);
            return at + 1;
        }
        let (path, end) = path_at(tokens, at);
        if path.len() > 1 {
            let here = [outer, &inner[..]].concat();
            self.0.get_mut(&here).expect("entered").paths.push(path);
        }
        end.max(at + 1)
    }

    /// The module that defines what `path`, written in `here`, names.
    fn definer(&self, here: &[String], path: &[String], steps: usize) -> Option<&Names> {
        let (mut at, mut rest) = match path.first()?.as_str() {
            "crate" => (self.0.get_key_value(&Names::new())?.0, &path[1..]),
            "self" => (self.0.get_key_value(here)?.0, &path[1..]),
            "super" => {
                let outer = &here[..here.len().checked_sub(1)?];
                if path.get(1).is_some_and(|next| next == "super") {
                    return self.definer(outer, &path[1..], steps);
                }
                (self.0.get_key_value(outer)?.0, &path[1..])
            }
            _ => {
                let own = self.0.get_key_value(here)?.0;
                let known = self.0.contains_key(&[here, &path[..1]].concat())
                    || self.0[own].names.contains_key(&path[0]);
                (known.then_some(own)?, path)
            }
        };
        while let Some(next) = rest.first() {
            if let Some((child, _)) = self.0.get_key_value(&[&at[..], &rest[..1]].concat()) {
                (at, rest) = (child, &rest[1..]);
                continue;
            }
            if steps == 0 {
                return Some(at);
            }
            if let Some(meant) = self.0[at].names.get(next).filter(|meant| *meant != rest) {
                let whole = [&meant[..], &rest[1..]].concat();
                return self.definer(at, &whole, steps - 1);
            }
            return Some(at);
        }
        Some(at)
    }

    fn arrows(&self) -> Crate {
        let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (here, module) in &self.0 {
            let needs = arrows.entry(module.file.clone()).or_default();
            let named = module.names.values().chain(&module.globs).chain(&module.paths);
            for target in named.filter_map(|path| self.definer(here, path, MAX_STEPS)) {
                if self.0[target].file != module.file {
                    needs.insert(self.0[target].file.clone());
                }
            }
        }
        Crate(arrows)
    }
}

impl Module {
    /// Notes the names of one tree of `use`, below `path`.
    fn import(&mut self, path: &mut Names, tokens: &[TokenTree]) {
        for tree in tokens.split(|token| is_mark(token, ',')) {
            let before = path.len();
            let (names, end) = path_at(tree, 0);
            path.extend(names);
            match tree.get(end) {
                Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                    let group: Vec<TokenTree> = group.stream().into_iter().collect();
                    self.import(path, &group);
                }
                Some(token) if is_mark(token, '*') => self.globs.push(path.clone()),
                _ if path.len() > before => {
                    if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
                        path.pop();
                    }
                    let renamed = word(tree, end).filter(|word| word == "as");
                    let name = renamed.and_then(|_| word(tree, end + 1));
                    let name = name.or_else(|| path.last().cloned()).unwrap_or_default();
                    let name = if name == "_" { path.join("::") } else { name };
                    self.names.insert(name, path.clone());
                }
                _ => {}
            }
            path.truncate(before);
        }
    }
}

/// The names joined by `::` from here on, and where they end.
fn path_at(tokens: &[TokenTree], mut at: usize) -> (Names, usize) {
    let mut names = Names::new();
    while let Some(name) = word(tokens, at).filter(|word| word != "as") {
        names.push(name);
        at += 1;
        if !(tokens.get(at).is_some_and(|t| is_mark(t, ':'))
            && tokens.get(at + 1).is_some_and(|t| is_mark(t, ':')))
        {
            break;
        }
        at += 2;
    }
    (names, at)
}

/// Is there `#[cfg(test)]`, or one with `test` among its conditions?
fn is_for_tests(tokens: &[TokenTree], at: usize) -> bool {
    let Some(TokenTree::Group(attribute)) = tokens.get(at + 1) else { return false };
    let text = attribute.stream().to_string();
    is_mark(&tokens[at], '#')
        && text.starts_with("cfg")
        && !text.contains("not")
        && text.split(|c: char| !c.is_alphanumeric()).any(|word| word == "test")
}

/// Behind the `;` or the block that ends the item.
fn end_of_item(tokens: &[TokenTree], at: usize) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        token => is_mark(token, ';'),
    };
    let is_import = tokens[at..].iter().take(4).any(|token| token.to_string() == "use");
    let length = tokens[at..]
        .iter()
        .position(|token| if is_import { is_mark(token, ';') } else { ends(token) });
    length.map_or(tokens.len(), |length| at + length + 1)
}

/// What `#[path = "…"]` before the declaration of a module says.
fn told_file(tokens: &[TokenTree], at: usize) -> Option<String> {
    let before = tokens[..at].iter().rev().find(|token| matches!(token, TokenTree::Group(_)))?;
    let TokenTree::Group(attribute) = before else { return None };
    let attribute: Vec<TokenTree> = attribute.stream().into_iter().collect();
    let told = word(&attribute, 0).is_some_and(|name| name == "path");
    told.then(|| attribute.last().map(|text| text.to_string().trim_matches('"').to_string()))?
}

fn word(tokens: &[TokenTree], at: usize) -> Option<String> {
    match tokens.get(at) {
        Some(TokenTree::Ident(word)) => Some(word.to_string()),
        _ => None,
    }
}

fn is_mark(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads modules given as path and text; answers what `file` needs.
    fn needs(sources: &[(&str, &str)], file: &str) -> Vec<String> {
        let mut modules = Modules::default();
        for (path, text) in sources {
            let names: Names = path.split('/').filter(|p| !p.is_empty()).map(Into::into).collect();
            modules.enter(&names, path, text.parse().unwrap());
        }
        modules.arrows().needs(file).map(String::from).collect()
    }

    #[test]
    fn imports_paths_and_macros_are_read() {
        let sources = [
            ("", "mod a; mod b; mod c; mod d;"),
            ("a", "use crate::b::{self, Thing as Other}; fn f() { say!(\"{}\", super::c::g()) }"),
            ("b", ""),
            ("c", ""),
            ("d", "// crate::a::f\nfn g() { \"crate::a::f\" }"),
        ];
        assert_eq!(needs(&sources, "a"), ["b", "c"]);
        assert_eq!(needs(&sources, "d"), [""; 0]);
    }

    #[test]
    fn a_name_that_is_passed_on_counts_for_its_definer() {
        let sources = [
            ("", "mod a; mod b;"),
            ("a", "mod inner; pub use inner::Thing;"),
            ("a/inner", "pub struct Thing;"),
            ("b", "use crate::a::Thing; use crate::a; fn f() { a::Thing::new() }"),
        ];
        assert_eq!(needs(&sources, "b"), ["a", "a/inner"]);
        assert_eq!(needs(&sources, "a"), ["a/inner"]);
    }

    #[test]
    fn what_only_tests_name_does_not_count() {
        let sources = [
            ("", "mod a; mod b;"),
            ("a", "#[cfg(test)] mod tests { use crate::b::f; } #[cfg(test)] use crate::b::{g};"),
            ("b", ""),
        ];
        assert_eq!(needs(&sources, "a"), [""; 0]);
    }

    #[test]
    fn a_module_within_a_file_belongs_to_the_file() {
        let sources = [
            ("", "mod a; mod b;"),
            ("a", "mod part { use super::super::b::f; use super::g; }"),
            ("b", ""),
        ];
        assert_eq!(needs(&sources, "a"), ["b"]);
    }
}
