-- The roles of PostgreSQL 14 or later: who may do what in the database of Takeaways. docs/securing.md tells why.
--
--   psql --dbname takeaways --file roles.sql
--
-- Run it as the superuser, or as who may create roles and owns the database, before the first `takeaways migrate`, and
-- again to change a password: nothing else changes then. What each role may do with each table `takeaways migrate` says,
-- because it makes the tables.
--
-- | role | used by |
-- | takeaways_migrate | `takeaways migrate`; owns the tables |
-- | takeaways_work | both pools, and people with the command line; reads and writes rows |
-- | takeaways_recall | services that read memory and keep standing notes |
-- | takeaways_read | `takeaways metrics --serve`, Grafana, support; selects, and sees no text that anybody said |
--
-- Passwords come from POSTGRES_MIGRATE_PASSWORD and so on, else from the files that POSTGRES_MIGRATE_PASSWORD_FILE and
-- so on name.

\set ON_ERROR_STOP on
\set QUIET on
\set migrate `printf %s "${POSTGRES_MIGRATE_PASSWORD:-$(cat "${POSTGRES_MIGRATE_PASSWORD_FILE:-/dev/null}")}"`
\set work `printf %s "${POSTGRES_WORK_PASSWORD:-$(cat "${POSTGRES_WORK_PASSWORD_FILE:-/dev/null}")}"`
\set recall `printf %s "${POSTGRES_RECALL_PASSWORD:-$(cat "${POSTGRES_RECALL_PASSWORD_FILE:-/dev/null}")}"`
\set read `printf %s "${POSTGRES_READ_PASSWORD:-$(cat "${POSTGRES_READ_PASSWORD_FILE:-/dev/null}")}"`

BEGIN;
SET LOCAL takeaways.migrate = :'migrate';
SET LOCAL takeaways.work = :'work';
SET LOCAL takeaways.recall = :'recall';
SET LOCAL takeaways.read = :'read';

DO $$
DECLARE
    part text;
    role text;
BEGIN
    EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
    REVOKE ALL ON SCHEMA public FROM PUBLIC;
    FOREACH part IN ARRAY ARRAY['migrate', 'work', 'recall', 'read'] LOOP
        role := 'takeaways_' || part;
        IF length(current_setting('takeaways.' || part)) < 16 THEN
            RAISE EXCEPTION 'POSTGRES_%_PASSWORD is missing or shorter than 16 characters: openssl rand -hex 32',
                upper(part);
        END IF;
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
            EXECUTE format('CREATE ROLE %I', role);
        END IF;
        EXECUTE format('ALTER ROLE %I LOGIN PASSWORD %L', role, current_setting('takeaways.' || part));
        EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), role);
        EXECUTE format('GRANT USAGE ON SCHEMA public TO %I', role);
        -- Our own transactions say this themselves; here it holds for whoever connects by hand as well. A process
        -- that stands still inside a transaction loses its locks before its lease (60 s) is over.
        EXECUTE format(
            'ALTER ROLE %I IN DATABASE %I SET idle_in_transaction_session_timeout = %L',
            role, current_database(), '30s'
        );
    END LOOP;
    GRANT CREATE ON SCHEMA public TO takeaways_migrate;
    -- A migration that waits for a lock makes everybody wait behind it: it gives up, and is tried again.
    EXECUTE format('ALTER ROLE takeaways_migrate IN DATABASE %I SET lock_timeout = %L', current_database(), '10s');
    EXECUTE format('ALTER ROLE takeaways_work IN DATABASE %I SET statement_timeout = %L', current_database(), '30s');
    EXECUTE format('ALTER ROLE takeaways_recall IN DATABASE %I SET statement_timeout = %L', current_database(), '30s');
    EXECUTE format('ALTER ROLE takeaways_read IN DATABASE %I SET statement_timeout = %L', current_database(), '30s');
    EXECUTE format('ALTER ROLE takeaways_read IN DATABASE %I SET default_transaction_read_only = on', current_database());
END
$$;
COMMIT;
