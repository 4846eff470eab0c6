package dpsco

import (
	"math"

	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/numeric"

	"gonum.org/v1/gonum/floats"
)

// poissonCurve is the curve of counts, whose mean is the exponential of the prediction: the loss is
// mean - y log(mean). Targets above cut count as cut, which bounds the score by a number that depends on
// the features alone. cut follows from the histogram of targets that the first pass releases.
type poissonCurve struct {
	unit     float64              // of the bins of the histogram of targets
	scale    float64              // by which counts were divided: the variance of a target is its mean over it, if the model holds
	cut      float64              // largest target
	seen     *magnitude.Histogram // histogram of targets; nil before the first pass
	exposure float64              // a typical exposure, where there is no intercept; 0: not known
}

// firstCount is the clipping threshold of targets, in units of the target's scale, in the first pass and
// where the histogram of targets is not visible.
const firstCount = 4

// farthestMean is the logarithm of the largest mean, and minus that of the smallest.
const farthestMean = 40

// first writes the targets of the first pass: rates, with rows multiplied by the root of their exposure, so
// that the product of row and target is the row times its count.
func (poissonCurve) first(r *newtonRows) {
	v := r.weight[:r.n]
	for i, y := range r.y {
		root := math.Exp((y - r.e[i]) / 2) // root of the exposure: the prediction is the offset
		v[i], r.e[i] = root, y/root
		r.length[i] *= root
		if !numeric.IsFinite(r.length[i]*r.length[i]) || !numeric.IsFinite(r.e[i]) {
			r.length[i], r.e[i] = math.NaN(), math.NaN()
		}
	}
	for _, z := range r.z {
		for i := range v {
			z[i] *= v[i]
		}
	}
}

// target is a row's target; NaN if the row is unusable.
func (r *newtonRows) target(i int) float64 {
	if math.IsNaN(r.length[i]) {
		return math.NaN()
	}
	return r.y[i]
}

// knowing chooses the clipping threshold. The noise of a coordinate of the score is 2 noise cut, and the
// mean excess of counts over the threshold, also of those that noise may hide, is a bias, which weighs
// cutWeight times as much as noise, since no interval includes it.
func (c poissonCurve) knowing(sizes *magnitude.Histogram, noise float64) poissonCurve {
	if !sizes.Seen() {
		return c
	}
	c.seen = sizes
	c.cut = sizes.CheapestCut(func(cut float64) float64 {
		return square(2*noise*cut) + square(cutWeight*sizes.Tail(cut, boundTail))
	})
	if sizes.Top() == 0 { // only zeros are visible: counts above 0 are rare and about as large as their scale
		c.cut = max(c.cut, c.unit)
	}
	return c
}

// cutWeight is the weight of the bias by clipping counts relative to noise.
const cutWeight = 3

// besideZeros chooses the clipping threshold in the same way where zeros are the only visible bin. The mean
// of the counts above 0 is at least the mean of all counts over the share that is not known to be 0. If it
// exceeds one unit, these counts are taken to be one unit plus an exponential variable with the excess as
// its mean.
func (c poissonCurve) besideZeros(s *newtonStart, noise float64) poissonCurve {
	if c.seen == nil || c.seen.Top() > 0 || !s.intercept {
		return c
	}
	mean, share := s.gradient.AtVec(0)*s.shortened, max(s.usable-c.seen.Counted(), c.seen.Deviation()/c.seen.Rows())
	over := mean/share - c.unit
	if mean < s.noise() || over <= 0 {
		return c
	}
	c.cut = numeric.MinimiseOnGrid(c.cut, 0, 16, func(cut float64) float64 {
		return square(2*noise*cut) + square(cutWeight*share*over*math.Exp((c.unit-cut)/over))
	})
	return c
}

