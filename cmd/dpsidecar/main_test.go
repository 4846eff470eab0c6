package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/job"
	"dpsidecar/internal/localpg"
)

// mainVariable makes the test binary behave as dpsidecar itself.
const mainVariable = "DPSIDECAR_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// dpsidecar runs a command in this process and returns what it prints.
func dpsidecar(t *testing.T, env map[string]string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), args, console{&out, &out, func(name string) string { return env[name] }})
	return out.String(), err
}

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A flag wins over the environment, and that over the file.
func TestPrecedence(t *testing.T) {
	file := write(t, "# settings of two commands\njobs = 3\nloopback-host = there\n\nlease = 3s\ngrace=3s\n")
	env := map[string]string{"DPSIDECAR_CONFIG": file, "DPSIDECAR_JOBS": "2", "DPSIDECAR_LEASE": "2s"}
	fs := command{name: "serve"}.flags()
	jobs, lease, grace := fs.Int("jobs", 0, ""), fs.Duration("lease", 0, ""), fs.Duration("grace", 0, "")
	if _, err := parse(fs, []string{"--jobs", "1"}); err != nil {
		t.Fatal(err)
	}
	if err := fillFlags(fs, func(name string) string { return env[name] }); err != nil {
		t.Fatal(err)
	}
	if *jobs != 1 || *lease != 2*time.Second || *grace != 3*time.Second {
		t.Errorf("got %v, %v, %v", *jobs, *lease, *grace)
	}
}

func TestFlagsStandAnywhere(t *testing.T) {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	a, b := fs.Int("a", 0, ""), fs.Int("b", 0, "")
	rest, err := parse(fs, []string{"-a", "1", "up", "--b=2", "down"})
	if err != nil || *a != 1 || *b != 2 || strings.Join(rest, " ") != "up down" {
		t.Errorf("got %v, %v, %v, %v", *a, *b, rest, err)
	}
}

