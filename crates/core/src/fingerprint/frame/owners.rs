//! Whose code a frame is, by what is known of each language's runtime and of its common libraries.
//!
//! Paths are the better evidence wherever a language prints them: package managers install into known folders. The
//! tables are sorted, because each frame of each letter is looked up in one of them.

use super::{Frame, Origin};
use crate::fingerprint::language::Language;

mod compiled;
mod jvm;
mod scripts;

pub(super) fn origin(language: Language, frame: Frame<'_>) -> Origin {
    match language {
        Language::Java => jvm::origin(frame.function),
        Language::Python => scripts::python(frame),
        Language::Go => compiled::go(frame),
        Language::Node => scripts::node(frame),
        Language::DotNet => compiled::dotnet(frame.function),
        Language::Rust => compiled::rust(frame),
        Language::Ruby => scripts::ruby(frame.place),
        Language::Php => scripts::php(frame),
        Language::Elixir => compiled::elixir(frame),
    }
}

fn any_start(text: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| text.starts_with(prefix))
}

/// Whether a sorted table, no entry of which lies within another, holds the package that a name begins with. An entry
/// ends where a package does, or at the version that some libraries write behind it: `org.jooq_3.19.POSTGRES.debug`.
fn is_in(table: &[&str], name: &str) -> bool {
    let behind = table.partition_point(|entry| *entry <= name);
    let Some(entry) = behind.checked_sub(1).map(|at| table[at]) else { return false };
    let Some(rest) = name.strip_prefix(entry) else { return false };
    entry.ends_with(['/', '.'])
        || rest.is_empty()
        || rest.starts_with(['.', '_', '$', '\\', '/', '+', '`', ':'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_can_be_searched() {
        for table in [
            jvm::LIBRARIES,
            scripts::PYTHON_LIBRARIES,
            scripts::PHP_LIBRARIES,
            scripts::PHP_CLASSES,
            compiled::GO_LIBRARIES,
            compiled::GO_STANDARD,
            compiled::DOTNET_LIBRARIES,
            compiled::RUST_LIBRARIES,
            compiled::RUST_RUNTIME,
            compiled::ELIXIR_LIBRARIES,
            compiled::ELIXIR_RUNTIME,
        ] {
            assert!(table.is_sorted());
            for entry in table {
                assert!(is_in(table, &format!("{entry}.x")), "{entry}");
            }
        }
    }

    #[test]
    fn a_library_is_known_by_its_package() {
        let java = |function| origin(Language::Java, Frame { function, place: "", package: "" });
        assert_eq!(java("org.jooq_3.19.8.POSTGRES.debug"), Origin::Library);
        assert_eq!(java("io.agroal.pool.wrapper.PreparedStatementWrapper.execute"), Origin::Library);
        assert_eq!(java("com.acme.shaded.io.netty.Channel.read"), Origin::Library);
        assert_eq!(java("javax.sql.X.y"), Origin::Runtime);
        assert_eq!(java("javalite.acme.X.y"), Origin::InApp);
        assert_eq!(java("org.jooqed.acme.X.y"), Origin::InApp);
        let dotnet = |function| origin(Language::DotNet, Frame { function, place: "", package: "" });
        assert_eq!(dotnet("Npgsql.NpgsqlCommand.ExecuteReader"), Origin::Library);
        assert_eq!(dotnet("Googler.Orders.Save"), Origin::InApp);
        // The worker library converts every error that a handler returns: it is where none of them comes from.
        let rust = |function| origin(Language::Rust, Frame { function, place: "", package: "" });
        assert_eq!(
            rust("<lazaret_worker::failure::Failure as core::convert::From<E>>::from"),
            Origin::Library
        );
        assert_eq!(rust("billing::bill::{{closure}}"), Origin::InApp);
    }
}
