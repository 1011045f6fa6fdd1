//! `[archive]`: where files of archived letters go, and how large they become. Credentials of object storage come from the
//! environment of the process and never stand here.

use std::fmt;
use std::path::PathBuf;

use lazaret_core::duration::Length;
use lazaret_core::limits;
use reqwest::Url;
use serde::Serialize;

use super::check::parse_scalar;
use super::layer::Settings;
use super::problem::{Place, Problems, quoted};
use super::value;

/// What is set for the archive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArchiveConfig {
    /// See `Config::archive_url`.
    pub url: Option<ArchiveUrl>,
    /// Letters after which a file is written, and how long the first of them waits for the others.
    pub file_letters: u64,
    pub file_age_ms: i64,
    /// Where the storage is, if it is not the cloud's own.
    pub endpoint: Option<String>,
    pub region: Option<String>,
    /// Whether the storage may be spoken to without TLS.
    pub allow_http: bool,
}

/// A place for files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ArchiveUrl {
    Folder(PathBuf),
    Bucket {
        cloud: Cloud,
        bucket: String,
        /// Below which files stand in the bucket, without slashes at its ends; may be empty.
        prefix: String,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cloud {
    /// Amazon S3 and whatever speaks like it.
    S3,
    Google,
    Azure,
}

impl Cloud {
    pub const ALL: [Cloud; 3] = [Cloud::S3, Cloud::Google, Cloud::Azure];

    pub const fn scheme(self) -> &'static str {
        match self {
            Cloud::S3 => "s3",
            Cloud::Google => "gs",
            Cloud::Azure => "az",
        }
    }
}

impl ArchiveUrl {
    /// Reads `s3://bucket/prefix`, `gs://…`, `az://…`, `file:///folder` or a path.
    pub fn parse(text: &str) -> Result<ArchiveUrl, String> {
        let Some((scheme, _)) = text.split_once("://") else {
            return value::filled(text).map(|path| ArchiveUrl::Folder(path.into()));
        };
        // What it says does not repeat the value: it may hold what does not belong there.
        let bad = || "is not the address of a folder or a bucket".to_owned();
        let url = Url::parse(text).map_err(|_| bad())?;
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
            return Err(
                "holds more than a bucket and a prefix; credentials come from the environment, such as \
                        AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                    .to_owned(),
            );
        }
        if scheme == "file" {
            return url.to_file_path().map(ArchiveUrl::Folder).map_err(|()| bad());
        }
        let Some(cloud) = Cloud::ALL.into_iter().find(|cloud| cloud.scheme() == scheme) else {
            return Err(format!(
                "{} is not known; write s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or a folder",
                quoted(&format!("{scheme}://"))
            ));
        };
        let bucket = url.host_str().filter(|host| !host.is_empty()).ok_or("names no bucket")?.to_owned();
        let prefix = url.path().trim_matches('/').to_owned();
        Ok(ArchiveUrl::Bucket { cloud, bucket, prefix })
    }
}

impl fmt::Display for ArchiveUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArchiveUrl::Folder(path) => write!(f, "{}", path.display()),
            ArchiveUrl::Bucket { cloud, bucket, prefix } if prefix.is_empty() => {
                write!(f, "{}://{bucket}", cloud.scheme())
            }
            ArchiveUrl::Bucket { cloud, bucket, prefix } => {
                write!(f, "{}://{bucket}/{prefix}", cloud.scheme())
            }
        }
    }
}

impl Default for ArchiveConfig {
    fn default() -> ArchiveConfig {
        ArchiveConfig {
            url: None,
            file_letters: limits::ARCHIVE_FILE_LETTERS,
            file_age_ms: limits::ARCHIVE_FILE_AGE_MS,
            endpoint: None,
            region: None,
            allow_http: false,
        }
    }
}

const ENDPOINT: &str = "archive.endpoint";

pub(super) fn check(settings: &Settings, problems: &mut Problems) -> ArchiveConfig {
    let defaults = ArchiveConfig::default();
    let path = "archive.url";
    let url = parse_scalar(settings, path, path, ArchiveUrl::parse, problems);
    let path = "archive.file_letters";
    let letters = |text: &str| value::count(text, 1..=limits::ARCHIVE_FILE_LETTERS_MAX);
    let file_letters = parse_scalar(settings, path, path, letters, problems);
    let path = "archive.file_age";
    let age = |text: &str| value::length_ms(text, limits::ARCHIVE_FILE_AGE_MS_MAX);
    let file_age_ms = parse_scalar(settings, path, path, age, problems);
    let path = "archive.region";
    let region = parse_scalar(settings, path, path, value::name, problems);
    let endpoint = parse_scalar(settings, ENDPOINT, ENDPOINT, endpoint, problems);
    let path = "archive.allow_http";
    let allow_http = parse_scalar(settings, path, path, value::flag, problems).unwrap_or(defaults.allow_http);
    if endpoint.as_ref().is_some_and(|endpoint| endpoint.starts_with("http:")) && !allow_http {
        let place = settings.get(ENDPOINT).map_or(Place::File, |setting| setting.place.clone());
        let message = "speaks without TLS, which archive.allow_http does not allow".to_owned();
        problems.add_with_hint(place, ENDPOINT, message, "use https, or set archive.allow_http = true");
    }
    ArchiveConfig {
        url,
        file_letters: file_letters.unwrap_or(defaults.file_letters),
        file_age_ms: file_age_ms.and_then(|ms| i64::try_from(ms).ok()).unwrap_or(defaults.file_age_ms),
        endpoint,
        region,
        allow_http,
    }
}

