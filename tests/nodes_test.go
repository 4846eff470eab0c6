package tests

import (
	"context"
	"fmt"
	"math"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/dev"
	"dpsidecar/internal/job"
	"dpsidecar/internal/localpg"
)

// newServers starts Postgres servers with a role for the sidecar, and a system with the foreign servers n0, n1, ...
// that stand for them.
func newServers(t testing.TB, count int) (s *dev.System, servers []*localpg.Cluster, urls map[string]*pgx.ConnConfig) {
	t.Helper()
	s, err := dev.Start(context.Background(), dev.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	if err := executeAll(context.Background(), s.SuperuserURL(), "CREATE EXTENSION postgres_fdw"); err != nil {
		t.Skip(err)
	}
	urls = map[string]*pgx.ConnConfig{}
	for i := range count {
		c, err := localpg.Start(context.Background(), localpg.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Stop() })
		c.Exec(t, "postgres", "CREATE ROLE reader LOGIN PASSWORD 'reads'")
		name := fmt.Sprintf("n%d", i)
		s.Cluster.Exec(t, dev.Database,
			fmt.Sprintf("CREATE SERVER %s FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '%s', port '%d', dbname 'postgres')", name, c.Host(), c.Port()),
			fmt.Sprintf("CREATE USER MAPPING FOR dp_sidecar SERVER %s OPTIONS (user 'reader', password 'reads')", name))
		if urls[name], err = pgx.ParseConfig(c.URL("reader", "reads", "postgres")); err != nil {
			t.Fatal(err)
		}
		servers = append(servers, c)
	}
	return s, servers, urls
}

