//! Enums whose variants are stored as fixed words: an enum here, a CHECK in the schema.

/// An enum whose variants are stored as fixed words.
#[macro_export]
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// Every variant, in order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word as stored.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(word: &str) -> Result<Self, String> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(format!("invalid value {word:?}; expected {}", [$($word),+].join(", "))),
                }
            }
        }

        $crate::describe_words!($name, $($word),+);
    };
}

/// What the API's documents say of such an enum. Derived it would not see names that come through a macro.
#[cfg(feature = "schema")]
#[doc(hidden)]
#[macro_export]
macro_rules! describe_words {
    ($name:ident, $($word:literal),+) => {
        impl $crate::utoipa::PartialSchema for $name {
            fn schema() -> $crate::utoipa::openapi::RefOr<$crate::utoipa::openapi::schema::Schema> {
                use $crate::utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
                let words = ObjectBuilder::new().schema_type(SchemaType::Type(Type::String));
                words.enum_values(Some([$($word),+])).into()
            }
        }

        impl $crate::utoipa::ToSchema for $name {}
    };
}

#[cfg(not(feature = "schema"))]
#[doc(hidden)]
#[macro_export]
macro_rules! describe_words {
    ($name:ident, $($word:literal),+) => {};
}