func TestWrongUsage(t *testing.T) {
	for _, args := range [][]string{
		{}, {"nothing"}, {"version", "now"}, {"serve", "--jobs", "0"}, {"serve", "--jobs", "many"}, {"serve", "--lease", "1ms"},
		{"serve", "--log-format", "xml"}, {"ready"}, {"migrate"}, {"migrate", "sideways"}, {"dev", "--port", "70000"}, {"install", "--loopback-port", "70000"},
		{"help", "nothing"}, {"help", "serve", "now"}, {"check", "--database-url", "nonsense"},
		{"serve", "--config", write(t, "colour = blue")}, {"serve", "--config", write(t, "jobs")}, {"serve", "--config", write(t, "jobs = many")},
	} {
		if out, err := dpsidecar(t, nil, args...); !errors.Is(err, errUsage) {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
	if _, err := dpsidecar(t, map[string]string{"DPSIDECAR_JOBS": "many"}, "serve"); !errors.Is(err, errUsage) || !strings.Contains(err.Error(), "DPSIDECAR_JOBS") {
		t.Errorf("got %v", err)
	}
}

// Whoever gives a bad value learns where it stands, what it is and what is wanted,
// and is not shown all flags.
func TestBadValuesAreNamed(t *testing.T) {
	file := write(t, "lease = 3s\n\njobs = many\n")
	for _, c := range []struct {
		env  map[string]string
		args []string
		says []string
	}{
		{nil, []string{"serve", "--config", file}, []string{file + ":3: jobs: ", `"many"`, "whole number"}},
		{map[string]string{"DPSIDECAR_JOBS": "many"}, []string{"serve"}, []string{"DPSIDECAR_JOBS: ", `"many"`, "whole number"}},
		{map[string]string{"DPSIDECAR_LEASE": "3"}, []string{"serve"}, []string{"DPSIDECAR_LEASE: ", `"3"`, "like 30s"}},
		{map[string]string{"DPSIDECAR_PRINT_SQL": "maybe"}, []string{"install"}, []string{"DPSIDECAR_PRINT_SQL: ", `"maybe"`, "true or false"}},
		{map[string]string{"DPSIDECAR_LOG_LEVEL": "loud"}, []string{"serve"}, []string{"DPSIDECAR_LOG_LEVEL: ", `"loud"`, "debug"}},
		{map[string]string{"DPSIDECAR_DELTA": "small"}, []string{"account"}, []string{"DPSIDECAR_DELTA: ", `"small"`, "a number"}},
		{nil, []string{"serve", "--jobs", "many"}, []string{"-jobs", `"many"`, "whole number", "dpsidecar serve --help"}},
		{nil, []string{"serve", "--jobs", "0"}, []string{"jobs is at least 1", "are 0"}},
		{nil, []string{"dev", "--port", "-1"}, []string{"-port", `"-1"`, "not negative"}},
		{nil, []string{"check", "--database-url", "nonsense"}, []string{"--database-url", "want postgres://"}},
		{map[string]string{"DATABASE_URL": "postgres://u:hidden@h:port/d"}, []string{"serve"}, []string{"environment", "want DATABASE_URL=postgres://"}},
		{nil, []string{"serve", "--jbos", "3"}, []string{"-jbos", "dpsidecar serve --help"}},
	} {
		out, err := dpsidecar(t, c.env, c.args...)
		if !errors.Is(err, errUsage) || out != "" {
			t.Errorf("%v %q: %v, and prints %q", c.env, c.args, err, out)
			continue
		}
		for _, want := range c.says {
			if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "parse error") {
				t.Errorf("%v %q: %v; no %q", c.env, c.args, err, want)
			}
		}
	}
}

func TestVersionIsAFlagToo(t *testing.T) {
	want, err := dpsidecar(t, nil, "version")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := dpsidecar(t, nil, "--version"); err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

func TestHelp(t *testing.T) {
	for _, cmd := range commands() {
		if got, err := dpsidecar(t, nil, "help", cmd.name); !errors.Is(err, flag.ErrHelp) || !strings.HasPrefix(got, "usage: dpsidecar "+cmd.name) {
			t.Errorf("help %s: %v\n%s", cmd.name, err, got)
		}
		all, _ := dpsidecar(t, nil, "help")
		own, err := dpsidecar(t, nil, cmd.name, "--help")
		if !errors.Is(err, flag.ErrHelp) || !strings.Contains(all, cmd.summary) || !strings.Contains(own, "DPSIDECAR_CONFIG") ||
			strings.Contains(own, "?.") || strings.Contains(own, "NaN") {
			t.Errorf("%s: %v\n%s", cmd.name, err, own)
		}
	}
}

// The connection: a URL beats DATABASE_URL, which beats PG*; the password may
// come from a file.
func TestConnection(t *testing.T) {
	t.Setenv("PGHOST", "from-pghost")
	t.Setenv("PGUSER", "")
	for _, c := range []struct {
		args                 []string
		env                  map[string]string
		host, user, password string
	}{
		{nil, map[string]string{"PGDATABASE": "d"}, "from-pghost", "dp_sidecar", ""},
		{nil, map[string]string{"DATABASE_URL": "postgres://u@b/d"}, "b", "u", ""},
		{[]string{"--url", "postgres://u:pw@a/d"}, map[string]string{"DATABASE_URL": "postgres://b/d"}, "a", "u", "pw"},
		{[]string{"--url", "postgres://u@a/d", "--password-file", write(t, "secret\n")}, nil, "a", "u", "secret"},
	} {
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		database := connectionFlags(fs, "url", "password-file", "dp_sidecar")
		if err := fs.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		got, err := database.config(func(name string) string { return c.env[name] })
		if err != nil {
			t.Fatal(err)
		}
		if got.Host != c.host || got.User != c.user || got.Password != c.password {
			t.Errorf("%q: got %s, %s, %s", c.args, got.Host, got.User, got.Password)
		}
	}
	if _, err := readPassword(write(t, "\n")); err == nil {
		t.Error("an empty password file is accepted")
	}
	// What everybody can read is no password; what a group can read, containers need.
	for mode, fine := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o440: true, 0o640: true, 0o644: false, 0o444: false, 0o606: false} {
		file := write(t, "secret\n")
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := readPassword(file); (err == nil) != fine || err != nil && !strings.Contains(err.Error(), "chmod") {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
}

// Where no setting can help but another, serve says which and ends: it does not
// try for ever.
func TestServeEndsWhereItCannotMendItself(t *testing.T) {
	c := localpg.Postgres(t)
	db := c.Database(t)
	for name, e := range map[string]struct {
		env  map[string]string
		want error
		says []string
	}{
		"no database":   {nil, errUsage, []string{"--database-url", "PGDATABASE"}},
		"no password":   {map[string]string{"DATABASE_URL": c.URL(localpg.Superuser, "", db)}, job.ErrAccess, []string{"--password-file"}},
		"wrong one":     {map[string]string{"DATABASE_URL": c.URL(localpg.Superuser, "wrong", db)}, job.ErrAccess, []string{"password authentication failed", "--password-file"}},
		"no such place": {map[string]string{"DATABASE_URL": c.URL(localpg.Superuser, c.Password(), "nowhere")}, job.ErrAccess, []string{`"nowhere" does not exist`, "--database-url"}},
	} {
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
		var log bytes.Buffer
		err := run(ctx, []string{"serve"}, console{io.Discard, &log, func(name string) string { return e.env[name] }})
		stop()
		if !errors.Is(err, e.want) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, says := range e.says {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v; no %q", name, err, says)
			}
		}
		if e.env != nil && !strings.Contains(log.String(), "level=ERROR") {
			t.Errorf("%s: the log: %s", name, log.String())
		}
	}
}

// From an empty database to a sidecar at work, as an operator does it.
func TestInstallServeCheck(t *testing.T) {
	c := localpg.Postgres(t)
	db := c.Database(t)
	password := filepath.Join(t.TempDir(), "dp_sidecar")
	env := map[string]string{
		"DPSIDECAR_ADMIN_URL":             c.URL(localpg.Superuser, "", db),
		"DPSIDECAR_ADMIN_PASSWORD_FILE":   write(t, c.Password()),
		"DPSIDECAR_SIDECAR_PASSWORD_FILE": password,
		"DPSIDECAR_DATABASE_URL":          c.URL("dp_sidecar", "", db),
		"DPSIDECAR_PASSWORD_FILE":         password,
	}
	for range 2 {
		out, err := dpsidecar(t, env, "install")
		if err != nil || !strings.Contains(out, "NO  a dpsidecar is connected") {
			t.Fatalf("install: %v\n%s", err, out)
		}
	}
	if out, err := dpsidecar(t, env, "migrate", "version"); err != nil || !strings.HasPrefix(out, "version ") {
		t.Errorf("migrate version: %v\n%s", err, out)
	}
	if out, err := dpsidecar(t, env, "check"); err == nil {
		t.Errorf("check without a sidecar:\n%s", out)
	}
	if out, err := dpsidecar(t, env, "verify", "--database-url", c.SuperuserURL(db), "--password-file", write(t, c.Password())); err != nil || strings.Contains(out, "not recorded") {
		t.Errorf("verify: %v\n%s", err, out)
	}
	conn, err := pgx.Connect(t.Context(), c.SuperuserURL(db))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var by string
	if err := conn.QueryRow(t.Context(), `SELECT verified_by::text FROM dp_int.operation WHERE verified_ok AND verified_at > now() - interval '1 minute'`).Scan(&by); err != nil || by != localpg.Superuser {
		t.Errorf("verify is not recorded: %q, %v", by, err)
	}

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- run(ctx, []string{"serve"}, console{os.Stdout, &bytes.Buffer{}, func(name string) string { return env[name] }})
	}()
	var out string
	err = errors.New("never checked")
	for deadline := time.Now().Add(2 * time.Minute); err != nil && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		out, err = dpsidecar(t, env, "check")
	}
	if err != nil {
		t.Errorf("check: %v\n%s", err, out)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("serve: %v", err)
	}
}

