//! Which file of a crate uses which: cycles of imports stay small, and folders have none.
//!
//! A re-export is followed to the file that has the item, and is itself no import.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Meta, Token, UseTree, Visibility};

type Module = Vec<String>;

/// How many files may import each other in a circle.
const MOST: usize = 6;
/// Crates that have no circle at all any more. Only grows.
const WITHOUT: [&str; 5] = [
    "agent/engine",
    "agent/policy",
    "agent/warden",
    "agent/warden-client",
    "common/os",
];

#[derive(Default)]
struct Source {
    /// Whatever the file names, as it is written there.
    named: Vec<Module>,
    /// What it brings into its own scope: the short name, and what stands for it.
    aliases: BTreeMap<String, Module>,
    globs: Vec<Module>,
    items: BTreeSet<String>,
    test_modules: BTreeSet<String>,
}

pub(super) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|a| a.path().is_ident("cfg")).any(|a| {
        let conditions = a.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
        conditions.is_ok_and(|all| all.iter().any(|meta| quoted(meta).contains("test")))
    })
}

fn quoted(meta: &Meta) -> String {
    match meta {
        Meta::Path(path) => path.get_ident().map(ToString::to_string).unwrap_or_default(),
        Meta::List(list) if !list.path.is_ident("not") => list.tokens.to_string(),
        _ => String::new(),
    }
}

impl Source {
    fn tree(&mut self, tree: &UseTree, mut before: Module, exported: bool) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.tree(&path.tree, before, exported);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.tree(tree, before.clone(), exported);
                }
            }
            UseTree::Glob(_) => {
                if !exported {
                    self.named.push(before.clone());
                }
                self.globs.push(before);
            }
            UseTree::Name(name) => self.brings(before, name.ident.to_string(), None, exported),
            UseTree::Rename(name) => {
                self.brings(
                    before,
                    name.ident.to_string(),
                    Some(name.rename.to_string()),
                    exported,
                );
            }
        }
    }

    fn brings(&mut self, mut path: Module, name: String, alias: Option<String>, exported: bool) {
        if name != "self" {
            path.push(name);
        }
        let short = alias.or_else(|| path.last().cloned()).unwrap_or_default();
        if !exported {
            self.named.push(path.clone());
        }
        self.aliases.insert(short, path);
    }
}

impl<'ast> Visit<'ast> for Source {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, name) = match item {
            Item::Mod(i) => (&i.attrs, &i.ident),
            Item::Struct(i) => (&i.attrs, &i.ident),
            Item::Enum(i) => (&i.attrs, &i.ident),
            Item::Trait(i) => (&i.attrs, &i.ident),
            Item::Type(i) => (&i.attrs, &i.ident),
            Item::Const(i) => (&i.attrs, &i.ident),
            Item::Static(i) => (&i.attrs, &i.ident),
            Item::Fn(i) => (&i.attrs, &i.sig.ident),
            other => return visit::visit_item(self, other),
        };
        if is_test(attributes) {
            self.test_modules.insert(name.to_string());
            return;
        }
        self.items.insert(name.to_string());
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        visit::visit_item_mod(self, module);
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let exported = !matches!(item.vis, Visibility::Inherited);
        self.tree(&item.tree, Module::new(), exported);
    }

    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            self.named
                .push(path.segments.iter().map(|s| s.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }
}

struct Crate(BTreeMap<Module, Source>);

impl Crate {
    fn read(folder: &str) -> Self {
        let root = super::root().join(folder).join("src");
        let mut sources = BTreeMap::new();
        read_folder(&root, &Module::new(), &mut sources);
        let tests: Vec<Module> = sources
            .iter()
            .flat_map(|(module, source): (&Module, &Source)| {
                let of = |name: &String| module.iter().chain([name]).cloned().collect::<Module>();
                source.test_modules.iter().map(of).collect::<Vec<_>>()
            })
            .collect();
        sources.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        Self(sources)
    }

