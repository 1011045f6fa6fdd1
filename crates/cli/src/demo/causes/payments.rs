//! The payment-service, in Kotlin on the JVM: card gateway, refunds, disputes.

use super::{Aggregate, Cause, Error, Event, Wire};
use crate::demo::payloads;
use crate::demo::programs::{ORDERS, PAYMENTS, STOREFRONT};

/// How Spring's listener for RabbitMQ calls the shop's code.
const SPRING: &str = "\
\tat java.base/jdk.internal.reflect.DirectMethodHandleAccessor.invoke(DirectMethodHandleAccessor.java:103)
\tat java.base/java.lang.reflect.Method.invoke(Method.java:580)
\tat org.springframework.messaging.handler.invocation.InvocableHandlerMethod.doInvoke(InvocableHandlerMethod.java:169)
\tat org.springframework.amqp.rabbit.listener.adapter.HandlerAdapter.invoke(HandlerAdapter.java:75)
\tat org.springframework.amqp.rabbit.listener.SimpleMessageListenerContainer.doReceiveAndExecute(SimpleMessageListenerContainer.java:1101)
\tat java.base/java.lang.Thread.run(Thread.java:1583)";

const AUTHORIZE: Event = Event {
    pattern: "payment.authorize",
    version: "3.0",
    sender: &ORDERS,
    payload: payloads::payment,
    aggregate: Aggregate::Order,
    wire: Wire::Json,
};

/// The card gateway does not answer.
pub(in crate::demo) static GATEWAY_SILENT: Cause = Cause {
    program: &PAYMENTS,
    queue: "payments",
    event: AUTHORIZE,
    error: Error {
        name: "java.net.SocketTimeoutException",
        code: None,
        messages: &["Read timed out"],
        backtrace: &[
            "{type}: {message}
\tat java.base/sun.nio.ch.NioSocketImpl.timedRead(NioSocketImpl.java:278)
\tat java.base/sun.nio.ch.NioSocketImpl.implRead(NioSocketImpl.java:304)
\tat java.base/java.net.Socket$SocketInputStream.read(Socket.java:1099)
\tat okio.InputStreamSource.read(JvmOkio.kt:94)
\tat okio.AsyncTimeout$source$1.read(AsyncTimeout.kt:153)
\tat okhttp3.internal.http1.HeadersReader.readLine(HeadersReader.kt:29)
\tat okhttp3.internal.http1.Http1ExchangeCodec.readResponseHeaders(Http1ExchangeCodec.kt:178)
\tat okhttp3.internal.http.CallServerInterceptor.intercept(CallServerInterceptor.kt:93)
\tat okhttp3.internal.connection.RealCall.execute(RealCall.kt:154)
\tat shop.harbourpine.payment.gateway.CardGatewayClient.authorize(CardGatewayClient.kt:{71})
\tat shop.harbourpine.payment.AuthorizePayment.handle(AuthorizePayment.kt:{44})
\tat shop.harbourpine.payment.messaging.PaymentListener.onAuthorize(PaymentListener.kt:{29})
",
            SPRING,
        ],
        context: &[("gateway", "https://cards.gateway.example/v3/authorizations"), ("timeoutMs", "10000")],
    },
    run_ms: (10_004, 10_180),
};

/// The card gateway answers that it is overloaded.
pub(in crate::demo) static GATEWAY_UNAVAILABLE: Cause = Cause {
    program: &PAYMENTS,
    queue: "payments",
    event: AUTHORIZE,
    error: Error {
        name: "shop.harbourpine.payment.gateway.GatewayUnavailableException",
        code: Some("503"),
        messages: &[
            "POST https://cards.gateway.example/v3/authorizations: HTTP 503 Service Unavailable for {payment}",
        ],
        backtrace: &[
            "{type}: {message}
\tat shop.harbourpine.payment.gateway.CardGatewayClient.check(CardGatewayClient.kt:{112})
\tat shop.harbourpine.payment.gateway.CardGatewayClient.authorize(CardGatewayClient.kt:{78})
\tat shop.harbourpine.payment.gateway.RetryingGateway.authorize(RetryingGateway.kt:{35})
\tat shop.harbourpine.payment.AuthorizePayment.handle(AuthorizePayment.kt:{44})
\tat shop.harbourpine.payment.messaging.PaymentListener.onAuthorize(PaymentListener.kt:{29})
",
            SPRING,
        ],
        context: &[("gateway", "https://cards.gateway.example/v3/authorizations"), ("retryAfter", "120")],
    },
    run_ms: (140, 900),
};