// ready is a container's health check: its exit says whether a sidecar is ready,
// whatever address it listens at and whatever proxy the container has.
func TestReady(t *testing.T) {
	var status atomic.Int64
	status.Store(http.StatusOK)
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ready" {
			t.Errorf("asks for %s", r.URL)
		}
		http.Error(w, "how it is", int(status.Load()))
	})}
	go server.Serve(l)
	defer server.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	ready := func(host string) (string, int) {
		cmd := exec.Command(self, "ready")
		cmd.Env = append(os.Environ(), mainVariable+"=1", "DPSIDECAR_ADMIN_LISTEN="+net.JoinHostPort(host, port),
			"HTTP_PROXY=http://192.0.2.1:1", "http_proxy=http://192.0.2.1:1")
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	for _, host := range []string{"", "0.0.0.0", "127.0.0.1"} {
		if out, code := ready(host); code != 0 || out != "ready\n" {
			t.Errorf("at %q: exit %d: %s", host, code, out)
		}
	}
	status.Store(http.StatusServiceUnavailable)
	if out, code := ready(""); code != 1 || !strings.Contains(out, "503") || !strings.Contains(out, "how it is") {
		t.Errorf("not ready: exit %d: %s", code, out)
	}
	server.Close()
	if out, code := ready(""); code != 1 {
		t.Errorf("nobody there: exit %d: %s", code, out)
	}
}

// dev prints where to connect, within the time that scripts wait, and leaves
// nothing behind when it is interrupted.
func TestDev(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "dev")
	cmd.Env = append(os.Environ(), mainVariable+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	begin := time.Now()
	lines := bufio.NewScanner(out)
	urls := map[string]string{}
	for lines.Scan() && lines.Text() != "ready" {
		name, url, _ := strings.Cut(lines.Text(), "=")
		urls[name] = url
	}
	if took := time.Since(begin); took > 2*time.Minute {
		t.Errorf("ready after %v", took)
	}
	var data string
	for name, who := range map[string]string{
		"DPSIDECAR_SUPERUSER_URL": localpg.Superuser, "DPSIDECAR_STEWARD_URL": "steward", "DPSIDECAR_ANALYST_URL": "analyst",
	} {
		conn, err := pgx.Connect(t.Context(), urls[name])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var user string
		if err := conn.QueryRow(t.Context(), "SELECT session_user::text").Scan(&user); err != nil || user != who {
			t.Errorf("%s connects as %q: %v", name, user, err)
		}
		if who == localpg.Superuser {
			if err := conn.QueryRow(t.Context(), "SHOW data_directory").Scan(&data); err != nil {
				t.Error(err)
			}
		}
		conn.Close(t.Context())
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("dev ended with %v", err)
	}
	if _, err := os.Stat(filepath.Dir(data)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left behind", filepath.Dir(data))
	}
}
