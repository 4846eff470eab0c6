package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/ledger"
	"dpsidecar/internal/privacy"
)

// explanation is the answer to a question of dp_explain. The database adds what
// the budget would be afterwards.
type explanation struct {
	Properties []property   `json:"properties"`
	Cost       *ledger.Cost `json:"cost,omitempty"`
	Warnings   []string     `json:"warnings"`
}

type property struct {
	Name  string `json:"property"`
	Value string `json:"value"`
}

func (e *explanation) add(name, value string) {
	e.Properties = append(e.Properties, property{name, value})
}

func (e *explanation) warn(format string, args ...any) {
	e.Warnings = append(e.Warnings, fmt.Sprintf(format, args...))
}

// explainAll answers questions until ctx ends, beside the workers: a long fit
// delays nobody who only asks. A question that was taken is answered even after ctx's end.
func (s *Sidecar) explainAll(ctx, working context.Context) {
	for ctx.Err() == nil {
		switch found, err := s.explainNext(working); {
		case err != nil && ctx.Err() == nil:
			s.log.Log(ctx, s.level(), "explanation failed", "error", err)
		case found:
			continue
		}
		select {
		case <-ctx.Done():
		case <-s.inquired:
		case <-time.After(jitter(10 * poll)):
		}
	}
}

// explainNext answers one question, if there is any.
func (s *Sidecar) explainNext(ctx context.Context) (found bool, err error) {
	var text []byte
	if err := s.autocommit.QueryRow(ctx, "SELECT dp_int.inquiry_take()").Scan(&text); err != nil || text == nil {
		return false, err
	}
	c := new(claim)
	if err := json.Unmarshal(text, c); err != nil {
		return true, fmt.Errorf("question: %w", err)
	}
	e, err := s.explain(ctx, c)
	if err != nil {
		return true, err
	}
	return true, s.autocommit.exec(ctx, "SELECT dp_int.inquiry_answer($1, $2)", c.ID, e)
}

// explain answers what a request would do, from public facts alone: it reads no
// value. The number of rows is the published one, or counted if there is none yet.
func (s *Sidecar) explain(ctx context.Context, c *claim) (*explanation, error) {
	e := &explanation{Warnings: []string{}}
	e.add("model", c.Model)
	n, err := s.publicRows(ctx, c)
	if err != nil {
		return e.impossible(err)
	}
	plan, err := s.plan(c, n)
	if err != nil {
		return e.impossible(planFailure(err))
	}
	if err := errors.Join(s.checkMemory(c, n), s.checkTime(plan)); err != nil {
		return e.impossible(err)
	}
	e.add("possible", "yes")
	e.addPlan(plan)
	e.add("expected_duration", roundDuration(s.ladder(plan).First))
	if err := e.addCost(c, plan.Event); err != nil {
		return nil, err
	}
	for j, width := range plan.Band {
		e.add("noise_band:"+c.terms()[j], strconv.FormatFloat(width, 'g', 3, 64))
	}
	e.addDoubts(c, n, plan)
	return e, s.addExpectedError(e, c, n)
}

// roundDuration writes a duration to a tenth of a second: forecasts are no better.
func roundDuration(d time.Duration) string {
	const least = 100 * time.Millisecond
	if d < least {
		return "under 0.1s"
	}
	return d.Round(least).String()
}

// impossible answers with the failure that a job would end with; any other error is
// returned.
func (e *explanation) impossible(err error) (*explanation, error) {
	var fail *failure
	if !errors.As(err, &fail) {
		return nil, err
	}
	e.add("possible", "no")
	e.add("sqlstate", fail.sqlstate)
	e.add("reason", fail.message)
	return e, nil
}

// publicRows returns the published number of rows, counted now if there is none.
func (s *Sidecar) publicRows(ctx context.Context, c *claim) (int64, error) {
	if c.Dataset.RowCount != nil {
		return *c.Dataset.RowCount, nil
	}
	return s.countRows(ctx, c.Dataset.ID, c.relation())
}

