//! Whose code a frame is, by what is known of each language's runtime and of its common libraries.
//!
//! Paths are the better evidence wherever a language prints them: package managers install into known folders.

use super::{Frame, Origin};
use crate::fingerprint::language::Language;

pub(super) fn origin(language: Language, frame: Frame<'_>) -> Origin {
    match language {
        Language::Java => java(frame.function),
        Language::Python => python(frame),
        Language::Go => go(frame),
        Language::Node => node(frame),
        Language::DotNet => dotnet(frame.function),
        Language::Rust => rust(frame),
        Language::Ruby => ruby(frame.place),
        Language::Php => php(frame),
        Language::Elixir => elixir(frame),
    }
}

fn any_start(text: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| text.starts_with(prefix))
}

fn any_part(text: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| text.contains(part))
}

#[rustfmt::skip]
const JAVA_RUNTIME: &[&str] = &[
    "java.", "javax.", "jdk.", "sun.", "com.sun.", "kotlin.", "kotlinx.", "scala.", "groovy.", "jakarta.", "clojure.",
    "org.codehaus.groovy.", "$Proxy", "android.", "dalvik.", "libcore.",
];

#[rustfmt::skip]
const JAVA_LIBRARIES: &[&str] = &[
    "org.springframework.", "com.fasterxml.", "org.hibernate.", "org.apache.", "io.netty.", "reactor.", "okhttp3.",
    "okio.", "retrofit2.", "feign.", "com.zaxxer.", "org.postgresql.", "com.mysql.", "oracle.", "com.google.", "io.grpc.",
    "com.rabbitmq.", "software.amazon.", "com.amazonaws.", "org.jboss.", "io.quarkus.", "io.micronaut.", "io.vertx.",
    "rx.", "io.reactivex.", "org.eclipse.", "org.junit.", "ch.qos.", "org.slf4j.", "net.bytebuddy.", "org.aspectj.",
    "redis.clients.", "io.lettuce.", "com.stripe.", "com.azure.", "com.microsoft.", "io.smallrye.", "com.mongodb.",
    "org.mongodb.", "org.elasticsearch.", "co.elastic.", "org.axonframework.", "akka.", "play.", "io.ktor.", "org.jetbrains.",
    "org.mockito.", "io.opentelemetry.", "io.micrometer.", "io.github.resilience4j.", "dev.failsafe.", "net.jodah.",
    "com.github.", "org.quartz.", "org.jooq.", "liquibase.", "org.flywaydb.", "io.confluent.", "io.nats.", "org.redisson.",
    "org.xml.", "org.w3c.", "net.sf.", "com.netflix.", "graphql.", "io.sentry.", "com.h2database.", "org.h2.", "org.mariadb.",
    "org.xerial.", "org.sqlite.", "io.undertow.", "org.glassfish.", "org.jdbi.", "com.hazelcast.", "org.zalando.",
    "org.camunda.", "io.camunda.", "org.bouncycastle.", "io.jsonwebtoken.", "com.auth0.", "com.nimbusds.", "com.sap.",
    "com.ibm.", "com.datadog", "datadog.", "org.joda.", "org.yaml.", "org.keycloak.", "org.jobrunr.", "org.neo4j.",
    "com.datastax.", "io.fabric8.", "io.kubernetes.", "net.spy.", "zipkin2.", "brave.", "com.squareup.", "arrow.",
    "cats.", "zio.", "org.http4s.", "org.thymeleaf.", "com.microsoft.sqlserver.", "net.javacrumbs.", "com.braintreegateway.",
];

fn java(function: &str) -> Origin {
    // Proxies, reflection and the compiler's bridges come and go with the version of a container.
    let made_up = || any_part(function, &["$$FastClass", "$$Lambda", "$Proxy", ".access$"]);
    if any_start(function, JAVA_RUNTIME) || function.contains('$') && made_up() {
        return Origin::Runtime;
    }
    if any_start(function, JAVA_LIBRARIES) { Origin::Library } else { Origin::InApp }
}

fn python(frame: Frame<'_>) -> Origin {
    // The enclosing function follows; newer versions leave these out.
    if frame.function.starts_with('<') && frame.function != "<module>" {
        return Origin::Runtime;
    }
    let place = frame.place;
    if any_part(place, &["site-packages", "dist-packages", ".egg/", "/poetry/virtualenvs/"]) {
        return Origin::Library;
    }
    if place.starts_with('<') || is_python_home(place) {
        return Origin::Runtime;
    }
    Origin::InApp
}

