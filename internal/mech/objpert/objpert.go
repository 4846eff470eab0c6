// Package objpert releases the minimiser of a perturbed objective: robust linear regression by smoothed
// absolute loss, eps-DP, in any dimension.
//
// The proof in objpert.md uses the identifiers of this code.
package objpert

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/internal/hook"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/stat/distuv"
)

// errParams marks invalid public parameters of Draw.
var errParams = errors.New("objpert: bad parameter")

// Params are the public parameters of
//
//	sum_i H_i(f_i y_i - <f_i x_i, w>) + ridge/2 ||w||^2 + <b, w>,   H_i(r) = sqrt(r^2 + m_i^2) - m_i + Tilt r,
//
// where f_i = min(1, Clip/||x_i||), m_i = Smoothing max(1, ||f_i x_i||/Short)^2, b has density proportional to
// exp(-||b||/noise), and ridge and noise follow from Epsilon. No bound on features or target is assumed.
//
// Privacy: the released minimiser is Epsilon-DP under replace-one (objpert.md).
//
// Source: Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 2. Differs: rows are
// shortened instead of bounded, the constants are sharper, the minimiser is
// approximate within a certified distance, and the output is on a grid.
type Params struct {
	Epsilon   float64 // privacy loss, in [2^-40, 2^20]
	Clip      float64 // norm, in scaled units, to which longer rows are shortened together with their targets
	Smoothing float64 // residuals well below it have a quadratic loss, those well above it an absolute loss
	Pitch     float64 // released coefficients are multiples of it; a power of two
	Intercept bool    // the first coefficient belongs to a constant 1 that x does not contain
	Tilt      float64 // 2 tau - 1 for the quantile tau of the target, in [-0.99, 0.99]; 0: the median
	Short     float64 // norm, at most Clip, above which a row has a smoothing that grows with its square, and so no more curvature; 0: Clip
}

// maxTilt bounds |Tilt|: beyond it the loss would be almost linear.
const maxTilt = 0.99

const (
	maxRows    = 1 << 40
	maxColumns = 1 << 11
	gapShare   = 64 // at most Epsilon/gapShare is spent on the distance to the true minimiser
)

// Validate reports whether Draw works for n rows and d coefficients, from
// public facts alone.
//
// Errors: wraps errParams and names the field.
func (p Params) Validate(n, d int) error {
	within := func(name string, v, lo, hi float64) error {
		if v >= lo && v <= hi {
			return nil
		}
		return fmt.Errorf("%w: %s = %v; it must be in [%g, %g]", errParams, name, v, lo, hi)
	}
	err := errors.Join(
		within("Epsilon", p.Epsilon, 0x1p-40, 0x1p20),
		within("Clip", p.Clip, 1/hugeParameter, hugeParameter),
		within("Smoothing", p.Smoothing, 1/hugeParameter, hugeParameter),
		within("Pitch", p.Pitch, 1/hugeParameter, hugeParameter),
		within("Tilt", p.Tilt, -maxTilt, maxTilt),
		within("Short", p.short(), 1/hugeParameter, p.Clip),
		within("n", float64(n), 1, maxRows),
		within("d", float64(d), 1, maxColumns),
	)
	if fraction, _ := math.Frexp(p.Pitch); err == nil && fraction != 0.5 {
		err = fmt.Errorf("%w: Pitch = %v; it must be a power of two", errParams, p.Pitch)
	}
	return err
}

// Event returns the cost of one Draw.
func (p Params) Event() privacy.Event { return privacy.Pure{Epsilon: p.Epsilon} }

// plan holds the values that follow from the public parameters.
type plan struct {
	ridge float64 // strong convexity of the objective
	noise float64 // b has density proportional to exp(-||b|| / noise)
	gap   float64 // the certified distance between computed and true minimiser
	shift uint    // the noise that covers the gap has scale 2^shift grid steps
}

// newPlan returns the plan of one fit of all rows.
func (p Params) newPlan(d int) plan { return p.planOf(d, 1) }

// movedFits is the number of parts whose fits change when a row moves from one part to another.
const movedFits = 2

// planOf divides Epsilon into an exact power-of-two share for the gaps of changed fits, the number that one
// row may change, and the rest for the minimisers; ridge and noise are rounded upward.
func (p Params) planOf(d, changed int) plan {
	shift := uint(0)
	for math.Ldexp(float64(changed*d), -int(shift)) > p.Epsilon/gapShare {
		shift++
	}
	epsilon := math.Nextafter(p.Epsilon-math.Ldexp(float64(changed*d), -int(shift)), 0)
	const up = 1 + 0x1p-48
	return plan{
		ridge: 1.5 * math.Sqrt(3) * p.curviest() / epsilon * p.steepest() * up,
		noise: 2 * p.Clip / epsilon * p.steepest() * up,
		gap:   p.Pitch * 7 / 16,
		shift: shift,
	}
}

