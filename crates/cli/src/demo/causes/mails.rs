//! The mail-service, in TypeScript on Node.js: it leaks sockets, a few more each day.

use super::{Aggregate, Cause, Error, Event, Wire};
use crate::demo::payloads;
use crate::demo::programs::{MAILS, ORDERS, STOREFRONT};

/// How the consumer calls a handler.
const CONSUMER: &str = "
    at async MailHandler.handle (/srv/mail/dist/mail-handler.js:{48}:7)
    at async withTenant (/srv/mail/dist/tenancy.js:{22}:12)
    at async Consumer.deliver (/srv/mail/dist/consumer.js:{91}:9)
    at async Consumer.onMessage (/srv/mail/dist/consumer.js:{67}:5)
    at process.processTicksAndRejections (node:internal/process/task_queues:105:5)";

const REQUESTED: Event = Event {
    pattern: "email.requested",
    version: "1.2",
    sender: &ORDERS,
    payload: payloads::email,
    aggregate: Aggregate::Order,
    wire: Wire::Json,
};

/// The leak's first sign: no more file descriptors for sockets to the relay.
pub(in crate::demo) static NO_SOCKETS_LEFT: Cause = Cause {
    program: &MAILS,
    queue: "emails",
    event: REQUESTED,
    error: Error {
        name: "Error",
        code: Some("EMFILE"),
        messages: &["connect EMFILE 203.0.113.25:587 - Local (undefined:undefined)"],
        backtrace: &[
            "Error: {message}
    at internalConnect (node:net:1111:16)
    at defaultTriggerAsyncIdScope (node:internal/async_hooks:464:18)
    at node:net:1349:9
    at process.processTicksAndRejections (node:internal/process/task_queues:85:11)
    at SMTPConnection.connect (/srv/mail/node_modules/nodemailer/lib/smtp-connection/index.js:240:33)
    at PoolResource.connect (/srv/mail/node_modules/nodemailer/lib/smtp-pool/pool-resource.js:106:25)
    at async SmtpRelay.send (/srv/mail/dist/relay.js:{57}:20)",
            CONSUMER,
        ],
        context: &[("relay", "smtp.relay.example:587"), ("openSockets", "1024")],
    },
    run_ms: (2, 14),
};

/// The leak's second sign: connections to the database are never given back.
pub(in crate::demo) static POOL_EXHAUSTED: Cause = Cause {
    program: &MAILS,
    queue: "emails",
    event: REQUESTED,
    error: Error {
        name: "KnexTimeoutError",
        code: None,
        messages: &[
            "Knex: Timeout acquiring a connection. The pool is probably full. Are you missing a .transacting(trx) call?",
        ],
        backtrace: &[
            "KnexTimeoutError: {message}
    at Client_PG.acquireConnection (/srv/mail/node_modules/knex/lib/client.js:332:26)
    at async Runner.ensureConnection (/srv/mail/node_modules/knex/lib/execution/internal/ensure-connection-callback.js:13:12)
    at async Runner.run (/srv/mail/node_modules/knex/lib/execution/query-runner.js:30:19)
    at async SentMails.remember (/srv/mail/dist/sent-mails.js:{33}:5)",
            CONSUMER,
        ],
        context: &[("pool", "min 2, max 10, used 10, waiting {seconds}")],
    },
    run_ms: (60_001, 60_090),
};

/// People mistype their addresses.
pub(in crate::demo) static BAD_ADDRESS: Cause = Cause {
    program: &MAILS,
    queue: "emails",
    event: Event { payload: payloads::email_to_nowhere, sender: &STOREFRONT, ..REQUESTED },
    error: Error {
        name: "ValidationError",
        code: None,
        messages: &["\"to\" must be a valid email, got \"{bad_email}\""],
        backtrace: &[
            "ValidationError: {message}
    at Object.assert (/srv/mail/node_modules/joi/lib/validator.js:24:12)
    at internals.Base.validate (/srv/mail/node_modules/joi/lib/base.js:548:26)
    at parseMail (/srv/mail/dist/mail.js:{19}:31)
    at MailHandler.read (/srv/mail/dist/mail-handler.js:{31}:18)",
            CONSUMER,
        ],
        context: &[("customer", "{customer}"), ("rule", "string.email")],
    },
    run_ms: (1, 7),
};

/// A customer who was erased on request still gets a greeting.
pub(in crate::demo) static CUSTOMER_GONE: Cause = Cause {
    program: &MAILS,
    queue: "emails",
    event: Event {
        pattern: "customer.registered",
        version: "1.0",
        sender: &STOREFRONT,
        payload: payloads::customer,
        aggregate: Aggregate::Customer,
        wire: Wire::Json,
    },
    error: Error {
        name: "AxiosError",
        code: Some("ERR_BAD_REQUEST"),
        messages: &["Request failed with status code 404"],
        backtrace: &[
            "AxiosError: {message}
    at settle (/srv/mail/node_modules/axios/dist/node/axios.cjs:2026:12)
    at IncomingMessage.handleStreamEnd (/srv/mail/node_modules/axios/dist/node/axios.cjs:3142:11)
    at IncomingMessage.emit (node:events:536:35)
    at endReadableNT (node:internal/streams/readable:1698:12)
    at Axios.request (/srv/mail/node_modules/axios/dist/node/axios.cjs:4252:41)
    at async Customers.byId (/srv/mail/dist/customers.js:{26}:19)
    at async GreetingHandler.handle (/srv/mail/dist/greeting-handler.js:{40}:22)",
            CONSUMER,
        ],
        context: &[
            ("url", "http://customers.harbourpine.example/v1/customers/{customer}"),
            ("status", "404"),
        ],
    },
    run_ms: (20, 130),
};

/// A template uses a helper that is not there. Nobody has seen this before the live part.
pub(in crate::demo) static TEMPLATE_BROKEN: Cause = Cause {
    program: &MAILS,
    queue: "emails",
    event: Event { pattern: "newsletter.due", payload: payloads::customer, aggregate: Aggregate::Customer, ..REQUESTED },
    error: Error {
        name: "TypeError",
        code: None,
        messages: &["Cannot read properties of undefined (reading 'toFixed')"],
        backtrace: &[
            "TypeError: {message}
    at formatPrice (/srv/mail/dist/templates/helpers.js:{14}:22)
    at Object.eval [as main] (eval at createFunctionContext (/srv/mail/node_modules/handlebars/dist/cjs/handlebars/compiler/javascript-compiler.js:262:23), <anonymous>:21:130)
    at main (/srv/mail/node_modules/handlebars/dist/cjs/handlebars/runtime.js:208:32)
    at ret (/srv/mail/node_modules/handlebars/dist/cjs/handlebars/runtime.js:212:12)
    at Templates.render (/srv/mail/dist/templates.js:{52}:16)",
            CONSUMER,
        ],
        context: &[("template", "newsletter-autumn"), ("customer", "{customer}")],
    },
    run_ms: (4, 22),
};
