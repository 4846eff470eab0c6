package job

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/ledger"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// explanation is the answer to a question of dp_explain. The database adds the budget that would remain,
// and warnings.
type explanation struct {
	Properties []property   `json:"properties"`
	Cost       *ledger.Cost `json:"cost,omitempty"`
}

type property struct {
	Name  string `json:"property"`
	Value string `json:"value"`
}

func (e *explanation) add(name, value string) {
	e.Properties = append(e.Properties, property{name, value})
}

// explainers is the number of questions that are answered at a time. For all but one of them rows may be counted, so that
// others are answered meanwhile.
const explainers = 3

// countTime bounds how long rows are counted for a question. A question that has no answer after
// dp_int.inquiry_lease() is given out again, and its caller waits for dp_int.answer_patience().
const countTime = 25 * time.Second

// explainAll answers questions until ctx ends. It does not use the workers, so that a long fit does not
// delay answers. A question that was taken is answered even if ctx ends meanwhile.
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

// explainNext answers one question, if there is any, and has the next one answered meanwhile.
func (s *Sidecar) explainNext(ctx context.Context) (found bool, err error) {
	var text []byte
	if err := s.autocommit.QueryRow(ctx, "SELECT dp_int.inquiry_take()").Scan(&text); err != nil || text == nil {
		return false, err
	}
	signal(s.inquired)
	c := new(claim)
	if err := json.Unmarshal(text, c); err != nil {
		return true, fmt.Errorf("question: %w", err)
	}
	e, err := s.answer(ctx, c)
	if err != nil {
		return true, err
	}
	return true, s.autocommit.exec(ctx, "SELECT dp_int.inquiry_answer($1, $2)", c.ID, e)
}

// answer calls explain and turns a panic into an answer: it must not end the program, and it would recur
// whenever the question is asked again.
func (s *Sidecar) answer(ctx context.Context, c *claim) (e *explanation, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("panic", "error", mech.CatchPanic(v))
			e, err = new(explanation).impossible(&failure{sqlstate: "DP004", message: "a fault in dpsidecar: an operator sees in its log where"})
		}
	}()
	return s.explain(ctx, c)
}

// explain describes the job that a request would start, from public facts only: it reads no values. The
// number of rows is the published one; without one the rows are counted.
func (s *Sidecar) explain(ctx context.Context, c *claim) (*explanation, error) {
	e := new(explanation)
	e.add("model", c.Model)
	n, err := s.publicRows(ctx, c)
	if err != nil {
		return e.impossible(err)
	}
	n = c.sampled(c.atLeast(n))
	plan, at, err := s.check(c, n)
	if err != nil {
		return e.impossible(err)
	}
	e.add("possible", "yes")
	e.addPlan(plan)
	if plan.Passes > 0 {
		e.add("passes", strconv.Itoa(plan.Passes))
	}
	e.add("placement", string(at))
	if w := c.window(); w != nil {
		e.add("over", w.From+" until before "+w.To)
	}
	if len(c.Request.WhereLevel) > 0 {
		e.add("where_level", formatParameter(c.Request.WhereLevel)+": rows of other levels say nothing. How many count is private: figures here are those of all rows")
	}
	e.add("expected_duration", roundDuration(s.ladder(plan).First))
	if err := e.addCost(c, plan.Event); err != nil {
		return nil, err
	}
	for j, width := range plan.Band {
		e.add("noise_band:"+c.terms()[j], strconv.FormatFloat(width, 'g', 3, 64))
	}
	if c.Scored != nil || c.describes() || c.sumsMoments() {
		return e, nil // their releases state their own errors
	}
	return e, s.addExpectedError(e, c, n, plan)
}

// roundDuration formats a duration to a tenth of a second: forecasts are not more accurate.
func roundDuration(d time.Duration) string {
	const least = 100 * time.Millisecond
	if d < least {
		return "under 0.1s"
	}
	return d.Round(least).String()
}

