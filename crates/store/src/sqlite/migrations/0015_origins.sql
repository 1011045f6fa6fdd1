-- Where a message came from at its broker, as JSON; and why a letter has no body, if it has none.
alter table lives add column origin text;
alter table lives add column body_missing text;
alter table trash_lives add column origin text;
alter table trash_lives add column body_missing text;
-- Few letters have no body; a plan asks for each of its letters.
create index lives_without_body on lives (letter, life, body_missing) where body_missing is not null;

-- Why letters of a group have no body: that of the first of them.
alter table redrive_groups add column body_missing text;
-- What the destination handed out for the letter: a sequence, a delivery tag.
alter table redrive_letters add column handle text;
