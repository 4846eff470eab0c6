package dpsco

import (
	"math"

	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// shrunkStep returns the Newton step, in the coordinates of the pass, shrunk direction by direction. Along
// an eigenvector of curvature lambda the step has the prior N(0, t^2 / lambda) and the score has known
// noise; the shrinkage factor is the share of signal in the score's variance.
func (f *newtonFit) shrunkStep() []float64 {
	w := linalg.NewWhitener(f.h, f.noiseFloor())
	d := f.shape.D
	along, values := make([]float64, d), make([]float64, d)
	for k, v := range w.Values {
		along[k], values[k] = mat.Dot(w.Vectors.ColView(k), f.g), 1/(v*v)
	}
	keep := numeric.SignalShares(along, values, table.Repeat(square(f.gDeviation), d))
	if f.huber() && !f.grouped {
		keep = numeric.SignalShares(along, values, table.Repeat(f.noiseOfStep(along, values, keep), d))
	}
	f.follow(w, keep)
	step := mat.NewVecDense(d, nil)
	for k := range along {
		step.AddScaledVec(step, keep[k]*along[k]/values[k], w.Vectors.ColView(k))
	}
	return step.RawVector().Data
}

// noiseOfStep is the variance of noise along a direction of the score: that of the score itself and, in its
// units, that of an error of the curvature times the whole step. Where the constant is far off, the latter
// is most of the apparent step along directions with little information, such as a rare flag. The extra
// variance of errors on the diagonal, which make a direction's own step longer or shorter, is left out: it
// is no reason to shrink a long step.
func (f *newtonFit) noiseOfStep(along, values, keep []float64) float64 {
	whole := 0.0
	for k := range along {
		whole += square(keep[k] * along[k] / values[k])
	}
	return square(f.gDeviation) + square(f.hNoise)/2*whole
}

// whiten computes the matrices that whiten the curvature of the pass.
func (f *newtonFit) whiten() {
	hidden := f.noiseFloor()
	q, along := linalg.NewWhitener(f.h, hidden).Triangular(f.h)
	f.q, f.floored = q, linalg.CountBelow(along, hidden)
	f.a = mat.NewDense(f.shape.D, f.shape.D, nil)
	f.a.Mul(f.p, f.q)
}

// next returns the fit after a step that moves predictions by at most longest in the root mean square. With
// a penalty, or where the ball is active, the step is the full one followed by the proximal point in the
// metric of the curvature: a shrunk step would not reach the minimum. The penalty is multiplied by
// penaltyKept, the factor that weights leave of score and curvature, since in full it would be too strong.
func (f *newtonFit) next(longest float64) []float64 {
	w := f.plus(linalg.Times(f.p, f.shrunkStep()), longest)
	if f.allows(w) {
		return w
	}
	move := f.plus(f.full(), math.Inf(1))
	linalg.ProximalStep(f.Psi, f.a, move, f.penaltyKept())
	floats.Sub(move, f.w)
	return f.plus(move, longest)
}

// allows reports whether neither a penalty nor the ball moves coefficients.
func (f *newtonFit) allows(w []float64) bool {
	ball, only := f.Psi.(prox.L2Ball)
	return f.Psi == nil || only && floats.Norm(w, 2) <= ball.Radius
}

// inBall reports whether the ball does not move coefficients.
func (f *newtonFit) inBall(w []float64) bool {
	psi := f.Psi
	if both, penalised := psi.(prox.Sum); penalised {
		psi = both.B
	}
	ball, bounded := psi.(prox.L2Ball)
	return !bounded || floats.Norm(w, 2) <= ball.Radius
}

// full returns the unshrunk Newton step.
func (f *newtonFit) full() []float64 {
	d := mat.NewVecDense(f.shape.D, nil)
	d.MulVec(f.q.T(), f.g)
	return linalg.Times(f.a, d.RawVector().Data)
}

// plus returns the fit after a move, shortened to the length that longest allows.
func (f *newtonFit) plus(move []float64, longest float64) []float64 {
	w := append([]float64(nil), f.w...)
	floats.AddScaled(w, f.partOf(move, longest), move)
	return w
}

// partOf is the fraction of a move that longest allows.
func (f *newtonFit) partOf(move []float64, longest float64) float64 {
	size := floats.Norm(linalg.SolveTriangular(f.a, move), 2) / math.Sqrt(f.mean)
	return min(1, longest/size, farthestMove*longest/f.moveWithFeature(move))
}

// farthestMove is the largest change of the predictions of rows with some feature, one scale unit of it, as a multiple of
// longest: a move along a rare feature changes few predictions, so that their root mean square bounds it little.
const farthestMove = 4

// moveWithFeature returns how far a move changes the predictions of rows with a feature, a scale unit of it, the most over
// features: by its coefficient or, of numbers that surely move, by the regression of all of the change on the feature if that
// is less, by the moments of the first pass with a deviation of their noise. Coefficients of features that go together, such
// as an age and its square, move far against each other where predictions hardly change. So do those of a flag that is nearly
// always on and of the constant; but there the few rows without the flag move as far as the constant does. A flag is 0 or 1,
// so that its mean is its mean square. Groups may differ in all that from all rows.
func (f *newtonFit) moveWithFeature(move []float64) float64 {
	if f.grouped || !f.shape.Intercept {
		return floats.Norm(move, math.Inf(1))
	}
	noise, most := f.mostDeviation*floats.Norm(move, 2), 0.0
	var along mat.VecDense
	var whole mat.Dense
	along.MulVec(f.most, mat.NewVecDense(len(move), move))
	whole.Mul(f.a, f.q.T())
	for j, v := range move {
		size, moment := math.Abs(v), f.most.At(j, j)
		if !f.looksLikeFlag(j) && size > surelyMoves*f.gDeviation*floats.Norm(whole.RawRowView(j), 2) {
			size = min(size, (math.Abs(along.AtVec(j))+noise)/moment)
		}
		most = max(most, size)
	}
	return most
}

// looksLikeFlag reports whether the mean of a feature may be its mean square, in a fit with a constant.
func (f *newtonFit) looksLikeFlag(j int) bool {
	return j > 0 && math.Abs(f.most.At(j, j)-f.most.At(0, j)) < surelyMoves*f.mostDeviation
}

// surelyMoves is the number of standard deviations of noise that count as certain there: of a full step's noise, by which a
// coefficient moves, and of the noise of moments, by which a mean and a mean square differ.
const surelyMoves = 4

// finish makes the last step and returns the result.
func (f *newtonFit) finish() release.Result {
	f.whiten()
	full := f.full()
	f.arrives = f.partOf(full, f.lastReach()) == 1 && floats.Norm(full, math.Inf(1)) <= farthestMove*f.lastReach()
	last := f.plus(full, f.lastReach())
	f.falls = f.seesLevel() && f.along(last) < -nearLevel
	f.centre, f.stretched = f.stretch(f.toLastLevel(last))
	score, deviation := f.g, f.gDeviation
	f.g, f.gDeviation = f.restored()
	w, factor := f.stretch(f.toLastLevel(f.next(f.lastReach())))
	f.fitNoise.ScaleSym(square(factor), f.fitNoise)
	if f.free() {
		f.shrinkSlopes(w)
	}
	f.g, f.gDeviation = score, deviation
	r := release.Result{Coefficients: w, NoiseCovariance: f.noise()}
	r.NoiseUnknown = f.movedTooFar(r.Noise())
	if c, huber := f.Curve.(huberCurve); huber {
		r.HuberDelta = c.delta
	}
	f.errors(&r)
	return r
}

// free reports whether neither a penalty nor the ball moves the fit.
func (f *newtonFit) free() bool {
	ball, only := f.Psi.(prox.L2Ball)
	return f.Psi == nil || only && floats.Norm(f.centre, 2) < ball.Radius
}

// shrinkSlopes shrinks slopes toward 0 by the share of their squared length that the noise of the last step
// explains.
func (f *newtonFit) shrinkSlopes(w []float64) {
	first := 0
	if f.shape.Intercept {
		first = 1
	}
	u, noise := linalg.SolveTriangular(f.a, w), 0.0
	for j := first; j < f.shape.D; j++ {
		column := mat.Col(nil, j, f.q)
		noise += square(f.gDeviation) * floats.Dot(column, column)
	}
	slopes, factor := u[first:], max(1-2/max(f.d-1, 1), 0.35)
	f.slopesKept = max(0, 1-factor*noise/max(floats.Dot(slopes, slopes), math.SmallestNonzeroFloat64))
	floats.Scale(f.slopesKept, slopes)
	copy(w, linalg.Times(f.a, u))
}
