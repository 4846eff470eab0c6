package localpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// ErrInUse is returned when another process runs the kept cluster.
var ErrInUse = errors.New("localpg: the cluster is in use by another process")

const (
	prefix   = "dpsidecar-pg-" // of the directories of temporary clusters
	lockName = "lock"
)

// A guard is a small shell that outlives this process: it waits for the end of its standard input, which
// comes when this process closes it or ends for any reason, then stops the server and removes a temporary
// directory. It shares the lock on the directory until it is done.
type guard struct {
	cmd   *exec.Cmd
	input io.Closer
	dir   string // the directory to remove; empty: none
	once  sync.Once
	err   error
}

// guardScript takes the pg_ctl to use, the data directory, the mode and the directory to remove. A program
// that was running when this process was killed, such as initdb, may still write there; hence the repeated
// attempts.
const guardScript = `
trap '' HUP INT TERM
cat >/dev/null
"$1" stop -D "$2" -m "$3" >/dev/null 2>&1
test -n "$4" || exit 0
for attempt in 1 2 3 4 5 6 7 8 9 10; do
	rm -rf -- "$4" 2>/dev/null && exit 0
	sleep 0.5
done
exit 1
`

// startGuard locks the directory and starts its guard.
func startGuard(ctx context.Context, c *Cluster) (*guard, error) {
	lock, err := lockDir(ctx, c)
	if err != nil {
		return nil, err
	}
	defer lock.Close() // the guard's copy holds it
	mode, remove := "immediate", c.dir
	if c.kept {
		mode, remove = "fast", ""
	}
	cmd := exec.Command("/bin/sh", "-c", guardScript, "guard",
		filepath.Join(c.server.bin, "pg_ctl"), c.data(), mode, remove)
	cmd.Dir = "/"
	cmd.Env = environment()
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: c.as}
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &guard{cmd: cmd, input: input, dir: remove}, nil
}

// release has the guard finish and waits for it; later calls do nothing.
func (g *guard) release() error {
	g.once.Do(func() {
		_ = g.input.Close() // ends the guard's wait; closing cannot fail otherwise
		if err := g.cmd.Wait(); err != nil {
			g.err = fmt.Errorf("localpg: %s is left behind: %w", g.dir, err)
		}
	})
	return g.err
}

// lockDir takes the lock of the cluster's directory. It waits, because the last holder may be about to
// release it.
func lockDir(ctx context.Context, c *Cluster) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	f, err := c.open(filepath.Join(c.dir, lockName), os.O_RDWR)
	if err != nil {
		return nil, err
	}
	for {
		if err := tryLock(f); err == nil {
			return f, nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ErrInUse, f.Close())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// tryLock locks a file, or fails at once if another process has locked it.
func tryLock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// prepareDir prepares the directory of a cluster: dir, or a new one under the
// temporary folder when dir is empty. The folder above dir must exist: this program cannot know which users
// are to reach a new one. Only the server's user may enter it.
func prepareDir(dir string, s server, as *syscall.Credential) (string, error) {
	if dir == "" {
		root := tempRoot(as)
		removeAbandoned(root, s)
		made, err := os.MkdirTemp(root, prefix)
		if err != nil {
			return "", err
		}
		return made, chown(made, as)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	above := filepath.Dir(dir)
	if info, err := os.Stat(above); err != nil || !info.IsDir() {
		return "", fmt.Errorf("localpg: there is no folder %s: make it first", above)
	}
	if as != nil && !reachable(above) {
		return "", fmt.Errorf("localpg: the server does not run as root, and other users cannot reach %s", dir)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return dir, chown(dir, as)
}

// tempRoot returns the folder for temporary clusters: the usual one, unless this process is root and the
// server's user cannot use it.
func tempRoot(as *syscall.Credential) string {
	const writable = 0o002
	dir := os.TempDir()
	if as == nil {
		return dir
	}
	if info, err := os.Stat(dir); err == nil && info.Mode()&writable != 0 && reachable(dir) {
		return dir
	}
	return "/tmp"
}

// reachable reports whether every user can pass through dir.
func reachable(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil || info.Mode()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
		dir = filepath.Dir(dir)
	}
}

// removeAbandoned removes directories of temporary clusters that a guard could not remove, because it was
// killed or the machine crashed: those whose lock nobody holds.
func removeAbandoned(root string, s server) {
	dirs, _ := filepath.Glob(filepath.Join(root, prefix+"*")) // the pattern is well formed, so there is no error
	for _, dir := range dirs {
		removeIfUnused(dir, s)
	}
}

// removeIfUnused removes one directory if nobody uses it; a recent one may not be locked yet. Failures are
// ignored: the directory may belong to another user.
func removeIfUnused(dir string, s server) {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || time.Since(info.ModTime()) < stopTimeout {
		return
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if tryLock(f) != nil {
		return
	}
	stop := exec.Command(filepath.Join(s.bin, "pg_ctl"), "stop", "-D", filepath.Join(dir, dataName), "-m", "immediate")
	stop.Dir, stop.Env = "/", environment()
	if owner := info.Sys().(*syscall.Stat_t); os.Geteuid() == 0 {
		stop.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	_ = stop.Run() // usually there is no server left to stop
	_ = os.RemoveAll(dir)
}

// unprivileged returns the user that runs the server: nil for the current one. For root, which Postgres
// refuses, it is the owner of a kept directory, otherwise the user postgres, otherwise nobody.
func unprivileged(dir string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	if info, err := os.Stat(dir); err == nil {
		if s := info.Sys().(*syscall.Stat_t); s.Uid != 0 {
			return &syscall.Credential{Uid: s.Uid, Gid: s.Gid}, nil
		}
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			return credential(u)
		}
	}
	return nil, errors.New("localpg: Postgres does not run as root, and there is no user postgres or nobody")
}

// credential converts a user to the form for starting processes.
func credential(u *user.User) (*syscall.Credential, error) {
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// chown gives a file to the server's user.
func chown(name string, as *syscall.Credential) error {
	if as == nil {
		return nil
	}
	return os.Chown(name, int(as.Uid), int(as.Gid))
}
