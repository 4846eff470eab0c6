package dpsco

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/expmech"
	"dpsidecar/internal/mech/objpert"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/floats"
)

// L1 is least-absolute-deviations regression, or that of another quantile, under pure
// epsilon-DP, for features and targets of any tail. All parameters are public; the zero value of
// each means its default, which Plan derives from rows, coefficients and epsilon.
//
// Privacy: epsilon-DP under replace-one. On zCDP accounts fits in stages cost about a
// sixth of epsilon^2, the exponential mechanism an eighth, as it has bounded range epsilon
// too, and objective perturbation a half.
//
// Source: Wang & Xu, l1 regression with heavy-tailed data, Algorithms 1 and 2;
// Chaudhuri, Monteleoni & Sarwate 2011. Differs: expmech.md, objpert.md. Fits in stages
// are ours: l1_staged.md.
type L1 struct {
	Tau           float64        // quantile of the target that is fitted, in [0.01, 0.99]: 0.5 is the median
	Theta         float64        // number of moments of the residuals that exist, in [1.05, 2]: 2 is a variance
	Iota          float64        // all residuals above 1/Iota have the same loss
	Radius        float64        // of the set of coefficients, in scaled units; fits in stages have none unless it is given
	Pitch         float64        // of the grid of coefficients, in scaled units
	ResidualScale float64        // a typical residual, in scaled units
	Clip          float64        // largest norm of a row in objective perturbation; longer ones are shortened
	Smoothing     float64        // objective perturbation: the loss of residuals well below it is quadratic
	Set           string         // shape of the set: catalogue.SetBall or catalogue.SetBox
	Method        string         // catalogue.MethodAuto, catalogue.MethodStaged, catalogue.MethodExponential or catalogue.MethodObjective
	NoScales      bool           // no scale was registered: values may be of any size
	Memory        int64          // bytes for the exact sampler in addition to the rows, 4 GiB when zero
	Sources       int            // as Regression.Sources
	Levels        []LevelColumns // as JointMoments.Levels
	By            string         // the category that defines the groups of Shape.GroupCount, for readers of the release
	Pool          string         // as Regression.Pool
	Weight        string         // column of weights, for the record
	MaxWeight     float64        // clipping threshold of weights; 0: no weights
	Offset        string         // column of offsets, for the record

	numericColumns []numericColumn // as Regression.numericColumns
	target         numericColumn
	scaleAsked     bool // the option residual_scale is given
}

// l1Fields maps options of l1 to fields.
var l1Fields = fields[L1]{
	choices: map[string]func(*L1) *string{
		"set":    func(a *L1) *string { return &a.Set },
		"method": func(a *L1) *string { return &a.Method },
		"by":     func(a *L1) *string { return &a.By },
		"pool":   func(a *L1) *string { return &a.Pool },
		"weight": func(a *L1) *string { return &a.Weight },
		"offset": func(a *L1) *string { return &a.Offset },
	},
	floats: map[string]func(*L1) *float64{
		"tau":            func(a *L1) *float64 { return &a.Tau },
		"theta":          func(a *L1) *float64 { return &a.Theta },
		"iota":           func(a *L1) *float64 { return &a.Iota },
		"radius":         func(a *L1) *float64 { return &a.Radius },
		"pitch":          func(a *L1) *float64 { return &a.Pitch },
		"residual_scale": func(a *L1) *float64 { return &a.ResidualScale },
		"clip":           func(a *L1) *float64 { return &a.Clip },
		"smoothing":      func(a *L1) *float64 { return &a.Smoothing },
		"max_weight":     func(a *L1) *float64 { return &a.MaxWeight },
	},
}

// Plan chooses the mechanism and its parameters from public facts.
//
// Errors: ErrParameter names the parameter and its range; ErrInfeasible says which request would be
// feasible.
func (a L1) Plan(s table.Shape, b privacy.Budget, _ privacy.Accountant) (*plan.Plan, error) {
	if err := a.check(s, b); err != nil {
		return nil, err
	}
	a = a.withDefaults(s, b.Epsilon)
	method, why, err := a.bounded().choose(s, b.Epsilon)
	if err != nil {
		return nil, err
	}
	p, err := map[string]func(table.Shape, float64) (*plan.Plan, error){
		catalogue.MethodStaged: a.staged, catalogue.MethodExponential: a.bounded().exponential, catalogue.MethodObjective: a.bounded().objective,
	}[method](s, b.Epsilon)
	if err != nil {
		return nil, err
	}
	p.Method, p.FirstRow, p.Shape, p.MaxWeight = method, true, s, a.MaxWeight
	p.Parameters["why"], p.Parameters["intercept"] = why, s.Intercept
	nameColumns(p.Parameters, a.Weight, a.MaxWeight, a.Offset)
	return p, nil
}

