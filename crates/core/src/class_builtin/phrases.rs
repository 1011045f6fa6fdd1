//! The words by which errors are known, and how they are found.
//!
//! Texts are compared as words: `java.net.SocketTimeoutException`, `SOCKET_TIMEOUT` and `socket timeout` all hold
//! `socket timeout`. Every text is read once, word by word, so that the tables may grow.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::class::ErrorClass;
use crate::class::ErrorClass::{
    Authorization, Business, Configuration, Malformed, NotFound, Transient, Unknown, Validation,
};

/// Phrases in the name of an error type or in a code. The last one in the name decides, the longest of equal end:
/// a `TimeoutValidationError` is about validation, a `ValidationTimeout` about time. `Unknown` marks what looks like
/// a class and is none. `^` stands for the beginning of the name.
///
/// A broken unique constraint is `validation`: trying again cannot help, and the sender or the receiver has to change.
/// A broken foreign key is left `unknown`, because the row that it refers to may be on its way.
const NAMES: Table = &[
    (
        Transient,
        "timeout, timeouts, timed out, time out, timedout, deadline exceeded, time limit exceeded, \
         ^elapsed, task canceled, task cancelled, connection refused, connection reset, connection aborted, \
         connection closed, connection lost, connection failed, connection failure, connection error, \
         connection exception, connection bad, connection interrupted, connection terminated, \
         connection dropped, connection done, connection broken, connection pool, \
         connection not established, connection unavailable, connection forced, connection timeout, \
         connections exhausted, connect error, connect exception, connect failed, connector error, \
         cannot connect, could not connect, cant connect, not connected, already closed, disconnected, \
         disconnect, unreachable, no route to host, unknown host, host not found, server not found, \
         name resolution, gaierror, dns error, dns failure, dns exception, broken pipe, premature close, \
         stream reset, all nodes failed, no host available, remote protocol error, \
         protocol incomplete read, incomplete read, no http response, new connection error, \
         service unavailable, unavailable, temporarily unavailable, server selection, no server available, \
         no available server, no nodes available, no brokers available, no responders, not leader, \
         leader not available, not enough replicas, coordinator not available, rebalance in progress, \
         commit failed, throttling, throttled, throttle, throttler, rate limit, rate limited, ratelimit, \
         rate limiter, request limit exceeded, too many requests, toomanyrequests, too many connections, \
         slow down, provisioned throughput exceeded, resource exhausted, overloaded, server busy, too busy, \
         deadlock, deadlocked, serialization failure, transaction rollback, lock wait, lock not available, \
         cannot acquire lock, locking failure, lock acquisition, optimistic lock, optimistic locking, \
         stale object, stale entry, write conflict, update concurrency, concurrency conflict, \
         concurrent update, concurrent modification conflict, query timeout, transient, retryable, \
         retriable, temporary failure, recoverable exception, resource failure, too many open files, \
         call not permitted, broken circuit, circuit breaker, circuit open, circuit breaker open, \
         rejected execution, internal server error, bad gateway, gateway timeout, publish failed, \
         publish failure, publish error, amqp connect, max retries per request, cannot get jdbc connection, \
         err network, err bad response, protocol connection lost, too many clients",
    ),
    (
        Configuration,
        "configuration, config, misconfigured, misconfiguration, not configured, improperly configured, \
         connection string, no credentials, missing credentials, credentials not found, \
         credentials missing, credentials unavailable, credentials provider, partial credentials, \
         default credentials, credential retrieval, credential unavailable, no region, \
         environment variable, env var, missing env, missing api key, no such bean definition, \
         bean creation, unsatisfied dependency, class not found, no class def found, module not found, \
         no such method, import error, table not found, column not found, undefined table, \
         undefined column, no such table, handler not found, no handler found, var error, \
         cert verification, certificate verify, certificate expired, cert has expired, self signed cert",
    ),
    (
        Validation,
        "validation, validations, validation failed, not valid, record invalid, model invalid, \
         invalid changeset, invalid argument, invalid arguments, invalid input, invalid parameter, \
         invalid parameters, invalid param, invalid value, invalid field, invalid format, invalid data, \
         invalid payload, invalid email, invalid address, invalid uuid, invalid guid, invalid id, \
         invalid url, invalid uri, invalid date, invalid phone, invalid amount, invalid schema, \
         invalid type, invalid property, invalid enum, invalid number, invalid currency, invalid body, \
         invalid timeout, invalid mime, invalid attribute, invalid text representation, \
         invalid datetime format, bad uuid, bad request, badrequest, bad parameter, bad input, \
         unprocessable, unprocessable entity, missing field, missing fields, missing property, \
         missing parameter, missing required, missing argument, missing attribute, parameter missing, \
         field required, required field, field missing, missing servlet request parameter, schema mismatch, \
         schema violation, schema validation, schema error, schema resolution, incompatible schema, \
         type mismatch, mismatched input, unrecognized property, unknown field, unknown property, \
         constraint violation, not null violation, check violation, unique violation, unique constraint, \
         duplicate key, duplicate entry, dup entry, record not unique, duplicate record, already exists, \
         entity exists, unsupported mime, unsupported media type, unsupported content type, \
         unsupported media, not acceptable, media type not supported, avro type, integrity violation, \
         zod error, pydantic, value too long, string data right truncation, numeric value out of range, \
         data error, data truncation, data too long, too large, number format, date time parse, parse int, \
         parse float, parse bool, parse num, uri syntax, malformed url, malformed uri, malformed id, \
         malformed email, malformed address, malformed uuid, malformed date, unmarshal type, \
         contract violation, unsupported schema version, unsupported version, unknown event type, cast error",
    ),
    (
        Malformed,
        "json decode, json decoding, json parse, json parser, json reader, json syntax, json eof, \
         invalid json, bad json, xml parse, xml syntax, sax parse, ^parse error, ^parser error, \
         ^parse exception, ^parsing error, message parse, payload parse, event parse, body parse, \
         csv parse, csv malformed, avro parse, proto parse, decode error, decode exception, decode failed, \
         decode failure, decoding error, decoding exception, decoder exception, decoder fallback, ^decode, \
         ^decoding, ^undecodable, unicode decode, utf8 error, from utf8, invalid utf8, invalid utf, \
         invalid encoding, character coding, invalid byte sequence, undefined conversion, deserialize, \
         deserialization, deserialisation, deserializer, serialization exception, unmarshal, unmarshalling, \
         unpickling, unpack value, invalid protocol buffer, protobuf decode, message conversion, malformed, \
         malformed json, malformed message, malformed payload, corrupt record, corrupt message, \
         corrupt payload, corrupt frame, bad gzip, bad zip, zip exception, xml exception, \
         invalid wire format, poison message, poison pill",
    ),
    (
        Authorization,
        "unauthorized, unauthorised, unauthenticated, not authorized, not authorised, not authenticated, \
         forbidden, access denied, accessdenied, permission denied, permission error, permission, \
         permissions, insufficient permissions, insufficient privilege, insufficient privileges, \
         insufficient scope, authentication, authentication failed, authentication error, authorization, \
         authorization error, auth error, auth failed, auth failure, authorization failed, token expired, \
         expired token, invalid token, token invalid, token validation, jwt, jwt decode, jwt expired, \
         json web token, malformed jwt, signature does not match, invalid signature, invalid access key id, \
         invalid client token id, unrecognized client, expired jwt, bad credentials, invalid credentials, \
         credentials expired, unauthorized access, invalid grant, invalid client, invalid api key, \
         session expired, policy not authorized, eacces, eperm",
    ),
    (
        NotFound,
        "not found, notfound, no such key, nosuchkey, no such bucket, no such entity, no such object, \
         no such upload, does not exist, doesnotexist, no result, no results, no rows, row not found, \
         empty result, empty result data, resource missing, missing resource, record missing, not exist, \
         non existent, nonexistent, no such resource, unknown object",
    ),
    (
        Business,
        "business, business rule, business rules, business logic, business error, business exception, \
         business validation, business rule validation, rule violation, rule violated, policy violation, \
         domain exception, domain error, domain rule, domain violation, invariant violation, \
         invariant violated, insufficient funds, insufficient balance, insufficient stock, \
         insufficient inventory, insufficient credit, insufficient quantity, out of stock, card error, \
         card declined, payment declined, transaction declined, declined, credit limit exceeded, \
         daily limit exceeded, spending limit exceeded, order limit exceeded, withdrawal limit exceeded, \
         transfer limit exceeded, purchase limit exceeded, balance exceeded, budget exceeded, not eligible, \
         ineligible, already shipped, already paid, already cancelled, already canceled, already refunded, \
         already completed, already delivered, already approved, already settled, already redeemed, \
         already captured, already fulfilled, already confirmed, already invoiced, already booked, \
         state transition, illegal transition, invalid transition, card expired, expired card, \
         account frozen, account suspended, fraud detected, out of credit",
    ),
    (
        Unknown,
        "err bad request, smtp data error, key not found, key error, file not found, no such file, \
         product unavailable, item unavailable, seat unavailable, slot unavailable, room unavailable, \
         stock unavailable, sku unavailable, non transient, non retryable, not retryable, non retriable, \
         not retriable, unretryable, foreign key violation, foreign key constraint, invalid json path, \
         connection limit, response decode, response parse, invalid response, bad sql grammar",
    ),
];

