//! Circles of modules: `a` uses `b`, and `b`, directly or through others, uses `a`.
//!
//! The check compares siblings: the modules of one parent, each with all its descendants. The use
//! of an ancestor's own file is no edge, nor is the use of a child by its parent. Paths inside
//! macro calls are not seen, and code under `#[cfg(test)]` does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree, Visibility};

use super::read;

/// The path of a module from the crate's root.
type Module = Vec<String>;

/// The modules of a crate, and the paths that each of them uses.
#[derive(Default)]
struct Crate {
    /// For each module, the names that it re-exports, with their paths.
    exports: BTreeMap<Module, BTreeMap<String, Module>>,
    /// A module and a path that it uses.
    uses: Vec<(Module, Module)>,
}

/// Reports each circle of modules of a crate.
pub fn check(source: &Path, name: &str, faults: &mut Vec<String>) {
    let mut found = Crate::default();
    let root = ["lib.rs", "main.rs"].map(|file| source.join(file));
    let Some(root) = root.into_iter().find(|file| file.exists()) else { return };
    found.read(&root, source, Vec::new(), faults);
    for circle in found.circles() {
        faults.push(format!("{name} has a circle of modules: {circle}"));
    }
}

/// Collects the modules, paths and exports of a file.
struct Reading<'r> {
    module: Module,
    found: &'r mut Crate,
    /// Modules with files of their own.
    files: Vec<String>,
}

impl Crate {
    fn read(&mut self, file: &Path, folder: &Path, module: Module, faults: &mut Vec<String>) {
        let text = read(file, faults);
        let parsed = match syn::parse_file(&text) {
            Ok(parsed) => parsed,
            Err(error) => return faults.push(format!("{}: {error}", file.display())),
        };
        self.exports.entry(module.clone()).or_default();
        let mut reading = Reading { module: module.clone(), found: self, files: Vec::new() };
        reading.visit_file(&parsed);
        for name in reading.files {
            let places: [PathBuf; 2] =
                [folder.join(format!("{name}.rs")), folder.join(&name).join("mod.rs")];
            if let Some(file) = places.iter().find(|file| file.exists()) {
                let below = [module.clone(), vec![name.clone()]].concat();
                self.read(file, &folder.join(&name), below, faults);
            }
        }
    }

    /// The module to which a path leads from another one; `None` for other crates.
    fn target(&self, from: &Module, path: &Module) -> Option<Module> {
        let mut at = match path.first()?.as_str() {
            "crate" => Vec::new(),
            "self" => from.clone(),
            "super" => from[..from.len().checked_sub(1)?].to_vec(),
            first => {
                let child = [from.clone(), vec![first.to_owned()]].concat();
                self.exports.contains_key(&child).then_some(child)?
            }
        };
        for name in &path[1..] {
            if name == "super" {
                at.pop()?;
                continue;
            }
            let below = [at.clone(), vec![name.clone()]].concat();
            if self.exports.contains_key(&below) {
                at = below;
                continue;
            }
            // A re-exported name belongs to the module that defines it.
            let elsewhere = self.exports.get(&at).and_then(|exports| exports.get(name));
            return match elsewhere {
                Some(elsewhere) if elsewhere != path => self.target(&at, elsewhere).or(Some(at)),
                _ => Some(at),
            };
        }
        Some(at)
    }

    fn circles(&self) -> Vec<String> {
        // For each parent, the edges between its children, with an example of each.
        let mut levels: BTreeMap<Module, Edges> = BTreeMap::new();
        for (from, path) in &self.uses {
            let Some(to) = self.target(from, path) else { continue };
            let shared = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
            if let (Some(one), Some(other)) = (from.get(shared), to.get(shared)) {
                let level = levels.entry(from[..shared].to_vec()).or_default();
                let example = (from.join("::"), path.join("::"));
                level.entry(one.clone()).or_default().entry(other.clone()).or_insert(example);
            }
        }
        levels.values().flat_map(circles_of).collect()
    }
}

/// By user and used module: an example of a module and a path.
type Edges = BTreeMap<String, BTreeMap<String, (String, String)>>;