func (a L1) check(s table.Shape, b privacy.Budget) error {
	if err := l1Fields.check(a, optionsOf("l1")); err != nil {
		return err
	}
	if s.GroupCount > 0 && a.MaxWeight > 0 {
		return errWeightsOfGroups
	}
	if b.Delta != 0 {
		return fmt.Errorf("%w: delta is %v; dp_l1_regress takes delta = 0 only", plan.ErrParameter, b.Delta)
	}
	return errors.Join(plan.Check(s, b), checkWeights(a.Weight, a.MaxWeight))
}

// fitted is the shape of the table that the mechanisms see: with weights the constant is an ordinary
// column.
func (a L1) fitted(s table.Shape) table.Shape {
	s.Intercept = s.Intercept && a.MaxWeight == 0
	return s
}

// choose returns the method and the reason for it.
//
// Errors: ErrInfeasible where the exact sampler was asked for and would take too long.
func (a L1) choose(s table.Shape, epsilon float64) (method, why string, err error) {
	information := stagedInformation(s, epsilon)
	staged := a.Method == catalogue.MethodStaged || a.Method == catalogue.MethodAuto && information >= enoughForStaged
	switch {
	case s.GroupCount > 0 && !staged:
		return "", "", whyNoGroups(s, a.Method)
	case a.Method == catalogue.MethodExponential && a.tilt() != 0:
		return "", "", fmt.Errorf("%w: method %q is for tau 0.5 alone; leave method at %q, or ask for %q or %q", plan.ErrParameter, a.Method, catalogue.MethodAuto, catalogue.MethodStaged, catalogue.MethodObjective)
	case a.Method == catalogue.MethodExponential && a.MaxWeight > 0:
		return "", "", fmt.Errorf("%w: method %q takes no weights: its loss is cut off, and cut off elsewhere for every weight; leave method at %q, or ask for %q or %q", plan.ErrParameter, a.Method, catalogue.MethodAuto, catalogue.MethodStaged, catalogue.MethodObjective)
	case a.Method == catalogue.MethodExponential && a.samplerSeconds(s, epsilon) > forcedSeconds:
		return "", "", fmt.Errorf("%w: the exact sampler would need many minutes for %d rows and %d coefficients; leave method at %q, or ask for fewer features or a smaller iota",
			plan.ErrInfeasible, s.N, s.D, catalogue.MethodAuto)
	case a.Method != catalogue.MethodAuto:
		return a.Method, "asked for", nil
	case information >= enoughForStaged:
		return catalogue.MethodStaged, fmt.Sprintf("rows times eps over coefficients to the power 1.5 is %.3g, and from %d on fits in stages err least", information, enoughForStaged), nil
	}
	method, why = a.chooseSingle(s, epsilon)
	return method, fmt.Sprintf("rows times eps over coefficients to the power 1.5 is %.3g, too little for fits in stages; %s", information, why), nil
}

// chooseSingle chooses between the mechanisms that make one release, by the forecast of their errors where
// the exact sampler is practical.
func (a L1) chooseSingle(s table.Shape, epsilon float64) (method, why string) {
	switch {
	case a.tilt() != 0:
		return catalogue.MethodObjective, "the exact sampler is for medians"
	case a.MaxWeight > 0:
		return catalogue.MethodObjective, "the exact sampler takes no weights"
	case a.NoScales:
		return catalogue.MethodObjective, "no scale is registered, and without scales the exact sampler may take extremely long"
	case a.samplerSeconds(s, epsilon) > autoSeconds:
		return catalogue.MethodObjective, fmt.Sprintf("the exact sampler is not practical for %d rows and %d coefficients", s.N, s.D)
	case a.perturbationError(s, epsilon) < a.drawError(s, epsilon):
		return catalogue.MethodObjective, "its expected error is smaller than that of the exponential mechanism"
	}
	return catalogue.MethodExponential, "its expected error is smaller than that of objective perturbation"
}

// autoSeconds is the largest expected time of a draw of the exponential mechanism with the automatic choice
// of the method, and forcedSeconds that when it is asked for.
const (
	autoSeconds   = 10
	forcedSeconds = 300
)

