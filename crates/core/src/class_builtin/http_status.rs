//! The HTTP status that an error states, never an arbitrary number in it.
//!
//! `order 404 failed` and `took 500 ms` state none. A number counts when it is the code, when words such as `status`
//! or `HTTP` lead up to it, or when its own reason phrase follows.

use crate::class::ErrorClass;

/// The status stated by the code or else by the message.
pub(crate) fn find(error_type: &str, code: Option<&str>, message: &str) -> Option<u16> {
    // Mail and file servers number their answers alike and mean something else.
    let foreign = |text: &str| {
        let text = text.to_ascii_lowercase();
        text.contains("smtp") || text.contains("ftp")
    };
    if foreign(error_type) || code.is_some_and(foreign) {
        return None;
    }
    code.and_then(in_code).or_else(|| in_message(&message.to_lowercase()))
}

/// What a status means by itself. 501 and its like are a server's failure too, and 409 is a broken agreement.
pub(crate) fn class(status: u16) -> Option<ErrorClass> {
    match status {
        401 | 403 | 407 => Some(ErrorClass::Authorization),
        404 | 410 => Some(ErrorClass::NotFound),
        // 420 and 449 are old spellings of "slow down"; 499 is our own side hanging up.
        408 | 420 | 425 | 429 | 449 | 499 => Some(ErrorClass::Transient),
        400..=498 => Some(ErrorClass::Validation),
        500..=599 => Some(ErrorClass::Transient),
        _ => None,
    }
}

/// Statuses that are in use. Others are more likely a database's own number, such as 547 for a broken foreign key.
fn known(status: u16) -> bool {
    matches!(status, 400..=431 | 440 | 444 | 449 | 451 | 494..=499 | 500..=511 | 520..=530 | 598 | 599)
}

/// `503`, `HTTP_503`, `HTTP 503`, `E503`, `ERR_HTTP_503`, `503 Service Unavailable`; nothing else before the number.
fn in_code(code: &str) -> Option<u16> {
    let code = code.trim().to_ascii_lowercase();
    let at = code.find(|c: char| c.is_ascii_digit())?;
    let before = code[..at].trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    let leads = before
        .split(|c: char| !c.is_ascii_alphanumeric())
        .all(|word| matches!(word, "" | "http" | "https" | "status" | "code" | "err" | "error" | "e"));
    // A sign would make it a number of another kind.
    if !leads || code[..at].ends_with(['-', '+', '.']) && before.is_empty() {
        return None;
    }
    let status = number_at(&code, at)?;
    let after = &code[at + 3..];
    (after.is_empty() || before.starts_with("http") || has_reason(status, after)).then_some(status)
}

/// The first number in a lowered message that is stated as a status.
fn in_message(message: &str) -> Option<u16> {
    let bytes = message.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        if let Some(status) = number_at(message, at)
            && is_stated(status, &message[..at], &message[at + 3..])
        {
            return Some(status);
        }
        while at < bytes.len() && bytes[at].is_ascii_digit() {
            at += 1;
        }
    }
    None
}

/// The known status whose three digits stand by themselves at `at`.
fn number_at(text: &str, at: usize) -> Option<u16> {
    let status = text.get(at..at + 3)?.parse().ok()?;
    let mut rest = text[at + 3..].chars();
    let next = rest.next();
    let stands_alone = match next {
        Some('.' | ',' | ':') => !rest.next().is_some_and(|c| c.is_ascii_digit()),
        Some(c) => !c.is_alphanumeric() && c != '_' && c != '%',
        None => true,
    };
    (stands_alone && known(status)).then_some(status)
}

/// Words that make the number behind them a status, whatever follows.
const LEADS: &[&str] = &[
    "status code",
    "statuscode",
    "status_code",
    "status",
    "response code",
    "responsecode",
    "http error",
    "http",
    "http/1.0",
    "http/1.1",
    "http/2",
    "http/2.0",
    "http/3",
];

/// Verbs that make it a status unless a counted thing follows, as in `the API returned 404 rows`.
const VERBS: &[&str] = &[
    "responded with",
    "responded with a",
    "responded with an",
    "responded",
    "replied with",
    "answered with",
    "answered",
    "server returned",
    "api returned",
    "service returned",
    "upstream returned",
    "endpoint returned",
    "gateway returned",
    "server returned a",
    "api returned a",
    "server response",
    "unexpected response",
];

fn is_stated(status: u16, before: &str, after: &str) -> bool {
    if has_reason(status, after) {
        return true;
    }
    let lead = before.trim_end_matches(|c: char| c.is_whitespace() || "\"'`:=([<#-".contains(c));
    if before.len() == lead.len() && !lead.is_empty() {
        // Glued to what stands before, as in `http503`.
        return lead.ends_with("http");
    }
    if lead.is_empty() {
        // How aiohttp puts it.
        return after.starts_with(", message=");
    }
    if ends_with_words(lead, "many") {
        // How urllib3 puts it: too many 503 error responses.
        return ends_with_words(lead, "too many") && after.starts_with(" error responses");
    }
    if ends_with_words(lead, "error occurred") {
        return after.starts_with(") when calling");
    }
    if LEADS.iter().any(|words| ends_with_words(lead, words)) {
        return true;
    }
    let counted = after.strip_prefix(' ').is_some_and(|rest| {
        let next: String = rest.chars().take_while(|c| c.is_alphabetic()).collect();
        let goes_on = [
            "", "for", "from", "on", "to", "when", "while", "after", "and", "with", "error", "response",
            "status",
        ];
        !goes_on.contains(&next.as_str())
    });
    !counted && VERBS.iter().any(|words| ends_with_words(lead, words))
}

