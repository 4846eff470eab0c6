package dpsco

import (
	"math"

	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/table"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// Limits beyond which the noise methods return nil, because first-order propagation is too inaccurate there.
const (
	// maxHiddenDirections bounds the number of eigenvalues of the second moments that noise hides.
	maxHiddenDirections = 1
	// maxPilotNoise bounds the standard deviation that noise of the pilot fit gives a prediction, in median
	// residuals. With more, the residuals by which the cuts are chosen are largely noise.
	maxPilotNoise = 0.2
	// minToldIndex is the least tail index of the products |residual| |row|, and of counts. With a smaller
	// one they have no mean, so that the clipped mean depends on the cut.
	minToldIndex = 1
)

// noise returns the covariance of the coefficients due to noise, to the first order: that of the step and
// the intercept's step, that of the pilot fit as far as the correction does not remove it, and that of the second
// moments, which multiply the pilot fit's error. keeps multiplies the correction of the slopes; drift is the
// standard deviation of a coordinate of the pilot fit's error other than noise. The result is nil for groups
// and where it would be inaccurate (constants above). It is post-processing (formulas: joint_moments.md).
func (f *jointFit) noise(keeps *mat.SymDense, drift float64) *mat.SymDense {
	if f.grouped || f.tooLong || f.floored > maxHiddenDirections || f.products.Index(magnitude.CutTail) < minToldIndex ||
		!(math.Sqrt(mat.Trace(f.pilotNoise)) <= maxPilotNoise*f.residuals.Quantile(0.5)) {
		return nil
	}
	interceptKeep := f.interceptKeep()
	kept := new(mat.Dense)
	kept.Mul(f.stepInfluences(), keeps)
	step, g := f.stepOfReleases().covariance()
	total := linalg.Sandwich(kept, step)
	if f.shape.Intercept {
		intercept, _ := f.interceptOfReleases().covariance()
		total.SetSym(0, 0, total.At(0, 0)+intercept.At(0, 0)*square(interceptKeep*f.interceptScale))
	}
	responses := f.responses(g)
	for _, sign := range []float64{-1, 1} {
		pilot := linalg.Sandwich(f.leftOfPilot(keeps, responses, interceptKeep, sign*math.Sqrt2*f.hDeviation), f.pilotNoise)
		pilot.ScaleSym(0.5, pilot)
		total.AddSym(total, pilot)
	}
	pilotError := mat.NewSymDense(f.shape.D, nil)
	pilotError.CopySym(f.pilotNoise)
	for j := range f.shape.D {
		pilotError.SetSym(j, j, pilotError.At(j, j)+square(drift))
	}
	var qa mat.Dense
	qa.Mul(kept, f.q.T())
	total.AddSym(total, movedByMoments(&qa, linalg.Sandwich(f.q, pilotError), f.hDeviation))
	return total
}

// maxToldStep is the largest change of predictions by the step, as a multiple of what residuals are cut to or, if that is
// larger, of the median residual, that the noise of a coefficient is told with.
const maxToldStep = 0.5

// movedTooFar returns the slopes of which noise tells too little: the unshrunk step moves the predictions of the rows that
// determine one so far that what the cuts leave of their residuals, and what shrinkage keeps of the step, differs between
// releases. These rows are those with a flag, however few; those of a number are as large as its root mean square. Other
// features follow by their correlations. A flag is 0 or 1, so that its mean is its mean square; without an intercept none is
// told from a number. With weights its rows are taken to have a typical one.
func (f *jointFit) movedTooFar() (far []int) {
	var inverse, before, back mat.Dense
	var along mat.VecDense
	_ = inverse.Inverse(f.q) // an error only reports bad conditioning
	before.Mul(f.p, &inverse)
	_ = back.Inverse(&before)
	moments := linalg.Sandwich(mat.DenseCopyOf(back.T()), f.h)
	along.MulVec(moments, mat.NewVecDense(f.shape.D, linalg.Times(f.p, f.correction(f.kept, nil))))
	length := func(j int) float64 { return mat.Norm(back.ColView(j), 2) }
	median := f.residuals.Quantile(0.5)
	for j := f.first(); j < f.shape.D; j++ {
		moment := moments.At(j, j)
		size := math.Sqrt(max(0, moment))
		if noise := f.hDeviation * length(j) * max(length(0), length(j)); f.shape.Intercept && math.Abs(moment-moments.At(0, j)) <= surelyMoves*noise {
			if size = 1; f.weighted {
				size = math.Sqrt(f.counted())
			}
		}
		cut := f.stepCuts.inner / (size * floats.Norm(f.p.RawRowView(j)[f.first():], 2))
		if size*math.Abs(along.AtVec(j)) > maxToldStep*max(cut, median)*moment {
			far = append(far, j)
		}
	}
	return far
}

// momentNoiseOf returns the covariance of (QA')'E(QD), the change of the coefficients when noise E is added to
// the second moments, where D is the correction and A, influences, maps it to the coefficients.
func (f *jointFit) momentNoiseOf(influences mat.Matrix, correction []float64) *mat.SymDense {
	var qa mat.Dense
	qa.Mul(influences, f.q.T())
	return movedByMoments(&qa, linalg.OuterSquare(linalg.Times(f.q, correction)), f.hDeviation)
}

// movedByMoments returns the covariance of A E v, where v is random with E[v v'] = vv, and E is the noise of
// second moments: symmetric, with the given standard deviation on the diagonal and 1/sqrt 2 times it off the
// diagonal.
func movedByMoments(a *mat.Dense, vv *mat.SymDense, deviation float64) *mat.SymDense {
	var gram mat.SymDense
	gram.SymOuterK(mat.Trace(vv), a)
	gram.AddSym(&gram, linalg.Sandwich(a, vv))
	gram.ScaleSym(square(deviation)/2, &gram)
	return &gram
}

// followPilot updates pilotNoise after a pilot pass. The pass's step is G times a gradient, where G is gain
// and the noise on each coordinate of the gradient has standard deviation deviation. The step multiplies the
// previous noise of the fit by 1 - G H and adds its own noise and that of the second moments, whose effect
// is proportional to the step. The result is in the coordinates of the next pass.
func (f *jointFit) followPilot(gain *mat.SymDense, step []float64, deviation float64) {
	g := mat.DenseCopyOf(gain)
	noise := movedByMoments(g, linalg.OuterSquare(step), f.hDeviation)
	if f.pilotNoise != nil {
		left := mat.NewDense(len(step), len(step), nil)
		left.Mul(g, f.h)
		left.Sub(linalg.Identity(len(step)), left)
		noise.AddSym(noise, linalg.Sandwich(left, f.pilotNoise))
	}
	var own mat.SymDense
	own.SymOuterK(square(deviation), g)
	noise.AddSym(noise, &own)
	var inverse mat.Dense
	_ = inverse.Inverse(f.q) // an error only reports bad conditioning
	f.pilotNoise = linalg.Sandwich(&inverse, noise)
}

// leftOfPilot returns the matrix L = P - R P K Q'HQ that maps errors of the pilot fit, in the last
// coordinates, to the coefficients after the correction and the intercept's step. K, keeps, is the kept fraction of the
// correction and R the diagonal of the coefficients' responses. With an intercept the constant's coordinate is that of the
// intercept's step: interceptKeep is its kept fraction, and it responds to errors by the mean row. larger is added to all
// eigenvalues of H, to simulate other releases: eigenvalues below the floor differ between them.
func (f *jointFit) leftOfPilot(keeps *mat.SymDense, responses []float64, interceptKeep, larger float64) *mat.Dense {
	h, part := f.whitened(larger), mat.DenseCopyOf(keeps)
	var slopes, constant mat.Dense
	if f.shape.Intercept {
		part.SetRow(0, make([]float64, f.shape.D))
	}
	slopes.Mul(part, h)
	slopes.Mul(f.p, &slopes)
	left := mat.DenseCopyOf(f.p)
	for j, r := range responses {
		floats.AddScaled(left.RawRowView(j), -r, slopes.RawRowView(j))
	}
	if f.shape.Intercept {
		constant.Outer(-interceptKeep/max(h.At(0, 0), minConstant), f.p.ColView(0), mat.DenseCopyOf(h).RowView(0))
		left.Add(left, &constant)
	}
	return left
}

// whitened returns Q'HQ for a release in which all eigenvalues of H are greater by larger and Q whitens by
// these. Its eigenvalues are 1, except along directions whose eigenvalue lies below the floor.
func (f *jointFit) whitened(larger float64) *mat.SymDense {
	values, vectors := linalg.Eigen(f.h)
	var inverse mat.Dense
	_ = inverse.Inverse(f.q) // an error only reports bad conditioning
	h := mat.NewSymDense(f.shape.D, nil)
	for k, v := range values {
		var along mat.VecDense
		along.MulVec(&inverse, vectors.ColView(k))
		moment := max(0, v+larger)
		h.SymRankOne(h, moment/max(moment, f.floor)/max(mat.Dot(&along, &along), math.SmallestNonzeroFloat64), &along)
	}
	return h
}

// carriesDirection is the second moment, of the 1 of each direction, that rows as long as those of a flag must be seen to
// have for that feature's effect to count as theirs.
const carriesDirection = 0.4

// responses returns the response for each coefficient: that of all rows or, where rows with the whole scale of its feature
// would be long, and rows of that length hold about as much as a direction does, that of these. They are the rows of a rare
// flag, most of whose contributions are clipped. g is the kept fraction of D. All are 1 if the histogram of lengths or that
// of residuals has no visible bin.
func (f *jointFit) responses(g float64) []float64 {
	if !f.lengths.Seen() || !f.residuals.Seen() {
		return table.Repeat(1, f.shape.D)
	}
	all, _ := f.response(g, 0, math.Sqrt(linalg.MeanSquareLength(f.q, f.h, f.hDeviation)/f.beyond(0)*max(f.slopes, 1)/f.d))
	responses := table.Repeat(all, f.shape.D)
	var inverse, before mat.Dense
	_ = inverse.Inverse(f.q) // an error only reports bad conditioning
	before.Mul(f.p, &inverse)
	for j := f.first(); j < f.shape.D; j++ {
		length := floats.Norm(before.RawRowView(j), 2)
		stretch := floats.Norm(f.p.RawRowView(j)[f.first():], 2) / length
		if f.weighted {
			stretch /= math.Sqrt(f.counted()) // such long rows have about the largest weight, and so have their residuals
		}
		if own, moment := f.response(g, length/math.Sqrt2, stretch); moment > carriesDirection {
			responses[j] = min(all, own)
		}
	}
	return responses
}

// response returns the derivative of the step S / u + g D with respect to an error of the pilot fit, as a
// fraction of the second moments, of rows that the histogram of lengths shows beyond least, and the second moment that these
// hold there; in the step they are stretch times as long. It is below 1 because the contributions of clipped rows do not
// change with their residuals. It assumes that residuals are independent of rows.
func (f *jointFit) response(g, least, stretch float64) (response, held float64) {
	residuals, inner, outer := f.residuals.WithSpreadBins(), 0.0, 0.0
	for length, share := range f.lengths.Visible() {
		if length < least {
			continue
		}
		kept := square(min(1, f.bound/length))
		moment, product := share*kept*square(length), (kept+(1-kept)*f.restored)*length*stretch
		held += moment
		inner += moment * residuals.Below(f.stepCuts.inner/product)
		outer += moment * residuals.Below(f.stepCuts.outer/product)
	}
	if held == 0 {
		return 1, 0
	}
	return min(1, ((1/f.stepCuts.uncut-g*(1/f.stepCuts.uncut-1))*inner+g*(outer-inner))/held), held
}

// keptMean is a released mean S / u + g D (joint_moments.md), with the data from which its covariance over
// other releases is estimated.
type keptMean struct {
	cuts
	cutMeans
	seen      *magnitude.Histogram            // the histogram by which the cuts were chosen
	choose    func(*magnitude.Histogram) cuts // chooses the cuts by another histogram
	first     int                             // as in cuts.means
	doubt     float64                         // as in cuts.means
	deviation float64                         // standard deviation of the noise on a coordinate, in the units of the sums
}

// stepOfReleases returns the released step.
func (f *jointFit) stepOfReleases() keptMean {
	deviation, _ := f.deviations()
	return keptMean{f.stepCuts, f.cutMeans, f.products, f.newStepCuts, f.first(), f.stepDoubt(), deviation}
}

// interceptOfReleases returns the released step of the intercept.
func (f *jointFit) interceptOfReleases() keptMean {
	_, deviation := f.deviations()
	return keptMean{f.interceptCuts, f.interceptMeans, f.residuals, f.newInterceptCuts, 0, f.cutWeights().doubt, deviation}
}

// othersKeep is the assumed mean fraction of a step that other releases keep along a direction in which
// this release keeps nothing: half of the shrinkage counts as kept.
const othersKeep = 0.5

// cutDraws is the number of simulated other histograms over whose cuts covariance averages.
const cutDraws = 32

// covariance returns the covariance of the mean over other releases, averaged over the cuts that simulated
// other histograms lead to. It is due to the noise of S and D, to the variation of g, and to the change of
// the clipped mean with the outer cut. D without its noise is assumed to be g D of this release. keep is the
// mean of g over other releases.
func (k keptMean) covariance() (covariance *mat.SymDense, keep float64) {
	d := len(k.cutMeans.between.mean)
	direction := mat.NewVecDense(d, nil)
	copy(direction.RawVector().Data[k.first:], k.cutMeans.between.mean[k.first:])
	length := mat.Norm(direction, 2)
	if length > 0 {
		direction.ScaleVec(1/length, direction)
	}
	exponent, across, along, squareKeep := k.seen.Index(magnitude.CutTail), 0.0, 0.0, 0.0
	var moves [cutDraws]float64
	for draw := range moves {
		c := k.choose(k.seen.Again(draw))
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

// reached returns the position of the mean clipped at cut between that clipped at the inner cut, 0, and that
// clipped at the outer one, 1, for a Pareto tail with the given exponent, which counts as 1.01 at least.
func (c cuts) reached(cut, exponent float64) float64 {
	power := 1 - max(exponent, 1.01)
	return (math.Pow(cut/c.inner, power) - 1) / (math.Pow(c.outer/c.inner, power) - 1)
}

// otherParts describes S / u + g D over other releases: its variance along each direction orthogonal to the
// mean of D, across, and along that mean, and the means of g and of g^2.
type otherParts struct{ across, along, keep, squareKeep float64 }

// others computes otherParts by quadrature over the noise of D, for cuts c. signal is the length of the mean
// of D, over the given number of coordinates; deviation is the standard deviation of the noise on a coordinate
// of the sums, in their units.
func (c cuts) others(deviation, signal, coordinates, doubt float64) (o otherParts) {
	unit, unitRest := c.units()
	inner, inflation := square(unit*deviation), 1/c.uncut-1
	// noise is the variance of the noise of a coordinate of D; slope is that of the regression of the noise of
	// S / u on it, and unexplained the residual variance.
	noise := square(unitRest*deviation) + square(inflation)*inner
	slope := -inflation * inner / (c.uncut * noise)
	unexplained := inner/square(c.uncut) - square(slope)*noise
	mean, meanSquare := 0.0, 0.0
	for _, z := range numeric.NormalNodes {
		v := signal + math.Sqrt(noise)*z
		for node := range chiNodes {
			weight, squareAcross := 1./chiNodes/float64(len(numeric.NormalNodes)), noise*chiSquared(node, coordinates-1)
			g := max(0, 1-square(doubt*coordinates*noise/max(v*v+squareAcross, math.SmallestNonzeroFloat64)))
			shift := slope*math.Sqrt(noise)*z + g*v
			mean, meanSquare = mean+weight*shift, meanSquare+weight*square(shift)
			o.keep, o.squareKeep, o.across = o.keep+weight*g, o.squareKeep+weight*g*g, o.across+weight*square(slope+g)*squareAcross
		}
	}
	o.along = unexplained + meanSquare - square(mean)
	o.across = unexplained + o.across/max(coordinates-1, 1)
	return o
}

// chiNodes is the number of quantiles of chi-squared, at equally spaced probabilities, in the quadrature.
const chiNodes = 8

// chiSquared returns quantile node of chi-squared with the given degrees of freedom, by the approximation of
// Wilson and Hilferty.
func chiSquared(node int, freedom float64) float64 {
	if freedom <= 0 {
		return 0
	}
	variance := 2 / (9 * freedom)
	z := numeric.NormalNodes[(2*node+1)*len(numeric.NormalNodes)/(2*chiNodes)]
	return freedom * math.Pow(max(0, 1-variance+math.Sqrt(variance)*z), 3)
}

// between returns an estimate of R, the mean of the contributions' parts between both cuts: D, shortened so
// that its square length is less by that expected of its noise, plus (1/u - 1) S.
func (k keptMean) between() []float64 {
	inflation := 1/k.uncut - 1
	_, unitRest := k.units()
	inner, outer := k.cutMeans.inner.mean, k.cutMeans.outer.mean
	v := make([]float64, len(inner))
	floats.AddScaledTo(v, outer, -1-inflation, inner)
	explained := float64(len(v)-k.first) * (square(unitRest*k.deviation) + square(inflation*k.cutMeans.inner.deviation))
	floats.Scale(math.Sqrt(max(0, 1-explained/max(square(floats.Norm(v[k.first:], 2)), math.SmallestNonzeroFloat64))), v)
	floats.AddScaled(v, inflation, inner)
	return v
}