/// `/usr/lib/python3.12/json/decoder.py`, `C:\Python312\Lib\json\decoder.py`.
fn is_python_home(place: &str) -> bool {
    let under = |folder: &str| {
        place.match_indices(folder).any(|(at, _)| {
            place[at + folder.len()..].starts_with(|c: char| c.is_ascii_digit() || c == '/' || c == '\\')
        })
    };
    under("/lib/python")
        || under("/lib64/python")
        || under("\\Lib\\")
        || under("/lib/pypy")
        || under("/Python.framework")
        || place.contains("\\Lib\\") && place.contains("Python")
}

#[rustfmt::skip]
const GO_LIBRARIES: &[&str] = &[
    "google.golang.org/", "golang.org/", "gorm.io/", "go.uber.org/", "gopkg.in/", "go.opentelemetry.io/", "k8s.io/",
    "go.mongodb.org/", "cloud.google.com/", "entgo.io/", "go.temporal.io/", "github.com/jackc/", "github.com/lib/pq",
    "github.com/go-sql-driver/", "github.com/gin-gonic/", "github.com/labstack/", "github.com/gorilla/", "github.com/go-chi/",
    "github.com/gofiber/", "github.com/redis/", "github.com/go-redis/", "github.com/nats-io/", "github.com/segmentio/",
    "github.com/confluentinc/", "github.com/IBM/", "github.com/Shopify/", "github.com/rabbitmq/", "github.com/streadway/",
    "github.com/aws/", "github.com/Azure/", "github.com/stripe/", "github.com/pkg/errors", "github.com/hashicorp/",
    "github.com/spf13/", "github.com/sirupsen/", "github.com/cenkalti/", "github.com/avast/", "github.com/jmoiron/",
    "github.com/golang/", "github.com/google/", "github.com/grpc-ecosystem/", "github.com/hibiken/", "github.com/riverqueue/",
    "github.com/ThreeDotsLabs/", "github.com/go-playground/", "github.com/uptrace/", "github.com/valyala/", "github.com/twmb/",
    "github.com/getsentry/", "github.com/mattn/", "github.com/prometheus/", "github.com/stretchr/",
];

fn go(frame: Frame<'_>) -> Origin {
    let (function, place) = (frame.function, frame.place);
    let package = function.rfind('/').map_or(function, |at| &function[at + 1..]);
    let first = function.split(['/', '.']).next().unwrap_or(function);
    if function.starts_with("panic(") || function == "panic" {
        return Origin::Runtime;
    }
    if any_part(
        place,
        &[
            "/usr/local/go/src/",
            "/usr/lib/go",
            "/go/go1.",
            "/opt/go/src/",
            "/hostedtoolcache/go/",
            "/libexec/src/",
        ],
    ) {
        return Origin::Runtime;
    }
    // Only paths of the standard library have no dot in their first part, but so have modules named by hand.
    let standard = [
        "runtime", "net", "encoding", "fmt", "os", "io", "sync", "reflect", "database", "context", "time",
        "bufio", "bytes", "strings", "strconv", "errors", "log", "testing", "syscall", "crypto", "math",
        "sort", "slices", "maps", "regexp", "compress", "archive", "html", "mime", "text", "unicode", "path",
        "debug",
    ];
    if standard.contains(&first) && package.contains('.') && !place.contains("/app/") {
        return Origin::Runtime;
    }
    if any_part(place, &["/pkg/mod/", "/vendor/"])
        || place.starts_with("vendor/")
        || any_start(function, GO_LIBRARIES)
    {
        return Origin::Library;
    }
    Origin::InApp
}

fn node(frame: Frame<'_>) -> Origin {
    let place = frame.place;
    if place.is_empty() || place.starts_with("node:") || place.starts_with("internal/") || place == "native" {
        return Origin::Runtime;
    }
    if place.starts_with('<')
        || matches!(frame.function, "new Promise" | "Promise.all" | "process.processTicksAndRejections")
    {
        return Origin::Runtime;
    }
    // Before version 16 the runtime's own files had neither folder nor scheme.
    if !place.contains(['/', '\\'])
        && place.ends_with(".js")
        && place.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b == b'.')
    {
        return Origin::Runtime;
    }
    if any_part(place, &["node_modules", "/.yarn/", "/.pnpm/", "/webpack/bootstrap", "/deno.land/"]) {
        return Origin::Library;
    }
    Origin::InApp
}

