-- What runs did minute by minute: letters that were sent, and those whose outcome was known, good or bad. A single retry
-- of a job has no line.
create table run_minutes (
  redrive uuid not null,
  minute bigint not null,
  sent bigint not null,
  good bigint not null,
  bad bigint not null,
  primary key (redrive, minute)
);
insert into run_minutes (redrive, minute, sent, good, bad)
select t.redrive, floor(extract(epoch from t.at) / 60)::bigint, sum(t.sent), sum(t.good), sum(t.bad)
  from (select redrive, coalesce(sent_at, outcome_at) as at, 1 as sent, 0 as good, 0 as bad
          from redrive_letters
         where outcome in ('sent', 'unknown', 'succeeded', 'assumed', 'ended', 'failed', 'relapsed')
         union all
        select redrive, outcome_at, 0, (outcome in ('succeeded', 'assumed', 'ended'))::integer,
               (outcome in ('failed', 'relapsed'))::integer
          from redrive_letters
         where outcome in ('succeeded', 'assumed', 'ended', 'failed', 'relapsed')) t
  join redrives r on r.id = t.redrive and (r.kind <> 'single' or r.plan is not null)
 where t.at is not null
 group by 1, 2;
-- Last, because it keeps others from writing redrives until the end of this step.
alter table run_minutes add foreign key (redrive) references redrives (id) on delete cascade;
