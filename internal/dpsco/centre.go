package dpsco

import (
	"context"

	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/mean"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"

	"gonum.org/v1/gonum/mat"
)

// Centred spends part of the budget on the mean row and runs Descent on the centred features. A
// feature whose values have one sign, such as an age, is nearly collinear with the constant, and a
// descent without means or second moments needs many steps to separate the two. The first
// coefficient is the intercept.
//
// Privacy: the mean row and the descent compose; the change of coordinates is post-processing
// (proof: centre.md).
//
// Source: that of Descent, for the descent.
type Centred struct {
	Descent Descent
	Bound   float64 // longer rows are shortened to this length, for the mean only
	Ratio   float64 // noise multiplier of the mean row over that of one estimate
}

func (a Centred) at(s table.Shape, z float64) (*stage, error) {
	centre, err := mean.Clip{Norm: a.Bound}.At(z*a.Ratio, s.N, s.D)
	if err != nil {
		return nil, plan.Infeasible(err)
	}
	estimators, event, err := a.Descent.estimators(s, z)
	if err != nil {
		return nil, err
	}
	return &stage{
		event:      append(event, centre.Event()),
		arithmetic: marks(estimators),
		seconds:    a.seconds(s),
		sums:       a.Descent.sums(),
		passes:     1 + a.Descent.passes(s, estimators),
		run: estimates(func(ctx context.Context, x table.Data, src *mech.Source) ([]float64, error) {
			p := newCentring(meanRow(x, centre, src))
			u, err := a.Descent.solve(ctx, times(x, p), estimators, src)
			if err != nil {
				return nil, err
			}
			w := mat.NewVecDense(s.D, nil)
			w.MulVec(p.T(), mat.NewVecDense(s.D, u))
			return w.RawVector().Data, nil
		}),
	}, nil
}

// meanRow estimates the mean of (1, x) over all rows, each multiplied by its weight. Unusable rows
// count as zeros.
func meanRow(x table.Data, e mean.Estimator, src *mech.Source) []float64 {
	row := make([]float64, x.D)
	g := gradients{loss: rowItself{}, data: x, w: make([]float64, x.D)}
	rows := g.rows()
	if x.Pushdown != nil {
		rows.Sum = func(c mech.Contract) *mech.Sum { return g.ask(c, 0) }
	}
	e.Estimate(row, rows, mean.Hints{}, src)
	return row
}

// newCentring returns the matrix P for which P x is row x with the mean subtracted from all
// coordinates but the constant. Shortened and unusable rows reduce the mean of the constant below 1
// and the means of the features in the same proportion, so that the latter are divided by the
// former.
func newCentring(row []float64) *mat.Dense {
	p := linalg.Identity(len(row))
	for j := 1; j < len(row); j++ {
		p.Set(j, 0, -row[j]/numeric.ClampBetween(row[0], minConstantMean, 1))
	}
	return p
}

// minConstantMean is the smallest divisor in newCentring, where the mean of the constant may be
// mostly noise.
const minConstantMean = 0.1

// rowItself is a loss whose derivative is 1, so that the gradient of a row is the row itself.
type rowItself struct{ loss.Squared }

// Deriv returns 1, or 0 if z - y is not finite: the row is unusable.
func (rowItself) Deriv(z, y float64) float64 {
	if !numeric.IsFinite(z - y) {
		return 0
	}
	return 1
}

// Derivs implements loss.Batch.
func (l rowItself) Derivs(dst, z, y []float64) {
	for i := range dst {
		dst[i] = l.Deriv(z[i], y[i])
	}
}
