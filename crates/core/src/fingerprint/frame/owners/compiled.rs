//! Frames of Go, Rust, .NET and Elixir: by the path where one is printed, by the module where none is.

use super::{any_start, is_in};
use crate::fingerprint::frame::{Frame, Origin};
use crate::fingerprint::search::{self, Parts};

/// Hosts and organisations that hold libraries only.
#[rustfmt::skip]
pub(super) const GO_LIBRARIES: &[&str] = &[
    "bitbucket.org/", "cloud.google.com/", "code.gitea.io/sdk", "contrib.go.opencensus.io/", "entgo.io/", "filippo.io/", "firebase.google.com/",
    "github.com/99designs/", "github.com/Azure/", "github.com/BurntSushi/", "github.com/ClickHouse/", "github.com/DataDog/", "github.com/IBM/",
    "github.com/Masterminds/", "github.com/Shopify/sarama", "github.com/ThreeDotsLabs/", "github.com/XSAM/", "github.com/alicebob/",
    "github.com/apache/", "github.com/avast/", "github.com/aws/", "github.com/beorn7/", "github.com/bradfitz/", "github.com/bufbuild/",
    "github.com/caarlos0/", "github.com/cenkalti/", "github.com/cespare/", "github.com/cockroachdb/", "github.com/confluentinc/",
    "github.com/containerd/", "github.com/davecgh/", "github.com/dgraph-io/", "github.com/docker/", "github.com/eapache/", "github.com/eclipse/",
    "github.com/elastic/", "github.com/envoyproxy/", "github.com/fsnotify/", "github.com/getsentry/", "github.com/gin-gonic/", "github.com/go-chi/",
    "github.com/go-co-op/", "github.com/go-faster/", "github.com/go-gorm/", "github.com/go-jose/", "github.com/go-kit/", "github.com/go-logr/",
    "github.com/go-openapi/", "github.com/go-pg/", "github.com/go-playground/", "github.com/go-redis/", "github.com/go-redsync/",
    "github.com/go-resty/", "github.com/go-sql-driver/", "github.com/go-stack/", "github.com/gocql/", "github.com/gocraft/", "github.com/gofiber/",
    "github.com/gofrs/", "github.com/gogo/", "github.com/golang-jwt/", "github.com/golang-migrate/", "github.com/golang/", "github.com/google/",
    "github.com/googleapis/", "github.com/gorilla/", "github.com/grpc-ecosystem/", "github.com/hashicorp/", "github.com/hibiken/",
    "github.com/imdario/", "github.com/influxdata/", "github.com/jackc/", "github.com/jmoiron/", "github.com/joho/", "github.com/json-iterator/",
    "github.com/julienschmidt/", "github.com/kataras/", "github.com/klauspost/", "github.com/labstack/", "github.com/lib/pq",
    "github.com/machinebox/", "github.com/mailru/", "github.com/mattn/", "github.com/microsoft/", "github.com/minio/", "github.com/mitchellh/",
    "github.com/nats-io/", "github.com/newrelic/", "github.com/nsqio/", "github.com/olivere/", "github.com/open-telemetry/",
    "github.com/opensearch-project/", "github.com/opentracing/", "github.com/ory/", "github.com/panjf2000/", "github.com/pkg/", "github.com/pressly/",
    "github.com/prometheus/", "github.com/rabbitmq/", "github.com/redis/", "github.com/riverqueue/", "github.com/rotisserie/", "github.com/rs/",
    "github.com/samber/", "github.com/segmentio/", "github.com/sendgrid/", "github.com/shopspring/", "github.com/sirupsen/", "github.com/slack-go/",
    "github.com/sony/", "github.com/spf13/", "github.com/streadway/", "github.com/stretchr/", "github.com/stripe/", "github.com/swaggo/",
    "github.com/tidwall/", "github.com/twilio/", "github.com/twmb/", "github.com/uptrace/", "github.com/urfave/", "github.com/valyala/",
    "github.com/vektah/", "github.com/volatiletech/", "github.com/xdg-go/", "github.com/xeipuu/", "go.elastic.co/", "go.etcd.io/", "go.mongodb.org/",
    "go.opencensus.io/", "go.opentelemetry.io/", "go.temporal.io/", "go.uber.org/", "gocloud.dev/", "golang.org/", "google.golang.org/", "gopkg.in/",
    "gorm.io/", "gotest.tools/", "k8s.io/", "modernc.org/", "nhooyr.io/", "rsc.io/", "sigs.k8s.io/", "xorm.io/",
];