// impossible answers with the failure with which a job would end. It removes nothingSpent from the hint,
// because a question never spends budget. Other errors are returned.
func (e *explanation) impossible(err error) (*explanation, error) {
	var fail *failure
	if !errors.As(err, &fail) {
		return nil, err
	}
	e.add("possible", "no")
	e.add("sqlstate", fail.sqlstate)
	e.add("reason", fail.message)
	if hint := strings.TrimSpace(strings.TrimSuffix(fail.hint, nothingSpent)); hint != "" {
		e.add("hint", hint)
	}
	return e, nil
}

// publicRows returns the published number of rows; without one it counts them.
//
// Errors: a failure if that takes longer than countTime, or rows are counted for others.
func (s *Sidecar) publicRows(ctx context.Context, c *claim) (int64, error) {
	if c.Dataset.RowCount != nil {
		return *c.Dataset.RowCount, nil
	}
	notCounted := &failure{"DP004", "the rows are not counted yet", "A request counts them in the time that it needs. To have it explained, ask again once dp.datasets shows row_count. " + nothingSpent}
	if c.window() != nil {
		notCounted.hint = "A request counts them in the time that it needs. To have it explained, ask again, or about a shorter window. " + nothingSpent
	}
	select {
	case s.counting <- struct{}{}:
		defer func() { <-s.counting }()
	default:
		return 0, notCounted
	}
	limited, done := context.WithTimeout(ctx, countTime)
	defer done()
	n, err := s.countRows(limited, c.Dataset.ID, c.relation(), c.persons())
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		signal(s.registered)
		return 0, notCounted
	}
	return n, err
}

// addPlan adds the method, the reason for its choice and every public parameter.
func (e *explanation) addPlan(p *plan.Plan) {
	parameters := maps.Clone(p.Parameters)
	method := p.Method
	if p.ChosenMethod != "" {
		method = fmt.Sprintf("%s (%s)", p.Method, p.ChosenMethod)
	}
	e.add("method", method)
	for _, first := range []struct{ name, parameter string }{
		{"why", "why"}, {"rows", "rows"}, {"coefficients", "coefficients"}, {"iterations", "steps"}, {"noise_multiplier", "noise_multiplier"},
	} {
		if v, ok := parameters[first.parameter]; ok {
			if _, several := parameters["max_rows"]; several && first.name == "rows" {
				first.name = "persons"
			}
			e.add(first.name, formatParameter(v))
			delete(parameters, first.parameter)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		e.add(name, formatParameter(parameters[name]))
	}
}

// formatParameter formats a public parameter for people.
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

// addCost adds the charge that the job would have.
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
	e.add("event", strings.ReplaceAll(string(text), "},{", "},\n{")) // one mechanism a line, because psql makes a table as wide as its longest line
	e.add("cost_epsilon", strconv.FormatFloat(c.Request.Eps, 'g', -1, 64))
	e.add("cost_delta", strconv.FormatFloat(c.Request.Delta, 'g', -1, 64))
	if cost.Rho != nil {
		e.add("cost_rho", *cost.Rho)
	}
	if _, only := event.(privacy.Only); only {
		e.add("first_request", "yes: nothing is charged yet, so it has less noise than the same request has later")
	}
	return nil
}

// former is an earlier release of the same coefficients whose errors may forecast those of the planned fit.
type former struct {
	Release         string
	Eps             float64
	Method          string
	WhyNull         *string `json:"why_null"` // why some or all coefficients have no intervals
	Rows            float64
	NoiseMultiplier float64            `json:"noise_multiplier"`
	Noise           map[string]float64 // standard deviation of the noise of terms, in the table's units, without those of which it is unknown; nil if it is of all
}

// similarNoise bounds the ratio of the noise of a plan to that of a release, in either direction, within
// which the release gives a forecast: the clipping thresholds of rows and residuals, and the shrinkage,
// change with the noise.
const similarNoise = 1.5

