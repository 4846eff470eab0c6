package dpsco

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// What keeps a release from telling its noise, which is followed to the first order alone: more hidden directions, noise of
// the pilot fit that makes predictions wrong by a larger part of the median residual, by which cuts are chosen, and residuals times rows with a tail so
// heavy that they have no mean: each cut would find another one.
const (
	mostHiddenDirections = 1
	mostPilotNoise       = 0.2
	leastToldIndex       = 1
)

// noise returns the covariance that noise gives the coefficients: that of the last pass, what the correction leaves
// of the pilot fit's, and that of the second moments, by which the correction of a fit that is off by drift besides its noise is made.
// Nil where it is not known, and for groups. It is post-processing (formulas: joint_moments.md).
func (f *jointFit) noise(keeps *mat.SymDense, drift float64) *mat.SymDense {
	if f.grouped || f.tooLong || f.floored > mostHiddenDirections || f.products.index(cutsHide) < leastToldIndex ||
		!(math.Sqrt(mat.Trace(f.pilotNoise)) <= mostPilotNoise*f.residuals.quantile(0.5)) {
		return nil
	}
	levelKeep := f.levelKeep()
	kept := new(mat.Dense)
	kept.Mul(f.stepInfluences(), keeps)
	step, g := f.stepOfReleases().covariance()
	total := sandwich(kept, step)
	if f.shape.Intercept {
		level, _ := f.levelOfReleases().covariance()
		total.SetSym(0, 0, total.At(0, 0)+level.At(0, 0)*square(levelKeep*f.levelScale))
	}
	responding := mat.NewSymDense(f.shape.D, nil)
	responding.ScaleSym(f.response(g), keeps)
	for _, deviations := range []float64{-1, 1} {
		left := sandwich(f.leftOfPilot(responding, levelKeep, deviations*math.Sqrt2*f.hDeviation), f.pilotNoise)
		left.ScaleSym(0.5, left)
		total.AddSym(total, left)
	}
	off := mat.NewSymDense(f.shape.D, nil)
	off.CopySym(f.pilotNoise)
	for j := range f.shape.D {
		off.SetSym(j, j, off.At(j, j)+square(drift))
	}
	var qa mat.Dense
	qa.Mul(kept, f.q.T())
	total.AddSym(total, movedByMoments(&qa, sandwich(f.q, off), f.hDeviation))
	return total
}

// momentNoiseOf is the covariance of what the noise E of the second moments moves by a
// correction D, which enters the coefficients by A: that of (QA')'E(QD).
func (f *jointFit) momentNoiseOf(influences mat.Matrix, correction []float64) *mat.SymDense {
	var qa mat.Dense
	qa.Mul(influences, f.q.T())
	return movedByMoments(&qa, outerSquare(times(f.q, correction)), f.hDeviation)
}

// movedByMoments is the covariance of A E v, for noise E of second moments with a deviation on its
// diagonal, and v v' of a mean vv.
func movedByMoments(a *mat.Dense, vv *mat.SymDense, deviation float64) *mat.SymDense {
	var gram mat.SymDense
	gram.SymOuterK(mat.Trace(vv), a)
	gram.AddSym(&gram, sandwich(a, vv))
	gram.ScaleSym(square(deviation)/2, &gram)
	return &gram
}

// outerSquare is v v'.
func outerSquare(v []float64) *mat.SymDense {
	o := mat.NewSymDense(len(v), nil)
	o.SymRankOne(o, 1, mat.NewVecDense(len(v), v))
	return o
}

