package tests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"dpsidecar/internal/dev"
	"dpsidecar/internal/job"
	"dpsidecar/internal/localpg"
)

// clone starts a server from a copy of the files of the world's cluster; pg_basebackup is given args.
func (w *world) clone(args ...string) *localpg.Cluster {
	w.Helper()
	dir := w.folder()
	w.run("pg_basebackup", append([]string{"-D", filepath.Join(dir, "data"), "-c", "fast", "--no-sync"}, args...)...)
	if err := os.WriteFile(filepath.Join(dir, "superuser.password"), []byte(w.system.Cluster.Password()), 0o600); err != nil {
		w.Fatal(err)
	}
	w.give(dir)
	c, err := localpg.Start(context.Background(), localpg.Options{Dir: dir, Settings: map[string]string{"fsync": "off"}})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { c.Stop() })
	return c
}

// on is the same world on a server with a copy of its files.
func (w *world) on(c *localpg.Cluster) *copied {
	w.Helper()
	return w.at(func(person string) string {
		if person == localpg.Superuser {
			return c.SuperuserURL(dev.Database)
		}
		return strings.Replace(w.system.URL(person), fmt.Sprintf(":%d/", w.system.Cluster.Port()), fmt.Sprintf(":%d/", c.Port()), 1)
	})
}

// address forwards connections to the server that it names, as a host name does that follows the primary.
type address struct {
	listener net.Listener
	port     atomic.Int32 // of the server that it names
}

func (w *world) address() *address {
	w.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	a := &address{listener: l}
	a.port.Store(int32(w.system.Cluster.Port()))
	var group sync.WaitGroup
	group.Go(func() {
		for client, err := l.Accept(); err == nil; client, err = l.Accept() {
			server, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", a.port.Load()))
			if err != nil {
				client.Close()
				continue
			}
			for to, from := range map[net.Conn]net.Conn{client: server, server: client} {
				group.Go(func() {
					io.Copy(to, from) // either end may go at any time
					to.Close()
					from.Close()
				})
			}
		}
	})
	w.Cleanup(func() { l.Close(); group.Wait() })
	return a
}

// A sidecar's commits wait for a synchronous standby, so what somebody has seen is charged there. When the standby is
// promoted, it goes on with what is left as soon as the loopback leads there. Jobs that were under way are not read
// again under their charges, nor are the charges given back: the former primary may have released under them.
func TestAFailoverLosesNoCharge(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 4, 0)
	w.tool("pg_basebackup")
	w.exec(w.super, `ALTER SYSTEM SET synchronous_commit = off`)
	hand := w.worker()
	read := w.submit(0.75, `{}`)
	_, token := hand.claim()
	hand.read(read, token)
	charged := w.submit(0.625, `{}`)
	_, unread := hand.claim()
	w.exec(hand.conn, `SELECT dp_int.job_charge($1, $2, 1000, '{"pure": {"epsilon": 0.5}}', 0.5, 0.125, 0, '{}')`, charged, unread)

	name := w.address()
	port := name.listener.Addr().(*net.TCPAddr).Port
	w.exec(w.super, fmt.Sprintf(`ALTER SERVER dp_loop OPTIONS (SET port '%d')`, port))
	standby := w.clone("-R", "-d", w.system.Cluster.SuperuserURL("postgres")+"&application_name=second")
	w.exec(w.super, `ALTER SYSTEM SET synchronous_standby_names = 'second'`)
	w.exec(w.super, `SELECT pg_reload_conf()`)
	w.eventually("the standby is synchronous", func() bool {
		return one[bool](w, w.super, `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')`)
	})
	w.sidecar(func(c *job.Config) { c.Database.ConnConfig.Port = uint16(port) })
	w.eventually("a sidecar is there", func() bool { return one[int](w, w.super, `SELECT dp_int.sidecars_alive()`) > 0 })
	first := w.mustRegress(w.analyst, ask, w.dataset, 0.5)
	next := w.on(standby)

	// While the standby receives nothing, nothing new is answered.
	receiver, err := os.FindProcess(one[int](next.world, next.super, `SELECT pid FROM pg_stat_wal_receiver`))
	if err != nil {
		t.Fatal(err)
	}
	if err := receiver.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if out, err := regressWithin(ctx, w.connect(w.system.URL(w.person)), ask, w.dataset, 0.25); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("answered before the standby has the charge: %v, %v", out, err)
	}
	if err := receiver.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	second := w.mustRegress(w.connect(w.system.URL(w.person)), ask, w.dataset, 0.25)

	if err := w.system.Cluster.Halt(localpg.Kill); err != nil {
		t.Fatal(err)
	}
	next.exec(next.super, `SELECT pg_promote()`)
	if spent := next.spent(); spent != 1.75 {
		t.Errorf("spent %g after the failover", spent)
	}
	for eps, before := range map[float64][]term{0.5: first, 0.25: second} {
		if again := next.mustRegress(next.analyst, ask, w.dataset, eps); !reflect.DeepEqual(again, before) {
			t.Errorf("the new primary says %v, the old one said %v", again, before)
		}
	}
	_, err = regress(next.analyst, ask, w.dataset, 0.125)
	next.wantError(err, "DP003", "failed")
	if err := w.system.Cluster.Resume(context.Background()); err != nil {
		t.Fatal(err)
	}
	_, err = regress(next.connect(next.url(w.person)), ask, w.dataset, 0.125)
	next.wantError(err, "DP003", "another server, with a copy of this one's files")
	if err := w.system.Cluster.Halt(localpg.Kill); err != nil {
		t.Fatal(err)
	}

	// A worker of before the failover releases nothing here, and a steward gets no charge back.
	former := next.connect(next.url("dp_sidecar"))
	next.wantError(next.try(former, `SELECT dp_int.job_publish($1, $2, 'by hand', '{x}', '{1}')`, read, token), "55000", "no longer")
	next.exec(next.steward, `BEGIN`)
	if says := one[string](next.world, next.steward, `SELECT dp_abandon($1)`, charged); says != "it was abandoned already" {
		t.Errorf("dp_abandon says %q", says)
	}
	next.exec(next.steward, `ROLLBACK`)

	name.port.Store(int32(standby.Port()))
	next.eventually("the sidecar follows", func() bool {
		return one[int](next.world, next.super, `SELECT dp_int.sidecars_alive()`) > 0 && next.jobState(read) == "abandoned" && next.jobState(charged) == "abandoned"
	})
	next.mustRegress(next.connect(next.url(w.person)), ask, w.dataset, 0.125)
	if spent := next.spent(); spent != 1.875 {
		t.Errorf("spent %g", spent)
	}
	_, err = next.analyst.Exec(context.Background(), `SELECT * FROM dp_result($1)`, read)
	next.wantError(err, "DP004", "the former primary may have released the result")
	if wrong := next.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
}
