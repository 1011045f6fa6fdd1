//! The order-service, in Java with Spring: reservations, and the database behind it.

use super::{Aggregate, Cause, Error, Event, Wire};
use crate::demo::payloads;
use crate::demo::programs::{ORDERS, STOREFRONT};

/// How Spring's listener and its transactions call the shop's code.
const SPRING: &str = "\
\tat org.springframework.transaction.interceptor.TransactionInterceptor.invoke(TransactionInterceptor.java:119)
\tat org.springframework.aop.framework.CglibAopProxy$DynamicAdvisedInterceptor.intercept(CglibAopProxy.java:728)
\tat shop.harbourpine.order.messaging.OrderListener.onMessage(OrderListener.java:{54})
\tat java.base/jdk.internal.reflect.DirectMethodHandleAccessor.invoke(DirectMethodHandleAccessor.java:103)
\tat java.base/java.lang.reflect.Method.invoke(Method.java:580)
\tat org.springframework.messaging.handler.invocation.InvocableHandlerMethod.doInvoke(InvocableHandlerMethod.java:169)
\tat org.springframework.amqp.rabbit.listener.adapter.HandlerAdapter.invoke(HandlerAdapter.java:75)
\tat java.base/java.lang.Thread.run(Thread.java:1583)";

const PLACED: Event = Event {
    pattern: "order.placed",
    version: "2.2",
    sender: &STOREFRONT,
    payload: payloads::order,
    aggregate: Aggregate::Order,
    wire: Wire::Json,
};

/// The primary of the database went away in the middle of a statement.
pub(in crate::demo) static DATABASE_GONE: Cause = Cause {
    program: &ORDERS,
    queue: "orders",
    event: PLACED,
    error: Error {
        name: "org.postgresql.util.PSQLException",
        code: Some("57P01"),
        messages: &["FATAL: terminating connection due to administrator command"],
        backtrace: &[
            "{type}: {message}
\tat org.postgresql.core.v3.QueryExecutorImpl.receiveErrorResponse(QueryExecutorImpl.java:2733)
\tat org.postgresql.core.v3.QueryExecutorImpl.processResults(QueryExecutorImpl.java:2420)
\tat org.postgresql.core.v3.QueryExecutorImpl.execute(QueryExecutorImpl.java:372)
\tat org.postgresql.jdbc.PgStatement.executeInternal(PgStatement.java:517)
\tat org.postgresql.jdbc.PgPreparedStatement.executeUpdate(PgPreparedStatement.java:155)
\tat com.zaxxer.hikari.pool.ProxyPreparedStatement.executeUpdate(ProxyPreparedStatement.java:61)
\tat org.springframework.jdbc.core.JdbcTemplate.update(JdbcTemplate.java:965)
\tat shop.harbourpine.order.store.OrderRows.insert(OrderRows.java:{88})
\tat shop.harbourpine.order.PlaceOrder.handle(PlaceOrder.java:{63})
",
            SPRING,
        ],
        context: &[("database", "pg-main.harbourpine.example:5432/orders"), ("pool", "HikariPool-1")],
    },
    run_ms: (15, 2_400),
};

/// Somebody else was faster.
pub(in crate::demo) static OUT_OF_STOCK: Cause = Cause {
    program: &ORDERS,
    queue: "orders",
    event: Event { pattern: "stock.reserve", version: "1.1", payload: payloads::reservation, ..PLACED },
    error: Error {
        name: "shop.harbourpine.order.InsufficientStockException",
        code: Some("insufficient_stock"),
        messages: &["insufficient stock for {sku}: {wanted} requested, {left} available (order {order})"],
        backtrace: &[
            "{type}: {message}
\tat shop.harbourpine.order.stock.Shelf.take(Shelf.java:{71})
\tat shop.harbourpine.order.stock.Reservations.reserve(Reservations.java:{104})
\tat shop.harbourpine.order.ReserveStock.handle(ReserveStock.java:{39})
",
            SPRING,
        ],
        context: &[("order", "{order}"), ("sku", "{sku}")],
    },
    run_ms: (9, 60),
};

/// A body that ends in the middle: the proxy in front of the storefront cuts long requests.
pub(in crate::demo) static CUT_SHORT: Cause = Cause {
    program: &ORDERS,
    queue: "orders",
    event: Event { wire: Wire::CutShort, ..PLACED },
    error: Error {
        name: "com.fasterxml.jackson.core.io.JsonEOFException",
        code: None,
        messages: &[
            "Unexpected end-of-input in field name\n at [Source: (byte[])[{body_bytes} bytes]; line: 1, column: {body_bytes}]",
        ],
        backtrace: &[
            "{type}: {message}
\tat com.fasterxml.jackson.core.base.ParserMinimalBase._reportInvalidEOF(ParserMinimalBase.java:588)
\tat com.fasterxml.jackson.core.json.UTF8StreamJsonParser.parseEscapedName(UTF8StreamJsonParser.java:2110)
\tat com.fasterxml.jackson.core.json.UTF8StreamJsonParser.nextFieldName(UTF8StreamJsonParser.java:1078)
\tat com.fasterxml.jackson.databind.deser.BeanDeserializer.deserializeFromObject(BeanDeserializer.java:403)
\tat com.fasterxml.jackson.databind.ObjectMapper.readValue(ObjectMapper.java:3892)
\tat shop.harbourpine.order.messaging.Events.read(Events.java:{31})
",
            SPRING,
        ],
        context: &[("event", "{event}"), ("bodyBytes", "{body_bytes}")],
    },
    run_ms: (1, 6),
};
