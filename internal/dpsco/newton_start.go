package dpsco

import (
	"math"

	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/table"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// newtonStart is the result of the first pass. All of it is released or public.
type newtonStart struct {
	intercept  bool
	rows       float64
	moments    *mat.SymDense // of rows, with the constant's own raised to minConstant
	gradient   *mat.VecDense // mean of row times target
	deviation  float64       // standard deviation of the noise on a coordinate of the gradient
	noiseFloor float64       // threshold below which eigenvalues count as noise
	longer     float64       // factor returned by magnitude.ReadLengths, by which moments, gradient and noise are corrected
	q          *mat.Dense    // whitens the rows
	shortened  float64       // factor by which second moments are too small because the pass shortened rows
	usable     float64       // share of usable rows
	weighted   bool          // rows have weights
	meanWeight float64       // with weights and an intercept: their mean over all rows, at least its own noise
	offset     bool          // rows have offsets or exposures
}

// farthestStart is the largest spread of predictions of a start.
const farthestStart = 1.5

// minConstant is the value to which the second moment of the constant is raised: noise or unusable rows
// may make it smaller.
const minConstant = 0.05

// slopes are the coordinates of v without the constant's.
func (s *newtonStart) slopes(v []float64) []float64 {
	if s.intercept {
		return v[1:]
	}
	return v
}

// begin converts slopes of the linear probability into slopes of the log-odds, with the factor that applies
// where predictions are normal.
func (logisticCurve) begin(s *newtonStart) (w []float64, curvature float64) {
	rate := 0.5
	if s.intercept {
		least := min(0.25, max(3*s.deviation, 3/s.rows))
		rate = numeric.ClampBetween(0.5+s.gradient.AtVec(0)/s.moments.At(0, 0), least, 1-least)
	}
	w = s.linearSlopes()
	spread := floats.Norm(s.slopes(linalg.SolveTriangular(s.q, w)), 2)
	factor := 4.0
	if spread > 0 {
		factor = normalSpread(rate, spread, 0, farthestStart) / spread
	}
	factor = min(factor, secant(rate, s.slopes(w)))
	constant, curvature := normalLogit(rate, factor*spread)
	floats.Scale(factor, w)
	if s.intercept {
		w[0] += constant
	}
	return w, curvature
}

// rareMoment is the second moment of a feature, relative to the noise of moments, below which the feature
// itself is small or rare.
const rareMoment = 1.5

// readMoments returns the second moments with the directions that noise hides as large as it allows, and
// without them. A direction is hidden because features are nearly redundant, or because a feature is 0 except
// for a few rows. Of the former nothing is known. The latter count in both: later passes shorten these rows,
// and what is left of them is no reason to stretch the direction. Where rows are far too long for their
// scales, both are the moments by which the first pass whitens. Moments are those of the features, P'x the
// coordinates of the first pass.
func (s *newtonStart) readMoments(p *mat.Dense, features *mat.SymDense) (raised, seen *mat.SymDense) {
	d, w := s.moments.SymmetricDim(), linalg.NewWhitener(s.moments, s.noiseFloor)
	raised, seen = mat.NewSymDense(d, nil), mat.NewSymDense(d, nil)
	for k, v := range w.AtScales(s.longer).Values {
		raised.SymRankOne(raised, 1/(v*v), w.Vectors.ColView(k))
		if w.Values[k] < 1/math.Sqrt(s.noiseFloor) {
			seen.SymRankOne(seen, 1/(v*v), w.Vectors.ColView(k))
		}
	}
	raised, seen = inFeatures(p, raised), inFeatures(p, seen)
	if s.longer > 1 {
		return raised, raised
	}
	for j := range d {
		if features.At(j, j) < rareMoment*s.noiseFloor {
			seen.SetSym(j, j, max(seen.At(j, j), s.noiseFloor))
		}
	}
	return raised, seen
}

// linearSlopes are the slopes of the linear probability, shrunk in whitened coordinates by the share of
// them that noise explains. With an intercept the constant's coordinate is 0.
func (s *newtonStart) linearSlopes() []float64 {
	d, _ := s.q.Dims()
	t := mat.NewVecDense(d, nil)
	t.MulVec(s.q.T(), s.gradient)
	variances := make([]float64, d)
	for j := range variances {
		column := mat.Col(nil, j, s.q)
		variances[j] = square(s.deviation) * floats.Dot(column, column)
	}
	slopes := s.slopes(t.RawVector().Data)
	floats.Mul(slopes, numeric.SignalShares(slopes, table.Repeat(1, len(slopes)), s.slopes(variances)))
	if s.intercept {
		t.SetVec(0, 0)
	}
	return linalg.Times(s.q, t.RawVector().Data)
}

func sigmoid(v float64) float64 { return 1 / (1 + math.Exp(-v)) }

func logit(p float64) float64 { return math.Log(p / (1 - p)) }

// normalLogit returns the constant with which normal log-odds of the given spread have mean probability
// rate, and the mean curvature there.
func normalLogit(rate, spread float64) (constant, curvature float64) {
	constant = numeric.Bisect(-40, 40, func(a float64) bool {
		mean := 0.0
		for _, v := range numeric.NormalNodes {
			mean += sigmoid(a+spread*v) / float64(len(numeric.NormalNodes))
		}
		return mean < rate
	})
	for _, v := range numeric.NormalNodes {
		p := sigmoid(constant + spread*v)
		curvature += p * (1 - p) / float64(len(numeric.NormalNodes))
	}
	return constant, curvature
}

// normalSpread returns the spread of normal log-odds, at most limit, at which the spread times the mean
// curvature plus the penalty's curvature is linear, the spread of the linear probability.
func normalSpread(rate, linear, penalty, limit float64) float64 {
	return numeric.Bisect(0, limit, func(spread float64) bool {
		_, curvature := normalLogit(rate, spread)
		return spread*(curvature+penalty) < linear
	})
}

// secant is the least factor by which slopes of the linear probability are multiplied to become slopes of
// log-odds: the one for a step of one scale unit along the steepest slope, from the mean rate. A flag that
// raises a probability from 5 to 50 % raises log-odds by 2.9; the tangent gives 9.5.
func secant(rate float64, slopes []float64) float64 {
	rare := min(rate, 1-rate)
	steepest := 1e-9
	for _, v := range slopes {
		steepest = max(steepest, math.Abs(v))
	}
	steepest = min(steepest, 0.97-rare)
	return (logit(rare+steepest) - logit(rare)) / steepest
}
