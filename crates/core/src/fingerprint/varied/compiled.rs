//! Failures of programs in Go, Rust, .NET and Elixir, wrapped by words, by types and by exits.

use super::check;

#[test]
fn errors_of_go_rust_dotnet_and_elixir_meet_however_they_are_wrapped() {
    check(FAILURES);
}

const FAILURES: &str = r##"
## go-mysql-dup: mysql
### shift.booked | *mysql.MySQLError | 1062
book shift 77: Error 1062 (23000): Duplicate entry '12-2026-03-01' for key 'shifts.uq_employee_day'
| goroutine 81 [running]:
| runtime/debug.Stack()
| 	/usr/local/go/src/runtime/debug/stack.go:26 +0x5e
| example.org/roster/internal/worker.report(0xc0001)
| 	/src/internal/worker/report.go:20 +0x40
### shift.booked | *fmt.wrapError | 
handle: book shift 12: Error 1062: Duplicate entry '7-2026-03-02' for key 'shifts.uq_employee_day'
| goroutine 12 [running]:
| runtime/debug.Stack()
| 	/usr/local/go/src/runtime/debug/stack.go:26 +0x5e
| example.org/roster/internal/worker.report(0xc0001)
| 	/src/internal/worker/report.go:22 +0x40
## go-mysql-fk: fk
### shift.booked | *mysql.MySQLError | 1452
book shift 77: Error 1452 (23000): Cannot add or update a child row: a foreign key constraint fails (`roster`.`shifts`, CONSTRAINT `fk_shift_site` FOREIGN KEY (`site_id`) REFERENCES `sites` (`id`))
| goroutine 81 [running]:
| runtime/debug.Stack()
| 	/usr/local/go/src/runtime/debug/stack.go:26 +0x5e
| example.org/roster/internal/worker.report(0xc0001)
| 	/src/internal/worker/report.go:20 +0x40
## go-nil-map: panic
### shift.closed | runtime.plainError | 
assignment to entry in nil map
| panic: assignment to entry in nil map [recovered]
| 	panic: assignment to entry in nil map
| 
| goroutine 7 [running]:
| example.org/roster/internal/worker.(*Pool).run.func1.1()
| 	/src/internal/worker/pool.go:51 +0x1a5
| panic({0x6f2a40?, 0x7c81d0?})
| 	/usr/local/go/src/runtime/panic.go:770 +0x132
| example.org/roster/internal/tally.(*Tally).add(...)
| 	/src/internal/tally/tally.go:31
| example.org/roster/internal/tally.(*Tally).Close(0xc000014090)
| 	/src/internal/tally/tally.go:44 +0x85
### shift.closed | runtime.Error | 
panic: assignment to entry in nil map
| goroutine 7 [running]:
| panic({0x6f2a40?, 0x7c81d0?})
| 	/usr/local/go/src/runtime/panic.go:785 +0x132
| example.org/roster/internal/tally.(*Tally).add(...)
| 	/src/internal/tally/tally.go:33
| example.org/roster/internal/tally.(*Tally).Close(0xc000014090)
| 	/src/internal/tally/tally.go:46 +0x85
## go-http-401: status
### badge.synced | *errors.errorString | 
sync badge 7: hr api: unexpected status 401 Unauthorized: {"error":"token expired"}
| sync badge 7: hr api: unexpected status 401 Unauthorized: {"error":"token expired"}
| example.org/roster/internal/hr.(*Client).do
| 	/src/internal/hr/client.go:60
| example.org/roster/internal/hr.(*Client).Badge
| 	/src/internal/hr/badge.go:22
### badge.synced | *hr.APIError | 401
sync badge 9: hr api: unexpected status 401 Unauthorized
| example.org/roster/internal/hr.(*Client).do
| 	/src/internal/hr/client.go:64
| example.org/roster/internal/hr.(*Client).Badge
| 	/src/internal/hr/badge.go:22
## go-http-500: status
### badge.synced | *hr.APIError | 500
sync badge 9: hr api: unexpected status 500 Internal Server Error
| example.org/roster/internal/hr.(*Client).do
| 	/src/internal/hr/client.go:64
| example.org/roster/internal/hr.(*Client).Badge
| 	/src/internal/hr/badge.go:22
## go-json-type: json
### event.read | *json.UnmarshalTypeError | 
decode event: json: cannot unmarshal string into Go struct field Event.payload.amount of type int64
### event.read | *fmt.wrapError | 
worker 3: decode event: json: cannot unmarshal string into Go struct field Event.payload.amount of type int64
### event.read | json.UnmarshalTypeError | 
json: cannot unmarshal string into Go struct field Event.payload.amount of type int64
## go-json-type-other: json
### event.read | *json.UnmarshalTypeError | 
decode event: json: cannot unmarshal number into Go struct field Event.payload.note of type string
## go-tls: x509
### event.sent | *tls.CertificateVerificationError | 
send event: Post "https://sink.example/v1/events": tls: failed to verify certificate: x509: certificate signed by unknown authority
### event.sent | *url.Error | 
Post "https://sink.example/v1/events": tls: failed to verify certificate: x509: certificate signed by unknown authority
## rs-sqlx-dup: sqlx chain, bare
### plot.sold | sqlx::Error | 23505
error returned from database: duplicate key value violates unique constraint "plots_number_key"
|    0: estated::store::Plots::insert::{{closure}}
|              at /build/estated/src/store.rs:41:9
|    1: estated::sell::sell::{{closure}}
|              at /build/estated/src/sell.rs:12:5
### plot.sold | anyhow::Error | 
cannot sell plot 77
| cannot sell plot 77
| 
| Caused by:
|     0: insert plot
|     1: error returned from database: duplicate key value violates unique constraint "plots_number_key"
|     2: duplicate key value violates unique constraint "plots_number_key"
| 
| Stack backtrace:
|    0: anyhow::error::<impl core::convert::From<E> for anyhow::Error>::from
|              at /usr/local/cargo/registry/src/index.crates.io-6f17d22bba15001f/anyhow-1.0.86/src/backtrace.rs:27:14
|    1: estated::store::Plots::insert::{{closure}}
|              at /build/estated/src/store.rs:44:9
## rs-sqlx-pool: pool
### plot.sold | sqlx::Error | 
pool timed out while waiting for an open connection
|    0: estated::store::Plots::insert::{{closure}}
|              at /build/estated/src/store.rs:41:9
### plot.sold | PoolTimedOut | 
pool timed out while waiting for an open connection
|    0: estated::store::Plots::find::{{closure}}
|              at /build/estated/src/store.rs:91:9
## rs-panic-index: panic
### plot.drawn | panic | 
index out of bounds: the len is 3 but the index is 3
| thread 'worker-2' panicked at src/draw.rs:88:17:
| index out of bounds: the len is 3 but the index is 3
| stack backtrace:
|    0: rust_begin_unwind
|              at /rustc/9fc6b43126469e3858e2fe86cafb4f0fd5068869/library/std/src/panicking.rs:665:5
|    1: core::panicking::panic_fmt
|              at /rustc/9fc6b43126469e3858e2fe86cafb4f0fd5068869/library/core/src/panicking.rs:76:14
|    2: core::panicking::panic_bounds_check
|    3: estated::draw::corner
|              at ./src/draw.rs:88:17
|    4: estated::draw::outline
|              at ./src/draw.rs:60:9
### plot.drawn | panic | 
thread 'worker-7' panicked at src/draw.rs:91:17:
index out of bounds: the len is 4 but the index is 9
|    3: estated::draw::corner
|    4: estated::draw::outline
## rs-serde: missing field
### plot.read | serde_json::Error | 
missing field `area` at line 1 column 88
### plot.read | serde_json::error::Error | 
invalid event: missing field `area` at line 1 column 12
### plot.read | Error("missing field `area`", line: 1, column: 90) | 
Error("missing field `area`", line: 1, column: 90)
## rs-serde2: unknown variant
### plot.read | serde_json::Error | 
unknown variant `leased`, expected one of `free`, `sold` at line 1 column 30
## rs-reqwest: connect
### plot.valued | reqwest::Error | 
error sending request for url (https://values.example/v1/plots/77)
| error sending request for url (https://values.example/v1/plots/77)
| 
| Caused by:
|     0: client error (Connect)
|     1: tcp connect error: Connection refused (os error 111)
|     2: Connection refused (os error 111)
### plot.valued | reqwest::error::Error | 
value plot 12: error sending request for url (https://values.example/v1/plots/12): client error (Connect): tcp connect error: Connection refused (os error 111)
## ef-dup: ef chain and bare npgsql
### tag.added | Microsoft.EntityFrameworkCore.DbUpdateException | 
An error occurred while saving the entity changes. See the inner exception for details.
| Microsoft.EntityFrameworkCore.DbUpdateException: An error occurred while saving the entity changes. See the inner exception for details.
|  ---> Microsoft.Data.SqlClient.SqlException (0x80131904): Cannot insert duplicate key row in object 'dbo.Tags' with unique index 'IX_Tags_Name'. The duplicate key value is (blue).
| The statement has been terminated.
|    at Microsoft.Data.SqlClient.SqlCommand.<>c.<ExecuteDbDataReaderAsync>b__211_0(Task`1 result)
|    at System.Threading.Tasks.ContinuationResultTaskFromResultTask`2.InnerInvoke()
|    --- End of inner exception stack trace ---
|    at Microsoft.EntityFrameworkCore.Update.ReaderModificationCommandBatch.ExecuteAsync(IRelationalConnection connection, CancellationToken cancellationToken)
|    at Etikett.Tags.TagStore.AddAsync(Tag tag) in /src/Tags/TagStore.cs:line 20
|    at Etikett.Tags.TagConsumer.Consume(ConsumeContext`1 context) in /src/Tags/TagConsumer.cs:line 11
### tag.added | SqlException | 2601
Cannot insert duplicate key row in object 'dbo.Tags' with unique index 'IX_Tags_Name'. The duplicate key value is (red).
The statement has been terminated.
|    at Microsoft.Data.SqlClient.SqlConnection.OnError(SqlException exception, Boolean breakConnection, Action`1 wrapCloseInAction)
|    at Etikett.Tags.TagStore.AddAsync(Tag tag) in /src/Tags/TagStore.cs:line 24
## ef-dup-other: index
### tag.added | SqlException | 2601
Cannot insert duplicate key row in object 'dbo.Tags' with unique index 'IX_Tags_Slug'. The duplicate key value is (red).
The statement has been terminated.
|    at Microsoft.Data.SqlClient.SqlConnection.OnError(SqlException exception, Boolean breakConnection, Action`1 wrapCloseInAction)
|    at Etikett.Tags.TagStore.AddAsync(Tag tag) in /src/Tags/TagStore.cs:line 24
## sql-deadlock: victim
### tag.merged | Microsoft.Data.SqlClient.SqlException | 1205
Transaction (Process ID 71) was deadlocked on lock resources with another process and has been chosen as the deadlock victim. Rerun the transaction.
| Microsoft.Data.SqlClient.SqlException (0x80131904): Transaction (Process ID 71) was deadlocked on lock resources with another process and has been chosen as the deadlock victim. Rerun the transaction.
|    at Microsoft.Data.SqlClient.SqlCommand.ExecuteNonQueryAsync(CancellationToken cancellationToken)
|    at Etikett.Tags.TagStore.MergeAsync(Int32 from, Int32 to) in /src/Tags/TagStore.cs:line 61
| ClientConnectionId:1f33d7ac-02f5-4c34-9aee-05f4bd4b1a52
| Error Number:1205,State:51,Class:13
### tag.merged | Etikett.Tags.MergeFailedException | 
Merging 12 into 77 failed
| Etikett.Tags.MergeFailedException: Merging 12 into 77 failed
|  ---> Microsoft.Data.SqlClient.SqlException (0x80131904): Transaction (Process ID 80) was deadlocked on lock resources with another process and has been chosen as the deadlock victim. Rerun the transaction.
|    at Microsoft.Data.SqlClient.SqlCommand.ExecuteNonQueryAsync(CancellationToken cancellationToken)
|    at Etikett.Tags.TagStore.MergeAsync(Int32 from, Int32 to) in /src/Tags/TagStore.cs:line 66
|    --- End of inner exception stack trace ---
|    at Etikett.Tags.TagConsumer.Consume(ConsumeContext`1 context) in /src/Tags/TagConsumer.cs:line 31
## sql-timeout: timeout
### tag.merged | SqlException | -2
Execution Timeout Expired.  The timeout period elapsed prior to completion of the operation or the server is not responding.
|    at Microsoft.Data.SqlClient.SqlCommand.ExecuteNonQueryAsync(CancellationToken cancellationToken)
|    at Etikett.Tags.TagStore.MergeAsync(Int32 from, Int32 to) in /src/Tags/TagStore.cs:line 66
### tag.merged | Microsoft.Data.SqlClient.SqlException | 
Execution Timeout Expired.  The timeout period elapsed prior to completion of the operation or the server is not responding.
| Microsoft.Data.SqlClient.SqlException (0x80131904): Execution Timeout Expired.  The timeout period elapsed prior to completion of the operation or the server is not responding.
|  ---> System.ComponentModel.Win32Exception (258): Unknown error 258
|    at Microsoft.Data.SqlClient.SqlCommand.ExecuteNonQueryAsync(CancellationToken cancellationToken)
|    at Etikett.Tags.TagStore.MergeAsync(Int32 from, Int32 to) in /src/Tags/TagStore.cs:line 68
## http-timeout: HttpClient
### rate.fetched | System.Threading.Tasks.TaskCanceledException | 
The request was canceled due to the configured HttpClient.Timeout of 10 seconds elapsing.
| System.Threading.Tasks.TaskCanceledException: The request was canceled due to the configured HttpClient.Timeout of 10 seconds elapsing.
|  ---> System.TimeoutException: A task was canceled.
|  ---> System.Threading.Tasks.TaskCanceledException: A task was canceled.
|    at System.Threading.Tasks.TaskCompletionSourceWithCancellation`1.WaitWithCancellationAsync(CancellationToken cancellationToken)
|    --- End of inner exception stack trace ---
|    --- End of inner exception stack trace ---
|    at System.Net.Http.HttpClient.HandleFailure(Exception e, Boolean telemetryStarted, HttpResponseMessage response)
|    at Kurs.Rates.RateClient.GetAsync(String pair) in /src/Rates/RateClient.cs:line 15
### rate.fetched | TaskCanceledException | 
The request was canceled due to the configured HttpClient.Timeout of 30 seconds elapsing.
|    at System.Net.Http.HttpClient.HandleFailure(Exception e, Boolean telemetryStarted, HttpResponseMessage response)
|    at Kurs.Rates.RateClient.GetAsync(String pair) in /src/Rates/RateClient.cs:line 18
## http-cert: cert
### rate.fetched | System.Net.Http.HttpRequestException | 
The SSL connection could not be established, see inner exception.
| System.Net.Http.HttpRequestException: The SSL connection could not be established, see inner exception.
|  ---> System.Security.Authentication.AuthenticationException: The remote certificate is invalid because of errors in the certificate chain: NotTimeValid
|    at System.Net.Security.SslStream.SendAuthResetSignal(ReadOnlySpan`1 alert, ExceptionDispatchInfo exception)
|    --- End of inner exception stack trace ---
|    at System.Net.Http.ConnectHelper.EstablishSslConnectionAsync(SslClientAuthenticationOptions sslOptions)
|    at Kurs.Rates.RateClient.GetAsync(String pair) in /src/Rates/RateClient.cs:line 18
## null-ref: in app
### quote.made | System.NullReferenceException | 
Object reference not set to an instance of an object.
| System.NullReferenceException: Object reference not set to an instance of an object.
|    at Kurs.Quotes.QuoteBuilder.<>c.<Build>b__4_0(Line l) in /src/Quotes/QuoteBuilder.cs:line 30
|    at System.Linq.Enumerable.SelectListIterator`2.ToList()
|    at Kurs.Quotes.QuoteBuilder.Build(Order order) in /src/Quotes/QuoteBuilder.cs:line 28
### quote.made | NullReferenceException | 
Object reference not set to an instance of an object.
|    at Kurs.Quotes.QuoteBuilder.<>c.<Build>b__5_1(Line l) in /src/Quotes/QuoteBuilder.cs:line 33
|    at System.Linq.Enumerable.ListSelectIterator`2.ToList()
|    at Kurs.Quotes.QuoteBuilder.Build(Order order) in /src/Quotes/QuoteBuilder.cs:line 31
### quote.made | System.AggregateException | 
One or more errors occurred. (Object reference not set to an instance of an object.)
| System.AggregateException: One or more errors occurred. (Object reference not set to an instance of an object.)
|  ---> System.NullReferenceException: Object reference not set to an instance of an object.
|    at Kurs.Quotes.QuoteBuilder.<>c.<Build>b__5_1(Line l) in /src/Quotes/QuoteBuilder.cs:line 33
|    at System.Linq.Enumerable.ListSelectIterator`2.ToList()
|    --- End of inner exception stack trace ---
|    at System.Threading.Tasks.Task.Wait(Int32 millisecondsTimeout, CancellationToken cancellationToken)
## grpc: unavailable
### geo.coded | Grpc.Core.RpcException | Unavailable
Status(StatusCode="Unavailable", Detail="Error connecting to subchannel.", DebugException="System.Net.Sockets.SocketException: Connection refused")
| Grpc.Core.RpcException: Status(StatusCode="Unavailable", Detail="Error connecting to subchannel.", DebugException="System.Net.Sockets.SocketException: Connection refused")
|  ---> System.Net.Sockets.SocketException (111): Connection refused
|    at System.Net.Sockets.Socket.AwaitableSocketAsyncEventArgs.ThrowException(SocketError error, CancellationToken cancellationToken)
|    --- End of inner exception stack trace ---
|    at Grpc.Net.Client.Internal.HttpClientCallInvoker.BlockingUnaryCall[TRequest,TResponse](Method`2 method, String host, CallOptions options, TRequest request)
|    at Kurs.Geo.Locator.Locate(Address a) in /src/Geo/Locator.cs:line 12
### geo.coded | RpcException | 
Status(StatusCode="Unavailable", Detail="Error connecting to subchannel.", DebugException="System.Net.Sockets.SocketException: Connection refused")
|    at Grpc.Net.Client.Internal.HttpClientCallInvoker.BlockingUnaryCall[TRequest,TResponse](Method`2 method, String host, CallOptions options, TRequest request)
|    at Kurs.Geo.Locator.Locate(Address a) in /src/Geo/Locator.cs:line 14
## grpc-nf: not found
### geo.coded | RpcException | 
Status(StatusCode="NotFound", Detail="address not found")
|    at Grpc.Net.Client.Internal.HttpClientCallInvoker.BlockingUnaryCall[TRequest,TResponse](Method`2 method, String host, CallOptions options, TRequest request)
|    at Kurs.Geo.Locator.Locate(Address a) in /src/Geo/Locator.cs:line 14
## ex-fc: function clause
### fare.priced | FunctionClauseError | 
no function clause matching in Fares.Zone.price/2
| ** (FunctionClauseError) no function clause matching in Fares.Zone.price/2
| 
|     The following arguments were given to Fares.Zone.price/2:
| 
|         # 1
|         :ring
| 
|         # 2
|         "adult"
| 
|     (fares 0.3.1) lib/fares/zone.ex:12: Fares.Zone.price/2
|     (fares 0.3.1) lib/fares/pricer.ex:20: Fares.Pricer.perform/1
### fare.priced | FunctionClauseError | 
no function clause matching in Fares.Zone.price/2
|     (fares 0.3.2) lib/fares/zone.ex:14: Fares.Zone.price(:outer, "child")
|     (fares 0.3.2) lib/fares/pricer.ex:22: Fares.Pricer.perform/1
## ex-match: match
### fare.priced | MatchError | 
no match of right hand side value: {:error, :no_rate}
|     (fares 0.3.2) lib/fares/zone.ex:30: Fares.Zone.price/2
### fare.priced | MatchError | 
no match of right hand side value: {:error, :no_rate}
| ** (MatchError) no match of right hand side value: {:error, :no_rate}
|     (fares 0.3.2) lib/fares/zone.ex:31: Fares.Zone.price/2
## ex-match-timeout: other atom
### fare.priced | MatchError | 
no match of right hand side value: {:error, :timeout}
|     (fares 0.3.2) lib/fares/zone.ex:30: Fares.Zone.price/2
## ex-ecto-constraint: changeset
### pass.sold | Ecto.InvalidChangesetError | 
could not perform insert because changeset is invalid.

Errors

    %{number: [{"has already been taken", [constraint: :unique, constraint_name: "passes_number_index"]}]}
| ** (Ecto.InvalidChangesetError) could not perform insert because changeset is invalid.
| 
| Errors
| 
|     %{number: [{"has already been taken", [constraint: :unique, constraint_name: "passes_number_index"]}]}
| 
|     (ecto 3.11.2) lib/ecto/repo/schema.ex:356: Ecto.Repo.Schema.insert!/4
|     (fares 0.3.2) lib/fares/passes.ex:8: Fares.Passes.sell/1
### pass.sold | InvalidChangesetError | 
could not perform insert because changeset is invalid.

Errors

    %{number: [{"has already been taken", [constraint: :unique, constraint_name: "passes_number_index"]}]}
|     (ecto 3.11.2) lib/ecto/repo/schema.ex:356: Ecto.Repo.Schema.insert!/4
|     (fares 0.3.2) lib/fares/passes.ex:9: Fares.Passes.sell/1
## ex-pg-timeout: conn
### pass.sold | DBConnection.ConnectionError | 
connection not available and request was dropped from queue after 2877ms. This means requests are coming in and your connection pool cannot serve them fast enough.
|     (ecto_sql 3.11.1) lib/ecto/adapters/sql.ex:1078: Ecto.Adapters.SQL.raise_sql_call_error/1
|     (fares 0.3.2) lib/fares/passes.ex:9: Fares.Passes.sell/1
### pass.sold | DBConnection.ConnectionError | 
connection not available and request was dropped from queue after 1200ms. This means requests are coming in and your connection pool cannot serve them fast enough.
|     (ecto_sql 3.11.1) lib/ecto/adapters/sql.ex:1078: Ecto.Adapters.SQL.raise_sql_call_error/1
|     (fares 0.3.2) lib/fares/passes.ex:29: Fares.Passes.find/1
"##;
