package job

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"gonum.org/v1/gonum/mat"

	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/ledger"
	"dpsidecar/internal/mech"
)

// From the point of no return on, the duration of a job depends on the data. Everything that users can
// observe of it (its end, its failure, the start of the next job) happens at a step of its ladder, a
// sequence of times fixed before. An outcome that is ready earlier waits for the next step, and occupies
// its worker until then.

// errOutOfTime ends a job that is not done at the last step of its ladder.
var errOutOfTime = errors.New("the job did not end within its time")

// timetable is the ladder of a job and the time when it began to read.
type timetable struct {
	plan.Ladder
	began time.Time
}

// fitted is the outcome of reading and fitting.
type fitted struct {
	plan   *plan.Plan
	result release.Result
	err    error
}

func (s *Sidecar) ladder(p *plan.Plan) plan.Ladder { return plan.NewLadder(p, s.config.JobTime) }

// checkTime refuses a plan that is expected to exceed the time limit of jobs.
func (s *Sidecar) checkTime(p *plan.Plan) error {
	if p.Duration() <= s.config.JobTime {
		return nil
	}
	return &failure{"DP005", fmt.Sprintf("reading and fitting would take about %v, a job may take %v", p.Duration().Round(time.Second), s.config.JobTime),
		"Ask for fewer features, fewer steps or another method, or let an operator raise job-time. " + nothingSpent}
}

// run takes a claimed job to its release. The privacy guarantee depends on the order: locks, the check that
// the relation is the registered one, number of rows, plan, charge, point of no return, then the data, and
// a public time before anything can be observed.
//
// leased ends, before ctx, when the lease is lost. Somebody may have chosen that moment: any login can have renewals fail, by
// taking all locks that the server has room for. So an attempt that has begun to read ends at its next step then, and not before.
func (s *Sidecar) run(ctx, leased context.Context, c *claim) error {
	working, stop := context.WithCancel(ctx)
	defer stop()
	reads, ended := make(chan timetable, 1), make(chan fitted, 1)
	go func() {
		defer close(reads)
		ended <- s.fit(working, c, reads)
	}()
	var t timetable
	var reading bool
	select {
	case t, reading = <-reads:
	case <-leased.Done():
		stop()
		t, reading = <-reads
	}
	if !reading {
		return (<-ended).err
	}
	f, step, err := t.wait(ctx, leased, ended)
	if err != nil {
		return err
	}
	stop() // what ends after its step is not kept
	if f.err == nil {
		f = s.keep(c, f)
	}
	if err := s.config.sleepUntil(ctx, t.began.Add(t.Step(step))); err != nil {
		return err
	}
	if f.err == nil { // the fit has ended, and reads c no more
		c.Token = s.turns.token(c.ID)
	}
	err = s.publish(ctx, c, f, step)
	if err == nil {
		s.drawn.forget(c.ID)
	}
	return err
}

// wait waits for the outcome of an attempt, and returns it with its step: the last one at the latest, and where the lease is
// lost the next one. Of an attempt that has not ended by then the outcome is an error.
//
// Errors: that of ctx, when the sidecar shuts down or nobody wants the job.
func (t timetable) wait(ctx, leased context.Context, ended <-chan fitted) (f fitted, step int, err error) {
	f, step = fitted{err: errOutOfTime}, t.Last
	late := time.NewTimer(time.Until(t.began.Add(t.End())))
	defer late.Stop()
	lost := leased.Done()
	for {
		select {
		case <-ctx.Done():
			return f, step, ctx.Err()
		case f = <-ended:
			return f, t.At(time.Since(t.began)), nil
		case <-late.C:
			return f, step, nil
		case <-lost:
			lost, f.err, step = nil, ledger.ErrLost, t.At(time.Since(t.began))
			late.Reset(time.Until(t.began.Add(t.Step(step))))
		}
	}
}

// keep keeps what an attempt has drawn until it is published.
func (s *Sidecar) keep(c *claim, f fitted) fitted {
	if a := s.drawn.keep(c.ID, answer{f, c.snapshot}); a != nil {
		return a.fitted
	}
	return fitted{err: notKept}
}

// fit reads and fits, or returns what an earlier attempt of this sidecar has drawn. A panic becomes an error
// that gives only the functions where it occurred: a value may have caused it, so the message must not be
// printed and the program must not end.
func (s *Sidecar) fit(ctx context.Context, c *claim, reads chan<- timetable) (f fitted) {
	debug.SetPanicOnFault(true) // a fault while reading rows on disk becomes a panic, which is recovered: it neither ends the program nor prints memory
	defer func() {
		if v := recover(); v != nil {
			f = fitted{err: mech.CatchPanic(v)}
			s.log.Error("panic", "job", c.ID, "error", f.err)
		}
	}()
	if a, ok := s.drawnFor(c); ok {
		return s.again(ctx, c, a, reads)
	}
	src := mech.NewSource()
	defer func() { c.disk.Close(); c.nodes.close() }() // nothing uses the rows after this
	var x table.Data
	f.err = s.inSnapshot(ctx, func(conn *pgx.Conn) (err error) {
		if f.plan, x, err = s.read(ctx, conn, c, src, reads); err == nil && c.at == inDatabase {
			f.result, err = s.sum(ctx, conn, c, f.plan, x, src)
		}
		return err
	})
	if f.err == nil && c.at != inDatabase {
		f.result, f.err = s.runTimed(ctx, f.plan, x, src)
	}
	return f
}

