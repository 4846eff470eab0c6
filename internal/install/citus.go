package install

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// onThisNode keeps what is made on a connection from the other nodes of a Citus cluster, which
// have no use for it. Where there is no Citus it does nothing.
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

// rolesOnAllNodes makes dpsidecar's roles on all nodes of a Citus cluster: whoever may read a distributed table, or is a
// member of a role, is known on every node, and so is whoever has rights on the database. The migrations then find
// them. Where there is no Citus they make them.
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
