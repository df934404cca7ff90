-- How often PostgreSQL cleans up after us, for deployments with more than about 100,000 agents or a million messages.
-- Its default is to wait until a fifth of a table is dead rows; the sweep and the claims feel that before.
--
--   psql --dbname takeaways --username takeaways_migrate --file autovacuum.sql
--
-- Run it as who owns the tables, once they are made. It may be run again, and changes no row.

-- Each batch of events, claim, heartbeat and release writes the agent's row, and moves its timer in an index.
ALTER TABLE agents SET (
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 1000
);
-- Each message is written twice: when it comes, and when it was read. Retention writes it a third time.
ALTER TABLE messages SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
-- Event ids come and go at the same rate once the first of them are 90 days old.
ALTER TABLE inbox SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
-- Each job is written at its claim, with each step and at its end.
ALTER TABLE jobs SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE candidates SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
-- Few rows at any moment, and all of them short-lived and large.
ALTER TABLE kept_answers SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100);
