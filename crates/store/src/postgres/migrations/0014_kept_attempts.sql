-- Attempts that were reported of a letter while it was archived. They become attempts of the letter when it comes back.
create table archive_attempts (
  late bigint generated always as identity primary key,
  letter uuid not null references archive (id) on delete cascade,
  life integer not null,
  identity bytea not null check (length(identity) = 16),
  at timestamptz(3),
  duration_ms bigint,
  error_type text collate "C" not null,
  error_code text collate "C",
  message text not null,
  detail bytea,
  unique (letter, identity)
);

-- Failed deliveries of outbox relays, until their row is delivered or they are too old. The key is that of the row.
create table relay_tries (
  key bytea not null check (length(key) = 32),
  at timestamptz(3) not null,
  duration_ms bigint,
  error_type text collate "C" not null,
  error_code text collate "C",
  message text not null,
  detail bytea,
  primary key (key, at)
);
create index relay_tries_by_time on relay_tries (at);

-- Copies of letters for people who ask the database have a new form. Those of before are filled again, letter by letter;
-- this is how far that has come, and is gone when it is done.
insert into meta (key, value) values ('extracts', '00000000-0000-0000-0000-000000000000');