// samplerSeconds is a rough figure for the time of one exact draw on two cores, measured with lognormal
// features. It is multiplied by 3.7 for each coefficient, and is proportional to the rows from about 15,000
// on. An iota above its default gives the density many peaks, and a set larger than usual is searched in
// more steps. It holds for columns about as large as their scales, and residuals as theirs. Larger values
// take minutes (three times the scales with six coefficients, ten times with five) and, beyond these,
// hours.
func (a L1) samplerSeconds(s table.Shape, epsilon float64) float64 {
	peaks := math.Max(1, a.Iota*a.ResidualScale/defaultIota(a.Theta, rowsPerCoefficient(s, epsilon)))
	search := math.Max(1, 1.5*math.Log2(a.Radius/10))
	return search * 1.5e-5 * math.Max(15_000, float64(s.N)) * math.Pow(3.7, float64(s.D-4)) * math.Pow(peaks, 1.5)
}

// rowsPerCoefficient is rows times epsilon for each coefficient, which the defaults depend on.
func rowsPerCoefficient(s table.Shape, epsilon float64) float64 {
	return float64(s.N) * epsilon / float64(s.D)
}

// withPublicFacts implements publicFactsUser.
func (a L1) withPublicFacts(s Scaled) plan.Algorithm {
	a.NoScales, a.Memory, a.Sources, a.Levels = s.NoScales, s.Memory, s.Sources, s.Levels
	a.numericColumns, a.target = s.numericColumns()
	return a
}

// withDefaults sets parameters that were not given, except for pitch and radius, which depend on the
// method.
func (a L1) withDefaults(s table.Shape, epsilon float64) L1 {
	a.scaleAsked = a.ResidualScale != 0
	plan.SetDefault(&a.Tau, 0.5)
	plan.SetDefault(&a.Theta, 2)
	plan.SetDefault(&a.ResidualScale, 1)
	plan.SetDefault(&a.Iota, defaultIota(a.Theta, rowsPerCoefficient(s, epsilon))/a.ResidualScale)
	plan.SetDefault(&a.Clip, 1.1*math.Sqrt(a.sources(s)))
	plan.SetDefault(&a.Smoothing, defaultSmoothing(rowsPerCoefficient(s, epsilon), float64(s.D))*a.ResidualScale)
	a.Method = cmp.Or(a.Method, catalogue.MethodAuto)
	a.Set = cmp.Or(a.Set, catalogue.SetBall)
	a.Pool = cmp.Or(a.Pool, catalogue.PoolShrink)
	return a
}

// sources is the number of columns of the table that a row is made from.
func (a L1) sources(s table.Shape) float64 {
	if a.Sources == 0 {
		return float64(s.D)
	}
	return float64(a.Sources)
}

// tilt is the slope of the linear term that objective perturbation adds to the absolute loss.
func (a L1) tilt() float64 { return 2*a.Tau - 1 }

// bounded sets a radius if there is none. A draw of the exponential mechanism needs one, and the ridge of
// objective perturbation bounds coefficients anyway; fits in stages do without.
func (a L1) bounded() L1 {
	plan.SetDefault(&a.Radius, 10)
	return a
}

// defaultIota balances the spread of the draw, whose excess risk is about log(theta) / (information iota),
// with the bias of the truncation, about iota^(2 theta - 2): iota is proportional to
// information^(-1/(2 theta - 1)). The factor was the best one for theta = 2 at information 25 to 50,000,
// and is good for theta = 1.5 as well.
func defaultIota(theta, information float64) float64 {
	return math.Min(0.5, 0.24*math.Pow(information/250, -1/(2*theta-1)))
}

// defaultSmoothing balances the ridge, which decreases with smoothing, with the bias of a smoothed loss;
// the factor was the best one at information 25 to 50,000. With little information for each of many
// coefficients the noise is as large as the signal, and a stronger ridge keeps coefficients from following
// it.
func defaultSmoothing(information, d float64) float64 {
	return math.Max(0.05, min(1, 12/math.Sqrt(information), heldByRidge*information/d))
}

// heldByRidge was the best value, with 2 to 100 coefficients, for rows times eps over coefficients to the
// power 1.5 from 1 to 60.
const heldByRidge = 0.1

// parameters are the public parameters of both mechanisms that make one release.
func (a L1) parameters(s table.Shape) map[string]any {
	m := map[string]any{
		"rows": s.N, "coefficients": s.D, "intercept": s.Intercept,
		"radius": a.Radius, "set": a.Set, "pitch": a.Pitch, "residual_scale": a.ResidualScale,
	}
	a.nameQuantile(m)
	return m
}

// nameQuantile adds tau to parameters unless it is that of the median.
func (a L1) nameQuantile(parameters map[string]any) {
	if a.tilt() != 0 {
		parameters["tau"] = a.Tau
	}
}

