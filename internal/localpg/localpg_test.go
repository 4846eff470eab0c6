package localpg

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// childVariable makes the test binary start a cluster, print its directory and
// URL, and wait to be ended: see TestMain.
const childVariable = "PGTEST_CHILD_DIR"

func TestMain(m *testing.M) {
	dir, ok := os.LookupEnv(childVariable)
	if !ok {
		os.Exit(m.Run())
	}
	c, err := Start(context.Background(), Options{Dir: dir})
	if err != nil {
		println(err.Error())
		os.Exit(1)
	}
	os.Stdout.WriteString(c.Dir() + "\n" + c.SuperuserURL("postgres") + "\n")
	select {}
}

func start(t *testing.T, o Options) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Stop() })
	return c
}

// keptDir returns the name of a directory that the server's user can reach.
func keptDir(t *testing.T) string {
	t.Helper()
	as, err := unprivileged("")
	if err != nil {
		t.Fatal(err)
	}
	parent, err := os.MkdirTemp(tempRoot(as), "localpg-kept-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(parent) })
	if err := os.Chmod(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(parent, "cluster")
}

func query[T any](t *testing.T, url, sql string) (v T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

func listening(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// eventually waits for long: the machine may have far too much to do.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error("never true: " + what)
			return
		}
	}
}

func TestStopLeavesNothingBehind(t *testing.T) {
	c := start(t, Options{})
	if got := query[string](t, c.SuperuserURL("postgres"), "SHOW data_directory"); got != c.data() {
		t.Errorf("connected to another server: %s", got)
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if exists(c.Dir()) {
		t.Error("directory is left behind")
	}
	if listening(hostPort(t, c.SuperuserURL("postgres"))) {
		t.Error("server still listens")
	}
	if err := c.Stop(); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

func hostPort(t *testing.T, connection string) string {
	t.Helper()
	u, err := url.Parse(connection)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// A child that dies takes its cluster with it, however it dies.
func TestClusterEndsWithItsProcess(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			dir, connection, child := startChild(t, self, "", nil)
			if err := child.Signal(signal); err != nil {
				t.Fatal(err)
			}
			eventually(t, "server is gone", func() bool { return !listening(hostPort(t, connection)) })
			eventually(t, "directory is gone", func() bool { return !exists(dir) })
		})
	}
}

// A kept cluster whose process is killed can be started again at once.
func TestKeptClusterSurvivesItsProcess(t *testing.T) {
	kept := keptDir(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, connection, child := startChild(t, self, kept, nil)
	query[int](t, connection, "WITH x AS (SELECT pg_notify('a', 'b')) SELECT count(*) FROM x")
	if err := child.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c := start(t, Options{Dir: kept})
	// Another program may have taken the port while nobody listened: one of 14,000, as other tests start servers too.
	if c.SuperuserURL("postgres") != connection && !listening(hostPort(t, connection)) {
		t.Errorf("address changed from %s to %s", connection, c.SuperuserURL("postgres"))
	}
}

// startChild runs the test binary as a process that starts a cluster.
func startChild(t *testing.T, binary, kept string, as *syscall.Credential) (dir, connection string, child *os.Process) {
	t.Helper()
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), childVariable+"="+kept)
	cmd.Dir, cmd.Stderr = "/", os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	r := bufio.NewReader(out)
	for _, line := range []*string{&dir, &connection} {
		text, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("child: %v", err)
		}
		*line = strings.TrimSpace(text)
	}
	return dir, connection, cmd.Process
}

// An ordinary user runs the server as itself, in its own directory.
func TestStartAsOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("every other test runs as an ordinary user already")
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	as, err := credential(nobody)
	if err != nil {
		t.Fatal(err)
	}
	dir, connection, child := startChild(t, copySelf(t), "", as)
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Sys().(*syscall.Stat_t).Uid; got != as.Uid || info.Mode().Perm() != 0o700 {
		t.Errorf("directory belongs to %d with mode %v", got, info.Mode())
	}
	query[string](t, connection, "SELECT version()")
	if err := child.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "directory is gone", func() bool { return !exists(dir) })
}

// copySelf copies the test binary to where every user can run it.
func copySelf(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(keptDir(t))
	in, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(filepath.Join(dir, "child"), os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Name()
}

// Where the server's user cannot work, root's clusters go elsewhere.
func TestTemporaryFolderOfRoot(t *testing.T) {
	as, err := unprivileged("")
	if err != nil {
		t.Fatal(err)
	}
	if as == nil {
		t.Skip("not root")
	}
	closed := filepath.Dir(keptDir(t)) // 0755: not to be written to
	t.Setenv("TMPDIR", closed)
	if dir := tempRoot(as); dir == closed {
		t.Errorf("got %s", dir)
	}
}

func TestRootDoesNotRunTheServer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root")
	}
	info, err := os.Stat(Postgres(t).data())
	if err != nil {
		t.Fatal(err)
	}
	if info.Sys().(*syscall.Stat_t).Uid == 0 {
		t.Error("the data directory belongs to root")
	}
}

