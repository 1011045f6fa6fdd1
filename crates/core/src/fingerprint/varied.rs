//! More failures of known cause, of other libraries than the corpora hold: each rule once where it must put reports
//! together, and once where it must not.

use super::corpus::fingerprints_of;

mod compiled;
mod jvm;
mod messages;
mod mixed;
mod python;
mod scripts;

/// Reports in the form of the corpora. Groups of one letter type must stay apart.
#[track_caller]
fn check(text: &str) {
    let mut of_group: Vec<(String, String, String)> = Vec::new();
    for (group, fingerprint, parts) in fingerprints_of(text) {
        for (other, known, other_parts) in &of_group {
            let alike = *known == fingerprint;
            assert_eq!(*other == group, alike, "{other}: {other_parts}\n{group}: {parts}");
        }
        of_group.push((group, fingerprint, parts));
    }
}

#[test]
fn java_errors_meet_whichever_layer_reported_them() {
    check(
        r#"
## mongo-duplicate-slug: one index of the insert
### page.saved | com.mongodb.MongoWriteException | 11000
Write operation error on server mongo-1:27017. Write error: WriteError{code=11000, message='E11000 duplicate key error collection: cms.pages index: slug_1 dup key: { slug: "summer-sale" }', details={}}.
| com.mongodb.MongoWriteException: Write operation error on server mongo-1:27017. Write error: WriteError{code=11000, message='E11000 duplicate key error collection: cms.pages index: slug_1 dup key: { slug: "summer-sale" }', details={}}.
| 	at com.mongodb.client.internal.MongoCollectionImpl.executeSingleWriteRequest(MongoCollectionImpl.java:1098)
| 	at com.mongodb.client.internal.MongoCollectionImpl.insertOne(MongoCollectionImpl.java:460)
| 	at eu.papeterie.cms.PageStore.insert(PageStore.java:51)
| 	at eu.papeterie.cms.PageListener.onSaved(PageListener.java:22)
### page.saved | MongoWriteException | 11000
Write operation error on server mongo-3:27017. Write error: WriteError{code=11000, message='E11000 duplicate key error collection: cms.pages index: slug_1 dup key: { slug: "imprint" }', details={}}.
| 	at com.mongodb.client.internal.MongoCollectionImpl.executeSingleWriteRequest(MongoCollectionImpl.java:1098)
| 	at com.mongodb.client.internal.MongoCollectionImpl.insertOne(MongoCollectionImpl.java:460)
| 	at eu.papeterie.cms.PageStore.insert(PageStore.java:58)
| 	at eu.papeterie.cms.NightlyImport.run(NightlyImport.java:90)
## elastic-mapping: another failure of another store
### page.saved | co.elastic.clients.elasticsearch._types.ElasticsearchException | 
[es/index] failed: [mapper_parsing_exception] failed to parse field [published] of type [date] in document with id '77'
| co.elastic.clients.elasticsearch._types.ElasticsearchException: [es/index] failed: [mapper_parsing_exception] failed to parse field [published] of type [date] in document with id '77'
| 	at co.elastic.clients.transport.ElasticsearchTransportBase.getApiResponse(ElasticsearchTransportBase.java:345)
| 	at co.elastic.clients.elasticsearch.ElasticsearchClient.index(ElasticsearchClient.java:1106)
| 	at eu.papeterie.cms.SearchIndex.put(SearchIndex.java:44)
### page.saved | ElasticsearchException | 
[es/index] failed: [mapper_parsing_exception] failed to parse field [published] of type [date] in document with id 'a-9'
| 	at co.elastic.clients.transport.ElasticsearchTransportBase.getApiResponse(ElasticsearchTransportBase.java:345)
| 	at co.elastic.clients.elasticsearch.ElasticsearchClient.index(ElasticsearchClient.java:1106)
| 	at eu.papeterie.cms.SearchIndex.put(SearchIndex.java:47)
## shipping-refused: the rest client of Spring names the request in front
### page.saved | org.springframework.web.client.ResourceAccessException | 
I/O error on POST request for "https://assets.example/v1/render": Connection refused
| org.springframework.web.client.ResourceAccessException: I/O error on POST request for "https://assets.example/v1/render": Connection refused
| 	at org.springframework.web.client.RestTemplate.createResourceAccessException(RestTemplate.java:888)
| 	at org.springframework.web.client.RestTemplate.exchange(RestTemplate.java:650)
| 	at eu.papeterie.cms.Renderer.render(Renderer.java:31)
| Caused by: java.net.ConnectException: Connection refused
| 	at java.base/sun.nio.ch.Net.pollConnect(Native Method)
| 	... 12 more
### page.saved | ResourceAccessException | 
I/O error on POST request for "https://assets.example/v1/render": Connection refused
| 	at org.springframework.web.client.RestTemplate.createResourceAccessException(RestTemplate.java:888)
| 	at eu.papeterie.cms.Renderer.render(Renderer.java:35)
"#,
    );
}

