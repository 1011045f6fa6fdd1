//! Failures of programs in Node, Ruby and PHP, with and without the head of their backtraces.

use super::check;

#[test]
fn errors_of_node_ruby_and_php_meet_with_and_without_a_head() {
    check(FAILURES);
}

const FAILURES: &str = r##"
## typeorm-dup-handle: typeorm on pg
### profile.saved | QueryFailedError | 23505
duplicate key value violates unique constraint "UQ_profile_handle"
| QueryFailedError: duplicate key value violates unique constraint "UQ_profile_handle"
|     at PostgresQueryRunner.query (/srv/app/node_modules/typeorm/driver/postgres/PostgresQueryRunner.js:219:19)
|     at process.processTicksAndRejections (node:internal/process/task_queues:95:5)
|     at async InsertQueryBuilder.execute (/srv/app/node_modules/typeorm/query-builder/InsertQueryBuilder.js:106:33)
|     at async ProfileRepo.insert (/srv/app/dist/profile/profile.repo.js:14:9) {
|   query: 'INSERT INTO "profile"("id","handle") VALUES ($1,$2)',
|   parameters: [ '7', 'ann' ],
|   driverError: error: duplicate key value violates unique constraint "UQ_profile_handle"
|       at Parser.parseErrorMessage (/srv/app/node_modules/pg-protocol/dist/parser.js:283:98)
|       at Socket.<anonymous> (/srv/app/node_modules/pg-protocol/dist/index.js:11:42) {
|     length: 232,
|     severity: 'ERROR',
|     code: '23505',
|     detail: 'Key (handle)=(ann) already exists.'
|   }
| }
### profile.saved | QueryFailedError | 
duplicate key value violates unique constraint "UQ_profile_handle"
|     at PostgresQueryRunner.query (/srv/app/node_modules/typeorm/driver/postgres/PostgresQueryRunner.js:219:19)
|     at async InsertQueryBuilder.execute (/srv/app/node_modules/typeorm/query-builder/InsertQueryBuilder.js:106:33)
|     at async ProfileRepo.insert (/srv/app/dist/profile/profile.repo.js:16:9)
### profile.saved | error | 23505
duplicate key value violates unique constraint "UQ_profile_handle"
| error: duplicate key value violates unique constraint "UQ_profile_handle"
|     at Parser.parseErrorMessage (/srv/app/node_modules/pg-protocol/dist/parser.js:283:98)
|     at async ProfileRepo.insert (/srv/app/dist/profile/profile.repo.js:16:9)
## typeorm-null: not null
### profile.saved | QueryFailedError | 23502
null value in column "locale" of relation "profile" violates not-null constraint
|     at PostgresQueryRunner.query (/srv/app/node_modules/typeorm/driver/postgres/PostgresQueryRunner.js:219:19)
|     at async ProfileRepo.insert (/srv/app/dist/profile/profile.repo.js:16:9)
## mongoose-validation: required
### survey.answered | ValidationError | 
Answer validation failed: choice: Path `choice` is required.
| ValidationError: Answer validation failed: choice: Path `choice` is required.
|     at Document.invalidate (/app/node_modules/mongoose/lib/document.js:3200:32)
|     at AnswerStore.put (/app/src/answers/store.ts:20:11)
### survey.answered | ValidationError | 
ValidationError: Answer validation failed: choice: Path `choice` is required.
|     at Document.invalidate (/app/node_modules/mongoose/lib/document.js:3200:32)
|     at AnswerStore.put (/app/src/answers/store.ts:22:11)
|     at async consume (/app/src/consume.ts:9:5)
## mongoose-cast: cast
### survey.answered | CastError | 
Cast to ObjectId failed for value "undefined" (type string) at path "surveyId" for model "Answer"
|     at model.Query.exec (/app/node_modules/mongoose/lib/query.js:4884:21)
|     at AnswerStore.put (/app/src/answers/store.ts:22:11)
### survey.answered | CastError | 
Cast to ObjectId failed for value "77x" (type string) at path "surveyId" for model "Answer"
|     at model.Query.exec (/app/node_modules/mongoose/lib/query.js:4884:21)
|     at AnswerStore.put (/app/src/answers/store.ts:22:11)
## undici-dns: fetch failed with cause
### ping.sent | TypeError | 
fetch failed
| TypeError: fetch failed
|     at node:internal/deps/undici/undici:13392:13
|     at async Pinger.ping (/app/dist/ping.js:10:15) {
|   [cause]: Error: getaddrinfo ENOTFOUND api.partner.example
|       at GetAddrInfoReqWrap.onlookupall [as oncomplete] (node:dns:120:26) {
|     errno: -3008,
|     code: 'ENOTFOUND',
|     syscall: 'getaddrinfo',
|     hostname: 'api.partner.example'
|   }
| }
### ping.sent | PingError | 
ping of partner 12 failed: fetch failed
| PingError: ping of partner 12 failed: fetch failed
|     at Pinger.ping (/app/dist/ping.js:14:11)
|     at async Worker.run (/app/dist/worker.js:31:7) {
|   [cause]: TypeError: fetch failed
|       at node:internal/deps/undici/undici:13392:13
|       at async Pinger.ping (/app/dist/ping.js:11:15) {
|     [cause]: Error: getaddrinfo ENOTFOUND api.partner.example
|         at GetAddrInfoReqWrap.onlookupall [as oncomplete] (node:dns:120:26) {
|       errno: -3008,
|       code: 'ENOTFOUND'
|     }
|   }
| }
## undici-timeout: other
### ping.sent | TypeError | 
fetch failed
| TypeError: fetch failed
|     at node:internal/deps/undici/undici:13392:13
|     at async Pinger.ping (/app/dist/ping.js:10:15) {
|   [cause]: HeadersTimeoutError: Headers Timeout Error
|       at FastTimer.onParserTimeout [as _onTimeout] (/app/node_modules/undici/lib/dispatcher/client-h1.js:646:28) {
|     code: 'UND_ERR_HEADERS_TIMEOUT'
|   }
| }
## nest-handler: nest wraps
### badge.given | BadRequestException | 
Badge "early-bird" is not active
| BadRequestException: Badge "early-bird" is not active
|     at BadgesService.give (/app/dist/badges/badges.service.js:25:19)
|     at BadgesController.onGiven (/app/dist/badges/badges.controller.js:18:31)
|     at /app/node_modules/@nestjs/microservices/context/rpc-proxy.js:11:38
### badge.given | BadRequestException | 
Badge "founder" is not active
|     at BadgesService.give (/app/dist/badges/badges.service.js:27:19)
|     at BackfillCommand.run (/app/dist/badges/backfill.command.js:18:31)
## kafkajs: connection
### audit.sent | KafkaJSConnectionError | ECONNREFUSED
Connection error: connect ECONNREFUSED 10.3.0.7:9092
| KafkaJSConnectionError: Connection error: connect ECONNREFUSED 10.3.0.7:9092
|     at Socket.onError (/app/node_modules/kafkajs/src/network/connection.js:210:23)
|     at async AuditProducer.send (/app/lib/audit.js:12:5)
### audit.sent | KafkaJSNumberOfRetriesExceeded | 
Connection error: connect ECONNREFUSED 10.3.0.9:9092
| KafkaJSNonRetriableError
|   Caused by: KafkaJSConnectionError: Connection error: connect ECONNREFUSED 10.3.0.9:9092
|     at Socket.onError (/app/node_modules/kafkajs/src/network/connection.js:210:23)
|     at async AuditProducer.send (/app/lib/audit.js:14:5)
## jwt-expired: jwt
### hook.called | TokenExpiredError | 
jwt expired
| TokenExpiredError: jwt expired
|     at /app/node_modules/jsonwebtoken/verify.js:190:21
|     at verifyHook (/app/lib/hooks.js:8:16)
### hook.called | TokenExpiredError | 
TokenExpiredError: jwt expired
|     at verifyHook (/app/lib/hooks.js:9:16)
## jwt-signature: jwt
### hook.called | JsonWebTokenError | 
invalid signature
|     at /app/node_modules/jsonwebtoken/verify.js:171:19
|     at verifyHook (/app/lib/hooks.js:9:16)
## stripe-declined: code
### fee.paid | StripeCardError | card_declined
Your card has insufficient funds.
| StripeCardError: Your card has insufficient funds.
|     at StripeError.generate (/app/node_modules/stripe/cjs/Error.js:14:20)
|     at async Fees.pay (/app/lib/fees.js:30:13)
### fee.paid | StripeCardError | card_declined
Your card has insufficient funds.
|     at StripeError.generate (/app/node_modules/stripe/cjs/Error.js:14:20)
|     at async Fees.pay (/app/lib/fees.js:34:13)
## stripe-expired: code
### fee.paid | StripeCardError | expired_card
Your card has expired.
|     at StripeError.generate (/app/node_modules/stripe/cjs/Error.js:14:20)
|     at async Fees.pay (/app/lib/fees.js:34:13)
## rb-nil-shipping: nil in method
### parcel.packed | NoMethodError | 
undefined method `street' for nil:NilClass
| app/services/label.rb:14:in `line'
| app/services/label.rb:9:in `block in call'
| app/workers/pack_worker.rb:7:in `perform'
| vendor/bundle/ruby/3.2.0/gems/shoryuken-6.0.0/lib/shoryuken/processor.rb:30:in `process'
### parcel.packed | NoMethodError | 
undefined method 'street' for nil
| app/services/label.rb:16:in 'Label#line'
| app/services/label.rb:11:in 'block in Label#call'
### parcel.packed | NoMethodError | 
NoMethodError: undefined method 'street' for nil
| /app/services/label.rb:16:in 'Label#line': undefined method 'street' for nil (NoMethodError)
| 	from /app/services/label.rb:11:in 'block in Label#call'
## rb-nil-zip: nil zip
### parcel.packed | NoMethodError | 
undefined method 'zip' for nil
| app/services/label.rb:16:in 'Label#line'
## rb-faraday-401: faraday
### invoice.synced | Faraday::UnauthorizedError | 
the server responded with status 401
| /usr/local/bundle/gems/faraday-2.9.0/lib/faraday/response/raise_error.rb:18:in `on_complete'
| /usr/local/bundle/gems/faraday-2.9.0/lib/faraday/connection.rb:234:in `post'
| /app/lib/books/client.rb:31:in `push'
| /app/app/jobs/sync_job.rb:9:in `perform'
### invoice.synced | Books::SyncError | 
invoice 77 not synced: the server responded with status 401
| /app/lib/books/client.rb:36:in `rescue in push'
| /app/lib/books/client.rb:28:in `push'
| /app/app/jobs/sync_job.rb:9:in `perform'
| /usr/local/bundle/gems/faraday-2.9.0/lib/faraday/response/raise_error.rb:18:in `on_complete': the server responded with status 401 (Faraday::UnauthorizedError)
| 	from /usr/local/bundle/gems/faraday-2.9.0/lib/faraday/connection.rb:234:in `post'
| 	from /app/lib/books/client.rb:31:in `push'
## rb-faraday-422: 422
### invoice.synced | Faraday::UnprocessableEntityError | 
the server responded with status 422
| /usr/local/bundle/gems/faraday-2.9.0/lib/faraday/response/raise_error.rb:28:in `on_complete'
| /app/lib/books/client.rb:31:in `push'
## rb-validation: rails
### user.imported | ActiveRecord::RecordInvalid | 
Validation failed: Email has already been taken
| /usr/local/bundle/gems/activerecord-7.1.3/lib/active_record/validations.rb:84:in `raise_validation_error'
| /app/app/models/user.rb:20:in `import!'
### user.imported | RecordInvalid | 
Validation failed: Email has already been taken (ActiveRecord::RecordInvalid)
| /usr/local/bundle/gems/activerecord-8.0.1/lib/active_record/validations.rb:87:in 'ActiveRecord::Validations#raise_validation_error'
| /app/app/models/user.rb:24:in 'User.import!'
## rb-validation-name: rails
### user.imported | ActiveRecord::RecordInvalid | 
Validation failed: Name can't be blank
| /usr/local/bundle/gems/activerecord-7.1.3/lib/active_record/validations.rb:84:in `raise_validation_error'
| /app/app/models/user.rb:20:in `import!'
## rb-notfound: rails
### user.merged | ActiveRecord::RecordNotFound | 
Couldn't find User with 'id'=4711
| /usr/local/bundle/gems/activerecord-7.1.3/lib/active_record/core.rb:253:in `find'
| /app/app/jobs/merge_job.rb:6:in `perform'
### user.merged | ActiveRecord::RecordNotFound | 
Couldn't find User with 'id'=12 [WHERE "users"."deleted_at" IS NULL]
| /usr/local/bundle/gems/activerecord-7.1.3/lib/active_record/core.rb:253:in `find'
| /app/app/jobs/merge_job.rb:8:in `perform'
## rb-notfound-team: rails
### user.merged | ActiveRecord::RecordNotFound | 
Couldn't find Team with 'id'=4711
| /usr/local/bundle/gems/activerecord-7.1.3/lib/active_record/core.rb:253:in `find'
| /app/app/jobs/merge_job.rb:6:in `perform'
## rb-timeout: Timeout
### pdf.rendered | Net::ReadTimeout | 
Net::ReadTimeout with #<TCPSocket:(closed)>
| /usr/local/lib/ruby/3.3.0/net/protocol.rb:229:in `rbuf_fill'
| /app/app/services/pdf.rb:12:in `render'
### pdf.rendered | Net::ReadTimeout | 
Net::ReadTimeout
| /usr/local/lib/ruby/3.3.0/net/protocol.rb:229:in `rbuf_fill'
| /app/app/services/pdf.rb:15:in `render'
## rb-redis: redis
### lock.taken | Redis::CannotConnectError | 
Connection refused - connect(2) for 10.0.0.7:6379 (redis://10.0.0.7:6379)
| /usr/local/bundle/gems/redis-5.1.0/lib/redis/client.rb:38:in `rescue in connect'
| /app/lib/lock.rb:9:in `with'
### lock.taken | RedisClient::CannotConnectError | 
Connection refused - connect(2) for 10.0.0.9:6379
| /usr/local/bundle/gems/redis-client-0.21.0/lib/redis_client/ruby_connection.rb:75:in `connect'
| /app/lib/lock.rb:11:in `with'
## php-pdo-dup: laravel query exception
### coupon.used | Illuminate\Database\UniqueConstraintViolationException | 23000
SQLSTATE[23000]: Integrity constraint violation: 1062 Duplicate entry '77-12' for key 'uses_coupon_user_unique' (Connection: mysql, SQL: insert into `uses` (`coupon_id`, `user_id`) values (77, 12))
| #0 /var/www/html/vendor/laravel/framework/src/Illuminate/Database/Connection.php(780): Illuminate\Database\Connection->runQueryCallback('insert into `us...', Array, Object(Closure))
| #1 /var/www/html/app/Coupons/UseCoupon.php(31): Illuminate\Database\Eloquent\Builder->create(Array)
| #2 /var/www/html/app/Jobs/RedeemCoupon.php(20): App\Coupons\UseCoupon->__invoke(Object(App\Models\Coupon))
| #3 /var/www/html/vendor/laravel/framework/src/Illuminate/Container/BoundMethod.php(36): App\Jobs\RedeemCoupon->handle()
### coupon.used | Illuminate\Database\QueryException | 23000
SQLSTATE[23000]: Integrity constraint violation: 1062 Duplicate entry '9-3' for key 'uses_coupon_user_unique' (SQL: insert into `uses` (`coupon_id`, `user_id`) values (9, 3))
| [stacktrace]
| #0 /var/www/html/vendor/laravel/framework/src/Illuminate/Database/Connection.php(712): Illuminate\Database\Connection->runQueryCallback('insert into `us...', Array, Object(Closure))
| #1 /var/www/html/app/Coupons/UseCoupon.php(33): Illuminate\Database\Eloquent\Builder->create(Array)
| #2 /var/www/html/app/Console/Commands/Replay.php(20): App\Coupons\UseCoupon->__invoke(Object(App\Models\Coupon))
## php-pdo-gone: server gone
### coupon.used | PDOException | HY000
SQLSTATE[HY000]: General error: 2006 MySQL server has gone away
| #0 /var/www/html/vendor/laravel/framework/src/Illuminate/Database/Connection.php(587): PDOStatement->execute()
| #1 /var/www/html/app/Coupons/UseCoupon.php(31): Illuminate\Database\Eloquent\Builder->create(Array)
| #2 /var/www/html/app/Jobs/RedeemCoupon.php(20): App\Coupons\UseCoupon->__invoke(Object(App\Models\Coupon))
### coupon.used | Illuminate\Database\QueryException | HY000
SQLSTATE[HY000]: General error: 2006 MySQL server has gone away (Connection: mysql, SQL: insert into `uses` (`coupon_id`, `user_id`) values (77, 12))
| #0 /var/www/html/vendor/laravel/framework/src/Illuminate/Database/Connection.php(780): Illuminate\Database\Connection->runQueryCallback('insert into `us...', Array, Object(Closure))
| #1 /var/www/html/app/Coupons/UseCoupon.php(31): Illuminate\Database\Eloquent\Builder->create(Array)
| #2 /var/www/html/app/Jobs/RedeemCoupon.php(20): App\Coupons\UseCoupon->__invoke(Object(App\Models\Coupon))
## php-null: call on null
### mail.queued | Error | 
Call to a member function format() on null
| #0 /srv/app/src/Mail/Digest.php(44): App\Mail\Digest->date(NULL)
| #1 /srv/app/src/Mail/DigestHandler.php(20): App\Mail\Digest->build(Object(App\Entity\User))
### mail.queued | Error | 
PHP Fatal error:  Uncaught Error: Call to a member function format() on null in /srv/app/src/Mail/Digest.php:61
| Stack trace:
| #0 /srv/app/src/Mail/Digest.php(47): App\Mail\Digest->date(NULL)
| #1 /srv/app/src/Mail/DigestHandler.php(22): App\Mail\Digest->build(Object(App\Entity\User))
| #2 {main}
|   thrown in /srv/app/src/Mail/Digest.php on line 61
## php-undef: warning as exception
### mail.queued | ErrorException | 
Undefined array key "locale"
| #0 /srv/app/src/Mail/Digest.php(44): App\Mail\Digest->date(Array)
### mail.queued | ErrorException | 2
Warning: Undefined array key "locale"
| #0 /srv/app/src/Mail/Digest.php(49): App\Mail\Digest->date(Array)
## php-guzzle-timeout: guzzle
### geo.looked | GuzzleHttp\Exception\ConnectException | 
cURL error 28: Operation timed out after 5001 milliseconds with 0 bytes received (see https://curl.haxx.se/libcurl/c/libcurl-errors.html) for https://geo.example/lookup?q=Bern
| #0 /srv/app/vendor/guzzlehttp/guzzle/src/Handler/CurlFactory.php(210): GuzzleHttp\Handler\CurlFactory::createRejection(Object(GuzzleHttp\Handler\EasyHandle), Array)
| #1 /srv/app/src/Geo/Lookup.php(19): GuzzleHttp\Client->get('https://geo.exa...')
| #2 /srv/app/src/Geo/Handler.php(11): App\Geo\Lookup->find('Bern')
### geo.looked | App\Geo\LookupFailed | 
Lookup of "Wien" failed
| GuzzleHttp\Exception\ConnectException: cURL error 28: Operation timed out after 5000 milliseconds with 0 bytes received (see https://curl.haxx.se/libcurl/c/libcurl-errors.html) for https://geo.example/lookup?q=Wien in /srv/app/vendor/guzzlehttp/guzzle/src/Handler/CurlFactory.php:210
| Stack trace:
| #0 /srv/app/vendor/guzzlehttp/guzzle/src/Handler/CurlFactory.php(158): GuzzleHttp\Handler\CurlFactory::createRejection(Object(GuzzleHttp\Handler\EasyHandle), Array)
| #1 /srv/app/src/Geo/Lookup.php(22): GuzzleHttp\Client->get('https://geo.exa...')
| #2 /srv/app/src/Geo/Handler.php(11): App\Geo\Lookup->find('Wien')
| 
| Next App\Geo\LookupFailed: Lookup of "Wien" failed in /srv/app/src/Geo/Lookup.php:26
| Stack trace:
| #0 /srv/app/src/Geo/Handler.php(11): App\Geo\Lookup->find('Wien')
| #1 {main}
## php-guzzle-ssl: 60
### geo.looked | GuzzleHttp\Exception\RequestException | 
cURL error 60: SSL certificate problem: certificate has expired (see https://curl.haxx.se/libcurl/c/libcurl-errors.html) for https://geo.example/lookup?q=Bern
| #0 /srv/app/vendor/guzzlehttp/guzzle/src/Handler/CurlFactory.php(210): GuzzleHttp\Handler\CurlFactory::createRejection(Object(GuzzleHttp\Handler\EasyHandle), Array)
| #1 /srv/app/src/Geo/Lookup.php(19): GuzzleHttp\Client->get('https://geo.exa...')
| #2 /srv/app/src/Geo/Handler.php(11): App\Geo\Lookup->find('Bern')
"##;
