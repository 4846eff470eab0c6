package dpsco

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
	"dpsidecar/internal/sqlsum"

	"gonum.org/v1/gonum/floats"
)

// Regression minimises the mean loss of a linear prediction plus a penalty, by
// one of the methods in recipes.go. All parameters are public; the zero value of
// each means its default, which Plan derives from rows, coefficients and budget.
// Lengths and losses are in scaled units.
//
// Privacy: the event of the plan, calibrated to the request's budget by the
// account's own accountant. Source: recipes.go names the paper of every method.
type Regression struct {
	Loss          loss.Loss
	HuberDelta    float64 // residual beyond which a Huber loss is linear
	Labels        bool    // the target is one of two labels
	Method        string  // a key of methods
	Penalty       string  // a choice of the catalogue; never on the intercept
	Lambda        float64 // weight of the penalty
	L1Ratio       float64 // elastic net: share of the l1 norm
	Groups        [][]int // group l1: features from 0, disjoint
	Negative      float64 // the labels
	Positive      float64
	Radius        float64 // of the l2 ball of coefficients
	ResidualScale float64 // a typical residual, or derivative of the loss
	FeatureNorm   float64 // whitening: rows longer than this have lower weights
	Clip          float64 // norm that row gradients are clipped to
	Moment        float64 // second moment of a gradient's coordinate
	Truncation    float64 // catoni, spgd_holland: scale s; ksu: radius around the centre
	Range         float64 // trimmed, spgd_kamath: of a gradient's coordinate
	Trim          float64 // trimmed: records cut off at either end
	Steps         float64
	StepSize      float64
	Batch         float64        // rows of a batch
	Blocks        float64        // sample_aggregate, spgd_kamath
	Aggregator    string         // sample_aggregate: a choice of the catalogue
	Whitening     string         // a choice of the catalogue
	By            string         // fits by groups: the category that defines them
	Exposure      string         // column of exposures of counts, for the record
	Weight        string         // column of weights, for the record
	MaxWeight     float64        // clipping threshold of weights; 0: no weights
	Offset        string         // column of offsets, for the record
	Pool          string         // fits by groups: a choice of the catalogue
	Levels        []LevelColumns // columns of categories, among the stored ones
	Sources       int            // columns of the table that a row is made from, with the constant; 0: one a coefficient

	numericColumns []numericColumn // stored columns that are neither flags nor levels
	target         numericColumn
	unknown        bool    // no column of the request has a scale
	exposure       float64 // of counts without an intercept: a typical exposure in scaled units; 0: 1
	countScale     float64 // of counts: the target's scale, by which they are divided; 0: 1
}

// withPublicFacts implements publicFactsUser.
func (a Regression) withPublicFacts(s Scaled) plan.Algorithm {
	a.Sources, a.Levels = s.Sources, s.Levels
	a.numericColumns, a.target = s.numericColumns()
	a.unknown = s.NoScales
	if s.Counts {
		a.exposure, a.countScale = math.Exp(-s.constant()), s.Y
	}
	return a
}

