//! The invoice-service, in Python with Celery: the victim of the bad deploy.

use super::{Aggregate, Cause, Error, Event, Wire};
use crate::demo::payloads;
use crate::demo::programs::{INVOICES, ORDERS, STOREFRONT};

/// How Celery calls a task; a traceback has its newest call last.
const CELERY: &str = r#"Traceback (most recent call last):
  File "/usr/local/lib/python3.12/site-packages/celery/app/trace.py", line 453, in trace_task
    R = retval = fun(*args, **kwargs)
                 ^^^^^^^^^^^^^^^^^^^^
  File "/usr/local/lib/python3.12/site-packages/celery/app/trace.py", line 736, in __protected_call__
    return self.run(*args, **kwargs)
           ^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/usr/local/lib/python3.12/site-packages/celery/app/autoretry.py", line 38, in run
    return task._orig_run(*args, **kwargs)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/usr/local/lib/python3.12/contextlib.py", line 81, in inner
    return func(*args, **kwds)
           ^^^^^^^^^^^^^^^^^^^
"#;

/// How SQLAlchemy calls the driver.
const SQLALCHEMY: &str = r#"  File "/usr/local/lib/python3.12/site-packages/sqlalchemy/orm/session.py", line 4352, in flush
    self._flush(objects)
  File "/usr/local/lib/python3.12/site-packages/sqlalchemy/orm/unitofwork.py", line 466, in execute
    rec.execute(self)
  File "/usr/local/lib/python3.12/site-packages/sqlalchemy/engine/base.py", line 1967, in _exec_single_context
    self.dialect.do_execute(
  File "/usr/local/lib/python3.12/site-packages/sqlalchemy/engine/default.py", line 941, in do_execute
    cursor.execute(statement, parameters)
"#;

/// Release 4.12.0 of the order-service forgot a field.
pub(in crate::demo) static CURRENCY_MISSING: Cause = Cause {
    program: &INVOICES,
    queue: "invoices",
    event: Event {
        pattern: "order.paid",
        version: "2.3",
        sender: &ORDERS,
        payload: payloads::order_without_currency,
        aggregate: Aggregate::Order,
        wire: Wire::Json,
    },
    error: Error {
        name: "KeyError",
        code: None,
        messages: &["'currency'"],
        backtrace: &[
            CELERY,
            r#"  File "/app/invoicing/tasks.py", line {58}, in on_order_paid
    return issue_invoice(event["payload"], tenant=event["metadata"]["tenantId"])
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/app/invoicing/issue.py", line {34}, in issue_invoice
    invoice = build_invoice(order, tenant)
              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/app/invoicing/builder.py", line {112}, in build_invoice
    lines = [line_from(item, order) for item in order["items"]]
             ^^^^^^^^^^^^^^^^^^^^^^
  File "/app/invoicing/builder.py", line {87}, in line_from
    price = Money(item["unitPrice"], order["currency"])
                                     ~~~~~^^^^^^^^^^^^
KeyError: 'currency'"#,
        ],
        context: &[("task", "invoicing.tasks.on_order_paid"), ("order", "{order}")],
    },
    run_ms: (11, 70),
};

const REQUESTED: Event = Event {
    pattern: "invoice.requested",
    version: "1.8",
    sender: &ORDERS,
    payload: payloads::invoice,
    aggregate: Aggregate::Order,
    wire: Wire::Json,
};

/// The database refuses connections while it fails over.
pub(in crate::demo) static DATABASE_REFUSED: Cause = Cause {
    program: &INVOICES,
    queue: "invoices",
    event: REQUESTED,
    error: Error {
        name: "sqlalchemy.exc.OperationalError",
        code: None,
        messages: &[
            "(psycopg2.OperationalError) connection to server at \"pg-main.harbourpine.example\" (10.40.2.17), port 5432 failed: Connection refused\n\tIs the server running on that host and accepting TCP/IP connections?",
        ],
        backtrace: &[
            CELERY,
            r#"  File "/app/invoicing/tasks.py", line {41}, in on_invoice_requested
    with session_scope() as session:
  File "/app/invoicing/db.py", line {23}, in session_scope
    session.connection()
  File "/usr/local/lib/python3.12/site-packages/sqlalchemy/pool/base.py", line 896, in __connect
    self.dbapi_connection = connection = pool._invoke_creator(self)
  File "/usr/local/lib/python3.12/site-packages/sqlalchemy/engine/default.py", line 621, in connect
    return self.loaded_dbapi.connect(*cargs, **cparams)
  File "/usr/local/lib/python3.12/site-packages/psycopg2/__init__.py", line 122, in connect
    conn = _connect(dsn, connection_factory=connection_factory, **kwasync)
{type}: {message}
(Background on this error at: https://sqlalche.me/e/20/e3q8)"#,
        ],
        context: &[("task", "invoicing.tasks.on_invoice_requested"), ("database", "invoices")],
    },
    run_ms: (2, 35),
};

/// The same invoice is asked for twice within a second.
pub(in crate::demo) static INVOICE_TWICE: Cause = Cause {
    program: &INVOICES,
    queue: "invoices",
    event: REQUESTED,
    error: Error {
        name: "sqlalchemy.exc.IntegrityError",
        code: Some("23505"),
        messages: &[
            "(psycopg2.errors.UniqueViolation) duplicate key value violates unique constraint \"invoices_number_key\"\nDETAIL:  Key (number)=({invoice}) already exists.",
        ],
        backtrace: &[
            CELERY,
            r#"  File "/app/invoicing/tasks.py", line {44}, in on_invoice_requested
    session.commit()
"#,
            SQLALCHEMY,
            "{type}: {message}",
        ],
        context: &[("task", "invoicing.tasks.on_invoice_requested"), ("invoice", "{invoice}")],
    },
    run_ms: (18, 90),
};

/// An importer of customers writes Latin-1 and says UTF-8.
pub(in crate::demo) static NOT_UTF8: Cause = Cause {
    program: &INVOICES,
    queue: "invoices",
    event: Event {
        pattern: "customer.updated",
        version: "1.0",
        sender: &STOREFRONT,
        payload: payloads::customer_with_umlaut,
        aggregate: Aggregate::Customer,
        wire: Wire::Latin1,
    },
    error: Error {
        name: "UnicodeDecodeError",
        code: None,
        messages: &["'utf-8' codec can't decode byte {bad_byte} in position {bad_at}: {bad_why}"],
        backtrace: &[
            CELERY,
            r#"  File "/app/invoicing/consumer.py", line {66}, in on_message
    event = decode(message.body)
            ^^^^^^^^^^^^^^^^^^^^
  File "/app/invoicing/events.py", line {19}, in decode
    return json.loads(body)
           ^^^^^^^^^^^^^^^^
  File "/usr/local/lib/python3.12/json/__init__.py", line 341, in loads
    s = s.decode(detect_encoding(s), 'surrogatepass')
        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "<frozen codecs>", line 322, in decode
{type}: {message}"#,
        ],
        context: &[("event", "{event}"), ("importer", "crm-export 0.9")],
    },
    run_ms: (1, 4),
};

/// The tax office's register shows an old certificate. Nobody has seen this before the live part.
pub(in crate::demo) static TAX_REGISTER_UNTRUSTED: Cause = Cause {
    program: &INVOICES,
    queue: "invoices",
    event: Event { pattern: "invoice.tax_check", ..REQUESTED },
    error: Error {
        name: "requests.exceptions.SSLError",
        code: None,
        messages: &[
            "HTTPSConnectionPool(host='vat.register.example', port=443): Max retries exceeded with url: /check/{country} (Caused by SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired (_ssl.c:1000)')))",
        ],
        backtrace: &[
            CELERY,
            r#"  File "/app/invoicing/tasks.py", line {93}, in on_tax_check
    answer = register.check(vat_id)
             ^^^^^^^^^^^^^^^^^^^^^^
  File "/app/invoicing/tax/register.py", line {40}, in check
    reply = self.http.get(url, timeout=5)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/usr/local/lib/python3.12/site-packages/requests/sessions.py", line 602, in get
    return self.request("GET", url, **kwargs)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/usr/local/lib/python3.12/site-packages/requests/adapters.py", line 698, in send
    raise SSLError(e, request=request)
{type}: {message}"#,
        ],
        context: &[("task", "invoicing.tasks.on_tax_check"), ("host", "vat.register.example")],
    },
    run_ms: (60, 240),
};
