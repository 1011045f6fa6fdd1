-- Deleted letters whose content is kept for a while: the tables of live letters once more, column by column, so that
-- deleting and restoring are copies. Not divided by months: what is in here goes away by itself.
create table trash (
  like dead_letter_queue,
  deleted_at timestamptz(3) not null,
  deleted_by text not null,
  kept_until timestamptz(3) not null,
  -- The revision of the rules that its fingerprint is by, if one was in force.
  grouped_by text,
  primary key (id)
);
create index trash_by_deletion on trash (deleted_at, id);
create index trash_by_end on trash (kept_until, id);

create table trash_lives (like lives including storage, primary key (letter, life));
create table trash_attempts (like attempts including storage, primary key (letter, ordinal));

-- A letter that goes takes its places in the order of lives along: when it comes back it gets new ones.
create index life_positions_by_letter on life_positions (letter);

-- What a letter was when it was removed: the tombstone says so when nothing else does.
alter table letter_keys
  add column removed_status text collate "C"
    check (removed_status in ('pending', 'reprocessing', 'resolved', 'discarded'));

alter table operations
  -- Whether `expected` is the number of letters or only its bound.
  add column at_most boolean not null default false,
  -- Who asked, as the audit log names them: the entry of a bound is written when its list is complete and the number
  -- known.
  add column role text,
  add column request text,
  -- How many rows of a refused list are still there.
  add column left_over bigint not null default 0;
create index operations_left_over on operations (opened_at, id) where left_over > 0;
