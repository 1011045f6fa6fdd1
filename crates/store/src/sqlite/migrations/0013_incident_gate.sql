-- A regression voids the fix until the RCA is revised. The incident has to remember that while it is closed.
alter table incidents add column fix_disproved integer not null default 0;
update incidents
   set fix_disproved = 1
 where state = 'regressed'
    or coalesce((select max(t.ordinal) from incident_timeline t where t.incident = incidents.id and t.kind = 'regressed'), 0)
     > coalesce((select max(t.ordinal) from incident_timeline t where t.incident = incidents.id and t.kind in ('diagnosed', 'revised')), 0);
update incidents
   set fix_at = null, fix_kind = null,
       state = case when state in ('fixed', 'redriving', 'verifying') then 'regressed' else state end
 where fix_disproved = 1;

-- Fingerprint rules that were switched on, off and on again left letters in incidents that no list shows.
update incidents
   set merged_into = null,
       state = case when unsettled <= 0 then state
                    when fix_disproved = 1 then 'regressed'
                    when fix_at is not null then 'fixed'
                    else 'open' end
 where merged_into is not null
   and letters > 0;
