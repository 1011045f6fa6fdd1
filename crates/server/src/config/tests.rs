//! Loading as an operator sees it: what is in effect, and what is said when something is wrong.

use std::fmt::Write as _;

use lazaret_core::attempt::LetterError;
use lazaret_core::class::StatusRange;
use lazaret_core::fingerprint::{RuleConditions, RuleEffect, SplitBy};
use lazaret_core::pattern::Pattern;
use proptest::prelude::*;

use super::*;

pub(super) fn load_text(text: &str) -> Result<Config, ConfigError> {
    load_all(text.as_bytes(), &[], Overrides::default())
}

pub(super) fn load_env(variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    load_all(b"", variables, Overrides::default())
}

fn load_all(file: &[u8], env: &[(&str, &str)], overrides: Overrides) -> Result<Config, ConfigError> {
    check_all(file, env, overrides).config
}

pub(super) fn check_text(text: &str) -> Checked {
    check_all(text.as_bytes(), &[], Overrides::default())
}

fn check_all(file: &[u8], env: &[(&str, &str)], overrides: Overrides) -> Checked {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lazaret.toml");
    std::fs::write(&path, file).unwrap();
    let env = env.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    let mut checked = check(Some(&path), env, overrides);
    let folder = format!("{}/", folder.path().display());
    let errors = checked.config.as_mut().err().into_iter().flat_map(|error| &mut error.problems);
    for problem in errors.chain(&mut checked.warnings) {
        problem.place = problem.place.replace(&folder, "");
    }
    checked
}

/// Each case and what is said about it.
fn told(cases: &[&str], load: impl Fn(&str) -> Result<Config, ConfigError>) -> String {
    let mut told = String::new();
    for case in cases {
        let answer = load(case).map_or_else(|error| error.to_string(), |_| "loads".to_owned());
        writeln!(told, "{}\n    {}", case.trim_end(), answer.replace('\n', "\n    ")).unwrap();
    }
    told
}

#[test]
fn nothing_set_is_the_default() {
    assert_eq!(load_text("").unwrap(), Config::default());
    let foreign =
        [("PATH", "/bin"), ("LAZARET_URL", "x"), ("LAZARET_TOKEN", "y"), ("LAZARET_TORTURE_SEED", "1")];
    assert_eq!(load_env(&foreign).unwrap(), Config::default());
}

#[test]
fn a_named_file_that_cannot_be_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().join("missing.toml"), folder.path().to_owned()] {
        let error = load(Some(&path), [], Overrides::default()).unwrap_err();
        assert!(error.to_string().starts_with(&format!("{}: cannot be read: ", path.display())), "{error}");
        assert_eq!(error.hint(), Some(FILE_HINT));
    }
}

#[test]
fn a_flag_beats_the_environment_beats_the_file_beats_the_default() {
    let file = b"listen = 'file:1'\ndata = 'file'\n[log]\nlevel = 'warn'\n";
    let env = [("LAZARET_LISTEN", "env:2"), ("LAZARET_DATA", "env")];
    let flag = Overrides { listen: Some("flag:3".into()), data: Some("flag".into()), store: None };
    let seen = |config: Config| (config.listen, config.data.display().to_string(), config.log.level);
    let told = |listen: &str, data: &str, level: &str| (listen.into(), data.into(), level.into());

    let none = Overrides::default;
    assert_eq!(seen(load_all(b"", &[], none()).unwrap()), told("127.0.0.1:7070", "./lazaret-data", "info"));
    assert_eq!(seen(load_all(file, &[], none()).unwrap()), told("file:1", "file", "warn"));
    assert_eq!(seen(load_all(file, &env, none()).unwrap()), told("env:2", "env", "warn"));
    assert_eq!(seen(load_all(file, &env, flag).unwrap()), told("flag:3", "flag", "warn"));
}