#[rustfmt::skip]
const DOTNET_LIBRARIES: &[&str] = &[
    "Microsoft.", "Newtonsoft.", "Npgsql.", "Dapper.", "MassTransit.", "RabbitMQ.", "StackExchange.", "Polly.", "Grpc.",
    "Azure.", "Amazon.", "AutoMapper.", "MediatR.", "FluentValidation.", "Serilog.", "NServiceBus.", "Hangfire.", "Quartz.",
    "Confluent.", "MySql.", "MySqlConnector.", "MongoDB.", "Refit.", "RestSharp.", "Castle.", "Autofac.", "Rebus.", "NATS.",
    "Swashbuckle.", "Elastic.", "Stripe.", "IdentityModel.", "OpenTelemetry.", "Sentry.", "Google.", "Marten.", "Wolverine.",
    "Orleans.", "Akka.", "Flurl.", "ServiceStack.", "NLog.", "log4net.", "Oracle.", "CsvHelper.", "Moq.", "Xunit.",
    "EasyNetQ.", "Steeltoe.", "Dapr.", "Scrutor.", "SQLitePCL.", "Ardalis.", "HotChocolate.",
];

fn dotnet(function: &str) -> Origin {
    if any_start(function, &["System.", "lambda_method", "(wrapper", "Interop.", "Internal.", "Windows."]) {
        return Origin::Runtime;
    }
    if any_start(function, DOTNET_LIBRARIES) { Origin::Library } else { Origin::InApp }
}

#[rustfmt::skip]
const RUST_LIBRARIES: &[&str] = &[
    "tokio", "futures", "futures_util", "futures_core", "hyper", "hyper_util", "reqwest", "sqlx", "sqlx_core", "axum", "tower",
    "tower_http", "tonic", "serde", "serde_json", "anyhow", "eyre", "color_eyre", "thiserror", "tracing", "actix_web",
    "actix_rt", "actix_server", "rocket", "warp", "diesel", "sea_orm", "rdkafka", "lapin", "async_nats", "redis", "rayon",
    "rayon_core", "backtrace", "async_trait", "h2", "http", "rustls", "tokio_rustls", "tokio_postgres", "deadpool", "bb8",
    "r2d2", "chrono", "uuid", "regex", "log", "bytes", "mio", "parking_lot", "crossbeam", "rusqlite", "prost", "quick_xml",
    "tracing_futures", "tracing_core", "async_std", "smol", "moka", "backoff", "async_graphql", "aws_sdk_s3", "fang", "apalis",
];

fn rust(frame: Frame<'_>) -> Origin {
    let function = frame.function.trim_start_matches(['<', '&', '*', '(']);
    let root = function.split("::").next().unwrap_or(function);
    let runtime = [
        "core",
        "std",
        "alloc",
        "rust_begin_unwind",
        "__rust",
        "_start",
        "main",
        "__libc_start",
        "start_thread",
        "clone",
    ];
    if frame.place.starts_with("/rustc/") || runtime.contains(&root) && !root.is_empty() {
        return Origin::Runtime;
    }
    if any_start(root, &["__", "_rust", "rust_", "clone", "panic_", "<unknown"])
        || function.starts_with("unknown>")
    {
        return Origin::Runtime;
    }
    if any_part(frame.place, &[".cargo/registry", ".cargo/git", "/vendor/", "/cargo/registry"])
        || RUST_LIBRARIES.contains(&root)
    {
        return Origin::Library;
    }
    Origin::InApp
}

fn ruby(place: &str) -> Origin {
    if any_part(place, &["/gems/", "/bundler/", "/bundle/ruby/"]) || place.starts_with("gems/") {
        // The gems that come with the language lie beside the others.
        return Origin::Library;
    }
    if any_part(place, &["/lib/ruby/", "/rubygems", "/.rbenv/", "/.rvm/"]) || place.starts_with('<') {
        return Origin::Runtime;
    }
    if place.starts_with("/usr/local/bin/")
        || place.starts_with("/usr/bin/")
        || place.starts_with("bin/")
        || place.contains("/bin/")
    {
        return Origin::Runtime;
    }
    Origin::InApp
}

#[rustfmt::skip]
const PHP_LIBRARIES: &[&str] = &[
    "Illuminate\\", "Symfony\\", "GuzzleHttp\\", "Doctrine\\", "Laravel\\", "Monolog\\", "Psr\\", "Composer\\", "League\\",
    "PhpAmqpLib\\", "Predis\\", "Aws\\", "Stripe\\", "Twig\\", "Carbon\\", "Ramsey\\", "Spatie\\", "Livewire\\", "Yiisoft\\",
    "yii\\", "Zend\\", "Laminas\\", "Cake\\", "Google\\", "Enqueue\\", "Bunny\\", "Slim\\", "React\\", "Swoole\\", "Enlightn\\",
];

