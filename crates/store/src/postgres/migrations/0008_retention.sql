-- Letters in the order in which limits push them out; one that is held does not go.
create index letters_by_retention on dead_letter_queue (source, queue, status, retention_at, id) where held_at is null;

-- Files of the archive. The name of one is taken down before anything of it is written.
create table archive_files (
  id uuid primary key,
  path text collate "C" not null unique,
  state text collate "C" not null check (state in ('writing', 'written', 'kept')),
  letters bigint not null default 0,
  bytes bigint not null default 0,
  sha256 bytea,
  first_died_at timestamptz(3),
  last_died_at timestamptz(3),
  opened_at timestamptz(3) not null,
  checked_at timestamptz(3),
  problem text
);
create index archive_files_unfinished on archive_files (id) where state <> 'kept';

-- Letters that were archived, or deleted inside the floor; what a letter was when it went. Its lives wait in the trash
-- while `waiting` is set, and then stand in a file.
create table archive (
  entry bigint generated always as identity primary key,
  id uuid not null unique,
  key bytea not null,
  place text collate "C" not null check (place in ('archived', 'deleted')),
  waiting boolean not null,
  -- Of the originals that wait.
  bytes bigint not null,
  source text collate "C" not null,
  event_id text collate "C" not null,
  subscriber_id text collate "C",
  tenant text collate "C",
  type text collate "C" not null,
  queue text collate "C" not null,
  aggregate text collate "C",
  schema_version text collate "C",
  error_type text collate "C" not null,
  error_code text collate "C",
  error_message text collate "C" not null,
  class text collate "C" not null,
  fingerprint text collate "C" not null,
  retry_count bigint not null,
  max_retries bigint,
  status text collate "C" not null,
  life integer not null,
  ever_sent boolean not null,
  held_at timestamptz(3),
  held_by text,
  hold_reason text,
  resolution_timestamp timestamptz(3),
  resolution_strategy text collate "C",
  resolved_by text collate "C",
  resolution_notes text,
  previous uuid,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  died_at timestamptz(3) not null,
  retention_at timestamptz(3) not null,
  -- The later of its last capture and its last death: the floor is counted from here.
  since timestamptz(3) not null,
  removed_at timestamptz(3) not null,
  removed_by text not null,
  reason text not null
);
create index archive_by_key on archive (key);
create index archive_waiting on archive (entry, removed_at, bytes) where waiting;
create index archive_by_place on archive (place, entry);
create index archive_by_source on archive (source, entry);
create index archive_by_queue on archive (queue, entry);
create index archive_by_type on archive (type, entry);
create index archive_by_error_type on archive (error_type, entry);
create index archive_by_fingerprint on archive (fingerprint, entry);
create index archive_by_event on archive (event_id, entry);

-- Which lives of a letter stand in which row of which file: the last ones of an archived letter, and older ones of any.
create table archive_rows (
  letter uuid not null,
  first_life integer not null,
  last_life integer not null,
  file uuid not null references archive_files (id),
  row bigint not null,
  -- What tells the attempts in that row apart, sixteen bytes each, in their order: by these one that is told again is
  -- known. With those of the rows before it they are all attempts up to there, counted from 1.
  attempts bytea not null,
  primary key (letter, first_life)
);
create index archive_rows_by_file on archive_rows (file, row);

-- Letters that were deleted by hand before there was an archive wait for their file like the others.
insert into archive (id, key, place, waiting, bytes, source, event_id, subscriber_id, tenant, type, queue, aggregate,
       schema_version, error_type, error_code, error_message, class, fingerprint, retry_count, max_retries, status, life,
       ever_sent, resolution_timestamp, resolution_strategy, resolved_by, resolution_notes, previous, created_at,
       updated_at, died_at, retention_at, since, removed_at, removed_by, reason)
select t.id, k.key, 'deleted', true,
       (select coalesce(sum(v.body_bytes), 0) from trash_lives v where v.letter = t.id),
       t.source, t.event_id, t.subscriber_id, t.tenant, t.type, t.queue, t.aggregate, t.schema_version, t.error_type,
       t.error_code, t.error_message, t.class, t.fingerprint, t.retry_count, t.max_retries, t.status, t.life, t.ever_sent,
       t.resolution_timestamp, t.resolution_strategy, t.resolved_by, t.resolution_notes, t.previous, t.created_at,
       t.updated_at, t.died_at, t.retention_at,
       greatest(t.created_at, t.died_at,
                (select v.captured_at from trash_lives v where v.letter = t.id and v.life = t.life)),
       t.deleted_at, t.deleted_by, 'deleted'
  from trash t
  join letter_keys k on k.id = t.id
 order by t.deleted_at, t.id;
drop index trash_by_deletion;
drop index trash_by_end;
-- The archive says when, by whom and why; nothing in the trash goes away by itself any more.
alter table trash
  drop column deleted_at,
  drop column deleted_by,
  drop column kept_until;

-- Holds, and the letters under them. A letter is free when the last of its holds is gone.
create table holds (
  id uuid primary key,
  state text collate "C" not null check (state in ('placing', 'standing', 'releasing', 'released')),
  standing boolean not null,
  filter text,
  letter uuid,
  reason text not null,
  held_by text not null,
  held_at timestamptz(3) not null,
  until timestamptz(3),
  released_by text,
  released_at timestamptz(3),
  release_reason text,
  letters bigint not null default 0,
  -- How far the marking of letters has come.
  marked_died_at timestamptz(3),
  marked_id uuid
);
create index holds_in_force on holds (held_at, id) where state <> 'released';
create index holds_by_time on holds (held_at, id);
-- Those that letters are to be marked or freed for, those that end by themselves, and those for letters to come.
create index holds_unfinished on holds (held_at, id) where state in ('placing', 'releasing');
create index holds_by_end on holds (until) where state = 'standing' and until is not null;
create index holds_catching on holds (held_at, id) where standing and state in ('placing', 'standing');
create table hold_letters (
  letter uuid not null,
  hold uuid not null references holds (id),
  primary key (letter, hold)
);
create index hold_letters_by_hold on hold_letters (hold, letter);

-- A letter that was held before gets a hold of its own, under its own id.
insert into holds (id, state, standing, letter, reason, held_by, held_at, letters)
select id, 'standing', false, id, coalesce(hold_reason, ''), coalesce(held_by, ''), held_at, 1
  from dead_letter_queue
 where held_at is not null;
insert into hold_letters (letter, hold)
select id, id
  from dead_letter_queue
 where held_at is not null;

-- How long a decision by a list destroys nothing of what it deletes.
alter table operations add column floor_ms bigint;
