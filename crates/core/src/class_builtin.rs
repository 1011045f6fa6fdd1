//! The built-in rules: what the errors of common languages and libraries mean.
//!
//! The type decides before the code, the code before the message, and a name that says little (`NetworkError`,
//! `HTTPError`) comes last. They must stay sure of themselves: what is only likely is left unknown.

use crate::class::ErrorClass;
use crate::limits;

pub(crate) mod http_status;
mod phrases;

#[cfg(test)]
mod cases;

/// The class that the built-in rules see, `Unknown` when none is sure. The texts come in cut.
pub(crate) fn classify(error_type: &str, code: Option<&str>, message: &str) -> ErrorClass {
    let said = phrases::said(&phrases::words(message));
    let found = class_of_name(error_type)
        .or(said.throttled)
        .or_else(|| class_of_code(error_type, code?, message))
        .or_else(|| class_of_named(message));
    match (found, said.locked_out) {
        // A connection that was refused for a wrong password or certificate is not a passing failure.
        (None | Some(ErrorClass::Transient | ErrorClass::Authorization), Some(class)) => return class,
        (Some(class), _) => return class,
        (None, None) => {}
    }
    class_of_missing(error_type, code, message)
        .or(said.by_machine)
        .or_else(|| http_status::find(error_type, code, message).and_then(http_status::class))
        .or(said.by_people)
        .or_else(|| phrases::named_vaguely(&phrases::words(error_type)))
        .or_else(|| phrases::named_vaguely(&phrases::words(code?)))
        .unwrap_or(ErrorClass::Unknown)
}

/// How many words and phrases speak for a class.
pub(crate) fn phrases_of(class: ErrorClass) -> u64 {
    phrases::count(class)
}

/// What the name of an error says for sure.
fn class_of_name(name: &str) -> Option<ErrorClass> {
    if let Some(class) = phrases::named_in_full(&phrases::words(name)) {
        return Some(class);
    }
    let last = phrases::words(last_segment(name));
    // System errors have one name as a type (`Errno::ECONNRESET`), as a code and within a message.
    let class = phrases::named(&last).or_else(|| phrases::said(&last).by_machine);
    class.filter(|class| *class != ErrorClass::Unknown)
}

/// The part of a type's name behind its packages: `java.net.ConnectException`, `Net::ReadTimeout`,
/// `GuzzleHttp\Exception\ConnectException`, `<class 'requests.exceptions.ConnectTimeout'>`. A nested class keeps the
/// class around it, because Spring and Feign put the status there.
fn last_segment(name: &str) -> &str {
    let name = name.trim().trim_start_matches("<class '").trim_start_matches(['*', '&']);
    let end = name.find(['<', '[', '`', '(', '{', '\'']).unwrap_or(name.len());
    let name = name[..end].trim_end_matches(|c: char| !c.is_alphanumeric());
    name.rsplit(['.', ':', '\\', '/']).next().unwrap_or(name)
}

fn class_of_code(error_type: &str, code: &str, message: &str) -> Option<ErrorClass> {
    let code = code.trim();
    if let Some(class) = class_of_sqlstate(code).or_else(|| class_of_database_code(error_type, code, message))
    {
        return Some(class);
    }
    if let Some(status) = http_status::find(error_type, Some(code), "") {
        return http_status::class(status);
    }
    class_of_name(code)
}

/// Classes of SQLSTATE. A code of digits alone may be anybody's, so of those only well-known ones count.
fn class_of_sqlstate(code: &str) -> Option<ErrorClass> {
    let shaped =
        code.len() == 5 && code.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    if !shaped || !code.bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match code {
        _ if code.starts_with("08") => Some(ErrorClass::Transient),
        "40001" | "40003" | "40P01" | "55P03" | "57014" | "57P01" | "57P02" | "57P03" | "57P05" => {
            Some(ErrorClass::Transient)
        }
        "53000" | "53100" | "53200" | "53300" | "58030" | "HYT00" | "HYT01" | "25006" => {
            Some(ErrorClass::Transient)
        }
        "28000" | "28P01" | "3D000" | "42P01" => Some(ErrorClass::Configuration),
        "42501" => Some(ErrorClass::Authorization),
        "22001" | "22003" | "22007" | "22008" | "22P02" | "23502" | "23505" | "23514" | "23P01" => {
            Some(ErrorClass::Validation)
        }
        "22021" | "22P05" => Some(ErrorClass::Malformed),
        _ => None,
    }
}

