//! Programs in Python that the tests ask: emulators of object storage, and a reader of Parquet that is not ours.
//!
//! `cargo xtask test` installs them (`xtask/src/python.rs`); without them a test fails and says so.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The folder of the user's caches.
pub fn cache() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache"))).unwrap_or_default()
}

/// A program of the tests' own Python.
pub fn program(name: &str) -> PathBuf {
    let path = cache().join("lazaret-python/bin").join(name);
    assert!(path.is_file(), "{} is missing; `cargo xtask test` installs it", path.display());
    path
}

/// Every row of a file, as pyarrow reads it: binary values as hex, times as text.
pub fn rows(file: &Path) -> Value {
    const SCRIPT: &str = r#"
import datetime, json, sys
import pyarrow.parquet as pq

def plain(value):
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime.datetime):
        assert value.utcoffset() == datetime.timedelta(0), value
        return value.strftime("%Y-%m-%dT%H:%M:%S.") + "%03dZ" % (value.microsecond // 1000)
    raise TypeError(repr(value))

file = pq.ParquetFile(sys.argv[1])
meta = {k.decode(): v.decode() for k, v in file.metadata.metadata.items() if k.startswith(b"lazaret")}
codecs = sorted({
    file.metadata.row_group(g).column(c).compression
    for g in range(file.metadata.num_row_groups)
    for c in range(file.metadata.num_columns)
})
print(json.dumps({"metadata": meta, "codecs": codecs, "rows": file.read().to_pylist()}, default=plain))
"#;
    let mut python = Command::new(program("python"));
    let output = python.args(["-c", SCRIPT]).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}