#[test]
fn an_unknown_library_is_not_the_program() {
    check(
        r"
## unknown-codec: the codec of a small vendor meets two of the program's functions
### tag.read | io.quaint.wire.WireException | 
frame checksum mismatch
| io.quaint.wire.WireException: frame checksum mismatch
| 	at io.quaint.wire.FrameReader.next(FrameReader.java:90)
| 	at se.lagerhus.tags.TagGateway.poll(TagGateway.java:33)
| 	at se.lagerhus.tags.TagConsumer.onTick(TagConsumer.java:18)
### tag.read | io.quaint.wire.WireException | 
frame checksum mismatch
| io.quaint.wire.WireException: frame checksum mismatch
| 	at io.quaint.wire.v2.Frames.verify(Frames.java:12)
| 	at io.quaint.wire.FrameReader.next(FrameReader.java:95)
| 	at se.lagerhus.tags.TagGateway.poll(TagGateway.java:36)
| 	at se.lagerhus.tags.TagConsumer.onTick(TagConsumer.java:18)
## unknown-codec-elsewhere: the same words for another function of the program
### tag.read | io.quaint.wire.WireException | 
frame checksum mismatch
| io.quaint.wire.WireException: frame checksum mismatch
| 	at io.quaint.wire.FrameReader.next(FrameReader.java:90)
| 	at se.lagerhus.tags.Calibration.read(Calibration.java:33)
| 	at se.lagerhus.tags.TagConsumer.onTick(TagConsumer.java:18)
",
    );
}