// regressionFields maps options of the gradient models to fields.
var regressionFields = fields[Regression]{
	choices: map[string]func(*Regression) *string{
		"method":     func(a *Regression) *string { return &a.Method },
		"penalty":    func(a *Regression) *string { return &a.Penalty },
		"whitening":  func(a *Regression) *string { return &a.Whitening },
		"aggregator": func(a *Regression) *string { return &a.Aggregator },
		"by":         func(a *Regression) *string { return &a.By },
		"exposure":   func(a *Regression) *string { return &a.Exposure },
		"weight":     func(a *Regression) *string { return &a.Weight },
		"offset":     func(a *Regression) *string { return &a.Offset },
		"pool":       func(a *Regression) *string { return &a.Pool },
	},
	groups: map[string]func(*Regression) *[][]int{
		"groups": func(a *Regression) *[][]int { return &a.Groups },
	},
	floats: map[string]func(*Regression) *float64{
		"lambda":         func(a *Regression) *float64 { return &a.Lambda },
		"l1_ratio":       func(a *Regression) *float64 { return &a.L1Ratio },
		"radius":         func(a *Regression) *float64 { return &a.Radius },
		"residual_scale": func(a *Regression) *float64 { return &a.ResidualScale },
		"feature_norm":   func(a *Regression) *float64 { return &a.FeatureNorm },
		"clip":           func(a *Regression) *float64 { return &a.Clip },
		"moment":         func(a *Regression) *float64 { return &a.Moment },
		"truncation":     func(a *Regression) *float64 { return &a.Truncation },
		"range":          func(a *Regression) *float64 { return &a.Range },
		"trim":           func(a *Regression) *float64 { return &a.Trim },
		"steps":          func(a *Regression) *float64 { return &a.Steps },
		"step_size":      func(a *Regression) *float64 { return &a.StepSize },
		"batch":          func(a *Regression) *float64 { return &a.Batch },
		"blocks":         func(a *Regression) *float64 { return &a.Blocks },
		"negative_label": func(a *Regression) *float64 { return &a.Negative },
		"positive_label": func(a *Regression) *float64 { return &a.Positive },
		"huber_delta":    func(a *Regression) *float64 { return &a.HuberDelta },
		"max_weight":     func(a *Regression) *float64 { return &a.MaxWeight },
	},
}

// Plan chooses all parameters from public facts.
//
// Errors: ErrParameter names the parameter and its range; ErrInfeasible says which request would be
// feasible.
func (a Regression) Plan(s table.Shape, b privacy.Budget, accountant privacy.Accountant) (*plan.Plan, error) {
	resolved, err := a.resolve(s, b, accountant)
	if err != nil {
		return nil, err
	}
	p, stage, err := resolved.fix(accountant)
	switch {
	case errors.Is(err, privacy.ErrNoFit) || errors.Is(err, privacy.ErrUnsupported):
		return nil, fmt.Errorf("%w: method %q cannot keep within eps %v and delta %v; ask for more, or for another method", plan.ErrInfeasible, resolved.Method, b.Epsilon, b.Delta)
	case err != nil:
		return nil, err
	}
	sums, few := stage.sums && p.GroupCount == 0, p.fewSums()
	parameters := p.parameters()
	if stage.findsTargetScale {
		delete(parameters, "huber_delta") // it is 1 in a scale that the release tells
	}
	planned := &plan.Plan{
		AllRows:      true,
		MaxWeight:    p.MaxWeight,
		Streams:      p.streams(),
		Sums:         sums && few,
		TooWide:      sums && !few,
		FindsScales:  p.finds.scales,
		FindsCentres: p.finds.centres,
		Method:       p.Method,
		ChosenMethod: p.chosenMethod,
		Event:        stage.event,
		Parameters:   parameters,
		Arithmetic:   stage.arithmetic,
		Seconds:      stage.seconds,
		Passes:       stage.passes,
		Statements:   stage.statements,
		Shape:        s,
	}
	return planned.WithRun(func(ctx context.Context, x table.Data, src *mech.Source) (release.Result, error) {
		p.label(x)
		if p.counts() && x.Pushdown == nil {
			countTargets(x.Y)
		}
		r, err := stage.run(ctx, x, src)
		if err != nil {
			return r.Result, err
		}
		p.finish(&r, stage, a.Whitening)
		return r.Result, nil
	}), nil
}

// finish projects the coefficients of a stage onto the ball, says why they have no errors, and converts everything from
// the units that the stage has found. askedWhitening is the option as it was given.
func (p *problem) finish(r *fitted, stage *stage, askedWhitening string) {
	found, moved, within := r.found, r.moved, *p
	if moved != nil {
		within.Radius /= moved.Y
	}
	r.Each(func(r *release.Result) {
		within.intoBall(r.Coefficients)
		if r.WhyNull == noErrors && p.Method == catalogue.MethodAuto && askedWhitening != p.Whitening {
			r.WhyNull = p.noDefaultErrors()
		}
		checkEdge(r, floats.Norm(r.Coefficients, 2), within.Radius)
	})
	if moved != nil {
		r.Each(moved.unscaleResult)
	}
	if found != nil {
		r.Each(func(r *release.Result) {
			found.unscaleResult(r)
			if stage.findsTargetScale && r.HuberDelta == 0 {
				r.HuberDelta = p.HuberDelta
			}
			r.HuberDelta *= found.Y
		})
	}
}

