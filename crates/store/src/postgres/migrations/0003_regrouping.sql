-- Heirs hold for one revision of the rules, and a fingerprint may be in use under the new rules itself.
alter table fingerprints
  add column heir_for text collate "C",
  add column used_for text collate "C";

create index incidents_merged on incidents (merged_into) where merged_into is not null;
create index audit_by_operation on audit (operation) where operation is not null;