fn php(frame: Frame<'_>) -> Origin {
    let function = frame.function.trim_start_matches('\\');
    if function.starts_with("{main}") {
        return Origin::Runtime;
    }
    let class = function.split(['-', ':', '(']).next().unwrap_or(function);
    let builtin = [
        "PDO",
        "PDOStatement",
        "mysqli",
        "mysqli_stmt",
        "Redis",
        "SoapClient",
        "DateTime",
        "DateTimeImmutable",
        "DateTimeZone",
        "SimpleXMLElement",
        "ReflectionClass",
        "ReflectionMethod",
        "ReflectionFunction",
        "Closure",
        "Generator",
        "ArrayIterator",
        "SplFileObject",
        "NumberFormatter",
        "AMQPConnection",
        "AMQPQueue",
        "MongoDB",
    ];
    // A function without a class that is written like the language's own: `json_decode`, `array_map`.
    let own = class.len() == function.find('(').unwrap_or(function.len())
        && !class.contains('\\')
        && !class.starts_with('{');
    if builtin.contains(&class)
        || own
            && !frame.place.is_empty()
            && class.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            && is_internal(class)
    {
        return Origin::Runtime;
    }
    if any_part(frame.place, &["/vendor/", "\\vendor\\"])
        || frame.place.starts_with("vendor/")
        || any_start(function, PHP_LIBRARIES)
    {
        return Origin::Library;
    }
    if frame.place.ends_with("artisan")
        || frame.place.ends_with("/bin/console")
        || any_start(function, &["require", "include"])
    {
        return Origin::Runtime;
    }
    Origin::InApp
}

/// Whether PHP itself has a function of this name, judged by the families of its names.
fn is_internal(function: &str) -> bool {
    any_start(
        function,
        &[
            "array_",
            "json_",
            "str_",
            "curl_",
            "mb_",
            "preg_",
            "file_",
            "call_user_func",
            "unserialize",
            "simplexml_",
            "pg_",
            "mysqli_",
            "date_",
            "iterator_",
            "usort",
            "uasort",
            "uksort",
            "intdiv",
            "fopen",
            "fread",
            "fwrite",
            "implode",
            "explode",
            "trim",
            "strlen",
            "sprintf",
            "base64_",
            "hex2bin",
            "bc",
            "gz",
            "hash_",
            "openssl_",
            "socket_",
            "stream_",
            "spl_",
            "iconv",
            "count",
            "in_array",
            "unlink",
            "mkdir",
            "copy",
            "rename",
            "max",
            "min",
            "range",
            "fsockopen",
            "random_",
        ],
    )
}

#[rustfmt::skip]
const ELIXIR_LIBRARIES: &[&str] = &[
    "ecto", "ecto_sql", "db_connection", "postgrex", "myxql", "phoenix", "phoenix_live_view", "phoenix_pubsub", "plug",
    "plug_cowboy", "cowboy", "cowlib", "ranch", "bandit", "thousand_island", "oban", "oban_pro", "broadway", "tesla", "finch",
    "mint", "jason", "poison", "req", "hackney", "httpoison", "gen_stage", "telemetry", "absinthe", "amqp", "amqp_client", "brod",
    "gnat", "redix", "swoosh", "bamboo", "nimble_pool", "nimble_options", "poolboy", "decimal", "timex", "commanded", "eventstore",
    "broadway_rabbitmq", "broadway_kafka", "broadway_sqs", "ex_aws", "stripity_stripe", "quantum", "flow", "cachex", "sentry",
    "opentelemetry", "ssl_verify_fun", "castore", "guardian", "ueberauth", "exq", "rihanna", "ash", "gun", "grpc", "xandra",
];

fn elixir(frame: Frame<'_>) -> Origin {
    if matches!(
        frame.package,
        "elixir"
            | "stdlib"
            | "kernel"
            | "erts"
            | "eex"
            | "logger"
            | "mix"
            | "ex_unit"
            | "iex"
            | "ssl"
            | "crypto"
            | "inets"
            | "compiler"
    ) {
        return Origin::Runtime;
    }
    if frame.package.is_empty() && (frame.place.ends_with(".erl") || frame.function.starts_with(':')) {
        return Origin::Runtime;
    }
    if ELIXIR_LIBRARIES.contains(&frame.package)
        || frame.place.starts_with("deps/")
        || frame.place.contains("/deps/")
    {
        return Origin::Library;
    }
    Origin::InApp
}