/// For each module that is not in an earlier circle, the shortest circle through it.
fn circles_of(edges: &Edges) -> Vec<String> {
    let (mut told, mut circles) = (BTreeSet::new(), Vec::new());
    for start in edges.keys() {
        if told.contains(start) {
            continue;
        }
        let Some(circle) = shortest(edges, start) else { continue };
        told.extend(circle.iter().cloned());
        let steps = circle.iter().zip(circle.iter().cycle().skip(1)).map(|(one, other)| {
            let (place, path) = &edges[one][other];
            format!("{one} -> {other} ({place} uses {path})")
        });
        circles.push(steps.collect::<Vec<_>>().join(", "));
    }
    circles
}

fn shortest(edges: &Edges, start: &String) -> Option<Vec<String>> {
    let mut ways = vec![vec![start.clone()]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let Some(next) = way.last().and_then(|last| edges.get(last)) else { continue };
            for other in next.keys() {
                if other == start {
                    return Some(way);
                }
                if seen.insert(other.clone()) {
                    longer.push([way.clone(), vec![other.clone()]].concat());
                }
            }
        }
        ways = longer;
    }
    None
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

impl Reading<'_> {
    fn use_tree(&mut self, tree: &UseTree, before: &Module, is_export: bool) {
        let with = |name: String| [before.clone(), vec![name]].concat();
        match tree {
            UseTree::Path(path) => {
                self.use_tree(&path.tree, &with(path.ident.to_string()), is_export);
            }
            UseTree::Name(name) => {
                let name = name.ident.to_string();
                let path = if name == "self" { before.clone() } else { with(name) };
                self.used(&path, path.last().cloned(), is_export);
            }
            UseTree::Rename(rename) => {
                let shown = rename.rename.to_string();
                self.used(&with(rename.ident.to_string()), Some(shown), is_export);
            }
            UseTree::Glob(_) => self.used(before, None, false),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.use_tree(tree, before, is_export));
            }
        }
    }

    fn used(&mut self, path: &Module, shown: Option<String>, is_export: bool) {
        if let (true, Some(shown)) = (is_export, shown) {
            let exports = self.found.exports.entry(self.module.clone()).or_default();
            exports.insert(shown, path.clone());
        }
        self.found.uses.push((self.module.clone(), path.clone()));
    }
}

impl<'ast> Visit<'ast> for Reading<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Mod(ItemMod { attrs, .. }) | Item::Use(ItemUse { attrs, .. }) => attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let name = item.ident.to_string();
        if item.content.is_none() {
            return self.files.push(name);
        }
        self.module.push(name);
        self.found.exports.entry(self.module.clone()).or_default();
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_export = !matches!(item.vis, Visibility::Inherited);
        self.use_tree(&item.tree, &Vec::new(), is_export);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Module = path.segments.iter().map(|part| part.ident.to_string()).collect();
        if names.len() > 1 && path.leading_colon.is_none() {
            self.found.uses.push((self.module.clone(), names));
        }
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let folder = std::env::temp_dir().join(format!("xtask-modules-{}", std::process::id()));
        let folder = folder.join(files.len().to_string());
        for (name, text) in files {
            let file = folder.join(name);
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
            std::fs::write(file, text).expect("written");
        }
        let mut faults = Vec::new();
        check(&folder, "tried", &mut faults);
        std::fs::remove_dir_all(folder).expect("removed");
        faults
    }

    #[test]
    fn a_circle_is_found_through_exports_and_below() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; pub use b::inner::Thing;"),
            ("a.rs", "use crate::Thing; pub struct One;"),
            ("b/mod.rs", "pub mod inner;"),
            ("b/inner.rs", "use crate::c::Two; pub struct Thing;"),
            ("c.rs", "pub struct Two; fn f() { crate::a::One; }"),
        ];
        let [fault] = &circles(&files)[..] else { panic!("one circle") };
        assert!(fault.contains("a -> b") && fault.contains("c -> a (c uses crate::a::One)"));
    }

    #[test]
    fn parents_tests_and_trees_are_no_circles() {
        let files = [
            ("lib.rs", "mod a; mod b; pub struct Root; #[cfg(test)] mod tests { use super::a; }"),
            ("a.rs", "use crate::b::Thing; use crate::Root; pub struct One;"),
            ("b.rs", "pub struct Thing; #[cfg(test)] mod tests { use crate::a::One; }"),
        ];
        assert!(circles(&files).is_empty());
    }
}