#[rustfmt::skip]
pub(super) const GO_STANDARD: &[&str] = &[
    "archive", "bufio", "bytes", "compress", "container", "context", "crypto", "database", "debug", "embed", "encoding", "errors", "expvar", "fmt",
    "go", "hash", "html", "image", "internal", "io", "iter", "log", "maps", "math", "mime", "net", "os", "path", "plugin", "reflect", "regexp",
    "runtime", "slices", "sort", "strconv", "strings", "sync", "syscall", "testing", "text", "time", "unicode", "unique", "unsafe", "vendor",
];

pub(super) fn go(frame: Frame<'_>) -> Origin {
    let (function, place) = (frame.function, frame.place);
    let package = function.rfind('/').map_or(function, |at| &function[at + 1..]);
    let first = function.split(['/', '.']).next().unwrap_or(function);
    if function.starts_with("panic(") || function == "panic" {
        return Origin::Runtime;
    }
    const HOMES: Parts = Parts::of(&[
        "/usr/local/go/src/",
        "/usr/lib/go",
        "/go/go1.",
        "/opt/go/src/",
        "/hostedtoolcache/go/",
        "/libexec/src/",
        "/sdk/go1",
    ]);
    if search::has_any(place, HOMES) || search::has(place, "/toolchain@v") {
        return Origin::Runtime;
    }
    // Only paths of the standard library have no dot in their first part, but so have modules named by hand.
    if GO_STANDARD.binary_search(&first).is_ok()
        && package.contains('.')
        && !search::has(place, "/app/")
        && first != "internal"
    {
        return Origin::Runtime;
    }
    if search::has_any(place, const { Parts::of(&["/pkg/mod/", "/vendor/"]) })
        || place.starts_with("vendor/")
        || is_in(GO_LIBRARIES, function)
    {
        return Origin::Library;
    }
    Origin::InApp
}

#[rustfmt::skip]
pub(super) const DOTNET_LIBRARIES: &[&str] = &[
    "Abp", "Akka", "Algolia", "Amazon", "AngleSharp", "Apache", "Ardalis", "Asp.Versioning", "Aspose", "AutoMapper", "Autofac", "Azure",
    "BenchmarkDotNet", "Bogus", "BouncyCastle", "Braintree", "CAP", "Cassandra", "Castle", "ClickHouse", "ClosedXML", "CloudNative", "Confluent",
    "Consul", "Couchbase", "CsvHelper", "Dapper", "Dapr", "Datadog", "Devart", "DnsClient", "DotNetCore.CAP", "DotNetty", "EFCore", "EPPlus",
    "EasyCaching", "EasyNetQ", "Elastic", "Elasticsearch", "Enyim", "EventStore", "FastEndpoints", "FirebirdSql", "FluentAssertions", "FluentEmail",
    "FluentFTP", "FluentMigrator", "FluentScheduler", "FluentValidation", "Flurl", "Foundatio", "Google", "GraphQL", "GreenPipes", "Grpc",
    "Handlebars", "Hangfire", "HealthChecks", "HotChocolate", "IdentityModel", "IdentityServer4", "InfluxDB", "Jaeger", "JasperFx", "Jint",
    "JustSaying", "KafkaFlow", "KubernetesClient", "Lamar", "LaunchDarkly", "LazyCache", "LinqToDB", "LiteDB", "MQTTnet", "MailChimp", "MailKit",
    "Mapster", "Marten", "MassTransit", "Medallion", "MediatR", "MessagePack", "Microsoft", "MimeKit", "Minio", "MongoDB", "Moq", "MySql",
    "MySqlConnector", "NATS", "NHibernate", "NLog", "NPOI", "NServiceBus", "NSubstitute", "Neo4j", "NetMQ", "NetTopologySuite", "NewRelic",
    "Newtonsoft", "Nito", "NodaTime", "Npgsql", "NuGet", "Ocelot", "OneOf", "OpenIddict", "OpenSearch", "OpenTelemetry", "OpenTracing", "Oracle",
    "Orleans", "PayPal", "Pipelines", "Polly", "PostSharp", "Prometheus", "ProtoBuf", "Quartz", "RabbitMQ", "Raven", "RavenDB", "Rebus", "Refit",
    "Renci", "RestEase", "RestSharp", "SQLite", "SQLitePCL", "Scrutor", "SendGrid", "Sentry", "Serilog", "ServiceStack", "Shouldly", "Silverback",
    "SixLabors", "SlimMessageBus", "Sodium", "Spectre", "SqlSugar", "StackExchange", "Steeltoe", "Stripe", "SuperSocket", "Swashbuckle", "Telegram",
    "Temporalio", "Thrift", "TinyCsvParser", "Topshelf", "Twilio", "Umbraco", "Unity", "Volo", "WireMock", "Wolverine", "Xunit", "YamlDotNet",
    "Z.EntityFramework", "ZiggyCreatures", "ZstdSharp", "log4net", "protobuf", "xunit",
];

