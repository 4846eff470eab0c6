package install

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// onThisNode prevents a Citus cluster from propagating the objects made on a connection to other nodes,
// where they have no use. Without Citus it has no effect.
func onThisNode(admin *pgx.ConnConfig) *pgx.ConnConfig {
	admin = admin.Copy()
	before := admin.AfterConnect
	admin.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if before != nil {
			if err := before(ctx, conn); err != nil {
				return err
			}
		}
		return conn.Exec(ctx, `SELECT pg_catalog.set_config('citus.enable_ddl_propagation', 'off', false) FROM pg_catalog.pg_extension WHERE extname = 'citus'`).Close()
	}
	return admin
}

// rolesOnAllNodes makes dpsidecar's roles on all nodes of a Citus cluster, so that grants on distributed
// tables, role memberships and rights on the database refer to roles that every node has. The migrations
// use these roles; without Citus they make them.
const rolesOnAllNodes = `
DO $$
DECLARE
  made record;
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'citus') THEN
    RETURN;
  END IF;
  FOR made IN
    SELECT * FROM (VALUES
      ('dp_owner', 'NOLOGIN', 'owns schemas dp and dp_int; nobody logs in as it'),
      ('dp_admin', 'NOLOGIN', 'privacy officers; they register data sets, set budgets, read the ledger'),
      ('dp_analyst', 'NOLOGIN', 'analysts; they ask for releases on data sets granted to them'),
      ('dp_loopback', 'LOGIN', 'how a synchronous call enqueues outside its caller''s transaction'),
      ('dp_sidecar', 'LOGIN', 'the sidecar; it reads registered tables and advances jobs through functions')) AS r(name, login, comment)
     WHERE name NOT IN (SELECT rolname FROM pg_catalog.pg_roles)
  LOOP
    EXECUTE format('CREATE ROLE %I %s', made.name, made.login);
    EXECUTE format('COMMENT ON ROLE %I IS %L', made.name, 'dpsidecar: ' || made.comment);
    IF made.login = 'LOGIN' THEN
      EXECUTE format('ALTER ROLE %I SET search_path = pg_catalog', made.name);
      EXECUTE format('ALTER ROLE %I SET lock_timeout = %L', made.name, CASE made.name WHEN 'dp_sidecar' THEN '5s' ELSE '3s' END);
    END IF;
  END LOOP;
END $$`

// likeHere makes the roles on workers of Citus that lack them, and gives dp_sidecar there the settings that it
// has on the coordinator: Citus may have come after dpsidecar, and a role that somebody made on a worker has no
// settings. Sessions on a worker have those of the role there. Without Citus it has no effect. checkNodes tells
// what it could not do.
const likeHere = `
DO $$
DECLARE
  roles CONSTANT text := (
    SELECT string_agg(format('IF pg_catalog.to_regrole(%L) IS NULL THEN CREATE ROLE %I %s; END IF; ', rolname, rolname, CASE WHEN rolcanlogin THEN 'LOGIN' ELSE 'NOLOGIN' END), '')
      FROM pg_catalog.pg_roles WHERE rolname IN ('dp_owner', 'dp_admin', 'dp_analyst', 'dp_loopback', 'dp_sidecar'));
  settings CONSTANT text := (
    SELECT coalesce(string_agg(format('ALTER ROLE dp_sidecar SET %I = %L; ', split_part(setting, '=', 1), substr(setting, strpos(setting, '=') + 1)), ''), '')
      FROM pg_catalog.pg_db_role_setting s, unnest(s.setconfig) AS setting
     WHERE s.setrole = 'dp_sidecar'::regrole AND s.setdatabase = 0
       AND split_part(setting, '=', 1) IN ('search_path', 'lock_timeout', 'constraint_exclusion', 'pg_stat_statements.track', 'track_functions', 'statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout'));
  command text;
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'citus') THEN
    RETURN;
  END IF;
  FOREACH command IN ARRAY ARRAY[roles, settings] LOOP
    PERFORM FROM pg_catalog.run_command_on_workers(format('DO %L', 'BEGIN PERFORM pg_catalog.set_config(''citus.enable_ddl_propagation'', ''off'', true); ' || command || 'END'));
  END LOOP;
EXCEPTION WHEN OTHERS THEN
  RAISE NOTICE 'roles on the workers of Citus stay as they are: %', SQLERRM;
END $$`

