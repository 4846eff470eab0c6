package tests

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"dpsidecar/internal/dev"
)

var fence = regexp.MustCompile("(?ms)^```(\\S*)([^\n]*)\n(.*?)^```$")

// newReader is somebody who starts a server of his own to follow a page, as the people it names.
func newReader(t *testing.T) (*world, map[string]*pgx.Conn) {
	t.Helper()
	s, err := dev.Start(context.Background(), dev.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	if _, err := s.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, system: s}
	return w, w.people()
}

// The tutorial's statements run as it tells, from the first to the last, as the
// people it names; the commands before them are those of the other tests.
func TestTheTutorialRuns(t *testing.T) {
	w, people := newReader(t)
	w.runPage("tutorial.md", people, "make postgres build", "bin/dpsidecar dev", `psql "$DPSIDECAR_SUPERUSER_URL"`, `psql "$DPSIDECAR_STEWARD_URL"`, `psql "$DPSIDECAR_ANALYST_URL"`)
	rows, _ := people["analyst"].Query(context.Background(), `SELECT term, coef FROM dp_l1_regress('stays', 0.5, features => '{age,days}')`)
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[term])
	// The text promises 15 and 650. The deviations seen are 2.7 and 13: five of them
	// fail less than once in a million runs.
	if err != nil || len(out) != 3 || out[1].Coef < 0 || out[1].Coef > 30 || out[2].Coef < 570 || out[2].Coef > 730 {
		t.Errorf("the answer is %v: %v", out, err)
	}
	if bad := all[string](w, people["steward"], `SELECT item FROM dp_verify() WHERE NOT ok`); len(bad) > 0 {
		t.Errorf("the ledger: %q", bad)
	}
}

// people connects those whom pages name.
func (w *world) people() map[string]*pgx.Conn {
	w.Helper()
	return map[string]*pgx.Conn{
		"superuser": w.connect(w.system.SuperuserURL()), "steward": w.connect(w.system.StewardURL()), "analyst": w.connect(w.system.AnalystURL()),
	}
}

// runPage runs the statements of a page as the people it names; its commands must be those
// of shell, in their order.
func (w *world) runPage(page string, people map[string]*pgx.Conn, shell ...string) {
	w.Helper()
	ran := 0
	for _, block := range fence.FindAllStringSubmatch(document(w.T, page), -1) {
		language, how, text := block[1], strings.Fields(block[2]), strings.TrimSpace(block[3])
		if language == "sh" {
			for line := range strings.Lines(text) {
				if len(shell) == 0 || strings.TrimSpace(line) != shell[0] {
					w.Fatalf("a command that no test runs: %s", line)
				}
				shell = shell[1:]
			}
			continue
		}
		_, err := people[how[0]].PgConn().Exec(context.Background(), text).ReadAll()
		var pg *pgconn.PgError
		if len(how) == 3 {
			if !errors.As(err, &pg) || pg.Code != how[2] {
				w.Errorf("%s ends with %v, not %s", text, err, how[2])
			}
		} else if err != nil {
			w.Fatalf("%s: %v: %s", text, err, hint(err))
		}
		ran++
	}
	if ran < 4 {
		w.Errorf("only %d blocks of SQL", ran)
	}
}

// The page on results runs as it tells; where a feature is only noise its interval holds 0.
func TestThePageOnResultsRuns(t *testing.T) {
	w, people := newReader(t)
	w.runPage("how-to/results.md", people)
	// Six half widths, each of 1.96 deviations or more, miss with a probability far below 1e-6.
	for term, truth := range map[string]float64{"(intercept)": 5, "km": 2.1, "minutes": 0.35, "night": 2, "shoe_size": 0} {
		if !one[bool](w, people["analyst"], `SELECT abs($2 - (ci_low + ci_high) / 2) < 3 * (ci_high - ci_low) FROM dp.coefficients
			WHERE release = (SELECT id FROM dp.releases WHERE dataset = 'trips' AND model = 'linear') AND term = $1`, term, truth) {
			t.Errorf("%s is far from %v", term, truth)
		}
	}
}
