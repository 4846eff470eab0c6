package tests

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dpsidecar/internal/dev"
)

// sidecarBinary is dpsidecar itself, built once.
func sidecarBinary(tb testing.TB) string {
	tb.Helper()
	binary := filepath.Join(tb.TempDir(), "dpsidecar")
	if out, err := exec.Command("go", "build", "-o", binary, "../cmd/dpsidecar").CombinedOutput(); err != nil {
		tb.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// process is one `dpsidecar serve`, behind a proxy of its own. It can be ended at
// any moment and started again.
type process struct {
	*proxy
	binary, url string
	log         *syncBuffer

	mu    sync.Mutex
	pid   int
	shell *exec.Cmd
	input io.Closer
}

func newProcess(tb testing.TB, binary string, s *dev.System) *process {
	tb.Helper()
	server := fmt.Sprintf("%s:%d", s.Cluster.Host(), s.Cluster.Port())
	w := newProxy(tb, server)
	p := &process{proxy: w, binary: binary, log: new(syncBuffer)}
	p.url = strings.Replace(s.URL("dp_sidecar"), server, fmt.Sprintf("127.0.0.1:%d", w.port()), 1)
	tb.Cleanup(p.kill)
	return p
}

// The shell ends the sidecar when its input ends, so that none outlives this
// test binary, however that ends.
const keeper = `"$@" & echo $!; cat >/dev/null; kill -9 $!`

// lease is how long a job stays with a sidecar that is silent.
const lease = time.Second

// start starts the sidecar unless it runs.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shell != nil {
		return nil
	}
	shell := exec.Command("/bin/sh", "-c", keeper, "keeper", p.binary, "serve", "--lease", lease.String(), "--log-level", "warn")
	shell.Env = append(os.Environ(), "DPSIDECAR_DATABASE_URL="+p.url)
	shell.Stderr = p.log
	input, err := shell.StdinPipe()
	if err != nil {
		return err
	}
	output, err := shell.StdoutPipe()
	if err != nil {
		return err
	}
	if err := shell.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		return err
	}
	p.pid, err = strconv.Atoi(strings.TrimSpace(line))
	p.shell, p.input = shell, input
	return err
}

// signal sends a signal to the sidecar if it runs.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shell != nil {
		_ = syscall.Kill(p.pid, s) // it may have ended by itself
	}
}

// kill ends the sidecar with SIGKILL.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shell != nil {
		_ = p.input.Close()
		_ = p.shell.Wait() // the shell says that it killed
		p.shell = nil
	}
}

// syncBuffer is a log that several processes write, one after the other.
type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
