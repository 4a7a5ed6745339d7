//! Structs with their defaults beside their fields.

/// A struct whose fields without a value here have the default of their type.
macro_rules! with_defaults {
    ($(#[$about:meta])* pub struct $name:ident {
        $($(#[$field_about:meta])* $vis:vis $field:ident: $type:ty $(= $default:expr)?),+ $(,)?
    }) => {
        $(#[$about])*
        pub struct $name { $($(#[$field_about])* $vis $field: $type),+ }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: with_defaults!(@ $($default)?)),+ }
            }
        }
    };
    (@) => { Default::default() };
    (@ $default:expr) => { $default };
}

pub(crate) use with_defaults;
