package job

import (
	"context"
	"slices"
	"sync"
	"time"

	"dpsidecar/internal/ledger"
	"dpsidecar/internal/privacy"
)

// An answer that was drawn and could not be published is kept until it is: any login can make the
// database refuse a publication (it can fill the table of locks, or the queue of notifications), at a step
// of its choice and after rows were written, whose bytes the position of the log shows. Were the job drawn
// again, its one charge would pay for as many draws as somebody wants to see a part of.

// mostDrawn is the largest number of answers that are kept, the newest. Of older ones only the jobs are
// known: they are parked, and not drawn again by this sidecar.
const mostDrawn = 200

// drawn holds the answers of jobs that are not published yet.
type drawn struct {
	mutex sync.Mutex
	of    map[string]*answer // by job; nil: drawn, but not kept
	order []string           // jobs whose answers are kept, the oldest first
}

// answer is what an attempt has drawn, and the time of the snapshot in which it saw the rows.
type answer struct {
	fitted
	snapshot time.Time
}

// paidBy reports whether the charge of a job that reads is that of the plan that was drawn: one for as many rows too, which
// not every event tells.
func (a *answer) paidBy(c *claim) bool {
	event, err := privacy.UnmarshalEvent(c.Event)
	return err == nil && sameEvent(event, a.plan.Event) && c.RowCount != nil && *c.RowCount == int64(a.plan.Shape.N)
}

// keep stores the answer of a job, and returns the one that is to be published: an earlier one, where there is one. A sidecar
// has one attempt at a job at a time (turns), which has looked for an earlier answer before it drew this one.
func (d *drawn) keep(job string, a answer) *answer {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.of == nil {
		d.of = map[string]*answer{}
	}
	if earlier, ok := d.of[job]; ok {
		return earlier
	}
	if len(d.order) == mostDrawn {
		d.of[d.order[0]] = nil
		d.order = d.order[1:]
	}
	d.of[job] = &a
	d.order = append(d.order, job)
	return &a
}

// find returns the answer of a job; ok is false if none was drawn.
func (d *drawn) find(job string) (a *answer, ok bool) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	a, ok = d.of[job]
	return a, ok
}

// forget drops the answer of a job that is published.
func (d *drawn) forget(job string) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	delete(d.of, job)
	d.order = slices.DeleteFunc(d.order, func(other string) bool { return other == job })
}

// notKept parks a job that was drawn and whose answer is not kept.
const notKept parked = "its answer could not be published, and too many others wait for that"

// drawnFor returns what an earlier attempt has drawn under the charge of a job. If that charge was lost, in a failover or with a
// dump that was put back, the answer is dropped: the charge of now pays for another plan.
func (s *Sidecar) drawnFor(c *claim) (a *answer, ok bool) {
	a, ok = s.drawn.find(c.ID)
	if ok && (!c.reading() || a != nil && !a.paidBy(c)) {
		s.drawn.forget(c.ID)
		return nil, false
	}
	return a, ok
}

// again passes the point of no return once more, with a ladder that begins now, and returns what an earlier
// attempt has drawn.
func (s *Sidecar) again(ctx context.Context, c *claim, a *answer, reads chan<- timetable) fitted {
	if a == nil {
		return fitted{err: notKept}
	}
	l := s.ladder(a.plan)
	var wanted bool // a job that is reading always is
	if err := s.autocommit.QueryRow(ctx, "SELECT dp_int.job_read($1, $2, $3, $4, $5)", c.ID, c.Token, l.First, l.Last, a.snapshot).Scan(&wanted); err != nil {
		return fitted{err: refusedAsParked(ledger.Explain(err))}
	}
	reads <- timetable{l, time.Now()}
	return a.fitted
}