// addPlan adds method, reason and every public parameter.
func (e *explanation) addPlan(p *dpsco.Plan) {
	parameters := maps.Clone(p.Parameters)
	e.add("method", p.Method)
	for _, first := range []struct{ name, parameter string }{
		{"why", "why"}, {"rows", "rows"}, {"coefficients", "coefficients"}, {"iterations", "steps"}, {"noise_multiplier", "noise_multiplier"},
	} {
		if v, ok := parameters[first.parameter]; ok {
			e.add(first.name, formatParameter(v))
			delete(parameters, first.parameter)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		e.add(name, formatParameter(parameters[name]))
	}
}

// formatParameter is a public parameter as a person reads it.
func formatParameter(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return formatFloat(v)
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic("job: a parameter that is no JSON: " + err.Error())
	}
	return string(text)
}

func formatFloat(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// addCost adds what will be charged.
func (e *explanation) addCost(c *claim, event privacy.Event) error {
	text, err := privacy.MarshalEvent(event)
	if err != nil {
		return err
	}
	cost, err := ledger.Price(event)
	if err != nil {
		return err
	}
	e.Cost = &cost
	e.add("event", string(text))
	e.add("cost_epsilon", strconv.FormatFloat(c.Request.Eps, 'g', -1, 64))
	e.add("cost_delta", strconv.FormatFloat(c.Request.Delta, 'g', -1, 64))
	if cost.Rho != nil {
		e.add("cost_rho", *cost.Rho)
	}
	return nil
}

// addExpectedError adds the error to be expected from the noise, and what would lessen it.
func (s *Sidecar) addExpectedError(e *explanation, c *claim, n int64) error {
	algorithm, err := c.algorithm()
	if err != nil {
		return err
	}
	shape, budget, accountant := c.shape(n), c.budget(), s.accountant(c)
	expected, err := dpsco.Expect(algorithm, shape, budget, accountant)
	if err != nil {
		return err
	}
	if expected.Deviation == nil {
		e.add("expected_error", "not known: the noise of this method depends on the data")
	} else {
		e.add("expected_error", "forecast: the standard deviation that the noise alone gives each coefficient, for features and residuals as large as their scales; no bound")
		for j, term := range c.terms() {
			e.add("expected_error:"+term, strconv.FormatFloat(expected.Deviation[j], 'g', 3, 64))
		}
		if expected.Short > smallNoise {
			e.warn("because of so much noise the method takes steps so few or small that about %.0f%% of the way to the answer are left", 100*expected.Short)
		}
		e.addRowsNeeded(algorithm, shape, budget, accountant)
	}
	return nil
}

// smallNoise is the share of a scale below which warnings call noise small.
const smallNoise = 0.1

// addRowsNeeded adds how many rows would bring the noise below a tenth of the scale.
func (e *explanation) addRowsNeeded(a dpsco.Scaled, s dpsco.Shape, b privacy.Budget, accountant privacy.Accountant) {
	rows := dpsco.RowsFor(smallNoise, a.Inner(), s, b, accountant)
	if rows == 0 {
		e.warn("no number of rows brings the noise below a tenth of the scale: ask for more eps, fewer features or another method")
		return
	}
	e.add("rows_for_10_percent", strconv.Itoa(rows))
	if rows > s.N {
		e.warn("too few rows for %d coefficients at eps %v: noise beyond a tenth of the scale is to be expected; about %d rows would do, or more eps, or fewer features",
			s.D, b.Epsilon, rows)
	}
}

// addDoubts warns of scales, labels and budgets that look like oversights.
func (e *explanation) addDoubts(c *claim, n int64, plan *dpsco.Plan) {
	if !c.anyScale() && c.Request.Options["method"] == catalogue.MethodExponential {
		e.warn("without scales the exact sampler may not end within the time that a job may take, and the budget would be spent all the same")
	}
	if !c.anyScale() {
		e.warn("no scale is registered: were they forgotten? A steward registers typical magnitudes, from public knowledge")
	}
	if target := c.Request.Target; catalogue.Classifies(c.Model) && c.scale(target) != 1 {
		e.warn("%s is registered with scale %v and does not look like a label: only rows in which it is %v or %v are used; options negative_label and positive_label change that",
			target, c.scale(target), plan.Parameters["negative_label"], plan.Parameters["positive_label"])
	}
	if d := c.Request.Delta; d > 0 && d*float64(n) > 1 {
		e.warn("delta is above one in the number of rows: it would allow a method to publish somebody's row now and then")
	}
	if c.Request.Eps > 10 {
		e.warn("eps %v promises little: one person may change the probability of an answer by a factor of e^%v", c.Request.Eps, c.Request.Eps)
	}
}
