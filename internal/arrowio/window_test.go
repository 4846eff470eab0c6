package arrowio_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/arrowio"
	"dpsidecar/internal/mech"
)

// The rows of a window are those whose day in UTC is in it, whatever the time zone and the
// DateStyle of the session and whatever functions and operators its search path has. Rows without a day are in none.
func TestWindowsAreOfDaysInUTC(t *testing.T) {
	ctx, tx := begin(t, `CREATE DOMAIN public.day AS date`,
		`CREATE TABLE public.t (x int, "a ""day" date, b timestamp, c timestamptz, d public.day)`,
		`INSERT INTO public.t
		 SELECT i, at, at, at AT TIME ZONE 'UTC', at FROM (VALUES
		   (1, timestamp '2026-03-28 23:59:59.999999'), (2, '2026-03-29 00:00:00'), (3, '2026-03-29 02:30:00'), (4, '2026-03-30 23:59:59.999999'), (5, '2026-03-31 00:00:00'),
		   (6, '-infinity'), (7, 'infinity'), (8, NULL)) AS v(i, at)`,
		`CREATE FUNCTION public.no(date, date) RETURNS boolean LANGUAGE sql AS 'SELECT true'`,
		`CREATE OPERATOR public.>= (LEFTARG = date, RIGHTARG = date, FUNCTION = public.no)`,
		`CREATE OPERATOR public.< (LEFTARG = date, RIGHTARG = date, FUNCTION = public.no)`)
	for _, settings := range []string{"SELECT", "SET TimeZone = 'Pacific/Kiritimati'; SET DateStyle = 'SQL, DMY'", "SET TimeZone = 'America/New_York'; SET DateStyle = 'German'; SET search_path = public, pg_catalog"} {
		if _, err := tx.Conn().PgConn().Exec(ctx, settings).ReadAll(); err != nil {
			t.Fatal(err)
		}
		for column, kind := range map[string]string{`a "day`: "date", "b": "timestamp without time zone", "c": "timestamp with time zone", "d": "date"} {
			window := &arrowio.Window{Column: column, Type: kind, From: "2026-03-29", To: "2026-03-31"}
			relation := pgx.Identifier{"public", "t"}
			if n, err := arrowio.Count(ctx, tx, relation, window); err != nil || n != 3 {
				t.Fatalf("%s: %d rows, %v", column, n, err)
			}
			rec, err := arrowio.Pull(ctx, tx.Conn(), arrowio.Request{Relation: relation, Columns: []string{"x"}, Rows: 3, Where: window}, mech.NewSource())
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Sorted(slices.Values(values(rec, 0))); !slices.Equal(got, []float64{2, 3, 4}) {
				t.Errorf("%s, %s: rows %v", settings, column, got)
			}
			units, first, err := arrowio.PullUnits(ctx, tx.Conn(), arrowio.Request{Relation: relation, Columns: []string{"x"}, Rows: 3, Where: window}, arrowio.Unit{Column: "x", MaxRows: 2}, mech.NewSource())
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Sorted(slices.Values(values(units, 0))); !slices.Equal(got, []float64{2, 3, 4}) || len(first) != 4 {
				t.Errorf("%s: persons %v", column, got)
			}
		}
	}
}

// What is no day is never written into a statement.
func TestAWindowIsOfTwoDays(t *testing.T) {
	for _, w := range []arrowio.Window{{"c", "text", "2026-01-01", "2026-01-02"}, {"c", "date", "2026-01-01'", "2026-01-02"}, {"c", "date", "2026-01-01", ""}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v is taken", w)
				}
			}()
			ctx, tx := begin(t)
			_, _ = arrowio.Count(ctx, tx, pgx.Identifier{"pg_catalog", "pg_class"}, &w)
		}()
	}
}
