package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/install"
	"dpsidecar/internal/localpg"
)

// process runs dpsidecar with settings on top of this process's environment.
func process(t *testing.T, env map[string]string, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), mainVariable+"=1")
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	text, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// installed has a cluster of its own: roles belong to all of its databases.
func installed(t *testing.T) (c *localpg.Cluster, db string, admin *pgx.ConnConfig) {
	t.Helper()
	c, err := localpg.Start(t.Context(), localpg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Stop() })
	db = c.Database(t)
	if admin, err = pgx.ParseConfig(c.SuperuserURL(db)); err != nil {
		t.Fatal(err)
	}
	if _, err := install.Run(t.Context(), install.Config{Admin: admin, SidecarPassword: "side"}); err != nil {
		t.Fatal(err)
	}
	return c, db, admin
}

// The way back ends at a ledger with entries; the hint that goes on from there
// is printed, and what docs/how-to/upgrade.md says about it works.
func TestMigrateDownPastTheLedger(t *testing.T) {
	c, db, admin := installed(t)
	var err error
	for at := install.Latest(); at > 12; {
		if at, err = install.Down(t.Context(), admin); err != nil {
			t.Fatal(err)
		}
	}
	c.Exec(t, db, `SET session_replication_role = replica`,
		`INSERT INTO dp_int.ledger (account, seq, kind, dataset, caller, event, previous, hash) VALUES (1, 1, 'budget', 'claims', 'sue', '{}', '', '')`)
	env := map[string]string{"DPSIDECAR_ADMIN_URL": c.SuperuserURL(db)}
	if out, code := process(t, env, "migrate", "down"); code != 1 || !strings.Contains(out, "would lose them") || !strings.Contains(out, "\nHINT: ") || !strings.Contains(out, "dp.discard_ledger") {
		t.Errorf("exit %d: %s", code, out)
	}
	env["PGOPTIONS"] = "-c dp.discard_ledger=yes"
	if out, code := process(t, env, "migrate", "down"); code != 0 || !strings.HasPrefix(out, "version 11 of ") {
		t.Errorf("exit %d: %s", code, out)
	}
}

// Where nothing is installed there is nothing to upgrade: a schema without a loopback would not answer.
func TestMigrateUpDoesNotInstall(t *testing.T) {
	c, _, _ := installed(t)
	empty := c.SuperuserURL(c.Database(t))
	out, err := dpsidecar(t, nil, "migrate", "up", "--admin-url", empty)
	if err == nil || !strings.Contains(err.Error(), "run dpsidecar install") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := dpsidecar(t, nil, "migrate", "version", "--admin-url", empty); err != nil || !strings.HasPrefix(out, "version 0 of ") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Who verifies as somebody else is told as whom to connect.
func TestVerifyIsForStewards(t *testing.T) {
	c, db, _ := installed(t)
	c.Exec(t, db, `CREATE ROLE sue LOGIN IN ROLE dp_admin PASSWORD 'pw'`)
	if out, err := dpsidecar(t, nil, "verify", "--database-url", c.URL("dp_sidecar", "side", db)); err == nil || !strings.Contains(err.Error(), "as a steward") {
		t.Errorf("as dp_sidecar: %v\n%s", err, out)
	}
	if out, err := dpsidecar(t, nil, "verify", "--database-url", c.URL("sue", "pw", db)); err != nil || !strings.Contains(out, "ok") {
		t.Errorf("as a steward: %v\n%s", err, out)
	}
}

// verify of a database without dpsidecar's schema says so, in the words of check.
func TestVerifyNamesTheVersion(t *testing.T) {
	c, _, _ := installed(t)
	out, err := dpsidecar(t, nil, "verify", "--database-url", c.SuperuserURL(c.Database(t)))
	if err == nil || !strings.Contains(err.Error(), "it is missing") || !strings.Contains(err.Error(), "dpsidecar install") {
		t.Errorf("%v\n%s", err, out)
	}
}

// check does not judge a schema that it does not know: it says how to come to its own.
func TestCheckNamesTheVersion(t *testing.T) {
	c, db, admin := installed(t)
	empty := c.Database(t)
	if out, err := dpsidecar(t, nil, "check", "--database-url", c.SuperuserURL(empty)); err == nil || !strings.Contains(err.Error(), "dpsidecar install") {
		t.Errorf("of nothing: %v\n%s", err, out)
	}
	if _, err := install.Down(t.Context(), admin); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{c.URL("dp_sidecar", "side", db), c.SuperuserURL(db)} {
		out, err := dpsidecar(t, nil, "check", "--database-url", url)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("taken down; this program needs version %d: run dpsidecar migrate up", install.Latest())) || strings.Contains(out, "dpsidecar serve") {
			t.Errorf("after migrate down: %v\n%s", err, out)
		}
	}
}

// While nobody answers, the session that listens reports each failure, once, and
// the workers are silent.
func TestOneLineForAFailure(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
	defer stop()
	var b bytes.Buffer
	if err := run(ctx, []string{"serve", "--database-url", "postgres://u@127.0.0.1:1/d", "--jobs", "4"}, console{&b, &b, func(string) string { return "" }}); err != nil {
		t.Fatal(err)
	}
	if log := b.String(); !strings.Contains(log, "no connection to the database") || strings.Contains(log, "claim failed") || strings.Contains(log, `\n`) {
		t.Errorf("the log:\n%s", log)
	}
}

// A connection that fails is one line, which says what failed once.
func TestFailedConnectionIsOneLine(t *testing.T) {
	const nobody = "postgres://u@127.0.0.1:1/d"
	out, code := process(t, nil, "check", "--database-url", nobody)
	if code != 1 || strings.Count(out, "\n") != 1 || strings.Count(out, "dial error") != 1 {
		t.Errorf("exit %d: %q", code, out)
	}
	_, err := dpsidecar(t, nil, "check", "--database-url", nobody)
	if err == nil {
		t.Fatal("nobody answers, and all is well")
	}
	var b bytes.Buffer
	text := "text"
	logger, _ := (&logging{format: &text}).logger(console{log: &b})
	logger.Info("lost", "error", err)
	if strings.Contains(b.String(), `\n`) || strings.Count(b.String(), "dial error") != 1 {
		t.Errorf("logged as %s", b.String())
	}
	if got := oneLine(errors.New("failed:\n\ta (h): x\n\tb (h): x\n\ta (h): x")); got != "failed: a (h): x; b (h): x" {
		t.Errorf("got %q", got)
	}
}
