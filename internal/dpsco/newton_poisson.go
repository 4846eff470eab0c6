package dpsco

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// poissonCurve is that of counts, whose mean is the exponential of the prediction: the loss
// is mean - y log(mean). Targets above cut count as that, which bounds the score by a
// number that depends on the features alone. The sizes of targets, which the first pass
// counts, say where the cut belongs.
type poissonCurve struct {
	unit float64 // of the sizes that are counted
	cut  float64
	seen *magnitudes // sizes of targets; nil before the first pass
}

// cuts, in units of the target's scale: of the first pass, and where sizes are not seen.
const firstCount = 4

// farthestMean is the logarithm of the largest and of the smallest mean.
const farthestMean = 40

// firstTargets are the targets of the first pass: rates, for rows that count as the root of
// their exposure. A row's product of both is its count times the row.
func (poissonCurve) first(r *newtonRows) {
	v := r.weight[:r.n]
	for i, y := range r.y {
		root := math.Exp((y - r.e[i]) / 2) // of the exposure, for the prediction is the offset
		v[i], r.e[i] = root, y/root
		r.length[i] *= root
		if !(r.length[i]*r.length[i] <= math.MaxFloat64 && math.Abs(r.e[i]) <= math.MaxFloat64) {
			r.length[i], r.e[i] = math.NaN(), math.NaN()
		}
	}
	for _, z := range r.z {
		for i := range v {
			z[i] *= v[i]
		}
	}
}

// target is a row's target; NaN where the row says nothing.
func (r *newtonRows) target(i int) float64 {
	if math.IsNaN(r.length[i]) {
		return math.NaN()
	}
	return r.y[i]
}

// knowing chooses the cut: noise of a coordinate of the score is 2 noise cut, and what is cut off is a
// bias. It weighs more than noise, for no interval tells it.
func (c poissonCurve) knowing(sizes *magnitudes, noise float64) poissonCurve {
	if !sizes.seen {
		return c
	}
	c.seen = sizes
	c.cut = sizes.cheapestCut(func(cut float64) float64 {
		return square(2*noise*cut) + square(cutWeight*sizes.excess(cut))
	})
	if sizes.top == 0 { // noise hides all but zeros, and counts that are rare are about as large as their scale
		c.cut = max(c.cut, c.unit)
	}
	return c
}

const cutWeight = 3

// besideZeros chooses the cut in the same way where noise hides all sizes but zeros. Counts that are not 0 are as large in the
// mean, at least, as the mean of all over the share that is not seen to be 0, and by what that is more than a unit they
// exceed one as an exponential law does.
func (c poissonCurve) besideZeros(s *newtonStart, noise float64) poissonCurve {
	if c.seen == nil || c.seen.top > 0 || !s.intercept {
		return c
	}
	mean, share := s.gradient.AtVec(0)*s.shortened, max(1-c.seen.counted, c.seen.sd/c.seen.rows)
	over := mean/share - c.unit
	if mean < s.noise() || over <= 0 {
		return c
	}
	c.cut = cheapest(c.cut, 0, 16, func(cut float64) float64 {
		return square(2*noise*cut) + square(cutWeight*share*over*math.Exp((c.unit-cut)/over))
	})
	return c
}

// score takes, for all passes but the last, the mean of the curvatures at the prediction
// and where the mean were the target: as far as targets are right, steps of means that
// are far off neither overshoot nor stop short.
func (c poissonCurve) score(r *newtonRows) {
	for i, e := range r.e[:r.n] {
		y := min(r.y[i], c.cut)
		mean := math.Exp(clampTo(r.y[i]-e, farthestMean))
		r.score[i], r.tail[i], r.most[i] = y-mean, y-mean, max(mean, c.cut-mean)
		r.model[i], r.robust[i] = mean, (mean+y)/2
	}
}

func (c poissonCurve) counted() *poissonCurve    { return &c }
func (c poissonCurve) firstCut() float64         { return firstCount * c.unit }
func (c poissonCurve) size() float64             { return c.cut }
func (poissonCurve) unseen(_, _ float64) float64 { return 1 }
func (poissonCurve) tailShare() float64          { return 0.6 }
func (poissonCurve) reach() float64              { return 1 }
func (poissonCurve) longest() float64            { return 1 }
func (poissonCurve) least() float64              { return 1e-6 }

func (poissonCurve) most() float64 { return math.Exp(farthestMean) }

func (poissonCurve) shares() newtonShares { return usualShares }

// begin turns slopes of a linear rate into those of its logarithm: for normal rows they differ
// by the rate. Without an intercept the mean is taken for one unit.
func (c poissonCurve) begin(s *newtonStart) (w []float64, curvature float64) {
	if !s.intercept {
		return make([]float64, len(s.gradient.RawVector().Data)), c.unit
	}
	rate, cut := c.rates(s)
	w = s.linearSlopes()
	steepest := 1e-9
	for _, v := range s.slopes(w) {
		steepest = max(steepest, math.Abs(v))
	}
	long := math.Sqrt(s.shortened) // rows are that much longer than moments say
	steepest *= long
	factor := math.Log1p(steepest/max(cut, s.noise())) / steepest
	spread := long * floats.Norm(s.slopes(solveTriangular(s.q, w)), 2)
	if spread > 0 {
		factor = min(factor, farthestStart/spread)
	}
	floats.Scale(factor, w)
	w[0] += math.Log(rate) - square(factor*spread)/2
	return w, rate
}

// rates are that of counts and that of counts as the first pass has them, cut. Sizes of targets tell both, whatever
// the unit, and with less noise than moments. These tell it where noise hides all but zeros, and where rows have weights, which sizes do not have,
// but for how much is cut off. Where their noise is more than a unit they tell nothing, and a count is taken to be one unit; the number of zeros
// may tell that it is less.
func (c poissonCurve) rates(s *newtonStart) (rate, cut float64) {
	least := 3 * c.unit / s.rows
	constant, shortened, sum := s.moments.At(0, 0), s.shortened, s.gradient.AtVec(0)
	if constant <= leastConstant { // it says nothing of how long rows are that were shortened to less
		shortened = min(shortened, 1/constant)
	}
	doubt := s.hidden / math.Sqrt(float64(s.moments.SymmetricDim())) // of a moment
	if s.deviation <= c.unit {
		constant = max(constant, min(doubt, 1))
		cut = max(sum/constant, s.noise(), least)
	} else {
		if constant < 3*doubt {
			constant, shortened = 1, 1
		}
		if cut = c.unit / (constant * shortened); sum > s.noise() {
			cut = max(cut, sum/constant)
		}
	}
	exposure := constant * shortened
	switch {
	case c.seen == nil:
		return cut, cut
	case c.seen.top == 0:
		if doubt = c.seen.sd / s.rows; doubt < s.deviation && !s.weighted {
			cut = min(cut, max(-math.Log(min(c.seen.counted, 1-doubt))*c.unit/exposure, least))
		}
		return cut, cut
	}
	mean := c.seen.excess(0)
	kept := c.seen.mean(func(y float64) float64 { return min(y, c.firstCut()*math.Sqrt(exposure)) })
	if !s.weighted {
		cut = max(kept/exposure, least)
	}
	return cut * mean / kept, cut
}

// noise is what a mean of targets may be by noise alone.
func (s *newtonStart) noise() float64 { return 3 * s.deviation }