/// Names that say where it happened and little else: they count only when nothing more exact is said.
const VAGUE_NAMES: Table = &[
    (
        Transient,
        "network error, network exception, network failure, operational error, http request exception, \
         http server error, http server exception, server error, transport error, transport exception, \
         socket exception, socket error, mongo socket, amqp exception, amqp error, amqpio, amqp io, \
         broker error, broker exception, pool error, net op error, url error, hyper error, interface error, \
         max retry error, redis error, redis exception",
    ),
    (
        Validation,
        "http client error, invalid request, err bad request, client error exception, integrity error",
    ),
    (
        Malformed,
        "serde json, json exception, json error, json serialization, http message not readable, simd json",
    ),
];

/// Names that mean something else, or anything at all, together with what stands before the last part.
const FULL_NAMES: Table = &[
    (
        Validation,
        "validation bind exception, url parse error, chrono parse error, uuid error, uuid parser, \
         time parse error, strconv num error, json unmarshal type error, jiff error, \
         com fasterxml jackson databind exc, jackson databind json mapping",
    ),
    (
        Malformed,
        "json parser error, json syntax error, json decoder, poison parse error, psych syntax error, \
         element tree parse error, yaml scanner, msgpack exceptions, zlib error, binascii error",
    ),
    (Authorization, "jwt exceptions, jsonwebtoken"),
    (Configuration, "std env"),
    (Transient, "^timeout error"),
];

