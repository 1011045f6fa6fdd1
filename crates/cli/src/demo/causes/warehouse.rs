//! The warehouse-sync, in Ruby with Sidekiq: an old scanner system on the other end.

use super::{Aggregate, Cause, Error, Event, Wire};
use crate::demo::payloads;
use crate::demo::programs::{ORDERS, WAREHOUSE};

/// How Sidekiq calls a job.
const SIDEKIQ: &str = "
/app/app/jobs/stock_changed_job.rb:{21}:in `perform'
/app/lib/tenancy.rb:{14}:in `with'
/usr/local/bundle/gems/sidekiq-7.3.6/lib/sidekiq/processor.rb:220:in `execute_job'
/usr/local/bundle/gems/sidekiq-7.3.6/lib/sidekiq/processor.rb:185:in `block (4 levels) in process'
/usr/local/bundle/gems/sidekiq-7.3.6/lib/sidekiq/middleware/chain.rb:180:in `traverse'
/usr/local/bundle/gems/sidekiq-7.3.6/lib/sidekiq/job_retry.rb:118:in `local'
/usr/local/bundle/gems/sidekiq-7.3.6/lib/sidekiq/processor.rb:86:in `process_one'
/usr/local/bundle/gems/sidekiq-7.3.6/lib/sidekiq/component.rb:10:in `watchdog'";

const CHANGED: Event = Event {
    pattern: "stock.changed",
    version: "1.0",
    sender: &ORDERS,
    payload: payloads::stock,
    aggregate: Aggregate::Product,
    wire: Wire::Json,
};

/// The scanner system counts its shelves and answers nobody.
pub(in crate::demo) static SCANNERS_SILENT: Cause = Cause {
    program: &WAREHOUSE,
    queue: "stock",
    event: CHANGED,
    error: Error {
        name: "Net::ReadTimeout",
        code: None,
        messages: &["Net::ReadTimeout with #<TCPSocket:(closed)>"],
        backtrace: &[
            "/usr/local/lib/ruby/3.3.0/net/protocol.rb:229:in `rbuf_fill'
/usr/local/lib/ruby/3.3.0/net/protocol.rb:199:in `readuntil'
/usr/local/lib/ruby/3.3.0/net/http/response.rb:158:in `read_status_line'
/usr/local/lib/ruby/3.3.0/net/http.rb:2342:in `transport_request'
/app/app/clients/scanner_client.rb:{38}:in `post'
/app/app/services/stock_levels.rb:{52}:in `push'",
            SIDEKIQ,
        ],
        context: &[("host", "scanners.warehouse.example"), ("sku", "{sku}")],
    },
    run_ms: (30_010, 30_400),
};

/// Two counts of one shelf at one time.
pub(in crate::demo) static SHELF_CHANGED: Cause = Cause {
    program: &WAREHOUSE,
    queue: "stock",
    event: CHANGED,
    error: Error {
        name: "ActiveRecord::StaleObjectError",
        code: None,
        messages: &["Attempted to update a stale object: StockLevel."],
        backtrace: &[
            "/usr/local/bundle/gems/activerecord-7.2.2/lib/active_record/locking/optimistic.rb:121:in `_update_row'
/usr/local/bundle/gems/activerecord-7.2.2/lib/active_record/persistence.rb:893:in `_update_record'
/usr/local/bundle/gems/activerecord-7.2.2/lib/active_record/transactions.rb:365:in `with_transaction_returning_status'
/usr/local/bundle/gems/activerecord-7.2.2/lib/active_record/suppressor.rb:56:in `save!'
/app/app/services/stock_levels.rb:{67}:in `apply'",
            SIDEKIQ,
        ],
        context: &[("sku", "{sku}")],
    },
    run_ms: (12, 70),
};