// score uses, in all passes but the last, the average of the curvature at the prediction and that at the
// prediction whose mean is the target: with it, steps to a mean that is far off neither overshoot nor fall
// short, except for the noise in targets.
func (c poissonCurve) score(r *newtonRows) {
	for i, e := range r.e[:r.n] {
		y := min(r.y[i], c.cut)
		mean := math.Exp(numeric.ClampTo(r.y[i]-e, farthestMean))
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

// begin converts slopes of a linear rate into slopes of its logarithm: for normal rows they differ by a
// factor, the rate.
func (c poissonCurve) begin(s *newtonStart) (w []float64, curvature float64) {
	if !s.intercept {
		return c.beginAtLevel(s)
	}
	rate, clippedRate := c.rates(s)
	w = s.linearSlopes()
	steepest := 1e-9
	for _, v := range s.slopes(w) {
		steepest = max(steepest, math.Abs(v))
	}
	long := math.Sqrt(s.shortened) // rows are longer than the moments show by that factor
	steepest *= long
	factor := math.Log1p(steepest/max(clippedRate, s.noise())) / steepest
	spread := long * floats.Norm(s.slopes(linalg.SolveTriangular(s.q, w)), 2)
	if spread > 0 {
		factor = min(factor, farthestStart/spread)
	}
	floats.Scale(factor, w)
	w[0] += math.Log(rate) - square(factor*spread)/2
	return w, rate
}

// Without an intercept a fit begins with a mean of one unit, unless the logarithm of the mean of counts is above
// farLevel, from where three steps do not reach it. Then it begins belowLevel under that, since steps up are safer
// than steps down: of long rows, the exponential grows fast.
const (
	farLevel   = 1.5
	belowLevel = 0.5
)

// beginAtLevel is the start without an intercept. Where most counts are clipped in the first pass, linear
// predictions of clipped counts are those of a constant, as far as features explain one. Over their mean by
// counts they have the second moment 1/like, and the start is a multiple of them: the one whose exponential has
// the wanted mean, where predictions are normal. like is 1 where features add up to a constant, above 1 where
// slopes show besides, and small where features explain no constant. Predictions then rise little.
func (c poissonCurve) beginAtLevel(s *newtonStart) (w []float64, curvature float64) {
	w = s.linearSlopes()
	squares := square(floats.Norm(linalg.SolveTriangular(s.q, w), 2)) * s.shortened / s.usable // of exposure times squared predictions
	level := 0.0
	if c.exposure > 0 && c.seen != nil && c.seen.Top() > 0 && squares > 0 {
		level = math.Log(c.seen.Excess(0) / c.exposure / c.unit)
	}
	if level <= farLevel {
		return make([]float64, len(w)), c.unit
	}
	first := c.firstCut() * math.Sqrt(c.exposure)
	kept := c.seen.Mean(func(y float64) float64 { return min(y, first) })
	like := squares * c.exposure / square(kept)
	mean, variance := 1.0, max(1/like-1, 0)
	if like > 1 {
		mean, variance = 1/like, (like-1)/square(like)
	}
	level -= belowLevel
	logMean := func(times float64) float64 { return times*mean + times*times*variance/2 }
	times := numeric.Bisect(0, level/mean, func(v float64) bool { return logMean(v) < level })
	times = min(times, farthestStart/math.Sqrt(variance), level*like)
	floats.Scale(times*kept/squares, w)
	return w, c.unit * math.Exp(logMean(times))
}

// rates returns the rate of counts and the rate of counts as clipped in the first pass. The histogram of targets gives
// both, in any unit and with less noise than moments. Moments give the rate where no bin, or that of zeros alone, is
// visible. Moments are means over all rows, and the histogram describes usable rows alone.
func (c poissonCurve) rates(s *newtonStart) (rate, clippedRate float64) {
	m := c.rateByMoments(s)
	switch {
	case c.seen == nil:
		return m.rate, m.rate
	case c.seen.Top() == 0:
		rate = c.rateByZeros(s, m)
		return rate, rate
	}
	return c.rateByHistogram(s, m)
}

// leastRate is the least rate that few counts show: three of one unit among all rows.
func (c poissonCurve) leastRate(s *newtonStart) float64 { return 3 * c.unit / s.rows }

// momentRate is the rate that moments of the first pass give, of counts as clipped in it, with the means over all rows
// that it comes from.
type momentRate struct {
	rate     float64
	sum      float64 // mean of clipped counts
	constant float64 // mean exposure of shortened rows, times the mean weight: the second moment of the constant
	doubt    float64 // standard deviation of the noise of that moment
	exposure float64 // mean exposure of usable rows, times the mean weight
}

// rateByMoments is the mean of counts over that of exposures. Where the noise of moments is more than a unit, a count is
// taken to be one unit, unless the mean of counts stands out and is more.
func (c poissonCurve) rateByMoments(s *newtonStart) momentRate {
	m := momentRate{sum: s.gradient.AtVec(0), constant: s.moments.At(0, 0), doubt: s.noiseFloor / math.Sqrt(float64(s.moments.SymmetricDim()))}
	shortened := s.shortened
	if m.constant <= minConstant { // raised: it is no measure of the length of rows that were shortened further
		shortened = min(shortened, 1/m.constant)
	}
	if s.deviation <= c.unit {
		m.constant = max(m.constant, min(m.doubt, 1))
		m.rate = max(m.sum/m.constant, s.noise(), c.leastRate(s))
	} else {
		if m.constant < 3*m.doubt {
			m.constant, shortened = 1, 1
		}
		if m.rate = c.unit * s.usable / (m.constant * shortened); m.sum > s.noise() {
			m.rate = max(m.rate, m.sum/m.constant)
		}
	}
	m.exposure = m.constant * shortened / s.usable
	return m
}

// rateByZeros is the rate where zeros are the only visible bin: that of moments, or less if the number of zeros shows it.
// With weights, which the histogram does not have, it shows nothing.
func (c poissonCurve) rateByZeros(s *newtonStart, m momentRate) float64 {
	zeros := c.seen.Deviation() / s.rows / s.usable
	if s.weighted || !(zeros < s.deviation) {
		return m.rate
	}
	return min(m.rate, max(-math.Log(min(c.seen.Counted()/s.usable, 1-zeros))*c.unit/m.exposure, c.leastRate(s)))
}

// rateByHistogram is the mean of the histogram of targets over the mean exposure. With weights, which the histogram does
// not have, moments bound it, and give it beside offsets, where they do not tell weights from exposures; the histogram
// then corrects for clipping alone.
func (c poissonCurve) rateByHistogram(s *newtonStart, m momentRate) (rate, clippedRate float64) {
	mean, first := c.seen.Excess(0), c.firstCut()*math.Sqrt(m.exposure)
	switch {
	case s.weighted && s.offset:
		first = c.firstCut()
	case s.weighted:
		first = c.firstCut() / math.Sqrt(m.exposure)
	}
	kept := c.seen.Mean(func(y float64) float64 { return min(y, first) })
	clippedRate = m.rate
	switch {
	case !s.weighted:
		clippedRate = max(kept/m.exposure, c.leastRate(s))
	case !s.offset || m.sum < s.noise() || m.constant < 3*m.doubt:
		lowest, highest := (m.sum-s.noise())/(m.constant+3*m.doubt), math.Inf(1)
		if m.constant > 3*m.doubt {
			highest = (m.sum + s.noise()) / (m.constant - 3*m.doubt)
		}
		clippedRate = max(numeric.ClampBetween(kept, lowest, highest), c.leastRate(s))
	}
	return clippedRate * mean / kept, clippedRate
}

// noise is the largest mean of targets that noise alone explains: three deviations.
func (s *newtonStart) noise() float64 { return 3 * s.deviation }
