package tests

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The real driver. Each case is something that testdata/Jdbc.java does, under
// parameters of the URL. However often it asks, it spends once and reads what was
// released.
func TestFromJDBC(t *testing.T) {
	j := startJDBC(t)
	for _, c := range []struct {
		name, does, parameters string

		releases int                        // how often it reads one
		says     []string                   // what else it finds, among it every error
		during   func(w *world, ask func()) // the other side, for a case that waits
	}{
		{name: "defaults", does: "prepared", releases: 7, // from the fifth execution on the server keeps the statement
			says: []string{"parameters inlined: f", "kept by the server: 1"}},
		{name: "never kept", does: "prepared", parameters: "prepareThreshold=0", releases: 7,
			says: []string{"parameters inlined: f", "kept by the server: 0"}},
		{name: "kept at once", does: "prepared", parameters: "prepareThreshold=1", releases: 7,
			says: []string{"parameters inlined: f", "kept by the server: 1"}},
		{name: "everything cached", does: "prepared", parameters: "preferQueryMode=extendedCacheEverything", releases: 7,
			says: []string{"parameters inlined: f", "kept by the server: 1"}},
		{name: "extended for prepared", does: "prepared", parameters: "preferQueryMode=extendedForPrepared", releases: 7,
			says: []string{"parameters inlined: f", "kept by the server: 1"}},
		{name: "simple protocol", does: "prepared", parameters: "preferQueryMode=simple", releases: 7,
			says: []string{"parameters inlined: t", "kept by the server: 0"}},
		{name: "rollback", does: "rollback", releases: 2},
		{name: "rollback with savepoints", does: "rollback", parameters: "autosave=always", releases: 2},
		{name: "cursor", does: "cursor", releases: 1, says: []string{"cursors: 1"}},
		{name: "read only", does: "read only", releases: 2, says: []string{"read only: off", "read only: on"}}, // without a transaction the driver says nothing
		{name: "read only always", does: "read only", parameters: "readOnlyMode=always", releases: 2, says: []string{"read only: on", "read only: on"}},
		{name: "call", does: "call", releases: 2},
		{name: "call by the simple protocol", does: "call", parameters: "preferQueryMode=simple", releases: 2},
		{name: "call in a transaction", does: "call in a transaction", releases: 1, says: []string{"error 2D000: ERROR: dp_run commits, and cannot run inside a transaction block"}},
		{name: "escape", does: "escape", releases: 1, says: []string{"error 42809"}},
		{name: "escape as a call", does: "escape", parameters: "escapeSyntaxCallMode=callIfNoReturn", releases: 2},
		{name: "metadata", does: "metadata", releases: 1, says: []string{
			"columns: term text coef float8",
			"parameters: text float8",
			"function: dp_l1_regress Median regression under pure",
			"arguments: dataset eps target features intercept options term coef",
			"procedure: dp_run",
			"view: coefficients VIEW Coefficients of releases",
			"columns of the view: release uuid term text coef float8",
			"jobs: 0"}},
		{name: "query timeout", does: "query timeout", releases: 2, says: []string{"error 57014"}, during: j.timeOut},
		{name: "cancel", does: "cancel", releases: 2, says: []string{"error 57014"}, during: j.cancel},
		{name: "warnings", does: "warnings", releases: 1, says: []string{"last warning: dpsidecar: done"}, during: j.hear},
	} {
		ok := t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1, 0)
			if c.during == nil {
				c.during = func(_ *world, ask func()) { ask() }
			}
			c.during(w, func() { j.ask(w, c.does, c.parameters) })
			j.until(w, "end")
			kept := w.mustRegress(w.analyst, `SELECT term, coef FROM dp.coefficients WHERE release = dp_last_release($1)`, w.dataset)
			for _, out := range j.releases(w) {
				if !slices.Equal(out, kept) {
					t.Errorf("read %v, released %v", out, kept)
				}
			}
			if n := len(j.releases(w)); n != c.releases {
				t.Errorf("read %d releases, want %d", n, c.releases)
			}
			if said := j.findings(); !slices.EqualFunc(said, c.says, strings.HasPrefix) {
				t.Errorf("says %q, want %q", said, c.says)
			}
			w.spentOnce()
		})
		if !ok && !j.ended {
			break // what it says next is about this case
		}
	}
}

