package dpsco

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// What keeps a release from telling its noise, which is followed to the first order alone:
// more hidden directions, a larger share of a variance that noise in the second moments makes, and
// residuals times rows with a tail so heavy that they have no mean: each cut would find another one.
const (
	mostHiddenDirections = 1
	mostMomentShare      = 0.9
	leastToldIndex       = 1
)

// noise returns the covariance that noise gives the coefficients: that of the last pass and of
// the second moments by which its correction is made, and what the correction leaves of the pilot fit's.
// Nil where it is not known. It is post-processing (formulas: joint_moments.md).
func (f *jointFit) noise(keeps *mat.SymDense) *mat.SymDense {
	if f.tooLong || f.floored > mostHiddenDirections || f.products.index(cutsHide) < leastToldIndex {
		return nil
	}
	influences, levelKeep := f.stepInfluences(), f.levelKeep()
	kept := new(mat.Dense)
	kept.Mul(influences, keeps)
	total := sandwich(kept, f.stepOfReleases().covariance())
	if f.shape.Intercept {
		total.SetSym(0, 0, total.At(0, 0)+f.levelOfReleases().covariance().At(0, 0)*square(levelKeep*f.levelScale))
	}
	total.AddSym(total, sandwich(f.leftOfPilot(keeps, levelKeep), f.pilotNoise))
	moments := f.momentNoiseOf(influences, f.correction(f.kept, keeps))
	total.AddSym(total, moments)
	for j := range f.shape.D {
		if !(moments.At(j, j) <= mostMomentShare*total.At(j, j)) {
			return nil
		}
	}
	return total
}

// momentNoiseOf is the covariance of what the noise E of the second moments moves by a
// correction D, which enters the coefficients by A: that of (QA')'E(QD).
func (f *jointFit) momentNoiseOf(influences mat.Matrix, correction []float64) *mat.SymDense {
	var qa mat.Dense
	d, _ := influences.Dims()
	qd := mat.NewVecDense(d, nil)
	qa.Mul(influences, f.q.T())
	qd.MulVec(f.q, mat.NewVecDense(d, correction))
	return movedByMoments(&qa, qd, f.hDeviation)
}

// movedByMoments is the covariance of A E v, for noise E of second moments with a deviation on its
// diagonal.
func movedByMoments(a *mat.Dense, v mat.Vector, deviation float64) *mat.SymDense {
	var gram mat.SymDense
	var along mat.VecDense
	scale := square(deviation) / 2
	along.MulVec(a, v)
	gram.SymOuterK(scale*mat.Dot(v, v), a)
	gram.SymRankOne(&gram, scale, &along)
	return &gram
}

// followPilot follows the noise of the pilot fit over a pass that made a step, which is a gain G
// times a gradient with noise of a deviation, and has chosen the next coordinates: of the noise before
// (1 - G H) is left.
func (f *jointFit) followPilot(gain *mat.SymDense, step []float64, deviation float64) {
	g := mat.DenseCopyOf(gain)
	noise := movedByMoments(g, mat.NewVecDense(len(step), step), f.hDeviation)
	if f.pilotNoise != nil {
		left := mat.NewDense(len(step), len(step), nil)
		left.Mul(g, f.h)
		left.Sub(identity(len(step)), left)
		noise.AddSym(noise, sandwich(left, f.pilotNoise))
	}
	var own mat.SymDense
	own.SymOuterK(square(deviation), g)
	noise.AddSym(noise, &own)
	var back mat.Dense
	_ = back.Inverse(f.q) // an error would say that it is badly conditioned, no more
	f.pilotNoise = sandwich(&back, noise)
}

// leftOfPilot says how errors of the pilot fit, in the last coordinates, enter the coefficients after
// a correction and a level of which parts are kept. The level follows them by the mean row.
func (f *jointFit) leftOfPilot(keeps *mat.SymDense, levelKeep float64) *mat.Dense {
	d := f.shape.D
	h, part, left := sandwich(mat.DenseCopyOf(f.q.T()), f.h), mat.DenseCopyOf(keeps), identity(d)
	if f.shape.Intercept {
		part.SetRow(0, make([]float64, d))
		part.Set(0, 0, levelKeep/max(h.At(0, 0), leastConstant))
	}
	var corrected mat.Dense
	corrected.Mul(part, h)
	left.Sub(left, &corrected)
	left.Mul(f.p, left)
	return left
}

// keptMean is a mean that a pass keeps, from one release of it.
type keptMean struct {
	cuts
	cutMeans
	seen      *magnitudes
	choose    func(*magnitudes) cuts
	first     int     // as in cuts.means
	doubt     float64 // of releases that show no symmetry
	deviation float64 // of the noise on a coordinate, in the units of the cuts
}

func (f *jointFit) stepOfReleases() keptMean {
	deviation, _ := f.deviations()
	return keptMean{f.stepCuts, f.cutMeans, f.products, f.newStepCuts, f.first(), f.caution().doubt, deviation}
}

func (f *jointFit) levelOfReleases() keptMean {
	_, deviation := f.deviations()
	return keptMean{f.levelCuts, f.levels, f.residuals, f.newLevelCuts, 0, f.caution().doubt, deviation}
}

// Another release keeps other parts of what noise may explain. othersKeep is how much they weigh, as
// if all were kept, beside what this one keeps of a step; allBetween that of what lies
// between the cuts, in the variance, at the usual doubt: with more less is kept.
const (
	othersKeep = 0.5
	allBetween = 0.25
)

// covariance is that of the mean over other releases: its noise, at cuts that the noise of the
// histogram moves up or down, and what such cuts take from the mean or leave in it.
func (k keptMean) covariance() *mat.SymDense {
	all := allBetween * square(usualDoubt/k.doubt)
	kept, noise := math.Sqrt(all+(1-all)*square(k.keep)), 0.0
	var lies [2]float64
	for i, deviations := range []float64{-1, 1} {
		c := k.choose(k.seen.beyond(deviations))
		unit, unitRest := c.units()
		noise += square(k.deviation) * (square(unit*(1/c.uncut-kept*(1/c.uncut-1))) + square(kept*unitRest)) / 2
		lies[i] = k.seen.tail(c.outer, cutsHide)
	}
	from, to := k.seen.tail(k.cuts.inner, cutsHide), k.seen.tail(k.cuts.outer, cutsHide)
	moved := kept * (lies[0] - lies[1]) / 2 / max(from-to, math.SmallestNonzeroFloat64)
	between := k.between()
	covariance := mat.NewSymDense(len(between), nil)
	for j := range between {
		covariance.SetSym(j, j, noise)
	}
	covariance.SymRankOne(covariance, square(moved), mat.NewVecDense(len(between), between))
	return covariance
}

// between is about what lies between both cuts, without its noise.
func (k keptMean) between() []float64 {
	back := 1/k.uncut - 1
	_, unitRest := k.units()
	inner, outer := k.cutMeans.inner.mean, k.cutMeans.outer.mean
	v := make([]float64, len(inner))
	floats.AddScaledTo(v, outer, -1-back, inner)
	explained := float64(len(v)-k.first) * (square(unitRest*k.deviation) + square(back*k.cutMeans.inner.deviation))
	floats.Scale(math.Sqrt(max(0, 1-explained/max(square(floats.Norm(v[k.first:], 2)), math.SmallestNonzeroFloat64))), v)
	floats.AddScaled(v, back, inner)
	return v
}