pub(super) fn dotnet(function: &str) -> Origin {
    if any_start(
        function,
        &[
            "System.",
            "lambda_method",
            "(wrapper",
            "Interop.",
            "Internal.",
            "Windows.",
            "Mono.",
            "dynamicClass",
        ],
    ) {
        return Origin::Runtime;
    }
    if is_in(DOTNET_LIBRARIES, function) { Origin::Library } else { Origin::InApp }
}

#[rustfmt::skip]
pub(super) const RUST_LIBRARIES: &[&str] = &[
    "actix", "actix_http", "actix_rt", "actix_server", "actix_service", "actix_web", "amqprs", "anyhow", "apalis", "apalis_core", "arc_swap",
    "async_channel", "async_compression", "async_executor", "async_graphql", "async_io", "async_nats", "async_std", "async_stream", "async_stripe",
    "async_task", "async_trait", "aws_config", "aws_sdk_dynamodb", "aws_sdk_s3", "aws_sdk_sns", "aws_sdk_sqs", "aws_smithy_http",
    "aws_smithy_runtime", "aws_smithy_runtime_api", "axum", "axum_core", "axum_extra", "azure_core", "backoff", "backon", "backtrace", "bb8",
    "bincode", "bson", "bytes", "calamine", "celery", "chrono", "clap", "clickhouse", "color_eyre", "config", "crossbeam", "crossbeam_channel",
    "crossbeam_deque", "csv", "csv_core", "dashmap", "deadpool", "deadpool_postgres", "deadpool_redis", "diesel", "diesel_async", "ethers", "eyre",
    "fang", "fern", "flate2", "futures", "futures_channel", "futures_core", "futures_executor", "futures_util", "gloo", "google_cloud_pubsub",
    "governor", "graphile_worker", "h2", "handlebars", "hashbrown", "hickory_resolver", "http", "http_body", "http_body_util", "hyper",
    "hyper_rustls", "hyper_tls", "hyper_util", "image", "indexmap", "isahc", "itertools", "jsonschema", "jsonwebtoken", "k8s_openapi", "kafka",
    "kube", "kube_client", "lambda_http", "lambda_runtime", "lapin", "lazaret_worker", "lettre", "libsql", "log", "lopdf", "metrics", "miette", "minijinja",
    "mio", "mobc", "moka", "mongodb", "mysql", "mysql_async", "native_tls", "nom", "num_cpus", "object_store", "once_cell", "openssl", "opentelemetry",
    "opentelemetry_otlp", "opentelemetry_sdk", "ordered_float", "parking_lot", "parquet", "pin_project", "poem", "polars", "polars_core", "postgres",
    "printpdf", "prometheus", "prost", "pulsar", "quick_xml", "quinn", "r2d2", "rand", "rayon", "rayon_core", "rdkafka", "redis", "regex",
    "regex_automata", "reqwest", "reqwest_middleware", "reqwest_retry", "ring", "rmp_serde", "rocket", "rumqttc", "rusoto_core", "rusqlite",
    "rust_decimal", "rustls", "salvo", "scylla", "sea_orm", "sea_query", "secrecy", "sentry", "sentry_core", "serde", "serde_json",
    "serde_path_to_error", "serde_urlencoded", "serde_with", "serde_yaml", "simd_json", "sled", "smol", "snafu", "sqlite", "sqlx", "sqlx_core",
    "sqlx_mysql", "sqlx_postgres", "sqlx_sqlite", "stripe", "surf", "tantivy", "tarpc", "teloxide", "tempfile", "temporal_sdk", "tera", "thiserror",
    "threadpool", "tiberius", "tide", "time", "tokio", "tokio_cron_scheduler", "tokio_native_tls", "tokio_postgres", "tokio_rustls", "tokio_stream",
    "tokio_tungstenite", "tokio_util", "tonic", "tower", "tower_http", "tower_layer", "tower_service", "tracing", "tracing_core", "tracing_futures",
    "tracing_subscriber", "tungstenite", "typed_builder", "ureq", "url", "uuid", "validator", "warp", "wasmtime", "webpki", "winnow", "zip",
];

#[rustfmt::skip]
pub(super) const RUST_RUNTIME: &[&str] = &[
    "__libc_start", "__rust", "_start", "alloc", "clone", "core", "main", "proc_macro", "rust_begin_unwind", "start_thread", "std", "test",
];

