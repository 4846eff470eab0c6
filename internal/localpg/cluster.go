// Package localpg runs a private Postgres from the server binaries of this machine: one for each test
// binary, and the one behind `dpsidecar demo` and `dpsidecar dev`.
//
// A cluster is in one directory, listens on 127.0.0.1 only and asks every connection for a password. It
// ends with the process that started it, also when that process is killed: a guard (guard.go) waits for its
// end, stops the server and, unless the cluster is kept, removes the directory.
package localpg

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Superuser is the name of the cluster's superuser.
const Superuser = "postgres"

const (
	host         = "127.0.0.1"
	dataName     = "data"          // the server's own directory inside the cluster's
	startTimeout = 3 * time.Minute // initdb alone took more than a minute on an overloaded machine
	stopTimeout  = 10 * time.Second
)

// ErrPortTaken is returned when another program listens on the port asked for.
var ErrPortTaken = errors.New("localpg: port is taken")

// errOrphans reports that a server cannot start because processes of a killed one still run.
var errOrphans = errors.New("processes of a former server still run")

// Options configure a cluster; the zero value is a temporary one.
type Options struct {
	Dir      string            // directory of a cluster that is kept; empty: temporary
	Port     int               // 0: the kept cluster's former port, or any free one
	Bin      string            // folder of the server's programs; empty: the newest installed
	Password string            // of the superuser; empty: a new one
	Settings map[string]string // server settings that override the defaults
}

// Cluster is a running Postgres server.
type Cluster struct {
	dir      string
	kept     bool
	port     int
	password string
	settings map[string]string
	server   server
	as       *syscall.Credential
	guard    *guard

	mu      sync.Mutex // guards process and exited
	process *os.Process
	exited  <-chan struct{}
}

// Start starts a cluster, creating it if necessary. It is ready for connections when Start returns; ctx
// limits starting only.
//
// Errors: ErrNoServer, with installation advice, when no binaries are found; ErrPortTaken; ErrInUse when a
// kept cluster is already running. Any other failure to start shows the end of the server's log.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c := &Cluster{kept: o.Dir != "", port: o.Port, password: cmp.Or(o.Password, rand.Text()), settings: settings(o)}
	if err := c.start(ctx, o); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, o Options) (err error) {
	if c.server, err = chosenServer(ctx, o); err != nil {
		return err
	}
	if c.as, err = unprivileged(o.Dir); err != nil {
		return err
	}
	if c.dir, err = prepareDir(o.Dir, c.server, c.as); err != nil {
		return err
	}
	if c.guard, err = startGuard(ctx, c); err != nil {
		return err
	}
	if err = c.create(ctx); err != nil {
		return err
	}
	return c.launch(ctx)
}

// settings returns the server's settings: modest in memory, always durable against a crash of the server,
// and durable against a crash of the machine only if the cluster is kept.
func settings(o Options) map[string]string {
	s := map[string]string{
		"listen_addresses":        host,
		"unix_socket_directories": "",
		"max_connections":         "200",
		"shared_buffers":          "128MB",
		"log_line_prefix":         "%m [%p] %q%u@%d ",
	}
	if o.Dir == "" {
		s["fsync"] = "off"
		s["full_page_writes"] = "off"
	}
	maps.Copy(s, o.Settings)
	return s
}

// Host returns the address the server listens on.
func (c *Cluster) Host() string { return host }

// Port returns the port the server listens on; a Restart does not change it.
func (c *Cluster) Port() int { return c.port }

// LogFile returns the path of the server's log.
func (c *Cluster) LogFile() string { return filepath.Join(c.dir, "log") }

// Password returns the superuser's password.
func (c *Cluster) Password() string { return c.password }

