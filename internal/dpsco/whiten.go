package dpsco

import (
	"context"
	"math"

	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/simd"

	"gonum.org/v1/gonum/mat"
)

// Whitened spends a part of the budget on the second moments H of the rows and runs Descent on the rows
// P x, P = H^(-1/2), so that badly conditioned features do not slow it down. Descent works in u, with
// w = P u; its Psi is a function of w.
//
// Privacy: the second moments and the descent compose, P is post-processing (proof: whiten.md).
//
// Source: that of Descent, for the descent.
type Whitened struct {
	Descent Descent
	Bound   float64 // largest length of a row in the moments; longer ones are shortened there alone
	Ratio   float64 // noise multiplier of the moments over that of one estimate
}

func (a Whitened) at(s table.Shape, z float64) (*stage, error) {
	contract, noise := mech.MomentContract{Bound: a.Bound, N: s.N, D: s.D}, mech.Gaussian{NoiseMultiplier: z * a.Ratio}
	if err := contract.Check(); err != nil {
		return nil, plan.Infeasible(err)
	}
	if err := noise.Check(); err != nil {
		return nil, plan.Infeasible(err)
	}
	estimators, event, err := a.Descent.estimators(table.Shape{N: s.N, D: s.D}, z)
	if err != nil {
		return nil, err
	}
	return &stage{
		event:      append(event, noise.Event()),
		arithmetic: marks(estimators),
		seconds:    a.seconds(s),
		sums:       a.Descent.sums(),
		passes:     1 + a.Descent.passes(s, estimators),
		run: estimates(func(ctx context.Context, x table.Data, src *mech.Source) ([]float64, error) {
			p := linalg.NewWhitener(secondMoments(x, contract, noise, src), momentFloor(contract, noise))
			x = times(x, p.Matrix)
			inner := a.Descent
			inner.Psi = p.Metric(inner.Psi)
			u, err := inner.solve(ctx, x, estimators, src)
			if err != nil {
				return nil, err
			}
			return p.Apply(u), nil
		}),
	}, nil
}

func secondMoments(x table.Data, c mech.MomentContract, noise mech.MomentNoise, src *mech.Source) *mat.SymDense {
	h := make([]float64, c.D*c.D)
	sumMoments(x, c).Release(h, noise, src)
	return mat.NewSymDense(c.D, h)
}

func sumMoments(x table.Data, c mech.MomentContract) *mech.Moments {
	if x.Pushdown != nil {
		return queryMoments(x.Pushdown, c, x.Intercept)
	}
	total := mech.NewMoments(c)
	var parts []*mech.Moments
	x.Pass(func() func(int, table.Data) {
		part := total.Fork()
		parts = append(parts, part)
		starts, weighing := make([]int, 0, table.BlockRows), new(weighing)
		return func(_ int, b table.Data) {
			table.AddRows(part, weighing.rows(b), b.N, b.Starts(starts))
		}
	})
	for _, part := range parts {
		total.Merge(part)
	}
	return total
}

// momentFloor is the value to which smaller eigenvalues of the second moments are raised, since they are
// mostly noise.
func momentFloor(c mech.MomentContract, noise mech.Gaussian) float64 {
	sigma := noise.NoiseMultiplier * math.Sqrt2 * c.Bound * c.Bound / float64(c.N)
	return max(2*sigma*math.Sqrt(float64(c.D)), 0.02)
}

// rareShare is the mean square, in scale units, below which a feature may be 0 except for a few rows, as
// flags and levels are.
const rareShare = 0.25

// rareLengths returns, for each feature with a small second moment, the length that whitening gives its
// rows if the feature is 0 except for rows in which it equals its scale. Before whitening, in scale units,
// such rows are no longer than others; lengths is the histogram of those lengths. A feature is included
// only if enough visible rows are as long as the constant and one feature at its scale. Moments below
// hidden are noise.
func rareLengths(moments *mat.SymDense, hidden float64, lengths *magnitude.Histogram, intercept bool) (rare []float64) {
	first := 0
	if intercept {
		first = 1
	}
	long := 1 - lengths.Below(math.Sqrt(float64(first+1)))
	for j := first; j < moments.SymmetricDim(); j++ {
		share := max(moments.At(j, j), hidden, linalg.MinEigenvalue)
		if share < rareShare && share < 2*long {
			rare = append(rare, 1/math.Sqrt(share))
		}
	}
	return rare
}

// excessOfRare is the part of the second moments that such rows have beyond a bound, if each of their
// directions has a moment of 1.
func excessOfRare(rare []float64, bound float64) (excess float64) {
	for _, length := range rare {
		excess += max(0, 1-square(bound/length))
	}
	return excess
}

// times returns the rows P x, overwriting x; the constant becomes a column.
func times(x table.Data, p mat.Matrix) table.Data {
	if x.Pushdown != nil {
		expressTimes(x.Pushdown, p, x.Intercept)
		x.Intercept = false
		return x
	}
	if x.Intercept {
		x.X, x.Intercept = append([][]float64{x.NewColumn(len(x.Y))}, x.X...), false
		shiftBy(x.X[0], -1)
	}
	x.Flat().Blocks(func() func(int, table.Data) {
		buffer, old := table.NewColumns(x.D, table.BlockRows), make([][]float64, x.D)
		return func(_ int, b table.Data) {
			for j, column := range b.X {
				old[j] = append(buffer[j][:0], column...)
			}
			for j, column := range b.X {
				simd.Combine(column, 0, mat.Row(nil, j, p), old)
			}
		}
	})
	return x
}