// noDefaultErrors is why a descent used in place of the default method gives no standard errors.
func (p *problem) noDefaultErrors() string {
	if p.Penalty != catalogue.PenaltyNone {
		return "a penalty moves the coefficients on purpose"
	}
	return lowInformation
}

// lowInformation is the reason for withholding all intervals that follows from public facts.
const lowInformation = "low information: too few rows for this budget and so many coefficients"

// streaming are the methods that read all rows in blocks, in any number of passes, and keep none.
var streaming = []string{catalogue.MethodAuto, catalogue.MethodJointMoments, catalogue.MethodNewton, "gd", "accmd", "catoni", "ksu", "ksu_axis"}

// streams is Plan.Streams. Fits by groups sort the rows, which takes memory.
func (p *problem) streams() bool { return p.GroupCount == 0 && slices.Contains(streaming, p.Method) }

// fewSums reports whether a statement has columns for all sums of a pass, and a text holds its answer however rows fall
// into bins (sqlsum.md).
func (p *problem) fewSums() bool {
	d, newton := p.D+1, p.Method == catalogue.MethodNewton || p.chosenMethod == catalogue.MethodNewton
	sums, products := 2+2*d, d*(d+1)/2
	if _, huber := p.Loss.(loss.Huber); newton && huber && p.MaxWeight > 0 && (sums+products)*magnitude.Bins*magnitude.Bins*magnitude.Bins*sqlsum.LongestInteger > sqlsum.LongestAnswer {
		return false // three histograms of a pass, none of which follows from the others
	}
	if newton {
		products *= 2 // of curvature and of scores, in its last pass
	}
	return sums+products <= sqlsum.MaxColumns
}

// fix determines the noise and, with it, all parameters.
func (p *problem) fix(a privacy.Accountant) (*problem, *stage, error) {
	f, err := p.withNoise(0x1p10).fit()
	if err == nil {
		err = p.checkGroups(f)
	}
	if err != nil {
		return nil, nil, err
	}
	z := 0.0
	if blocks, ok := f.(SampleAggregate); !ok || blocks.calibrates() {
		z, err = plan.LeastNoise(a, p.budget, func(z float64) (privacy.Event, error) {
			f, err := p.withNoise(z).fit()
			if err != nil {
				return nil, err
			}
			g, err := f.at(p.Shape, z)
			if err != nil {
				return nil, err
			}
			return g.event, nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	fixed := p.withNoise(z)
	if f, err = fixed.fit(); err != nil {
		return nil, nil, err
	}
	if p.Method == catalogue.MethodAuto {
		fixed.chosenMethod = chosenName(f)
	}
	fixed.finds = findsOf(f)
	g, err := f.at(p.Shape, z)
	return fixed, g, err
}

// fit returns the fit of the method at the problem's noise multiplier.
func (p *problem) fit() (fit, error) {
	f, err := methods[p.Method](p)
	if err != nil {
		return nil, err
	}
	return p.standardise(f), nil
}

// label maps the public pair of labels to 0 and 1; a row with any other target becomes unusable.
func (p *problem) label(x table.Data) {
	switch {
	case p.Labels && x.Pushdown != nil:
		expressLabels(x.Pushdown, p.Negative, p.Positive)
	case p.Labels:
		table.Label(x.Y, p.Negative, p.Positive)
	}
}

// intoBall projects w onto the ball of radius Radius; values that are not finite or below roundOff count as
// zero.
func (p *problem) intoBall(w []float64) {
	for j, v := range w {
		if !numeric.IsFinite(v) || math.Abs(v) < roundOff*p.Radius {
			w[j] = 0
		}
	}
	if size := floats.Norm(w, 2); size > p.Radius {
		floats.Scale(p.Radius/size, w)
	}
}
