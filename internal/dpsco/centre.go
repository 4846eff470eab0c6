package dpsco

import (
	"context"
	"math"

	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/mean"
	"dpsidecar/internal/mech"

	"gonum.org/v1/gonum/mat"
)

// Centred spends a part of the budget on the mean row and runs Descent on features less their
// means: a feature on one side of 0, as ages are, goes together with the constant, and a descent
// that knows neither means nor second moments hardly parts them. The first coefficient is the intercept's.
//
// Privacy: the mean row and the descent compose, what is made of it is
// post-processing (proof: centre.md).
type Centred struct {
	Descent Descent
	Bound   float64 // rows longer than this are shortened, in their mean alone
	Ratio   float64 // noise multiplier of the mean row over that of one estimate
}

func (a Centred) at(s Shape, z float64) (*stage, error) {
	centre, err := mean.Clip{Norm: a.Bound}.At(z*a.Ratio, s.N, s.D)
	if err != nil {
		return nil, infeasible(err)
	}
	estimators, event, err := a.Descent.estimators(s, z)
	if err != nil {
		return nil, err
	}
	return &stage{event: append(event, centre.Event()), arithmetic: marks(estimators), seconds: a.seconds(s), sums: a.Descent.sums(), passes: 1 + a.Descent.passes(s, estimators), run: estimates(func(ctx context.Context, x Data, src *mech.Source) ([]float64, error) {
		p := newCentring(meanRow(x, centre, src))
		u, err := a.Descent.solve(ctx, x.times(p), estimators, src)
		if err != nil {
			return nil, err
		}
		w := mat.NewVecDense(s.D, nil)
		w.MulVec(p.T(), mat.NewVecDense(s.D, u))
		return w.RawVector().Data, nil
	})}, nil
}

// meanRow estimates the mean of the rows, with the constant first, that say something: each counts with its weight, those that say nothing as zeros.
func meanRow(x Data, e mean.Estimator, src *mech.Source) []float64 {
	row := make([]float64, x.D)
	g := gradients{loss: rowItself{}, data: x, w: make([]float64, x.D)}
	rows := g.rows()
	if x.Elsewhere != nil {
		rows.Sum = func(c mech.Contract) *mech.Sum { return g.ask(c, 0) }
	}
	e.Estimate(row, rows, mean.Hints{}, src)
	return row
}

// newCentring returns P, by which P x is a row less the mean of all but for its constant. Shortened rows, and
// such as say nothing, make the constant's mean less than 1, and those of features by as much.
func newCentring(row []float64) *mat.Dense {
	p := identity(len(row))
	for j := 1; j < len(row); j++ {
		p.Set(j, 0, -row[j]/clampBetween(row[0], leastConstantMean, 1))
	}
	return p
}

// leastConstantMean keeps a mean that is noise from being divided by nothing.
const leastConstantMean = 0.1

// rowItself is a loss whose gradients are the rows, for a prediction of 0.
type rowItself struct{ loss.Squared }

// Deriv returns 1, and 0 where a row cannot be used.
func (rowItself) Deriv(z, y float64) float64 {
	if r := z - y; !(math.Abs(r) <= math.MaxFloat64) {
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
