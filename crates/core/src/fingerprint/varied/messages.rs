//! Failures without a backtrace: only the words tell, and values, names and prefixes must not.

use super::check;

#[test]
fn messages_meet_whatever_their_values_and_stay_apart_by_their_reasons() {
    check(FAILURES);
}

const FAILURES: &str = r##"
## m-lic-expired: one word apart
### doc.signed | SigningError | 
cannot sign document 77-A for tenant acme: license expired
### doc.signed | SigningError | 
cannot sign document 12 for tenant initech: license expired
### doc.signed | Signing.SigningError | 
host sgn-02: cannot sign document 9f2c for tenant umbrella: license expired
## m-lic-revoked: revoked
### doc.signed | SigningError | 
cannot sign document 77-A for tenant acme: license revoked
## m-plug: device
### gate.opened | GateError | 
gate gate-ham-7 (10.1.0.7) did not acknowledge within 3000 ms
### gate.opened | GateError | 
gate gate-lej-12 (10.1.2.9) did not acknowledge within 5000 ms
### gate.opened | GateError | 
[req 7f3a-11] gate gate-vie-1 (10.1.3.1) did not acknowledge within 3000 ms
## m-gate-jam: other
### gate.opened | GateError | 
gate gate-ham-7 (10.1.0.7) reports jammed barrier
## m-sftp: sftp
### file.fetched | SFTPException | 
/outgoing/2026-03-11/orders_77.xml: No such file
### file.fetched | SFTPException | 
/outgoing/2026-04-02/orders_912.xml: No such file
## m-sftp-perm: sftp
### file.fetched | SFTPException | 
/outgoing/2026-03-11/orders_77.xml: Permission denied
## m-http-422-iban: bodies
### payout.made | ApiError | 422
422 Unprocessable Entity: {"code":"iban_invalid","message":"IBAN DE12 is not valid","request_id":"req_9aX"}
### payout.made | ApiError | 422
422 Unprocessable Entity: {"code":"iban_invalid","message":"IBAN NL77 is not valid","request_id":"req_Pq1"}
### payout.made | ApiError | 422
HTTP 422 Unprocessable Entity: {"code":"iban_invalid","message":"IBAN AT00 is not valid","request_id":"req_x2"}
## m-http-422-limit: bodies
### payout.made | ApiError | 422
422 Unprocessable Entity: {"code":"limit_exceeded","message":"Limit of 5000 EUR exceeded","request_id":"req_9aX"}
## m-ora: oracle
### ledger.closed | OracleError | ORA-00060
ORA-00060: deadlock detected while waiting for resource
### ledger.closed | java.sql.SQLException | 60
ORA-00060: deadlock detected while waiting for resource
### ledger.closed | DatabaseError | 
close period 2026-03: ORA-00060: deadlock detected while waiting for resource
## m-ora-null: oracle
### ledger.closed | OracleError | ORA-01400
ORA-01400: cannot insert NULL into ("FIN"."ENTRIES"."PERIOD")
### ledger.closed | OracleError | 
ORA-01400: cannot insert NULL into ("FIN"."ENTRIES"."PERIOD")
## m-ora-null2: oracle
### ledger.closed | OracleError | ORA-01400
ORA-01400: cannot insert NULL into ("FIN"."ENTRIES"."ACCOUNT")
## m-schema: avro
### event.decoded | SerializationException | 
Error deserializing Avro message for id 114
### event.decoded | SerializationException | 
Error deserializing Avro message for id 207
## m-schema-none: avro
### event.decoded | SerializationException | 
Unknown magic byte!
## m-config: setting
### app.started | ConfigError | 
missing environment variable PAYMENTS_API_KEY
### app.started | ConfigError | 
Error: missing environment variable PAYMENTS_API_KEY
## m-config2: setting
### app.started | ConfigError | 
missing environment variable LEDGER_API_KEY
## m-weight: range
### pkg.rated | ValidationError | 
parcel 7: weight 31.5 kg exceeds 30 kg
### pkg.rated | ValidationError | 
parcel 9112: weight 44 kg exceeds 30 kg
## m-length: range
### pkg.rated | ValidationError | 
parcel 7: length 240 cm exceeds 200 cm
## m-currency: unsupported
### fx.quoted | QuoteError | 
unsupported currency pair EUR/XAU
### fx.quoted | QuoteError | 
unsupported currency pair USD/BTC
## m-stale: rate
### fx.quoted | QuoteError | 
stale rate for pair EUR/USD: 312 s old
### fx.quoted | QuoteError | 
stale rate for pair GBP/CHF: 77 s old
## m-user-name: names
### role.granted | RoleError | 
user alice.smith@corp.example may not grant role admin
### role.granted | RoleError | 
user bob@corp.example may not grant role admin
## m-user-role: other
### role.granted | RoleError | 
user alice.smith@corp.example already has role admin
## m-lock: lock
### batch.run | LockError | 
could not obtain lock batch:nightly:77 within 10s (held by worker-3)
### batch.run | LockError | 
could not obtain lock batch:nightly:78 within 30s (held by worker-12)
## m-tz: ts prefix
### cron.run | JobError | 
2026-03-11 08:15:02,119 ERROR [worker-3] job cleanup failed: disk quota exceeded
### cron.run | JobError | 
2026-04-02 23:19:01,004 ERROR [worker-7] job cleanup failed: disk quota exceeded
### cron.run | JobError | 
job cleanup failed: disk quota exceeded
"##;