    /// From the root of the crate; None for what is not of this crate.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Module> {
        let (first, rest) = path.split_first()?;
        let from = |base: &[String], rest: &[String]| Some(base.iter().chain(rest).cloned().collect());
        match first.as_str() {
            "crate" => from(&[], rest),
            "self" => from(module, rest),
            "super" => {
                let up = path.iter().take_while(|s| *s == "super").count();
                from(&module[..module.len().checked_sub(up)?], &path[up..])
            }
            _ if self.0.contains_key(&[module, &path[..1]].concat()) => from(module, path),
            name => {
                let alias = self.0.get(module)?.aliases.get(name)?;
                let alias = (alias.first() != Some(first)).then(|| self.absolute(module, alias))??;
                from(&alias, rest)
            }
        }
    }

    /// The module that has what this path names.
    fn home(&self, path: &[String], depth: usize) -> Option<Module> {
        let module = (0..=path.len()).rev().map(|n| &path[..n]);
        let module = module.into_iter().find(|m| self.0.contains_key(*m))?.to_vec();
        let source = &self.0[&module];
        let Some(name) = path.get(module.len()).filter(|_| depth < 8) else {
            return Some(module);
        };
        if source.items.contains(name) {
            return Some(module);
        }
        let rest = &path[module.len() + 1..];
        if let Some(alias) = source.aliases.get(name) {
            let target = self.absolute(&module, alias)?;
            return self.home(&[&target, rest].concat(), depth + 1);
        }
        let through = source.globs.iter().filter_map(|glob| {
            let home = self.home(&self.absolute(&module, glob)?, depth + 1)?;
            self.0[&home].items.contains(name).then_some(home)
        });
        Some(through.into_iter().next().unwrap_or(module))
    }

    fn arrows(&self) -> BTreeMap<Module, BTreeSet<Module>> {
        let of = |(module, source): (&Module, &Source)| {
            let homes = source.named.iter().filter_map(|path| {
                let home = self.home(&self.absolute(module, path)?, 0)?;
                (home != *module).then_some(home)
            });
            (module.clone(), homes.collect())
        };
        self.0.iter().map(of).collect()
    }
}

fn read_folder(folder: &Path, module: &[String], into: &mut BTreeMap<Module, Source>) {
    for entry in std::fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        let stem = path
            .file_stem()
            .and_then(|s| s.to_str())
            .expect("UTF-8")
            .to_owned();
        if path.is_dir() {
            read_folder(&path, &[module, &[stem]].concat(), into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&path).expect("a readable file");
            let file = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let mut source = Source::default();
            source.visit_file(&file);
            let own = match stem.as_str() {
                "mod" | "lib" | "main" => module.to_vec(),
                _ => [module, &[stem]].concat(),
            };
            into.insert(own, source);
        }
    }
}

/// What each can reach, and can be reached from: the largest sets are the circles.
fn circles<T: Ord + Clone>(arrows: &BTreeMap<T, BTreeSet<T>>) -> BTreeSet<BTreeSet<T>> {
    let reached = |from: &T| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(at) = next.pop() {
            for to in arrows.get(&at).into_iter().flatten() {
                if seen.insert(to.clone()) {
                    next.push(to.clone());
                }
            }
        }
        seen
    };
    let all: BTreeMap<T, BTreeSet<T>> = arrows.keys().map(|from| (from.clone(), reached(from))).collect();
    let mutual = |from: &T| {
        let to = all[from].iter();
        to.filter(|to| all.get(to).is_some_and(|back| back.contains(from)))
            .cloned()
            .collect::<BTreeSet<T>>()
    };
    all.keys().map(mutual).filter(|circle| circle.len() > 1).collect()
}

fn shown(module: &[String]) -> String {
    module.join("::")
}

#[test]
fn no_more_than_six_files_import_each_other_in_a_circle() {
    let mut files = 0;
    for folder in super::crates() {
        let krate = Crate::read(&folder);
        files += krate.0.len();
        let arrows = krate.arrows();
        let most = if WITHOUT.contains(&folder.as_str()) {
            1
        } else {
            MOST
        };
        for circle in circles(&arrows) {
            let inside = circle.iter().flat_map(|from| {
                let targets = arrows[from].iter().filter(|to| circle.contains(*to));
                targets.map(move |to| format!("{} -> {}", shown(from), shown(to)))
            });
            let inside = inside.collect::<Vec<_>>().join("\n  ");
            assert!(
                circle.len() <= most,
                "{folder}: a circle of {} files:\n  {inside}",
                circle.len()
            );
        }
    }
    assert!(files > 500, "{files} files read");
}

#[test]
fn folders_of_a_crate_do_not_import_each_other_in_a_circle() {
    for folder in super::crates() {
        let krate = Crate::read(&folder);
        let is_folder = |name: &String| super::root().join(&folder).join("src").join(name).is_dir();
        let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, targets) in krate.arrows() {
            let Some(from) = from.first().filter(|name| is_folder(name)) else {
                continue;
            };
            let targets = targets.iter().filter_map(|to| to.first());
            let others = targets.filter(|to| *to != from && is_folder(to)).cloned();
            arrows.entry(from.clone()).or_default().extend(others);
        }
        let found = circles(&arrows);
        assert!(found.is_empty(), "{folder}: {found:?}");
    }
}

#[test]
fn circles_are_found() {
    let to = |names: &[&str]| {
        names
            .iter()
            .map(|n| (*n).to_owned())
            .collect::<BTreeSet<String>>()
    };
    let arrows = BTreeMap::from([
        ("a".to_owned(), to(&["b"])),
        ("b".to_owned(), to(&["c", "d"])),
        ("c".to_owned(), to(&["a"])),
        ("d".to_owned(), to(&[])),
    ]);
    assert_eq!(circles(&arrows), BTreeSet::from([to(&["a", "b", "c"])]));
}
