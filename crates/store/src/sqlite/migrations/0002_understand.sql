-- What people see of an incident, kept as letters move so that lists never add up.
alter table incidents add column title text not null default '';
alter table incidents add column template text not null default '';
alter table incidents add column class text not null default 'unknown';
alter table incidents add column frame text;
alter table incidents add column letters integer not null default 0;
alter table incidents add column unsettled integer not null default 0;
alter table incidents add column last_seen_at integer not null default 0;
alter table incidents add column merged_into blob references incidents (id);
create index incidents_by_last_seen on incidents (last_seen_at, id) where merged_into is null;
create index incidents_by_opening on incidents (opened_at, id) where merged_into is null;
create index incidents_by_letters on incidents (letters, id) where merged_into is null;
create index incidents_by_error_type on incidents (error_type, last_seen_at, id) where merged_into is null;
create index incidents_by_frame on incidents (frame, last_seen_at, id) where merged_into is null and frame is not null;

-- What a fingerprint is made of, and which one took over its incident when the way of grouping changed.
alter table fingerprints add column parts text not null default '{}';
alter table fingerprints add column heir text;
create index fingerprints_by_heir on fingerprints (heir) where heir is not null;

update incidents
   set title = case when error_type = '' then type else error_type end,
       last_seen_at = opened_at,
       letters = (select coalesce(sum(c.letters), 0)
                    from fingerprints f
                    join counters c on c.dimension = 'fingerprint' and c.value = f.fingerprint
                   where f.incident = incidents.id),
       unsettled = (select coalesce(sum(c.letters), 0)
                      from fingerprints f
                      join counters c on c.dimension = 'fingerprint' and c.value = f.fingerprint
                     where f.incident = incidents.id
                       and c.term in ('pending', 'reprocessing'));

-- The same points by value first, so that a line is one range, and by the hour beside the minute.
create table flows (
  dimension text not null,
  value text not null,
  step integer not null check (step in (1, 60)),
  minute integer not null,
  arrived integer not null,
  departed integer not null,
  primary key (dimension, value, step, minute)
) without rowid;
create index flows_by_age on flows (step, minute);
insert into flows (dimension, value, step, minute, arrived, departed)
select dimension, value, 1, minute, arrived, departed
  from series;
insert into flows (dimension, value, step, minute, arrived, departed)
select 'all', '', 1, minute, sum(arrived), sum(departed)
  from series
 where dimension = 'source'
 group by minute;
insert into flows (dimension, value, step, minute, arrived, departed)
select dimension, value, 60, minute - minute % 60, sum(arrived), sum(departed)
  from flows
 where step = 1
 group by dimension, value, minute - minute % 60;
drop table series;

-- What was decided on a letter, found by the letter; and what was decided before it came here.
create index audit_by_letter on audit (letter, position) where letter is not null;
create index selections_by_letter on selections (letter, operation);
create table past_decisions (
  letter blob not null check (length(letter) = 16),
  ordinal integer not null,
  at integer not null,
  action text not null,
  actor text not null,
  role text not null,
  reason text,
  operation blob,
  primary key (letter, ordinal)
) without rowid;
create unique index letter_keys_by_id on letter_keys (id);