// whyNoEstimate lists the reasons why a release may have no estimate of its noise.
const whyNoEstimate = "Noise hid too much of how features spread and go together, it left nothing of the coefficients or moved all of them far, it made fits on the way wrong by a good part of the residuals, a few rows carry them, the radius moves them, or this method never tells"

// movedTooFar explains why there is no forecast for a term where others have one.
const movedTooFar = "not known: noise or the last step of that release moves it so far that how much its rows tell differs between releases; ask with more eps; a feature that few rows have can be left out"

// forecast returns the standard deviation of the noise of a term, at the given ratio to that of the release, or why it is
// not known.
func (f *former) forecast(term string, ratio float64) string {
	if noise, known := f.Noise[term]; known {
		return strconv.FormatFloat(ratio*noise, 'g', 3, 64)
	}
	return movedTooFar
}

// penalisedError explains why there is no forecast for a fit with a penalty.
const penalisedError = "not known: a penalty takes away a part of the noise too, and all of it from coefficients that it makes 0. Without the penalty there would be more"

// unknownError explains why there is no forecast without an earlier release.
const unknownError = "not known: it depends on how far features spread, how they go together, how rarely flags hold and how far residuals reach. None of that is public, and no release of these coefficients tells of it"

func penalised(p *plan.Plan) bool {
	penalty, known := p.Parameters["penalty"].(string)
	return known && penalty != catalogue.PenaltyNone
}

// forecastRatio returns the ratio of the noise of a plan to that of the earlier release, or why the release gives
// no forecast for this plan.
func (f *former) forecastRatio(p *plan.Plan) (ratio float64, why string) {
	if penalised(p) {
		return 0, penalisedError
	}
	z, known := p.Parameters["noise_multiplier"].(float64)
	rows, counted := p.Parameters["rows"].(int)
	if f == nil || !known || !counted || !(f.NoiseMultiplier > 0 && f.Rows > 0) {
		return 0, unknownError
	}
	taken, of := cmp.Or(p.ChosenMethod, p.Method), f.Method
	same := of == taken
	if of == catalogue.MethodAuto { // of its methods one tells of its noise, for each model
		of, same = "a default method that tells of its noise", f.Noise == nil || taken == catalogue.MethodJointMoments || taken == catalogue.MethodNewton
	}
	ratio = z / f.NoiseMultiplier * f.Rows / float64(rows)
	switch from := fmt.Sprintf("release %s at eps %v", f.Release, f.Eps); {
	case !same:
		return 0, fmt.Sprintf("not known: the method at this budget is %s, and %s is of %s, whose noise does other things", taken, from, of)
	case f.Noise == nil && f.WhyNull != nil:
		return 0, fmt.Sprintf("not known: %s does not tell. %s; of its intervals it says: %s", from, whyNoEstimate, *f.WhyNull)
	case f.Noise == nil:
		return 0, fmt.Sprintf("not known: %s does not tell. %s", from, whyNoEstimate)
	case ratio > similarNoise || ratio < 1/similarNoise:
		return 0, fmt.Sprintf("not known at this budget: %s is the nearest that tells of its noise, and it tells of noise up to %v times as large or small only", from, similarNoise)
	}
	return ratio, ""
}

// unknownGroupError explains why there is no forecast for fits by groups.
const unknownGroupError = "not known: it depends on how many rows each group has, which is not public, and on their features and residuals. noise_at_scales is that of groups of equal size; one with a quarter of their rows has about four times as much"

// findsUnits is what a forecast takes for granted where the fit looks for scales and centers that are not registered
// (TestHowOftenACentreIsMissed).
const findsUnits = "; it holds where the fit finds the scales and centers that are not registered: a few fits in a hundred miss the center of a column far from zero, more where rows are few, and its coefficient is then many times farther off"