/// The bank says no.
pub(in crate::demo) static CARD_DECLINED: Cause = Cause {
    program: &PAYMENTS,
    queue: "payments",
    event: Event { pattern: "payment.capture", ..AUTHORIZE },
    error: Error {
        name: "shop.harbourpine.payment.CardDeclinedException",
        code: Some("card_declined"),
        messages: &[
            "card {card} declined: expired_card",
            "card {card} declined: expired_card",
            "card {card} declined: insufficient_funds",
        ],
        backtrace: &[
            "{type}: {message}
\tat shop.harbourpine.payment.gateway.GatewayAnswer.orThrow(GatewayAnswer.kt:{52})
\tat shop.harbourpine.payment.gateway.CardGatewayClient.capture(CardGatewayClient.kt:{96})
\tat shop.harbourpine.payment.CapturePayment.handle(CapturePayment.kt:{61})
\tat shop.harbourpine.payment.messaging.PaymentListener.onCapture(PaymentListener.kt:{41})
",
            SPRING,
        ],
        context: &[("payment", "{payment}"), ("amount", "{amount} {currency}")],
    },
    run_ms: (210, 640),
};

/// A customer typed the account number wrongly.
pub(in crate::demo) static BAD_IBAN: Cause = Cause {
    program: &PAYMENTS,
    queue: "payments",
    event: REFUND,
    error: Error {
        name: "shop.harbourpine.payment.IbanValidationException",
        code: Some("iban_checksum"),
        messages: &["invalid IBAN {iban} for {refund}: check digits do not match"],
        backtrace: &[
            "{type}: {message}
\tat shop.harbourpine.payment.bank.Iban$Companion.parse(Iban.kt:{38})
\tat shop.harbourpine.payment.bank.BankTransfer.of(BankTransfer.kt:{22})
\tat shop.harbourpine.payment.PayRefund.handle(PayRefund.kt:{57})
\tat shop.harbourpine.payment.messaging.RefundListener.onRequested(RefundListener.kt:{26})
",
            SPRING,
        ],
        context: &[("order", "{order}")],
    },
    run_ms: (3, 18),
};

/// A refund that lawyers have to look at first.
pub(in crate::demo) static DISPUTED_REFUND: Cause = Cause {
    program: &PAYMENTS,
    queue: "payments",
    event: REFUND,
    error: Error {
        name: "shop.harbourpine.payment.RefundBlockedException",
        code: Some("dispute_open"),
        messages: &["refund {refund} refused: order {order} is under dispute dsp_{reference}"],
        backtrace: &[
            "{type}: {message}
\tat shop.harbourpine.payment.dispute.DisputeGuard.check(DisputeGuard.kt:{47})
\tat shop.harbourpine.payment.PayRefund.handle(PayRefund.kt:{49})
\tat shop.harbourpine.payment.messaging.RefundListener.onRequested(RefundListener.kt:{26})
",
            SPRING,
        ],
        context: &[("dispute", "dsp_{reference}"), ("amount", "{amount} {currency}")],
    },
    run_ms: (12, 45),
};

const REFUND: Event = Event {
    pattern: "refund.requested",
    version: "1.4",
    sender: &STOREFRONT,
    payload: payloads::refund,
    aggregate: Aggregate::Order,
    wire: Wire::Json,
};
