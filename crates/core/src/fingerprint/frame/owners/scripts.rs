//! Frames of Python, Node, Ruby and PHP, which print paths: package managers install into known folders.

use super::{any_start, is_in};
use crate::fingerprint::frame::{Frame, Origin};
use crate::fingerprint::search::{self, Parts};

pub(super) fn python(frame: Frame<'_>) -> Origin {
    // The enclosing function follows; newer versions leave these out.
    if frame.function.starts_with('<') && frame.function != "<module>" {
        return Origin::Runtime;
    }
    let place = frame.place;
    if search::has_any(
        place,
        const {
            Parts::of(&[
                "site-packages",
                "dist-packages",
                ".egg/",
                "/poetry/virtualenvs/",
                "/pypoetry/",
                "/opt/python/",
            ])
        },
    ) {
        return Origin::Library;
    }
    if place.starts_with('<') || is_python_home(place) || place.starts_with("/var/runtime/") {
        return Origin::Runtime;
    }
    // Functions in a cloud lie beside the packages that were uploaded with them.
    let uploaded = ["/var/task/", "/workspace/", "/home/site/wwwroot/.python_packages/"];
    let inside = uploaded.iter().find_map(|folder| place.strip_prefix(folder)).unwrap_or(place);
    let module = inside.split(['/', '\\']).next().unwrap_or(inside);
    if module.len() < inside.len() && PYTHON_LIBRARIES.binary_search(&module).is_ok() {
        return Origin::Library;
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
        || under("/lib/pypy")
        || under("/Python.framework")
        || search::has(place, "\\Lib\\") && search::has(place, "Python")
}

#[rustfmt::skip]
pub(super) const PYTHON_LIBRARIES: &[&str] = &[
    "aio_pika", "aiobotocore", "aiohttp", "aiokafka", "aiormq", "alembic", "amqp", "anyio", "arq", "asgiref", "asyncpg", "attr", "azure", "backoff",
    "billiard", "boto3", "botocore", "celery", "click", "confluent_kafka", "cryptography", "ddtrace", "django", "dramatiq", "elasticsearch",
    "fastapi", "faust", "flask", "gevent", "google", "grpc", "gunicorn", "h11", "httpcore", "httpx", "huey", "jinja2", "jose", "jsonschema", "jwt",
    "kafka", "kombu", "kubernetes", "lxml", "mangum", "marshmallow", "motor", "nats", "newrelic", "numpy", "opentelemetry", "pandas", "peewee",
    "pika", "psycopg", "psycopg2", "pydantic", "pydantic_core", "pymongo", "pymysql", "redis", "requests", "rq", "s3transfer", "sentry_sdk",
    "slack_sdk", "sqlalchemy", "starlette", "stripe", "tenacity", "tornado", "tortoise", "twilio", "urllib3", "uvicorn", "uvloop", "vine", "werkzeug",
    "wrapt", "yaml", "zeep",
];

pub(super) fn node(frame: Frame<'_>) -> Origin {
    let place = frame.place;
    if place.is_empty()
        || place == "native"
        || any_start(place, &["node:", "internal/", "bun:", "ext:", "deno:", "<"])
    {
        return Origin::Runtime;
    }
    if place.starts_with("/var/runtime/")
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
    const FOLDERS: Parts = Parts::of(&[
        "node_modules",
        "/.yarn/",
        "/.pnpm/",
        "/webpack/bootstrap",
        "/deno.land/",
        "webpack/runtime",
        "/esm.sh/",
        "/jsr.io/",
    ]);
    if search::has_any(place, FOLDERS) || place.starts_with("npm:") || place.starts_with("jsr:") {
        return Origin::Library;
    }
    Origin::InApp
}

pub(super) fn ruby(place: &str) -> Origin {
    if search::has_any(
        place,
        const { Parts::of(&["/gems/", "/bundler/", "/bundle/ruby/", "vendor/bundle/"]) },
    ) || place.starts_with("gems/")
    {
        // The gems that come with the language lie beside the others.
        return Origin::Library;
    }
    if search::has_any(
        place,
        const { Parts::of(&["/lib/ruby/", "/rubygems", "/.rbenv/", "/.rvm/", "/.asdf/"]) },
    ) || place.starts_with('<')
    {
        return Origin::Runtime;
    }
    if place.starts_with("bin/") || search::has(place, "/bin/") || place.starts_with("uri:classloader") {
        return Origin::Runtime;
    }
    Origin::InApp
}

pub(super) fn php(frame: Frame<'_>) -> Origin {
    let function = frame.function.trim_start_matches('\\');
    if function.starts_with("{main}") {
        return Origin::Runtime;
    }
    let class = function.split(['-', ':', '(']).next().unwrap_or(function);
    // A function without a class that is written like the language's own: `json_decode`, `array_map`.
    let own = class.len() == function.find('(').unwrap_or(function.len())
        && !class.contains('\\')
        && !class.starts_with('{');
    if PHP_CLASSES.binary_search(&class).is_ok()
        || own
            && class.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            && any_start(class, PHP_FUNCTIONS)
    {
        return Origin::Runtime;
    }
    if search::has_any(frame.place, const { Parts::of(&["/vendor/", "\\vendor\\"]) })
        || frame.place.starts_with("vendor/")
        || is_in(PHP_LIBRARIES, function)
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

#[rustfmt::skip]
pub(super) const PHP_LIBRARIES: &[&str] = &[
    "Algolia", "ApiPlatform", "Aws", "BaconQrCode", "Barryvdh", "Behat", "Brick", "Bunny", "Cake", "Carbon", "CodeIgniter", "Codeception", "Composer",
    "DI", "Dingo", "Doctrine", "Dompdf", "EasyCorp", "Ecotone", "EightPoints", "Elastic", "Elastica", "Elasticsearch", "Enlightn", "Enqueue", "FOS",
    "Facebook", "Fidry", "Filament", "Firebase", "Google", "GraphQL", "GuzzleHttp", "HWI", "Hyperf", "Illuminate", "Intervention", "JMS",
    "JsonSchema", "Knp", "Laminas", "Laravel", "League", "Lexik", "Liip", "Livewire", "Maatwebsite", "MailerLite", "Mailgun", "Mockery", "MongoDB",
    "Monolog", "Mpdf", "Nelmio", "Nette", "NunoMaduro", "Nyholm", "OAuth2", "OpenSearch", "OpenTelemetry", "Opis", "Oro\\Bundle", "Overtrue",
    "PHPMailer", "PHPUnit", "Pest", "Phalcon", "PhpAmqpLib", "PhpCsFixer", "PhpOffice", "Pimcore", "Predis", "Prometheus", "Propel", "Psr", "Psy",
    "Ramsey", "RdKafka", "React", "RectorPrefix", "Sabre", "SendGrid", "Sensio", "Sentry", "Shopify", "Shopware\\Core", "Slim", "Sonata", "Spatie",
    "Spiral", "Stancl", "Stripe", "SwiftMailer", "Swoole", "Sylius", "Symfony", "TYPO3", "Tideways", "Twig", "Twilio", "Tymon", "Vich", "Webmozart",
    "Wikimedia", "Workerman", "Yiisoft", "Zend", "Zenstruck", "yii",
];

#[rustfmt::skip]
pub(super) const PHP_CLASSES: &[&str] = &[
    "AMQPConnection", "AMQPExchange", "AMQPQueue", "ArrayIterator", "Closure", "Collator", "CurlHandle", "DOMDocument", "DOMElement", "DateInterval",
    "DatePeriod", "DateTime", "DateTimeImmutable", "DateTimeZone", "Fiber", "Generator", "IntlDateFormatter", "Memcached", "MongoDB",
    "NumberFormatter", "PDO", "PDOStatement", "Redis", "RedisCluster", "ReflectionClass", "ReflectionFunction", "ReflectionMethod",
    "ReflectionNamedType", "ReflectionProperty", "SimpleXMLElement", "SoapClient", "SplFileObject", "XMLReader", "XMLWriter", "ZipArchive", "mysqli",
    "mysqli_stmt",
];

/// How the names of PHP's own functions begin.
#[rustfmt::skip]
const PHP_FUNCTIONS: &[&str] = &[
    "apcu_", "array_", "base64_", "bc", "call_user_func", "copy", "count", "ctype_", "curl_", "date_", "exif_", "explode", "fgetcsv", "file_",
    "filter_", "fopen", "forward_static", "fputcsv", "fread", "fsockopen", "func_get_args", "fwrite", "gz", "hash_", "hex2bin", "iconv", "image",
    "imap_", "implode", "in_array", "intdiv", "iterator_", "json_", "ldap_", "libxml_", "mail", "max", "mb_", "min", "mkdir", "mysqli_",
    "number_format", "openssl_", "pg_", "preg_", "proc_open", "random_", "range", "rename", "sem_", "shell_exec", "simplexml_", "socket_", "sodium_",
    "spl_", "sprintf", "str_", "stream_", "strlen", "trim", "uasort", "uksort", "unlink", "unserialize", "usort", "xml_",
];