#[test]
fn python_errors_of_many_stacks() {
    check(
        r#"
## dramatiq-mongo-timeout: no server of the replica set can be chosen
### user.invited | pymongo.errors.ServerSelectionTimeoutError | 
mongo-0.db:27017: timed out (configured timeouts: socketTimeoutMS: 20000.0ms, connectTimeoutMS: 20000.0ms), Timeout: 30s, Topology Description: <TopologyDescription id: 66aa01, topology_type: Unknown, servers: [<ServerDescription ('mongo-0.db', 27017) server_type: Unknown, rtt: None>]>
| Traceback (most recent call last):
|   File "/opt/venv/lib/python3.11/site-packages/dramatiq/worker.py", line 485, in process_message
|     res = actor(*message.args, **message.kwargs)
|   File "/code/invites/actors.py", line 20, in invite
|     users.by_mail(mail)
|   File "/code/invites/users.py", line 41, in by_mail
|     return self.db.users.find_one({"mail": mail})
|   File "/opt/venv/lib/python3.11/site-packages/pymongo/topology.py", line 303, in _select_servers_loop
|     raise ServerSelectionTimeoutError(
| pymongo.errors.ServerSelectionTimeoutError: mongo-0.db:27017: timed out (configured timeouts: socketTimeoutMS: 20000.0ms, connectTimeoutMS: 20000.0ms), Timeout: 30s, Topology Description: <TopologyDescription id: 66aa01, topology_type: Unknown, servers: [<ServerDescription ('mongo-0.db', 27017) server_type: Unknown, rtt: None>]>
### user.invited | ServerSelectionTimeoutError | 
mongo-2.db:27017: timed out, Timeout: 30s, Topology Description: <TopologyDescription id: 66bb99, topology_type: ReplicaSetNoPrimary, servers: []>
| Traceback (most recent call last):
|   File "/code/invites/users.py", line 44, in by_mail
|     return self.db.users.find_one({"mail": mail})
|   File "/opt/venv/lib/python3.11/site-packages/pymongo/topology.py", line 303, in _select_servers_loop
|     raise ServerSelectionTimeoutError(
| pymongo.errors.ServerSelectionTimeoutError: mongo-2.db:27017: timed out, Timeout: 30s, Topology Description: <TopologyDescription id: 66bb99, topology_type: ReplicaSetNoPrimary, servers: []>
## lambda-attribute: uploaded packages lie beside the function
### user.invited | AttributeError | 
'NoneType' object has no attribute 'lower'
| Traceback (most recent call last):
|   File "/var/task/mangum/protocols/http.py", line 58, in run
|     await app(self.scope, self.receive, self.send)
|   File "/var/task/invites/mail.py", line 12, in normalise
|     return address.lower()
| AttributeError: 'NoneType' object has no attribute 'lower'
### user.invited | AttributeError | 
'NoneType' object has no attribute 'lower'
| Traceback (most recent call last):
|   File "/var/task/invites/mail.py", line 15, in normalise
|     return address.lower()
| AttributeError: 'NoneType' object has no attribute 'lower'
## lambda-attribute-strip: another attribute at the same place
### user.invited | AttributeError | 
'NoneType' object has no attribute 'strip'
| Traceback (most recent call last):
|   File "/var/task/invites/mail.py", line 12, in normalise
|     return address.strip()
| AttributeError: 'NoneType' object has no attribute 'strip'
"#,
    );
}

#[test]
fn bundles_and_sources_of_node_meet() {
    check(
        r"
## cart-total-nan: one function in sources, in two bundles and in a chunk
### cart.updated | RangeError | 
Invalid currency code : undefined
| RangeError: Invalid currency code : undefined
|     at formatCartTotal (/srv/shop/src/cart/format.ts:8:10)
|     at CartHandler.update (/srv/shop/src/cart/handler.ts:22:5)
### cart.updated | RangeError | 
Invalid currency code : undefined
| RangeError: Invalid currency code : undefined
|     at formatCartTotal (/srv/shop/.output/server/chunks/build/4417.mjs:1:9921)
|     at async CartHandler.update (/srv/shop/.output/server/chunks/build/4417.mjs:1:11002)
### cart.updated | RangeError | 
RangeError: Invalid currency code : undefined
|     at formatCartTotal (webpack-internal:///(ssr)/./src/cart/format.ts:9:10)
## cart-shipping-nan: another function of the same bundle
### cart.updated | RangeError | 
Invalid currency code : undefined
| RangeError: Invalid currency code : undefined
|     at formatShippingCost (/srv/shop/.output/server/chunks/build/4417.mjs:1:8800)
## cart-mailer-run: a function of one word needs its file
### cart.updated | TypeError | 
Cannot read properties of null (reading 'id')
| TypeError: Cannot read properties of null (reading 'id')
|     at run (/srv/shop/dist/mailer.js:8:10)
## cart-stock-run: the same function of another file
### cart.updated | TypeError | 
Cannot read properties of null (reading 'id')
| TypeError: Cannot read properties of null (reading 'id')
|     at run (/srv/shop/dist/stock.js:8:10)
",
    );
}

#[test]
fn statuses_tell_more_than_the_clients_that_print_them() {
    check(
        r#"
## tax-unauthorized: got, its wrapper and a bare report
### tax.checked | HTTPError | ERR_NON_2XX_3XX_RESPONSE
Response code 401 (Unauthorized)
| HTTPError: Response code 401 (Unauthorized)
|     at Request.<anonymous> (/app/node_modules/got/dist/source/as-promise/index.js:118:42)
|     at async TaxRegister.check (/app/dist/tax/register.js:31:17)
### tax.checked | TaxCheckFailed | 
tax check of DE129274202 failed
| TaxCheckFailed: tax check of DE129274202 failed
|     at TaxRegister.check (/app/dist/tax/register.js:36:13)
|     at async Worker.run (/app/dist/worker.js:11:5) {
|   [cause]: HTTPError: Request failed with status code 401 Unauthorized: POST https://tax.example/check
|       at Request.<anonymous> (/app/node_modules/got/dist/source/as-promise/index.js:118:42)
|       at async TaxRegister.check (/app/dist/tax/register.js:33:17)
| }
## tax-throttled: the same call is refused for its rate
### tax.checked | HTTPError | ERR_NON_2XX_3XX_RESPONSE
Response code 429 (Too Many Requests)
|     at Request.<anonymous> (/app/node_modules/got/dist/source/as-promise/index.js:118:42)
|     at async TaxRegister.check (/app/dist/tax/register.js:31:17)
## tax-invalid-vat: the body of a complaint tells
### tax.checked | HTTPError | ERR_NON_2XX_3XX_RESPONSE
Response code 422 (Unprocessable Entity): {"error":"vat_id_unknown"}
|     at async TaxRegister.check (/app/dist/tax/register.js:31:17)
## tax-invalid-country: another complaint
### tax.checked | HTTPError | ERR_NON_2XX_3XX_RESPONSE
Response code 422 (Unprocessable Entity): {"error":"country_unknown"}
|     at async TaxRegister.check (/app/dist/tax/register.js:31:17)
"#,
    );
}

#[test]
fn go_and_rust_wrap_by_words() {
    check(
        r"
## go-bucket-missing: only the message knows the root
### backup.due | *fmt.wrapError | 
upload snapshot: operation error S3: PutObject, https response error StatusCode: 404, RequestID: 9X1Q, HostID: k+z=, NoSuchBucket: The specified bucket does not exist
| upload snapshot
| corp.example/backup/internal/store.(*Bucket).Put
| 	/src/internal/store/bucket.go:31
| corp.example/backup/internal/run.(*Runner).Once
| 	/src/internal/run/runner.go:80
| runtime.goexit
| 	/usr/local/go/src/runtime/asm_arm64.s:1222
### backup.due | smithy.OperationError | 
upload snapshot: operation error S3: PutObject, https response error StatusCode: 404, RequestID: 7B2M, HostID: a/b=, NoSuchBucket: The specified bucket does not exist
| corp.example/backup/internal/store.(*Bucket).Put
| 	/src/internal/store/bucket.go:35
| corp.example/backup/internal/run.(*Runner).Once
| 	/src/internal/run/runner.go:84
| runtime.goexit
| 	/usr/local/go/src/runtime/asm_arm64.s:1222
## go-disk: another root behind the same wrapping
### backup.due | *fs.PathError | 
upload snapshot: read /var/lib/snap/77.tar: input/output error
| upload snapshot
| corp.example/backup/internal/store.(*Bucket).Put
| 	/src/internal/store/bucket.go:31
## rust-headless: frames without any head
### thumb.made | image::error::ImageError | 
The image format could not be determined
|    0: thumbd::decode::open
|              at /build/thumbd/src/decode.rs:14:9
|    1: thumbd::worker::handle::{{closure}}
|              at /build/thumbd/src/worker.rs:51:20
### thumb.made | ImageError | 
The image format could not be determined
|    4: thumbd::decode::open::h1f6de2a9c0b3a471
|    5: thumbd::main::{{closure}}
## rust-limits: another error of the same function
### thumb.made | ImageError | 
Image size exceeds limit
|    0: thumbd::decode::open
|              at /build/thumbd/src/decode.rs:14:9
",
    );
}

#[test]
fn dotnet_ruby_php_and_elixir_wrap_by_types() {
    check(
        r#"
## rebus-cosmos-throttled: reported by the handler and by the bus
### seat.booked | Microsoft.Azure.Cosmos.CosmosException | 429
Response status code does not indicate success: TooManyRequests (429); Substatus: 3200; ActivityId: 6e3c-11; Reason: (Request rate is large.);
|    at Microsoft.Azure.Cosmos.ResponseMessage.EnsureSuccessStatusCode()
|    at Biljett.Seats.SeatStore.SaveAsync(Seat seat) in /src/Seats/SeatStore.cs:line 40
|    at Biljett.Seats.BookSeatHandler.Handle(BookSeat message) in /src/Seats/BookSeatHandler.cs:line 18
### seat.booked | Rebus.Retry.FailFast.FailFastException | 
Unhandled exception when handling message 77
| Rebus.Retry.FailFast.FailFastException: Unhandled exception when handling message 77
|  ---> Microsoft.Azure.Cosmos.CosmosException : Response status code does not indicate success: TooManyRequests (429); Substatus: 3200; ActivityId: 9a1f-20; Reason: (Request rate is large.);
|    at Microsoft.Azure.Cosmos.ResponseMessage.EnsureSuccessStatusCode()
|    at Biljett.Seats.SeatStore.SaveAsync(Seat seat) in /src/Seats/SeatStore.cs:line 44
|    at Biljett.Seats.BookSeatHandler.Handle(BookSeat message) in /src/Seats/BookSeatHandler.cs:line 18
|    --- End of inner exception stack trace ---
|    at Rebus.Retry.Simple.SimpleRetryStrategyStep.Process(IncomingStepContext context, Func`1 next)
## ruby-name-behind: Ruby repeats the name
### fee.charged | ActiveRecord::NotNullViolation | 
PG::NotNullViolation: ERROR:  null value in column "plan_id" of relation "fees" violates not-null constraint
| app/models/fee.rb:12:in `charge!'
| app/jobs/fee_job.rb:7:in `perform'
### fee.charged | NotNullViolation | 
PG::NotNullViolation: ERROR:  null value in column "plan_id" of relation "fees" violates not-null constraint (ActiveRecord::NotNullViolation)
| app/models/fee.rb:14:in 'Fee#charge!'
## ruby-other-column: another column
### fee.charged | NotNullViolation | 
PG::NotNullViolation: ERROR:  null value in column "amount" of relation "fees" violates not-null constraint
| app/models/fee.rb:12:in `charge!'
## messenger-lock: the bus puts its own words in front
### stock.moved | Symfony\Component\Messenger\Exception\HandlerFailedException | 
Handling "App\Message\MoveStock" failed: Stock of shelf A-12 may not become negative.
| #0 /srv/app/src/Stock/Shelf.php(31): App\Stock\Shelf->take(4)
| #1 /srv/app/vendor/symfony/messenger/Worker.php(161): App\Stock\MoveStockHandler->__invoke(Object(App\Message\MoveStock))
### stock.moved | App\Stock\Negative | 
Stock of shelf C-7 may not become negative.
| #0 /srv/app/src/Stock/Shelf.php(33): App\Stock\Shelf->take(9)
| #1 /srv/app/src/Command/MoveCommand.php(20): App\Stock\MoveStockHandler->__invoke(Object(App\Message\MoveStock))
## oban-exit: the worker's wrapper and the bare exit
### meal.planned | Oban.CrashError | 
** (exit) exited in: GenServer.call(Kitchen.Oven, {:heat, 7}, 5000)
    ** (EXIT) time out
|     (elixir 1.17.1) lib/gen_server.ex:1128: GenServer.call/3
|     (kitchen 1.0.0) lib/kitchen/oven.ex:9: Kitchen.Oven.heat/1
### meal.planned | exit | 
exited in: GenServer.call(#PID<0.77.0>, {:heat, 9}, 5000)
    ** (EXIT) time out
| ** (exit) exited in: GenServer.call(#PID<0.77.0>, {:heat, 9}, 5000)
|     ** (EXIT) time out
|     (elixir 1.17.1) lib/gen_server.ex:1128: GenServer.call/3
|     (kitchen 1.0.2) lib/kitchen/oven.ex:11: Kitchen.Oven.heat/1
"#,
    );
}

#[test]
fn ids_and_names_without_digits_do_not_split_and_reasons_do() {
    check(
        r"
## refund-dispute: drawn ids
### refund.paid | RefundBlocked | 
refund rfd_xyuwdkugupet refused: order ord_hqwzkvbxnt is under dispute
### refund.paid | RefundBlocked | 
refund rfd_kwqhzvtrnbp refused: order ord_pgxwjqzlkm is under dispute
## refund-limit: another reason
### refund.paid | RefundBlocked | 
refund rfd_xyuwdkugupet refused: order ord_hqwzkvbxnt is over the limit
## stock-gone: stock-keeping units
### item.reserved | OutOfStock | 
no stock left for BLK-LIN-SD in warehouse kopenhagen
### item.reserved | OutOfStock | 
no stock left for WHT-COT-XL in warehouse aarhus
## item-unknown: another word for it
### item.reserved | OutOfStock | 
no price left for BLK-LIN-SD in warehouse kopenhagen
## tenant-off: names behind nouns
### tenant.billed | BillingError | 
tenant acme has no payment method
### tenant.billed | BillingError | 
tenant umbrella-corp has no payment method
### tenant.billed | BillingError | 
[job=77] tenant initech has no payment method
## tenant-locked: another reason for a tenant
### tenant.billed | BillingError | 
tenant acme has no billing contact
## file-unreadable: files of data
### file.imported | ImportError | 
cannot parse orders-final.csv: unexpected end of file
### file.imported | ImportError | 
cannot parse returns.csv: unexpected end of file
### file.imported | ImportError | 
host imp-a: cannot parse stock.tsv: unexpected end of file
## file-encoding: another reason
### file.imported | ImportError | 
cannot parse orders-final.csv: unexpected encoding
",
    );
}
