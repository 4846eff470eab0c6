// Package score plans scores: measures of how well released coefficients predict the rows of a table.
//
// Files:
//
//	score           what is asked, and the noise of its releases
//	rows            the releases of the rows
//	counts          deviances of counts
//	metrics         the metrics and their intervals
package score

import (
	"context"
	"errors"
	"fmt"
	"math"

	"dpsidecar/internal/dpsco/histogram"
	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// Metrics measures how well released coefficients predict the rows of a table, as means over the rows without
// missing values, whose number stays private.
//
// If the budget has a delta the metrics are r2, mean_absolute_error and root_mean_squared_error, for labels
// log_loss, accuracy and brier_score, and for counts deviance_explained and mean_deviance. Otherwise they
// are mean_absolute_error, for labels log_loss and accuracy, and for counts mean_deviance. A private
// histogram of absolute residuals, or losses, determines their clipping threshold, so that one row has
// little weight in the sums that are released then.
//
// Privacy: the event of the plan, which is that of its releases (proof: score.md).
//
// Source: ratios of means with their linearised variance are Fieller 1954.
type Metrics struct {
	Coefficients       []float64 // in the table's units, (intercept) first; those of one group after another
	Labels             bool      // the target is one of two labels
	Negative, Positive float64   // the labels
	Counts             bool      // the coefficients are those of the logarithm of a mean count
	Exposure           float64   // a typical exposure of counts, from public knowledge; 1 where that is zero
	CentreOffset       float64   // a typical offset of counts, from public knowledge
	Scale              float64   // a typical distance of the target from Centre, public; 1 where that is zero
	TargetUnscaled     bool      // no scale is known of a target that is no label and no count: it is looked for
	Centre             float64   // of the target, from public knowledge
	MaxRows            int       // as Data.MaxRows
	MaxWeight          float64   // clipping threshold of weights of rows; 0: no weights
}

// Shares of the budget, of zCDP or of epsilon, of the releases of a score. They add up to 1; those of pure
// scores do so exactly. Where scales are looked for, for a target that has none and in each pure score of numbers, the
// others have shares of the rest.
const (
	scaleShare     = 0.05
	pureScaleShare = 0.0625
)

var (
	shares      = map[string]float64{sizesRelease: 0.22, targetsRelease: 0.04, centreRelease: 0.04, deviationsRelease: 0.15, momentsRelease: 0.55}
	labelShares = map[string]float64{sizesRelease: 0.25, momentsRelease: 0.75}
	countShares = map[string]float64{sizesRelease: 0.2, targetsRelease: 0.04, centreRelease: 0.06, deviationsRelease: 0.2, momentsRelease: 0.5}
	pureShares  = map[string]float64{sizesRelease: 0.25, momentsRelease: 0.75}
)

// The releases of a score, in their order.
const (
	scalesRelease     = "scales"     // histograms of the octaves of |residual| and |target|
	sizesRelease      = "sizes"      // histogram of |residual|, of the loss of a label, or of the deviance of a count
	targetsRelease    = "targets"    // histogram of |target|
	centreRelease     = "centre"     // mean target; of counts, the mean per unit of exposure
	deviationsRelease = "deviations" // histogram of the target's distance from that, or of a count's deviance with it
	momentsRelease    = "moments"    // means of all of these, and their second moments
)

var order = []string{scalesRelease, sizesRelease, targetsRelease, centreRelease, deviationsRelease, momentsRelease}

// scoring is a score with the noise of its releases.
type scoring struct {
	Metrics
	shape  table.Shape
	pure   bool
	noises map[string]mech.Mechanism
}

// Plan chooses the noise of every release from public facts.
//
// Errors: plan.ErrParameter, plan.ErrInfeasible.
func (a Metrics) Plan(s table.Shape, b privacy.Budget, accountant privacy.Accountant) (*plan.Plan, error) {
	plan.SetDefault(&a.Scale, 1)
	plan.SetDefault(&a.Exposure, 1)
	a.TargetUnscaled = a.TargetUnscaled && !a.Labels && !a.Counts
	if a.Labels && a.Negative == a.Positive {
		a.Negative, a.Positive = 0, 1
	}
	if err := a.check(s, b, accountant); err != nil {
		return nil, err
	}
	withNoise := a.gaussianNoise
	if b.Delta == 0 {
		withNoise = a.laplaceNoise
	}
	g, event, err := withNoise(s, b, accountant)
	if err == nil {
		err = g.check()
	}
	if err != nil {
		return nil, err
	}
	p := &plan.Plan{
		AllRows: true, MaxWeight: g.MaxWeight, Streams: s.GroupCount == 0,
		Method: g.method(), Event: event, Parameters: g.parameters(), Seconds: g.seconds(), Passes: len(g.noises), Shape: s,
	}
	p.WithRun(func(ctx context.Context, x table.Data, src *mech.Source) (release.Result, error) {
		x.ScaleWeights(g.MaxWeight)
		metrics, err := g.measure(ctx, x, src)
		return release.Result{Metrics: metrics}, err
	})
	return p, p.SeveralRows(a.MaxRows)
}

// check refuses coefficients, public facts and budgets with which there is no score.
func (a Metrics) check(s table.Shape, b privacy.Budget, accountant privacy.Accountant) error {
	switch {
	case len(a.Coefficients) != s.D*max(1, s.GroupCount) || !numeric.AllFinite(a.Coefficients):
		return fmt.Errorf("%w: %d coefficients for %d terms, or one that is no number", plan.ErrParameter, len(a.Coefficients), s.D*max(1, s.GroupCount))
	case !(a.Scale > 0) || !numeric.IsFinite(a.Scale) || !numeric.IsFinite(a.Centre) || !(a.Exposure > 0) || !numeric.IsFinite(a.Exposure) || !numeric.IsFinite(a.CentreOffset):
		return fmt.Errorf("%w: scale %v, centre %v, typical exposure %v and offset %v", plan.ErrParameter, a.Scale, a.Centre, a.Exposure, a.CentreOffset)
	case a.MaxWeight < 0 || !numeric.IsFinite(a.MaxWeight):
		return fmt.Errorf("%w: a largest weight of %v", plan.ErrParameter, a.MaxWeight)
	case !(b.Delta >= 0 && b.Delta < 1):
		return fmt.Errorf("%w: delta is %v; it must be at least 0 and below 1", plan.ErrParameter, b.Delta)
	case b.Delta > 0 && accountant == privacy.PureSum{}:
		return fmt.Errorf("%w: the budget of this data set has no delta; ask with delta 0", plan.ErrInfeasible)
	}
	return plan.Check(s, b)
}

// withScales gives a share to the search for scales, and the others the same part each of the rest.
func withScales(shares map[string]float64, own float64) map[string]float64 {
	all := map[string]float64{scalesRelease: own}
	for name, share := range shares {
		all[name] = share * (1 - own)
	}
	return all
}

// gaussianNoise uses normal noise, calibrated by the accountant.
func (a Metrics) gaussianNoise(s table.Shape, b privacy.Budget, accountant privacy.Accountant) (*scoring, privacy.Event, error) {
	shares := shares
	switch {
	case a.Labels:
		shares = labelShares
	case a.Counts:
		shares = countShares
	}
	if a.TargetUnscaled {
		shares = withScales(shares, scaleShare)
	}
	at := func(z float64) *scoring {
		g := &scoring{Metrics: a, shape: s, noises: map[string]mech.Mechanism{}}
		for name, share := range shares {
			g.noises[name] = mech.Gaussian{NoiseMultiplier: z / math.Sqrt(share)}
		}
		return g
	}
	z, err := plan.Calibrate(accountant, b, "a score", func(z float64) privacy.Event { return at(z).event() })
	if err != nil {
		return nil, nil, err
	}
	g := at(z)
	return g, g.event(), nil
}

// laplaceNoise uses Laplace noise. The event is that of all releases together.
func (a Metrics) laplaceNoise(s table.Shape, b privacy.Budget, _ privacy.Accountant) (*scoring, privacy.Event, error) {
	g := &scoring{Metrics: a, shape: s, pure: true, noises: map[string]mech.Mechanism{}}
	shares := pureShares
	if !a.Labels && !a.Counts {
		shares = withScales(shares, pureScaleShare)
	}
	for name, share := range shares {
		g.noises[name] = mech.Laplace{Epsilon: plan.JustBelow(share * plan.JustBelow(b.Epsilon))}
	}
	return g, privacy.Pure{Epsilon: b.Epsilon}, nil
}

// event composes the events of the releases.
func (g *scoring) event() privacy.Event {
	var e privacy.Compose
	for _, name := range order {
		if noise, made := g.noises[name]; made {
			e = append(e, noise.Event())
		}
	}
	return e
}

// check reports whether every release can be made.
func (g *scoring) check() error {
	checks := []error{mech.CheckHistogram(magnitude.HalfOctaves, g.shape.N, 1), g.momentContract().Check(), g.sumContract().Check()}
	for _, noise := range g.noises {
		checks = append(checks, noise.Check())
	}
	if _, looks := g.noises[scalesRelease]; looks {
		checks = append(checks, mech.CheckHistogram(histogram.SizeBins.Bins, g.shape.N, len(scaledOfScore)))
	}
	if err := errors.Join(checks...); err != nil {
		return plan.Infeasible(err)
	}
	return nil
}

// columns is the number of columns that are averaged; the last one is the row's weight, if there are
// weights.
func (g *scoring) columns() int {
	if g.MaxWeight > 0 {
		return g.measures() + 1
	}
	return g.measures()
}

// measures is the number of columns that measure the prediction of the row.
func (g *scoring) measures() int {
	switch {
	case g.Labels && g.pure, g.Counts && !g.pure:
		return 2
	case g.Labels:
		return 3
	case g.pure:
		return 1
	}
	return 4
}

// weight is the factor of each column relative to the 1 of a complete row; this one gives the least noise.
func (g *scoring) weight() float64 { return 1 / math.Sqrt(float64(g.columns())) }

// momentContract is the contract of (1, weight times each column), with columns in [-1, 1].
func (g *scoring) momentContract() mech.MomentContract {
	return mech.MomentContract{Bound: math.Sqrt2, N: g.shape.N, D: g.columns() + 1}
}

// sumContract is the contract of 1, the columns and their squares, each mapped to [-1, 1].
func (g *scoring) sumContract() mech.Contract {
	return mech.Contract{Norm: mech.LInf, Bound: 1, N: g.shape.N, D: 1 + 2*g.columns()}
}

// centreContract is the contract of 1 and the target in units of its clipping threshold.
func (g *scoring) centreContract() mech.Contract {
	return mech.Contract{Norm: mech.LInf, Bound: 1, N: g.shape.N, D: 2}
}

func (g *scoring) method() string {
	if g.pure {
		return "laplace_means"
	}
	return "gaussian_moments"
}

// parameters are the public parameters of the plan.
func (g *scoring) parameters() map[string]any {
	p := map[string]any{
		"rows": g.shape.N, "coefficients": g.shape.D, "intercept": g.shape.Intercept,
		"why": "a private histogram of residuals tells where they are cut, then means and their second moments are released",
	}
	if g.Labels {
		p["positive_label"], p["negative_label"] = g.Positive, g.Negative
	} else {
		if !g.TargetUnscaled {
			p["target_scale"] = g.Scale
		}
		if g.Centre != 0 {
			p["target_center"] = g.Centre
		}
	}
	if g.MaxWeight > 0 {
		p["max_weight"] = g.MaxWeight
	}
	if g.Counts {
		p["exposure_scale"] = g.Exposure
	}
	if g.CentreOffset != 0 {
		p["offset_center"] = g.CentreOffset
	}
	return p
}

// seconds are those of the prediction and of a pass for each release.
func (g *scoring) seconds() float64 {
	return 2.5e-9*float64(g.shape.N)*float64(g.shape.D) + 1.5e-7*float64(g.shape.N) + 2e-3
}