/// Phrases in a message that also beat a type which only says that a connection failed: it failed for good.
const LOCKED_OUT: Table = &[(
    Configuration,
    "password authentication failed, access denied for user, login failed for user, no pg hba conf entry, \
     wrongpass, noauth authentication required, noauth, access refused, login was refused, \
     certificate verify failed, certificate has expired, certificate is not trusted, \
     self signed certificate, self signed certificate in certificate chain, \
     unable to verify the first certificate, certificate signed by unknown authority, \
     unable to find valid certification path, certificate verification failed, invalid peer certificate, \
     remote certificate is invalid, unable to get local issuer certificate",
)];

/// A server that asks to slow down, whatever status it does so with: GitHub and Google answer 403, Amazon 400.
const THROTTLES: Table = &[(
    Transient,
    "rate limit exceeded, rate limit reached, rate limited, ratelimitexceeded, rate exceeded, \
     too many requests, throttling exception, throttling, throttled, provisioned throughput exceeded, \
     slow down",
)];

/// Phrases of machines, which hardly stand in a message by chance. They come before a stated HTTP status.
const MACHINE_MESSAGES: Table = &[
    (
        Unknown,
        "json response body, errno 22, os error 22, decoding response body, decode response body, \
         decode response, parse response, parsing response, unmarshal response, reading response body, \
         key not found, the given key, non retryable, response is not json, in response body",
    ),
    (
        Transient,
        "connection refused, connection reset, connection aborted, connection timed out, timed out, \
         timedout, i o timeout, io timeout, context deadline exceeded, deadline has elapsed, \
         tls handshake timeout, net http request canceled while waiting, client timeout exceeded, \
         econnrefused, econnreset, econnaborted, etimedout, esockettimedout, etimeout, emfile, enospc, \
         eagain, enobufs, epipe, ehostunreach, enetunreach, enetdown, ehostdown, enotfound, eai again, \
         eai noname, eai fail, und err connect timeout, und err headers timeout, und err body timeout, \
         und err socket, socket hang up, broken pipe, network is unreachable, no route to host, \
         host is unreachable, host is down, software caused connection abort, \
         forcibly closed by the remote host, connection closed before message completed, \
         connection was closed, connection closed unexpectedly, server closed the connection unexpectedly, \
         server closed connection, server has gone away, lost connection to, lost connection, \
         connection lost, remote end closed connection, remote host terminated the handshake, \
         remote host closed connection, premature close, use of closed network connection, \
         connection is not available, no such host, name or service not known, \
         temporary failure in name resolution, failed to lookup address information, getaddrinfo failed, \
         nodename nor servname provided, name resolution failed, could not resolve host, host not found, \
         dns error, deadlock detected, deadlock found, was deadlocked, lock wait timeout exceeded, \
         could not serialize access, serialization failure, could not obtain lock, database is locked, \
         database table is locked, canceling statement due to statement timeout, \
         terminating connection due to administrator command, the database system is starting up, \
         the database system is shutting down, too many clients already, too many connections, \
         remaining connection slots are reserved, too many open files, no space left on device, \
         resource temporarily unavailable, resource exhausted, leader not available, \
         not leader for partition, no responders available, no servers available, no brokers available, \
         all brokers down, connection forced, channel is already closed, redis is loading, clusterdown, \
         masterdown, can t write against a read only replica, timeout expired, wait timeout, \
         max number of clients reached, circuit breaker is open, circuitbreaker, tcp connect error, \
         error trying to connect, optimistic lock, write conflict, version conflict engine exception, \
         connection broken, bad connection, connection pool timeout, run out of available brokers, \
         closed the connection, connection to server on socket, server through socket, \
         network socket disconnected, error connecting to, service temporarily unavailable, \
         server selection timeout, no reachable servers",
    ),
];

