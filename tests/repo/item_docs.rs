//! What has to have a doc: public functions and types. A field is named so that it needs none, or its doc gives a unit, a range or
//! a reason; `missing_docs` asks for one of each field, so it is not switched on.

use syn::visit::{self, Visit};
use syn::{Attribute, File, ImplItemFn, Item, ItemImpl, ItemMod, Visibility};

use super::cycles::is_test;

#[derive(Default)]
struct Undocumented(Vec<String>);

impl Undocumented {
    fn look(&mut self, visible: &Visibility, attributes: &[Attribute], name: &syn::Ident) {
        let documented = attributes.iter().any(|a| a.path().is_ident("doc"));
        if matches!(visible, Visibility::Public(_)) && !documented {
            self.0.push(name.to_string());
        }
    }
}

impl<'a> Visit<'a> for Undocumented {
    fn visit_item(&mut self, item: &'a Item) {
        match item {
            Item::Fn(i) if !is_test(&i.attrs) => self.look(&i.vis, &i.attrs, &i.sig.ident),
            Item::Struct(i) => self.look(&i.vis, &i.attrs, &i.ident),
            Item::Enum(i) => self.look(&i.vis, &i.attrs, &i.ident),
            Item::Trait(i) => self.look(&i.vis, &i.attrs, &i.ident),
            Item::Type(i) => self.look(&i.vis, &i.attrs, &i.ident),
            Item::Const(i) => self.look(&i.vis, &i.attrs, &i.ident),
            Item::Static(i) => self.look(&i.vis, &i.attrs, &i.ident),
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, module: &'a ItemMod) {
        if !is_test(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_impl(&mut self, item: &'a ItemImpl) {
        if item.trait_.is_none() && !is_test(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, method: &'a ImplItemFn) {
        self.look(&method.vis, &method.attrs, &method.sig.ident);
    }
}

fn undocumented(file: &File) -> Vec<String> {
    let mut found = Undocumented::default();
    found.visit_file(file);
    found.0
}

#[test]
fn public_functions_and_types_have_a_doc() {
    let mut all = Vec::new();
    for file in super::documents::files() {
        // What is `pub` in the web crate is for its own modules.
        let product =
            (file.starts_with("agent/") || file.starts_with("common/")) && !file.starts_with("agent/web/");
        let tests = file.contains("/tests/") || file.ends_with("tests.rs") || file.ends_with("fuzzing.rs");
        if !product || tests || !file.ends_with(".rs") {
            continue;
        }
        let parsed = syn::parse_file(&super::read(&file)).expect("Rust");
        all.extend(
            undocumented(&parsed)
                .into_iter()
                .map(|name| format!("{file}: {name}")),
        );
    }
    assert!(all.is_empty(), "say what each is for:\n{}", all.join("\n"));
}

#[test]
fn a_public_function_without_a_doc_is_found_and_a_field_is_not_looked_at() {
    let text = "/// Known.\npub struct A { pub b: u8 }\nimpl A { pub fn c(&self) {} fn d(&self) {} }\npub(crate) fn e() {}\n\
        pub enum F { G }\n#[cfg(test)]\nmod tests { pub fn h() {} }\nimpl Clone for A { fn clone(&self) -> A { A { b: 1 } } }";
    let parsed = syn::parse_file(text).expect("Rust");
    assert_eq!(undocumented(&parsed), ["c", "F"]);
}