pub(super) fn rust(frame: Frame<'_>) -> Origin {
    let function = frame.function.trim_start_matches(['<', '&', '*', '(']);
    let root = function.split("::").next().unwrap_or(function);
    if frame.place.starts_with("/rustc/")
        || search::has(frame.place, "/rustlib/")
        || RUST_RUNTIME.binary_search(&root).is_ok()
    {
        return Origin::Runtime;
    }
    if any_start(root, &["__", "_rust", "rust_", "clone", "panic_", "<unknown"])
        || function.starts_with("unknown>")
    {
        return Origin::Runtime;
    }
    if search::has_any(
        frame.place,
        const { Parts::of(&[".cargo/registry", ".cargo/git", "/vendor/", "/cargo/registry", "/cargo/git/"]) },
    ) || RUST_LIBRARIES.binary_search(&root).is_ok()
    {
        return Origin::Library;
    }
    Origin::InApp
}

#[rustfmt::skip]
pub(super) const ELIXIR_LIBRARIES: &[&str] = &[
    "absinthe", "absinthe_plug", "amqp", "amqp_client", "appsignal", "ash", "ash_postgres", "avrora", "aws", "bamboo", "bandit", "benchee",
    "bolt_sips", "broadway", "broadway_kafka", "broadway_rabbitmq", "broadway_sqs", "brod", "cachex", "castore", "cloak", "cloak_ecto", "commanded",
    "con_cache", "corsica", "cowboy", "cowboy_telemetry", "cowlib", "crc32cer", "credo", "csv", "dataloader", "db_connection", "decimal", "ecto",
    "ecto_sql", "elastix", "elixir_xml_to_map", "erlport", "ets", "eventstore", "ex_aws", "ex_aws_s3", "ex_aws_sqs", "ex_json_schema", "ex_machina",
    "ex_money", "ex_rated", "ex_twilio", "exq", "faktory_worker", "finch", "floki", "flow", "fuse", "gen_rmq", "gen_stage", "gettext", "gnat", "goth",
    "grpc", "guardian", "gun", "hackney", "hammer", "honeybadger", "horde", "hpax", "httpoison", "idna", "jason", "joken", "jose", "kafka_ex",
    "kafka_protocol", "libcluster", "logger_json", "mime", "mint", "mint_web_socket", "mongodb_driver", "mox", "myxql", "nebulex", "new_relic_agent",
    "nimble_csv", "nimble_options", "nimble_parsec", "nimble_pool", "norm", "nx", "oban", "oban_pro", "oban_web", "open_api_spex", "opentelemetry",
    "opentelemetry_api", "opentelemetry_ecto", "opentelemetry_oban", "opentelemetry_phoenix", "phoenix", "phoenix_ecto", "phoenix_html",
    "phoenix_live_view", "phoenix_pubsub", "plug", "plug_cowboy", "plug_crypto", "poison", "poolboy", "postgrex", "prom_ex", "protobuf", "quantum",
    "rabbit_common", "ranch", "recon", "redix", "req", "retry", "rihanna", "saxy", "sentry", "snappyer", "spandex", "ssl_verify_fun",
    "stripity_stripe", "supervisor_bridge", "sweet_xml", "swoosh", "tds", "telemetry", "telemetry_metrics", "telemetry_poller", "temporary_env",
    "tesla", "thousand_island", "timex", "tirexs", "triplex", "tzdata", "ueberauth", "unplug", "verk", "vex", "waffle", "wallaby", "websock_adapter",
    "xandra", "yamerl", "yaml_elixir",
];

#[rustfmt::skip]
pub(super) const ELIXIR_RUNTIME: &[&str] = &[
    "asn1", "compiler", "crypto", "eex", "elixir", "erts", "ex_unit", "iex", "inets", "kernel", "logger", "mix", "mnesia", "public_key",
    "runtime_tools", "sasl", "ssh", "ssl", "stdlib",
];

pub(super) fn elixir(frame: Frame<'_>) -> Origin {
    if ELIXIR_RUNTIME.binary_search(&frame.package).is_ok() {
        return Origin::Runtime;
    }
    if frame.package.is_empty() && (frame.place.ends_with(".erl") || frame.function.starts_with(':')) {
        return Origin::Runtime;
    }
    if ELIXIR_LIBRARIES.binary_search(&frame.package).is_ok()
        || frame.place.starts_with("deps/")
        || search::has(frame.place, "/deps/")
    {
        return Origin::Library;
    }
    Origin::InApp
}