/// Phrases of people and libraries, the more exact ones first: the first table row that is found decides.
const MESSAGES: Table = &[
    (Unknown, "violates foreign key constraint, foreign key constraint failed, foreign key constraint fails"),
    (
        Validation,
        "missing field, missing fields, missing required field, missing required fields, \
         missing required property, missing required parameter, required field, required fields, \
         required property, unknown variant, unknown field, duplicate field, invalid type, invalid uuid, \
         invalid guid, bad uuid, uuid parsing failed, badly formed hexadecimal uuid string, \
         invalid input syntax for type, not a valid uuid, is not a uuid, \
         expected an optional prefix of urn uuid, guid should contain 32 digits, cannot unmarshal, \
         cannot deserialize value of type, cannot deserialize instance of, cannot construct instance of, \
         could not be converted to, error converting value, unrecognized field, unsupported mime, \
         unsupported media type, unsupported content type, schema mismatch, schema validation, \
         does not match schema, unsupported schema version, unknown schema version, incompatible schema, \
         violates unique constraint, violates check constraint, violates not null constraint, \
         unique constraint failed, not null constraint failed, check constraint failed, \
         duplicate key value, duplicate key error, duplicate entry, unique constraint violated, \
         value too long for type, data too long for column, numeric field overflow, message size too large, \
         record too large, payload too large, message too large, field required",
    ),
    (
        Malformed,
        "not valid json, invalid json, is not json, not json, malformed json, json parse error, \
         json decode error, failed to parse json, error parsing json, could not parse json, \
         cannot parse json, unable to parse json, in json at position, unexpected end of json input, \
         unexpected end of json, looking for beginning of value, \
         looking for beginning of object key string, after object key value pair, after top level value, \
         after array element, expected value at line, expected ident at line, eof while parsing, \
         trailing characters at line, key must be a string at line, expecting value line, \
         expecting property name enclosed in double quotes, extra data line, \
         unterminated string starting at, expecting delimiter, is an invalid start of a value, \
         unexpected character encountered while parsing, unrecognized token, unexpected character, \
         invalid utf 8, invalid utf8, not valid utf 8, valid utf 8, malformed utf 8, not utf 8, \
         codec can t decode, invalid byte sequence, invalid continuation byte, invalid start byte, \
         invalid wire format, protocol message contained an invalid tag, protocol message end group tag, \
         invalid wire type, failed to decode avro, avro decode, not an avro data file, unknown magic byte, \
         error deserializing, failed to deserialize, cannot deserialize, could not deserialize, \
         error parsing message, failed to decode, cannot decode, could not decode, undecodable, \
         malformed message, malformed payload, malformed data, malformed body, incorrect padding, \
         illegal base64 data, invalid base64, incorrect header check, not in gzip format, \
         not a gzipped file, content is not allowed in prolog, not well formed, poison message",
    ),
    (
        Configuration,
        "environment variable, environment variables, env var, missing credentials, \
         missing storage credentials, storage credentials, no credentials, unable to locate credentials, \
         unable to load credentials, could not load credentials, could not load the default credentials, \
         could not find credentials, credentials not found, credentials are missing, credentials missing, \
         credentials not configured, not configured, misconfigured, invalid config, bad config, \
         invalid configuration, bad configuration, missing configuration, missing config, \
         configuration error, config error, configuration missing, configuration not found, \
         config file not found, configuration file not found, missing required configuration, \
         improperly configured, invalid settings, could not resolve placeholder, api key not set, \
         missing api key, api key is missing, api key not configured, no api key provided, \
         you must specify a region, could not find driver, cannot find module, no module named, \
         class not found, no such table, no such column, unknown column, unknown database, \
         invalid object name, doesn t exist in engine, no handler registered, no consumer registered, \
         unregistered task, no exchange, no queue, inequivalent arg, unroutable, \
         unknown topic or partition, invalid connection string, connection string",
    ),
    (
        Business,
        "insufficient funds, insufficient balance, insufficient stock, insufficient inventory, \
         insufficient credit, not enough stock, not enough funds, out of stock, business rule, \
         business rules, rule violated, rule violation, already shipped, already been shipped, \
         already paid, already been paid, already been cancelled, already been canceled, already cancelled, \
         already canceled, already refunded, already been refunded, already been redeemed, \
         already redeemed, credit limit exceeded, exceeds credit limit, exceeds the credit limit, \
         exceeded credit limit, over credit limit, daily limit exceeded, card was declined, card declined, \
         payment was declined, payment declined, has been declined, not eligible, account is frozen, \
         account is suspended, account is closed, invalid state transition, illegal state transition",
    ),
    (Configuration, "config validation, configuration validation, settings validation"),
    (
        Validation,
        "validation failed, validation error, validation errors, failed validation, field validation for",
    ),
    (
        Authorization,
        "unauthorized, unauthorised, unauthenticated, not authorized, not authorised, \
         authentication failed, authentication required, authentication is required, authorization failed, \
         access denied, permission denied, operation not permitted, access is denied, \
         insufficient permissions, insufficient privilege, insufficient privileges, insufficient scope, \
         token expired, token has expired, token is expired, expired token, jwt expired, invalid token, \
         token is invalid, invalid signature, signature verification failed, signature has expired, \
         invalid api key, incorrect api key provided, invalid credentials, bad credentials, forbidden, \
         invalid grant, invalid client, does not have permission, lacks permission, lack permission, \
         not have access to, security token included in the request is invalid",
    ),
    (
        Validation,
        "failed on the, is required, are required, must be a string, must be a number, must be a boolean, \
         must be a list, must be a date, must be a positive, must be a non, must be an integer, \
         must be an array, must be an object, must be one of, must be at least, must be between, \
         must match format, must be at most, must be positive, must be greater than, must be less than, \
         must not be null, must not be blank, must not be empty, must be a valid, must be valid, \
         can t be blank, cannot be blank, cannot be empty, may not be null, may not be empty, \
         is not a valid, input should be, is invalid, does not match pattern, must match pattern, \
         does not conform to schema, bad request, unprocessable entity, invalid syntax, for input string, \
         could not be parsed at index, not in a correct format, invalid email, invalid url, invalid date, \
         invalid argument, invalid value, invalid input, invalid format, invalid literal for int, \
         out of range for type",
    ),
    (
        NotFound,
        "not found, no such key, no such bucket, no such entity, key does not exist, record does not exist, \
         does not exist, no longer exists, no rows in result set, no rows returned by a query, \
         no result found, no entity found, no record found, no such file or directory, enoent, \
         couldn t find, could not find, could not be found, cannot be found, unable to find, \
         matching query does not exist, nosuchkey",
    ),
    (
        Transient,
        "connection timeout, connect timeout, read timeout, write timeout, request timeout, socket timeout, \
         response timeout, gateway timeout, query timeout, acquire timeout, timeout exceeded, \
         timeout after, ms timeout, servicetimeout, service timeout, timeout waiting, timeout while, \
         timeout was reached, timeout awaiting, nats timeout, operation timeout, network timeout, \
         timeout on, deadline exceeded, network error, connection error, connection failure, \
         connection failed, connection closed, connection is closed, connection terminated, \
         failed to connect, could not connect, couldn t connect, cannot connect, can t connect, \
         unable to connect, can t reach, failed to establish a new connection, \
         max retries exceeded with url, not connected, service unavailable, redis unavailable, \
         database unavailable, broker unavailable, server unavailable, upstream unavailable, \
         temporarily unavailable, try again later, please try again, please retry, internal server error, \
         bad gateway, server is busy, server busy, overloaded, server overload, upstream connect error, \
         no healthy upstream, publish failed, publish failure, failed to publish, publish confirm failed, \
         publish not confirmed, nacked by broker, nacked by the broker, message was nacked, circuit open, \
         circuit breaker, rate limit, a task was canceled, host unreachable, network unreachable, \
         server unreachable, is unreachable, fetch failed, error sending request for url, \
         unable to execute http request, ssl handshake failed, tls handshake failed",
    ),
];

