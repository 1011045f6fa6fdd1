//! axe-core, which the tests ask whether pages are accessible: one file of one version from npm, in the user's cache. Never
//! part of the repository or of the binary.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::python::cache;
use crate::setup::Missing;

/// A fixed version: a test that fails tomorrow fails because of us.
const VERSION: &str = "4.14.0";

/// What npm says the package has to be, so that it is what it was when this line was written.
const INTEGRITY: &str =
    "sha512-9WTZxEjsZ7b13TH8JPmbV2z8CHbl80/2hm3XPEG4JgNdQLK81IBRXmSxHfMAOkSqQeRxT/0dwNDz2GOm3zzpcQ==";

/// The one file of the package that is needed.
const MEMBER: &str = "package/axe.min.js";

/// Fetches the package, compares it with what it has to be, and takes one file out of it. By Node, which the tests need
/// anyway: Debian's npm brings some hundred packages with it.
const FETCH: &str = r#"
import { createHash } from "node:crypto";
import { renameSync, writeFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";

const [address, integrity, member, file] = process.argv.slice(1);
const answer = await fetch(address, { signal: AbortSignal.timeout(120_000) });
if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
const packed = Buffer.from(await answer.arrayBuffer());
const found = "sha512-" + createHash("sha512").update(packed).digest("base64");
if (found !== integrity) throw new Error(`${address} is ${found}, not ${integrity}`);
const tar = gunzipSync(packed);
const text = (from, to) => tar.toString("utf8", from, to).split("\0")[0].trim();
for (let at = 0; at + 512 <= tar.length; ) {
  const size = parseInt(text(at + 124, at + 136), 8) || 0;
  if (text(at, at + 100) === member) {
    // Under another name until it is whole.
    writeFileSync(`${file}.new`, tar.subarray(at + 512, at + 512 + size));
    renameSync(`${file}.new`, file);
    process.exit(0);
  }
  at += 512 + Math.ceil(size / 512) * 512;
}
throw new Error(`${address} has no ${member}`);
"#;

/// Fetches it if it is not there. `crates/browser/src/accessibility.rs` looks for it in the same place.
pub(crate) fn ensure(on_missing: Missing) -> Result<()> {
    let cache = cache(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"))
        .context("neither XDG_CACHE_HOME nor HOME is set: no place for the tests' axe-core")?;
    let file = file(&cache);
    if file.is_file() {
        return Ok(());
    }
    let folder = file.parent().expect("it stands in a folder of its own");
    let by_hand = format!(
        "mkdir -p {0} && npm pack axe-core@{VERSION} && tar -xzf axe-core-{VERSION}.tgz {MEMBER} && mv {MEMBER} {1}",
        folder.display(),
        file.display()
    );
    match on_missing {
        Missing::Refuse => {
            bail!("the tests need axe-core {VERSION} and --no-setup forbids to fetch it; type:\n  {by_hand}")
        }
        Missing::Install => {
            eprintln!("fetching axe-core {VERSION} into {}", folder.display());
            fetch(folder, &file).with_context(|| format!("cannot fetch it; by hand it is:\n  {by_hand}"))
        }
    }
}

fn file(cache: &Path) -> PathBuf {
    cache.join(format!("lazaret-axe/axe-{VERSION}.min.js"))
}

fn fetch(folder: &Path, file: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let address = format!("https://registry.npmjs.org/axe-core/-/axe-core-{VERSION}.tgz");
    let status = Command::new("node")
        .args(["--input-type=module", "--eval", FETCH, "--", &address, INTEGRITY, MEMBER])
        .arg(file)
        .stdin(Stdio::null())
        .status()
        .context("cannot start node")?;
    if !status.success() {
        bail!("node failed: {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_look_for_the_file_that_is_fetched() {
        let looking = crate::cargo::workspace_root().join("crates/browser/src/accessibility.rs");
        let name = file(Path::new(""));
        let expected = format!("\"{}\"", name.display());
        assert!(std::fs::read_to_string(looking).unwrap().contains(&expected), "{expected}");
    }
}
