package install

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ErrForeign is returned where something in the schemas of an installation belongs to a role that is not trusted with it.
var ErrForeign = errors.New("nothing was changed, because a schema of dpsidecar holds what is not dpsidecar's")

// trusted is a table of the roles that may own what is in the schemas of an installation: superusers, whoever installs, and
// who may become dp_owner.
const trusted = `trusted AS MATERIALIZED (
  SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolsuper OR r.rolname = current_user OR pg_has_role(r.oid, to_regrole('dp_owner'), 'MEMBER'))`

// foreign lists up to five objects in the schemas of an installation that are not ours and can have code run, by the system's catalogue alone:
// triggers count as whose function they call. What an extension made is ours. Who may own schema dp_dblink is decided by the
// administrator's script.
const foreign = `
WITH ` + trusted + `, objects(class, id, owner, namespace) AS (
  SELECT c.tableoid, c.oid, c.relowner, c.relnamespace FROM pg_catalog.pg_class c WHERE c.relkind NOT IN ('i', 'I', 'c')
  UNION ALL SELECT p.tableoid, p.oid, p.proowner, p.pronamespace FROM pg_catalog.pg_proc p
  UNION ALL SELECT o.tableoid, o.oid, o.oprowner, o.oprnamespace FROM pg_catalog.pg_operator o
  UNION ALL SELECT t.tableoid, t.oid, t.typowner, t.typnamespace FROM pg_catalog.pg_type t WHERE t.typrelid = 0 AND t.typelem = 0
  UNION ALL SELECT t.tableoid, t.oid, p.proowner, c.relnamespace FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid AND NOT t.tgisinternal
  UNION ALL SELECT n.tableoid, n.oid, n.nspowner, n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname <> 'dp_dblink')
SELECT array_to_string((array_agg(format('%s of %I', pg_describe_object(o.class, o.id, 0), pg_get_userbyid(o.owner)) ORDER BY o.class, o.id))[:5], ', ')
  FROM objects o
  JOIN pg_catalog.pg_namespace n ON n.oid = o.namespace AND n.nspname IN ('dp', 'dp_int', 'dp_dblink')
 WHERE o.owner NOT IN (SELECT oid FROM trusted)
   AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.classid = o.class AND d.objid = o.id AND d.deptype = 'e')`

// refuseForeign refuses a database where somebody else has made a schema of an installation, or something in one: whoever may
// create schemas there could otherwise have a trigger, a view or a function run with the rights of whoever installs.
//
// Errors: ErrForeign.
func refuseForeign(ctx context.Context, conn *pgx.Conn) error {
	var found *string
	if err := conn.QueryRow(ctx, foreign).Scan(&found); err != nil || found == nil {
		return err
	}
	return fmt.Errorf("%w: %s; its owner's code could run with your rights. What a former installer of yours made, such as dp_int.schema_migrations, take with ALTER ... OWNER TO CURRENT_USER; DROP what none of yours made; and run this again", ErrForeign, *found)
}

// revokeForeign takes from others the rights on schema dp_int and its table of versions, and CREATE on schema dp. They have them by
// default privileges of whoever installed, or from whoever made the schema: what they could create there would run as
// dp_sidecar and dp_owner.
const revokeForeign = `
DO $$
DECLARE
  statement text;
BEGIN
  FOR statement IN
    WITH ` + trusted + `, granted(kind, object, owner, acl, rights, keeps) AS (
      SELECT 'SCHEMA', format('%I', n.nspname), n.nspowner, n.nspacl, CASE n.nspname WHEN 'dp' THEN 'CREATE' ELSE 'ALL' END, array_remove(ARRAY[to_regrole('dp_loopback'), to_regrole('dp_sidecar')]::oid[], NULL)
        FROM pg_catalog.pg_namespace n WHERE n.nspname IN ('dp', 'dp_int')
      UNION ALL
      SELECT 'TABLE', 'dp_int.schema_migrations', c.relowner, c.relacl, 'ALL', '{}'
        FROM pg_catalog.pg_class c WHERE c.oid = to_regclass('dp_int.schema_migrations') AND pg_has_role(c.relowner, 'USAGE'))
    SELECT DISTINCT format('REVOKE %s ON %s %s FROM %s CASCADE', CASE WHEN a.grantee = ANY (g.keeps) THEN 'CREATE' ELSE g.rights END, g.kind, g.object, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END)
      FROM granted g, aclexplode(g.acl) AS a
     WHERE a.grantee <> g.owner AND a.grantee NOT IN (SELECT oid FROM trusted) AND (a.privilege_type = 'CREATE' OR g.rights = 'ALL' AND a.grantee <> ALL (g.keeps)) LOOP
    EXECUTE statement;
  END LOOP;
END $$;`
