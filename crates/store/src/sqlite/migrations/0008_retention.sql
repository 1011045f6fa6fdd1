-- Letters in the order in which limits push them out; those that are held stay. That nobody holds them stands in the index
-- as well: SQLite would open each letter to see it.
create index letters_by_retention on dead_letter_queue (source, queue, status, retention_at, id, held_at)
  where held_at is null;

-- Files of the archive. The name of one is taken down before anything of it is written.
create table archive_files (
  id blob primary key check (length(id) = 16),
  path text not null unique,
  state text not null check (state in ('writing', 'written', 'kept')),
  letters integer not null default 0,
  bytes integer not null default 0,
  sha256 blob check (length(sha256) = 32),
  first_died_at integer,
  last_died_at integer,
  opened_at integer not null,
  checked_at integer,
  problem text
) without rowid;
create index archive_files_unfinished on archive_files (id) where state <> 'kept';

-- Letters that were archived, or deleted inside the floor; what a letter was when it went. Its lives wait in the trash
-- while `waiting` is set, and then stand in a file.
create table archive (
  entry integer primary key autoincrement,
  id blob not null unique check (length(id) = 16),
  key blob not null check (length(key) = 32),
  place text not null check (place in ('archived', 'deleted')),
  waiting integer not null check (waiting in (0, 1)),
  -- Of the originals that wait.
  bytes integer not null,
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
  life integer not null,
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
  -- The later of its last capture and its last death: the floor is counted from here.
  since integer not null,
  removed_at integer not null,
  removed_by text not null,
  reason text not null
);
create index archive_by_key on archive (key);
create index archive_waiting on archive (entry, removed_at, bytes) where waiting = 1;
create index archive_by_source on archive (source, entry);
create index archive_by_queue on archive (queue, entry);
create index archive_by_type on archive (type, entry);
create index archive_by_error_type on archive (error_type, entry);
create index archive_by_fingerprint on archive (fingerprint, entry);
create index archive_by_event on archive (event_id, entry);
create index archive_by_place on archive (place, entry);

-- Which lives of a letter stand in which row of which file: the last ones of an archived letter, and older ones of any.
create table archive_rows (
  letter blob not null check (length(letter) = 16),
  first_life integer not null,
  last_life integer not null,
  file blob not null references archive_files (id),
  row integer not null,
  -- What tells the attempts in that row apart, sixteen bytes each, in their order: by these one that is told again is
  -- known. With those of the rows before it they are all attempts up to there, counted from 1.
  attempts blob not null,
  primary key (letter, first_life)
) without rowid;
create index archive_rows_by_file on archive_rows (file, row);

-- Letters that were deleted by hand before there was an archive wait for their file like the others.
insert into archive (id, key, place, waiting, bytes, source, event_id, subscriber_id, tenant, type, queue, aggregate,
       schema_version, error_type, error_code, error_message, class, fingerprint, retry_count, max_retries, status, life,
       ever_sent, resolution_timestamp, resolution_strategy, resolved_by, resolution_notes, previous, created_at,
       updated_at, died_at, retention_at, since, removed_at, removed_by, reason)
select t.id, k.key, 'deleted', 1,
       (select coalesce(sum(v.body_bytes), 0) from trash_lives v where v.letter = t.letter),
       t.source, t.event_id, t.subscriber_id, t.tenant, t.type, t.queue, t.aggregate, t.schema_version, t.error_type,
       t.error_code, t.error_message, t.class, t.fingerprint, t.retry_count, t.max_retries, t.status, t.life, t.ever_sent,
       t.resolution_timestamp, t.resolution_strategy, t.resolved_by, t.resolution_notes, t.previous, t.created_at,
       t.updated_at, t.died_at, t.retention_at,
       max(t.created_at, t.died_at, (select v.captured_at from trash_lives v where v.letter = t.letter and v.life = t.life)),
       t.deleted_at, t.deleted_by, 'deleted'
  from trash t
  join letter_keys k on k.id = t.id
 order by t.deleted_at, t.id;
drop index trash_by_deletion;
drop index trash_by_end;
-- Who removed a letter and when stands in the archive.
alter table trash drop column deleted_at;
alter table trash drop column deleted_by;
alter table trash drop column kept_until;

-- Holds, and the letters under them. A letter is free when the last of its holds is gone.
create table holds (
  id blob primary key check (length(id) = 16),
  state text not null check (state in ('placing', 'standing', 'releasing', 'released')),
  standing integer not null check (standing in (0, 1)),
  filter text,
  letter blob check (length(letter) = 16),
  reason text not null,
  held_by text not null,
  held_at integer not null,
  until integer,
  released_by text,
  released_at integer,
  release_reason text,
  letters integer not null default 0,
  -- How far the marking of letters has come.
  marked_died_at integer,
  marked_id blob
) without rowid;
create index holds_by_time on holds (held_at, id);
create index holds_in_force on holds (held_at, id) where state <> 'released';
-- Those that letters are to be marked or freed for, those that end by themselves, and those for letters to come.
create index holds_unfinished on holds (held_at, id) where state in ('placing', 'releasing');
create index holds_by_end on holds (until) where state = 'standing' and until is not null;
create index holds_catching on holds (held_at, id) where standing = 1 and state in ('placing', 'standing');
create table hold_letters (
  letter blob not null check (length(letter) = 16),
  hold blob not null references holds (id),
  primary key (letter, hold)
) without rowid;
create index hold_letters_by_hold on hold_letters (hold, letter);

-- A letter that was held before gets a hold of its own, under its own id.
insert into holds (id, state, standing, letter, reason, held_by, held_at, letters)
select id, 'standing', 0, id, coalesce(hold_reason, ''), coalesce(held_by, ''), held_at, 1
  from dead_letter_queue
 where held_at is not null;
insert into hold_letters (letter, hold)
select id, id
  from dead_letter_queue
 where held_at is not null;

-- How long a decision by a list destroys nothing of what it deletes.
alter table operations add column floor_ms integer;
