-- Keys in the order of their arrival. By what they are they are found in `key_index`, which follows behind, many at a time;
-- the newest ones are found in memory.
alter table letter_keys rename to letter_keys_by_key;
create table letter_keys (
  number integer primary key,
  key blob not null check (length(key) = 32),
  generation integer not null check (generation >= 1),
  id blob not null check (length(id) = 16),
  place text not null check (place in ('live', 'archived', 'deleted')),
  removed_at integer,
  removed_by text,
  removal text check (removal in ('pruned', 'deleted')),
  removed_status text check (removed_status in ('pending', 'reprocessing', 'resolved', 'discarded')),
  death text
);
insert into letter_keys (key, generation, id, place, removed_at, removed_by, removal, removed_status, death)
select key, generation, id, place, removed_at, removed_by, removal, removed_status, death
  from letter_keys_by_key
 order by id;
drop table letter_keys_by_key;
create unique index letter_keys_by_id on letter_keys (id);

-- The first eight bytes of a key and the number of its row. Whoever finds a row by it compares the whole key.
create table key_index (
  hash blob not null check (length(hash) = 8),
  number integer not null,
  primary key (hash, number)
) without rowid;