#[test]
fn the_environment_sets_keys_of_every_shape() {
    let file = b"[sources.billing]\nkind = 'report'\nqueue = 'file'\n[[class_rules]]\nclass = 'business'\ncode = 'x'\n";
    let env = [
        ("LAZARET_ALLOWED_HOSTS", "a.example.org, B.example.org:8443,"),
        ("LAZARET_LOG__FORMAT", "json"),
        ("LAZARET_LIMITS__BODY_BYTES_MAX", "33_554_432"),
        ("LAZARET_LIMITS__ENTRY_BYTES_MAX", "8MiB"),
        ("LAZARET_LIMITS__REQUEST_TIME_MAX", "5m"),
        ("LAZARET_LIMITS__CONNECTIONS_MAX", "7"),
        ("LAZARET_SOURCES__BILLING__AGGREGATE", "$.invoice"),
        ("LAZARET_SOURCES__ORDERS__KIND", "report"),
        ("LAZARET_CLASS_RULES", "[{class = 'transient', http_status = 503}]"),
        (
            "LAZARET_FINGERPRINT_RULES",
            "[{name = 'x', type = 'a.*', split_by = ['tenant', 'code', 'tenant']}]",
        ),
        ("LAZARET_FINGERPRINT__IN_APP", "com.acme., /srv/app/"),
        ("LAZARET_SEARCH__BODIES", "false"),
        ("LAZARET_EVENTS__KEEP", "50_000"),
    ];
    let config = load_all(file, &env, Overrides::default()).unwrap();
    insta::assert_snapshot!("environment", config.to_toml());
    let list = load_env(&[("LAZARET_ALLOWED_HOSTS", " ['a.example.org'] ")]).unwrap();
    assert_eq!(list.allowed_hosts, ["a.example.org"]);
    assert_eq!(load_env(&[("LAZARET_ALLOWED_HOSTS", "")]).unwrap().allowed_hosts, [""; 0]);
}

#[test]
fn unknown_keys_are_refused_at_every_level() {
    let cases = [
        "lisen = 'x'\n",
        "Listen = 'x'\n",
        "allowed-hosts = []\n",
        "level = 'debug'\n",
        "something = 1\n",
        "lisen.to = 1\n",
        "[logs]\nlevel = 'info'\n",
        "[log]\nlevle = 'info'\n",
        "[limits]\nbody_max = 1\nbody_byte_max = 1\n",
        "log = { formt = 'json' }\n",
        "[[class_rules]]\nclass = 'transient'\ncode = 'x'\n[[class_rules]]\nclas = 'business'\nmessage = 'y'\n",
        "class_rules = [{ class = 'transient', errortype = 'x' }]\n",
        "[sources.billing]\nkind = 'report'\nqueu = 'b'\n",
        "[source.billing]\nkind = 'report'\n",
    ];
    insta::assert_snapshot!("unknown_keys", told(&cases, load_text));
    assert_eq!(load_text("lisen = 1").unwrap_err().hint(), Some(schema::KEYS_HINT));
}

#[test]
fn unknown_variables_are_warned_about_by_name() {
    let cases = [
        "LAZARET_LISEN=x",
        "LAZARET_LOG_LEVEL=debug",
        "LAZARET_log__level=debug",
        "LAZARET_LOG=debug",
        "LAZARET_SOURCES=x",
        "LAZARET_SOURCES__BILLING=x",
        "LAZARET_SOURCES__BILLING__KNID=report",
        "LAZARET_SOURCES__JOBS__KIND=report",
        "LAZARET_SOURCES__A.B__KIND=report",
        "LAZARET_CLASS_RULES__0__CLASS=transient",
        "LAZARET_CLASS_RULES=transient",
        "LAZARET_CLASS_RULES=[{clas = 'transient'}]",
        "LAZARET_ALLOWED_HOSTS=['a', 3]",
        "LAZARET_ALLOWED_HOSTS=a,b c",
        "LAZARET_LIMITS__CONNECTIONS_MAX=many",
        "LAZARET_SEARCH__BODIES=yes",
        "LAZARET_FINGERPRINT_RULES=[{name = 'x', group = 'y'}]",
        "LAZARET_LISTEN=",
        "LAZARET_=x",
        "LAZARET_FOO=x",
        "LAZARET_TOKENS=lzr_secret",
    ];
    let mut answers = String::new();
    for case in cases {
        let checked = check_all(b"", &[case.split_once('=').unwrap()], Overrides::default());
        let errors = checked.config.err().map(|error| error.problems).unwrap_or_default();
        writeln!(answers, "{case}").unwrap();
        for problem in errors.iter().chain(&checked.warnings) {
            writeln!(answers, "    {}: {problem}", problem.severity.name()).unwrap();
        }
    }
    insta::assert_snapshot!("unknown_variables", answers);
}

