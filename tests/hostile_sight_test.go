package tests

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"dpsidecar/internal/dev"
)

// Everything an analyst can see of a request but its coefficients is the same
// whatever one person's row holds: answers, errors, notices, jobs, releases,
// row counts, budgets. Times and names aside.
func TestNothingButTheCoefficientsDependsOnARow(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 1, 0)
	w.serve()
	if told := tellsApart(t, w.system, `30, 20, 3, true`, `NULL, NULL, NULL, NULL`, `'NaN', 'Infinity', 0, NULL`, `1e308, -1e308, 2147483647, false`, `5e-324, 0, -2147483648, true`); told != "" {
		t.Error(told)
	}
}

// A release that carries an extreme of the data is noticed.
func TestAParameterFromTheDataIsNoticed(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 1, 0)
	w.exec(w.super, `CREATE FUNCTION public.leak() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
		DECLARE d dp_int.dataset; extreme text;
		BEGIN
		  SELECT * INTO d FROM dp_int.dataset WHERE id = NEW.dataset;
		  EXECUTE format('SELECT max(age) FROM public.%I', d.relation_name) INTO extreme;
		  NEW.parameters := NEW.parameters || jsonb_build_object('clip', extreme > '9');
		  RETURN NEW;
		END $$`)
	w.exec(w.super, `CREATE TRIGGER leak BEFORE INSERT ON dp_int.release FOR EACH ROW EXECUTE FUNCTION public.leak()`)
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	if tellsApart(t, w.system, `30, 20, 3, true`, `'NaN', 'Infinity', 0, NULL`) == "" {
		t.Error("not noticed")
	}
}

// tellsApart asks the same of tables that differ in one row, one table for each of rows, and returns the
// first difference an analyst sees, or nothing.
func tellsApart(t *testing.T, s *dev.System, rows ...string) string {
	t.Helper()
	var seen []string
	for i, row := range rows {
		w := worldIn(t, s, 1, 0)
		w.exec(w.super, fmt.Sprintf(`DELETE FROM public.%[1]s WHERE ctid = (SELECT ctid FROM public.%[1]s LIMIT 1)`, w.dataset))
		w.exec(w.super, fmt.Sprintf(`INSERT INTO public.%[1]s (amount, age, region, insured) VALUES (%[2]s)`, w.dataset, row))
		w.exec(w.super, `ANALYZE public.`+w.dataset)
		w.registerAgain("zcdp", 4, 1e-5)
		w.exec(w.steward, `SELECT dp_register($1 || '_stays', $2::text::regclass, 'amount', '{age,region,insured}', 4, 1e-5, placement => 'database')`, w.dataset, "public."+w.dataset)
		w.exec(w.steward, `SELECT dp_grant($1 || '_stays', $2)`, w.dataset, w.person)
		sight := w.sight(`
			SELECT * FROM dp_l1_regress('{d}', 0.1);
			SELECT * FROM dp_l1_regress('{d}', 0.1, options => '{"method": "objective_perturbation"}');
			SELECT * FROM dp_linear_regress('{d}', 0.5, method => 'gd');
			SELECT * FROM dp_linear_regress('{d}', 0.5, method => 'trimmed', options => '{"steps": 3}');
			SELECT * FROM dp_linear_regress('{d}', 0.5, method => 'sample_aggregate', options => '{"blocks": 20}');
			SELECT * FROM dp_logistic_regress('{d}', 0.5, target => 'insured', features => '{age,region}', method => 'svrg');
			SELECT * FROM dp_huber_regress('{d}', 0.5, penalty => 'l1', lambda => 0.01);
			SELECT * FROM dp_linear_regress('{d}_stays', 0.3);
			SELECT * FROM dp_logistic_regress('{d}_stays', 0.3, target => 'insured', features => '{age,region}', method => 'newton');
			SELECT * FROM dp_l1_regress('{d}', 100);
			SELECT model, eps, delta, status, stage, sqlstate, error, hint FROM dp.jobs ORDER BY created_at;
			SELECT model, method, eps, delta, parameters FROM dp.releases WHERE dataset = '{d}' ORDER BY released_at;
			SELECT row_count, scales, accounting FROM dp.datasets WHERE dataset = '{d}';
			SELECT epsilon_spent, entries, my_epsilon_spent FROM dp.budget WHERE dataset = '{d}'`)
		if i == 0 {
			seen = sight
		}
		for k := range max(len(sight), len(seen)) {
			if k >= len(sight) || k >= len(seen) || sight[k] != seen[k] {
				return fmt.Sprintf("with %s an analyst sees %q, and else %q", row, sight[k:], seen[k:])
			}
		}
	}
	return ""
}