/// What a message says, by the tables from the surest to the least sure.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Said {
    pub locked_out: Option<ErrorClass>,
    pub throttled: Option<ErrorClass>,
    pub by_machine: Option<ErrorClass>,
    pub by_people: Option<ErrorClass>,
}

/// Reads a message that `words` has split.
pub(crate) fn said(message: &str) -> Said {
    static TABLES: LazyLock<Lexicon> =
        LazyLock::new(|| Lexicon::new(&[LOCKED_OUT, THROTTLES, MACHINE_MESSAGES, MESSAGES]));
    // The first row of each table that the message holds a phrase of.
    let mut first: [Option<&Phrase>; 4] = [None; 4];
    for found in TABLES.all(message) {
        let first = &mut first[found.phrase.table];
        if first.is_none_or(|first| found.phrase.row < first.row) {
            *first = Some(found.phrase);
        }
    }
    let [locked_out, throttled, by_machine, by_people] =
        first.map(|phrase| phrase.map(|phrase| phrase.class));
    Said { locked_out, throttled, by_machine, by_people }
}

/// The class that the last part of a name stands for, `Unknown` when it only looks like one.
pub(crate) fn named(last_part: &str) -> Option<ErrorClass> {
    static TABLE: LazyLock<Lexicon> = LazyLock::new(|| Lexicon::new(&[NAMES]));
    let found = TABLE.all(last_part);
    let head = found.iter().max_by_key(|found| (found.end, found.phrase.words.len()))?.phrase.class;
    let about_setup = found.iter().any(|found| found.phrase.class == Configuration);
    // A `ConnectionStringFormatException` or `ConfigNotFound` is about the setup, whatever was wrong with it. Only a
    // configuration server that is away is not.
    if about_setup && head != Transient { Some(Configuration) } else { Some(head) }
}

