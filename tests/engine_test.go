package tests

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/dev"
	"dpsidecar/internal/localpg"
)

// engineVariable names the folder of build-citus.sh, which builds Citus for the installed
// Postgres into a folder and prints that of its programs.
const engineVariable = "DPSIDECAR_ENGINE"

// errNoEngine says that there is no Citus here, and why.
var errNoEngine = errors.New("no distributed engine")

// citusPrograms are the programs of a Postgres with Citus, built once a machine.
var citusPrograms = sync.OnceValues(func() (bin string, err error) {
	folder := os.Getenv(engineVariable)
	script := filepath.Join(folder, "build-citus.sh")
	text, err := os.ReadFile(script)
	if folder == "" || err != nil {
		return "", fmt.Errorf("%w: %s names no folder with build-citus.sh", errNoEngine, engineVariable)
	}
	// Not the cache of the user, where root's servers could not read it.
	root := filepath.Join(os.TempDir(), fmt.Sprintf("dpsidecar-citus-%x", sha256.Sum256(text))[:32])
	lock, err := os.OpenFile(root+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	found, _ := filepath.Glob(filepath.Join(root, "usr/lib/postgresql/*/bin")) // the pattern is well formed
	if len(found) == 0 {
		if found, err = buildCitus(script, root); err != nil {
			return "", err
		}
	}
	return found[0], nil
})

// buildCitus builds into a folder that gets its name when it is complete.
func buildCitus(script, root string) ([]string, error) {
	unfinished := root + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return nil, err
	}
	build := exec.Command("bash", script, unfinished)
	build.Env = append(os.Environ(), "COPT=-O0 -g0") // half the time, and tests have few rows
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s: %v\n%s", errNoEngine, script, err, out)
	}
	if err := errors.Join(os.Chmod(unfinished, 0o755), os.Rename(unfinished, root)); err != nil {
		return nil, err
	}
	return filepath.Glob(filepath.Join(root, "usr/lib/postgresql/*/bin"))
}

// distributed is a system whose Postgres is the coordinator of Citus, with two workers.
type distributed struct {
	*dev.System
	workers []*localpg.Cluster
	page    []string // the statements of the how-to
}

// citusSettings are those of every node.
var citusSettings = map[string]string{"shared_preload_libraries": "citus", "citus.enable_statistics_collection": "off", "citus.node_conninfo": "sslmode=disable", "shared_buffers": "64MB"}

// newDistributed starts coordinator and workers. It skips where there is no Citus.
func newDistributed(t testing.TB, serve dev.Options) *distributed {
	t.Helper()
	bin, err := citusPrograms()
	if errors.Is(err, errNoEngine) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	d := &distributed{workers: make([]*localpg.Cluster, 2)}
	for _, statement := range citusStatements.FindAllStringSubmatch(document(t, "how-to/citus.md"), -1) {
		d.page = append(d.page, statement[1])
	}
	serve.Password = rand.Text()
	var starting sync.WaitGroup
	for i := range d.workers {
		starting.Go(func() {
			w, err := localpg.Start(context.Background(), localpg.Options{Bin: bin, Password: serve.Password, Settings: citusSettings})
			if err == nil {
				t.Cleanup(func() { w.Stop() })
				d.workers[i] = w
			}
		})
	}
	if starting.Wait(); d.workers[0] == nil || d.workers[1] == nil {
		t.Fatal("the workers do not start")
	}
	serve.Bin, serve.Settings, serve.Extend = bin, citusSettings, d.join
	if d.System, err = dev.Start(context.Background(), serve); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Stop() })
	d.authenticate(t, "dp_sidecar")
	return d
}

// citusStatements are those with which the how-to makes a cluster: on every node, on the coordinator, and
// for a role's password.
var citusStatements = regexp.MustCompile(`(?m)^    (CREATE EXTENSION citus|SELECT citus_.*|INSERT INTO pg_dist_authinfo .*);`)

// join makes a cluster of the nodes, as the how-to says. Superusers have one password.
func (d *distributed) join(ctx context.Context, s *dev.System) error {
	password := s.Cluster.Password()
	names := []string{"coordinator.example', 5432", at(s.Cluster)}
	for i, w := range d.workers {
		names = append(names, fmt.Sprintf("worker%d.example', 5432", i+1), at(w))
		if err := executeAll(ctx, w.SuperuserURL("postgres"), "CREATE DATABASE "+dev.Database); err != nil {
			return err
		}
		if err := executeAll(ctx, w.SuperuserURL(dev.Database), d.page[0], d.authInfo(localpg.Superuser, password)); err != nil {
			return err
		}
	}
	statements := []string{d.page[0], d.authInfo(localpg.Superuser, password)}
	for _, statement := range d.page[1 : len(d.page)-1] {
		statements = append(statements, strings.NewReplacer(names...).Replace(statement))
	}
	return executeAll(ctx, s.SuperuserURL(), statements...)
}

// at is where a node listens, as the statements have it.
func at(c *localpg.Cluster) string { return fmt.Sprintf("%s', %d", c.Host(), c.Port()) }

// authInfo tells a node the password by which a role logs in to the others.
func (d *distributed) authInfo(role, password string) string {
	return strings.NewReplacer("dp_sidecar", role, "secret", password).Replace(d.page[len(d.page)-1])
}

// authenticate lets the coordinator log in to the workers as a role that was made here.
func (d *distributed) authenticate(t testing.TB, role string) {
	t.Helper()
	at, err := url.Parse(d.URL(role))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := at.User.Password()
	if err := executeAll(context.Background(), d.SuperuserURL(), d.authInfo(role, password)); err != nil {
		t.Fatal(err)
	}
}

// worker returns how the superuser connects to a worker.
func (d *distributed) worker(i int) string {
	return d.workers[i].SuperuserURL(dev.Database)
}

// executeAll runs statements one after the other on a connection of their own.
func executeAll(ctx context.Context, at string, statements ...string) error {
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return fmt.Errorf("%w: %s", err, s)
		}
	}
	return nil
}