// timeOut makes a call wait for its charge until it gives up. Then its job is
// dropped, or it ends for whoever asks the same again.
func (j *jdbc) timeOut(w *world, ask func()) {
	release := w.lockTable()
	ask()
	j.until(w, "error")
	release()
	w.eventually("the job has ended", func() bool { return one[bool](w, w.analyst, `SELECT finished_at IS NOT NULL FROM dp.jobs`) })
	if state := one[string](w, w.analyst, `SELECT status FROM dp.jobs`); state == "canceled" && w.entries() != 0 {
		w.Errorf("%d entries of a canceled job, want none", w.entries())
	}
	j.tell(w, "again")
}

// cancel cancels a call after its charge.
func (j *jdbc) cancel(w *world, ask func()) {
	slow := w.dataset + "_slow"
	w.slowView(slow, 5)
	w.dataset = slow
	ask()
	w.eventually("the job reads", func() bool {
		return one[int64](w, w.super, `SELECT count(*) FROM dp_int.job WHERE caller = $1 AND state = 'reading'`, w.person) == 1
	})
	j.tell(w, "cancel")
}

// hear makes a call wait until it was told the stage.
func (j *jdbc) hear(w *world, ask func()) {
	release := w.lockTable()
	ask()
	j.until(w, "told: dpsidecar: planning")
	release()
}

func (w *world) lockTable() (release func()) {
	w.Helper()
	blocker := w.connect(w.system.SuperuserURL())
	w.exec(blocker, `BEGIN; LOCK TABLE public.`+w.dataset)
	return func() { w.exec(blocker, `ROLLBACK`) }
}

// jdbc is a running testdata/Jdbc.java: one for all cases, as it takes long to start.
type jdbc struct {
	in     io.Writer
	out    *bufio.Scanner
	stderr *bytes.Buffer
	said   []string // the answer, as far as it was read
	ended  bool     // that was all
}

func startJDBC(t *testing.T) *jdbc {
	driver := os.Getenv("DPSIDECAR_JDBC")
	if driver == "" {
		driver = "/usr/share/java/postgresql.jar"
	}
	if _, err := exec.LookPath("javac"); err != nil { // a JDK: without its compiler java runs no source
		t.Skip("no JDK is installed (Debian: default-jdk-headless)")
	}
	if _, err := os.Stat(driver); err != nil {
		t.Skipf("the JDBC driver is not installed (Debian: libpostgresql-jdbc-java), and DPSIDECAR_JDBC does not name its jar: %v", err)
	}
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Minute)
	java := exec.CommandContext(ctx, "java", "-cp", driver, "testdata/Jdbc.java")
	j := &jdbc{stderr: new(bytes.Buffer), ended: true}
	java.Stderr = j.stderr
	in, err := java.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := java.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := java.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); java.Wait() })
	j.in, j.out = in, bufio.NewScanner(out)
	return j
}

// ask requests something in a world as its analyst.
func (j *jdbc) ask(w *world, does, parameters string) {
	w.Helper()
	u, err := url.Parse(w.system.URL(w.person))
	if err != nil {
		w.Fatal(err)
	}
	password, _ := u.User.Password()
	j.said, j.ended = nil, false
	j.tell(w, strings.Join([]string{does, "jdbc:postgresql://" + u.Host + u.Path + "?" + u.RawQuery + "&" + parameters, w.person, password, w.dataset}, "\t"))
}

func (j *jdbc) tell(w *world, line string) {
	w.Helper()
	if _, err := fmt.Fprintln(j.in, line); err != nil {
		w.Fatalf("%v\n%s", err, j.stderr)
	}
}

// until reads up to a line that begins so.
func (j *jdbc) until(w *world, prefix string) {
	w.Helper()
	for !j.ended {
		if !j.out.Scan() {
			w.Fatalf("java ended after %q\n%s", j.said, j.stderr)
		}
		line := j.out.Text()
		j.ended = line == "end"
		j.said = append(j.said, line)
		if strings.HasPrefix(line, prefix) {
			return
		}
	}
	w.Fatalf("it said %q, and never %q", j.said, prefix)
}

// releases returns what was read of the data set.
func (j *jdbc) releases(w *world) (out [][]term) {
	w.Helper()
	for _, line := range j.said {
		if fields := strings.Split(line, "\t"); fields[0] == "release" {
			var r []term
			for pair := range slices.Chunk(fields[1:], 2) {
				coef, err := strconv.ParseFloat(pair[1], 64)
				if err != nil {
					w.Fatal(err)
				}
				r = append(r, term{pair[0], coef})
			}
			out = append(out, r)
		}
	}
	return out
}

// findings returns what is neither a release, nor told on the way, nor the end.
func (j *jdbc) findings() (out []string) {
	for _, line := range j.said {
		if !strings.HasPrefix(line, "release\t") && !strings.HasPrefix(line, "told: ") && line != "end" {
			out = append(out, line)
		}
	}
	return out
}