/// The numbers of databases and of the libraries above them that have no names.
fn class_of_database_code(error_type: &str, code: &str, message: &str) -> Option<ErrorClass> {
    match code {
        "P1001" | "P1002" | "P1008" | "P1017" | "P2024" | "P2034" => return Some(ErrorClass::Transient),
        "P1000" | "P1003" | "P1010" | "P1012" | "P2021" | "P2022" => return Some(ErrorClass::Configuration),
        "P2000" | "P2002" | "P2004" | "P2005" | "P2006" | "P2007" | "P2011" | "P2012" => {
            return Some(ErrorClass::Validation);
        }
        "P2001" | "P2015" | "P2018" | "P2025" => return Some(ErrorClass::NotFound),
        "ORA-00054" | "ORA-00060" | "ORA-03113" | "ORA-03114" | "ORA-12170" | "ORA-12537" | "ORA-12541" => {
            return Some(ErrorClass::Transient);
        }
        "ORA-00001" | "ORA-01400" | "ORA-12899" => return Some(ErrorClass::Validation),
        "ORA-01017" | "ORA-12154" => return Some(ErrorClass::Configuration),
        _ => {}
    }
    let told = [error_type, message].map(str::to_ascii_lowercase);
    let speaks_of = |names: &[&str]| names.iter().any(|name| told.iter().any(|text| text.contains(name)));
    match code {
        "1040" | "1205" | "1213" | "2002" | "2003" | "2006" | "2013"
            if speaks_of(&["sql", "mariadb", "pdo"]) =>
        {
            Some(ErrorClass::Transient)
        }
        "1048" | "1062" | "1264" | "1366" | "1406" | "2601" | "2627"
            if speaks_of(&["sql", "mariadb", "pdo"]) =>
        {
            Some(ErrorClass::Validation)
        }
        "1044" | "1045" | "1049" if speaks_of(&["sql", "mariadb", "pdo"]) => Some(ErrorClass::Configuration),
        "11000" | "11001" if speaks_of(&["mongo"]) => Some(ErrorClass::Validation),
        _ => None,
    }
}

/// What the errors and codes say that a message names: in front (`ValidationError: email not found`), or where
/// AWS, gRPC and PostgreSQL clients put them.
fn class_of_named(message: &str) -> Option<ErrorClass> {
    for name in names_in_front(message) {
        if let Some(class) = class_of_name(name) {
            return Some(class);
        }
    }
    for marker in [
        "error occurred (",
        "code = ",
        "Error Code: ",
        "StatusCode.",
        "StatusCode=\"",
        "SQLSTATE ",
        "SQLSTATE[",
        "SQLSTATE: ",
    ] {
        let Some(at) = message.find(marker) else { continue };
        let rest = &message[at + marker.len()..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '.').unwrap_or(rest.len());
        let name = &rest[..end];
        if name.len() > limits::NAME_IN_MESSAGE_BYTES_MAX {
            continue;
        }
        if let Some(class) = class_of_sqlstate(name).or_else(|| class_of_name(name)) {
            return Some(class);
        }
    }
    None
}

/// The error names that a message begins with.
fn names_in_front(message: &str) -> Vec<&str> {
    let mut names = Vec::new();
    // Elixir and SQLAlchemy put the name into brackets.
    let message = message.trim_start().trim_start_matches("** ");
    if let Some((name, _)) = message.strip_prefix('(').and_then(|rest| rest.split_once(')'))
        && is_name(name)
    {
        names.push(name);
    }
    for part in message.splitn(limits::MESSAGE_PREFIXES_MAX + 1, ": ").take(limits::MESSAGE_PREFIXES_MAX) {
        // gRPC for Node writes the number before the name.
        let part = part.trim_start_matches(|c: char| c.is_ascii_digit()).trim();
        if !is_name(part) {
            break;
        }
        names.push(part);
    }
    names
}

/// Whether a word is the name of an error and not that of a field, as in `connectionTimeout: must be positive`.
fn is_name(word: &str) -> bool {
    if word.is_empty() || word.len() > limits::NAME_IN_MESSAGE_BYTES_MAX || word.contains(char::is_whitespace)
    {
        return false;
    }
    let last = last_segment(word);
    let named = ["Error", "Exception", "Failure"].iter().any(|end| last.ends_with(end));
    let in_package = last.len() < word.len() && last.starts_with(char::is_uppercase);
    let screams = last.len() >= 6
        && last.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
        && last.starts_with(char::is_uppercase);
    named || in_package || screams
}

/// Things that are missing on the machine of the failing program, where the name of the thing decides.
fn class_of_missing(error_type: &str, code: Option<&str>, message: &str) -> Option<ErrorClass> {
    let mut names = names_in_front(message);
    names.push(error_type);
    let names = |phrase: &str| names.iter().any(|name| phrases::words(last_segment(name)).contains(phrase));
    let lower = message.to_lowercase();

    if names("key error") || lower.starts_with("key not found") {
        // `KeyError: 'DATABASE_URL'` comes from the environment. Any other key may be a field or a bug.
        return Some(if has_setting_name(message) { ErrorClass::Configuration } else { ErrorClass::Unknown });
    }
    let file = names("file not found")
        || names("no such file")
        || code == Some("ENOENT")
        || lower.contains("no such file or directory")
        || lower.contains("enoent");
    // A server's local socket that is not there is a server that is not running.
    if file && !lower.contains("socket") {
        let setup = [
            "config",
            ".env",
            ".toml",
            ".ini",
            ".properties",
            "application.y",
            "settings",
            "credential",
            "secret",
            ".pem",
            ".crt",
            "/etc/",
        ];
        let about_setup = setup.iter().any(|part| lower.contains(part));
        return Some(if about_setup { ErrorClass::Configuration } else { ErrorClass::NotFound });
    }
    // A table or column that is not there is a migration that did not run, not a missing record.
    let absent = lower.contains("\" does not exist") || lower.contains("' doesn't exist");
    let object = ["relation \"", "column \"", "database \"", "role \"", "schema \"", "table '"];
    (absent && object.iter().any(|kind| lower.contains(kind))).then_some(ErrorClass::Configuration)
}

/// Whether a quoted word is written like an environment variable.
fn has_setting_name(message: &str) -> bool {
    message.split(['\'', '"', '`']).skip(1).step_by(2).any(|quoted| {
        quoted.contains('_')
            && quoted.starts_with(|c: char| c.is_ascii_uppercase())
            && quoted.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    })
}