// URL returns a connection string for a login role.
func (c *Cluster) URL(user, password, database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(user, password),
		Host:     net.JoinHostPort(host, strconv.Itoa(c.port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// SuperuserURL returns a connection string for the superuser.
func (c *Cluster) SuperuserURL(database string) string {
	return c.URL(Superuser, c.password, database)
}

func (c *Cluster) data() string         { return filepath.Join(c.dir, dataName) }
func (c *Cluster) passwordFile() string { return filepath.Join(c.dir, "superuser.password") }
func (c *Cluster) portFile() string     { return filepath.Join(c.dir, "port") }

// create runs initdb unless the directory holds a cluster already. The data directory gets its name only
// when it is complete.
func (c *Cluster) create(ctx context.Context) error {
	if _, err := os.Stat(c.data()); err == nil {
		return c.readPassword()
	}
	if err := c.write(c.passwordFile(), c.password); err != nil {
		return err
	}
	unfinished := c.data() + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	args := []string{"-D", unfinished, "-U", Superuser, "--pwfile", c.passwordFile(),
		"-A", "scram-sha-256", "-E", "UTF8", "--locale", "C", "--data-checksums"}
	if !c.kept {
		args = append(args, "--no-sync")
	}
	if out, err := c.command(ctx, "initdb", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, bytes.TrimSpace(out))
	}
	return os.Rename(unfinished, c.data())
}

// readPassword reads the superuser's password of a kept cluster.
func (c *Cluster) readPassword() error {
	password, err := os.ReadFile(c.passwordFile())
	if err != nil {
		return err
	}
	c.password = string(password)
	return nil
}

// write creates a file with the given text.
func (c *Cluster) write(name, text string) error {
	f, err := c.open(name, os.O_WRONLY|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// open opens a file of the cluster, creating it if necessary. The server's user owns it, and nobody else
// can read it. As root it follows no link that the server's user may have made.
func (c *Cluster) open(name string, flag int) (*os.File, error) {
	f, err := os.OpenFile(name, flag|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil || c.as == nil {
		return f, err
	}
	if err := f.Chown(int(c.as.Uid), int(c.as.Gid)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// launch starts the server on the requested port. Without one it tries the port of a kept cluster's last
// run, then free ones: another program may take a free port before the server listens on it.
func (c *Cluster) launch(ctx context.Context) error {
	asked, attempts := c.port, 20
	for {
		if c.port = asked; asked == 0 {
			var err error
			if c.port, err = c.freePort(); err != nil {
				return err
			}
		}
		err := c.run(ctx)
		if attempts--; asked == 0 && errors.Is(err, ErrPortTaken) && attempts > 0 {
			continue
		}
		if err != nil {
			return err
		}
		return c.write(c.portFile(), strconv.Itoa(c.port))
	}
}

// freePort returns a port that is free at this moment.
func (c *Cluster) freePort() (int, error) {
	if former, err := os.ReadFile(c.portFile()); err == nil {
		if l, err := net.Listen("tcp", net.JoinHostPort(host, string(former))); err == nil {
			return portOf(l), l.Close()
		}
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return 0, err
	}
	return portOf(l), l.Close()
}

func portOf(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

// run starts the server and waits until it answers.
func (c *Cluster) run(ctx context.Context) error {
	log, err := c.open(c.LogFile(), os.O_APPEND|os.O_WRONLY)
	if err != nil {
		return err
	}
	defer log.Close()
	begin, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	args := []string{"-D", c.data(), "-p", strconv.Itoa(c.port)}
	for _, name := range slices.Sorted(maps.Keys(c.settings)) {
		args = append(args, "-c", name+"="+c.settings[name])
	}
	cmd := c.command(context.Background(), "postgres", args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	alive, died := context.WithCancel(context.Background())
	go func() {
		_ = cmd.Wait() // the reason is in the server's log
		died()
	}()
	c.mu.Lock()
	c.process, c.exited = cmd.Process, alive.Done()
	c.mu.Unlock()
	return c.awaitReady(ctx, alive, begin)
}

// awaitReady waits for the first connection. The password distinguishes the server from any other that may
// listen on the same port.
func (c *Cluster) awaitReady(ctx, alive context.Context, begin int64) error {
	attempt, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(alive, cancel)()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		conn, err := pgx.Connect(attempt, c.SuperuserURL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-alive.Done():
			return c.startError(errors.New("the server ended while starting"), begin)
		case <-ctx.Done():
			return c.startError(fmt.Errorf("the server does not answer: %w", err), begin)
		case <-retry.C:
		}
	}
}

// startError adds the log that the server wrote since begin.
func (c *Cluster) startError(err error, begin int64) error {
	const most = 4096
	log, readErr := os.ReadFile(c.LogFile())
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	log = log[min(begin, int64(len(log))):]
	switch { // in the whole log, because processes of a former server may have logged much since
	case bytes.Contains(log, []byte("could not create any TCP/IP sockets")):
		return fmt.Errorf("%w: %d", ErrPortTaken, c.port)
	case bytes.Contains(log, []byte("pre-existing shared memory block")):
		err = errOrphans
	}
	return fmt.Errorf("localpg: %w; its log ends with:\n%s", err, log[max(0, len(log)-most):])
}

// command prepares a server program: as the unprivileged user, in a process group of its own (so that
// Ctrl-C at a terminal does not reach it), without the caller's PG* and locale variables.
func (c *Cluster) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.server.bin, program), args...)
	cmd.Dir = c.dir
	cmd.Env = environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: c.as}
	return cmd
}

func environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "PG") || strings.HasPrefix(v, "LC_") || strings.HasPrefix(v, "LANG")
	})
	return append(env, "LC_ALL=C", "TZ=UTC")
}

// Mode is a way to end the server.
type Mode int

// The ways to end the server, from the gentlest to the hardest.
const (
	Fast      Mode = iota // rolls transactions back, writes a checkpoint
	Immediate             // like a crash: the next start recovers
	Kill                  // SIGKILL; for the server's other processes also a crash
)

func (m Mode) signal() syscall.Signal {
	return [...]syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL}[m]
}

// Halt ends the server but keeps the cluster; Resume starts it again. A server that does not end in time is
// ended with a harder mode.
func (c *Cluster) Halt(mode Mode) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return nil
	}
	for ; mode <= Kill; mode++ {
		if err := c.process.Signal(mode.signal()); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		select {
		case <-c.exited:
			c.process = nil
			return nil
		case <-time.After(stopTimeout):
		}
	}
	return fmt.Errorf("localpg: server %d does not end", c.process.Pid)
}

// Stop ends the server and removes the directory unless it is kept. Later calls do nothing.
func (c *Cluster) Stop() error {
	err := c.Halt(Fast)
	if c.guard == nil {
		return err
	}
	return errors.Join(err, c.guard.release())
}
