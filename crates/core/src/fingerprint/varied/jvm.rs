//! Failures of programs in Java, Kotlin and Scala: drivers, clients, validators and brokers that wrap each other.

use super::check;

#[test]
fn errors_of_the_jvm_meet_whichever_layer_reported_them() {
    check(FAILURES);
}

const FAILURES: &str = r##"
## kt-ktor-decode-missing-sku: ktor cannot read body without sku
### stock.moved | io.ktor.serialization.JsonConvertException | 
Illegal input: Field 'sku' is required for type with serial name 'dk.havn.stock.Movement', but it was missing at path: $
| io.ktor.serialization.JsonConvertException: Illegal input: Field 'sku' is required for type with serial name 'dk.havn.stock.Movement', but it was missing at path: $
| 	at io.ktor.serialization.kotlinx.KotlinxSerializationConverter.deserialize(KotlinxSerializationConverter.kt:85)
| 	at dk.havn.stock.MovementReader.read(MovementReader.kt:22)
| 	at dk.havn.stock.MovementReader$read$1.invokeSuspend(MovementReader.kt)
| 	at kotlin.coroutines.jvm.internal.BaseContinuationImpl.resumeWith(ContinuationImpl.kt:33)
| Caused by: kotlinx.serialization.MissingFieldException: Field 'sku' is required for type with serial name 'dk.havn.stock.Movement', but it was missing at path: $
| 	at kotlinx.serialization.json.internal.StreamingJsonDecoder.decodeSerializableValue(StreamingJsonDecoder.kt:96)
| 	... 12 more
### stock.moved | JsonConvertException | 
Illegal input: Field 'sku' is required for type with serial name 'dk.havn.stock.Movement', but it was missing at path: $
| 	at io.ktor.serialization.kotlinx.KotlinxSerializationConverter.deserialize(KotlinxSerializationConverter.kt:85)
| 	at dk.havn.stock.MovementReader.read(MovementReader.kt:25)
| 	at dk.havn.stock.MovementReader$read$1.invokeSuspend(MovementReader.kt)
### stock.moved | kotlinx.serialization.MissingFieldException | 
Field 'sku' is required for type with serial name 'dk.havn.stock.Movement', but it was missing at path: $
| kotlinx.serialization.MissingFieldException: Field 'sku' is required for type with serial name 'dk.havn.stock.Movement', but it was missing at path: $
| 	at kotlinx.serialization.json.internal.StreamingJsonDecoder.decodeSerializableValue(StreamingJsonDecoder.kt:96)
| 	at dk.havn.stock.MovementReader.read(MovementReader.kt:25)
## kt-ktor-decode-missing-qty: another field
### stock.moved | JsonConvertException | 
Illegal input: Field 'qty' is required for type with serial name 'dk.havn.stock.Movement', but it was missing at path: $
| 	at io.ktor.serialization.kotlinx.KotlinxSerializationConverter.deserialize(KotlinxSerializationConverter.kt:85)
| 	at dk.havn.stock.MovementReader.read(MovementReader.kt:25)
## jpa-unique-email: hibernate chain with spring translation, and bare
### customer.registered | org.springframework.dao.DataIntegrityViolationException | 
could not execute statement [ERROR: duplicate key value violates unique constraint "customers_email_key" Detail: Key (email)=(a@b.example) already exists.] [insert into customers (email,id) values (?,?)]; SQL [insert into customers (email,id) values (?,?)]; constraint [customers_email_key]
| org.springframework.dao.DataIntegrityViolationException: could not execute statement [ERROR: duplicate key value violates unique constraint "customers_email_key" Detail: Key (email)=(a@b.example) already exists.] [insert into customers (email,id) values (?,?)]; SQL [insert into customers (email,id) values (?,?)]; constraint [customers_email_key]
| 	at org.springframework.orm.jpa.vendor.HibernateJpaDialect.convertHibernateAccessException(HibernateJpaDialect.java:290)
| 	at org.springframework.orm.jpa.JpaTransactionManager.doCommit(JpaTransactionManager.java:565)
| 	at no.fjord.crm.CustomerService$$SpringCGLIB$$0.register(<generated>)
| 	at no.fjord.crm.RegistrationListener.on(RegistrationListener.java:31)
| Caused by: org.hibernate.exception.ConstraintViolationException: could not execute statement [ERROR: duplicate key value violates unique constraint "customers_email_key" Detail: Key (email)=(a@b.example) already exists.] [insert into customers (email,id) values (?,?)]
| 	at org.hibernate.exception.internal.SQLStateConversionDelegate.convert(SQLStateConversionDelegate.java:97)
| 	... 40 common frames omitted
| Caused by: org.postgresql.util.PSQLException: ERROR: duplicate key value violates unique constraint "customers_email_key"
|   Detail: Key (email)=(a@b.example) already exists.
| 	at org.postgresql.core.v3.QueryExecutorImpl.receiveErrorResponse(QueryExecutorImpl.java:2713)
| 	... 60 common frames omitted
### customer.registered | DataIntegrityViolationException | 
could not execute statement [ERROR: duplicate key value violates unique constraint "customers_email_key" Detail: Key (email)=(x.y@c.example) already exists.] [insert into customers (email,id) values (?,?)]; SQL [insert into customers (email,id) values (?,?)]; constraint [customers_email_key]
| 	at org.springframework.orm.jpa.vendor.HibernateJpaDialect.convertHibernateAccessException(HibernateJpaDialect.java:290)
| 	at org.springframework.orm.jpa.JpaTransactionManager.doCommit(JpaTransactionManager.java:565)
| 	at no.fjord.crm.CustomerService$$SpringCGLIB$$0.register(<generated>)
| 	at no.fjord.crm.ImportJob.lambda$run$1(ImportJob.java:31)
## jpa-unique-phone: another constraint
### customer.registered | DataIntegrityViolationException | 
could not execute statement [ERROR: duplicate key value violates unique constraint "customers_phone_key" Detail: Key (phone)=(+47 1) already exists.] [insert into customers (email,id) values (?,?)]; SQL [insert into customers (email,id) values (?,?)]; constraint [customers_phone_key]
| 	at org.springframework.orm.jpa.vendor.HibernateJpaDialect.convertHibernateAccessException(HibernateJpaDialect.java:290)
| 	at org.springframework.orm.jpa.JpaTransactionManager.doCommit(JpaTransactionManager.java:565)
| 	at no.fjord.crm.CustomerService$$SpringCGLIB$$0.register(<generated>)
## mysql-dup: JdbcTemplate on mysql
### voucher.issued | org.springframework.dao.DuplicateKeyException | 
PreparedStatementCallback; SQL [INSERT INTO voucher (code, shop_id) VALUES (?, ?)]; Duplicate entry 'SUMMER-77-XA' for key 'voucher.uk_voucher_code'
| org.springframework.dao.DuplicateKeyException: PreparedStatementCallback; SQL [INSERT INTO voucher (code, shop_id) VALUES (?, ?)]; Duplicate entry 'SUMMER-77-XA' for key 'voucher.uk_voucher_code'
| 	at org.springframework.jdbc.support.SQLExceptionSubclassTranslator.doTranslate(SQLExceptionSubclassTranslator.java:72)
| 	at org.springframework.jdbc.core.JdbcTemplate.update(JdbcTemplate.java:980)
| 	at fr.boutik.voucher.VoucherDao.insert(VoucherDao.java:40)
| Caused by: java.sql.SQLIntegrityConstraintViolationException: Duplicate entry 'SUMMER-77-XA' for key 'voucher.uk_voucher_code'
| 	at com.mysql.cj.jdbc.exceptions.SQLError.createSQLException(SQLError.java:118)
| 	at com.zaxxer.hikari.pool.ProxyPreparedStatement.executeUpdate(ProxyPreparedStatement.java:61)
| 	... 19 more
### voucher.issued | DuplicateKeyException | 
PreparedStatementCallback; SQL [INSERT INTO voucher (code, shop_id) VALUES (?, ?)]; Duplicate entry 'WINTER-1' for key 'voucher.uk_voucher_code'
| 	at org.springframework.jdbc.support.SQLExceptionSubclassTranslator.doTranslate(SQLExceptionSubclassTranslator.java:72)
| 	at org.springframework.jdbc.core.JdbcTemplate.update(JdbcTemplate.java:980)
| 	at fr.boutik.voucher.VoucherDao.insert(VoucherDao.java:44)
## mysql-dup-serial: other key
### voucher.issued | DuplicateKeyException | 
PreparedStatementCallback; SQL [INSERT INTO voucher (code, shop_id) VALUES (?, ?)]; Duplicate entry '77' for key 'voucher.uk_voucher_serial'
| 	at org.springframework.jdbc.core.JdbcTemplate.update(JdbcTemplate.java:980)
| 	at fr.boutik.voucher.VoucherDao.insert(VoucherDao.java:44)
## feign-503: feign
### points.credited | feign.FeignException$ServiceUnavailable | 503
[503 Service Unavailable] during [POST] to [http://loyalty/v1/points] [LoyaltyClient#credit(Points)]: [upstream connect error or disconnect/reset before headers]
| feign.FeignException$ServiceUnavailable: [503 Service Unavailable] during [POST] to [http://loyalty/v1/points] [LoyaltyClient#credit(Points)]: [upstream connect error or disconnect/reset before headers]
| 	at feign.FeignException.serverErrorStatus(FeignException.java:256)
| 	at feign.SynchronousMethodHandler.invoke(SynchronousMethodHandler.java:70)
| 	at jdk.proxy2/jdk.proxy2.$Proxy144.credit(Unknown Source)
| 	at fr.boutik.points.PointsService.credit(PointsService.java:29)
### points.credited | FeignException.ServiceUnavailable | 503
[503] during [POST] to [http://loyalty/v1/points] [LoyaltyClient#credit(Points)]: []
| 	at feign.FeignException.serverErrorStatus(FeignException.java:256)
| 	at jdk.proxy2/jdk.proxy2.$Proxy98.credit(Unknown Source)
| 	at fr.boutik.points.PointsService.credit(PointsService.java:33)
### points.credited | fr.boutik.points.CreditFailed | 
could not credit 40 points to member 7781
| fr.boutik.points.CreditFailed: could not credit 40 points to member 7781
| 	at fr.boutik.points.PointsService.credit(PointsService.java:36)
| 	at fr.boutik.points.PointsListener.on(PointsListener.java:20)
| Caused by: feign.FeignException$ServiceUnavailable: [503 Service Unavailable] during [POST] to [http://loyalty/v1/points] [LoyaltyClient#credit(Points)]: [no healthy upstream]
| 	at feign.FeignException.serverErrorStatus(FeignException.java:256)
| 	at jdk.proxy2/jdk.proxy2.$Proxy98.credit(Unknown Source)
| 	at fr.boutik.points.PointsService.credit(PointsService.java:33)
| 	... 1 more
## feign-404: same call
### points.credited | feign.FeignException$NotFound | 404
[404 Not Found] during [POST] to [http://loyalty/v1/points] [LoyaltyClient#credit(Points)]: [{"code":"member_unknown"}]
| 	at feign.FeignException.clientErrorStatus(FeignException.java:219)
| 	at jdk.proxy2/jdk.proxy2.$Proxy98.credit(Unknown Source)
| 	at fr.boutik.points.PointsService.credit(PointsService.java:33)
## npe-helpful: NPE in mapper
### order.mapped | java.lang.NullPointerException | 
Cannot invoke "fr.boutik.order.Address.getCity()" because the return value of "fr.boutik.order.Order.getShipTo()" is null
| java.lang.NullPointerException: Cannot invoke "fr.boutik.order.Address.getCity()" because the return value of "fr.boutik.order.Order.getShipTo()" is null
| 	at fr.boutik.order.OrderMapperImpl.map(OrderMapperImpl.java:55)
| 	at fr.boutik.order.OrderListener.on(OrderListener.java:20)
### order.mapped | NullPointerException | 
Cannot invoke "fr.boutik.order.Address.getCity()" because the return value of "fr.boutik.order.Order.getShipTo()" is null
| 	at fr.boutik.order.OrderMapperImpl.map(OrderMapperImpl.java:59)
### order.mapped | org.springframework.kafka.listener.ListenerExecutionFailedException | 
Listener method 'public void fr.boutik.order.OrderListener.on(fr.boutik.order.OrderPlaced)' threw exception
| org.springframework.kafka.listener.ListenerExecutionFailedException: Listener method 'public void fr.boutik.order.OrderListener.on(fr.boutik.order.OrderPlaced)' threw exception
| 	at org.springframework.kafka.listener.KafkaMessageListenerContainer$ListenerConsumer.decorateException(KafkaMessageListenerContainer.java:2965)
| 	at java.base/java.lang.Thread.run(Thread.java:1583)
| Caused by: java.lang.NullPointerException: Cannot invoke "fr.boutik.order.Address.getCity()" because the return value of "fr.boutik.order.Order.getShipTo()" is null
| 	at fr.boutik.order.OrderMapperImpl.map(OrderMapperImpl.java:59)
| 	at fr.boutik.order.OrderListener.on(OrderListener.java:20)
| 	... 12 common frames omitted
## npe-other-field: another null, same mapper
### order.mapped | NullPointerException | 
Cannot invoke "fr.boutik.order.Money.amount()" because the return value of "fr.boutik.order.Order.getTotal()" is null
| 	at fr.boutik.order.OrderMapperImpl.map(OrderMapperImpl.java:61)
## jackson-date: bad date
### order.mapped | com.fasterxml.jackson.databind.exc.InvalidFormatException | 
Cannot deserialize value of type `java.time.LocalDate` from String "31.12.2025": Failed to deserialize java.time.LocalDate: (java.time.format.DateTimeParseException) Text '31.12.2025' could not be parsed at index 0
 at [Source: (byte[])"{"id":1,"due":"31.12.2025"}"; line: 1, column: 14] (through reference chain: fr.boutik.order.OrderPlaced["due"])
| com.fasterxml.jackson.databind.exc.InvalidFormatException: Cannot deserialize value of type `java.time.LocalDate` from String "31.12.2025": Failed to deserialize java.time.LocalDate: (java.time.format.DateTimeParseException) Text '31.12.2025' could not be parsed at index 0
|  at [Source: (byte[])"{"id":1,"due":"31.12.2025"}"; line: 1, column: 14] (through reference chain: fr.boutik.order.OrderPlaced["due"])
| 	at com.fasterxml.jackson.databind.exc.InvalidFormatException.from(InvalidFormatException.java:67)
| 	at com.fasterxml.jackson.databind.ObjectMapper.readValue(ObjectMapper.java:3821)
| 	at fr.boutik.order.Codec.read(Codec.java:19)
| Caused by: java.time.format.DateTimeParseException: Text '31.12.2025' could not be parsed at index 0
| 	at java.base/java.time.format.DateTimeFormatter.parseResolved0(DateTimeFormatter.java:2108)
| 	... 8 more
### order.mapped | InvalidFormatException | 
Cannot deserialize value of type `java.time.LocalDate` from String "tomorrow": Failed to deserialize java.time.LocalDate: (java.time.format.DateTimeParseException) Text 'tomorrow' could not be parsed at index 0
 at [Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); line: 1, column: 88] (through reference chain: fr.boutik.order.OrderPlaced["due"])
| 	at com.fasterxml.jackson.databind.exc.InvalidFormatException.from(InvalidFormatException.java:67)
| 	at com.fasterxml.jackson.databind.ObjectMapper.readValue(ObjectMapper.java:3821)
| 	at fr.boutik.order.Codec.read(Codec.java:23)
## kafka-auth: producer not authorised
### audit.written | org.apache.kafka.common.errors.TopicAuthorizationException | 
Not authorized to access topics: [audit.v2]
| org.springframework.kafka.KafkaException: Send failed
| 	at org.springframework.kafka.core.KafkaTemplate.doSend(KafkaTemplate.java:795)
| 	at fr.boutik.audit.AuditLog.write(AuditLog.java:18)
| Caused by: org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: [audit.v2]
### audit.written | TopicAuthorizationException | 
Not authorized to access topics: [audit.v2]
| 	at org.apache.kafka.clients.producer.KafkaProducer.doSend(KafkaProducer.java:1102)
| 	at fr.boutik.audit.AuditLog.write(AuditLog.java:22)
## kafka-size: too large
### audit.written | org.apache.kafka.common.errors.RecordTooLargeException | 
The message is 1391022 bytes when serialized which is larger than 1048576, which is the value of the max.request.size configuration.
| 	at org.apache.kafka.clients.producer.KafkaProducer.doSend(KafkaProducer.java:1102)
| 	at fr.boutik.audit.AuditLog.write(AuditLog.java:22)
### audit.written | java.util.concurrent.ExecutionException | 
org.apache.kafka.common.errors.RecordTooLargeException: The message is 2200111 bytes when serialized which is larger than 1048576, which is the value of the max.request.size configuration.
| java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.RecordTooLargeException: The message is 2200111 bytes when serialized which is larger than 1048576, which is the value of the max.request.size configuration.
| 	at org.apache.kafka.clients.producer.KafkaProducer$FutureFailure.<init>(KafkaProducer.java:1600)
| 	at fr.boutik.audit.AuditLog.write(AuditLog.java:25)
| Caused by: org.apache.kafka.common.errors.RecordTooLargeException: The message is 2200111 bytes when serialized which is larger than 1048576, which is the value of the max.request.size configuration.
## scala-match: match error
### price.quoted | scala.MatchError | 
GBP (of class se.pris.Currency$GBP$)
| scala.MatchError: GBP (of class se.pris.Currency$GBP$)
| 	at se.pris.Tariff$.band(Tariff.scala:33)
| 	at se.pris.QuoteActor$$anonfun$receive$1.applyOrElse(QuoteActor.scala:20)
| 	at akka.actor.Actor.aroundReceive(Actor.scala:537)
### price.quoted | MatchError | 
GBP (of class se.pris.Currency$GBP$)
| 	at se.pris.Tariff$.band(Tariff.scala:35)
| 	at se.pris.QuoteActor$$anonfun$receive$1.applyOrElse(QuoteActor.scala:22)
## mn-validation-sku: micronaut bean validation
### basket.checked | jakarta.validation.ConstraintViolationException | 
checkout.basket.lines[0].sku: must not be blank
| jakarta.validation.ConstraintViolationException: checkout.basket.lines[0].sku: must not be blank
| 	at io.micronaut.validation.ValidatingInterceptor.validateReturnExecutableValidator(ValidatingInterceptor.java:152)
| 	at io.micronaut.validation.ValidatingInterceptor.intercept(ValidatingInterceptor.java:110)
| 	at pt.mercado.basket.$BasketService$Definition$Intercepted.checkout(Unknown Source)
| 	at pt.mercado.basket.BasketListener.receive(BasketListener.java:25)
### basket.checked | ConstraintViolationException | 
checkout.basket.lines[3].sku: must not be blank
| 	at io.micronaut.validation.ValidatingInterceptor.intercept(ValidatingInterceptor.java:110)
| 	at pt.mercado.basket.$BasketService$Definition$Intercepted.checkout(Unknown Source)
| 	at pt.mercado.basket.BasketListener.receive(BasketListener.java:27)
## mn-validation-qty: other field
### basket.checked | ConstraintViolationException | 
checkout.basket.lines[0].quantity: must be greater than 0
| 	at io.micronaut.validation.ValidatingInterceptor.intercept(ValidatingInterceptor.java:110)
| 	at pt.mercado.basket.$BasketService$Definition$Intercepted.checkout(Unknown Source)
## hib-stale: optimistic
### basket.merged | org.springframework.orm.ObjectOptimisticLockingFailureException | 
Row was updated or deleted by another transaction (or unsaved-value mapping was incorrect) : [pt.mercado.basket.Basket#7712]
| org.springframework.orm.ObjectOptimisticLockingFailureException: Row was updated or deleted by another transaction (or unsaved-value mapping was incorrect) : [pt.mercado.basket.Basket#7712]
| 	at org.springframework.orm.jpa.vendor.HibernateJpaDialect.convertHibernateAccessException(HibernateJpaDialect.java:325)
| 	at pt.mercado.basket.MergeService$$SpringCGLIB$$0.merge(<generated>)
| 	at pt.mercado.basket.MergeListener.on(MergeListener.java:30)
| Caused by: org.hibernate.StaleObjectStateException: Row was updated or deleted by another transaction (or unsaved-value mapping was incorrect) : [pt.mercado.basket.Basket#7712]
| 	at org.hibernate.persister.entity.AbstractEntityPersister.check(AbstractEntityPersister.java:2711)
| 	... 40 more
### basket.merged | ObjectOptimisticLockingFailureException | 
Row was updated or deleted by another transaction (or unsaved-value mapping was incorrect) : [pt.mercado.basket.Basket#12]
| 	at org.springframework.orm.jpa.vendor.HibernateJpaDialect.convertHibernateAccessException(HibernateJpaDialect.java:325)
| 	at pt.mercado.basket.MergeService$$SpringCGLIB$$1.merge(<generated>)
| 	at pt.mercado.basket.NightlyMerge.run(NightlyMerge.java:31)
### basket.merged | pt.mercado.basket.MergeFailed | 
merging baskets 12 and 13 failed
| pt.mercado.basket.MergeFailed: merging baskets 12 and 13 failed
| 	at pt.mercado.basket.MergeListener.on(MergeListener.java:35)
| Caused by: org.springframework.orm.ObjectOptimisticLockingFailureException: Row was updated or deleted by another transaction (or unsaved-value mapping was incorrect) : [pt.mercado.basket.Basket#12]
| 	at org.springframework.orm.jpa.vendor.HibernateJpaDialect.convertHibernateAccessException(HibernateJpaDialect.java:325)
| 	at pt.mercado.basket.MergeService$$SpringCGLIB$$0.merge(<generated>)
| 	... 5 more
| Caused by: org.hibernate.StaleObjectStateException: Row was updated or deleted by another transaction (or unsaved-value mapping was incorrect) : [pt.mercado.basket.Basket#12]
| 	... 40 more
## s3-denied: aws sdk v2
### photo.stored | software.amazon.awssdk.services.s3.model.S3Exception | AccessDenied
Access Denied (Service: S3, Status Code: 403, Request ID: 9V1XQ, Extended Request ID: zk/77=)
| software.amazon.awssdk.services.s3.model.S3Exception: Access Denied (Service: S3, Status Code: 403, Request ID: 9V1XQ, Extended Request ID: zk/77=)
| 	at software.amazon.awssdk.core.internal.http.CombinedResponseHandler.handleErrorResponse(CombinedResponseHandler.java:125)
| 	at software.amazon.awssdk.services.s3.DefaultS3Client.putObject(DefaultS3Client.java:11134)
| 	at pt.mercado.photo.PhotoStore.put(PhotoStore.java:40)
### photo.stored | S3Exception | AccessDenied
User: arn:aws:iam::7712:user/photo is not authorized to perform: s3:PutObject (Service: S3, Status Code: 403, Request ID: 0AB, Extended Request ID: q+1=)
| 	at software.amazon.awssdk.services.s3.DefaultS3Client.putObject(DefaultS3Client.java:11134)
| 	at pt.mercado.photo.PhotoStore.put(PhotoStore.java:44)
## s3-slow: 503
### photo.stored | S3Exception | SlowDown
Please reduce your request rate. (Service: S3, Status Code: 503, Request ID: 0AB, Extended Request ID: q+1=)
| 	at software.amazon.awssdk.services.s3.DefaultS3Client.putObject(DefaultS3Client.java:11134)
| 	at pt.mercado.photo.PhotoStore.put(PhotoStore.java:44)
### photo.stored | software.amazon.awssdk.services.s3.model.S3Exception | SlowDown
Please reduce your request rate. (Service: S3, Status Code: 503, Request ID: P91, Extended Request ID: 00=)
| software.amazon.awssdk.services.s3.model.S3Exception: Please reduce your request rate. (Service: S3, Status Code: 503, Request ID: P91, Extended Request ID: 00=)
| 	at software.amazon.awssdk.services.s3.DefaultS3Client.putObject(DefaultS3Client.java:11134)
| 	at pt.mercado.photo.PhotoStore.put(PhotoStore.java:41)
## jedis-timeout: cache
### price.cached | redis.clients.jedis.exceptions.JedisConnectionException | 
java.net.SocketTimeoutException: Read timed out
| redis.clients.jedis.exceptions.JedisConnectionException: java.net.SocketTimeoutException: Read timed out
| 	at redis.clients.jedis.util.RedisInputStream.ensureFill(RedisInputStream.java:248)
| 	at redis.clients.jedis.Jedis.get(Jedis.java:170)
| 	at pt.mercado.price.PriceCache.get(PriceCache.java:22)
| Caused by: java.net.SocketTimeoutException: Read timed out
| 	at java.base/sun.nio.ch.NioSocketImpl.timedRead(NioSocketImpl.java:278)
| 	... 8 more
### price.cached | JedisConnectionException | 
java.net.SocketTimeoutException: Read timed out
| 	at redis.clients.jedis.Jedis.get(Jedis.java:170)
| 	at pt.mercado.price.PriceCache.get(PriceCache.java:25)
## jedis-pool: pool
### price.cached | redis.clients.jedis.exceptions.JedisException | 
Could not get a resource from the pool
| redis.clients.jedis.exceptions.JedisException: Could not get a resource from the pool
| 	at redis.clients.jedis.util.Pool.getResource(Pool.java:41)
| 	at pt.mercado.price.PriceCache.get(PriceCache.java:22)
| Caused by: java.util.NoSuchElementException: Timeout waiting for idle object, borrowMaxWaitDuration=PT2S
| 	at org.apache.commons.pool2.impl.GenericObjectPool.borrowObject(GenericObjectPool.java:312)
| 	... 9 more
### price.cached | JedisExhaustedPoolException | 
Could not get a resource from the pool
| redis.clients.jedis.exceptions.JedisExhaustedPoolException: Could not get a resource from the pool
| 	at redis.clients.jedis.util.Pool.getResource(Pool.java:53)
| 	at pt.mercado.price.PriceCache.put(PriceCache.java:31)
| Caused by: java.util.NoSuchElementException: Timeout waiting for idle object
| 	... 9 more
## enum-valueof: unknown enum
### unit.parsed | java.lang.IllegalArgumentException | 
No enum constant pt.mercado.unit.Unit.PALLET
| java.lang.IllegalArgumentException: No enum constant pt.mercado.unit.Unit.PALLET
| 	at java.base/java.lang.Enum.valueOf(Enum.java:293)
| 	at pt.mercado.unit.Unit.valueOf(Unit.java:3)
| 	at pt.mercado.unit.UnitParser.parse(UnitParser.java:11)
### unit.parsed | IllegalArgumentException | 
No enum constant pt.mercado.unit.Unit.PALLET
| 	at java.base/java.lang.Enum.valueOf(Enum.java:273)
| 	at pt.mercado.unit.Unit.valueOf(Unit.java:3)
| 	at pt.mercado.unit.UnitParser.parse(UnitParser.java:14)
## nfe: number
### unit.parsed | java.lang.NumberFormatException | 
For input string: "12,5"
| 	at java.base/java.lang.NumberFormatException.forInputString(NumberFormatException.java:67)
| 	at java.base/java.lang.Integer.parseInt(Integer.java:668)
| 	at pt.mercado.unit.UnitParser.parse(UnitParser.java:14)
### unit.parsed | NumberFormatException | 
For input string: "n/a"
| 	at java.base/java.lang.Integer.parseInt(Integer.java:652)
| 	at pt.mercado.unit.UnitParser.parse(UnitParser.java:16)
## camel: camel wraps
### doc.routed | org.apache.camel.CamelExecutionException | 
Exception occurred during execution on the exchange: Exchange[ID-doc-7-1773218841029-0-12]
| org.apache.camel.CamelExecutionException: Exception occurred during execution on the exchange: Exchange[ID-doc-7-1773218841029-0-12]
| 	at org.apache.camel.CamelExecutionException.wrapCamelExecutionException(CamelExecutionException.java:45)
| 	at org.apache.camel.support.AbstractExchange.setException(AbstractExchange.java:589)
| Caused by: java.lang.IllegalArgumentException: unknown document type: WAYBILL_V9
| 	at com.papir.docs.TypeMapper.map(TypeMapper.java:31)
| 	at com.papir.docs.RouteDocuments.process(RouteDocuments.java:20)
| 	at org.apache.camel.support.processor.DelegateSyncProcessor.process(DelegateSyncProcessor.java:66)
### doc.routed | java.lang.IllegalArgumentException | 
unknown document type: WAYBILL_V9
| java.lang.IllegalArgumentException: unknown document type: WAYBILL_V9
| 	at com.papir.docs.TypeMapper.map(TypeMapper.java:34)
| 	at com.papir.docs.Reindex.run(Reindex.java:20)
## webflux: reactor
### price.read | org.springframework.web.reactive.function.client.WebClientResponseException$TooManyRequests | 429
429 Too Many Requests from GET https://prices.example/v1/p/77
| org.springframework.web.reactive.function.client.WebClientResponseException$TooManyRequests: 429 Too Many Requests from GET https://prices.example/v1/p/77
| 	at org.springframework.web.reactive.function.client.WebClientResponseException.create(WebClientResponseException.java:330)
| 	Suppressed: reactor.core.publisher.FluxOnAssembly$OnAssemblyException: 
| Error has been observed at the following site(s):
| 	*__checkpoint ⇢ 429 TOO_MANY_REQUESTS from GET https://prices.example/v1/p/77 [DefaultWebClient]
| Original Stack Trace:
| 		at org.springframework.web.reactive.function.client.WebClientResponseException.create(WebClientResponseException.java:330)
| 		at com.papir.prices.PriceClient.lambda$read$1(PriceClient.java:29)
| 		at reactor.core.publisher.MonoFlatMap$FlatMapMain.onNext(MonoFlatMap.java:132)
### price.read | WebClientResponseException.TooManyRequests | 429
429 Too Many Requests from GET https://prices.example/v1/p/12
| 	at org.springframework.web.reactive.function.client.WebClientResponseException.create(WebClientResponseException.java:330)
| 	at com.papir.prices.PriceClient.lambda$read$0(PriceClient.java:27)
## logback-jars: frames with jars
### label.made | java.lang.IllegalStateException | 
printer queue closed
| java.lang.IllegalStateException: printer queue closed
| 	at com.papir.print.Queue.put(Queue.java:12) ~[print-2.1.0.jar!/:2.1.0]
| 	at com.papir.print.Printer.print(Printer.java:50) ~[classes!/:na]
| 	at org.springframework.amqp.rabbit.X.y(X.java:1) [spring-rabbit-3.1.1.jar!/:3.1.1]
### label.made | IllegalStateException | 
printer queue closed
| 	at com.papir.print.Queue.put(Queue.java:14) ~[print-2.1.3.jar!/:2.1.3]
| 	at com.papir.print.Printer.print(Printer.java:52) ~[classes!/:na]
"##;
