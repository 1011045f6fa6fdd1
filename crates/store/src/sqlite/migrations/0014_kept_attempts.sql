-- Attempts that were reported of a letter while it was archived. They become attempts of the letter when it comes back.
create table archive_attempts (
  late integer primary key autoincrement,
  letter blob not null references archive (id) on delete cascade,
  life integer not null,
  identity blob not null check (length(identity) = 16),
  at integer,
  duration_ms integer,
  error_type text not null,
  error_code text,
  message text not null,
  detail blob,
  unique (letter, identity)
);

-- Failed deliveries of outbox relays, until their row is delivered or they are too old. The key is that of the row.
create table relay_tries (
  key blob not null check (length(key) = 32),
  at integer not null,
  duration_ms integer,
  error_type text not null,
  error_code text,
  message text not null,
  detail blob,
  primary key (key, at)
) without rowid;
create index relay_tries_by_time on relay_tries (at);
