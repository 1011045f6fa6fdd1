-- Where the store came from and how it was made.
create table meta (
  key text collate "C" primary key,
  value text not null
);

-- The newest position of everything that is read in commit order. Whoever adds to one of them holds this row from
-- then to the commit, so no reader ever sees a lower position appear later.
create table positions (
  one boolean primary key default true check (one),
  events bigint not null default 0,
  lives bigint not null default 0,
  audit bigint not null default 0
) with (fillfactor = 10);
insert into positions default values;

-- The millisecond of an id, which is when its letter was created: whoever has the id knows the partition.
create function uuid_time(id uuid) returns timestamptz(3) language sql immutable strict parallel safe as $$
  select to_timestamp(('x0000' || left(translate(id::text, '-', ''), 12))::bit(64)::bigint / 1000.0)::timestamptz(3)
$$;

-- One row per live letter; every column is an extraction of the envelope, made for search. The first nineteen are those
-- of the published dead letter queue schema. Texts are compared by their bytes, as everywhere in Lazaret.
create table dead_letter_queue (
  id uuid not null,
  event_id text collate "C" not null,
  subscriber_id text collate "C",
  original_event jsonb,
  error_message text collate "C" not null,
  error_type text collate "C" not null,
  error_code text collate "C",
  error_stack_trace text,
  error_context jsonb,
  retry_history jsonb,
  retry_count bigint not null,
  max_retries bigint,
  status text collate "C" not null check (status in ('pending', 'reprocessing', 'resolved', 'discarded')),
  resolution_timestamp timestamptz(3),
  resolution_strategy text collate "C",
  resolved_by text collate "C",
  resolution_notes text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  source text collate "C" not null,
  tenant text collate "C",
  type text collate "C" not null,
  queue text collate "C" not null,
  aggregate text collate "C",
  schema_version text collate "C",
  class text collate "C" not null,
  -- Not a foreign key: checking it would lock the fingerprint's row once for each letter, and all letters of a storm
  -- have the same one. Fingerprints are never removed.
  fingerprint text collate "C" not null,
  place text collate "C" not null check (place in ('live', 'archived', 'deleted')),
  life integer not null check (life >= 1),
  sent_at timestamptz(3),
  ever_sent boolean not null default false,
  held_at timestamptz(3),
  held_by text,
  hold_reason text,
  previous uuid,
  died_at timestamptz(3) not null,
  retention_at timestamptz(3) not null,
  -- Words of type, error type and message.
  words tsvector not null,
  primary key (id, created_at),
  check ((resolution_timestamp is not null) = (status in ('resolved', 'discarded')))
) partition by range (created_at);

-- The published names. Where a page of letters is fetched by the column, the index gives it in the order of deaths too.
create index dead_letter_queue_event_id_idx on dead_letter_queue (event_id, died_at, id);
create index dead_letter_queue_subscriber_id_idx on dead_letter_queue (subscriber_id, died_at, id);
create index dead_letter_queue_status_idx on dead_letter_queue (status, died_at, id);
create index dead_letter_queue_error_type_idx on dead_letter_queue (error_type, died_at, id);
create index dead_letter_queue_created_at_idx on dead_letter_queue (created_at);
create index dead_letter_queue_updated_at_idx on dead_letter_queue (updated_at);
create index dead_letter_queue_original_event_pattern_idx on dead_letter_queue ((original_event->>'pattern'));

create index letters_by_death on dead_letter_queue (died_at, id);
create index letters_by_queue on dead_letter_queue (queue, died_at, id);
create index letters_by_type on dead_letter_queue (type, died_at, id);
create index letters_by_class on dead_letter_queue (class, died_at, id);
create index letters_by_source on dead_letter_queue (source, died_at, id);
create index letters_by_fingerprint on dead_letter_queue (fingerprint, died_at, id);
create index letters_by_tenant on dead_letter_queue (tenant, died_at, id) where tenant is not null;
create index letters_by_aggregate on dead_letter_queue (aggregate, died_at, id) where aggregate is not null;
create index letters_by_schema_version on dead_letter_queue (schema_version, died_at, id) where schema_version is not null;
create index letters_held on dead_letter_queue (held_at, id) where held_at is not null;
create index letters_by_word on dead_letter_queue using gin (words);

-- Months get a partition each when their first letter comes; what no month of ours can be has one at either end.
create table dead_letter_queue_before partition of dead_letter_queue
  for values from (minvalue) to ('2020-01-01 00:00:00+00');
create table dead_letter_queue_after partition of dead_letter_queue
  for values from ('2100-01-01 00:00:00+00') to (maxvalue);

-- Makes the partition of a month unless it is there. Attaching takes a lock that lets capture go on, which
-- `create table ... partition of` does not. One that was detached and not dropped yet is attached again.
create function make_month(month date) returns void language plpgsql as $$
declare
  name text := 'dead_letter_queue_' || to_char(month, 'YYYY_MM');