// followPilot follows the noise of the pilot fit over a pass that made a step, which is a gain G
// times a gradient with noise of a deviation, and has chosen the next coordinates: of the noise before
// (1 - G H) is left.
func (f *jointFit) followPilot(gain *mat.SymDense, step []float64, deviation float64) {
	g := mat.DenseCopyOf(gain)
	noise := movedByMoments(g, outerSquare(step), f.hDeviation)
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
// a correction and a level of which parts are kept, if all eigenvalues of the second moments were larger by a number: those
// that were raised are others in each release. The level follows errors by the mean row.
func (f *jointFit) leftOfPilot(keeps *mat.SymDense, levelKeep, larger float64) *mat.Dense {
	d := f.shape.D
	h, part, left := f.whitened(larger), mat.DenseCopyOf(keeps), identity(d)
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

// whitened is Q'HQ, with all eigenvalues of H larger by a number: 1 but along directions that were raised.
func (f *jointFit) whitened(larger float64) *mat.SymDense {
	values, vectors := eigen(f.h)
	var back mat.Dense
	_ = back.Inverse(f.q) // an error would say that it is badly conditioned, no more
	h := mat.NewSymDense(f.shape.D, nil)
	for k, v := range values {
		var along mat.VecDense
		along.MulVec(&back, vectors.ColView(k))
		moment := max(0, v+larger)
		h.SymRankOne(h, moment/max(moment, f.floor)/max(mat.Dot(&along, &along), math.SmallestNonzeroFloat64), &along)
	}
	return h
}

// response is by how much the step follows an error of the pilot fit, as a part of the second moments, where a part g of
// what lies between its cuts is kept: rows that are cut do not follow it. It takes residuals for independent of rows.
func (f *jointFit) response(g float64) float64 {
	if !f.lengths.seen || !f.residuals.seen {
		return 1
	}
	inner, outer, all := 0.0, 0.0, 0.0
	rescale := math.Sqrt(meanSquare(f.q, f.h, f.hDeviation) / f.beyond(0) * max(f.slopes, 1) / f.d)
	for k, share := range f.lengths.share {
		length := f.lengths.quantity[k]
		short := square(min(1, f.bound/length))
		moment, product := share*short*square(length), (short+(1-short)*f.back)*length*rescale
		all += moment
		inner += moment * f.residuals.upTo(f.stepCuts.inner/product)
		outer += moment * f.residuals.upTo(f.stepCuts.outer/product)
	}
	return min(1, ((1/f.stepCuts.uncut-g*(1/f.stepCuts.uncut-1))*inner+g*(outer-inner))/all)
}

// keptMean is a mean that a pass keeps, from one release of it.
type keptMean struct {
	cuts
	cutMeans
	seen      *magnitudes
	choose    func(*magnitudes) cuts
	first     int     // as in cuts.means
	doubt     float64 // as there
	deviation float64 // of the noise on a coordinate, in the units of the cuts
}

func (f *jointFit) stepOfReleases() keptMean {
	deviation, _ := f.deviations()
	return keptMean{f.stepCuts, f.cutMeans, f.products, f.newStepCuts, f.first(), f.stepDoubt(), deviation}
}

func (f *jointFit) levelOfReleases() keptMean {
	_, deviation := f.deviations()
	return keptMean{f.levelCuts, f.levels, f.residuals, f.newLevelCuts, 0, f.caution().doubt, deviation}
}

// othersKeep is how much of a step, of which noise explains a part, other releases keep in place of nothing.
const othersKeep = 0.5

// cutDraws is of how many other histograms covariance takes the cuts.
const cutDraws = 32

// covariance is that of the mean over other releases, at the cuts to which other histograms lead: its noise, what such
// cuts take from the mean or leave in it, and that other parts are kept of what lies between both, of which the part
// that this release keeps is taken for what is there without noise. It also returns the mean of that part.
func (k keptMean) covariance() (covariance *mat.SymDense, keep float64) {
	d := len(k.cutMeans.between.mean)
	direction := mat.NewVecDense(d, nil)
	copy(direction.RawVector().Data[k.first:], k.cutMeans.between.mean[k.first:])
	length := mat.Norm(direction, 2)
	if length > 0 {
		direction.ScaleVec(1/length, direction)
	}
	exponent, across, along, squareKeep := k.seen.index(cutsHide), 0.0, 0.0, 0.0
	var moves [cutDraws]float64
	for draw := range moves {
		c := k.choose(k.seen.again(draw))
		o := c.others(k.deviation, k.keep*length, float64(d-k.first), k.doubt)
		across, along = across+o.across/cutDraws, along+o.along/cutDraws
		keep, squareKeep = keep+o.keep/cutDraws, squareKeep+o.squareKeep/cutDraws
		moves[draw] = k.cuts.reached(c.outer, exponent)
	}
	covariance = mat.NewSymDense(d, nil)
	for j := range d {
		covariance.SetSym(j, j, across)
	}
	covariance.SymRankOne(covariance, along-across, direction)
	_, moved := stat.PopMeanVariance(moves[:], nil)
	covariance.SymRankOne(covariance, squareKeep*moved, mat.NewVecDense(d, k.between()))
	return covariance, keep
}

// reached is how far the mean has moved at a cut, from the inner one, 0, to the outer one, 1, with a tail of an exponent.
func (c cuts) reached(cut, exponent float64) float64 {
	power := 1 - max(exponent, 1.01)
	return (math.Pow(cut/c.inner, power) - 1) / (math.Pow(c.outer/c.inner, power) - 1)
}

// otherParts says what other releases do with what lies between two cuts: the variance of a coordinate of the mean along that and across
// it, and the mean and the mean square of the part that they keep.
type otherParts struct{ across, along, keep, squareKeep float64 }

// others is that if between the cuts lies signal, by which mean is meant without noise, in so many coordinates.
func (c cuts) others(deviation, signal, coordinates, doubt float64) (o otherParts) {
	unit, unitRest := c.units()
	inner, back := square(unit*deviation), 1/c.uncut-1
	noise := square(unitRest*deviation) + square(back)*inner // of D, which says this of the noise of S / u, and leaves the rest
	says := -back * inner / (c.uncut * noise)
	left := inner/square(c.uncut) - square(says)*noise
	mean, meanSquare := 0.0, 0.0
	for _, z := range normalNodes {
		v := signal + math.Sqrt(noise)*z
		for node := range chiNodes {
			weight, beside := 1./chiNodes/float64(len(normalNodes)), noise*chiSquared(node, coordinates-1)
			g := max(0, 1-square(doubt*coordinates*noise/max(v*v+beside, math.SmallestNonzeroFloat64)))
			moved := says*math.Sqrt(noise)*z + g*v
			mean, meanSquare = mean+weight*moved, meanSquare+weight*square(moved)
			o.keep, o.squareKeep, o.across = o.keep+weight*g, o.squareKeep+weight*g*g, o.across+weight*square(says+g)*beside
		}
	}
	o.along = left + meanSquare - square(mean)
	o.across = left + o.across/max(coordinates-1, 1)
	return o
}

// chiNodes is how many quantiles of chi-squared chiSquared has, in equal distances of probability.
const chiNodes = 8

// chiSquared is one of them (Wilson and Hilferty).
func chiSquared(node int, freedom float64) float64 {
	if freedom <= 0 {
		return 0
	}
	variance := 2 / (9 * freedom)
	z := normalNodes[(2*node+1)*len(normalNodes)/(2*chiNodes)]
	return freedom * math.Pow(max(0, 1-variance+math.Sqrt(variance)*z), 3)
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
