package arrowio_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/arrowio"
	"dpsidecar/internal/mech"
)

// fetched is how often a transaction has fetched a value of a table that is stored out of line.
func fetched(t *testing.T, ctx context.Context, tx pgx.Tx, table string) (n int64) {
	t.Helper()
	err := tx.QueryRow(ctx, `SELECT coalesce(sum(pg_stat_get_xact_numscans(i.indexrelid)), 0)::bigint FROM pg_class c JOIN pg_index i ON i.indrelid = c.reltoastrelid WHERE c.relname = $1`, table).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The server's statistics, which every login sees, count how often values that are stored out of line are fetched. That number
// says nothing of which level a row has, nor whether it passes a filter.
func TestFetchesOfLongValuesTellNoLevel(t *testing.T) {
	level := func(k int) string { return fmt.Sprintf("%d%s", k, strings.Repeat("x", 58)) }
	longer, shorter := level(9)+"yy", level(9)[:50]
	var setup []string
	tables := map[string]string{"one": level(1), "two": level(2), "three": level(3), "longer": longer, "shorter": shorter}
	for name, text := range tables {
		setup = append(setup, fmt.Sprintf(`CREATE TABLE %s (y numeric, id int, filter text, other text, target text, pad text) WITH (toast_tuple_target = 128)`, name),
			fmt.Sprintf(`ALTER TABLE %s ALTER pad SET STORAGE PLAIN`, name))
		for _, column := range []string{"y", "filter", "other", "target"} {
			setup = append(setup, fmt.Sprintf(`ALTER TABLE %s ALTER %s SET STORAGE EXTERNAL`, name, column))
		}
		setup = append(setup, fmt.Sprintf(`INSERT INTO %s SELECT (g || '.' || repeat('7', 400))::numeric, g, '%s', '%s', '%[2]s', repeat('p', 2100) FROM generate_series(1, 100) g`, name, text, level(1)))
	}
	ctx, tx := begin(t, setup...)
	all := []string{level(1), level(2), level(3)}
	levels := map[string][]string{"filter": all, "other": all, "target": all}
	requests := map[string]arrowio.Request{
		"a category":          {Columns: []string{"target", "id"}},
		"a filter":            {Columns: []string{"y", "id", "filter"}, Filters: 1, Only: map[string][]string{"filter": {level(1)}}},
		"two filters":         {Columns: []string{"target", "id", "filter", "other"}, Filters: 2, Only: map[string][]string{"filter": {level(1)}, "other": {level(1)}}},
		"a level among other": {Columns: []string{"y", "filter"}},
	}
	for kind, req := range requests {
		counts := map[string]map[string]int64{"pull": {}, "expressions": {}}
		for name := range tables {
			table := name
			req.Relation, req.Levels, req.Rows = pgx.Identifier{"public", table}, levels, 100
			before := fetched(t, ctx, tx, table)
			if _, err := arrowio.Pull(ctx, tx.Conn(), req, mech.NewSource()); err != nil {
				t.Fatal(err)
			}
			counts["pull"][name] = fetched(t, ctx, tx, table) - before
			from, columns, err := arrowio.Expressions(ctx, tx.Conn(), req)
			if err != nil {
				t.Fatal(err)
			}
			var list, sums []string
			for j, c := range columns {
				list, sums = append(list, fmt.Sprintf("%s AS c%d", c, j)), append(sums, fmt.Sprintf("count(c%d)", j))
			}
			before = fetched(t, ctx, tx, table)
			if _, err := tx.Exec(ctx, "SELECT "+strings.Join(sums, ", ")+" FROM (SELECT "+strings.Join(list, ", ")+", pg_is_in_recovery() AS fence FROM "+from+") x WHERE CASE WHEN fence IS NULL THEN false ELSE true END"); err != nil {
				t.Fatal(err)
			}
			counts["expressions"][name] = fetched(t, ctx, tx, table) - before
		}
		t.Log(kind, counts)
		for how, of := range counts {
			for name, n := range of {
				if n != of["one"] || n == 0 {
					t.Errorf("%s, %s: %d fetches where all rows are %q, %d where they are %q", kind, how, n, name, of["one"], "one")
				}
			}
		}
	}
}

// Nor does the catalogue's: which labels occur, or whether there is any value at all.
func TestReadsOfTheCatalogueTellNoLevel(t *testing.T) {
	rows := map[string]string{"none": "NULL, NULL, NULL", "one": "'a', NULL, NULL", "two": "CASE WHEN g < 7 THEN 'a' ELSE 'b' END::label, NULL, NULL", "text": "NULL, 'a', NULL", "padded": "NULL, NULL, 'a'", "all": "CASE g WHEN 7 THEN 'rare' WHEN 8 THEN 'b' ELSE 'a' END::label, 'b', 'a'"}
	setup := []string{`CREATE TYPE label AS ENUM ('a', 'b', 'c', 'rare')`}
	for name, values := range rows {
		setup = append(setup, fmt.Sprintf(`CREATE TABLE t_%s (y int, e label, c text, b char(9))`, name), fmt.Sprintf(`INSERT INTO t_%s SELECT g, %s FROM generate_series(1, 100) g`, name, values))
	}
	reads := map[string]string{}
	for name := range rows {
		ctx, tx := begin(t, setup...) // a database and a session of its own
		all := []string{"a", "b"}
		req := arrowio.Request{Relation: pgx.Identifier{"public", "t_" + name}, Columns: []string{"y", "e", "c", "b"}, Levels: map[string][]string{"e": {"a", "b", "rare"}, "c": all, "b": all}, Rows: 100}
		from, columns, err := arrowio.Expressions(ctx, tx.Conn(), req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(ctx, "SELECT count(*) FROM (SELECT "+strings.Join(columns, " + ")+" AS v, pg_is_in_recovery() AS fence FROM "+from+") x WHERE CASE WHEN v = 1 OR fence THEN true ELSE false END"); err != nil {
			t.Fatal(err)
		}
		if _, err := arrowio.Pull(ctx, tx.Conn(), req, mech.NewSource()); err != nil {
			t.Fatal(err)
		}
		var text string
		if err := tx.QueryRow(ctx, `SELECT string_agg(relname || ' ' || coalesce(idx_scan, 0), ', ' ORDER BY relname) FROM pg_stat_xact_sys_tables WHERE idx_scan > 0 AND relname IN ('pg_enum', 'pg_amop', 'pg_cast', 'pg_opclass', 'pg_operator')`).Scan(&text); err != nil {
			t.Fatal(err)
		}
		reads[name] = text
	}
	for name, text := range reads {
		if text != reads["none"] {
			t.Errorf("%s: %s; none: %s", name, text, reads["none"])
		}
	}
	t.Log(reads["none"])
}

// Nor do parallel workers look labels up, which start with nothing in their caches. The session may not use the type's schema.
func TestWorkersReadNoLabels(t *testing.T) {
	const scans = `SELECT sum(pg_stat_get_numscans(indexrelid)) + pg_stat_get_numscans('pg_enum'::regclass) FROM pg_index WHERE indrelid = 'pg_enum'::regclass`
	reads := map[string][2]int64{}
	for name, values := range map[string]string{"none": "NULL", "two": "CASE WHEN g < 7 THEN 'a' ELSE 'b' END", "three": "CASE g WHEN 7 THEN 'rare' WHEN 8 THEN 'b' ELSE 'a' END"} {
		ctx, tx := begin(t, `CREATE SCHEMA closed`, `CREATE TYPE closed.label AS ENUM ('a', 'b', 'c', 'rare')`, `CREATE DOMAIN closed.name AS closed.label`, `CREATE TABLE t (y int, e closed.label, d closed.name)`,
			`INSERT INTO t SELECT g, `+values+`::closed.label, `+values+`::closed.label FROM generate_series(1, 20000) g`)
		for _, setting := range []string{"parallel_setup_cost", "parallel_tuple_cost", "min_parallel_table_scan_size", "parallel_leader_participation"} {
			if _, err := tx.Exec(ctx, "SELECT set_config($1, '0', true)", setting); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := tx.Exec(ctx, `CREATE ROLE reader_of_`+name+`; GRANT SELECT ON t TO reader_of_`+name+`; SET LOCAL ROLE reader_of_`+name); err != nil {
			t.Fatal(err)
		}
		req := arrowio.Request{Relation: pgx.Identifier{"public", "t"}, Columns: []string{"y", "e", "d"}, Levels: map[string][]string{"e": {"a", "b", "rare"}, "d": {"b", "*"}}, Rows: 20000}
		from, columns, err := arrowio.Expressions(ctx, tx.Conn(), req)
		if err != nil {
			t.Fatal(err)
		}
		sums := "SELECT count(" + strings.Join(columns, "), count(") + ") FROM " + from
		var plan []string
		if rows, err := tx.Query(ctx, "EXPLAIN "+sums); err != nil {
			t.Fatal(err)
		} else if plan, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || !strings.Contains(strings.Join(plan, "\n"), "Parallel") {
			t.Fatal(err, plan)
		}
		count := func() (n int64) { // what processes that have ended did, which is told within a second
			time.Sleep(1100 * time.Millisecond)
			if _, err := tx.Exec(ctx, `SELECT pg_stat_clear_snapshot()`); err != nil {
				t.Fatal(err)
			}
			if err := tx.QueryRow(ctx, scans).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		worked := func(read func() error) int64 {
			before := count()
			if err := read(); err != nil {
				t.Fatal(err)
			}
			return count() - before
		}
		reads[name] = [2]int64{
			worked(func() error { _, err := tx.Exec(ctx, sums); return err }),
			worked(func() error { _, err := arrowio.Pull(ctx, tx.Conn(), req, mech.NewSource()); return err }),
		}
	}
	t.Log(reads)
	for name, n := range reads {
		if n != reads["none"] {
			t.Errorf("%s: %d scans, none: %d", name, n, reads["none"])
		}
	}
}

// A request may restrict more columns than a function has arguments.
func TestManyFilters(t *testing.T) {
	const many = 150
	var columns []string
	req := arrowio.Request{Relation: pgx.Identifier{"public", "t"}, Columns: []string{"y"}, Levels: map[string][]string{}, Only: map[string][]string{}, Rows: 10, Filters: many}
	for k := range many {
		name := fmt.Sprintf("c%d", k)
		columns = append(columns, name+" text DEFAULT 'a'")
		req.Columns, req.Levels[name], req.Only[name] = append(req.Columns, name), []string{"a", "b"}, []string{"a"}
	}
	ctx, tx := begin(t, "CREATE TABLE t (y float8, "+strings.Join(columns, ", ")+")", "INSERT INTO t (y) SELECT generate_series(1, 10)", "UPDATE t SET c149 = 'b' WHERE y > 7")
	from, computed, err := arrowio.Expressions(ctx, tx.Conn(), req)
	if err != nil {
		t.Fatal(err)
	}
	var count int
	if err := tx.QueryRow(ctx, "SELECT count("+computed[0]+") FROM "+from).Scan(&count); err != nil || count != 7 {
		t.Errorf("%d rows pass, %v", count, err)
	}
}