// A partitioned table with a partition on each of two servers and one of its own is added up part by part: the
// fit is that of the same rows on one server. Servers that are not listed, and parts that are not what
// they seem, are refused before anything is charged; a server that fails costs a try and no
// budget. Takes about 20 s.
func TestForeignPartitions(t *testing.T) {
	t.Parallel()
	s, servers, urls := newServers(t, 2)
	w := &world{T: t, system: s, dataset: "spread", person: "analyst"}
	people := w.people()
	w.super, w.steward, w.analyst = people["superuser"], people["steward"], people["analyst"]
	w.exec(w.super, `CREATE TABLE visits AS SELECT i AS id, i % 3 AS place, 500 + 12 * (20 + i % 60) + 80 * (i % 9) + 100 * random() AS cost, (20 + i % 60)::float8 AS age, i % 9 AS days,
		(ARRAY['north', 'south', 'other'])[1 + i % 3] AS town FROM generate_series(1, 9000) i`)
	w.exec(w.super, `CREATE TABLE spread (LIKE visits) PARTITION BY LIST (place)`)
	w.exec(w.super, `CREATE TABLE here PARTITION OF spread FOR VALUES IN (2); INSERT INTO here SELECT * FROM visits WHERE place = 2; GRANT SELECT ON visits, here, spread TO dp_sidecar`)
	for i, server := range servers {
		// Another schema, name and order of columns, one of them under another name.
		server.Exec(t, "postgres", `CREATE SCHEMA far`, `CREATE TABLE far."Visits" (years float8, town text, days int, cost float8, id int, place int)`,
			fmt.Sprintf(`INSERT INTO far."Visits" SELECT * FROM json_to_recordset('%s') AS r(years float8, town text, days int, cost float8, id int, place int)`,
				one[string](w, w.super, `SELECT json_agg(json_build_object('years', age, 'town', town, 'days', days, 'cost', cost, 'id', id, 'place', place))::text FROM visits WHERE place = $1`, i)),
			`GRANT USAGE ON SCHEMA far TO reader; GRANT SELECT ON far."Visits" TO reader`)
		w.exec(w.super, fmt.Sprintf(`CREATE FOREIGN TABLE part%d PARTITION OF spread FOR VALUES IN (%[1]d) SERVER n%[1]d OPTIONS (schema_name 'far', table_name 'Visits'); ALTER FOREIGN TABLE part%[1]d ALTER age OPTIONS (column_name 'years')`, i))
	}
	word := `{"total": true, "new_population": "a test", "rows_stay": "a test"}`
	register := func(name, placement, options string) error {
		_, err := w.steward.Exec(context.Background(), `SELECT dp_register($1, $2::text::regclass, 'cost', '{age,days,town}', 1e9, 1e-6, scales => '{"cost": 2000, "age": 50, "days": 8}',
			categories => '{"town": ["north", "south", "*"]}', placement => $3, options => $4)`, name, name, placement, options)
		if err == nil {
			w.exec(w.steward, `SELECT dp_grant($1, 'analyst')`, name)
		}
		return err
	}
	w.wantError(register("spread", "database", `{"total": true, "new_population": "a test"}`), "22023", "public.spread with foreign partitions")
	for name, placement := range map[string]string{"spread": "database", "visits": "memory"} {
		options := word
		if name == "visits" {
			options = `{}`
		}
		if err := register(name, placement, options); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(call string) error {
		_, err := w.analyst.Exec(context.Background(), call, "spread")
		return err
	}
	const call = `SELECT * FROM dp_linear_regress($1, 1e4)`

	// Without the servers' addresses nothing is spent.
	stop, err := s.Serve(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	w.wantError(ask(call), "DP005", "may not ask n0, n1")
	w.wantError(ask(call), "DP005", "No privacy budget was spent")
	stop()
	w.sidecar(func(c *job.Config) { c.Nodes = urls })
	w.eventually("the sidecar serves", func() bool { return one[int](w, w.super, `SELECT dp_int.sidecars_alive()`) == 1 })

	// Parts that are not what they seem.
	servers[0].Exec(t, "postgres", `ALTER TABLE far."Visits" ENABLE ROW LEVEL SECURITY`)
	w.wantError(ask(call), "DP004", "row-level security")
	servers[0].Exec(t, "postgres", `ALTER TABLE far."Visits" DISABLE ROW LEVEL SECURITY`, `ALTER TABLE far."Visits" ALTER days TYPE bigint`)
	w.wantError(ask(call), "DP004", "another type")
	servers[0].Exec(t, "postgres", `ALTER TABLE far."Visits" ALTER days TYPE int`, `REVOKE SELECT ON far."Visits" FROM reader`)
	w.wantError(ask(call), "DP004", "may not be read on node")
	servers[0].Exec(t, "postgres", `GRANT SELECT ON far."Visits" TO reader`)
	w.exec(w.super, `CREATE FOREIGN TABLE twice PARTITION OF spread FOR VALUES IN (7) SERVER n0 OPTIONS (schema_name 'far', table_name 'Visits'); ALTER FOREIGN TABLE twice ALTER age OPTIONS (column_name 'years')`)
	w.wantError(ask(call), "DP004", "show the same rows")
	w.exec(w.super, `DROP FOREIGN TABLE twice`)
	w.exec(w.super, `CREATE TABLE grows (LIKE visits) PARTITION BY LIST (place); CREATE TABLE kept PARTITION OF grows FOR VALUES IN (2); GRANT SELECT ON grows TO dp_sidecar`)
	if err := register("grows", "auto", `{"total": true, "new_population": "a test"}`); err != nil {
		t.Fatal(err)
	}
	w.exec(w.super, `CREATE FOREIGN TABLE new PARTITION OF grows FOR VALUES IN (0) SERVER n0 OPTIONS (schema_name 'far', table_name 'Visits')`)
	_, err = w.analyst.Exec(context.Background(), call, "grows")
	w.wantError(err, "DP004", "on several nodes")
	if n := w.entries(); n != 0 {
		t.Errorf("%d charges of what was refused", n)
	}

	w.viewsOfSeveralPlaces()

	for _, call := range []string{call, `SELECT * FROM dp_linear_regress($1, 1e4, features => '{age}', where_level => '{"town": ["south"]}')`} {
		here, there := w.mustRegress(w.analyst, call, "visits"), w.mustRegress(w.analyst, call, "spread")
		for j, c := range here {
			if got := there[j]; got.Term != c.Term || math.Abs(got.Coef-c.Coef) > 1e-3*math.Abs(c.Coef)+3e-2 { // fifteen deviations of noise, or more
				t.Errorf("%s: %v on several servers, %v on one", call, got, c)
			}
		}
	}
	if rows := one[int64](w, w.analyst, `SELECT row_count FROM dp.datasets WHERE dataset = 'spread'`); rows != 9000 {
		t.Errorf("%d rows", rows)
	}
	if said := w.explain(w.analyst, `SELECT * FROM dp_explain('linear', 'spread', 1)`); said["placement"] != "database" {
		t.Errorf("dp_explain: %v", said)
	}
	w.serversFail(servers)
}

// viewsOfSeveralPlaces registers views of foreign tables. Those that show two servers, or one and the database itself, have no
// snapshot that shows all of their rows.
func (w *world) viewsOfSeveralPlaces() {
	w.exec(w.super, `CREATE FOREIGN TABLE far0 (cost float8, id int) SERVER n0 OPTIONS (schema_name 'far', table_name 'Visits');
		CREATE FOREIGN TABLE far1 (cost float8, id int) SERVER n1 OPTIONS (schema_name 'far', table_name 'Visits');
		CREATE FOREIGN TABLE again0 (cost float8, id int) SERVER n0 OPTIONS (schema_name 'far', table_name 'Others');
		CREATE TABLE own (cost float8, id int);
		CREATE VIEW two AS SELECT * FROM far0 UNION ALL SELECT * FROM far1;
		CREATE VIEW one_and_here AS SELECT * FROM far0 UNION ALL SELECT * FROM own;
		CREATE VIEW same AS SELECT * FROM far0 UNION ALL SELECT * FROM again0;
		CREATE MATERIALIZED VIEW kept_here AS SELECT * FROM far0 UNION ALL SELECT * FROM far1 WITH NO DATA;
		CREATE VIEW kept_and_far AS SELECT * FROM kept_here UNION ALL SELECT * FROM again0;
		CREATE VIEW kept_and_here AS SELECT * FROM kept_here UNION ALL SELECT * FROM own;
		CREATE VIEW joined AS SELECT f.* FROM far0 f LEFT JOIN own o USING (id);
		CREATE VIEW joined_both AS SELECT coalesce(f.cost, o.cost) AS cost, id FROM far0 f FULL JOIN own o USING (id);
		GRANT SELECT ON two, one_and_here, same, kept_here, kept_and_far, kept_and_here TO dp_sidecar`)
	register := func(view, options string) error {
		_, err := w.steward.Exec(context.Background(), `SELECT dp_register($1, $1::text::regclass, 'cost', '{id}', 10, options => $2)`, view, `{"total": true, "new_population": "a test"`+options+`}`)
		if err == nil {
			w.exec(w.steward, `SELECT dp_unregister($1)`, view)
		}
		return err
	}
	for view, says := range map[string]string{"two": "public.far0 on server n0, public.far1 on server n1", "one_and_here": "public.far0 on server n0, public.own on this node"} {
		w.wantError(register(view, ``), "22023", says)
		if err := register(view, `, "rows_stay": "a test"`); err != nil {
			w.Errorf("%s: %v", view, err)
		}
	}
	w.wantError(register("same", `, "rows_stay": "a test"`), "22023", "are on one")
	if err := register("same", ``); err != nil {
		w.Error(err)
	}
	for view, want := range map[string]string{"joined": "", "joined_both": "public.far0 on server n0, public.own on this node", "kept_here": "", "kept_and_here": "", "kept_and_far": "public.again0 on server n0, public.kept_here on this node"} {
		if got := one[string](w, w.super, `SELECT coalesce(dp_int.apart($1::text::regclass), '')`, view); got != want {
			w.Errorf("%s: %q, want %q", view, got, want)
		}
	}
}

// What happens on servers while a job reads: a table that is made to inherit from a part is noticed before anything leaves; where
// rows are pulled through the foreign tables, every server has its snapshot before a value is read.
func TestServersWhileAJobReads(t *testing.T) {
	t.Parallel()
	s, servers, urls := newServers(t, 2)
	w := &world{T: t, system: s, dataset: "spread", person: "analyst"}
	people := w.people()
	w.super, w.steward, w.analyst = people["superuser"], people["steward"], people["analyst"]
	w.exec(w.super, `CREATE TABLE spread (id int, place int, cost float8, age float8) PARTITION BY LIST (place); GRANT SELECT ON spread TO dp_sidecar`)
	for i, server := range servers {
		server.Exec(t, "postgres", `CREATE TABLE visits (id int, place int, cost float8, age float8)`, `GRANT SELECT ON visits TO reader`,
			fmt.Sprintf(`INSERT INTO visits SELECT i, %d, 500 + 5 * (i %% 60), i %% 60 FROM generate_series(1, 5000) i`, i),
			`CREATE TABLE others AS SELECT id, place, (2000 - 25 * age)::float8 AS cost, age FROM visits WHERE id <= 2000`)
		w.exec(w.super, fmt.Sprintf(`CREATE FOREIGN TABLE part%d PARTITION OF spread FOR VALUES IN (%[1]d) SERVER n%[1]d OPTIONS (table_name 'visits')`, i))
	}
	w.exec(w.steward, `SELECT dp_register('spread', 'spread', 'cost', '{age}', 1e3, 1e-6, scales => '{"cost": 2000, "age": 50}', options => '{"total": true, "new_population": "a test", "rows_stay": "a test"}')`)
	w.exec(w.steward, `SELECT dp_grant('spread', 'analyst')`)
	behind := func(c *pgx.ConnConfig) *proxy {
		p := newProxy(t, net.JoinHostPort(c.Host, fmt.Sprint(c.Port)))
		c.Host, c.Port = "127.0.0.1", uint16(p.port())
		return p
	}
	var own, node *proxy
	node = behind(urls["n0"])
	w.sidecar(func(c *job.Config) { c.Nodes, own = urls, behind(c.Database.ConnConfig) })
	w.eventually("the sidecar serves", func() bool { return one[int](w, w.super, `SELECT dp_int.sidecars_alive()`) == 1 })

	attached := make(chan error, 1)
	node.set(atSummed, func() {
		attached <- runAs(servers[0].SuperuserURL("postgres"), `ALTER TABLE others INHERIT visits`)
	})
	fit := func() error {
		_, err := regress(w.analyst, `SELECT * FROM dp_linear_regress('spread', 1)`)
		return err
	}
	w.wantError(fit(), "DP004", "changed on its node")
	if err := <-attached; err != nil {
		t.Fatal(err)
	}
	if n := one[int](w, w.super, `SELECT count(*) FROM dp_int.release`); n != 0 {
		t.Error("there is a release")
	}
	servers[0].Exec(t, "postgres", `ALTER TABLE others NO INHERIT visits`)
	w.eventually("the job goes on", func() bool { return fit() == nil })
	if n := w.entries(); n != 1 {
		t.Errorf("%d charges", n)
	}

	snapshots := make(chan []bool, 1)
	far := []*pgx.Conn{w.connect(servers[0].SuperuserURL("postgres")), w.connect(servers[1].SuperuserURL("postgres"))}
	own.set(atPulling, func() {
		var taken []bool
		for _, conn := range far {
			taken = append(taken, one[bool](w, conn, `SELECT coalesce(bool_or(backend_xmin IS NOT NULL), false) FROM pg_stat_activity WHERE usename = 'reader' AND application_name = 'postgres_fdw'`))
		}
		snapshots <- taken
	})
	w.mustRegress(w.analyst, `SELECT * FROM dp_l1_regress('spread', 1)`)
	if taken := <-snapshots; !taken[0] || !taken[1] {
		t.Errorf("servers with a snapshot when rows are asked for: %v", taken)
	}
}

// serversFail ends the session on a server between two passes of a job, and then a server.
func (w *world) serversFail(servers []*localpg.Cluster) {
	far := w.connect(servers[0].SuperuserURL("postgres"))
	for eps := 9000.; ; eps-- { // until a session is met in time
		entries, ended, done := w.entries(), false, false
		id := one[string](w, w.analyst, `SELECT dp_submit('linear', 'spread', $1)`, eps)
		w.eventually("the job is done", func() bool {
			ended = ended || one[bool](w, far, `SELECT coalesce(bool_or(pg_terminate_backend(pid)), false) FROM pg_stat_activity WHERE usename = 'reader' AND query LIKE '%sum(%'`)
			done = one[string](w, w.analyst, `SELECT status::text FROM dp.jobs WHERE id = $1::text::uuid`, id) == "done"
			return done
		})
		tries := one[int](w, w.super, `SELECT attempt FROM dp_int.job WHERE id = $1::text::uuid`, id)
		if n := w.entries(); n != entries+1 {
			w.Errorf("%d charges in %d tries", n-entries, tries)
		}
		if ended && tries > 1 {
			break
		}
	}
	if err := servers[1].Halt(localpg.Immediate); err != nil {
		w.Fatal(err)
	}
	entries := w.entries()
	_, err := w.analyst.Exec(context.Background(), `SELECT * FROM dp_linear_regress('spread', 1)`)
	w.wantError(err, "DP005", `node "n1" of the data set cannot be reached now`)
	if w.entries() != entries {
		w.Error("a job is charged though a node cannot be reached")
	}
}
