package tests

import (
	"context"
	"errors"
	"fmt"
	"math"
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
	// The text promises 15 and 650. Of 15 runs the deviations were .12 and .56; of 150 fits of a table no noise
	// was more than 3 of its own: more than twenty of them are less than one run in a million.
	if err != nil || len(out) != 3 || math.Abs(out[1].Coef-15) > 3 || math.Abs(out[2].Coef-650) > 15 {
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
	if err := w.tryPage(page, people, shell...); err != nil {
		w.Fatal(err)
	}
}

// runPageWithIntervals is somebody who follows a page that tests coefficients, on another server where the fit has
// no intervals. Of 200 fits each that was one or two: five in a row are in less than one run in a million.
func runPageWithIntervals(t *testing.T, page string) (*world, map[string]*pgx.Conn) {
	t.Helper()
	for range 5 {
		w, people := newReader(t)
		var pg *pgconn.PgError
		if err := w.tryPage(page, people); err == nil {
			return w, people
		} else if !errors.As(err, &pg) || pg.Code != "55000" {
			t.Fatal(err)
		}
	}
	t.Fatal("five fits have no intervals")
	return nil, nil
}

func (w *world) tryPage(page string, people map[string]*pgx.Conn, shell ...string) error {
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
			return fmt.Errorf("%s: %w: %s", text, err, hint(err))
		}
		ran++
	}
	if ran < 4 {
		w.Errorf("only %d blocks of SQL", ran)
	}
	return nil
}

// The page on results runs as it tells; where a feature is only noise its interval holds 0.
func TestThePageOnResultsRuns(t *testing.T) {
	w, people := runPageWithIntervals(t, "how-to/results.md")
	// Six half widths, each of 1.96 deviations or more, miss with a probability far below 1e-6.
	for term, truth := range map[string]float64{"(intercept)": 5, "km": 2.1, "minutes": 0.35, "night": 2, "shoe_size": 0} {
		if !one[bool](w, people["analyst"], `SELECT abs($2 - (ci_low + ci_high) / 2) < 3 * (ci_high - ci_low) FROM dp.coefficients
			WHERE release = (SELECT id FROM dp.releases WHERE dataset = 'trips' AND model = 'linear') AND term = $1`, term, truth) {
			t.Errorf("%s is far from %v", term, truth)
		}
	}
}
