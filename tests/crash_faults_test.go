package tests

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"dpsidecar/internal/localpg"
)

// fault is one way to disturb a sidecar that has come to a moment. What it
// breaks for good is mended when the round is over.
type fault struct {
	name       string
	everywhere bool // for every sidecar, and again when it is back; else once
	large      bool // some ask for a large table
	moments    []moment
	happen     func(*crash, *process)
}

// killed is the fault of all faults; gone leaves nobody to go on.
var (
	killed = fault{"killed", true, false, moments, (*crash).kill}
	gone   = fault{"killed for good", true, false, moments, func(c *crash, p *process) { c.kills.Add(1); p.signal(syscall.SIGKILL); p.cut(); c.later(p.kill) }}
)

func (c *crash) faults() []fault {
	early := []moment{atAnyTime, atClaimed, atPlanned, atCharged, atReading}
	all := []fault{
		{"stopped for longer than its lease", false, false, moments[1:], func(c *crash, p *process) {
			p.signal(syscall.SIGSTOP)
			time.Sleep(lease + lease/2)
			p.signal(syscall.SIGCONT)
		}},
		{"connections cut", true, false, moments, func(_ *crash, p *process) { p.cut() }},
		{"sidecars' backends killed", true, false, moments, func(c *crash, _ *process) { c.terminate("dp_sidecar") }},
		{"loopbacks killed", false, false, moments, func(c *crash, _ *process) { c.terminate("dp_loopback%") }},
		{"callers killed", false, false, moments, func(c *crash, _ *process) { c.terminate("crash%") }},
		{"callers canceled", true, false, moments, func(c *crash, _ *process) {
			_ = runAs(c.system.SuperuserURL(), `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename LIKE 'crash%' AND random() < 0.5`)
		}},
		{"jobs canceled", true, false, moments, func(c *crash, _ *process) {
			_ = runAs(c.system.SuperuserURL(), `SELECT dp_int.cancel(caller, id) FROM dp_int.job WHERE finished_at IS NULL AND random() < 0.5`)
		}},
		{"Postgres restarted at once", false, false, moments, func(c *crash, _ *process) { c.restartPostgres(localpg.Immediate) }},
		{"Postgres killed", false, false, moments, func(c *crash, _ *process) { c.restartPostgres(localpg.Kill) }},
		{"SELECT revoked", false, false, early, func(c *crash, p *process) {
			c.change(p, `REVOKE SELECT ON public.few, public.more FROM dp_sidecar`, `GRANT SELECT ON public.few, public.more TO dp_sidecar`)
		}},
		{"column's type changed", false, false, early, func(c *crash, p *process) {
			c.change(p, `ALTER TABLE public.few ALTER z TYPE text`, `ALTER TABLE public.few ALTER z TYPE float8 USING z::float8`)
		}},
		{"column dropped", false, false, early, func(c *crash, p *process) {
			c.change(p, `ALTER TABLE public.few RENAME z TO w`, `ALTER TABLE public.few RENAME w TO z`)
		}},
		{"table replaced", false, false, early, func(c *crash, p *process) {
			c.change(p, `ALTER TABLE public.few RENAME TO gone; CREATE TABLE public.few AS TABLE public.gone; GRANT SELECT ON public.few TO dp_sidecar`,
				`DROP TABLE public.few; ALTER TABLE public.gone RENAME TO few`)
		}},
		{"rows added and gone", false, false, early, func(c *crash, p *process) {
			c.change(p, `INSERT INTO public.few SELECT * FROM public.few; DELETE FROM public.more WHERE random() < 0.1`, `SELECT`)
		}},
		{"table locked", false, false, early, func(c *crash, p *process) {
			go runAs(c.system.SuperuserURL(), `BEGIN; SET LOCAL lock_timeout = '1s'; LOCK TABLE public.few; SELECT pg_sleep(2); COMMIT`)
		}},
		{"disk full", false, false, []moment{atAnyTime, atClaimed, atPlanned, atCharged, atCopying, atComputed}, func(c *crash, _ *process) {
			c.change(nil, `UPDATE public.disk SET "full" = true`, `UPDATE public.disk SET "full" = false`)
			c.after(time.Second, func() { _ = runAs(c.system.SuperuserURL(), `UPDATE public.disk SET "full" = false`) })
		}},
	}
	if _, err := exec.LookPath("prlimit"); err == nil {
		all = append(all,
			fault{"disk full under the log", false, false, []moment{atPlanned, atEntering, atComputed}, (*crash).fillLogDisk},
			fault{"memory limit reached", false, true, []moment{atClaimed, atPlanned, atReading, atCopying}, (*crash).fillMemory})
	}
	return all
}

// kill ends the sidecar and starts it again a little later.
func (c *crash) kill(p *process) {
	c.kills.Add(1)
	p.signal(syscall.SIGKILL)
	p.cut()
	c.after(time.Duration(rand.IntN(100))*time.Millisecond, func() {
		p.kill()
		_ = p.start() // the round's end tries again
	})
}

func (c *crash) terminate(who string) {
	_ = runAs(c.system.SuperuserURL(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename LIKE '`+who+`'`) // Postgres may be away
}

func (c *crash) restartPostgres(mode localpg.Mode) {
	c.restart.Lock()
	go func() {
		defer c.restart.Unlock()
		if err := c.system.Cluster.Restart(context.Background(), mode); err != nil {
			c.Error(err)
		}
	}()
	time.Sleep(20 * time.Millisecond) // the message that is held finds nobody
}

// change does something to a table as soon as nobody reads it: a sidecar that
// stands in the way is killed.
func (c *crash) change(p *process, do, undo string) {
	if p != nil {
		c.kill(p)
	}
	c.later(func() { c.admin(undo) })
	if err := runAs(c.system.SuperuserURL(), `BEGIN; SET LOCAL lock_timeout = '5s'; `+do+`; COMMIT`); err != nil {
		c.Logf("not done: %v", err)
	}
}

// fillLogDisk lets the sidecars' backends write no further byte to any file: the
// first that must write to the log of transactions takes the server down.
func (c *crash) fillLogDisk(*process) {
	for _, pid := range c.queryTexts(`SELECT pid::text FROM pg_stat_activity WHERE usename = 'dp_sidecar'`) {
		limit := exec.Command("prlimit", "--pid", pid, "--fsize=0")
		if owner, err := os.Stat("/proc/" + pid); err == nil && os.Geteuid() == 0 { // the server is another user's
			s := owner.Sys().(*syscall.Stat_t)
			limit.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: s.Uid, Gid: s.Gid}}
		}
		if out, err := limit.CombinedOutput(); err != nil {
			c.Logf("backend %s is not limited: %s", pid, out) // it may be gone
		}
	}
}

// fillMemory lets the sidecar have no more memory than it has: the Go runtime
// ends a program that needs more.
func (c *crash) fillMemory(p *process) {
	p.mu.Lock()
	pid := p.pid
	p.mu.Unlock()
	_ = exec.Command("prlimit", "--pid", strconv.Itoa(pid), "--data=1").Run()
	c.after(time.Second, func() {
		if strings.Contains(p.log.String(), "cannot allocate memory") || strings.Contains(p.log.String(), "out of memory") {
			c.Log("a sidecar ran out of memory")
		}
		p.kill()
		_ = p.start()
	})
}
