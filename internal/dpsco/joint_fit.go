package dpsco

import (
	"math"

	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// jointParts are the fits of a JointMoments in progress: one for all rows or, after the split, one
// for each group. The sums of all parts in a pass are released together.
type jointParts struct {
	*jointReleases
	fits []*jointFit
	groups
}

// jointFit is a fit of a part of the rows. All fields except those marked sensitive are released or public.
type jointFit struct {
	*jointReleases
	n          float64 // number of rows of the part
	perRow     float64 // all rows over n: converts a released mean over all rows to a mean over the part
	d, slopes  float64
	grouped    bool       // the part is a group
	spreads    []float64  // of a group: the deviation of each column over all rows
	small      bool       // a group whose size is small beside its noise
	tooLong    bool       // rows are far longer than their scales suggest
	rare       bool       // the target is rarely as large as its scale
	mostlyZero bool       // most targets are about 0
	larger     float64    // number of visible rows with a target that is not
	p          *mat.Dense // whitened rows are P'x; upper triangular
	w          []float64  // the pilot fit
	weighted   bool       // rows have weights

	bound, cut float64 // bounds of the next pass on row length and residual
	within     float64 // share of residuals that are below cut

	h              *mat.SymDense // second moments of the last pilot pass, in its coordinates
	hDeviation     float64       // standard deviation of the noise on the diagonal of h
	q              *mat.Dense    // maps those coordinates to the next
	floor          float64       // the value to which smaller eigenvalues were raised
	floored        int           // number of eigenvalues that the noise hides
	least          float64       // the smallest eigenvalue, raised to the noise that may hide it
	shortenedCount int           // number of eigenvalues below shortenedEigenvalue
	pilotNoise     *mat.SymDense // covariance of the pilot fit due to noise, in the last coordinates
	subgradient    []float64     // of Psi at the pilot fit, in the last coordinates

	shortened []float64 // sensitive: factor by which each row was shortened in the last pilot pass
	residuals *magnitude.Histogram
	lengths   *magnitude.Histogram
	products  *magnitude.Histogram
	// StandsOut and FartherStandsOut of the histograms of lengths and of that of products together.
	standsOut, fartherStandsOut float64

	restored                float64    // share of the shortening that is undone in a row's weight in the step
	wide                    *mat.Dense // P of the last pilot pass, for rows in a database
	weights                 []float64  // sensitive: weights of rows in the step, for rows in memory
	stepCuts, interceptCuts cuts
	cutMeans                         // of the step, in the last coordinates
	interceptMeans          cutMeans // of the mean residual, the step of the intercept; empty before its release or without an intercept
	interceptScale          float64  // corrects the intercept's step for unusable rows and weights of rows
	constant                noisyConstant
	meat                    *mat.SymDense
}

// newJointParts returns a fit of all rows.
func newJointParts(r *jointReleases, x table.Data) *jointParts {
	f := newJointFit(r)
	f.weighted = x.Weighted()
	return &jointParts{jointReleases: r, fits: []*jointFit{f}, groups: groups{parts: []table.Data{x}}}
}

// jointTooLong is how many times longer than the bound that fits the scales rows must be to show that
// scales are far too small. It is high because skewed features, and those far from 0, make most rows a few
// times longer than the bound.
const jointTooLong = 10

// firstResidualCut is the cut of residuals in the first pass, in residual scales. The targets are
// the residuals then, because the fit is 0.
const firstResidualCut = 2

func newJointFit(r *jointReleases) *jointFit {
	d := r.shape.D
	f := &jointFit{
		jointReleases: r, n: float64(r.shape.N), perRow: 1, d: float64(d), slopes: float64(r.shape.D),
		p: levelCoordinates(r.shape, r.Levels), w: make([]float64, d), bound: r.Bound, cut: firstResidualCut * r.Scale, within: 1,
		subgradient: make([]float64, d),
	}
	if r.shape.Intercept {
		f.slopes--
	}
	return f
}

// jointPilot holds the sums of a pilot pass over a part of the rows, before noise.
type jointPilot struct {
	moments                      *mech.Moments
	residuals, lengths, products *mech.Histogram
}

// pilot makes one pilot pass: it releases joint moments and histograms, moves the fits by a
// regression step, whitens, and chooses the bounds of the next pass.
func (a *jointParts) pilot(t int, src *mech.Source) {
	seen := make([]jointPilot, len(a.fits))
	for g, f := range a.fits {
		seen[g] = f.sumPilot(t, a.parts[g])
	}
	joint := releaseMoments(mapSlice(seen, func(p jointPilot) *mech.Moments { return p.moments }), a.pilotContract(), a.momentNoise[t], src)
	residuals := releaseCounts(mapSlice(seen, func(p jointPilot) *mech.Histogram { return p.residuals }), a.residualNoise[t], src)
	lengths := releaseCounts(mapSlice(seen, func(p jointPilot) *mech.Histogram { return p.lengths }), a.lengthNoise[t], src)
	for g, f := range a.fits {
		var longer float64
		f.lengths, longer = magnitude.ReadLengths(lengths[g], a.lengthNoise[t], f.shape.D, f.bound, jointTooLong, f.n)
		f.tooLong = f.tooLong || longer > 1
		f.addBeyond(f.lengths)
		f.readMoments(t, joint[g], longer)
		f.residuals = f.magnitudes(residuals[g], a.residualNoise[t], f.Scale, math.Inf(1)).AsRun()
		if t == 0 {
			small := f.residuals.Below(aboutZero * f.Scale * f.rootWeight())
			f.mostlyZero, f.larger = small > 0.5, (1-small)*f.residuals.Counted()*f.n
			f.rare = f.residuals.RarelyAsLargeAs(f.Scale * f.rootWeight())
		}
		f.mayHide(f.residuals, f.Scale)
	}
	if t < pilotPasses-1 {
		for _, f := range a.fits {
			f.nextCuts(t)
		}
		return
	}
	products := releaseCounts(mapSlice(seen, func(p jointPilot) *mech.Histogram { return p.products }), a.productNoise, src)
	for g, f := range a.fits {
		f.products = f.magnitudes(products[g], a.productNoise, f.Scale, math.Inf(1)).AsRun()
		f.addBeyond(f.products)
		f.mayHide(f.products, f.Scale*math.Sqrt(f.d))
		f.chooseCuts()
		f.weigh()
	}
}

// addBeyond adds what stands out above the visible bins of one of pilotPasses + 1 histograms.
func (f *jointFit) addBeyond(m *magnitude.Histogram) {
	f.standsOut += m.StandsOut() / math.Sqrt(pilotPasses+1)
	f.fartherStandsOut += m.FartherStandsOut() / math.Sqrt(pilotPasses+1)
}

// aboutZero is the part of the scale below which a target counts as about 0.
const aboutZero = 1. / 256

// rootWeight returns the root of the mean weight, as released in pass 0 as the second moment of the
// constant: every residual is multiplied by the root of its row's weight. Without an intercept the
// mean weight is unknown and 0 is returned, so that no target of weighted rows counts as rare.
func (f *jointFit) rootWeight() float64 {
	switch {
	case !f.weighted:
		return 1
	case !f.shape.Intercept:
		return 0
	}
	return math.Sqrt(numeric.ClampBetween(f.h.At(0, 0), f.hDeviation, 1))
}

// mayHide extends the range in which the histogram's noise may hide rows up to size, if the target
// is rarely as large as its scale. Otherwise residuals far below the scale mean that the model
// explains the target.
func (f *jointFit) mayHide(m *magnitude.Histogram, size float64) {
	if f.rare {
		m.Reach(size)
	}
}

// magnitudes reads a released histogram of the part.
func (f *jointFit) magnitudes(noisy []float64, noise mech.Gaussian, unit, limit float64) *magnitude.Histogram {
	return magnitude.Read(noisy, noise.NoiseMultiplier*math.Sqrt2, unit, limit, f.n)
}

// sumPilot computes the sums of a pilot pass over a part of the rows.
func (f *jointFit) sumPilot(t int, x table.Data) jointPilot {
	if x.Pushdown != nil {
		return f.queryPilot(t, x.Pushdown)
	}
	if f.shortened == nil {
		f.shortened = x.NewColumn(len(x.Y))
	}
	moments := table.Parts[*mech.Moments]{Total: mech.NewMoments(f.pilotContract())}
	residuals, lengths, products := magnitudeCounts(f.shape.N), magnitudeCounts(f.shape.N), magnitudeCounts(f.shape.N)
	scan(x, f.p, f.w, func() func(int, *rowBlock) {
		m, e, l, g := moments.Fork(), residuals.Fork(), lengths.Fork(), products.Fork()
		return func(first int, r *rowBlock) {
			r.scaleByWeight()
			r.countFirst(e, r.e, f.Scale)
			r.countFirst(l, r.length, 1)
			if t == pilotPasses-1 {
				magnitude.Count(g, r.products(f.Scale), r.bins)
			}
			r.addPilot(m, f.bound, f.cut, f.shortened[first:first+r.n])
		}
	})
	return jointPilot{moments.Merged(), residuals.Merged(), lengths.Merged(), products.Merged()}
}

// shortenedEigenvalue is the floor of the eigenvalues in the last pilot pass. The passes before it
// made them 1, so that a direction with a smaller one is due to few rows, which are shortened. They did not for a group,
// in which a feature may lie elsewhere or spread less.
// Whitening it by the small moment that is left after shortening would stretch the rows themselves
// by far more, and the last step would overshoot along it.
const shortenedEigenvalue = 0.25

// readMoments whitens by the released second moments of pass t and moves the fit by the products of
// rows and residuals. longer is the result of magnitude.ReadLengths for the pass.
func (f *jointFit) readMoments(t int, joint []float64, longer float64) {
	d := f.shape.D
	floats.Scale(square(longer), joint)
	f.h = mat.NewSymDense(d, nil)
	gradient := mat.NewVecDense(d, nil)
	unit := f.cut / f.bound / residualWeight / f.within
	for i := range d {
		for j := i; j < d; j++ {
			f.h.SetSym(i, j, joint[i*(d+1)+j]*f.perRow*f.bound*f.bound)
		}
		gradient.SetVec(i, joint[i*(d+1)+d]*f.perRow*f.bound*f.bound*unit)
	}
	f.hDeviation = square(longer) * f.momentNoise[t].NoiseMultiplier * math.Sqrt2 * jointBound * jointBound * f.bound * f.bound / f.n
	deviation := f.hDeviation / math.Sqrt2 * unit // of the noise on a coordinate of the gradient
	noise := f.hDeviation
	if f.grouped {
		noise = f.shrinkMoments()
	}
	f.constant = newNoisyConstant(f.h, noise, f.p)
	hidden := max(noise*math.Sqrt(f.d), linalg.MinEigenvalue)
	f.floor = max(noise*math.Sqrt((f.d+1)/2), linalg.MinEigenvalue)
	if t == pilotPasses-1 && !f.grouped {
		f.floor = max(f.floor, shortenedEigenvalue)
	}
	w := linalg.NewWhitener(f.h, f.floor)
	step, gain := f.pilotStep(w, gradient, deviation, smallMoment(longer))
	floats.Add(f.w, linalg.Times(f.p, step))
	q, along := w.AtScales(longer).Triangular(f.h)
	f.q, f.floored, f.least = q, linalg.CountBelow(along, hidden), max(along[0], hidden)
	if f.grouped {
		f.floored = linalg.CountBelow(along, surelySeen*hidden)
	} else {
		f.shortenedCount = linalg.CountBelow(along, shortenedEigenvalue)
	}
	f.followPilot(gain, step, deviation)
	f.p.Mul(f.p, f.q)
	f.penalise()
}

// surelySeen times the threshold below which noise hides a direction is that for intervals of a group: rows of a group may
// vary far less in some direction than all rows do, and where noise lifts that over the threshold the step along it is
// several times too short.
const surelySeen = 1.5

// pilotStep returns the step of a pilot pass, shrunk where noise explains it, and the gain matrix
// that other releases would apply, which is used to follow the noise.
func (f *jointFit) pilotStep(w linalg.Whitener, gradient *mat.VecDense, deviation, small float64) (step []float64, gain *mat.SymDense) {
	others := pilotKeeps(w, gradient, deviation, small, othersKeep)
	if f.grouped || f.pilotNoise == nil {
		step = leastSquaresStep(w, gradient, deviation, small)
		if f.grouped {
			step = shrunkBy(step, deviation)
		}
		return step, w.Gain(others)
	}
	keeps := f.pilotGains(w, gradient, deviation)
	for k, keep := range pilotKeeps(w, gradient, deviation, small, 0) {
		others[k] = min(others[k], keeps[k])
		keeps[k] = min(keeps[k], keep)
	}
	v := mat.NewVecDense(gradient.Len(), nil)
	v.MulVec(w.Gain(keeps), gradient)
	return v.RawVector().Data, w.Gain(others)
}

// pilotGains returns for each direction the fraction of a pilot step that combines it best with the
// fit before it. The noise of both is known.
func (f *jointFit) pilotGains(w linalg.Whitener, gradient *mat.VecDense, deviation float64) []float64 {
	d := len(w.Values)
	step, before, noise := make([]float64, d), make([]float64, d), make([]float64, d)
	for k, v := range w.Values {
		direction := w.Vectors.ColView(k)
		step[k], noise[k] = v*mat.Dot(direction, gradient), square(v*deviation)
		before[k] = mat.Inner(direction, f.pilotNoise, direction) / square(v)
	}
	keeps, _ := gains(step, before, noise)
	return keeps
}

// leastSquaresStep returns H^-1 g. Directions with small second moments hold few rows. There the step is
// shrunk by twice the noise of g, whose standard deviation is deviation, because the next passes
// could not correct it.
func leastSquaresStep(w linalg.Whitener, gradient *mat.VecDense, deviation, small float64) []float64 {
	step := mat.NewVecDense(gradient.Len(), nil)
	step.MulVec(w.Gain(pilotKeeps(w, gradient, deviation, small, 0)), gradient)
	return step.RawVector().Data
}

// smallMoment returns the second moment below which pilotStep shrinks the step along a direction. It
// is +Inf if longer is above 1: correcting for that length multiplies the noise in all directions.
func smallMoment(longer float64) float64 {
	if longer > 1 {
		return math.Inf(1)
	}
	return 0.5
}

// pilotKeeps returns for each direction the fraction of a pilot step left by shrinkage, which is at
// least least.
func pilotKeeps(w linalg.Whitener, gradient *mat.VecDense, deviation, small, least float64) []float64 {
	keeps := table.Repeat(1, len(w.Values))
	for k, v := range w.Values {
		if 1/(v*v) < small {
			shrunk := max(0, 1-2*square(deviation/mat.Dot(w.Vectors.ColView(k), gradient)))
			keeps[k] = least + (1-least)*shrunk
		}
	}
	return keeps
}

// penalise moves the fit to its proximal point in the metric of the released second moments.
func (f *jointFit) penalise() {
	free := append([]float64(nil), f.w...)
	f.proximal(f.w)
	floats.Sub(free, f.w)
	f.subgradient = linalg.SolveTriangular(f.p, free)
}

// nextCuts chooses the bounds of the pass after pass t.
func (f *jointFit) nextCuts(t int) {
	f.cut, f.within = f.Scale, 1
	if f.residuals.Seen() {
		f.cut = 1.5 * f.residuals.Quantile(0.75)
		if f.rare {
			f.cut = max(f.cut, f.Scale)
		}
		f.within = numeric.ClampBetween(f.residuals.Below(f.cut), 0.5, 1)
	}
	trace := linalg.MeanSquareLength(f.q, f.h, f.hDeviation)
	f.bound = 1.5 * math.Sqrt(trace)
	if f.lengths.Seen() {
		var rare []float64
		if t == 0 {
			rare = rareLengths(inFeatures(levelCoordinates(f.shape, f.Levels), f.h), f.hDeviation*math.Sqrt((f.d+1)/2), f.lengths, f.shape.Intercept)
		}
		f.bound = f.nextBound(trace, f.momentNoise[t+1].NoiseMultiplier, rare)
	}
}

// nextBound returns the bound on row lengths that balances the noise of the next moments with the
// second moments lost to shortening. The histogram of lengths is in the previous coordinates, so it
// is rescaled. rare lists possible lengths of rows that it does not show, each of which holds the
// whole second moment, 1, of a direction. Rows that were short before whitening may be the longest after
// it, as where a logarithm is 0 for want of an amount, and each pass would shorten them further. So the
// bound is at least one whose noise hardly matters, except in groups.
func (f *jointFit) nextBound(trace, z float64, rare []float64) float64 {
	rescale, least := math.Sqrt(trace/f.beyond(0)), 1.2*math.Sqrt(trace)
	noise := func(bound float64) float64 { return 2 * math.Sqrt(f.d) * square(jointBound*bound) * z / f.n }
	bound := numeric.MinimiseOnGrid(least, 0, 16, func(bound float64) float64 {
		return noise(bound) + rescale*rescale*f.beyond(bound/rescale) + excessOfRare(rare, bound)
	})
	if f.grouped {
		return bound
	}
	return max(bound, cheapest(least, noise(least)))
}

// cheapest returns the largest bound on row lengths whose noise hardly matters. The noise of second moments, over all
// directions, grows with the square of the bound, and is noise at the bound least.
func cheapest(least, noise float64) float64 {
	return least * math.Sqrt(min(cheapBound, 0.5*math.Sqrt(noise))/noise)
}

// cheapBound is the largest noise of second moments, over all directions, that counts as hardly mattering.
const cheapBound = 0.02

// cutWeights holds the weights of the squared tails beyond the cuts of the step and of the intercept's step,
// relative to noise; the doubt about the part between two cuts (cutMeans); and the gain that divides
// the budget (newCuts).
type cutWeights struct{ step, intercept, doubt, gain float64 }

// usualDoubt is the doubt where information is not low.
const usualDoubt = 1.2

// cutWeights are more careful at low information, except for groups: they start from the common fit, and
// noise that they keep is averaged by pooling.
func (f *jointFit) cutWeights() cutWeights {
	switch {
	case f.VeryLowInformation && !f.grouped:
		return cutWeights{step: 0.02, intercept: 0.2, doubt: 2.5, gain: 0.3}
	case f.LowInformation && !f.grouped:
		return cutWeights{step: 0.2, intercept: 0.7, doubt: 2.5, gain: 0.3}
	}
	return cutWeights{step: 0.2, intercept: 0.7, doubt: usualDoubt, gain: 0.8}
}

// symmetricDoubt is the doubt for the step where the intercept's step shows symmetric errors: then the part
// between the cuts is likely to be noise. It reduces the excess risk by 1 to 2 %, by a quarter
// with 100,000 normal rows at eps .3.
const symmetricDoubt = 2.5

// stepDoubt returns the doubt for the step, once the intercept's step is known.
func (f *jointFit) stepDoubt() float64 {
	doubt := f.cutWeights().doubt
	if f.grouped || !f.shape.Intercept {
		return doubt
	}
	return doubt + max(0, symmetricDoubt-doubt)*(1-f.interceptMeans.keep)
}

// chooseCuts chooses the cuts of the step and of the intercept's step.
func (f *jointFit) chooseCuts() {
	f.stepCuts, f.interceptCuts = f.newStepCuts(f.products), f.newInterceptCuts(f.residuals)
}

func (f *jointFit) newStepCuts(products *magnitude.Histogram) cuts {
	deviation, _ := f.deviations()
	c := newCuts(products, max(f.slopes, 1), deviation, f.cutWeights().step, f.cutWeights().gain)
	if f.shape.Intercept && f.slopes > 0 {
		// In the step rows are without the constant, but the histogram counted them with it.
		c.inner *= math.Sqrt(f.slopes / f.d)
		c.share = math.Pow(c.inner/c.outer, f.cutWeights().gain)
	}
	return c
}

func (f *jointFit) newInterceptCuts(residuals *magnitude.Histogram) cuts {
	_, deviation := f.deviations()
	return newCuts(residuals, 1, deviation, f.cutWeights().intercept, f.cutWeights().gain)
}

// deviations returns the standard deviations of the noise on a coordinate of the step's sums and of
// the intercept step's sums, in their units.
func (f *jointFit) deviations() (step, intercept float64) {
	return 2 * f.stepNoise.NoiseMultiplier / f.n, 2 * f.interceptNoise.NoiseMultiplier / f.n
}

// beyond returns the part of all rows' second moments that lies beyond bound in the rows longer than it.
func (f *jointFit) beyond(bound float64) float64 {
	return f.lengths.Usable() * f.lengths.ExcessSquare(bound)
}

// maxRestored limits how far the weights in the step make up for shortening. Along a direction of the
// last coordinates rows may hold at most maxRestored more than a second moment of 1.
const maxRestored = 0.25

// restoredShare returns the share of the shortening that is undone in the weights of the step. beyond is
// the second moment lost to shortening, in all directions; least is the smallest eigenvalue that is
// left, along a direction that the pass before had made 1 and this one stretches. With the returned
// share that direction holds at most 1 + maxRestored, so that the step overshoots by no more.
func restoredShare(beyond, least float64) float64 {
	along := ((1+maxRestored)*max(least, shortenedEigenvalue) - least) / max(1-least, 1e-9)
	return min(1, max(0, along), maxRestored/max(beyond, 1e-9))
}

// weigh sets the weights of rows in the step.
func (f *jointFit) weigh() {
	f.restored = 1
	if f.lengths.Seen() {
		f.restored = restoredShare(f.beyond(f.bound), f.least)
	}
	f.weights = f.shortened
	for i, k := range f.weights {
		f.weights[i] = k*k + (1-k*k)*f.restored
	}
}

// jointStep holds the sums of the step over a part of the rows, before noise.
type jointStep struct {
	step, intercept *mech.Sum
	meat            *mech.Moments
}

// step releases the sums of the least squares step, of the intercept's step and of the meat.
func (a *jointParts) step(src *mech.Source) {
	seen := make([]jointStep, len(a.fits))
	for g, f := range a.fits {
		seen[g] = f.sumStep(a.parts[g])
	}
	steps := releaseSums(mapSlice(seen, func(s jointStep) *mech.Sum { return s.step }), a.stepContract(), a.stepNoise, src)
	if a.shape.Intercept {
		intercepts := releaseSums(mapSlice(seen, func(s jointStep) *mech.Sum { return s.intercept }), a.interceptContract(), a.interceptNoise, src)
		for g, f := range a.fits {
			_, deviation := f.deviations()
			floats.Scale(f.perRow, intercepts[g])
			f.interceptScale = 1 / f.counted()
			f.interceptMeans = f.interceptCuts.means(intercepts[g], 0, deviation, f.cutWeights().doubt)
		}
	}
	for g, f := range a.fits {
		deviation, _ := f.deviations()
		floats.Scale(f.perRow, steps[g])
		f.cutMeans = f.stepCuts.means(steps[g], f.shape.D-int(f.slopes), deviation, f.stepDoubt())
	}
	if a.Meat {
		meats := releaseMoments(mapSlice(seen, func(s jointStep) *mech.Moments { return s.meat }), a.meatContract(), a.meatNoise, src)
		for g, f := range a.fits {
			f.meat = mat.NewSymDense(f.meatContract().D, meats[g])
			f.meat.ScaleSym(f.perRow, f.meat)
		}
	}
}

// sumStep computes the sums of the step over a part of the rows.
func (f *jointFit) sumStep(x table.Data) jointStep {
	if x.Pushdown != nil {
		return f.queryStep(x.Pushdown)
	}
	steps := table.Parts[*mech.Sum]{Total: mech.NewSum(f.stepContract())}
	intercepts := table.Parts[*mech.Sum]{Total: mech.NewSum(f.interceptContract())}
	meats := table.Parts[*mech.Moments]{Total: mech.NewMoments(f.meatContract())}
	scan(x, f.stepCoordinates(), f.w, func() func(int, *rowBlock) {
		s, l, m := steps.Fork(), intercepts.Fork(), meats.Fork()
		return func(first int, r *rowBlock) {
			r.scaleByWeight()
			weights := f.weights[first : first+r.n]
			r.addStep(s, weights, f.stepCuts)
			if f.shape.Intercept {
				r.addIntercept(l, f.interceptCuts)
			}
			if f.Meat {
				r.addMeat(m, weights, f.stepCuts.outer, f.interceptCuts.outer, f.shape.Intercept)
			}
		}
	})
	return jointStep{steps.Merged(), intercepts.Merged(), meats.Merged()}
}

// stepCoordinates returns the coordinates of rows in the step. They are without the constant, which
// the intercept's step estimates, because that makes rows shorter.
func (f *jointFit) stepCoordinates() *mat.Dense {
	if !f.shape.Intercept {
		return f.p
	}
	p := mat.DenseCopyOf(f.p)
	p.SetCol(0, make([]float64, f.shape.D))
	return p
}

// proximal moves w to the minimiser of half the squared distance, in the released metric, plus Psi.
func (f *jointFit) proximal(w []float64) { linalg.ProximalStep(f.Psi, f.p, w, 1) }

// finish returns the coefficients, with the corrections of the slopes and of the intercept's step shrunk toward
// the pilot fit by as much as noise explains, and the estimates of their errors.
func (f *jointFit) finish() release.Result {
	keeps, drift := f.keeps()
	r := release.Result{Coefficients: f.coefficients(f.correction(f.kept, keeps), f.keptIntercept(f.interceptKeep())), NoiseCovariance: f.noise(keeps, drift)}
	if r.NoiseCovariance != nil {
		r.NoiseUnknown = f.movedTooFar()
	}
	f.errors(&r)
	return r
}

// correction returns a step in which the part beyond the subgradient of Psi is multiplied by keeps
// (nil: the identity): the subgradient is no evidence of an error of the pilot fit. The constant's
// coordinate is left to the intercept's step.
func (f *jointFit) correction(step noisyMean, keeps *mat.SymDense) []float64 {
	beyond, v := make([]float64, f.shape.D), mat.NewVecDense(f.shape.D, nil)
	floats.SubTo(beyond, step.mean, f.subgradient)
	if f.shape.Intercept {
		beyond[0] = 0
	}
	v.CopyVec(mat.NewVecDense(f.shape.D, beyond))
	if keeps != nil {
		v.MulVec(keeps, v)
	}
	for j := f.first(); j < f.shape.D; j++ {
		v.SetVec(j, v.AtVec(j)+f.subgradient[j])
	}
	return v.RawVector().Data
}

// first returns the index of the first slope.
func (f *jointFit) first() int { return f.shape.D - int(f.slopes) }

// keeps returns the matrix by which the slopes' correction is multiplied. It combines the correction
// best with the pilot fit, whose noise is known. For groups it is a multiple of the identity, by the
// positive-part James-Stein rule. drift is the estimated other error of the pilot fit.
func (f *jointFit) keeps() (keeps *mat.SymDense, drift float64) {
	keeps = mat.NewSymDense(f.shape.D, nil)
	if f.grouped || f.slopes == 0 {
		keep := f.shrinkage()
		for j := range f.shape.D {
			keeps.SetSym(j, j, keep)
		}
		return keeps, 0
	}
	slopes, step := mat.NewSymDense(int(f.slopes), nil), mat.NewVecDense(int(f.slopes), nil)
	for i := range slopes.SymmetricDim() {
		step.SetVec(i, f.kept.mean[f.first()+i]-f.subgradient[f.first()+i])
		for j := i; j < slopes.SymmetricDim(); j++ {
			slopes.SetSym(i, j, f.pilotNoise.At(f.first()+i, f.first()+j))
		}
	}
	values, vectors := linalg.Eigen(slopes)
	along := make([]float64, len(values))
	for k := range values {
		along[k] = mat.Dot(vectors.ColView(k), step)
	}
	kept := mat.NewSymDense(len(values), nil)
	parts, drift := gains(along, values, table.Repeat(square(f.kept.deviation), len(values)))
	for k, keep := range parts {
		kept.SymRankOne(kept, keep, vectors.ColView(k))
	}
	for i := range values {
		for j := i; j < len(values); j++ {
			keeps.SetSym(f.first()+i, f.first()+j, kept.At(i, j))
		}
	}
	return keeps, drift
}

// shrinkage returns the factor of the positive-part James-Stein rule for the slopes' correction.
func (f *jointFit) shrinkage() float64 {
	signal := 0.0
	for j := f.first(); j < f.shape.D; j++ {
		signal += square(f.kept.mean[j] - f.subgradient[j])
	}
	return max(0, 1-max(f.slopes-1, 0.7)*square(f.kept.deviation)/max(signal, math.SmallestNonzeroFloat64))
}

// interceptKeep returns the fraction of the intercept's step that is kept, by the same rule as keeps.
func (f *jointFit) interceptKeep() float64 {
	if f.grouped || !f.shape.Intercept {
		return 1
	}
	before := f.pilotNoise.At(0, 0) * square(f.p.At(0, 0))
	keeps, _ := gains(f.interceptMeans.kept.mean, []float64{before}, []float64{square(f.interceptMeans.kept.deviation)})
	return keeps[0]
}

// keptIntercept returns the intercept's step multiplied by keep.
func (f *jointFit) keptIntercept(keep float64) noisyMean {
	intercept := noisyMean{deviation: keep * f.interceptMeans.kept.deviation}
	for _, v := range f.interceptMeans.kept.mean {
		intercept.mean = append(intercept.mean, keep*v)
	}
	return intercept
}

// coefficients returns the pilot fit plus a correction and an intercept's step, after the proximal step.
func (f *jointFit) coefficients(correction []float64, intercept noisyMean) []float64 {
	w := linalg.Times(f.p, correction)
	floats.Add(w, f.w)
	if f.shape.Intercept {
		w[0] += intercept.mean[0] * f.interceptScale
	}
	f.proximal(w)
	return w
}

// counted is the share of usable rows or, if they have weights, the mean weight. The moments that it is
// read from are of shortened rows; the histogram of their lengths gives the correction.
func (f *jointFit) counted() float64 {
	if !f.weighted && f.residuals.Usable() == 1 {
		return numeric.ClampBetween(f.residuals.Counted(), 0.5, 1)
	}
	kept := 1.0
	if f.lengths.Seen() {
		kept = f.lengths.Mean(func(v float64) float64 { return square(min(1, f.bound/v)) })
	}
	return min(1, max(f.constant.mean/kept, 3*f.constant.deviation, minWeight))
}