/// The class that a whole name stands for, packages and all.
pub(crate) fn named_in_full(name: &str) -> Option<ErrorClass> {
    static TABLE: LazyLock<Lexicon> = LazyLock::new(|| Lexicon::new(&[FULL_NAMES]));
    TABLE.first_row(name)
}

/// The class that a name hints at.
pub(crate) fn named_vaguely(name: &str) -> Option<ErrorClass> {
    static TABLE: LazyLock<Lexicon> = LazyLock::new(|| Lexicon::new(&[VAGUE_NAMES]));
    TABLE.first_row(name)
}

/// How many phrases there are for a class, over all tables.
pub(crate) fn count(class: ErrorClass) -> u64 {
    let tables = [NAMES, VAGUE_NAMES, FULL_NAMES, LOCKED_OUT, THROTTLES, MACHINE_MESSAGES, MESSAGES];
    let rows = tables.into_iter().flatten().filter(|(known, _)| *known == class);
    rows.map(|(_, phrases)| phrases.split(',').count() as u64).sum()
}

type Table = &'static [(ErrorClass, &'static str)];

struct Phrase {
    words: &'static str,
    table: usize,
    row: usize,
    class: ErrorClass,
    anchored: bool,
}

struct Found<'a> {
    phrase: &'a Phrase,
    /// Where it ends in the text.
    end: usize,
}

