package job

import (
	"context"
	"encoding/json"
	"time"

	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
)

// Before has something happen before every fit.
func (c *Config) Before(happen func(context.Context)) {
	c.runPlan = func(ctx context.Context, p *plan.Plan, x table.Data, src *mech.Source) (release.Result, error) {
		happen(ctx)
		return runPlan(ctx, p, x, src)
	}
}

// Change changes the result of every fit.
func (c *Config) Change(change func(*release.Result)) {
	c.runPlan = func(ctx context.Context, p *plan.Plan, x table.Data, src *mech.Source) (release.Result, error) {
		r, err := runPlan(ctx, p, x, src)
		change(&r)
		return r, err
	}
}

// PublishAtOnce makes a mutant, which waits for no public time.
func (c *Config) PublishAtOnce() {
	c.sleepUntil = func(ctx context.Context, _ time.Time) error { return ctx.Err() }
}

// LivesFor is how long a sidecar expects to be believed alive without a heartbeat.
const LivesFor = livesFor

// KnownErrors is what a release tells of its errors, as the database takes it.
func KnownErrors(r release.Result) ([]byte, error) {
	return json.Marshal(naming{model: "linear"}.knownErrors(r))
}

// WhyNulls are why coefficients of labels have no intervals, of these terms and those of them that are flags; nil for one
// that has an interval.
func WhyNulls(r release.Result, terms, flags []string) []any {
	return naming{"logistic", terms, flags}.knownErrors(r).WhyNulls
}

// WhyNull is why a release of a model has no intervals, of these terms and those of them that are flags.
func WhyNull(r release.Result, model string, terms, flags []string) string {
	return naming{model, terms, flags}.whyNull(r)
}
