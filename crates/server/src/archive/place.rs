//! Where the files are: a folder, or a bucket of object storage. Puts, gets and removes whole files, each within a time.
//!
//! A file is on disk, and its name in its folder, before `put` returns. Credentials never reach an error.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lazaret_core::limits;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::{HttpClient, HttpConnector};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    ClientConfigKey, ClientOptions, Error, ObjectStore, ObjectStoreExt, PutMode, RetryConfig,
};
use tokio::time::timeout;

use super::ArchiveError;
use crate::config::{ArchiveConfig, ArchiveUrl, Cloud};
use crate::destination::Tls;

/// Parts of an error's text; some repeat whole answers.
const WHY_CHARS_MAX: usize = 300;

const MASK: &str = "***";

/// The folder or the bucket of the archive.
#[derive(Debug)]
pub(super) struct ArchivePlace {
    url: ArchiveUrl,
    kind: Kind,
    /// What must not be repeated if the storage does.
    hidden: Vec<String>,
}

#[derive(Debug)]
enum Kind {
    Folder(PathBuf),
    Bucket { storage: Arc<dyn ObjectStore>, prefix: Path },
}

/// A storage, and where a file is in it.
type Found = (Arc<dyn ObjectStore>, Path);

impl ArchivePlace {
    /// Prepares connections and makes none. `more` is taken as if it stood in the environment of the process.
    pub(super) fn new(
        url: ArchiveUrl,
        config: &ArchiveConfig,
        more: &[(&str, &str)],
    ) -> Result<ArchivePlace, String> {
        let mut hidden = Vec::new();
        let kind = match &url {
            ArchiveUrl::Folder(folder) => Kind::Folder(folder.clone()),
            ArchiveUrl::Bucket { cloud, bucket, prefix } => {
                let prefix = Path::parse(prefix).map_err(|error| error.to_string())?;
                let bucket = Bucket { name: bucket, config, more };
                let storage = match cloud {
                    Cloud::S3 => s3(&bucket, &mut hidden),
                    Cloud::Google => google(&bucket, &mut hidden),
                    Cloud::Azure => azure(&bucket, &mut hidden),
                };
                Kind::Bucket { storage: storage.map_err(|error| why(&error, &hidden))?, prefix }
            }
        };
        Ok(ArchivePlace { url, kind, hidden })
    }

    /// Where a file is, for people.
    pub(super) fn shown_path(&self, path: &str) -> String {
        format!("{}/{path}", self.url)
    }

    /// Writes a file that is not there yet. One that is may be our own, of which no answer came: whoever wrote it reads it.
    pub(super) async fn put(&self, path: &str, content: Bytes) -> Result<(), ArchiveError> {
        let doing = "writing a file";
        let (storage, path) = self.writable(doing, path).await?;
        let put = storage.put_opts(&path, content.into(), PutMode::Create.into());
        match self.within(doing, put).await? {
            Ok(_) | Err(Error::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(self.away(doing, &error)),
        }
    }

    /// Reads a file whole, if it is there.
    pub(super) async fn get(&self, path: &str) -> Result<Option<Bytes>, ArchiveError> {
        let doing = "reading a file";
        let Some((storage, path)) = self.readable(doing, path)? else { return Ok(None) };
        let get = async {
            match storage.get(&path).await {
                Ok(found) => found.bytes().await.map(Some),
                Err(Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        };
        self.within(doing, get).await?.map_err(|error| self.away(doing, &error))
    }

    /// Removes a file and what was written of it, if there is any.
    pub(super) async fn remove(&self, path: &str) -> Result<(), ArchiveError> {
        let doing = "removing a file";
        let Some((storage, full)) = self.readable(doing, path)? else { return Ok(()) };
        match self.within(doing, storage.delete(&full)).await? {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(self.away(doing, &error)),
        }
        match &self.kind {
            // A file is written beside its name first, with a number behind it, and a crash leaves it there.
            Kind::Folder(folder) => {
                let beside = folder.join(format!("{path}#1"));
                match std::fs::remove_file(&beside) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        Err(ArchiveError::Away { doing, why: error.to_string() })
                    }
                    Ok(()) | Err(_) => Ok(()),
                }
            }
            Kind::Bucket { .. } => Ok(()),
        }
    }

    /// The storage to write to. A folder is made, and its name is on disk as well.
    async fn writable(
        &self,
        doing: &'static str,
        path: &str,
    ) -> Result<(Arc<dyn ObjectStore>, Path), ArchiveError> {
        if let Kind::Folder(folder) = &self.kind {
            let folder = folder.clone();
            let made = tokio::task::spawn_blocking(move || make_folder(&folder)).await;
            let failed = |why: String| ArchiveError::Away { doing, why };
            made.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))?;
        }
        let absent = || ArchiveError::Away { doing, why: "the folder is gone".to_owned() };
        self.readable(doing, path)?.ok_or_else(absent)
    }

    /// The storage to read from; nothing if it is a folder that nobody has made.
    fn readable(&self, doing: &'static str, path: &str) -> Result<Option<Found>, ArchiveError> {
        let path = Path::parse(path).map_err(|error| self.away(doing, &Error::from(error)))?;
        match &self.kind {
            Kind::Folder(folder) if !folder.is_dir() => Ok(None),
            Kind::Folder(folder) => {
                let storage =
                    LocalFileSystem::new_with_prefix(folder).map_err(|error| self.away(doing, &error))?;
                Ok(Some((Arc::new(storage.with_fsync(true)), path)))
            }
            Kind::Bucket { storage, prefix } => {
                let full = prefix.parts().chain(path.parts()).collect();
                Ok(Some((Arc::clone(storage), full)))
            }
        }
    }

    async fn within<T>(&self, doing: &'static str, work: impl Future<Output = T>) -> Result<T, ArchiveError> {
        let limit = Duration::from_millis(limits::ARCHIVE_TRANSFER_MS_MAX);
        let late = || ArchiveError::Away { doing, why: format!("it took longer than {} s", limit.as_secs()) };
        timeout(limit, work).await.map_err(|_| late())
    }

    fn away(&self, doing: &'static str, error: &Error) -> ArchiveError {
        ArchiveError::Away { doing, why: why(error, &self.hidden) }
    }
}