// ownTemporaryFolder makes a folder for throw-away clusters: others start theirs in the usual
// one, and remove there what is abandoned.
func ownTemporaryFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "localpg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	return dir
}

func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := ownTemporaryFolder(t)
	if _, err := Start(t.Context(), Options{Port: portOf(l)}); !errors.Is(err, ErrPortTaken) {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// A failing start shows why.
func TestStartShowsTheLog(t *testing.T) {
	_, err := Start(t.Context(), Options{Settings: map[string]string{"shared_buffers": "lots"}})
	if err == nil || !strings.Contains(err.Error(), `"lots"`) {
		t.Errorf("got %v", err)
	}
}

func TestCommittedRowsSurviveCrashes(t *testing.T) {
	c := start(t, Options{})
	c.Exec(t, "postgres", "CREATE TABLE kept (n int)")
	for i, mode := range []Mode{Fast, Immediate, Kill} {
		c.Exec(t, "postgres", "INSERT INTO kept VALUES (1)")
		port := c.Port()
		if err := c.Restart(t.Context(), mode); err != nil {
			t.Fatalf("mode %d: %v", mode, err)
		}
		if c.Port() != port {
			t.Errorf("port changed from %d to %d", port, c.Port())
		}
		if got := query[int](t, c.SuperuserURL("postgres"), "SELECT count(*) FROM kept"); got != i+1 {
			t.Errorf("mode %d: %d rows", mode, got)
		}
	}
}

// After a kill the server comes back although an orphan goes on for seconds, and logs more
// than an error shows.
func TestAServerThatWasKilledWaitsForItsOrphans(t *testing.T) {
	c := start(t, Options{})
	conn, err := pgx.Connect(t.Context(), c.SuperuserURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	go conn.Exec(t.Context(), `DO $$ DECLARE until timestamptz := clock_timestamp() + interval '3 s'; BEGIN
		WHILE clock_timestamp() < until LOOP RAISE LOG '%', repeat('busy ', 400); PERFORM count(*) FROM generate_series(1, 1000); END LOOP; END $$`)
	eventually(t, "the orphan-to-be is busy", func() bool {
		log, err := os.ReadFile(c.LogFile())
		return err == nil && strings.Contains(string(log), "busy busy")
	})
	if err := c.Restart(t.Context(), Kill); err != nil {
		t.Fatalf("%.300v", err)
	}
}

func TestKeptCluster(t *testing.T) {
	o := Options{Dir: keptDir(t)}
	c := start(t, o)
	c.Exec(t, "postgres", "CREATE TABLE kept ()")
	if got := query[string](t, c.SuperuserURL("postgres"), "SHOW fsync"); got != "on" {
		t.Errorf("fsync is %s", got)
	}
	impatient, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	// A start, but for looking for a server, which may take longer.
	if _, err := startGuard(impatient, &Cluster{dir: c.dir, as: c.as, server: c.server, kept: true}); !errors.Is(err, ErrInUse) {
		t.Errorf("a second start: %v", err)
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	again := start(t, o)
	query[string](t, again.SuperuserURL("postgres"), "SELECT 'kept'::regclass::text")
}

// What is left when the guard is killed too goes with the next start.
func TestSweepRemovesAbandonedDirectories(t *testing.T) {
	root := ownTemporaryFolder(t)
	c := start(t, Options{})
	if err := syscall.Kill(c.guard.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.guard.cmd.Wait()
	made := func(ago time.Duration) {
		at := time.Now().Add(-ago)
		if err := os.Chtimes(c.Dir(), at, at); err != nil {
			t.Fatal(err)
		}
	}
	made(0)
	removeAbandoned(root, c.server)
	if !exists(c.Dir()) {
		t.Fatal("a young directory was removed")
	}
	made(time.Minute)
	start(t, Options{})
	if exists(c.Dir()) {
		t.Error("directory is left behind")
	}
	eventually(t, "server is gone", func() bool { return !listening(hostPort(t, c.SuperuserURL("x"))) })
}

func TestDatabaseIsDropped(t *testing.T) {
	c := Postgres(t)
	var name string
	t.Run("inner", func(t *testing.T) {
		name = c.Database(t)
		c.Exec(t, name, "CREATE TABLE here ()")
	})
	sql := "SELECT count(*) FROM pg_database WHERE datname = '" + name + "'"
	if got := query[int](t, c.SuperuserURL("postgres"), sql); got != 0 {
		t.Errorf("database %s is left behind", name)
	}
}

func TestNoServerSaysWhatToInstall(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "PG_VERSION"), []byte("9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newestServer(t.Context(), dir); !errors.Is(err, ErrNoServer) {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(installHint(), "install") {
		t.Error(installHint())
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		c, err := Start(b.Context(), Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Stop(); err != nil {
			b.Fatal(err)
		}
	}
}
