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

// rolesOnAllNodes makes the roles of people and of the sidecar on all nodes of a Citus cluster:
// whoever may read a distributed table, or is a member of a role, is known on every node. The
// migrations then find them. Where there is no Citus they make them.
const rolesOnAllNodes = `
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'citus') THEN
    RETURN;
  END IF;
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'dp_admin') THEN
    CREATE ROLE dp_admin NOLOGIN;
    COMMENT ON ROLE dp_admin IS 'dpsidecar: privacy officers; they register data sets, set budgets, read the ledger';
  END IF;
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'dp_analyst') THEN
    CREATE ROLE dp_analyst NOLOGIN;
    COMMENT ON ROLE dp_analyst IS 'dpsidecar: analysts; they ask for releases on data sets granted to them';
  END IF;
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'dp_sidecar') THEN
    CREATE ROLE dp_sidecar LOGIN;
    COMMENT ON ROLE dp_sidecar IS 'dpsidecar: the sidecar; it reads registered tables and advances jobs through functions';
    ALTER ROLE dp_sidecar SET search_path = pg_catalog;
    ALTER ROLE dp_sidecar SET lock_timeout = '5s';
  END IF;
END $$`
