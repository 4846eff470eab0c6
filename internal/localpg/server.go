package localpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// OldestMajor is the oldest major version of Postgres that is supported.
const OldestMajor = 14

// ErrNoServer is returned when this machine has no usable Postgres server.
var ErrNoServer = errors.New("no Postgres server found on this machine")

// server is an installed Postgres: the folder of its binaries and its version.
type server struct {
	bin          string
	major, minor int
}

// Installed describes the server that a new cluster would run.
//
// Errors: ErrNoServer, with installation advice.
func Installed(ctx context.Context) (string, error) {
	s, err := newestServer(ctx, "")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Postgres %d.%d in %s", s.major, s.minor, s.bin), nil
}

// chosenServer returns the server for a cluster.
func chosenServer(ctx context.Context, o Options) (server, error) {
	if o.Bin == "" {
		return newestServer(ctx, filepath.Join(o.Dir, dataName))
	}
	s, ok := serverIn(ctx, o.Bin)
	if !ok {
		return server{}, fmt.Errorf("%w: its programs are not in %s", ErrNoServer, o.Bin)
	}
	return s, nil
}

// newestServer returns the newest installed server. If data holds a cluster it is the newest of the major
// version that made it.
func newestServer(ctx context.Context, data string) (server, error) {
	major, err := majorOf(data)
	if err != nil {
		return server{}, err
	}
	var best server
	for _, bin := range binFolders(ctx) {
		s, ok := serverIn(ctx, bin)
		if !ok || s.major < OldestMajor || (major != 0 && s.major != major) {
			continue
		}
		if cmp.Or(cmp.Compare(s.major, best.major), cmp.Compare(s.minor, best.minor)) > 0 {
			best = s
		}
	}
	if best.bin != "" {
		return best, nil
	}
	if major != 0 {
		return server{}, fmt.Errorf("%w: the cluster in %s needs version %d", ErrNoServer, data, major)
	}
	return server{}, fmt.Errorf("%w: %s", ErrNoServer, installHint())
}

// majorOf returns the major version of a data directory; 0 if there is none.
func majorOf(data string) (int, error) {
	text, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// BinVariable names the environment variable for the only folder of server binaries to use; without it the
// newest server of this machine is used.
const BinVariable = "DPSIDECAR_POSTGRES_BIN"

// binFolders lists where server binaries may be.
func binFolders(ctx context.Context) []string {
	if only := os.Getenv(BinVariable); only != "" {
		return []string{only}
	}
	var dirs []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if file, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres")); err == nil {
			dirs = append(dirs, filepath.Dir(file))
		}
	}
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",                          // Debian, Ubuntu
		"/usr/pgsql-*/bin",                                   // PGDG on Red Hat
		"/usr/libexec/postgresql*",                           // Alpine
		"/usr/lib/postgresql*/bin",                           // SUSE
		"/usr/local/pgsql/bin",                               // from source
		"/opt/homebrew/opt/postgresql*/bin",                  // Homebrew
		"/usr/local/opt/postgresql*/bin",                     // Homebrew on Intel
		"/Applications/Postgres.app/Contents/Versions/*/bin", // Postgres.app
	} {
		found, _ := filepath.Glob(pattern) // the patterns are well formed, so there is no error
		dirs = append(dirs, found...)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

var versionText = regexp.MustCompile(`\(PostgreSQL\) (\d+)(?:\.(\d+))?`)

// serverIn asks the server in a folder for its version. ok is false if a program that a cluster needs is
// missing.
func serverIn(ctx context.Context, bin string) (server, bool) {
	for _, program := range []string{"initdb", "pg_ctl"} {
		if _, err := exec.LookPath(filepath.Join(bin, program)); err != nil {
			return server{}, false
		}
	}
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "postgres"), "--version").Output()
	if err != nil {
		return server{}, false
	}
	m := versionText.FindSubmatch(out)
	if m == nil {
		return server{}, false
	}
	major, _ := strconv.Atoi(string(m[1])) // the pattern allows digits only
	minor, _ := strconv.Atoi(string(m[2])) // empty for a beta: 0
	return server{bin, major, minor}, true
}

// installHint returns installation advice for this machine.
func installHint() string {
	command := "install the Postgres server of your distribution, with its contrib extensions"
	if runtime.GOOS == "darwin" {
		command = "brew install postgresql@17"
	} else if _, err := exec.LookPath("apt-get"); err == nil {
		command = "sudo apt-get install postgresql"
	} else if _, err := exec.LookPath("dnf"); err == nil {
		command = "sudo dnf install postgresql-server postgresql-contrib"
	} else if _, err := exec.LookPath("apk"); err == nil {
		command = "apk add postgresql postgresql-contrib"
	}
	return fmt.Sprintf("version %d or newer is needed: %s", OldestMajor, command)
}