fn ends_with_words(text: &str, words: &str) -> bool {
    text.strip_suffix(words).is_some_and(|rest| !rest.ends_with(|c: char| c.is_alphanumeric()))
}

/// Whether the text goes on with the status's own reason phrase.
fn has_reason(status: u16, after: &str) -> bool {
    let after = after.trim_start_matches(|c: char| c.is_whitespace() || "_-:()[]".contains(c));
    let says = |reason: &str| {
        after.strip_prefix(reason).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
    };
    let reasons: &[&str] = match status {
        400 => &["bad request"],
        401 => &["unauthorized", "unauthorised"],
        403 => &["forbidden"],
        404 => &["not found"],
        405 => &["method not allowed"],
        406 => &["not acceptable"],
        407 => &["proxy authentication required"],
        408 => &["request timeout", "request time-out"],
        409 => &["conflict"],
        410 => &["gone"],
        412 => &["precondition failed"],
        413 => &["payload too large", "request entity too large", "content too large"],
        415 => &["unsupported media type"],
        422 => &["unprocessable entity", "unprocessable content"],
        423 => &["locked"],
        425 => &["too early"],
        429 => &["too many requests"],
        500 => &["internal server error", "internal error"],
        501 => &["not implemented"],
        502 => &["bad gateway", "proxy error"],
        503 => &["service unavailable", "service temporarily unavailable", "slow down"],
        504 => &["gateway timeout", "gateway time-out"],
        _ => &[],
    };
    let family = if status < 500 { "client error" } else { "server error" };
    reasons.iter().any(|reason| says(reason)) || says(family)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_states_a_status_when_it_is_one() {
        for code in [
            "503",
            " 503 ",
            "HTTP_503",
            "HTTP 503",
            "http503",
            "E503",
            "ERR_503",
            "HTTP-503",
            "503 Service Unavailable",
        ] {
            assert_eq!(find("", Some(code), ""), Some(503), "{code}");
        }
        for code in [
            "5030",
            "50",
            "-503",
            "503.2",
            "P503",
            "ORDER_503",
            "ACME-404",
            "99503",
            "200",
            "547",
            "503ms",
            "40001",
        ] {
            assert_eq!(find("", Some(code), ""), None, "{code}");
        }
    }

    #[test]
    fn a_message_states_a_status_in_the_words_of_http_clients() {
        let stated = [
            "Request failed with status code 503",
            "HTTP 503",
            "503 Service Unavailable",
            "payment-service responded with 503",
            "status: 503",
            "status=503, body=...",
            "upstream said (HTTP/1.1 503)",
            "Server returned HTTP response code: 503 for URL: https://pay.example.com",
            "HTTP Error 503: Service Unavailable",
            "503 Server Error: Service Unavailable for url: https://pay.example.com/",
            "503, message='Service Unavailable', url=URL('https://pay.example.com')",
            "Response status code does not indicate success: 503 (Service Unavailable).",
            "HTTP status server error (503 Service Unavailable) for url (https://pay.example.com/)",
            "unexpected HTTP status 503 from https://pay.example.com",
            "the server responded with a status of 503 (Service Unavailable)",
            "Slow Down (Service: Amazon S3; Status Code: 503; Error Code: SlowDown; Request ID: 1)",
            r#"{"statusCode":503,"error":"Service Unavailable"}"#,
            "An error occurred (503) when calling the PutObject operation: Slow Down",
            "too many 503 error responses",
            "API returned 503 for order 404",
        ];
        for message in stated {
            assert_eq!(find("", None, message), Some(503), "{message}");
        }
    }

    #[test]
    fn an_arbitrary_number_is_no_status() {
        let silent = [
            "order 404 failed",
            "took 500 ms",
            "took 500ms",
            "404 rows were skipped",
            "The API returned 404 rows",
            "invoice 503 was rejected by rule 401",
            "amount 429.00 exceeds 400.00",
            "retry 3 of 503",
            "status code 200, 404 items left",
            "http://10.0.0.1:503/x",
            "line 500, column 404",
            "reply-code=404, reply-text=NOT_FOUND - no queue 'x' in vhost '/'",
            "error 1500: status 9503",
            "status 99",
        ];
        for message in silent {
            assert_eq!(find("", None, message), None, "{message}");
        }
        assert_eq!(find("smtplib.SMTPDataError", Some("550"), "mailbox unavailable"), None);
    }
}