#[test]
fn service_links_of_kubernetes_are_passed_over() {
    let links = [
        ("LAZARET_PORT", "tcp://10.96.0.12:7070"),
        ("LAZARET_SERVICE_HOST", "10.96.0.12"),
        ("LAZARET_SERVICE_PORT", "7070"),
        ("LAZARET_SERVICE_PORT_HTTP", "7070"),
        ("LAZARET_PORT_7070_TCP", "tcp://10.96.0.12:7070"),
        ("LAZARET_PORT_7070_TCP_ADDR", "10.96.0.12"),
        ("LAZARET_PORT_7070_TCP_PORT", "7070"),
        ("LAZARET_PORT_7070_TCP_PROTO", "tcp"),
        ("LAZARET_POSTGRES_SERVICE_HOST", "10.96.0.13"),
        ("LAZARET_POSTGRES_PORT", "tcp://10.96.0.13:5432"),
        ("LAZARET_POSTGRES_PORT_5432_UDP_PROTO", "udp"),
        ("LAZARET_LOG__LEVEL", "debug"),
    ];
    let checked = check_all(b"", &links, Overrides::default());
    assert_eq!(checked.warnings, []);
    assert_eq!(checked.config.unwrap().log.level, "debug");

    for (name, value, told) in [
        ("LAZARET_PORT", "8080", "LAZARET_PORT: unknown environment variable; did you mean LAZARET_LISTEN?"),
        ("LAZARET_PORT_HTTP_TCP", "x", "LAZARET_PORT_HTTP_TCP: unknown environment variable"),
    ] {
        let checked = check_all(b"", &[(name, value)], Overrides::default());
        assert!(checked.config.is_ok(), "{name} must not stop the start");
        let warnings: Vec<String> = checked.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(warnings, [told]);
    }
}