// short is the norm up to which all rows have the same smoothing.
func (p Params) short() float64 {
	if p.Short == 0 {
		return p.Clip
	}
	return p.Short
}

// curviest bounds the second derivative of the loss of a row.
func (p Params) curviest() float64 { return p.short() * p.short() / p.Smoothing }

// steepest bounds the derivative of H: 2 max(tau, 1 - tau).
func (p Params) steepest() float64 { return steepest(p.Tilt) }

func steepest(tilt float64) float64 { return 1 + math.Abs(tilt) }

// Scales returns the ridge and the scale of the noise vector for d coefficients. Both are public.
func (p Params) Scales(d int) (ridge, noise float64) {
	plan := p.newPlan(d)
	return plan.ridge, plan.noise
}

// Band returns the radius of a ball around the release of Draw, for d coefficients, that contains the
// result without noise except with probability outside at most. It holds for every table, so it depends on
// public parameters only (objpert.md, Corollary).
func (p Params) Band(d int, outside float64) float64 {
	plan := p.newPlan(d)
	const onGrid = 1e-6 // share of outside for the noise on the grid
	length := distuv.Gamma{Alpha: float64(d), Beta: 1 / plan.noise}.Quantile(1 - outside*(1-onGrid))
	steps := 2 + math.Ldexp(math.Log(2*float64(d)/(outside*onGrid)), int(plan.shift))
	return (length/plan.ridge + steps*math.Sqrt(float64(d))*p.Pitch) * (1 + 1e-6)
}

// Draw releases d coefficients fitted to the n rows (x by columns, y). Missing values are NaN. It
// overwrites x and y.
//
// Privacy: p.Epsilon-DP under replace-one; its running time depends on the data.
//
// Errors: the context's only. It panics when p.Validate refuses the shape.
func Draw(ctx context.Context, p Params, x [][]float64, y []float64, src *mech.Source) ([]float64, error) {
	t := newRecords(x, y, p)
	d := len(t.x)
	if err := p.Validate(len(y), d); err != nil {
		panic(err.Error())
	}
	plan := p.newPlan(d)
	noise, end := src.Observe(p, [2]int{len(y), d}, hook.Rows{Columns: append(t.x[:d:d], t.y), Features: d, Bound: p.Clip})
	released, err := t.draw(ctx, p, plan, noise)
	if err != nil {
		return nil, err
	}
	end(released)
	return released, nil
}

// Part is a part of the rows, by columns. It may be empty.
type Part struct {
	X [][]float64
	Y []float64
}

// DrawParts releases a fit of each of disjoint parts of n rows, each with d coefficients. A row belongs to
// one part or to none, determined by that row alone; the number of rows of a part is private. It overwrites
// the parts.
//
// Privacy: p.Epsilon-DP under replace-one, with n and the number of parts public, also if a row is replaced
// by one of another part (objpert.md); its running time depends on the data.
//
// Errors: the context's only. It panics when p.Validate refuses the shape, and if the parts have more than
// n rows.
func DrawParts(ctx context.Context, p Params, n, d int, parts []Part, src *mech.Source) ([][]float64, error) {
	if err := p.Validate(n, d); err != nil {
		panic(err.Error())
	}
	tables, rows := make([]records, len(parts)), make([]hook.Rows, len(parts))
	for g, part := range parts {
		t := newRecords(part.X, part.Y, p)
		if n -= len(t.y); n < 0 || len(t.x) != d {
			panic("objpert: parts of other shapes than was said")
		}
		tables[g], rows[g] = t, hook.Rows{Columns: append(t.x[:d:d], t.y), Features: d, Bound: p.Clip}
	}
	noise, end := src.Observe(p, [2]int{d, len(parts)}, hook.Parts(rows))
	plan, released := p.planOf(d, movedFits), make([]float64, 0, d*len(parts))
	for _, t := range tables {
		t.sort()
		w, err := t.draw(ctx, p, plan, noise)
		if err != nil {
			return nil, err
		}
		released = append(released, w...)
	}
	end(released)
	return slices.Collect(slices.Chunk(released, d)), nil
}

// draw returns a fit on the grid, with the noise that hides the distance between computed and true
// minimiser.
func (t records) draw(ctx context.Context, p Params, plan plan, noise *mech.Source) ([]float64, error) {
	d := len(t.x)
	o := newObjective(t, p, plan, newRadialNoise(noise, d, plan.noise))
	w, err := o.minimise(ctx)
	if err != nil {
		return nil, err
	}
	released := make([]float64, d)
	scale := new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), plan.shift))
	for j := range released {
		released[j] = onGrid(w[j], p.Pitch, noise.DiscreteLaplace(scale))
	}
	return released, nil
}