/// Tables of phrases, ready to be looked up by their first word.
struct Lexicon {
    by_first_word: HashMap<&'static str, Vec<Phrase>>,
}

impl Lexicon {
    fn new(tables: &[Table]) -> Lexicon {
        let mut by_first_word: HashMap<&'static str, Vec<Phrase>> = HashMap::new();
        for (table, rows) in tables.iter().enumerate() {
            for (row, (class, phrases)) in rows.iter().enumerate() {
                for phrase in phrases.split(',').map(str::trim) {
                    let words = phrase.trim_start_matches('^');
                    let anchored = words.len() < phrase.len();
                    let first = words.split(' ').next().unwrap_or(words);
                    let phrase = Phrase { words, table, row, class: *class, anchored };
                    by_first_word.entry(first).or_default().push(phrase);
                }
            }
        }
        Lexicon { by_first_word }
    }

    /// Every phrase in a text that `words` has split.
    fn all(&self, text: &str) -> Vec<Found<'_>> {
        let mut found = Vec::new();
        let mut at = 0;
        for word in text.split(' ') {
            for phrase in self.by_first_word.get(word).map_or(&[][..], Vec::as_slice) {
                let rest = text[at..].strip_prefix(phrase.words);
                let whole = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
                if whole && (at == 0 || !phrase.anchored) {
                    found.push(Found { phrase, end: at + phrase.words.len() });
                }
            }
            at += word.len() + 1;
        }
        found
    }

    fn first_row(&self, text: &str) -> Option<ErrorClass> {
        self.all(text).iter().min_by_key(|found| found.phrase.row).map(|found| found.phrase.class)
    }
}

/// The lowered words of a text, one space between: camel case is split, everything but letters and digits divides.
pub(crate) fn words(text: &str) -> String {
    let mut words = String::with_capacity(text.len() + text.len() / 4);
    let mut before: Option<char> = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if !c.is_alphanumeric() {
            before = None;
            continue;
        }
        let begins = match before {
            None => true,
            // `readTimeout`, and the last capital of `JSONDecode`, which begins the next word.
            Some(b) => {
                c.is_uppercase() && (!b.is_uppercase() || rest.peek().is_some_and(|n| n.is_lowercase()))
            }
        };
        if begins && !words.is_empty() {
            words.push(' ');
        }
        words.extend(c.to_lowercase());
        before = Some(c);
    }
    words
}