// sight runs statements as the analyst and returns what they show: rows but for
// coefficients, tags, notices and errors.
func (w *world) sight(statements string) (seen []string) {
	w.Helper()
	config := w.analyst.Config()
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if !strings.HasPrefix(n.Message, "dpsidecar: ") { // a stage is told when it lasts: time
			seen = append(seen, "NOTICE "+n.Message)
		}
	}
	conn := w.connectConfig(config)
	name := strings.NewReplacer(w.dataset, "{d}")
	for _, sql := range splitStatements(strings.ReplaceAll(statements, "{d}", w.dataset)) {
		results, err := conn.PgConn().Exec(context.Background(), sql).ReadAll()
		if err != nil {
			seen = append(seen, name.Replace(fmt.Sprint(err, hint(err))))
			continue
		}
		for _, r := range results {
			for _, row := range r.Rows {
				if strings.Contains(sql, "_regress(") {
					row = row[:1]
				}
				seen = append(seen, name.Replace(fmt.Sprintf("%s", row)))
			}
			seen = append(seen, r.CommandTag.String())
		}
	}
	return seen
}

func (w *world) connectConfig(config *pgx.ConnConfig) *pgx.Conn {
	w.Helper()
	conn, err := pgx.ConnectConfig(context.Background(), config)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// Statistics show an analyst neither values nor what the sidecar does, at rest
// and while it reads.
func TestStatisticsViewsShowNoValues(t *testing.T) {
	w := newWorld(t, 100, 0)
	w.exec(w.super, `ANALYZE public.`+w.dataset)
	w.exec(w.super, fmt.Sprintf(`CREATE STATISTICS public.%[1]s_s ON (age * 2), region FROM public.%[1]s; ANALYZE public.%[1]s; ANALYZE dp_int.dataset`, w.dataset))
	slow := w.dataset + "_slow"
	w.slowView(slow, 5)
	job := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 1)::text`, slow)
	w.eventually("the sidecar copies", func() bool {
		return one[int64](w, w.super, `SELECT count(*) FROM pg_stat_progress_copy WHERE bytes_processed > 0`) == 1
	})
	for what, sql := range map[string]string{
		"columns":          `SELECT count(*) FROM pg_stats WHERE tablename = '` + w.dataset + `'`,
		"columns together": `SELECT count(*) FROM pg_stats_ext WHERE tablename = '` + w.dataset + `'`,
		"expressions":      `SELECT count(*) FROM pg_stats_ext_exprs WHERE tablename = '` + w.dataset + `'`,
		"progress":         `SELECT count(*) FROM pg_stat_progress_copy WHERE bytes_processed IS NOT NULL OR tuples_processed IS NOT NULL`,
		"statements":       `SELECT count(*) FROM pg_stat_activity WHERE usename = 'dp_sidecar' AND query <> '<insufficient privilege>'`,
		"our tables":       `SELECT count(*) FROM pg_stats WHERE schemaname = 'dp_int'`,
	} {
		if n := one[int64](w, w.analyst, sql); n != 0 {
			t.Errorf("an analyst sees %s: %d", what, n)
		}
		if n := one[int64](w, w.super, sql); n == 0 {
			t.Errorf("there are no %s to see", what)
		}
	}
	for _, sql := range []string{`SELECT * FROM pg_statistic`, `SELECT * FROM pg_statistic_ext_data`, `SELECT pg_read_file('postgresql.conf')`, `SELECT pg_ls_logdir()`,
		`SELECT * FROM pg_authid`, `SELECT umoptions FROM pg_user_mapping`, `COPY public.` + w.dataset + ` TO STDOUT`} {
		if _, err := w.analyst.Exec(context.Background(), sql); err == nil {
			t.Errorf("an analyst can %s", sql)
		}
	}
	w.eventually("the job is done", func() bool { return one[string](w, w.analyst, `SELECT status FROM dp_status($1)`, job) == "done" })
}

// A view that the steward declared total and that raises on one row after all: the
// caller learns that it could not be read, in our words and not the server's.
func TestAnOracleOfErrorsSaysNothing(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 1e-6)
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	var told []string
	for name, expression := range map[string]string{
		"division": `1 / (region - 3)`, "cast": `(CASE region WHEN 3 THEN 'secret 3' ELSE '1' END)::float8`, "root": `sqrt(region - 3.0)`, "domain": `region::public.small`,
	} {
		if name == "domain" {
			w.exec(w.super, `CREATE DOMAIN public.small AS int CHECK (VALUE <> 3)`)
		}
		view := w.dataset + "_" + name
		w.exec(w.super, fmt.Sprintf(`CREATE VIEW public.%s AS SELECT amount, %s AS age FROM public.%s; GRANT SELECT ON public.%[1]s TO dp_sidecar`, view, expression, w.dataset))
		_, err := w.steward.Exec(context.Background(), `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 10, 1e-6)`, view, "public."+view)
		w.wantError(err, "22023", "more than show columns")
		w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 10, 1e-6, options => '{"total": true}')`, view, "public."+view)
		w.exec(w.steward, `SELECT dp_grant($1, $2)`, view, w.person)
		for _, placement := range []string{"memory", "database"} {
			w.exec(w.steward, `SELECT dp_set_placement($1, $2)`, view, placement)
			_, err = regress(w.analyst, `SELECT * FROM dp_linear_regress($1, $2)`, view, 0.1*float64(len(placement)))
			w.wantError(err, "DP004", "The privacy budget is spent, once")
			told = append(told, err.Error()+hint(err)+one[string](w, w.analyst, `SELECT concat(error, hint, stage) FROM dp.jobs WHERE dataset = $1 ORDER BY created_at DESC LIMIT 1`, view))
		}
	}
	for _, s := range told {
		if s != told[0] || strings.Contains(s, "secret") || strings.Contains(s, "zero") {
			t.Errorf("told %q, and else %q", s, told[0])
		}
	}
}