fn endpoint(text: &str) -> Result<String, String> {
    let bad = || "is not an address; write it like https://s3.example.org:9000".to_owned();
    let url = Url::parse(text).map_err(|_| bad())?;
    let plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
    let known = matches!(url.scheme(), "http" | "https") && url.has_host();
    if plain && known { Ok(text.trim_end_matches('/').to_owned()) } else { Err(bad()) }
}

/// As it is written to a file.
#[derive(Serialize)]
pub(super) struct ShownArchive<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    file_letters: u64,
    file_age: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<&'a str>,
    allow_http: bool,
}

pub(super) fn shown(archive: &ArchiveConfig) -> ShownArchive<'_> {
    ShownArchive {
        url: archive.url.as_ref().map(ArchiveUrl::to_string),
        file_letters: archive.file_letters,
        file_age: Length::from_ms(archive.file_age_ms).to_string(),
        endpoint: archive.endpoint.as_deref(),
        region: archive.region.as_deref(),
        allow_http: archive.allow_http,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::load_text;
    use super::*;

    #[test]
    fn an_archive_is_set_and_shown_as_it_is_set() {
        let text = "[archive]\nurl = 's3://letters/lazaret/prod/'\nfile_letters = 5\nfile_age = '2h'\n\
                    endpoint = 'http://127.0.0.1:9000/'\nregion = 'eu-central-1'\nallow_http = true\n";
        let config = load_text(text).unwrap();
        let bucket =
            ArchiveUrl::Bucket { cloud: Cloud::S3, bucket: "letters".into(), prefix: "lazaret/prod".into() };
        let expected = ArchiveConfig {
            url: Some(bucket.clone()),
            file_letters: 5,
            file_age_ms: 7_200_000,
            endpoint: Some("http://127.0.0.1:9000".into()),
            region: Some("eu-central-1".into()),
            allow_http: true,
        };
        assert_eq!(config.archive, expected);
        assert_eq!(bucket.to_string(), "s3://letters/lazaret/prod");
        assert_eq!(load_text(&config.to_toml()).unwrap(), config);
    }

    #[test]
    fn a_folder_is_a_path_or_a_file_address() {
        for (text, folder) in
            [("archive", "archive"), ("/srv/a b", "/srv/a b"), ("file:///srv/a%20b", "/srv/a b")]
        {
            assert_eq!(ArchiveUrl::parse(text), Ok(ArchiveUrl::Folder(folder.into())));
        }
        for (text, shown) in [("gs://b", "gs://b"), ("az://c/p/q", "az://c/p/q")] {
            assert_eq!(ArchiveUrl::parse(text).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn without_an_address_a_store_of_its_own_has_a_folder_and_a_shared_one_has_none() {
        let config = load_text("data = '/var/lib/lazaret'").unwrap();
        assert_eq!(config.archive_url(), Some(ArchiveUrl::Folder("/var/lib/lazaret/archive".into())));
        let shared = load_text("store = 'postgres://db/letters'").unwrap();
        assert_eq!(shared.archive_url(), None);
    }

    #[test]
    fn what_makes_no_sense_for_an_archive_is_told_without_credentials() {
        for (bad, told) in [
            ("url = ''", "is empty"),
            ("url = 'ftp://x/y'", "ftp://"),
            ("url = 's3://'", "archive.url"),
            ("url = 's3://key:hunter2@bucket/x'", "come from the environment"),
            ("url = 's3://bucket/x?secret=hunter2'", "come from the environment"),
            ("file_letters = 0", "not a number from 1"),
            ("file_age = '0s'", "out of range"),
            ("endpoint = 'localhost:9000'", "is not an address"),
            ("endpoint = 'https://key:hunter2@s3.example.org'", "is not an address"),
            ("endpoint = 'http://127.0.0.1:9000'", "archive.allow_http"),
            ("secret_access_key = 'x'", "unknown"),
        ] {
            let error = load_text(&format!("[archive]\n{bad}")).unwrap_err().to_string();
            assert!(error.contains(told), "{bad}: {error}");
            assert!(!error.contains("is not an address; write") || !error.contains("hunter2"), "{error}");
        }
    }
}
