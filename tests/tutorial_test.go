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

// The tutorial's statements run as it tells, from the first to the last, as the
// people it names; the commands before them are those of the other tests.
func TestTheTutorialRuns(t *testing.T) {
	s, err := dev.Start(context.Background(), dev.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	if _, err := s.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, system: s}
	people := map[string]*pgx.Conn{
		"superuser": w.connect(s.SuperuserURL()), "steward": w.connect(s.StewardURL()), "analyst": w.connect(s.AnalystURL()),
	}
	shell := []string{"make postgres build", "bin/dpsidecar dev", `psql "$DPSIDECAR_SUPERUSER_URL"`, `psql "$DPSIDECAR_STEWARD_URL"`, `psql "$DPSIDECAR_ANALYST_URL"`}
	ran := 0
	for _, block := range fence.FindAllStringSubmatch(document(t, "tutorial.md"), -1) {
		language, how, text := block[1], strings.Fields(block[2]), strings.TrimSpace(block[3])
		if language == "sh" {
			for line := range strings.Lines(text) {
				if len(shell) == 0 || strings.TrimSpace(line) != shell[0] {
					t.Fatalf("a command that no test runs: %s", line)
				}
				shell = shell[1:]
			}
			continue
		}
		_, err := people[how[0]].PgConn().Exec(context.Background(), text).ReadAll()
		var pg *pgconn.PgError
		if len(how) == 3 {
			if !errors.As(err, &pg) || pg.Code != how[2] {
				t.Errorf("%s ends with %v, not %s", text, err, how[2])
			}
		} else if err != nil {
			t.Fatalf("%s: %v: %s", text, err, hint(err))
		}
		ran++
	}
	if ran < 8 {
		t.Errorf("only %d blocks of SQL", ran)
	}
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
