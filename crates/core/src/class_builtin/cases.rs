//! What real programs say, and what it means: (type, code, message, class). An empty code is none.
//!
//! One case is one line, whatever its length, so that the tables can be read; hence the skips of rustfmt.

mod jvm_and_python;

use jvm_and_python::{JVM, PYTHON};

use super::classify;
use crate::class::ErrorClass::{
    self, Authorization, Business, Configuration, Malformed, NotFound, Transient, Unknown, Validation,
};

type Case = (&'static str, &'static str, &'static str, ErrorClass);

fn check(cases: &[Case]) {
    let mut wrong = String::new();
    for (error_type, code, message, expected) in cases {
        let code = (!code.is_empty()).then_some(*code);
        let class = classify(error_type, code, message);
        if class != *expected {
            wrong.push_str(&format!("{class}, not {expected}: {error_type} | {code:?} | {message}\n"));
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn the_examples_of_the_requirement_documents() {
    check(SEEDS);
}

#[test]
fn java_and_kotlin() {
    check(JVM);
}

#[test]
fn python() {
    check(PYTHON);
}

#[test]
fn go() {
    check(GO);
}

#[test]
fn node() {
    check(NODE);
}

#[test]
fn dotnet() {
    check(DOTNET);
}

#[test]
fn rust() {
    check(RUST);
}

#[test]
fn ruby_php_and_elixir() {
    check(RUBY_PHP_ELIXIR);
}

#[test]
fn what_looks_like_a_class_and_is_none_or_another() {
    check(TRAPS);
}

#[test]
fn a_hostile_error_takes_bounded_time() {
    let message = "connection ".repeat(100_000);
    let error = crate::attempt::LetterError {
        error_type: "A".repeat(1_000_000),
        code: Some("::".repeat(500_000)),
        message,
        ..Default::default()
    };
    assert_eq!(crate::class::ClassRules::default().classify("jobs", &error), Unknown);
}

#[rustfmt::skip]
const SEEDS: &[Case] = &[
    ("NetworkError", "CONNECTION_TIMEOUT", "Failed to connect to payment service: Connection timed out", Transient),
    ("NetworkError", "", "", Transient),
    ("ServiceUnavailableError", "", "", Transient),
    ("ValidationError", "", "", Validation),
    ("DatabaseConnectionError", "", "connection refused to billing-db:5432", Transient),
    ("DatabaseConnectionError", "", "connection timeout to billing-db:5432", Transient),
    ("ConnectionError", "", "", Transient),
    ("TimeoutError", "", "", Transient),
    ("Unknown", "", "", Unknown),
    ("", "", "Network timeout", Transient),
    ("", "", "Service unavailable", Transient),
    ("", "", "Rate limit exceeded", Transient),
    ("", "", "Database connection error", Transient),
    ("", "", "HTTP 503", Transient),
    ("", "", "Validation error", Validation),
    ("", "", "Authorization failed", Authorization),
    ("", "", "Resource not found", NotFound),
    ("", "", "Business rule violated", Business),
    ("", "", "Malformed data", Malformed),
    ("Error", "", "invalid JSON", Malformed),
    ("Error", "", "missing fields: tenantId", Validation),
    ("Error", "", "bad UUID", Validation),
    ("Error", "", "Unsupported MIME type: image/x-foo", Validation),
    ("Error", "", "Redis unavailable", Transient),
    ("Error", "", "RabbitMQ publish failure", Transient),
    ("Error", "", "missing storage credentials", Configuration),
    ("Error", "", "invalid config", Configuration),
    ("FatalError", "", "", Unknown),
    ("Auth.TokenExpired", "", "", Authorization),
    ("auth.token_expired", "", "", Authorization),
    ("visibility_timeout", "", "", Transient),
    ("", "timeout", "", Transient),
    ("", "handler_error", "boom", Unknown),
    ("", "DEAD_LETTER", "given up", Unknown),
];

#[rustfmt::skip]
const GO: &[Case] = &[
    ("context.deadlineExceededError", "", "context deadline exceeded", Transient),
    ("*url.Error", "", "Get \"https://x\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)", Transient),
    ("*net.OpError", "", "dial tcp 10.0.0.1:5432: connect: connection refused", Transient),
    ("*net.OpError", "", "read tcp 10.0.0.1:1->10.0.0.2:2: i/o timeout", Transient),
    ("*net.DNSError", "", "lookup db: no such host", Transient),
    ("*errors.errorString", "", "sql: no rows in result set", NotFound),
    ("*fmt.wrapError", "", "load order: sql: no rows in result set", NotFound),
    ("*fmt.wrapError", "", "create order: validate: dial tcp 10.0.0.1:80: connect: connection refused", Transient),
    ("*errors.errorString", "", "record not found", NotFound),
    ("*json.SyntaxError", "", "invalid character '<' looking for beginning of value", Malformed),
    ("*errors.errorString", "", "invalid character 'h' looking for beginning of value", Malformed),
    ("*errors.errorString", "", "unexpected end of JSON input", Malformed),
    ("*json.UnmarshalTypeError", "", "json: cannot unmarshal string into Go struct field Order.id of type int", Validation),
    ("*errors.errorString", "", "json: unknown field \"colour\"", Validation),
    ("*strconv.NumError", "", "strconv.Atoi: parsing \"x\": invalid syntax", Validation),
    ("validator.ValidationErrors", "", "Key: 'Order.Email' Error:Field validation for 'Email' failed on the 'required' tag", Validation),
    ("*pgconn.PgError", "23505", "ERROR: duplicate key value violates unique constraint \"x\" (SQLSTATE 23505)", Validation),
    ("*pq.Error", "", "pq: could not serialize access due to concurrent update", Transient),
    ("*pgconn.PgError", "", "FATAL: the database system is starting up (SQLSTATE 57P03)", Transient),
    ("*status.Error", "", "rpc error: code = Unavailable desc = connection error: desc = \"transport: x\"", Transient),
    ("*status.Error", "", "rpc error: code = PermissionDenied desc = no", Authorization),
    ("*status.Error", "", "rpc error: code = NotFound desc = order 7", NotFound),
    ("*errors.errorString", "", "nats: no responders available for request", Transient),
    ("*amqp.Error", "", "Exception (504) Reason: \"channel/connection is not open\"", Transient),
    ("x509.UnknownAuthorityError", "", "x509: certificate signed by unknown authority", Configuration),
    ("*errors.errorString", "", "proto: cannot parse invalid wire-format data", Malformed),
    ("*errors.errorString", "", "http: named cookie not present", Unknown),
    ("runtime.boundsError", "", "index out of range [3] with length 3", Unknown),
    ("*http.httpError", "", "net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting headers)", Transient),
    ("*errors.errorString", "", "driver: bad connection", Transient),
    ("*errors.errorString", "", "redis: connection pool timeout", Transient),
    ("*errors.errorString", "", "write tcp 10.0.0.1:1->10.0.0.2:2: write: broken pipe", Transient),
    ("*errors.errorString", "", "http2: client connection lost", Transient),
    ("*errors.errorString", "", "net/http: TLS handshake timeout", Transient),
    ("*errors.errorString", "", "kafka: client has run out of available brokers to talk to", Transient),
    ("*errors.errorString", "", "invalid UUID length: 3", Validation),
    ("*time.ParseError", "", "parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"", Validation),
    ("*fs.PathError", "", "open /etc/app/config.yaml: no such file or directory", Configuration),
    ("*errors.errorString", "", "unexpected status code: 503", Transient),
    ("*errors.errorString", "", "unexpected status 404 Not Found", NotFound),
    ("*googleapi.Error", "403", "googleapi: Error 403: Rate Limit Exceeded, rateLimitExceeded", Transient),
    ("*smithy.OperationError", "", "operation error S3: GetObject, https response error StatusCode: 404, RequestID: X, NoSuchKey: ", NotFound),
    ("*smithy.OperationError", "", "operation error DynamoDB: PutItem, exceeded maximum number of attempts, 3, https response error StatusCode: 400, RequestID: X, ThrottlingException: Rate exceeded", Transient),
];

#[rustfmt::skip]
const NODE: &[Case] = &[
    ("Error", "ECONNRESET", "read ECONNRESET", Transient),
    ("Error", "ETIMEDOUT", "connect ETIMEDOUT 10.0.0.1:443", Transient),
    ("Error", "", "connect ECONNREFUSED 127.0.0.1:5432", Transient),
    ("Error", "EAI_AGAIN", "getaddrinfo EAI_AGAIN redis", Transient),
    ("ConnectTimeoutError", "UND_ERR_CONNECT_TIMEOUT", "Connect Timeout Error", Transient),
    ("TypeError", "", "fetch failed", Transient),
    ("Error", "", "socket hang up", Transient),
    ("AxiosError", "ERR_BAD_RESPONSE", "Request failed with status code 502", Transient),
    ("AxiosError", "ERR_BAD_REQUEST", "Request failed with status code 404", NotFound),
    ("AxiosError", "ERR_BAD_REQUEST", "Request failed with status code 422", Validation),
    ("AxiosError", "ERR_BAD_REQUEST", "Request failed with status code 429", Transient),
    ("AxiosError", "ECONNABORTED", "timeout of 5000ms exceeded", Transient),
    ("AxiosError", "ERR_NETWORK", "Network Error", Transient),
    ("SyntaxError", "", "Unexpected token < in JSON at position 0", Malformed),
    ("SyntaxError", "", "Unexpected token 'h', \"hello\" is not valid JSON", Malformed),
    ("SyntaxError", "", "Unexpected end of JSON input", Malformed),
    ("SyntaxError", "", "Unexpected identifier", Unknown),
    ("ZodError", "", "[{\"code\":\"invalid_type\",\"path\":[\"id\"],\"message\":\"Required\"}]", Validation),
    ("JsonWebTokenError", "", "invalid signature", Authorization),
    ("TokenExpiredError", "", "jwt expired", Authorization),
    ("PrismaClientKnownRequestError", "P2002", "Unique constraint failed on the fields: (`email`)", Validation),
    ("PrismaClientKnownRequestError", "P2025", "Record to update not found.", NotFound),
    ("PrismaClientInitializationError", "P1001", "Can't reach database server at `db:5432`", Transient),
    ("SequelizeConnectionRefusedError", "", "", Transient),
    ("SequelizeUniqueConstraintError", "", "Validation error", Validation),
    ("MongoServerSelectionError", "", "connect ECONNREFUSED", Transient),
    ("MongoServerError", "11000", "E11000 duplicate key error collection: shop.orders", Validation),
    ("MaxRetriesPerRequestError", "", "Reached the max retries per request limit (which is 20).", Transient),
    ("ReplyError", "", "WRONGPASS invalid username-password pair or user is disabled.", Configuration),
    ("Error", "ENOENT", "ENOENT: no such file or directory, open '/etc/app/config.json'", Configuration),
    ("Error", "", "Cannot find module './handlers/order'", Configuration),
    ("Error", "", "Environment variable STRIPE_KEY is not set", Configuration),
    ("Error", "CERT_HAS_EXPIRED", "certificate has expired", Configuration),
    ("Error", "", "ValidationError: email not found", Validation),
    ("Error", "", "14 UNAVAILABLE: No connection established", Transient),
    ("Error", "", "5 NOT_FOUND: order 7", NotFound),
    ("TypeError", "", "Cannot read properties of undefined (reading 'id')", Unknown),
    ("NoSuchKey", "", "The specified key does not exist.", NotFound),
    ("CredentialsProviderError", "", "Could not load credentials from any providers", Configuration),
    ("FetchError", "", "request to https://x failed, reason: connect ECONNREFUSED 10.0.0.1:443", Transient),
    ("FetchError", "", "invalid json response body at https://x reason: Unexpected token < in JSON at position 0", Unknown),
    ("HTTPError", "ERR_NON_2XX_3XX_RESPONSE", "Response code 503 (Service Unavailable)", Transient),
    ("HTTPError", "", "Response code 404 (Not Found)", NotFound),
    ("AbortError", "", "This operation was aborted", Unknown),
    ("TimeoutError", "", "The operation was aborted due to timeout", Transient),
    ("QueryFailedError", "23505", "duplicate key value violates unique constraint", Validation),
    ("QueryFailedError", "", "deadlock detected", Transient),
    ("EntityNotFoundError", "", "Could not find any entity of type \"Order\"", NotFound),
    ("CastError", "", "Cast to ObjectId failed for value \"x\"", Validation),
    ("ValidationError", "", "order validation failed: total: Path `total` is required.", Validation),
    ("SequelizeForeignKeyConstraintError", "", "", Unknown),
    ("SequelizeDatabaseError", "", "column \"x\" does not exist", Configuration),
    ("StripeCardError", "card_declined", "Your card has insufficient funds.", Business),
    ("StripeInvalidRequestError", "resource_missing", "No such customer: 'cus_1'", NotFound),
    ("StripeAuthenticationError", "", "Invalid API Key provided: sk_test", Authorization),
    ("StripeConnectionError", "", "An error occurred with our connection to Stripe.", Transient),
    ("IllegalOperationError", "", "Server has closed the connection.", Transient),
    ("KafkaJSConnectionError", "", "Connection error: connect ECONNREFUSED", Transient),
    ("KafkaJSNumberOfRetriesExceeded", "", "The request timed out", Transient),
    ("BadRequestError", "", "", Validation),
    ("UnprocessableEntityException", "", "", Validation),
    ("ForbiddenException", "", "Forbidden resource", Authorization),
    ("RangeError", "", "Maximum call stack size exceeded", Unknown),
    ("ReferenceError", "", "foo is not defined", Unknown),
    ("AjvValidationError", "", "data must have required property 'id'", Validation),
    ("Error", "", "data/id must match format \"uuid\"", Validation),
    ("Error", "", "Invalid `prisma.order.create()` invocation", Unknown),
    ("Error", "", "Config validation error: \"DATABASE_URL\" is required", Configuration),
    ("Error", "", "getaddrinfo ENOTFOUND api.example.com", Transient),
    ("Error", "", "Client network socket disconnected before secure TLS connection was established", Transient),
    ("Error", "EPIPE", "write EPIPE", Transient),
    ("Error", "", "Channel closed by server: 406 (PRECONDITION-FAILED) with message \"PRECONDITION_FAILED - inequivalent arg 'durable'\"", Configuration),
    ("Error", "", "Timeout - Async callback was not invoked within the 5000 ms timeout", Transient),
];

#[rustfmt::skip]
const DOTNET: &[Case] = &[
    ("System.Net.Http.HttpRequestException", "", "Response status code does not indicate success: 404 (Not Found).", NotFound),
    ("System.Net.Http.HttpRequestException", "", "Response status code does not indicate success: 503 (Service Unavailable).", Transient),
    ("System.Net.Http.HttpRequestException", "", "No connection could be made because the target machine actively refused it.", Transient),
    ("System.Net.Http.HttpRequestException", "401", "", Authorization),
    ("System.TimeoutException", "", "The operation has timed out.", Transient),
    ("System.Threading.Tasks.TaskCanceledException", "", "A task was canceled.", Transient),
    ("System.Net.Sockets.SocketException", "", "An existing connection was forcibly closed by the remote host.", Transient),
    ("System.Text.Json.JsonException", "", "'<' is an invalid start of a value. Path: $ | LineNumber: 0", Malformed),
    ("System.Text.Json.JsonException", "", "The JSON value could not be converted to System.Guid. Path: $.id", Validation),
    ("Newtonsoft.Json.JsonReaderException", "", "Unexpected character encountered while parsing value: <. Path '', line 0", Malformed),
    ("FluentValidation.ValidationException", "", "Validation failed: \n -- Email: 'Email' must not be empty.", Validation),
    ("System.FormatException", "", "Guid should contain 32 digits with 4 dashes", Validation),
    ("System.UnauthorizedAccessException", "", "Access to the path is denied.", Authorization),
    ("System.Collections.Generic.KeyNotFoundException", "", "The given key 'x' was not present in the dictionary.", Unknown),
    ("System.InvalidOperationException", "", "Sequence contains no elements", Unknown),
    ("Microsoft.Data.SqlClient.SqlException", "1205", "Transaction (Process ID 52) was deadlocked on lock resources", Transient),
    ("Microsoft.Data.SqlClient.SqlException", "547", "The INSERT statement conflicted with the FOREIGN KEY constraint", Unknown),
    ("Microsoft.Data.SqlClient.SqlException", "", "Login failed for user 'app'.", Configuration),
    ("Microsoft.EntityFrameworkCore.DbUpdateConcurrencyException", "", "", Transient),
    ("Npgsql.PostgresException", "53300", "sorry, too many clients already", Transient),
    ("RabbitMQ.Client.Exceptions.BrokerUnreachableException", "", "None of the specified endpoints were reachable", Transient),
    ("Polly.CircuitBreaker.BrokenCircuitException", "", "The circuit is now open", Transient),
    ("Acme.Domain.DomainException", "", "An order needs a line", Business),
    ("System.NullReferenceException", "", "Object reference not set to an instance of an object.", Unknown),
    ("System.Net.WebException", "", "The remote server returned an error: (404) Not Found.", NotFound),
    ("System.Net.WebException", "", "Unable to connect to the remote server", Transient),
    ("System.IO.IOException", "", "Unable to read data from the transport connection: Connection reset by peer.", Transient),
    ("System.IO.FileNotFoundException", "", "Could not find file '/app/appsettings.json'.", Configuration),
    ("System.OperationCanceledException", "", "The operation was canceled.", Unknown),
    ("System.ArgumentNullException", "", "Value cannot be null. (Parameter 'order')", Unknown),
    ("System.ComponentModel.DataAnnotations.ValidationException", "", "The Email field is required.", Validation),
    ("System.Xml.XmlException", "", "Root element is missing.", Malformed),
    ("System.Security.Authentication.AuthenticationException", "", "The remote certificate is invalid according to the validation procedure", Configuration),
    ("Azure.RequestFailedException", "", "Service request failed.\nStatus: 403 (Forbidden)", Authorization),
    ("Azure.Messaging.ServiceBus.ServiceBusException", "", "The operation did not complete within the allocated time (ServiceTimeout)", Transient),
    ("Grpc.Core.RpcException", "", "Status(StatusCode=\"Unavailable\", Detail=\"Error connecting to subchannel.\")", Transient),
    ("StackExchange.Redis.RedisConnectionException", "", "It was not possible to connect to the redis server(s).", Transient),
    ("StackExchange.Redis.RedisTimeoutException", "", "Timeout performing GET order:1", Transient),
    ("MassTransit.RequestTimeoutException", "", "Timeout waiting for response", Transient),
    ("Refit.ApiException", "", "Response status code does not indicate success: 422 (Unprocessable Entity).", Validation),
    ("System.IndexOutOfRangeException", "", "Index was outside the bounds of the array.", Unknown),
];

#[rustfmt::skip]
const RUST: &[Case] = &[
    ("reqwest::Error", "", "error sending request for url (https://x/): operation timed out", Transient),
    ("reqwest::Error", "", "HTTP status client error (404 Not Found) for url (https://x/)", NotFound),
    ("reqwest::Error", "", "error decoding response body: expected value at line 1 column 1", Unknown),
    ("hyper::Error", "", "connection closed before message completed", Transient),
    ("tokio::time::error::Elapsed", "", "deadline has elapsed", Transient),
    ("sqlx::Error", "", "pool timed out while waiting for an open connection", Transient),
    ("sqlx::Error", "", "no rows returned by a query that expected to return at least one row", NotFound),
    ("sqlx::Error", "", "error returned from database: duplicate key value violates unique constraint \"x\"", Validation),
    ("std::io::Error", "", "Connection reset by peer (os error 104)", Transient),
    ("std::io::Error", "", "Permission denied (os error 13)", Authorization),
    ("std::io::Error", "", "stream did not contain valid UTF-8", Malformed),
    ("io::ErrorKind::ConnectionRefused", "", "", Transient),
    ("serde_json::Error", "", "expected value at line 1 column 1", Malformed),
    ("serde_json::error::Error", "", "missing field `id` at line 1 column 2", Validation),
    ("serde_json::Error", "", "invalid type: string \"a\", expected u32 at line 1 column 8", Validation),
    ("serde_json::Error", "", "EOF while parsing a value at line 1 column 0", Malformed),
    ("core::str::Utf8Error", "", "invalid utf-8 sequence of 1 bytes from index 1", Malformed),
    ("uuid::Error", "", "invalid character: expected an optional prefix of `urn:uuid:` followed by [0-9a-fA-F-], found `x` at 1", Validation),
    ("prost::DecodeError", "", "failed to decode Protobuf message: invalid wire type", Malformed),
    ("std::num::ParseIntError", "", "invalid digit found in string", Validation),
    ("std::env::VarError", "", "environment variable not found", Configuration),
    ("lapin::Error", "", "IO error: Connection refused (os error 111)", Transient),
    ("panic", "", "internal error: entered unreachable code", Unknown),
    ("anyhow::Error", "", "something went wrong", Unknown),
    ("tonic::Status", "Unavailable", "status: Unavailable, message: \"tcp connect error\"", Transient),
    ("tokio_postgres::Error", "40001", "db error: ERROR: could not serialize access", Transient),
    ("rusqlite::Error", "", "UNIQUE constraint failed: orders.id", Validation),
    ("diesel::result::Error::NotFound", "", "Record not found", NotFound),
    ("redis::RedisError", "", "Connection refused (os error 111)", Transient),
    ("rdkafka::error::KafkaError", "", "Message production error: MessageTimedOut (Local: Message timed out)", Transient),
    ("async_nats::error::Error<PublishErrorKind>", "", "publish failed", Transient),
    ("rmp_serde::decode::Error", "", "invalid type: integer `1`, expected a string", Validation),
    ("url::ParseError", "", "relative URL without a base", Validation),
    ("serde_json::Error", "", "unknown variant `X`, expected one of `A`, `B`", Validation),
    ("config::ConfigError", "", "missing field `database_url`", Configuration),
    ("jsonwebtoken::errors::Error", "", "ExpiredSignature", Authorization),
];

#[rustfmt::skip]
const RUBY_PHP_ELIXIR: &[Case] = &[
    ("Net::ReadTimeout", "", "Net::ReadTimeout with #<TCPSocket:(closed)>", Transient),
    ("Errno::ECONNREFUSED", "", "Failed to open TCP connection to x:80", Transient),
    ("Faraday::ConnectionFailed", "", "", Transient),
    ("Faraday::ResourceNotFound", "", "the server responded with status 404", NotFound),
    ("ActiveRecord::RecordNotFound", "", "Couldn't find Order with 'id'=7", NotFound),
    ("ActiveRecord::RecordInvalid", "", "Validation failed: Email can't be blank", Validation),
    ("ActiveRecord::RecordNotUnique", "", "PG::UniqueViolation: ERROR: duplicate key value", Validation),
    ("ActiveRecord::Deadlocked", "", "", Transient),
    ("ActiveRecord::StaleObjectError", "", "Attempted to update a stale object: Order.", Transient),
    ("ActiveRecord::ConnectionNotEstablished", "", "", Transient),
    ("PG::ConnectionBad", "", "could not connect to server", Transient),
    ("Redis::CannotConnectError", "", "", Transient),
    ("JSON::ParserError", "", "unexpected token at '<html>'", Malformed),
    ("Encoding::InvalidByteSequenceError", "", "", Malformed),
    ("ActionController::ParameterMissing", "", "param is missing or the value is empty: order", Validation),
    ("Pundit::NotAuthorizedError", "", "", Authorization),
    ("KeyError", "", "key not found: \"STRIPE_KEY\"", Configuration),
    ("NoMethodError", "", "undefined method `id' for nil:NilClass", Unknown),
    ("GuzzleHttp\\Exception\\ConnectException", "", "cURL error 28: Operation timed out after 5001 milliseconds", Transient),
    ("GuzzleHttp\\Exception\\ClientException", "", "Client error: `GET https://x` resulted in a `404 Not Found` response", NotFound),
    ("JsonException", "", "Syntax error", Malformed),
    ("PDOException", "", "SQLSTATE[HY000] [2002] Connection refused", Transient),
    ("PDOException", "23000", "SQLSTATE[23000]: Integrity constraint violation: 1062 Duplicate entry 'x' for key 'PRIMARY'", Validation),
    ("Illuminate\\Database\\Eloquent\\ModelNotFoundException", "", "No query results for model [App\\Order] 7", NotFound),
    ("Illuminate\\Validation\\ValidationException", "", "The given data was invalid.", Validation),
    ("Symfony\\Component\\HttpKernel\\Exception\\NotFoundHttpException", "", "", NotFound),
    ("Ecto.NoResultsError", "", "expected at least one result but got none", NotFound),
    ("DBConnection.ConnectionError", "", "tcp recv: closed", Transient),
    ("Jason.DecodeError", "", "unexpected byte at position 0: 0x3C (\"<\")", Malformed),
    ("Ecto.InvalidChangesetError", "", "", Validation),
    ("", "", "** (DBConnection.ConnectionError) connection not available", Transient),
    ("FunctionClauseError", "", "no function clause matching in Orders.ship/1", Unknown),
    ("Timeout::Error", "", "execution expired", Transient),
    ("RestClient::ServiceUnavailable", "", "503 Service Unavailable", Transient),
    ("RestClient::NotFound", "", "404 Not Found", NotFound),
    ("Mongoid::Errors::DocumentNotFound", "", "", NotFound),
    ("OpenSSL::SSL::SSLError", "", "SSL_connect returned=1 errno=0 state=error: certificate verify failed", Configuration),
    ("Aws::S3::Errors::NoSuchKey", "", "", NotFound),
    ("Aws::SQS::Errors::AccessDenied", "", "", Authorization),
    ("Sidekiq::Shutdown", "", "", Unknown),
    ("ArgumentError", "", "invalid date", Validation),
    ("Illuminate\\Auth\\AuthenticationException", "", "Unauthenticated.", Authorization),
    ("Illuminate\\Http\\Client\\ConnectionException", "", "cURL error 6: Could not resolve host: x", Transient),
    ("Illuminate\\Database\\QueryException", "HY000", "SQLSTATE[HY000]: General error: 2006 MySQL server has gone away", Transient),
    ("Illuminate\\Http\\Client\\RequestException", "", "HTTP request returned status code 500", Transient),
    ("Doctrine\\DBAL\\Exception\\UniqueConstraintViolationException", "", "", Validation),
    ("Doctrine\\DBAL\\Exception\\DeadlockException", "", "", Transient),
    ("Mint.TransportError", "", "connection refused", Transient),
    ("Postgrex.Error", "", "ERROR 23505 (unique_violation) duplicate key value violates unique constraint", Validation),
    ("Elixir.MatchError", "", "no match of right hand side value: nil", Unknown),
];

#[rustfmt::skip]
const TRAPS: &[Case] = &[
    ("Error", "", "order 404 failed", Unknown),
    ("Error", "", "took 500 ms", Unknown),
    ("Error", "", "invoice 503 was sent to rule 401", Unknown),
    ("Error", "ACME-404", "nope", Unknown),
    ("Error", "ORDER_503", "nope", Unknown),
    ("HttpTimeoutConfigurationException", "", "", Configuration),
    ("ConnectionStringFormatException", "", "", Configuration),
    ("ConfigNotFoundException", "", "", Configuration),
    ("ConfigServiceUnavailableException", "", "", Transient),
    ("TimeoutValidationError", "", "", Validation),
    ("ValidationTimeoutException", "", "", Transient),
    ("AuthorizationTimeoutException", "", "", Transient),
    ("ValidationError", "", "email not found", Validation),
    ("ValidationError", "503", "connection refused is no state", Validation),
    ("", "", "Validation failed: email not found", Validation),
    ("", "", "field connection_timeout is required", Validation),
    ("", "", "connectionTimeout: must be positive", Validation),
    ("", "", "Token is invalid", Authorization),
    ("", "", "Host not found", Transient),
    ("ProductUnavailableException", "", "", Unknown),
    ("LimitExceededException", "", "", Unknown),
    ("NonRetryableException", "", "", Unknown),
    ("InvalidStateError", "", "", Unknown),
    ("com.acme.timeout.OrderException", "", "x", Unknown),
    ("com.acme.validation.OrderRejected", "", "x", Unknown),
    ("smtplib.SMTPDataError", "550", "mailbox gone", Unknown),
    ("java.io.FileNotFoundException", "", "config.yaml (No such file or directory)", Configuration),
    ("", "", "", Unknown),
    ("💥", "💥", "Ünïcödé ’ message", Unknown),
    ("", "", "upstream request timeout", Transient),
    ("", "SLOW_DOWN", "", Transient),
    ("", "RATE_LIMITED", "", Transient),
    ("", "USER_NOT_FOUND", "", NotFound),
    ("", "INVALID_PAYLOAD", "", Validation),
    ("", "MALFORMED_JSON", "", Malformed),
    ("", "E_INSUFFICIENT_FUNDS", "", Business),
    ("", "CONFIG_ERROR", "", Configuration),
    ("", "UNAUTHENTICATED", "", Authorization),
    ("", "DEADLINE_EXCEEDED", "", Transient),
    ("", "INTERNAL", "", Unknown),
    ("", "ERR_INVALID_ARG_TYPE", "The \"path\" argument must be of type string", Unknown),
    ("", "PAYLOAD_TOO_LARGE", "", Validation),
    ("", "DB_CONNECTION_FAILED", "", Transient),
    ("PaymentError", "", "payment 503 could not be captured", Unknown),
    ("Error", "", "Customer 429 has 500 open orders", Unknown),
    ("Error", "", "session timeout must be between 5 and 60", Validation),
    ("Error", "", "connection id 7 unknown", Unknown),
    ("Error", "", "The network of shop 7 is closed on Sundays", Unknown),
    ("Error", "", "Order cannot be shipped: status is cancelled", Unknown),
    ("Error", "", "Refund exceeds captured amount", Unknown),
    ("Error", "", "unauthorised refund: insufficient funds", Business),
    ("OrderRejected", "", "Business rule: minimum order value is 10", Business),
    ("SchemaMismatchError", "", "", Validation),
    ("UnsupportedMimeTypeError", "", "", Validation),
    ("InvalidUuidError", "", "", Validation),
    ("RedisUnavailableError", "", "", Transient),
    ("PublishError", "", "RabbitMQ publish failed", Transient),
    ("MissingCredentialsError", "", "", Configuration),
    ("HttpError", "500", "", Transient),
    ("HttpError", "404", "", NotFound),
    ("ApiError", "HTTP_429", "", Transient),
    ("ApiError", "E503", "", Transient),
    ("UnknownTimeZoneError", "", "Mars/Phobos", Unknown),
    ("DeadlineMissedException", "", "", Unknown),
    ("ConnectionRequestValidationException", "", "", Validation),
    ("ParseTimeoutError", "", "", Transient),
    ("AuthenticationServiceUnavailableException", "", "", Transient),
    ("TransientValidationError", "", "", Validation),
    ("NotFoundHandlerMissing", "", "", NotFound),
];