#[test]
fn bad_values_say_what_was_expected() {
    let cases = [
        "listen = 7070\n",
        "listen = 'localhost'\n",
        "data = ''\n",
        "data = \"a\\u0000b\"\n",
        "store = 'mysql://lazaret@db'\n",
        "store = 'postgres://lazaret@db:none'\n",
        "store = 'postgres://lazaret@db?sslmode=perhaps'\n",
        "store = { url = 'x' }\n",
        "allowed_hosts = 'lazaret.example.org'\n",
        "allowed_hosts = ['ok.example.org', 'https://x.example.org', true]\n",
        "log = 'debug'\n",
        "[log]\nlevel = 'loud'\nformat = 'xml'\n",
        "[limits]\nbody_bytes_max = 0\n",
        "[limits]\nbody_bytes_max = true\nentry_bytes_max = '4MB'\nndjson_bytes_max = '2GiB'\n",
        "[limits]\nbody_bytes_max = 99999999999999999999\n",
        "[limits]\nbody_bytes_max = '1MiB'\n",
        "[limits]\nentry_bytes_max = '17MiB'\n",
        "[limits]\nrequest_time_max = 120\nbody_pause_max = 'soon'\nconnections_max = '10'\n",
        "[limits]\nrequest_time_max = '2h'\nbody_pause_max = '0s'\nconnections_max = -1\n",
        "[[class_rules]]\ncode = 'x'\n",
        "[[class_rules]]\nclass = 'transient'\n",
        "[[class_rules]]\nclass = 'temporary'\ncode = ''\nhttp_status = '6xx'\n",
        "[[class_rules]]\nclass = 'transient'\nhttp_status = 5.5\n",
        "[class_rules]\nclass = 'transient'\n",
        "[[class_rules]]\nclass = 3\ncode = 'x'\n[sources.billing]\nkind = 3\n",
        "class_rules = [1]\n",
        "[[fingerprint_rules]]\ntype = 'a'\ngroup = 'g'\n",
        "[[fingerprint_rules]]\nname = 'x'\ngroup = 'g'\n",
        "[[fingerprint_rules]]\nname = 'x'\ntype = 'a'\n",
        "[[fingerprint_rules]]\nname = 'x'\ntype = 'a'\ngroup = 'g'\nsplit_by = ['code']\n",
        "[[fingerprint_rules]]\nname = 'x'\ntype = ''\ngroup = ' '\n",
        "[[fingerprint_rules]]\nname = 'x'\ntype = 'a'\nsplit_by = []\n",
        "[[fingerprint_rules]]\nname = 'x'\ntype = 'a'\nsplit_by = ['colour', 'code', 3]\n",
        "[[fingerprint_rules]]\nname = 'x'\ntype = 'a'\nsplit_by = 'code'\n",
        "[[fingerprint_rules]]\nname = 'x'\ntype = 'a'\ngroup = 'g'\n[[fingerprint_rules]]\nname = 'x'\ncode = 'b'\ngroup = 'h'\n",
        "[fingerprint]\nin_app = ['', 'com.acme.']\nlibrary = 'x'\n",
        "[search]\nbodies = 'true'\n",
        "[events]\nkeep = 0\n",
        "[events]\nkeep = 1000000000\n",
        "sources = []\n",
        "[sources]\nbilling = 'report'\n",
        "[sources.billing]\n",
        "[sources.billing]\nkind = 'kafka'\n",
        "[sources.Billing]\nkind = 'report'\n[sources.'a.b']\nkind = 'report'\n",
        "[sources.jobs]\nkind = 'report'\n",
        "[sources.report]\naggregate = 'payload.orderId'\ntenant = '$..a..b'\nqueue = ' '\n",
        "listen = 'x\n[log]\nlevel = \n",
        "listen = 'a:1'\nlisten = 'b:1'\n",
    ];
    insta::assert_snapshot!("bad_values", told(&cases, load_text));
}

#[test]
fn all_problems_are_told_in_the_order_in_which_they_were_written() {
    let file = b"lisen = 1\n[log]\nlevel = 'loud'\n[limits]\nbody_bytes_max = false\n";
    let env = [("LAZARET_FOO", "1"), ("LAZARET_LOG__FORMAT", "xml")];
    let flags =
        Overrides { listen: Some("nowhere".into()), data: Some("".into()), store: Some("oracle".into()) };
    insta::assert_snapshot!("all_problems", load_all(file, &env, flags).unwrap_err().to_string());
}

