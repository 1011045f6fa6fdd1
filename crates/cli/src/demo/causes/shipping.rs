//! The shipping-service, in Go: labels from carriers, and parcels for pickup points.

use super::{Aggregate, Cause, Error, Event, Wire};
use crate::demo::payloads;
use crate::demo::programs::{ORDERS, SHIPPING};

/// How the consumer calls a handler, as an error with a stack prints it.
const CONSUMER: &str = "
github.com/harbourpine/shipping/internal/handle.(*Shipments).Handle
\t/src/internal/handle/shipments.go:{58}
github.com/harbourpine/shipping/internal/consume.WithTrace.func1
\t/src/internal/consume/trace.go:{27}
github.com/harbourpine/shipping/internal/consume.WithRetry.func1
\t/src/internal/consume/retry.go:{49}
github.com/harbourpine/shipping/internal/consume.(*Worker).run
\t/src/internal/consume/worker.go:{112}
golang.org/x/sync/errgroup.(*Group).Go.func1
\t/go/pkg/mod/golang.org/x/sync@v0.10.0/errgroup/errgroup.go:78
runtime.goexit
\t/usr/local/go/src/runtime/asm_amd64.s:1700";

const REQUESTED: Event = Event {
    pattern: "shipment.requested",
    version: "2.0",
    sender: &ORDERS,
    payload: payloads::shipment,
    aggregate: Aggregate::Order,
    wire: Wire::Json,
};

const LABEL: Event = Event { pattern: "label.requested", version: "1.3", ..REQUESTED };

/// The database refuses connections while it fails over.
pub(in crate::demo) static DATABASE_REFUSED: Cause = Cause {
    program: &SHIPPING,
    queue: "shipments",
    event: REQUESTED,
    error: Error {
        name: "*pgconn.ConnectError",
        code: None,
        messages: &[
            "failed to connect to `user=shipping database=shipping`: 10.40.2.17:5432 (pg-main.harbourpine.example): dial error: dial tcp 10.40.2.17:5432: connect: connection refused",
        ],
        backtrace: &[
            "{message}
github.com/harbourpine/shipping/internal/store.(*Parcels).Begin
\t/src/internal/store/parcels.go:{44}
github.com/harbourpine/shipping/internal/store.(*Parcels).Save
\t/src/internal/store/parcels.go:{71}
github.com/harbourpine/shipping/internal/ship.(*Planner).Plan
\t/src/internal/ship/planner.go:{96}",
            CONSUMER,
        ],
        context: &[("shipment", "{shipment}"), ("goroutines", "212")],
    },
    run_ms: (1, 40),
};

/// The carrier's key was replaced there before it was replaced here.
pub(in crate::demo) static KEY_REVOKED: Cause = Cause {
    program: &SHIPPING,
    queue: "shipments",
    event: Event { payload: payloads::shipment_by_dockyard, ..LABEL },
    error: Error {
        name: "*carrier.AuthError",
        code: Some("401"),
        messages: &["carrier dockyard: POST /v2/labels: 401 Unauthorized: key ending in 7Q2 was revoked"],
        backtrace: &[
            "{message}
github.com/harbourpine/shipping/internal/carrier.checkStatus
\t/src/internal/carrier/status.go:{33}
github.com/harbourpine/shipping/internal/carrier.(*Client).do
\t/src/internal/carrier/client.go:{118}
github.com/harbourpine/shipping/internal/carrier.(*Client).Label
\t/src/internal/carrier/labels.go:{62}",
            CONSUMER,
        ],
        context: &[("url", "https://api.dockyard.example/v2/labels"), ("shipment", "{shipment}")],
    },
    run_ms: (60, 210),
};

/// The carrier takes only so many labels per minute.
pub(in crate::demo) static TOO_MANY_LABELS: Cause = Cause {
    program: &SHIPPING,
    queue: "shipments",
    event: LABEL,
    error: Error {
        name: "*carrier.RateLimitError",
        code: Some("429"),
        messages: &["carrier {carrier}: POST /v2/labels: 429 Too Many Requests: retry after {seconds}s"],
        backtrace: &[
            "{message}
github.com/harbourpine/shipping/internal/carrier.checkStatus
\t/src/internal/carrier/status.go:{41}
github.com/harbourpine/shipping/internal/carrier.(*Client).do
\t/src/internal/carrier/client.go:{118}
github.com/harbourpine/shipping/internal/carrier.(*Client).Label
\t/src/internal/carrier/labels.go:{62}",
            CONSUMER,
        ],
        context: &[("url", "https://api.{carrier}.example/v2/labels"), ("limit", "120 per minute")],
    },
    run_ms: (40, 160),
};

/// Nobody thought of parcels without a street.
pub(in crate::demo) static NO_STREET: Cause = Cause {
    program: &SHIPPING,
    queue: "shipments",
    event: Event { payload: payloads::shipment_to_pickup_point, ..REQUESTED },
    error: Error {
        name: "runtime.errorString",
        code: None,
        messages: &["runtime error: invalid memory address or nil pointer dereference"],
        backtrace: &[
            "panic: {message}
[signal SIGSEGV: segmentation violation code=0x1 addr=0x18 pc=0x8f21c4]

goroutine 184 [running]:
github.com/harbourpine/shipping/internal/ship.(*Address).Zone(...)
\t/src/internal/ship/address.go:{37}
github.com/harbourpine/shipping/internal/ship.(*Planner).zone(0xc0004b2180, 0xc00071e000)
\t/src/internal/ship/planner.go:{141} +0x44
github.com/harbourpine/shipping/internal/ship.(*Planner).Plan(0xc0004b2180, {0xb81f60, 0xc0005d2b70}, 0xc00071e000)
\t/src/internal/ship/planner.go:{83} +0x1d2
github.com/harbourpine/shipping/internal/handle.(*Shipments).Handle(0xc000316a20, {0xb81f60, 0xc0005d2b70}, 0xc00071e000)
\t/src/internal/handle/shipments.go:{58} +0x11e
github.com/harbourpine/shipping/internal/consume.WithTrace.func1({0xb81f60, 0xc0005d2b70}, 0xc00071e000)
\t/src/internal/consume/trace.go:{27} +0xa5
github.com/harbourpine/shipping/internal/consume.WithRetry.func1({0xb81f60, 0xc0005d2b70}, 0xc00071e000)
\t/src/internal/consume/retry.go:{49} +0xd1
github.com/harbourpine/shipping/internal/consume.(*Worker).run(0xc00019c1e0, {0xb81f60, 0xc0001a4050})
\t/src/internal/consume/worker.go:{112} +0x3f5
golang.org/x/sync/errgroup.(*Group).Go.func1()
\t/go/pkg/mod/golang.org/x/sync@v0.10.0/errgroup/errgroup.go:78 +0x50
created by golang.org/x/sync/errgroup.(*Group).Go in goroutine 1
\t/go/pkg/mod/golang.org/x/sync@v0.10.0/errgroup/errgroup.go:75 +0x96",
        ],
        context: &[("shipment", "{shipment}"), ("pickupPoint", "{pickup_point}")],
    },
    run_ms: (1, 9),
};
