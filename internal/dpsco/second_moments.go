package dpsco

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// SecondMoments releases the sums of the products of all pairs of 1, the features and the target, from
// which any least squares fit among these columns can be computed afterwards. Releases of the same columns
// on different rows can be added up, since their rows are shortened in the same way. A row with a missing
// value counts as zero.
//
// Privacy: the event of the plan, one Gaussian release of bounded second moments (proof:
// second_moments.md).
type SecondMoments struct {
	Columns int // number of columns that rows are made from, the target included; 0: one for each coefficient
}

// Moments are released second moments, in the units of Scaled.
type Moments struct {
	Sums  []float64 // for i <= j, row by row of the upper triangle: the constant, the features, the target
	Noise float64   // standard deviation of a sum on the diagonal; off the diagonal that over sqrt(2)
	Bound float64   // length to which longer rows are shortened
}

// rowLength is the length to which longer rows are shortened, as a multiple of the length of a row whose
// values all equal their scales.
const rowLength = 1.5

// maxMomentTerms is the largest number of rows of the released matrix: the database computes all fits from
// it.
const maxMomentTerms = 64

func (a SecondMoments) withPublicFacts(s Scaled) Algorithm {
	a.Columns = s.Sources // Sources includes the constant, in place of the target
	return a
}

// contract is the contract of rows (1, x, y). All levels of a category count as one column.
func (a SecondMoments) contract(s Shape) mech.MomentContract {
	columns := a.Columns
	if columns == 0 {
		columns = s.D
	}
	return mech.MomentContract{Bound: rowLength * math.Sqrt(float64(columns)), N: s.N, D: s.D + 1}
}

// Plan chooses the noise from public facts.
//
// Errors: ErrParameter, ErrInfeasible.
func (a SecondMoments) Plan(s Shape, b privacy.Budget, accountant privacy.Accountant) (*Plan, error) {
	contract := a.contract(s)
	if err := checkMoments(s, b); err != nil {
		return nil, err
	}
	z, err := calibrate(accountant, b, "second moments", func(z float64) privacy.Event { return mech.Gaussian{NoiseMultiplier: z}.Event() })
	if err != nil {
		return nil, err
	}
	noise := mech.Gaussian{NoiseMultiplier: z}
	if err := errors.Join(contract.Check(), noise.Check()); err != nil {
		return nil, infeasible(err)
	}
	return &Plan{
		Method: "moments_gaussian", Event: noise.Event(), allRows: true, shape: s,
		Parameters: map[string]any{
			"rows": s.N, "noise_multiplier": z, "row_length": contract.Bound,
			"why": "all products of two columns are summed and released with noise, once; fits from them are free",
		},
		Seconds: 1e-9*float64(s.N)*float64(contract.D*contract.D) + 5e-3, Passes: 1,
		run: func(ctx context.Context, x Data, src *mech.Source) (Result, error) {
			if err := ctx.Err(); err != nil {
				return Result{}, err
			}
			return Result{Moments: releaseRows(x, contract, noise, src)}, nil
		},
	}, nil
}

// checkMoments refuses budgets and shapes for which second moments cannot be released.
func checkMoments(s Shape, b privacy.Budget) error {
	switch {
	case !(b.Delta > 0 && b.Delta < 1):
		return fmt.Errorf("%w: delta is %v; second moments need one above 0 and below 1", ErrParameter, b.Delta)
	case !s.Intercept || s.GroupCount > 0:
		return fmt.Errorf("%w: second moments are of rows with a constant, and not by groups", ErrParameter)
	case s.D+1 > maxMomentTerms:
		return fmt.Errorf("%w: %d terms, a level of a category counting as one; second moments are for at most %d. Name fewer columns", ErrInfeasible, s.D+1, maxMomentTerms)
	}
	return checkRequest(s, b)
}

// releaseRows releases the second moments of rows (1, x, y).
func releaseRows(x Data, c mech.MomentContract, noise mech.Gaussian, src *mech.Source) *Moments {
	total := merging[*mech.Moments]{total: mech.NewMoments(c)}
	x.pass(func() func(int, Data) {
		part := total.fork()
		var starts []int
		return func(_ int, b Data) {
			starts = b.starts(starts)
			addRows(part, mech.Rows{Intercept: true, X: append(b.X[:len(b.X):len(b.X)], b.Y)}, len(b.Y), starts)
		}
	})
	means := make([]float64, c.D*c.D)
	total.merged().Release(means, noise, src)
	m := &Moments{Bound: c.Bound, Noise: math.Sqrt2 * c.Bound * c.Bound * noise.NoiseMultiplier}
	for i := range c.D {
		m.Sums = append(m.Sums, means[i*c.D+i:(i+1)*c.D]...)
	}
	floats.Scale(float64(c.N), m.Sums)
	return m
}