// runTimed runs the plan and reports its duration to operators.
func (s *Sidecar) runTimed(ctx context.Context, p *plan.Plan, x table.Data, src *mech.Source) (release.Result, error) {
	began := time.Now()
	r, err := s.config.runPlan(ctx, p, x, src)
	if err == nil {
		s.config.Watch.Ran(time.Since(began))
	}
	return r, err
}

// runPlan runs the plan.
func runPlan(ctx context.Context, p *plan.Plan, x table.Data, src *mech.Source) (release.Result, error) {
	return p.Run(ctx, x, src)
}

// sleepUntil returns at the given time, or earlier with the context's error.
func sleepUntil(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// publish publishes a job's result at the time of its step, or returns the reason why there is none. A panic
// is one, as in fit.
func (s *Sidecar) publish(ctx context.Context, c *claim, f fitted, step int) (err error) {
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("panic", "job", c.ID, "error", mech.CatchPanic(v))
			err = fitPanicked
		}
	}()
	var panicked *mech.CaughtPanic
	switch {
	case errors.As(f.err, &panicked):
		return fitPanicked
	case f.err != nil:
		return f.err
	}
	switch {
	case c.Scored != nil:
		return s.publishScore(ctx, c, f, step)
	case c.describes():
		return s.publishDescription(ctx, c, f, step)
	case c.sumsMoments():
		return s.publishMoments(ctx, c, f, step)
	}
	if f.result.Groups != nil {
		return s.publishGroups(ctx, c, f, step)
	}
	err = s.autocommit.exec(ctx, "SELECT dp_int.job_publish($1, $2, $3, $4, $5, $6, $7, $8)",
		c.ID, c.Token, f.plan.Method, c.terms(), f.result.Coefficients, f.plan.Band, step, c.naming().knownErrors(f.result))
	return ledger.Explain(err)
}

// errorColumns holds the estimated errors of the coefficients as columns for the database: one value for
// each coefficient, nil if unknown; of a matrix, each row up to the diagonal.
type errorColumns struct {
	StdErr     []any  `json:"std_err,omitempty"`
	DF         []any  `json:"df,omitempty"`
	Low        []any  `json:"low,omitempty"`
	High       []any  `json:"high,omitempty"`
	PValue     []any  `json:"p_value,omitempty"`
	Covariance []any  `json:"covariance,omitempty"`
	Bias       []any  `json:"bias,omitempty"`
	Noise      []any  `json:"noise,omitempty"`
	WhyNulls   []any  `json:"why_nulls,omitempty"`
	WhyNull    string `json:"why_null,omitempty"` // the reason if it is the same for all coefficients
	Cut        bool   `json:"cut,omitempty"`      // a radius may have moved coefficients

	HuberDelta float64 `json:"huber_delta,omitempty"` // of the loss that the coefficients minimise; 0: it has none
}

// columns returns the columns that have a value for each coefficient.
func (e *errorColumns) columns() []*[]any {
	return []*[]any{&e.StdErr, &e.DF, &e.Low, &e.High, &e.PValue, &e.Covariance, &e.Bias, &e.Noise, &e.WhyNulls}
}

// naming says what the coefficients of a release are of.
type naming struct {
	model string
	terms []string
	flags []string // terms that are always 0 or 1: boolean columns and levels, which have neither center nor scale
}

func (c *claim) naming() naming {
	d := naming{model: c.Model, terms: c.terms()}
	for _, f := range c.Request.Features {
		if c.isFlag(f) {
			d.flags = append(d.flags, c.slopesOf(f)...)
		}
	}
	return d
}

// knownErrors returns the errors that a result estimates. JSON cannot hold numbers that are not finite, and
// they would fail the job, which would be tried again with other noise: if one occurs there are no intervals.
func (d naming) knownErrors(r release.Result) (e errorColumns) {
	switch {
	case !finite(r):
		e.WhyNull = "the noise has left no finite interval"
	case r.Low == nil:
		e.WhyNull = d.whyNull(r)
	default:
		e = errorColumns{StdErr: boxed(r.StdErr), DF: boxed(r.DF), Low: boxed(r.Low), High: boxed(r.High), PValue: boxed(r.PValues()), Covariance: triangle(r.Covariance), Bias: triangle(r.Bias)}
		e.withhold(r, d)
	}
	for _, v := range r.Noise() {
		if isNotFinite(v) {
			e.Noise = append(e.Noise, nil)
		} else {
			e.Noise = append(e.Noise, v)
		}
	}
	e.Cut, e.HuberDelta = r.Cut, r.HuberDelta
	return e
}

