//! Stack traces of PHP. A frame names the function that was called and the file that called it, so that the file of a
//! function stands one line above it.

use super::Cause;
use crate::fingerprint::error_type;
use crate::fingerprint::frame::Frame;
use crate::fingerprint::language::Language;
use crate::fingerprint::rules::FingerprintRules;
use crate::fingerprint::search;
use crate::limits;

pub(super) fn causes<'a>(lines: &[&'a str], rules: &FingerprintRules) -> Vec<Cause<'a>> {
    let mut causes: Vec<Cause<'a>> = vec![Cause::default()];
    // Where the function of the next frame is written.
    let mut place = "";
    let mut root_last = false;
    for line in lines {
        let text = line.trim_start();
        if text.is_empty() || text.starts_with("Stack trace:") || text.starts_with("[stacktrace]") {
            continue;
        }
        if let Some((called_in, function)) = frame(text) {
            if let Some(cause) = causes.last_mut() {
                cause.frames.outward(Language::Php, Frame { function, place, package: "" }, rules);
            }
            place = called_in;
            continue;
        }
        let next = text.strip_prefix("Next ").or_else(|| {
            root_last |= text.starts_with("[previous exception]") || text.starts_with("Previous: ");
            text.strip_prefix("[previous exception] ").or_else(|| text.strip_prefix("Previous: "))
        });
        let head = without_label(next.unwrap_or(text));
        let (named, stated_in) = located(head);
        let Some(cause) = causes.last_mut() else { break };
        if next.is_some() {
            if causes.len() >= limits::CAUSES_MAX {
                break;
            }
            causes.push(Cause::new(head_of(named)));
            place = stated_in;
        } else if cause.frames.seen == 0 && !text.starts_with("thrown in") {
            if cause.is_empty() {
                *cause = Cause::new(head_of(named));
                place = stated_in;
            } else {
                let (line, stated_in) = located(text);
                cause.continue_message(line);
                place = if stated_in.is_empty() { place } else { stated_in };
            }
        }
    }
    if !root_last {
        causes.reverse();
    }
    causes
}

/// Takes away what logs and the engine write in front.
fn without_label(text: &str) -> &str {
    let text = search::find(text, "Uncaught ").map_or(text, |at| &text[at + 9..]);
    search::find(text, "[object] (").map_or(text, |at| &text[at + 10..])
}

/// `Type: message`, and Laravel's `Type(code: 0): message`.
fn head_of(text: &str) -> (&str, &str) {
    if let Some((name, rest)) = search::split_once(text, "(code: ")
        && !name.contains(' ')
        && let Some((_, message)) = search::split_once(rest, "): ")
    {
        return (name, message);
    }
    error_type::head(text)
}

/// Splits `… in /app/Foo.php:12` and `… at /app/Foo.php:12)` into text and file.
fn located(text: &str) -> (&str, &str) {
    for separator in [" in ", " at "] {
        if let Some((message, place)) = text.rsplit_once(separator)
            && let Some((file, _)) = search::split_once(place, ".php")
            && !file.contains(' ')
        {
            let end = message.len() + separator.len() + file.len() + 4;
            return (message, text.get(message.len() + separator.len()..end).unwrap_or(file));
        }
    }
    (text, "")
}

pub(super) fn is_frame(text: &str) -> bool {
    frame(text).is_some()
}

/// `#0 /app/Foo.php(12): App\Foo->bar()`, `#1 [internal function]: …`, `#2 {main}`.
fn frame(text: &str) -> Option<(&str, &str)> {
    let (number, rest) = text.strip_prefix('#')?.split_once(' ')?;
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if rest.starts_with("{main}") {
        return Some(("", rest));
    }
    let (called_in, function) = search::split_once(rest, ": ")?;
    if called_in.starts_with("[internal") {
        return Some(("", function));
    }
    let (file, line) = called_in.rsplit_once('(')?;
    line.starts_with(|c: char| c.is_ascii_digit()).then_some((file, function))
}

/// Class and function: `PaymentGateway.charge`.
pub(super) fn name(frame: Frame<'_>) -> String {
    let function = frame.function.trim();
    let function = match search::find(function, "{closure:") {
        // Since 8.4 a closure names the function around it.
        Some(at) => function[at + 9..].split("():").next().unwrap_or(function),
        None => function,
    };
    // Arguments begin at the bracket behind the name.
    let end = function.find('(').unwrap_or(function.len());
    let own = &function[..end];
    let own = own.rsplit('\\').next().unwrap_or(own);
    let plain = own.replace("->", ".").replace("::", ".");
    if plain.starts_with('{') {
        format!("{}.closure", crate::fingerprint::frame::file_stem(frame.place))
    } else {
        plain.split("@anonymous").next().unwrap_or(&plain).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::super::read_names;

    #[test]
    fn the_first_of_a_chain_is_the_root() {
        let text = "PHP Fatal error:  Uncaught GuzzleHttp\\Exception\\ConnectException: cURL error 28: timed out in /var/www/vendor/guzzlehttp/guzzle/src/Curl.php:210\n\
            Stack trace:\n\
            #0 /var/www/vendor/guzzlehttp/guzzle/src/Client.php(12): GuzzleHttp\\Curl->send()\n\
            #1 /var/www/app/Services/PaymentGateway.php(42): GuzzleHttp\\Client->post('https://x', Array)\n\
            #2 /var/www/app/Jobs/Charge.php(9): App\\Services\\PaymentGateway->charge(Object(Order), '12')\n\
            #3 [internal function]: App\\Jobs\\Charge->handle()\n\
            #4 {main}\n\
            \n\
            Next App\\PaymentFailed: charge failed in /var/www/app/Jobs/Charge.php:11\n\
            Stack trace:\n\
            #0 {main}\n\
            \x20 thrown in /var/www/app/Jobs/Charge.php on line 11";
        let causes = read_names(text);
        assert_eq!(causes[0].0, "App\\PaymentFailed");
        assert_eq!(
            causes[1],
            (
                "GuzzleHttp\\Exception\\ConnectException".into(),
                "cURL error 28: timed out".into(),
                vec!["PaymentGateway.charge".into(), "Charge.handle".into()]
            )
        );
    }

    #[test]
    fn laravel_prints_the_previous_error_last() {
        let text = "[2026-01-01 10:00:00] production.ERROR: failed {\"exception\":\"[object] (App\\\\Failed(code: 0): failed at /app/Jobs/A.php:3)\n\
            [stacktrace]\n\
            #0 /app/vendor/laravel/framework/src/X.php(36): App\\Jobs\\A->handle()\n\
            [previous exception] [object] (PDOException(code: 23000): SQLSTATE[23000]: dup at /app/Repo.php:9)\n\
            [stacktrace]\n\
            #0 /app/Repo.php(9): PDOStatement->execute()\n\
            #1 /app/Jobs/A.php(2): App\\Repo->save(Object(Order))";
        let root = read_names(text).pop().unwrap();
        assert_eq!(root.0, "PDOException");
        assert_eq!(root.1, "SQLSTATE[23000]: dup");
        assert_eq!(root.2, ["Repo.save"]);
    }
}
