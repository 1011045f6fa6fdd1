-- What people see of an incident, kept as letters move so that lists never add up.
alter table incidents
  add column title text not null default '',
  add column template text not null default '',
  add column class text collate "C" not null default 'unknown',
  add column frame text collate "C",
  add column letters bigint not null default 0,
  add column unsettled bigint not null default 0,
  add column last_seen_at timestamptz(3) not null default 'epoch',
  add column merged_into uuid references incidents (id);
create index incidents_by_last_seen on incidents (last_seen_at, id) where merged_into is null;
create index incidents_by_opening on incidents (opened_at, id) where merged_into is null;
create index incidents_by_letters on incidents (letters, id) where merged_into is null;
create index incidents_by_error_type on incidents (error_type, last_seen_at, id) where merged_into is null;
create index incidents_by_frame on incidents (frame, last_seen_at, id) where merged_into is null and frame is not null;

-- What a fingerprint is made of, and which one took over its incident when the way of grouping changed.
alter table fingerprints
  add column parts text not null default '{}',
  add column heir text collate "C";
create index fingerprints_by_heir on fingerprints (heir) where heir is not null;

-- What came and went, by value first, so that a line is one range; by the minute and by the hour.
create table flows (
  dimension text collate "C" not null,
  value text collate "C" not null,
  step integer not null check (step in (1, 60)),
  minute bigint not null,
  arrived bigint not null,
  departed bigint not null,
  primary key (dimension, value, step, minute)
) with (fillfactor = 70);
create index flows_by_age on flows (step, minute);

-- What was decided on a letter, found by the letter; and what was decided before it came here.
create index audit_by_letter on audit (letter, position) where letter is not null;
create index selections_by_letter on selections (letter, operation);
create table past_decisions (
  letter uuid not null,
  ordinal integer not null,
  at timestamptz(3) not null,
  action text collate "C" not null,
  actor text not null,
  role text not null,
  reason text,
  operation uuid,
  primary key (letter, ordinal)
);
create unique index letter_keys_by_id on letter_keys (id);

-- Words of bodies and headers, filled behind capture: it names candidates and is never the truth.
create table body_words (
  letter uuid not null,
  life integer not null,
  -- Nothing if there are more words than one value holds: such a letter is always looked into.
  words tsvector,
  primary key (letter, life)
);
create index body_words_by_word on body_words using gin (words);
create index body_words_too_many on body_words (letter) where words is null;
create table body_words_reached (
  one boolean primary key default true check (one),
  position bigint not null default 0,
  lives bigint not null default 0
);
insert into body_words_reached default values;