// withhold removes the estimates for coefficients that the result withholds, and sets the reason for each.
func (e *errorColumns) withhold(r release.Result, d naming) {
	for j := range d.terms {
		if !r.Withholds(j) {
			continue
		}
		for _, column := range e.columns() {
			if *column != nil {
				(*column)[j] = nil
			}
		}
		if e.WhyNulls == nil {
			e.WhyNulls = make([]any, len(d.terms))
		}
		if e.WhyNulls[j] = d.whyNull(r); slices.Contains(r.Unsettled, j) {
			e.WhyNulls[j] = d.whyUnsettled(j)
		}
	}
}

// whyUnsettled returns the reason why a coefficient of labels has no interval that the last step moves too far, or the
// intercept beside it.
func (d naming) whyUnsettled(j int) string {
	switch term := d.terms[j]; {
	case term == interceptTerm:
		return "the last step moves the intercept, or a coefficient that it depends on, too far to say how much is left; ask for more eps"
	case slices.Contains(d.flags, term):
		return "the last step moves " + strconv.Quote(term) + " too far to say how much is left: are labels nearly all alike where it is set? Leave it out, or ask for more eps"
	default:
		return "the last step moves " + strconv.Quote(term) + " too far to say how much is left: do a few rows with large values decide? Ask for more eps, or give it a scale that fits"
	}
}

// whyNull returns the reason why a release lacks intervals, for some features or for all.
func (d naming) whyNull(r release.Result) string {
	flags := 0 // among the hidden features
	for _, j := range r.Hidden {
		if slices.Contains(d.flags, d.terms[j]) {
			flags++
		}
	}
	name := func(of []int) string {
		var names []string
		for _, j := range of {
			names = append(names, strconv.Quote(d.terms[j]))
		}
		return strings.Join(names, " and ")
	}
	few := ", or do few rows have a value in every column"
	if len(r.LeftOut) > 0 {
		names, have, left := name(r.LeftOut), "has", "Its coefficient is 0"
		if len(r.LeftOut) > 1 {
			have, left = "have", "Their coefficients are 0"
		}
		return "noise hides how large the values of " + names + " are, which " + have + " no scale: are nearly all 0" + few + "? " + left + "; register scales, or ask for more eps"
	}
	if d.model == "logistic" {
		few = ", or do few rows have one of the two labels and a value in every column"
	}
	switch names := name(r.Hidden); {
	case len(r.Hidden) == 0:
		return r.WhyNull
	case len(r.Hidden) == 1:
		alike := ""
		switch d.model {
		case "logistic":
			alike = ", or are labels nearly all alike where it is set"
		case "poisson":
			alike = ", or are counts nearly all 0 where it is set"
		}
		if flags == 1 {
			return "noise hides how " + names + " varies: is it rare, or set in nearly all rows" + alike + few + "? Leave it out, or ask for more eps"
		}
		return "noise hides how " + names + " varies: is it constant, a rare flag, far from 0 or its scale far larger than it varies" + alike + few + "? Leave it out, give it a center and a scale that fit, or ask for more eps"
	case flags == len(r.Hidden):
		return "noise hides a direction of " + names + ": does one follow from the others, or are they rare or set in nearly all rows" + few + "? Leave them out, or ask for more eps"
	default:
		return "noise hides a direction of " + names + ": does one follow from the others, or are they constant, rare flags or their scales too large" + few + "? Leave them out, give numbers scales that fit, or ask for more eps"
	}
}

// finite reports whether all estimates are finite, p-values too, and all standard errors and degrees of
// freedom positive. The p-values of finite numbers are not finite where an interval is longer than float64
// can say.
func finite(r release.Result) bool {
	numbers := slices.Concat(r.StdErr, r.DF, r.Low, r.High)
	for _, m := range []*mat.SymDense{r.Covariance, r.Bias} {
		if m != nil {
			numbers = append(numbers, mat.DenseCopyOf(m).RawMatrix().Data...)
		}
	}
	return !slices.ContainsFunc(numbers, isNotFinite) && !slices.ContainsFunc(slices.Concat(r.StdErr, r.DF), func(v float64) bool { return v <= 0 }) &&
		!slices.ContainsFunc(r.PValues(), isNotFinite)
}

func isNotFinite(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }

// boxed returns the values as a list for JSON; nil for no values.
func boxed[T any](values []T) (list []any) {
	for _, v := range values {
		list = append(list, v)
	}
	return list
}

// triangle returns the rows of a matrix, each up to the diagonal; nil for a nil matrix.
func triangle(m *mat.SymDense) (rows []any) {
	if m == nil {
		return nil
	}
	for i := range m.SymmetricDim() {
		row := make([]float64, i+1)
		for k := range row {
			row[k] = m.At(i, k)
		}
		rows = append(rows, row)
	}
	return rows
}