// A filter that raises on one row does so while rows are counted, before anything is charged. The server's message would
// quote that row's value.
func TestAnErrorWhileRowsAreCountedSaysNothing(t *testing.T) {
	w := newWorld(t, 10, 0)
	view := w.dataset + "_filter"
	w.exec(w.super, fmt.Sprintf(`CREATE VIEW public.%s AS SELECT amount, age FROM public.%s WHERE (CASE region WHEN 3 THEN 'secret 3' ELSE '1' END)::int = 1; GRANT SELECT ON public.%[1]s TO dp_sidecar`, view, w.dataset))
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 10, options => '{"total": true}')`, view, "public."+view)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, view, w.person)
	_, err := regress(w.analyst, ask, view, 1.0)
	w.wantError(err, "DP004", "the data set cannot be read")
	told := err.Error() + hint(err) + one[string](w, w.analyst, `SELECT concat(error, hint, stage) FROM dp.jobs WHERE dataset = $1`, view)
	if strings.Contains(told, "secret") || strings.Contains(told, "integer") || !strings.Contains(told, "No privacy budget was spent") {
		t.Errorf("told %q", told)
	}
}

// What pg_stat_statements shows to everybody has no line of the sidecar's: the number of rows of a COPY is that of all rows
// of all persons. Where it has some, the check says who reads them.
func TestStatementsOfTheSidecarAreNotCounted(t *testing.T) {
	t.Parallel()
	s, err := dev.Start(context.Background(), dev.Options{Settings: map[string]string{"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track": "all", "track_functions": "all"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	w := worldIn(t, s, 10, 0)
	w.exec(w.super, `CREATE EXTENSION pg_stat_statements`)
	check := func() (ok bool, detail string) {
		if err := w.steward.QueryRow(context.Background(), `SELECT ok, detail FROM dp_check_install() WHERE item = 'analysts see no numbers of dp_sidecar''s statements'`).Scan(&ok, &detail); err != nil {
			t.Fatal(err)
		}
		return ok, detail
	}
	w.exec(w.super, `CREATE TABLE public.others AS SELECT i FROM generate_series(1, 100) i; CREATE FUNCTION public.same(x float8) RETURNS float8 LANGUAGE plpgsql AS 'BEGIN RETURN x; END'; CREATE VIEW public.calling AS SELECT same(i::float8) AS amount, i::float8 AS age FROM public.others; GRANT SELECT ON public.calling TO dp_sidecar`)
	w.exec(w.steward, `SELECT dp_register('calling', 'public.calling', 'amount', '{age}', 10, options => '{"total": true, "new_population": "a test"}')`)
	w.exec(w.steward, `SELECT dp_grant('calling', $1)`, w.person)
	counted := func(eps float64) int {
		stop := w.serve()
		w.mustRegress(w.analyst, ask, w.dataset, eps)
		w.mustRegress(w.analyst, ask, "calling", eps)
		stop()
		return one[int](w, w.analyst, `SELECT count(*) FROM pg_stat_statements WHERE userid = 'dp_sidecar'::regrole`)
	}
	if n := counted(1); n != 0 {
		t.Errorf("%d statements of dp_sidecar are counted", n)
	}
	const calls = `SELECT coalesce(max(calls), 0) FROM pg_stat_user_functions WHERE funcname = 'same'`
	if n := one[int](w, w.analyst, calls); n != 0 {
		t.Errorf("%d calls of a view's function are counted", n)
	}
	if n := one[int](w, w.analyst, `SELECT count(*) FROM pg_stat_statements WHERE userid = 'dp_owner'::regrole AND rows = 1000`); n != 0 {
		t.Errorf("%d statements of dp_owner have returned as many rows as there are", n)
	}
	if ok, detail := check(); !ok || detail != "as it should be" {
		t.Error(detail)
	}
	// Who asks is found out by a statement, always by the same one: others would push out what else is counted.
	for range 20 {
		w.exec(w.analyst, `SELECT count(*) FROM dp_help()`)
	}
	if n := one[int](w, w.super, `SELECT count(DISTINCT query) FROM pg_stat_statements WHERE query LIKE 'CLOSE %'`); n != 1 {
		t.Errorf("%d statements close a cursor", n)
	}
	w.exec(w.analyst, `BEGIN; DECLARE "dpsidecar: who asks" CURSOR FOR SELECT 1; SELECT count(*) FROM dp_help()`)
	if n := one[int](w, w.analyst, `FETCH "dpsidecar: who asks"`); n != 1 {
		t.Errorf("a cursor of the caller's has %d", n)
	}
	w.exec(w.analyst, `COMMIT`)
	// As where no superuser has installed.
	w.exec(w.super, `ALTER ROLE dp_sidecar RESET pg_stat_statements.track; ALTER ROLE dp_sidecar RESET track_functions`)
	if n := counted(2); n == 0 {
		t.Error("no statement of dp_sidecar is counted where its role has no such setting")
	}
	w.eventually("calls are counted", func() bool { return one[int](w, w.analyst, calls) > 0 })
	if ok, detail := check(); ok || !strings.HasPrefix(detail, "every analyst may read") {
		t.Error(detail)
	}
	w.exec(w.super, `REVOKE EXECUTE ON FUNCTION pg_stat_statements FROM PUBLIC; GRANT EXECUTE ON FUNCTION pg_stat_statements TO pg_monitor`)
	if ok, detail := check(); !ok || !strings.HasPrefix(detail, "as far as this database shows") {
		t.Error(detail)
	}
	w.exec(w.super, `GRANT pg_monitor TO `+w.person)
	if ok, detail := check(); ok || !strings.HasPrefix(detail, w.person+" may read") {
		t.Error(detail)
	}
	w.exec(w.super, `ALTER DATABASE dpsidecar SET pg_stat_statements.track = 'none'`)
	if ok, detail := check(); !ok || detail != "as it should be" {
		t.Error(detail)
	}
	w.exec(w.super, `ALTER ROLE dp_sidecar SET pg_stat_statements.track = 'top'`)
	if ok, _ := check(); ok {
		t.Error("the role's setting does not go before the database's")
	}
}

// A session whose role could become one that calls dblink keeps no connection of the loopback, by which it could ask in
// anybody's name.
func TestWhoMayBecomeACallerOfDblinkKeepsNoLoopback(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0)
	w.serve()
	const kept = `SELECT cardinality(coalesce(dp_dblink.dblink_get_connections(), '{}'))`
	w.exec(w.super, `ALTER ROLE `+w.person+` NOINHERIT; GRANT pg_read_all_data, dp_analyst TO `+w.person+`; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA dp_dblink TO PUBLIC;
		GRANT USAGE ON SCHEMA public, dp TO `+w.person+`; GRANT EXECUTE ON FUNCTION dp_l1_regress TO `+w.person) // NOINHERIT keeps what dp_analyst has from it
	analyst := w.connect(w.system.URL(w.person))
	w.mustRegress(analyst, ask, w.dataset, 1.0)
	w.exec(analyst, `SET ROLE pg_read_all_data`)
	if n := one[int](w, analyst, kept); n != 0 {
		t.Errorf("%d connections are kept", n)
	}
	w.exec(analyst, `RESET ROLE`)
	w.exec(w.super, `REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA dp_dblink FROM PUBLIC`)
	w.mustRegress(analyst, ask, w.dataset, 2.0)
	w.exec(w.super, `GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA dp_dblink TO PUBLIC`)
	w.exec(analyst, `SET ROLE pg_read_all_data`)
	if n := one[int](w, analyst, kept); n != 1 {
		t.Errorf("%d connections are kept of a session that could not call dblink", n)
	}
}
