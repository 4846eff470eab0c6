package install

import (
	"context"

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