fn make_folder(folder: &std::path::Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    if folder.is_dir() {
        return Ok(());
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    std::fs::File::open(parent.unwrap_or(std::path::Path::new(".")))?.sync_all()
}

/// What went wrong, on one line, without credentials.
fn why(error: &Error, hidden: &[String]) -> String {
    let mut text = error.to_string().replace(['\n', '\r'], " ");
    for secret in hidden {
        text = text.replace(secret, MASK);
    }
    text.chars().take(WHY_CHARS_MAX).collect()
}

/// A builder as all clouds have one: from the environment, then what is configured. `$secrets` must not be repeated.
macro_rules! storage {
    ($builder:expr, $client:path, $place:expr, $hidden:expr, $secrets:expr) => {{
        let Bucket { config, more, .. } = $place;
        let connector = Connector { tls: Tls::of_the_machine() };
        let mut builder = $builder.with_http_connector(connector).with_retry(retries());
        for (name, value) in *more {
            if let Ok(key) = name.to_ascii_lowercase().parse() {
                builder = builder.with_config(key, *value);
            }
        }
        if config.allow_http {
            builder = builder.with_config($client(ClientConfigKey::AllowHttp), "true");
        }
        $hidden.extend($secrets.iter().filter_map(|key| builder.get_config_value(key)));
        $hidden.retain(|secret| !secret.is_empty());
        builder
    }};
}

/// What a storage is made of.
struct Bucket<'a> {
    name: &'a str,
    config: &'a ArchiveConfig,
    more: &'a [(&'a str, &'a str)],
}

fn s3(bucket: &Bucket<'_>, hidden: &mut Vec<String>) -> Result<Arc<dyn ObjectStore>, Error> {
    use AmazonS3ConfigKey::{AccessKeyId, SecretAccessKey, Token};
    let builder = AmazonS3Builder::from_env().with_bucket_name(bucket.name);
    let mut builder =
        storage!(builder, AmazonS3ConfigKey::Client, bucket, hidden, [AccessKeyId, SecretAccessKey, Token]);
    if let Some(region) = &bucket.config.region {
        builder = builder.with_region(region);
    }
    if let Some(endpoint) = &bucket.config.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    Ok(Arc::new(builder.build()?))
}

fn google(bucket: &Bucket<'_>, hidden: &mut Vec<String>) -> Result<Arc<dyn ObjectStore>, Error> {
    let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket.name);
    let mut builder =
        storage!(builder, GoogleConfigKey::Client, bucket, hidden, [GoogleConfigKey::ServiceAccountKey]);
    if let Some(endpoint) = &bucket.config.endpoint {
        builder = builder.with_base_url(endpoint);
    }
    Ok(Arc::new(builder.build()?))
}

fn azure(bucket: &Bucket<'_>, hidden: &mut Vec<String>) -> Result<Arc<dyn ObjectStore>, Error> {
    use AzureConfigKey::{AccessKey, ClientSecret, SasKey, Token};
    let builder = MicrosoftAzureBuilder::from_env().with_container_name(bucket.name);
    let mut builder =
        storage!(builder, AzureConfigKey::Client, bucket, hidden, [AccessKey, ClientSecret, SasKey, Token]);
    if let Some(endpoint) = &bucket.config.endpoint {
        builder = builder.with_endpoint(endpoint.clone());
    }
    Ok(Arc::new(builder.build()?))
}

fn retries() -> RetryConfig {
    RetryConfig {
        max_retries: limits::ARCHIVE_RETRIES,
        retry_timeout: Duration::from_millis(limits::ARCHIVE_READ_MS_MAX),
        ..RetryConfig::default()
    }
}

/// Connections as all others of the server: the same TLS, and the machine's authorities.
#[derive(Debug)]
struct Connector {
    tls: Tls,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let failed = |why: String| Error::Generic { store: "archive", source: why.into() };
        let allow_http = options.get_config_value(&ClientConfigKey::AllowHttp);
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(self.tls.client().map_err(failed)?)
            .https_only(allow_http.as_deref() != Some("true"))
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("lazaret/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_millis(limits::ARCHIVE_CONNECT_MS_MAX))
            .read_timeout(Duration::from_millis(limits::ARCHIVE_READ_MS_MAX))
            .timeout(Duration::from_millis(limits::ARCHIVE_TRANSFER_MS_MAX))
            .build()
            .map_err(|error| failed(error.to_string()))?;
        Ok(HttpClient::new(client))
    }
}
