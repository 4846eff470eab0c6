package dpsco

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// What keeps a release from telling its noise: more hidden directions, and a variance of which
// noise in the second moments has a larger share, since that is followed to the first order alone.
const (
	mostHiddenDirections = 1
	mostMomentShare      = 0.5
)

// noise returns the covariance that noise gives the coefficients: what the last pass would give
// again and again, and the noise in the second moments by which its correction is made. Shrinkage
// leaves about as much of the pilot fit's noise as it takes of the last pass's. Nil where it is
// not known. It is post-processing.
func (f *jointFit) noise() *mat.SymDense {
	if f.floored > mostHiddenDirections {
		return nil
	}
	influences := f.stepInfluences()
	step := f.repeatedStep().covariance()
	step.ScaleSym(2-f.shrinkage(), step)
	total := sandwich(influences, step)
	if f.shape.Intercept {
		total.SetSym(0, 0, total.At(0, 0)+f.repeatedLevel().covariance().At(0, 0)*square(f.levelScale))
	}
	moments := f.momentNoiseOf(influences, f.correction(f.kept, 1))
	total.AddSym(total, moments)
	for j := range f.shape.D {
		if moments.At(j, j) > mostMomentShare*total.At(j, j) {
			return nil
		}
	}
	return total
}

// momentNoiseOf is the covariance of what the noise E of the second moments moves by a
// correction D, which enters the coefficients by A: that of (QA')'E(QD).
func (f *jointFit) momentNoiseOf(influences mat.Matrix, correction []float64) *mat.SymDense {
	var qa mat.Dense
	var gram mat.SymDense
	d, _ := influences.Dims()
	qd, along := mat.NewVecDense(d, nil), mat.NewVecDense(d, nil)
	qa.Mul(influences, f.q.T())
	qd.MulVec(f.q, mat.NewVecDense(d, correction))
	along.MulVec(&qa, qd)
	scale := square(f.hDeviation) / 2
	gram.SymOuterK(scale*mat.Dot(qd, qd), &qa)
	gram.SymRankOne(&gram, scale, along)
	return &gram
}

// repeatedMean says how the mean that a pass keeps varies, from one release of it. Not only its
// noise does: the cuts follow a noisy histogram, with them what is cut off, and how much of what
// lies between both is kept follows from noise too.
type repeatedMean struct {
	seen             *magnitudes
	choose           func(*magnitudes) cuts
	first            int // as in cuts.means
	deviation, doubt float64
	inner, gap       []float64 // the mean cut at the inner length, and from there to the outer one
	from, to         float64   // what the tails beyond both cuts hold
}

func (f *jointFit) repeatedStep() *repeatedMean {
	deviation, _ := f.deviations()
	r := &repeatedMean{seen: f.products, first: f.shape.D - int(f.slopes), deviation: deviation, doubt: f.caution().doubt, choose: f.newStepCuts}
	return r.between(f.stepCuts, f.cutMeans)
}

func (f *jointFit) repeatedLevel() *repeatedMean {
	_, deviation := f.deviations()
	r := &repeatedMean{seen: f.residuals, deviation: deviation, doubt: f.caution().doubt, choose: f.newLevelCuts}
	return r.between(f.levelCuts, f.levels)
}

// between takes what lies between both cuts to be as long as it is without its noise.
func (r *repeatedMean) between(c cuts, m cutMeans) *repeatedMean {
	back := 1/c.uncut - 1
	_, unitRest := c.units()
	beyond := slices.Clone(m.outer.mean)
	floats.AddScaled(beyond, -1-back, m.inner.mean)
	explained := float64(len(beyond)-r.first) * (square(unitRest*r.deviation) + square(back*m.inner.deviation))
	floats.Scale(math.Sqrt(max(0, 1-explained/max(square(floats.Norm(beyond[r.first:], 2)), math.SmallestNonzeroFloat64))), beyond)
	floats.AddScaled(beyond, back, m.inner.mean)
	r.inner, r.gap = m.inner.mean, beyond
	r.from, r.to = r.seen.tail(c.inner, cutsHide), r.seen.tail(c.outer, cutsHide)
	return r
}

// at is about the mean cut at a length, in units of unit: it goes from one cut to the other as
// tails beyond do.
func (r *repeatedMean) at(dst []float64, cut, unit float64) []float64 {
	share := (r.from - r.seen.tail(cut, cutsHide)) / max(r.from-r.to, math.SmallestNonzeroFloat64)
	for j, v := range r.inner {
		dst = append(dst, (v+share*r.gap[j])/unit)
	}
	return dst
}

// noiseRepeats is from how many repeats a covariance is told.
const noiseRepeats = 48

func (r *repeatedMean) covariance() *mat.SymDense {
	var g whatIf
	d := len(r.inner)
	means := mat.NewDense(noiseRepeats, d, nil)
	for k := range noiseRepeats {
		means.SetRow(k, r.repeat(&g))
	}
	for j := range d {
		column := means.ColView(j).(*mat.VecDense)
		centre := mat.Sum(column) / noiseRepeats
		for k := range noiseRepeats {
			column.SetVec(k, column.AtVec(k)-centre)
		}
	}
	var total mat.SymDense
	total.SymOuterK(1./(noiseRepeats-1), means.T())
	return &total
}

// repeat is what another pass might keep.
func (r *repeatedMean) repeat(g *whatIf) []float64 {
	c := r.choose(r.seen.repeat(g))
	unit, unitRest := c.units()
	release := r.at(nil, c.inner, unit)
	release = r.at(release, c.outer, unitRest)
	for j, v := range r.at(nil, c.inner, unitRest) {
		release[len(r.inner)+j] -= v
	}
	for j := range release {
		release[j] += r.deviation * g.normal()
	}
	return c.means(release, r.first, r.deviation, r.doubt).kept.mean
}

// whatIf gives fixed numbers that look like draws of a standard normal law, for questions about
// what was released. No release is made from them. (Splitmix64: Steele, Lea & Flood 2014.)
type whatIf uint64

func (g *whatIf) normal() float64 {
	*g += 0x9e3779b97f4a7c15
	z := uint64(*g)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return math.Sqrt2 * math.Erfinv((float64((z^z>>31)>>11)+0.5)/(1<<52)-1)
}
