-- The audit log is asked for one incident, one redrive, one person and one kind of act. Incidents are asked for by what is
-- left to do in them.
create index audit_by_incident on audit (incident, position) where incident is not null;
create index audit_by_redrive on audit (redrive, position) where redrive is not null;
create index audit_by_actor on audit (actor, position);
create index audit_by_action on audit (action, position);
create index incidents_by_unsettled on incidents (unsettled, id) where merged_into is null;