#[test]
fn a_password_never_reaches_an_error() {
    let url = "postgres://lazaret:hunter2@db/letters";
    for key in ["store", "stroe", "listen", "log.level", "limits.body_bytes_max", "sources.x.kind", "data.x"]
    {
        // Where it belongs it needs one more mistake.
        let url = if key == "store" { format!("{url}?sslmod=on") } else { url.to_owned() };
        let error = load_text(&format!("{key} = '{url}'\n")).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        let variable = format!("LAZARET_{}", key.replace('.', "__").to_uppercase());
        // A variable that is not known is only warned about.
        let checked = check_all(b"", &[(&variable, &url)], Overrides::default());
        let told = match checked.config {
            Ok(_) => format!("{:?}", checked.warnings),
            Err(error) => format!("{error} {error:?}"),
        };
        assert!(told.len() > 10 && !told.contains("hunter2"), "{told}");
    }
    let odd = ["postgres:lazaret:hunter2", "hunter2", "mysql://x:hunter2@y", "postgres://x:hunter2@y:z/d"];
    for store in odd {
        let flags = Overrides { store: Some(store.to_owned()), ..Overrides::default() };
        assert!(!format!("{flags:?}").contains("hunter2"));
        let error = load_all(b"", &[], flags).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
    let broken = format!("store = '{url}\nlisten = 3");
    assert!(!load_text(&broken).unwrap_err().to_string().contains("hunter2"));
}

#[test]
fn a_shared_store_is_shown_without_its_password() {
    let url = "postgres://lazaret:hunter2@db/letters?sslmode=require";
    let config = load_env(&[("LAZARET_STORE", url)]).unwrap();
    let StoreUrl::Postgres(known) = &config.store else { panic!("{config:?}") };
    assert_eq!(known.secret(), url);
    let shown = config.to_toml();
    assert!(shown.contains("store = \"postgres://lazaret:***@db/letters?sslmode=require\"\n"), "{shown}");
    assert!(!format!("{shown} {config:?} {}", config.kept_in()).contains("hunter2"));
}

#[test]
fn rules_classify_in_their_order() {
    let config = load_text(
        "[[class_rules]]\nclass = 'business'\nerror_type = '*Throttl*'\nsource = 'billing'\n\
         [[class_rules]]\nclass = 'transient'\nerror_type = '*Throttl*'\n",
    );
    let classes = config.unwrap().classes();
    let error = LetterError { error_type: "RequestThrottled".into(), ..LetterError::default() };
    assert_eq!(classes.classify("billing", &error), ErrorClass::Business);
    assert_eq!(classes.classify("report", &error), ErrorClass::Transient);
}

#[test]
fn the_report_source_need_not_say_its_kind() {
    let config = load_text("[sources.report]\naggregate = '$.payload.orderId'\n").unwrap();
    let event = serde_json::json!({"payload": {"orderId": 7}, "metadata": {"tenantId": "acme"}});
    let report = &config.sources[REPORT_SOURCE];
    assert_eq!(report.aggregate.as_ref().unwrap().find(&event).as_deref(), Some("7"));
    assert_eq!(report.tenant.find(&event).as_deref(), Some("acme"));
    assert_eq!(report.queue, "report");
}

#[test]
fn what_is_shown_loads_to_the_same() {
    let mut config = Config {
        listen: "[::1]:0".to_owned(),
        data: PathBuf::from("with \"quotes\" and \\ and ü"),
        allowed_hosts: vec!["a.example.org".to_owned(), "[::1]:7070".to_owned()],
        log: LogConfig { level: "info,lazaret_store=debug".to_owned(), format: LogFormat::Json },
        ..Config::default()
    };
    config.limits.body_bytes_max += 1;
    config.limits.request_ms_max = 90_500;
    let patterns = |text: &str| Some(Pattern::new(text));
    let when = Conditions {
        error_type: patterns("*Throttl*"),
        code: patterns("ACME-\"4*"),
        message: patterns("Später*"),
        http_status: Some(StatusRange::parse("5xx").unwrap()),
        source: patterns("billing"),
    };
    config.class_rules.push(ClassRule::new(when, ErrorClass::NotFound).unwrap());
    let when = RuleConditions { frame: patterns("*at \"x\"*"), ..RuleConditions::default() };
    let then = RuleEffect::SplitBy(vec![SplitBy::Queue, SplitBy::Message]);
    config.fingerprint_rules.push(FingerprintRule { name: "a ü".to_owned(), when, then });
    let when = RuleConditions {
        source: patterns("s"),
        letter_type: patterns("t.*"),
        error_type: patterns("e"),
        code: patterns("c"),
        message: patterns("m"),
        frame: None,
    };
    let then = RuleEffect::Group("one \\ group".to_owned());
    config.fingerprint_rules.push(FingerprintRule { name: "b".to_owned(), when, then });
    config.fingerprint.library.push("/usr/lib/".to_owned());
    config.search.bodies = false;
    config.events.keep = 1_000;
    let mut billing = SourceConfig::new("billing-2", SourceKind::Report);
    billing.aggregate = Some(EventPath::parse("$['order id'][0]").unwrap());
    config.sources.insert("billing-2".to_owned(), billing);

    for config in [Config::default(), config] {
        assert_eq!(load_text(&config.to_toml()).unwrap(), config);
    }
}

#[test]
fn the_default_is_shown_in_full() {
    insta::assert_snapshot!("default", Config::default().to_toml());
}

#[test]
fn hostile_files_are_refused_and_never_panic() {
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("binary", (0..=255).cycle().take(10_000).collect()),
        ("control characters", b"listen = '\x00\x01'\n\x00\x1b[31m = 1\n".to_vec()),
        ("too large", vec![b'#'; lazaret_core::limits::CONFIG_FILE_BYTES_MAX as usize + 1]),
        ("many unknown keys", (0..5_000).flat_map(|n| format!("k{n} = 1\n").into_bytes()).collect()),
        ("a long key", [vec![b'k'; 1_000_000], b" = 1\n".to_vec()].concat()),
        ("a long text", [b"data = '".to_vec(), vec![b'x'; 1_000_000], b"'\n".to_vec()].concat()),
        ("many equals signs", vec![b'='; 100_000]),
        ("nested lists", [b"allowed_hosts = ".to_vec(), vec![b'['; 100_000]].concat()),
        ("nested tables", [b"log = ".to_vec(), b"{a=".repeat(50_000)].concat()),
        ("many rules", b"[[class_rules]]\nclass = 'business'\ncode = 'x'\n".repeat(10_000)),
        ("many items", [b"allowed_hosts = [".to_vec(), b"1,".repeat(100_000), b"]".to_vec()].concat()),
    ];
    let mut told = String::new();
    for (name, file) in cases {
        let error = load_all(&file, &[], Overrides::default()).unwrap_err().to_string();
        assert!(error.len() < 10_000, "{name}: {} bytes of error", error.len());
        assert!(!error.contains(|c: char| c.is_control() && c != '\n'), "{name}");
        let (first, rest) = error.split_once('\n').unwrap_or((&error, ""));
        writeln!(told, "{name}: {first} (+{})", rest.lines().count()).unwrap();
    }
    insta::assert_snapshot!("hostile_files", told);
}

#[test]
fn a_deep_key_does_not_end_the_process() {
    for line in ["a.".repeat(400_000) + "b = 1", format!("[{}b]", "a.".repeat(400_000))] {
        assert!(load_text(&line).is_err());
    }
}

proptest! {
    #[test]
    fn any_text_loads_or_is_refused(text in "(?s).{0,200}", value in "[^\0]{0,60}") {
        let keys = ["LISTEN", "STORE", "ALLOWED_HOSTS", "CLASS_RULES", "FINGERPRINT_RULES", "SEARCH__BODIES", "LIMITS__BODY_BYTES_MAX", "LOG__LEVEL"];
        for key in keys.into_iter().chain(["SOURCES__X__AGGREGATE", "LIMITS__REQUEST_TIME_MAX"]) {
            let env = [(format!("LAZARET_{key}"), value.clone())];
            let _answer = load(None, env, Overrides::default());
        }
        let _answer = load_text(&text);
        let quoted = toml::Value::from(value);
        let _answer = load_text(&format!("listen = {quoted}\nstore = {quoted}\nsources.x.tenant = {quoted}\n"));
    }
}