// unlikeHere selects the workers of Citus that lack a role of dpsidecar, or on which dp_sidecar lacks a setting
// that it has on the coordinator, with what is missing, or why they do not tell.
const unlikeHere = `
	SELECT concat(nodename, ':', nodeport, CASE WHEN success THEN ' lacks ' ELSE ' does not answer: ' END, result)
	  FROM pg_catalog.run_command_on_workers((
	    SELECT format($ask$
	             SELECT coalesce(pg_catalog.string_agg(m.missing, ', '), '')
	               FROM (SELECT 'role ' || r.name FROM pg_catalog.unnest(%L::pg_catalog.text[]) AS r(name) WHERE pg_catalog.to_regrole(r.name) IS NULL
	                     UNION ALL
	                     SELECT 'setting ' || w.setting || ' of dp_sidecar'
	                       FROM pg_catalog.unnest(%L::pg_catalog.text[]) AS w(setting)
	                      WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_db_role_setting s
	                                         WHERE s.setrole = pg_catalog.to_regrole('dp_sidecar') AND s.setdatabase = 0 AND w.setting = ANY (s.setconfig))) AS m(missing)$ask$,
	             ARRAY['dp_owner', 'dp_admin', 'dp_analyst', 'dp_loopback', 'dp_sidecar'],
	             ARRAY(SELECT setting FROM pg_catalog.pg_db_role_setting s, unnest(s.setconfig) AS setting
	                    WHERE s.setrole = 'dp_sidecar'::regrole AND s.setdatabase = 0
	                      AND split_part(setting, '=', 1) IN ('search_path', 'constraint_exclusion', 'pg_stat_statements.track', 'track_functions', 'statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout')))))
	 WHERE NOT success OR result <> ''
	 ORDER BY nodename, nodeport`

// dropOnWorkers drops the roles of dpsidecar on workers of Citus that the coordinator has no longer, as far as
// nothing depends on them there: Citus drops those alone that it made. leftOnWorkers selects those that stay.
const dropOnWorkers = `
	SELECT pg_catalog.run_command_on_workers(format('DO %L', format($drop$
	  DECLARE
	    gone name;
	  BEGIN
	    PERFORM pg_catalog.set_config('citus.enable_ddl_propagation', 'off', true);
	    FOREACH gone IN ARRAY %L::name[] LOOP
	      BEGIN
	        EXECUTE pg_catalog.format('DROP ROLE IF EXISTS %%I', gone);
	      EXCEPTION WHEN dependent_objects_still_exist THEN NULL;
	      END;
	    END LOOP;
	  END$drop$, $1::name[])))`

const leftOnWorkers = `
	SELECT concat(CASE WHEN success THEN result ELSE 'perhaps others' END, ' on ', nodename, ':', nodeport, CASE WHEN NOT success THEN ', which does not answer: ' || result END)
	  FROM pg_catalog.run_command_on_workers(format($left$SELECT coalesce(pg_catalog.string_agg(rolname, ', ' ORDER BY rolname), '') FROM pg_catalog.pg_roles WHERE rolname = ANY (%L::name[])$left$, $1::name[]))
	 WHERE NOT success OR result <> ''
	 ORDER BY nodename, nodeport`

// dropRolesOnWorkers drops the roles on workers of Citus that are gone here, and returns those that stay there.
func dropRolesOnWorkers(ctx context.Context, conn *pgx.Conn) (stay []string, err error) {
	var citus bool
	var gone []string
	err = conn.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'citus'),
		       ARRAY(SELECT r.name FROM unnest('{dp_loopback,dp_sidecar,dp_analyst,dp_admin,dp_owner}'::text[]) AS r(name) WHERE to_regrole(r.name) IS NULL)`).Scan(&citus, &gone)
	if err != nil || !citus || len(gone) == 0 {
		return nil, err
	}
	_, err = conn.Exec(ctx, dropOnWorkers, gone)
	if err == nil {
		rows, _ := conn.Query(ctx, leftOnWorkers, gone)
		stay, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return []string{"perhaps others on the workers of Citus: " + refused.Message}, nil
	}
	return stay, err
}

// checkNodes checks the workers of Citus, as far as the role of conn may ask them; nil without Citus.
func checkNodes(ctx context.Context, conn *pgx.Conn) ([]Check, error) {
	var citus bool
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'citus')`).Scan(&citus); err != nil || !citus {
		return nil, err
	}
	c := Check{Item: "workers of Citus have the roles dp_*, and dp_sidecar the same settings"}
	rows, _ := conn.Query(ctx, unlikeHere)
	wrong, err := pgx.CollectRows(rows, pgx.RowTo[string])
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused):
		c.Detail = "not known: " + refused.Message
	case err != nil:
		return nil, err
	case len(wrong) > 0:
		c.Detail = strings.Join(wrong, "; ") + ". What is missing comes with dpsidecar install, run by a superuser as whom the coordinator can log in to the workers"
	default:
		c.OK, c.Detail = true, "as it should be"
	}
	return []Check{c}, nil
}
