package sql_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// stays are tables of a role that is no superuser: a plain one, and one with partitions by the
// day and, below one of them, by ward.
const stays = `
	DROP ROLE IF EXISTS stays_owner, stays_nurse; CREATE ROLE stays_owner; CREATE ROLE stays_nurse;
	GRANT CREATE, USAGE ON SCHEMA public TO stays_owner, stays_nurse;
	SET ROLE stays_owner;
	CREATE TABLE stays (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, day date, at timestamptz DEFAULT now(), cost float8);
	INSERT INTO stays (day, cost) SELECT '2026-01-01'::date + i, i FROM generate_series(1, 10) AS i;
	CREATE TABLE parts (day date, ward int, cost float8) PARTITION BY RANGE (day);
	CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
	CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM ('2026-02-01') TO ('2026-03-01') PARTITION BY LIST (ward);
	CREATE TABLE parts_2a PARTITION OF parts_2 FOR VALUES IN (1);
	CREATE TABLE parts_2b PARTITION OF parts_2 DEFAULT;
	INSERT INTO parts VALUES ('2026-01-05', 1, 1), ('2026-02-05', 1, 1);
	RESET ROLE;`

// fixedBy is what keeps a column of a relation, by the database; empty: nothing.
func fixedBy(t *testing.T, conn *pgx.Conn, relation, column string) string {
	t.Helper()
	return query[string](t, conn, "SELECT coalesce(dp_int.block_fixed_by($1::text::regclass, $2), '')", relation, column)[0]
}

func refused(t *testing.T, conn *pgx.Conn, code, statement string) {
	t.Helper()
	_, err := conn.Exec(context.Background(), statement)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != code || pg.Hint == "" {
		t.Errorf("%s: %v, want %s with a hint", statement, err, code)
	}
}

// Whatever changes a frozen column is refused, by whichever way, and all else is let through.
func TestFrozenColumnsDoNotChange(t *testing.T) {
	conn := database(t)
	setUp(t, conn)
	script(t, conn, "tables", stays)
	defer conn.Exec(context.Background(), `DROP OWNED BY stays_owner, stays_nurse CASCADE`) // roles are the cluster's
	refused(t, conn, "42703", `SELECT dp_freeze('stays', 'Day')`)
	refused(t, conn, "42809", `SELECT dp_freeze('parts_1', 'day')`)
	refused(t, conn, "42809", `SELECT dp_freeze('dp.budget', 'dataset')`)
	if _, err := conn.Exec(context.Background(), `SET ROLE stays_nurse; SELECT dp_freeze('stays', 'day')`); err == nil || !strings.Contains(err.Error(), "42501") {
		t.Error("not the owner:", err)
	}
	for range 2 {
		script(t, conn, "freeze", `SET ROLE stays_owner; SELECT dp_freeze('stays', 'day'); SELECT dp_freeze('parts', 'day'); RESET ROLE`)
	}
	if n := query[int](t, conn, `SELECT count(*)::int FROM pg_trigger WHERE tgfoid = 'dp_refuse_change'::regproc AND tgenabled = 'A'`)[0]; n != 6 {
		t.Errorf("%d triggers, want one a table", n)
	}
	script(t, conn, "what is allowed", `
		UPDATE stays SET cost = 2; UPDATE stays SET day = day; UPDATE parts SET ward = 2; DELETE FROM stays WHERE id = 10;
		INSERT INTO stays (day, cost) VALUES (NULL, 3); CREATE TABLE parts_3 PARTITION OF parts FOR VALUES FROM ('2026-03-01') TO ('2026-04-01'); INSERT INTO parts VALUES ('2026-03-05', 1, 1)`)
	for _, statement := range []string{
		`UPDATE stays SET day = day + 1 WHERE id = 1`, `UPDATE stays SET day = NULL WHERE id = 1`, `UPDATE stays SET day = '2026-01-01' WHERE day IS NULL`,
		`INSERT INTO stays (id, day) OVERRIDING SYSTEM VALUE VALUES (1, '2026-05-01') ON CONFLICT (id) DO UPDATE SET day = excluded.day`,
		`UPDATE parts SET day = '2026-01-06' WHERE day = '2026-01-05'`, `UPDATE parts SET day = '2026-02-06' WHERE day = '2026-01-05'`,
		`UPDATE parts_1 SET day = '2026-01-06'`, `UPDATE parts SET day = day + 1 WHERE day > '2026-03-01'`,
		`SET session_replication_role = replica; UPDATE stays SET day = day + 1 WHERE id = 1`,
	} {
		refused(t, conn, "23514", statement)
	}
	script(t, conn, "reset", `RESET session_replication_role`)
	if _, err := conn.Exec(context.Background(), `ALTER TABLE stays ALTER COLUMN day TYPE timestamptz USING day + interval '1 day'`); err == nil {
		t.Error("the type of a frozen column was changed, and its values with it")
	}
}

