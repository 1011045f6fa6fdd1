//! Failures of all languages in the ways that production reports them: bundled, recompiled, grouped, tripped and
//! retried.

use super::check;

#[test]
fn errors_of_all_languages_meet_and_stay_apart() {
    check(FAILURES);
}

const FAILURES: &str = r##"
## go-grpc-nf: grpc
### zone.found | *status.Error | NotFound
rpc error: code = NotFound desc = zone 77 not found
| rpc error: code = NotFound desc = zone 77 not found
| example.org/maps/internal/zones.(*Client).Find
| 	/src/internal/zones/client.go:31
| example.org/maps/internal/worker.Handle
| 	/src/internal/worker/handle.go:12
### zone.found | *fmt.wrapError | 
find zone: rpc error: code = NotFound desc = zone 12 not found
| rpc error: code = NotFound desc = zone 12 not found
| example.org/maps/internal/zones.(*Client).Find
| 	/src/internal/zones/client.go:33
| find zone
| example.org/maps/internal/worker.Handle
| 	/src/internal/worker/handle.go:14
## go-grpc-perm: grpc
### zone.found | *status.Error | PermissionDenied
rpc error: code = PermissionDenied desc = caller may not read zones
| rpc error: code = PermissionDenied desc = caller may not read zones
| example.org/maps/internal/zones.(*Client).Find
| 	/src/internal/zones/client.go:31
## go-pg: pgx
### zone.saved | *pgconn.PgError | 23505
save zone: ERROR: duplicate key value violates unique constraint "zones_name_key" (SQLSTATE 23505)
| save zone: ERROR: duplicate key value violates unique constraint "zones_name_key" (SQLSTATE 23505)
| example.org/maps/internal/store.(*Zones).Save
| 	/src/internal/store/zones.go:50
### zone.saved | *errors.joinError | 
save zone: ERROR: duplicate key value violates unique constraint "zones_name_key" (SQLSTATE 23505)
rollback: conn closed
| example.org/maps/internal/store.(*Zones).Save
| 	/src/internal/store/zones.go:52
## go-pg2: pgx
### zone.saved | *pgconn.PgError | 23503
save zone: ERROR: insert or update on table "zones" violates foreign key constraint "zones_map_id_fkey" (SQLSTATE 23503)
| example.org/maps/internal/store.(*Zones).Save
| 	/src/internal/store/zones.go:52
## node-zod: zod
### form.sent | ZodError | 
[
  {
    "code": "invalid_type",
    "expected": "string",
    "received": "undefined",
    "path": [
      "address",
      "city"
    ],
    "message": "Required"
  }
]
| ZodError: [
|   {
|     "code": "invalid_type",
|     "expected": "string",
|     "received": "undefined",
|     "path": [
|       "address",
|       "city"
|     ],
|     "message": "Required"
|   }
| ]
|     at get error [as error] (/app/node_modules/zod/lib/types.js:55:31)
|     at ZodObject.parse (/app/node_modules/zod/lib/types.js:160:22)
|     at parseForm (/app/dist/forms/parse.js:10:21)
### form.sent | ZodError | 
[{"code":"invalid_type","expected":"string","received":"undefined","path":["address","city"],"message":"Required"}]
|     at ZodObject.parse (/app/node_modules/zod/lib/types.js:160:22)
|     at parseForm (/app/dist/forms/parse.js:12:21)
## node-zod2: zod
### form.sent | ZodError | 
[{"code":"too_small","minimum":1,"type":"string","inclusive":true,"path":["name"],"message":"String must contain at least 1 character(s)"}]
|     at ZodObject.parse (/app/node_modules/zod/lib/types.js:160:22)
|     at parseForm (/app/dist/forms/parse.js:12:21)
## node-pg-timeout: pg
### form.saved | Error | 
timeout exceeded when trying to connect
| Error: timeout exceeded when trying to connect
|     at /app/node_modules/pg-pool/index.js:45:11
|     at async FormStore.save (/app/dist/forms/store.js:9:5)
### form.saved | Error | 
timeout exceeded when trying to connect
|     at /app/node_modules/pg-pool/index.js:45:11
|     at async FormStore.save (/app/dist/forms/store.js:12:5)
## node-heap: enoent
### form.exported | Error | ENOENT
ENOENT: no such file or directory, open '/tmp/exports/77/form.xlsx'
| Error: ENOENT: no such file or directory, open '/tmp/exports/77/form.xlsx'
|     at async open (node:internal/fs/promises:639:25)
|     at async exportForm (/app/dist/forms/export.js:30:16) {
|   errno: -2,
|   code: 'ENOENT',
|   syscall: 'open',
|   path: '/tmp/exports/77/form.xlsx'
| }
### form.exported | Error | ENOENT
Error: ENOENT: no such file or directory, open '/tmp/exports/9a/list.csv'
|     at async exportForm (/app/dist/forms/export.js:33:16)
## net-masstransit: mt
### order.split | MassTransit.RequestTimeoutException | 
Timeout waiting for response, RequestId: 00010000-ac11-0242-7712-08dc0a
| MassTransit.RequestTimeoutException: Timeout waiting for response, RequestId: 00010000-ac11-0242-7712-08dc0a
|    at MassTransit.Clients.ResponseHandlerConnectHandle`1.GetTask()
|    at Delning.Orders.SplitConsumer.Consume(ConsumeContext`1 context) in /src/Orders/SplitConsumer.cs:line 20
### order.split | RequestTimeoutException | 
Timeout waiting for response, RequestId: 00020000-ac11-0242-1111-08dc0b
|    at MassTransit.Clients.ResponseHandlerConnectHandle`1.GetTask()
|    at Delning.Orders.SplitConsumer.Consume(ConsumeContext`1 context) in /src/Orders/SplitConsumer.cs:line 24
## net-keynotfound: dict
### order.split | System.Collections.Generic.KeyNotFoundException | 
The given key 'DE-BY' was not present in the dictionary.
|    at System.Collections.Generic.Dictionary`2.get_Item(TKey key)
|    at Delning.Orders.Regions.Of(String code) in /src/Orders/Regions.cs:line 20
### order.split | KeyNotFoundException | 
The given key 'AT-9' was not present in the dictionary.
|    at System.Collections.Generic.Dictionary`2.get_Item(TKey key)
|    at Delning.Orders.Regions.Of(String code) in /src/Orders/Regions.cs:line 22
## rb-sidekiq: argument
### note.sent | ArgumentError | 
wrong number of arguments (given 1, expected 2)
| /app/app/mailers/note_mailer.rb:5:in `note'
| /app/app/workers/note_worker.rb:9:in `perform'
### note.sent | ArgumentError | 
wrong number of arguments (given 1, expected 2)
| /app/app/mailers/note_mailer.rb:5:in 'NoteMailer#note'
| /app/app/workers/note_worker.rb:9:in 'NoteWorker#perform'
## rb-key: keyerror
### note.sent | KeyError | 
key not found: "locale"
| /app/app/workers/note_worker.rb:7:in `fetch'
| /app/app/workers/note_worker.rb:7:in `perform'
### note.sent | KeyError | 
key not found: "locale" (KeyError)
| /app/app/workers/note_worker.rb:8:in 'Hash#fetch'
| /app/app/workers/note_worker.rb:8:in 'NoteWorker#perform'
## rb-aws: aws
### note.stored | Aws::S3::Errors::AccessDenied | 
Access Denied
| /usr/local/bundle/gems/aws-sdk-core-3.191.0/lib/seahorse/client/plugins/raise_response_errors.rb:17:in `call'
| /app/app/services/archive.rb:8:in `store'
### note.stored | AccessDenied | 
Access Denied (Aws::S3::Errors::AccessDenied)
| /app/app/services/archive.rb:9:in 'Archive#store'
## php-json: json
### feed.read | JsonException | 4
Syntax error
| #0 /srv/app/src/Feed/Reader.php(20): json_decode('{"items": [', true, 512, 4194304)
| #1 /srv/app/src/Feed/Import.php(31): App\Feed\Reader->read('{"items": [')
### feed.read | JsonException | 
Syntax error
| #0 /srv/app/src/Feed/Reader.php(22): json_decode('<html>', true, 512, 4194304)
| #1 /srv/app/src/Command/Import.php(30): App\Feed\Reader->read('<html>')
## php-type: typed property
### feed.read | TypeError | 
Cannot assign null to property App\Feed\Item::$title of type string
| #0 /srv/app/src/Feed/Reader.php(30): App\Feed\Item->fill(Array)
| #1 /srv/app/src/Feed/Import.php(31): App\Feed\Reader->read('{"items": [')
## ex-key: keyerror struct
### ping.sent | KeyError | 
key :url not found in: %Ping.Target{id: 7, name: "x"}
| ** (KeyError) key :url not found in: %Ping.Target{id: 7, name: "x"}
|     (ping 0.1.0) lib/ping/client.ex:8: Ping.Client.send/1
### ping.sent | KeyError | 
key :url not found in: %Ping.Target{id: 9, name: "yy zz", tags: ["a"]}
|     (ping 0.1.0) lib/ping/client.ex:9: Ping.Client.send/1
## rs-tonic: tonic
### tile.drawn | tonic::Status | NotFound
status: NotFound, message: "tile 7/3/2 not found", details: [], metadata: MetadataMap { headers: {"date": "Wed"} }
|    0: mapd::tiles::fetch::{{closure}}
|              at /build/mapd/src/tiles.rs:40:13
### tile.drawn | anyhow::Error | 
draw tile: status: NotFound, message: "tile 9/1/1 not found", details: [], metadata: MetadataMap { headers: {"date": "Thu", "x": "y"} }
|    0: mapd::tiles::fetch::{{closure}}
|              at /build/mapd/src/tiles.rs:44:13
## rs-io: io
### tile.drawn | std::io::Error | 
No space left on device (os error 28)
|    0: mapd::cache::write
|              at /build/mapd/src/cache.rs:40:13
### tile.drawn | io::Error | 
write tile: No space left on device (os error 28)
|    0: mapd::cache::evict
|              at /build/mapd/src/cache.rs:70:13
## laravel-log: laravel job failing with previous
### report.built | App\Exceptions\ReportFailed | 
Report 77 could not be built
| App\Exceptions\ReportFailed: Report 77 could not be built in /var/www/app/Reports/Builder.php:40
| Stack trace:
| #0 /var/www/app/Jobs/BuildReport.php(22): App\Reports\Builder->build(77)
| #1 [internal function]: App\Jobs\BuildReport->handle()
| 
| [previous exception] [object] (Illuminate\\Contracts\\Filesystem\\FileNotFoundException(code: 0): File does not exist at path /var/www/storage/app/reports/77/data.csv. at /var/www/vendor/laravel/framework/src/Illuminate/Filesystem/Filesystem.php:55)
| [stacktrace]
| #0 /var/www/app/Reports/Builder.php(33): Illuminate\\Filesystem\\Filesystem->get('/var/www/storage...')
| #1 /var/www/app/Jobs/BuildReport.php(22): App\\Reports\\Builder->build(77)
### report.built | Illuminate\Contracts\Filesystem\FileNotFoundException | 
File does not exist at path /var/www/storage/app/reports/12/data.csv.
| #0 /var/www/app/Reports/Builder.php(35): Illuminate\Filesystem\Filesystem->get('/var/www/storage...')
| #1 /var/www/app/Jobs/BuildReport.php(24): App\Reports\Builder->build(12)
## doctrine-null: not null
### report.saved | Doctrine\DBAL\Exception\NotNullConstraintViolationException | 1048
An exception occurred while executing a query: SQLSTATE[23000]: Integrity constraint violation: 1048 Column 'owner_id' cannot be null
| Doctrine\DBAL\Exception\NotNullConstraintViolationException: An exception occurred while executing a query: SQLSTATE[23000]: Integrity constraint violation: 1048 Column 'owner_id' cannot be null in /app/vendor/doctrine/dbal/src/Driver/API/MySQL/ExceptionConverter.php:118
| Stack trace:
| #0 /app/vendor/doctrine/dbal/src/Connection.php(1939): Doctrine\DBAL\Connection->handleDriverException(Object(Doctrine\DBAL\Driver\PDO\Exception), Object(Doctrine\DBAL\Query))
| #1 /app/src/Report/Reports.php(31): Doctrine\ORM\EntityManager->flush()
| #2 /app/src/Report/SaveReport.php(20): App\Report\Reports->add(Object(App\Report\Report))
### report.saved | PDOException | 23000
SQLSTATE[23000]: Integrity constraint violation: 1048 Column 'owner_id' cannot be null
| #0 /app/vendor/doctrine/dbal/src/Driver/PDO/Statement.php(130): PDOStatement->execute(NULL)
| #1 /app/src/Report/Reports.php(33): Doctrine\ORM\EntityManager->flush()
| #2 /app/src/Report/SaveReport.php(22): App\Report\Reports->add(Object(App\Report\Report))
## doctrine-null2: other column
### report.saved | PDOException | 23000
SQLSTATE[23000]: Integrity constraint violation: 1048 Column 'title' cannot be null
| #0 /app/vendor/doctrine/dbal/src/Driver/PDO/Statement.php(130): PDOStatement->execute(NULL)
| #1 /app/src/Report/Reports.php(33): Doctrine\ORM\EntityManager->flush()
| #2 /app/src/Report/SaveReport.php(22): App\Report\Reports->add(Object(App\Report\Report))
## ex-protocol: protocol
### metric.sent | Protocol.UndefinedError | 
protocol Jason.Encoder not implemented for {:ok, 1} of type Tuple
| ** (Protocol.UndefinedError) protocol Jason.Encoder not implemented for {:ok, 1} of type Tuple
|     (jason 1.4.1) lib/jason.ex:213: Jason.encode_to_iodata!/2
|     (metrics 1.2.1) lib/metrics/sink.ex:9: Metrics.Sink.push/1
### metric.sent | Protocol.UndefinedError | 
protocol Jason.Encoder not implemented for {:ok, 77} of type Tuple
|     (jason 1.4.1) lib/jason.ex:213: Jason.encode_to_iodata!/2
|     (metrics 1.2.2) lib/metrics/sink.ex:11: Metrics.Sink.push/1
## rs-expect: expect
### coin.minted | panic | 
wallet must be loaded: NotFound("w-77")
| thread 'tokio-runtime-worker' panicked at crates/mint/src/wallet.rs:31:14:
| wallet must be loaded: NotFound("w-77")
| note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
### coin.minted | panic | 
thread 'tokio-runtime-worker' panicked at crates/mint/src/wallet.rs:33:14:
wallet must be loaded: NotFound("w-912")
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
## rs-join: join error
### coin.sent | tokio::task::JoinError | 
task 77 panicked with message "attempt to subtract with overflow"
|    0: mint::send::spend::{{closure}}
|              at /build/mint/src/send.rs:20:13
### coin.sent | JoinError | 
task 9 panicked with message "attempt to subtract with overflow"
|    0: mint::send::spend::{{closure}}
|              at /build/mint/src/send.rs:24:13
## rb-rails-template: action view
### invoice.mailed | ActionView::Template::Error | 
undefined method `name' for nil
| app/views/invoice_mailer/invoice.html.erb:12:in `_app_views_invoice_mailer_invoice_html_erb___2211_70000'
| /usr/local/bundle/gems/actionview-7.1.3/lib/action_view/base.rb:264:in `public_send'
| app/mailers/invoice_mailer.rb:9:in `invoice'
### invoice.mailed | ActionView::Template::Error | 
undefined method 'name' for nil
| app/views/invoice_mailer/invoice.html.erb:14:in 'ActionView::Base#_app_views_invoice_mailer_invoice_html_erb___991_80010'
| app/mailers/invoice_mailer.rb:11:in 'InvoiceMailer#invoice'
## rb-graphql: http errors
### crm.pushed | HTTParty::ResponseError | 
503 "Service Unavailable"
| /usr/local/bundle/gems/httparty-0.21.0/lib/httparty/request.rb:300:in `handle_response'
| /app/lib/crm.rb:20:in `push'
### crm.pushed | Crm::Error | 
CRM returned 503 Service Unavailable
| /app/lib/crm.rb:24:in `push'
| /app/app/jobs/crm_job.rb:3:in `perform'
## rb-ssl: ssl
### crm.pushed | OpenSSL::SSL::SSLError | 
SSL_connect returned=1 errno=0 peeraddr=10.0.0.7:443 state=error: certificate verify failed (certificate has expired)
| /usr/local/lib/ruby/3.3.0/net/protocol.rb:46:in `connect_nonblock'
| /app/lib/crm.rb:20:in `push'
### crm.pushed | OpenSSL::SSL::SSLError | 
SSL_connect returned=1 errno=0 peeraddr=10.0.0.9:443 state=error: certificate verify failed (certificate has expired)
| /usr/local/lib/ruby/3.3.0/net/protocol.rb:46:in `connect_nonblock'
| /app/lib/crm.rb:22:in `push'
## kt-coroutine-cancel: timeout
### plan.solved | kotlinx.coroutines.TimeoutCancellationException | 
Timed out waiting for 30000 ms
| kotlinx.coroutines.TimeoutCancellationException: Timed out waiting for 30000 ms
| 	at kotlinx.coroutines.TimeoutKt.TimeoutCancellationException(Timeout.kt:191)
| 	at io.rute.plan.Solver$solve$2.invokeSuspend(Solver.kt:40)
| 	at io.rute.plan.Solver.solve(Solver.kt:36)
### plan.solved | TimeoutCancellationException | 
Timed out waiting for 60000 ms
| 	at kotlinx.coroutines.TimeoutKt.TimeoutCancellationException(Timeout.kt:191)
| 	at io.rute.plan.Solver$solve$2.invokeSuspend(Solver.kt:44)
## kt-nosuch: first
### plan.solved | java.util.NoSuchElementException | 
Collection contains no element matching the predicate.
| 	at io.rute.plan.Solver.depotOf(Solver.kt:90)
| 	at io.rute.plan.Solver.solve(Solver.kt:41)
### plan.solved | java.util.NoSuchElementException | 
Collection contains no element matching the predicate.
| java.util.NoSuchElementException: Collection contains no element matching the predicate.
| 	at io.rute.plan.Solver.depotOf(Solver.kt:93)
| 	at io.rute.plan.Solver$solve$2.invokeSuspend(Solver.kt:41)
## zio: fiber trace
### tile.cut | java.lang.RuntimeException | 
tile server said no
| java.lang.RuntimeException: tile server said no
| 	at no.kart.tiles.TileClient.$anonfun$cut$3(TileClient.scala:21)
| 	at zio.internal.FiberRuntime.runLoop(FiberRuntime.scala:890)
### tile.cut | java.lang.RuntimeException | 
tile server said no
| 	at no.kart.tiles.TileClient.cut(TileClient.scala:23)
| 	at no.kart.tiles.Main$.run(Main.scala:23)
## node-esbuild: bundled worker
### pdf.made | Error | 
Font "Inter-Bold" is not registered
| Error: Font "Inter-Bold" is not registered
|     at resolveFont (/app/dist/worker.mjs:88123:11)
|     at renderPdf (/app/dist/worker.mjs:90001:5)
### pdf.made | Error | 
Font "Inter-Bold" is not registered
|     at resolveFont (/app/src/pdf/fonts.ts:14:11)
|     at renderPdf (/app/src/pdf/render.ts:40:5)
## py-group: taskgroup
### feed.merged | ExceptionGroup | 
unhandled errors in a TaskGroup (1 sub-exception)
|   + Exception Group Traceback (most recent call last):
|   |   File "/srv/feeds/merge.py", line 10, in merge
|   |     async with asyncio.TaskGroup() as tg:
|   | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
|   +-+---------------- 1 ----------------
|     | Traceback (most recent call last):
|     |   File "/srv/feeds/fetch.py", line 22, in fetch
|     |     raise FeedGone(url)
|     | feeds.errors.FeedGone: https://a.example/rss is gone
|     +------------------------------------
### feed.merged | feeds.errors.FeedGone | 
https://b.example/rss is gone
| Traceback (most recent call last):
|   File "/srv/feeds/fetch.py", line 24, in fetch
|     raise FeedGone(url)
| feeds.errors.FeedGone: https://b.example/rss is gone
## py-django-dne: does not exist
### feed.saved | feeds.models.Feed.DoesNotExist | 
Feed matching query does not exist.
| Traceback (most recent call last):
|   File "/srv/feeds/save.py", line 8, in save
|     feed = Feed.objects.get(pk=pk)
|   File "/usr/lib/python3/dist-packages/django/db/models/query.py", line 637, in get
|     raise self.model.DoesNotExist(
| feeds.models.Feed.DoesNotExist: Feed matching query does not exist.
### feed.saved | DoesNotExist | 
Feed matching query does not exist.
| Traceback (most recent call last):
|   File "/srv/feeds/save.py", line 9, in save
|     feed = Feed.objects.get(pk=pk)
|   File "/usr/lib/python3/dist-packages/django/db/models/query.py", line 637, in get
|     raise self.model.DoesNotExist(
| feeds.models.Feed.DoesNotExist: Feed matching query does not exist.
## py-django-dne2: other model
### feed.saved | DoesNotExist | 
Author matching query does not exist.
| Traceback (most recent call last):
|   File "/srv/feeds/save.py", line 9, in save
|     author = Author.objects.get(pk=pk)
| feeds.models.Author.DoesNotExist: Author matching query does not exist.
## net-sqlite: locked
### log.kept | Microsoft.Data.Sqlite.SqliteException | 5
SQLite Error 5: 'database is locked'.
| Microsoft.Data.Sqlite.SqliteException (0x80004005): SQLite Error 5: 'database is locked'.
|    at Microsoft.Data.Sqlite.SqliteException.ThrowExceptionForRC(Int32 rc, sqlite3 db)
|    at Logg.Store.KeepAsync(Entry e) in /src/Store.cs:line 20
### log.kept | Microsoft.EntityFrameworkCore.DbUpdateException | 
An error occurred while saving the entity changes. See the inner exception for details.
| Microsoft.EntityFrameworkCore.DbUpdateException: An error occurred while saving the entity changes. See the inner exception for details.
|  ---> Microsoft.Data.Sqlite.SqliteException (0x80004005): SQLite Error 5: 'database is locked'.
|    at Microsoft.Data.Sqlite.SqliteException.ThrowExceptionForRC(Int32 rc, sqlite3 db)
|    --- End of inner exception stack trace ---
|    at Microsoft.EntityFrameworkCore.Update.ReaderModificationCommandBatch.ExecuteAsync(IRelationalConnection connection, CancellationToken cancellationToken)
|    at Logg.Store.KeepAsync(Entry e) in /src/Store.cs:line 22
## net-disk: full
### log.kept | SqliteException | 13
SQLite Error 13: 'database or disk is full'.
|    at Microsoft.Data.Sqlite.SqliteException.ThrowExceptionForRC(Int32 rc, sqlite3 db)
|    at Logg.Store.KeepAsync(Entry e) in /src/Store.cs:line 22
## net-polly: circuit
### log.shipped | Polly.CircuitBreaker.BrokenCircuitException | 
The circuit is now open and is not allowing calls.
|    at Polly.CircuitBreaker.CircuitBreakerEngine.Implementation[TResult](Func`3 action, Context context)
|    at Logg.Ship.Shipper.ShipAsync(Batch b) in /src/Ship/Shipper.cs:line 20
### log.shipped | Polly.CircuitBreaker.BrokenCircuitException | 
The circuit is now open and is not allowing calls.
| Polly.CircuitBreaker.BrokenCircuitException: The circuit is now open and is not allowing calls.
|  ---> System.Net.Http.HttpRequestException: Response status code does not indicate success: 503 (Service Unavailable).
|    at System.Net.Http.HttpResponseMessage.EnsureSuccessStatusCode()
|    at Logg.Ship.Shipper.<>c__DisplayClass4_0.<<ShipAsync>b__0>d.MoveNext() in /src/Ship/Shipper.cs:line 17
|    --- End of inner exception stack trace ---
|    at Polly.CircuitBreaker.AsyncCircuitBreakerEngine.ImplementationAsync[TResult](Func`3 action, Context context)
|    at Logg.Ship.Shipper.ShipAsync(Batch b) in /src/Ship/Shipper.cs:line 20
## go-slice: slice bounds
### ev.cut | runtime.boundsError | 
runtime error: slice bounds out of range [:9] with capacity 7
| goroutine 7 [running]:
| example.org/ev/cut.Head(...)
| 	/src/cut/head.go:9
| example.org/ev/worker.Handle({0xc0001, 0x9, 0x10})
| 	/src/worker/handle.go:14 +0x1d
### ev.cut | runtime.boundsError | 
runtime error: slice bounds out of range [:77] with capacity 12
| panic: runtime error: slice bounds out of range [:77] with capacity 12
| 
| goroutine 12 [running]:
| example.org/ev/cut.Head(...)
| 	/src/cut/head.go:11
"##;