begin
  perform pg_advisory_xact_lock(hashtextextended('lazaret months', 0));
  if exists (select 1 from pg_catalog.pg_inherits where inhrelid = to_regclass(name)) then
    return;
  end if;
  execute format('create table if not exists %I (like dead_letter_queue including defaults including constraints)',
                 name);
  execute format('alter table dead_letter_queue attach partition %I for values from (%L) to (%L)', name,
                 to_char(month, 'YYYY-MM-DD') || ' 00:00:00+00',
                 to_char(month + interval '1 month', 'YYYY-MM-DD') || ' 00:00:00+00');
end
$$;

-- What was ever captured; outlives the letter. Its number of rows is the ledger's `captured`.
create table letter_keys (
  key bytea not null check (length(key) = 32),
  generation integer not null check (generation >= 1),
  id uuid not null,
  place text collate "C" not null check (place in ('live', 'archived', 'deleted')),
  removed_at timestamptz(3),
  removed_by text,
  removal text collate "C" check (removal in ('pruned', 'deleted')),
  primary key (key, generation)
);

-- The original of each life, as it arrived. What is packed already is not packed again.
create table lives (
  letter uuid not null,
  life integer not null,
  captured_at timestamptz(3) not null,
  died_at timestamptz(3) not null,
  class text collate "C" not null,
  fingerprint text collate "C" not null,
  content_type text not null,
  headers text,
  body bytea not null,
  body_bytes bigint not null,
  sha256 bytea not null check (length(sha256) = 32),
  fatal integer not null,
  retry_count bigint not null,
  max_retries bigint,
  redrive uuid,
  reported bytea,
  primary key (letter, life)
);
alter table lives alter column body set storage external, alter column reported set storage external;

-- Lives in the order of their commits, for whoever goes through all of them while more come.
create table life_positions (
  position bigint primary key,
  letter uuid not null,
  life integer not null
);

-- Every failed run of every life; only grows.
create table attempts (
  letter uuid not null,
  ordinal integer not null,
  life integer not null,
  identity bytea not null check (length(identity) = 16),
  at timestamptz(3),
  duration_ms bigint,
  error_type text collate "C" not null,
  error_code text collate "C",
  message text not null,
  detail bytea,
  primary key (letter, ordinal)
);
alter table attempts alter column detail set storage external;

create table incidents (
  id uuid primary key,
  state text collate "C" not null,
  opened_at timestamptz(3) not null,
  type text collate "C" not null,
  error_type text collate "C" not null
);
-- The only link between letters and incidents: merge and split re-point it and rewrite nothing.
create table fingerprints (
  fingerprint text collate "C" primary key,
  -- Looked at when the transaction ends: who opens an incident first takes the fingerprint, or finds it taken.
  incident uuid not null references incidents (id) deferrable initially deferred,
  first_seen_at timestamptz(3) not null
);
create index fingerprints_by_incident on fingerprints (incident);

-- Kept as letters move, so that statistics never scan.
create table counters (
  dimension text collate "C" not null,
  value text collate "C" not null,
  term text collate "C" not null,
  letters bigint not null,
  primary key (dimension, value, term)
) with (fillfactor = 70);

-- At most one copy of a letter is out at a time: the letter is the key.
create table claims (
  letter uuid primary key,
  life integer not null,
  run uuid not null,
  step text collate "C" not null check (step in ('claimed', 'sending', 'sent')),
  lease_until timestamptz(3),
  idempotency_key text not null,
  claimed_at timestamptz(3) not null
);

create table operations (
  id uuid primary key,
  action text collate "C" not null,
  state text collate "C" not null check (state in ('freezing', 'working', 'done', 'refused')),
  actor text not null,
  reason text,
  filter text not null,
  expected bigint not null,
  total bigint not null default 0,
  done bigint not null default 0,
  skipped bigint not null default 0,
  frozen_died_at timestamptz(3),
  frozen_id uuid,
  opened_at timestamptz(3) not null,
  finished_at timestamptz(3)
);
create index operations_open on operations (opened_at, id) where state = 'working';
create table selections (
  operation uuid not null references operations (id) on delete cascade,
  ordinal bigint not null,
  letter uuid not null,
  life integer not null,
  outcome text,
  primary key (operation, ordinal),
  unique (operation, letter)
);

-- One entry per decision; chained later.
create table audit (
  position bigint primary key,
  id uuid not null unique,
  at timestamptz(3) not null,
  actor text not null,
  role text not null,
  action text collate "C" not null,
  letter uuid,
  operation uuid,
  filter text,
  count bigint not null,
  reason text,
  request text
);

create table events (
  position bigint primary key,
  id uuid not null,
  at timestamptz(3) not null,
  kind text collate "C" not null,
  letter uuid,
  incident uuid,
  operation uuid,
  actor text,
  detail text
);

create table tokens (
  id uuid primary key,
  hash bytea not null unique check (length(hash) = 32),
  name text not null,
  role text not null,
  created_at timestamptz(3) not null,
  created_by text not null,
  revoked_at timestamptz(3)
);
