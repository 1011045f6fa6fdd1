-- Deleted letters whose content is kept for a while: the tables of live letters once more, column by column, so that
-- deleting and restoring are copies.
create table trash (
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
  status text not null,
  place text not null,
  life integer not null,
  sent_at integer,
  ever_sent integer not null,
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
  deleted_at integer not null,
  deleted_by text not null,
  kept_until integer not null,
  -- The revision of the rules that its fingerprint is by, if one was in force.
  grouped_by text
);
create index trash_by_deletion on trash (deleted_at, id);
create index trash_by_end on trash (kept_until, letter);

create table trash_lives (
  letter integer not null references trash (letter),
  life integer not null,
  captured_at integer not null,
  died_at integer not null,
  class text not null,
  fingerprint text not null,
  content_type text not null,
  headers text,
  body blob not null,
  body_bytes integer not null,
  sha256 blob not null,
  fatal integer not null,
  retry_count integer not null,
  max_retries integer,
  redrive blob,
  reported blob,
  primary key (letter, life)
);

create table trash_attempts (
  letter integer not null references trash (letter),
  ordinal integer not null,
  life integer not null,
  identity blob not null,
  at integer,
  duration_ms integer,
  error_type text not null,
  error_code text,
  message text not null,
  detail blob,
  primary key (letter, ordinal)
);

-- What a letter was when it was removed: the tombstone says so when nothing else does.
alter table letter_keys add column removed_status text
  check (removed_status in ('pending', 'reprocessing', 'resolved', 'discarded'));

-- Whether `expected` is the number of letters or only its bound, and how many rows of a refused list are still there.
alter table operations add column at_most integer not null default 0 check (at_most in (0, 1));
-- Who asked, as the audit log names them: the entry of a bound is written when its list is complete and the number known.
alter table operations add column role text;
alter table operations add column request text;
alter table operations add column left_over integer not null default 0;
create index operations_left_over on operations (opened_at, id) where left_over > 0;
