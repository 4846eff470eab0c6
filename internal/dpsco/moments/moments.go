// Package moments plans releases of second moments, from which the database computes fits.
package moments

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/floats"
)

// Sums releases the sums of the products of all pairs of 1, the features and the target, from
// which any least squares fit among these columns can be computed afterwards. Releases of the same columns
// on different rows can be added up, since their rows are shortened in the same way. A row with a missing
// value counts as zero. How much weight rows lose by being shortened is released beside them, for intervals.
//
// Privacy: the event of the plan, two Gaussian releases of bounded second moments (proof:
// second_moments.md).
//
// Source: the release is that of Dwork, Talwar, Thakurta & Zhang 2014, Algorithm 1. Differs: longer rows are shortened
// to a bound, and noise has twice the variance on the diagonal.
type Sums struct {
	Columns int // number of columns that rows are made from, the target included; 0: one for each coefficient
}

// rowLength is the length to which longer rows are shortened, as a multiple of the length of a row whose
// values all equal their scales.
const rowLength = 1.5

// lostShare is the part of the budget that is spent on the weight that rows lose, as a share of 1/z^2.
const lostShare = 0.07

// maxTerms is the largest number of rows of the released matrix: the database computes all fits from
// it.
const maxTerms = 64

// WithSources returns the algorithm for rows made from n columns, the constant in place of the target.
func (a Sums) WithSources(n int) plan.Algorithm {
	a.Columns = n
	return a
}

// contract is the contract of rows (1, x, y). All levels of a category count as one column.
func (a Sums) contract(s table.Shape) mech.MomentContract {
	columns := a.Columns
	if columns == 0 {
		columns = s.D
	}
	return mech.MomentContract{Bound: rowLength * math.Sqrt(float64(columns)), N: s.N, D: s.D + 1}
}

// Plan chooses the noise from public facts.
//
// Errors: plan.ErrParameter, plan.ErrInfeasible.
func (a Sums) Plan(s table.Shape, b privacy.Budget, accountant privacy.Accountant) (*plan.Plan, error) {
	contract := a.contract(s)
	if err := checkMoments(s, b); err != nil {
		return nil, err
	}
	split := func(z float64) (sums, lost mech.Gaussian) {
		return mech.Gaussian{NoiseMultiplier: z / math.Sqrt(1-lostShare)}, mech.Gaussian{NoiseMultiplier: z / math.Sqrt(lostShare)}
	}
	z, err := plan.Calibrate(accountant, b, "second moments", func(z float64) privacy.Event {
		sums, lost := split(z)
		return privacy.Compose{sums.Event(), lost.Event()}
	})
	if err != nil {
		return nil, err
	}
	noise, lostNoise := split(z)
	if err := errors.Join(contract.Check(), lostContract(s.N).Check(), noise.Check(), lostNoise.Check()); err != nil {
		return nil, plan.Infeasible(err)
	}
	planned := &plan.Plan{
		Method: "moments_gaussian", Event: privacy.Compose{noise.Event(), lostNoise.Event()}, AllRows: true, Shape: s,
		Parameters: map[string]any{
			"rows": s.N, "noise_multiplier": noise.NoiseMultiplier, "row_length": contract.Bound,
			"why": "all products of two columns are summed and released with noise, once; fits from them are free",
		},
		Seconds: 1e-9*float64(s.N)*float64(contract.D*contract.D) + 5e-3, Passes: 1,
	}
	return planned.WithRun(func(ctx context.Context, x table.Data, src *mech.Source) (release.Result, error) {
		if err := ctx.Err(); err != nil {
			return release.Result{}, err
		}
		return release.Result{Moments: releaseRows(x, contract, noise, lostNoise, src)}, nil
	}), nil
}

// checkMoments refuses budgets and shapes for which second moments cannot be released.
func checkMoments(s table.Shape, b privacy.Budget) error {
	switch {
	case !(b.Delta > 0 && b.Delta < 1):
		return fmt.Errorf("%w: delta is %v; second moments need one above 0 and below 1", plan.ErrParameter, b.Delta)
	case !s.Intercept || s.GroupCount > 0:
		return fmt.Errorf("%w: second moments are of rows with a constant, and not by groups", plan.ErrParameter)
	case s.D+1 > maxTerms:
		return fmt.Errorf("%w: %d terms, a level of a category counting as one; second moments are for at most %d. Name fewer columns", plan.ErrInfeasible, s.D+1, maxTerms)
	}
	return plan.Check(s, b)
}

// lostContract is that of rows of one number, the root of the weight that a row loses: the sum of their products is the
// weight that all rows lose.
func lostContract(n int) mech.MomentContract { return mech.MomentContract{Bound: 1, N: n, D: 1} }

// releaseRows releases the second moments of rows (1, x, y), and then the weight that rows lose.
func releaseRows(x table.Data, c mech.MomentContract, noise, lostNoise mech.Gaussian, src *mech.Source) *release.Moments {
	total, lost := table.Parts[*mech.Moments]{Total: mech.NewMoments(c)}, table.Parts[*mech.Moments]{Total: mech.NewMoments(lostContract(c.N))}
	x.Pass(func() func(int, table.Data) {
		part, lostPart, roots := total.Fork(), lost.Fork(), []float64(nil)
		var starts []int
		return func(_ int, b table.Data) {
			starts = b.Starts(starts)
			columns := append(b.X[:len(b.X):len(b.X)], b.Y)
			table.AddRows(part, mech.Rows{Intercept: true, X: columns}, len(b.Y), starts)
			roots = rootsOfLost(roots, columns, c.Bound)
			table.AddRows(lostPart, mech.Rows{X: [][]float64{roots}}, len(b.Y), starts)
		}
	})
	means, mean := make([]float64, c.D*c.D), make([]float64, 1)
	total.Merged().Release(means, noise, src)
	lost.Merged().Release(mean, lostNoise, src)
	m := &release.Moments{
		Bound: c.Bound, Noise: math.Sqrt2 * c.Bound * c.Bound * noise.NoiseMultiplier,
		Lost: float64(c.N) * mean[0], LostNoise: math.Sqrt2 * lostNoise.NoiseMultiplier,
	}
	for i := range c.D {
		m.Sums = append(m.Sums, means[i*c.D+i:(i+1)*c.D]...)
	}
	floats.Scale(float64(c.N), m.Sums)
	return m
}

// rootsOfLost writes to dst, and returns, the root of the weight that each row loses that is given by columns without
// the constant: 0 for a row that is no longer than the bound, or has a missing value.
func rootsOfLost(dst []float64, columns [][]float64, bound float64) []float64 {
	dst = slices.Grow(dst[:0], len(columns[0]))[:len(columns[0])]
	table.RowLengths(dst, columns)
	for i, length := range dst {
		square := 1 + length*length
		if dst[i] = 0; square > bound*bound && numeric.IsFinite(square) {
			dst[i] = math.Sqrt(1 - bound*bound/square)
		}
	}
	return dst
}