// noMedianIntervals is why there are no intervals: an interval must hold for sampling and noise together,
// and needs the density of the residuals at 0.
const noMedianIntervals = "no interval is known that holds for sampling and noise of medians and other quantiles together; dp_huber_regress is a robust model that can have one"

// medians returns a run that releases coefficients alone, and reports whether the set may have cut them.
func (a L1) medians(fit func(ctx context.Context, x table.Data, src *mech.Source) ([]float64, error)) plan.RunFunc {
	return func(ctx context.Context, x table.Data, src *mech.Source) (release.Result, error) {
		w, err := fit(ctx, x.FirstRows(), src)
		return a.result(w), err
	}
}

// result is the release with the given coefficients.
func (a L1) result(w []float64) release.Result {
	r := release.Result{Coefficients: w, WhyNull: noMedianIntervals}
	norm := 2.
	if a.Set == catalogue.SetBox {
		norm = math.Inf(1)
	}
	if a.Radius != 0 {
		checkEdge(&r, floats.Norm(w, norm), a.Radius)
	}
	return r
}

// exponential plans a draw on a grid that is fine relative to the spread of the draw.
func (a L1) exponential(s table.Shape, epsilon float64) (*plan.Plan, error) {
	plan.SetDefault(&a.Pitch, powerOfTwo(a.Radius)*0x1p-20)
	p := expmech.Params{Epsilon: plan.JustBelow(epsilon), Theta: a.Theta, Iota: a.Iota, Radius: a.Radius, Pitch: a.Pitch, Intercept: s.Intercept, Memory: a.Memory}
	if a.Set == catalogue.SetBox {
		p.Set = expmech.Box
	}
	if err := p.Validate(s.N, s.D); err != nil {
		return nil, fmt.Errorf("%w: %w; leave radius, pitch and iota at their defaults or bring them nearer together", plan.ErrInfeasible, err)
	}
	parameters := a.parameters(s)
	parameters["theta"], parameters["iota"] = a.Theta, a.Iota
	planned := &plan.Plan{Event: privacy.BoundedRange{Epsilon: epsilon}, Parameters: parameters, Seconds: a.seconds(s, epsilon), Shape: s}
	return planned.WithRun(a.medians(func(ctx context.Context, x table.Data, src *mech.Source) ([]float64, error) {
		x = unweighted(x)
		return expmech.Draw(ctx, p, x.X, x.Y, src)
	})), nil
}

// objective plans a perturbed minimiser on a fine grid, since the grid adds noise of some steps, but no
// finer than float64 can certify for this number of rows.
func (a L1) objective(s table.Shape, epsilon float64) (*plan.Plan, error) {
	s = a.fitted(s)
	certified := float64(s.N) * math.Max(1, epsilon) * a.Smoothing / a.Clip * 0x1p-47
	plan.SetDefault(&a.Pitch, math.Max(a.Radius*0x1p-29, certified))
	a.Pitch = powerOfTwo(a.Pitch)
	p := objpert.Params{Epsilon: plan.JustBelow(epsilon), Clip: a.Clip, Smoothing: a.Smoothing, Pitch: a.Pitch, Intercept: s.Intercept, Tilt: a.tilt()}
	if err := p.Validate(s.N, s.D); err != nil {
		return nil, fmt.Errorf("%w: %w", plan.ErrInfeasible, err)
	}
	parameters := a.parameters(s)
	parameters["clip"], parameters["smoothing"] = a.Clip, a.Smoothing
	planned := &plan.Plan{
		Event: privacy.Pure{Epsilon: epsilon}, Parameters: parameters, Shape: s,
		// Most tables take a quarter of Seconds; ties, as of flags and whole numbers, make the search long.
		Band: table.Repeat(p.Band(s.D, plan.BandMiss), s.D), Seconds: 4e-7 * float64(s.N) * float64(s.D),
	}
	return planned.WithRun(a.medians(func(ctx context.Context, x table.Data, src *mech.Source) ([]float64, error) {
		x = unweighted(x)
		w, err := objpert.Draw(ctx, p, x.X, x.Y, src)
		if err == nil {
			a.project(w)
		}
		return w, err
	})), nil
}

// project moves released coefficients to the nearest point of the set, if there is one.
func (a L1) project(w []float64) {
	if a.Radius == 0 {
		return
	}
	if a.Set == catalogue.SetBox {
		for j := range w {
			w[j] = math.Max(-a.Radius, math.Min(w[j], a.Radius))
		}
		return
	}
	if size := floats.Norm(w, 2); size > a.Radius {
		floats.Scale(a.Radius/size, w)
	}
}