// What keeps a column is seen, and no longer once it is gone or something goes round it.
func TestWhatFixesAColumnIsSeenAndMissed(t *testing.T) {
	conn := database(t)
	setUp(t, conn)
	script(t, conn, "tables", stays)
	defer conn.Exec(context.Background(), `DROP OWNED BY stays_owner, stays_nurse CASCADE`) // roles are the cluster's
	script(t, conn, "more", `SET ROLE stays_owner; CREATE VIEW shown AS SELECT day AS d, cost FROM stays; CREATE VIEW joined AS SELECT a.day AS d, b.cost FROM stays a JOIN stays b USING (id); RESET ROLE;
		CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.day := now(); RETURN NEW; END';
		CREATE FUNCTION same(date, date) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT true'; CREATE SCHEMA odd; CREATE OPERATOR odd.= (LEFTARG = date, RIGHTARG = date, FUNCTION = same)`)
	const frozen = `SET ROLE stays_owner; SELECT dp_freeze('stays', 'day'); SELECT dp_freeze('parts', 'day'); RESET ROLE;`
	const revoked = `REVOKE UPDATE ON stays, parts, parts_1, parts_2, parts_2a, parts_2b FROM stays_owner; GRANT UPDATE (cost) ON stays TO stays_owner;`
	const generated = `ALTER TABLE stays ADD made date GENERATED ALWAYS AS ((at AT TIME ZONE 'UTC')::date) STORED; SET ROLE stays_owner; SELECT dp_freeze('stays', 'at'); RESET ROLE;`
	const made = `generated column: ((at AT TIME ZONE 'UTC'::text))::date`
	for _, c := range []struct{ does, relation, column, want string }{
		{``, "stays", "day", ""},
		{``, "stays", "id", ""},
		{frozen, "stays", "day", "trigger"},
		{frozen, "stays", "cost", ""},
		{frozen, "shown", "d", "trigger"},
		{frozen, "joined", "d", ""},
		{frozen, "parts", "day", "trigger"},
		{frozen, "parts_2a", "day", "trigger"},
		{frozen + `ALTER TABLE stays RENAME COLUMN day TO "D ay"`, "stays", "D ay", "trigger"},
		{frozen + `ALTER TABLE stays DISABLE TRIGGER ALL`, "stays", "day", ""},
		{frozen + `ALTER TABLE stays ENABLE TRIGGER zz_dp_freeze_day`, "stays", "day", ""},
		{frozen + `ALTER TABLE stays ENABLE REPLICA TRIGGER zz_dp_freeze_day`, "stays", "day", ""},
		{frozen + `ALTER TABLE parts_2b DISABLE TRIGGER zz_dp_freeze_day`, "parts", "day", ""},
		{frozen + `ALTER TABLE parts_2b DISABLE TRIGGER zz_dp_freeze_day;` + frozen, "parts", "day", "trigger"},
		{frozen + `DROP TRIGGER zz_dp_freeze_day ON stays`, "stays", "day", ""},
		{frozen + `CREATE OR REPLACE FUNCTION dp_refuse_change() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS 'BEGIN RETURN NEW; END'`, "stays", "day", ""},
		{frozen + `ALTER FUNCTION dp_refuse_change() OWNER TO stays_owner`, "stays", "day", ""},
		{frozen + `CREATE TRIGGER a BEFORE UPDATE ON stays FOR EACH ROW EXECUTE FUNCTION touch()`, "stays", "day", "trigger"},
		{frozen + `CREATE TRIGGER zzz BEFORE UPDATE ON stays FOR EACH ROW EXECUTE FUNCTION touch()`, "stays", "day", ""},
		{frozen + `CREATE TRIGGER zzz AFTER UPDATE ON stays FOR EACH ROW EXECUTE FUNCTION touch()`, "stays", "day", "trigger"},
		{frozen + `CREATE TRIGGER a BEFORE INSERT ON parts_2a FOR EACH ROW EXECUTE FUNCTION touch()`, "parts", "day", ""},
		{frozen + `CREATE TRIGGER a BEFORE INSERT ON stays FOR EACH ROW EXECUTE FUNCTION touch()`, "stays", "day", "trigger"},
		{frozen + `CREATE TABLE child (more int) INHERITS (stays)`, "stays", "day", ""},
		{frozen + `CREATE TABLE child (more int) INHERITS (stays); ALTER TABLE child OWNER TO stays_owner;` + frozen, "stays", "day", "trigger"},
		{frozen + `CREATE TABLE parts_3 PARTITION OF parts DEFAULT`, "parts", "day", "trigger"},
		{frozen + `CREATE TABLE parts_3 PARTITION OF parts DEFAULT; ALTER TABLE parts_3 DISABLE TRIGGER zz_dp_freeze_day`, "parts", "day", ""},
		{`CREATE TABLE late (day date, ward int, cost float8); ALTER TABLE late OWNER TO stays_owner; SET ROLE stays_owner; SELECT dp_freeze('late', 'day'); ALTER TABLE parts ATTACH PARTITION late DEFAULT;` + frozen, "parts", "day", "trigger"},
		{`CREATE EXTENSION file_fdw; CREATE SERVER files FOREIGN DATA WRAPPER file_fdw; CREATE FOREIGN TABLE parts_3 PARTITION OF parts FOR VALUES FROM ('2027-01-01') TO ('2028-01-01') SERVER files OPTIONS (filename '/dev/null')`, "parts", "day", ""},
		{`SET search_path = odd, pg_catalog, public; CREATE TRIGGER zz_dp_freeze_day BEFORE UPDATE ON stays FOR EACH ROW WHEN (OLD.day IS DISTINCT FROM NEW.day) EXECUTE FUNCTION dp_refuse_change('day'); ALTER TABLE stays ENABLE ALWAYS TRIGGER zz_dp_freeze_day; RESET search_path`, "stays", "day", ""},
		{`CREATE TRIGGER zz_dp_freeze_day BEFORE UPDATE OF day ON stays FOR EACH ROW WHEN (OLD.day IS DISTINCT FROM NEW.day) EXECUTE FUNCTION dp_refuse_change('day'); ALTER TABLE stays ENABLE ALWAYS TRIGGER zz_dp_freeze_day`, "stays", "day", ""},
		{revoked, "stays", "day", "no UPDATE rights"},
		{revoked, "stays", "cost", ""},
		{revoked, "parts", "day", "no UPDATE rights"},
		{revoked + `GRANT UPDATE ON parts_2b TO stays_nurse`, "parts", "day", ""},
		{revoked + `CREATE TABLE other (day date); CREATE TABLE child () INHERITS (stays, other); ALTER TABLE child OWNER TO stays_owner; ALTER TABLE other OWNER TO stays_owner; REVOKE UPDATE ON child, other FROM stays_owner`, "stays", "day", "no UPDATE rights"},
		{revoked + `CREATE TABLE other (day date); CREATE TABLE child () INHERITS (stays, other); ALTER TABLE child OWNER TO stays_owner; ALTER TABLE other OWNER TO stays_owner; REVOKE UPDATE ON child, other FROM stays_owner; GRANT UPDATE ON other TO stays_nurse`, "stays", "day", ""},
		{revoked + `GRANT UPDATE (day) ON stays TO stays_nurse`, "stays", "day", ""},
		{revoked + `GRANT UPDATE (day) ON stays TO PUBLIC`, "stays", "day", ""},
		{revoked + `GRANT pg_write_all_data TO stays_nurse`, "stays", "day", ""},
		{revoked + `ALTER TABLE stays OWNER TO CURRENT_USER`, "stays", "day", ""},
		{revoked + `CREATE TRIGGER a BEFORE UPDATE ON stays FOR EACH ROW EXECUTE FUNCTION touch()`, "stays", "day", ""},
		{generated, "stays", "made", made},
		{generated + `ALTER TABLE stays DISABLE TRIGGER zz_dp_freeze_at`, "stays", "made", ""},
		{generated + `ALTER TABLE stays ALTER COLUMN made DROP EXPRESSION`, "stays", "made", ""},
		{strings.ReplaceAll(generated, "UTC", "Europe/Berlin"), "stays", "made", ""},
		{`ALTER TABLE stays ADD made bool GENERATED ALWAYS AS (same('2026-01-01', '2026-01-02')) STORED`, "stays", "made", ""},
		{`ALTER TABLE stays ADD made int GENERATED ALWAYS AS (3) STORED`, "stays", "made", "generated column: 3"},
		// The trigger lets through what is equal and not the same: 30 days for 1 month, 1.00 for 1.
		{`ALTER TABLE stays ADD length interval; ALTER TABLE stays ADD made date GENERATED ALWAYS AS ((day + length)::date) STORED;` + frozen + `SET ROLE stays_owner; SELECT dp_freeze('stays', 'length'); RESET ROLE;`, "stays", "made", ""},
		{`ALTER TABLE stays ADD digits numeric; ALTER TABLE stays ADD made date GENERATED ALWAYS AS (day + scale(digits)) STORED;` + frozen + `SET ROLE stays_owner; SELECT dp_freeze('stays', 'digits'); RESET ROLE;`, "stays", "made", ""},
		{`ALTER TABLE stays ADD length interval; ALTER TABLE stays ADD made date GENERATED ALWAYS AS ((day + length)::date) STORED;` + revoked, "stays", "made", "generated column: ((day + length))::date"},
		{`ALTER TABLE stays ADD word text; ALTER TABLE stays ADD made date GENERATED ALWAYS AS (day + length(word)) STORED;` + frozen + `SET ROLE stays_owner; SELECT dp_freeze('stays', 'word'); RESET ROLE;`, "stays", "made", "generated column: (day + length(word))"},
		{`CREATE COLLATION alike (provider = icu, locale = 'und', deterministic = false); ALTER TABLE stays ADD word text COLLATE alike; ALTER TABLE stays ADD made date GENERATED ALWAYS AS (day + length(word)) STORED;` + frozen + `SET ROLE stays_owner; SELECT dp_freeze('stays', 'word'); RESET ROLE;`, "stays", "made", ""},
		// Under a policy that reads tables a row may take another's place.
		{frozen + `ALTER TABLE stays ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON stays USING (NOT EXISTS (SELECT FROM parts WHERE parts.day < stays.day)); GRANT SELECT ON stays TO stays_nurse; SET ROLE stays_nurse; CREATE VIEW seen AS SELECT * FROM stays; RESET ROLE`, "seen", "day", ""},
		{frozen + `ALTER TABLE stays ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON stays USING (cost > 1 AND day < '2030-01-01'); GRANT SELECT ON stays TO stays_nurse; SET ROLE stays_nurse; CREATE VIEW seen AS SELECT * FROM stays; RESET ROLE`, "seen", "day", "trigger"},
	} {
		script(t, conn, c.does, "BEGIN;"+c.does)
		if got := fixedBy(t, conn, c.relation, c.column); got != c.want {
			t.Errorf("%s: %s.%s is kept by %q, want %q", c.does, c.relation, c.column, got, c.want)
		}
		script(t, conn, "back", "ROLLBACK; RESET ROLE; RESET search_path")
	}
	script(t, conn, "frozen", frozen+`SELECT dp_int.refuse_unfixed('stays'::regclass, 'day', 'trigger')`)
	if _, err := conn.Exec(context.Background(), `SELECT dp_int.refuse_unfixed('stays'::regclass, 'day', 'no UPDATE rights')`); err == nil {
		t.Error("another reason than that of the registration is let through")
	}
}
