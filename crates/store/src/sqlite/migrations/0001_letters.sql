-- Where the store came from and how it was made.
create table meta (
  key text primary key,
  value text not null
) without rowid;

-- One row per live letter; every column is an extraction of the envelope, made for search.
create table dead_letter_queue (
  letter integer primary key,
  id blob not null unique check (length(id) = 16),
  source text not null,
  event_id text not null,
  subscriber_id text,
  tenant text,
  type text not null,
  queue text not null,
  aggregate text,
  schema_version text,
  error_type text not null,
  error_code text,
  error_message text not null,
  class text not null,
  fingerprint text not null references fingerprints (fingerprint),
  retry_count integer not null,
  max_retries integer,
  status text not null check (status in ('pending', 'reprocessing', 'resolved', 'discarded')),
  place text not null check (place in ('live', 'archived', 'deleted')),
  life integer not null check (life >= 1),
  sent_at integer,
  ever_sent integer not null default 0,
  held_at integer,
  held_by text,
  hold_reason text,
  resolution_timestamp integer,
  resolution_strategy text,
  resolved_by text,
  resolution_notes text,
  previous blob,
  created_at integer not null,
  updated_at integer not null,
  died_at integer not null,
  retention_at integer not null,
  check ((resolution_timestamp is not null) = (status in ('resolved', 'discarded')))
);
create index letters_by_death on dead_letter_queue (died_at, id);
create index letters_by_status on dead_letter_queue (status, died_at, id);
create index letters_by_queue on dead_letter_queue (queue, died_at, id);
create index letters_by_type on dead_letter_queue (type, died_at, id);
create index letters_by_error_type on dead_letter_queue (error_type, died_at, id);
create index letters_by_class on dead_letter_queue (class, died_at, id);
create index letters_by_source on dead_letter_queue (source, died_at, id);
create index letters_by_fingerprint on dead_letter_queue (fingerprint, died_at, id);
create index letters_by_event on dead_letter_queue (event_id, died_at, id);
create index letters_by_subscriber on dead_letter_queue (subscriber_id, died_at, id) where subscriber_id is not null;
create index letters_by_tenant on dead_letter_queue (tenant, died_at, id) where tenant is not null;
create index letters_by_aggregate on dead_letter_queue (aggregate, died_at, id) where aggregate is not null;
create index letters_by_schema_version on dead_letter_queue (schema_version, died_at, id) where schema_version is not null;
create index letters_held on dead_letter_queue (held_at, id) where held_at is not null;

-- What was ever captured; outlives the letter. Its number of rows is the ledger's `captured`.
create table letter_keys (
  key blob not null check (length(key) = 32),
  generation integer not null check (generation >= 1),
  id blob not null check (length(id) = 16),
  place text not null check (place in ('live', 'archived', 'deleted')),
  removed_at integer,
  removed_by text,
  removal text check (removal in ('pruned', 'deleted')),
  primary key (key, generation)
) without rowid;

-- The original of each life, as it arrived.
create table lives (
  letter integer not null references dead_letter_queue (letter),
  life integer not null,
  captured_at integer not null,
  died_at integer not null,
  class text not null,
  fingerprint text not null,
  content_type text not null,
  headers text,
  body blob not null,
  body_bytes integer not null,
  sha256 blob not null check (length(sha256) = 32),
  fatal integer not null,
  retry_count integer not null,
  max_retries integer,
  redrive blob,
  reported blob,
  primary key (letter, life)
);

-- Every failed run of every life; only grows.
create table attempts (
  letter integer not null references dead_letter_queue (letter),
  ordinal integer not null,
  life integer not null,
  identity blob not null check (length(identity) = 16),
  at integer,
  duration_ms integer,
  error_type text not null,
  error_code text,
  message text not null,
  detail blob,
  primary key (letter, ordinal)
);

create table incidents (
  id blob primary key check (length(id) = 16),
  state text not null,
  opened_at integer not null,
  type text not null,
  error_type text not null
);
-- The only link between letters and incidents: merge and split re-point it and rewrite nothing.
create table fingerprints (
  fingerprint text primary key,
  incident blob not null references incidents (id),
  first_seen_at integer not null
) without rowid;
create index fingerprints_by_incident on fingerprints (incident);

-- Words of type, error type and message, one entry per letter; the text itself is not kept twice.
create virtual table letter_words using fts5 (
  words, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii'
);

-- Kept as letters move, so that statistics never scan.
create table counters (
  dimension text not null,
  value text not null,
  term text not null,
  letters integer not null,
  primary key (dimension, value, term)
) without rowid;
create table series (
  minute integer not null,
  dimension text not null,
  value text not null,
  arrived integer not null,
  departed integer not null,
  primary key (minute, dimension, value)
) without rowid;

-- At most one copy of a letter is out at a time: the letter is the key.
create table claims (
  letter blob primary key check (length(letter) = 16),
  life integer not null,
  run blob not null,
  step text not null check (step in ('claimed', 'sending', 'sent')),
  lease_until integer,
  idempotency_key text not null,
  claimed_at integer not null
) without rowid;

create table operations (
  id blob primary key check (length(id) = 16),
  action text not null,
  state text not null check (state in ('freezing', 'working', 'done', 'refused')),
  actor text not null,
  reason text,
  filter text not null,
  expected integer not null,
  total integer not null default 0,
  done integer not null default 0,
  skipped integer not null default 0,
  frozen_died_at integer,
  frozen_id blob,
  opened_at integer not null,
  finished_at integer
);
create index operations_open on operations (opened_at, id) where state = 'working';
create table selections (
  operation blob not null references operations (id) on delete cascade,
  ordinal integer not null,
  letter blob not null,
  life integer not null,
  outcome text,
  primary key (operation, ordinal),
  unique (operation, letter)
) without rowid;

-- One entry per decision; chained later.
create table audit (
  position integer primary key autoincrement,
  id blob not null unique check (length(id) = 16),
  at integer not null,
  actor text not null,
  role text not null,
  action text not null,
  letter blob,
  operation blob,
  filter text,
  count integer not null,
  reason text,
  request text
);

-- Positions are given in commit order: there is one writer.
create table events (
  position integer primary key autoincrement,
  id blob not null check (length(id) = 16),
  at integer not null,
  kind text not null,
  letter blob,
  incident blob,
  operation blob,
  actor text,
  detail text
);

create table tokens (
  id blob primary key check (length(id) = 16),
  hash blob not null unique check (length(hash) = 32),
  name text not null,
  role text not null,
  created_at integer not null,
  created_by text not null,
  revoked_at integer
) without rowid;