// addExpectedError adds the forecast of the errors that the noise causes, from an earlier release, or the
// reason why there is none.
func (s *Sidecar) addExpectedError(e *explanation, c *claim, n int64, plan *plan.Plan) error {
	ratio, why := c.Former.forecastRatio(plan)
	if levels := len(c.groups()); levels > 0 {
		e.add("rows_a_group", formatFloat(float64(n)/float64(levels)))
		why = unknownGroupError
	}
	if why != "" {
		e.add("expected_error", why)
		return s.addNoiseAtScales(e, c, n, plan)
	}
	text := fmt.Sprintf("forecast from release %s at eps %v: the standard deviation that the noise alone gives each coefficient; no bound", c.Former.Release, c.Former.Eps)
	if c.Former.WhyNull != nil {
		text += "; that release lacks intervals, and errors beyond the noise are likely, for " + *c.Former.WhyNull
	}
	if plan.FindsScales || plan.FindsCentres {
		text += findsUnits
	}
	e.add("expected_error", text)
	for _, term := range c.terms() {
		e.add("expected_error:"+term, c.Former.forecast(term, ratio))
	}
	return s.addNoiseAtScales(e, c, n, plan)
}

// smallNoise is the share of a scale below which noise is called small.
const smallNoise = 0.1

// addNoiseAtScales adds the standard deviations that the noise would cause if features were independent and
// spread by their scales, and the number of rows at which they would fall to smallNoise.
func (s *Sidecar) addNoiseAtScales(e *explanation, c *claim, n int64, plan *plan.Plan) error {
	if !c.anyScale() && plan.FindsScales {
		e.add("noise_at_scales", "not known: no scale is registered for these columns, and which ones a fit finds is not public")
		return nil
	}
	algorithm, err := c.algorithm()
	if err != nil {
		return err
	}
	shape, budget, accountant := c.shape(n), c.budget(), s.accountant(c)
	at, err := dpsco.Expect(algorithm, shape, budget, accountant)
	if err != nil || at.Deviation == nil {
		return err
	}
	text := "what the noise alone would give each coefficient if features were independent and they and residuals spread by their scales; a flag that holds for a share q of rows: times "
	if plan.Method == catalogue.MethodObjective { // the noise of this method is equally large along every feature, for any data
		text += "1/(q(1-q)); a feature of which the others explain a share r: times 1/(1-r) or more"
	} else {
		text += "1/sqrt(q(1-q)); a feature of which the others explain a share r: times 1/sqrt(1-r)"
	}
	switch {
	case catalogue.Classifies(c.Model):
		text += "; labels of which a share q is positive: up to about 1/(4q(1-q)) times"
	case catalogue.IsCount(c.Model):
		text += "; a mean count that is a share m of its scale: times about 1/sqrt(m)"
	}
	if len(algorithm.UnscaledX) > 0 || algorithm.UnscaledY {
		text += "; columns without a registered scale count as 1 here"
	}
	if penalised(plan) {
		text += "; a penalty takes a part of it away, which is left out here"
	}
	if most := c.maxWeight(); most > 0 {
		text += fmt.Sprintf("; every weight is taken for max_weight, %v: where the mean weight is a share s of it, up to 1/s times", most)
	}
	e.add("noise_at_scales", text)
	for j, term := range c.terms() {
		e.add("noise_at_scales:"+term, strconv.FormatFloat(at.Deviation[j], 'g', 3, 64))
	}
	if at.Shrinkage > smallNoise {
		e.add("way_left", fmt.Sprintf("%.0f%% of the way to the answer: because of so much noise the method takes steps so few or small", 100*at.Shrinkage))
	}
	rows := "none: no number of rows does; ask for more eps, fewer features or another method"
	if needed := dpsco.RowsFor(smallNoise, algorithm.Inner(), shape, budget, accountant); needed > 0 {
		rows = strconv.Itoa(needed)
	}
	e.add("rows_for_10_percent", rows)
	return nil
}
