package dpsco

import (
	"math"

	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// newtonParts holds the unfinished fits of a Newton: one of all rows or, from firstGroupStep on, one of
// each group. A pass releases the statistics of all fits together.
type newtonParts struct {
	*newtonReleases
	fits []*newtonFit
	groups
}

// newNewtonParts starts a fit of all rows.
func newNewtonParts(r *newtonReleases, x table.Data) *newtonParts {
	return &newtonParts{newtonReleases: r, fits: []*newtonFit{newNewtonFit(r)}, groups: groups{parts: []table.Data{x}}}
}

// newtonFit is a fit of a part of the rows. All of its fields are released or public.
type newtonFit struct {
	*newtonReleases
	n, d      float64    // n: rows of the part; d: coefficients
	perRow    float64    // factor from a released mean, over all rows, to a mean over the part
	grouped   bool       // of one group
	delta     float64    // of Huber's loss, as asked for: that of a pass may be another (narrow)
	small     bool       // of a group whose size is barely above its noise
	tooLong   bool       // rows are far too long for the registered scales
	farScales bool       // counts: the same, which moments do not make up for and is the reason where a fit has no intervals
	p         *mat.Dense // coordinates are z = P'x; upper triangular
	w         []float64  // the fit so far
	mean      float64    // mean curvature, with the weights of rows
	weights   float64    // mean weight of rows; 1 without weights, or without a constant to estimate it from
	common    float64    // least weight by which rows are bounded (boundByWeights, newtonRows.weigh); 1 without weights
	own       float64    // mean weight of usable rows over common

	whitened      *mat.Dense           // whitens the rows, by the moments of the first pass
	most, seen    *mat.SymDense        // those moments: with hidden directions as large as noise allows, and without them
	mostDeviation float64              // standard deviation of the noise on their diagonal
	firstLengths  *magnitude.Histogram // histogram of row lengths in the first pass
	rare          []float64            // lengths that rows of rare features may have in the coordinates of the first step
	firstScore    float64              // factor from those lengths to scores of size 1 in the first step

	scores         *magnitude.Histogram // histogram of tail times length; after the first pass, of row lengths; nil: not visible
	lengths        *magnitude.Histogram // of row length times root of curvature; after the first pass, of row lengths
	rescale        float64              // factor from these lengths to lengths in the next coordinates
	rescaleScores  float64              // the same factor for scores
	scoresAreKnown bool                 // scores is a visible histogram of scores of the previous pass
	rareLabel      bool                 // the noise of that pass masked the scores of a rare label
	perLength      float64              // counts: a score's bound over length times root of curvature; 0: not known
	kept           float64              // share of the previous curvature that weights kept, if perLength is known
	indices        []float64            // tail indices, one of each pass whose histograms were visible

	limit, bound float64 // of the pass: largest lengths of a score and of a row times the root of its curvature

	// Of the latest step.
	h          *mat.SymDense   // curvature
	hDeviation float64         // standard deviation of the noise on its diagonal or, if shrunk, of its error
	hNoise     float64         // standard deviation of the noise on its diagonal that shrinkage leaves
	g          *mat.VecDense   // score
	parts      []*mat.VecDense // shells of the score
	gDeviation float64         // standard deviation of the noise on a coordinate of the score
	q, a       *mat.Dense      // whiten the curvature, in the coordinates of the pass and in those of the features
	floored    int             // number of eigenvalues below the noise
	before     *mat.SymDense   // curvature of the previous step, in these coordinates
	meat       *mat.SymDense
	centre     []float64     // the fit with a full, unshrunk last step
	arrives    bool          // the full last step was within the largest allowed length, and so was each coefficient's
	falls      bool          // the mean count of a group is surely far below what the fit before the last step says
	stretched  float64       // factor by which the full last step was stretched
	fitNoise   *mat.SymDense // covariance of the fit due to noise
	oldNoise   *mat.SymDense // the same before the latest step
	slopesKept float64       // shrinkage factor of the slopes after the last step
	oneSided   bool          // Huber: nearly all residuals of a pass had the same sign
	moved      float64       // root mean square change of predictions in its step
	spreads    float64       // root mean square score as a multiple of that which the histogram of scores tells; Huber: 0 where that is unknown
}

func newNewtonFit(r *newtonReleases) *newtonFit {
	own := *r // a copy, since Curve may be replaced
	delta, spreads := 0.0, 1.0
	if c, huber := r.Curve.(huberCurve); huber {
		delta, spreads = c.delta, 0
		c.delta = max(delta, c.cut/firstCut) // the first step is from a start about as far off as that
		own.Curve = c
	}
	return &newtonFit{
		delta:          delta,
		newtonReleases: &own,
		n:              float64(r.shape.N),
		perRow:         1,
		weights:        1,
		common:         1,
		own:            1,
		spreads:        spreads,
		d:              float64(r.shape.D),
		p:              levelCoordinates(r.shape, r.Levels),
		w:              make([]float64, r.shape.D),
	}
}

// minCurvature is the least eigenvalue of a curvature, and of the matrix from which a whitening is made:
// smaller ones are raised to it, and those below the noise to the noise.
const minCurvature = 0.002

// momentWeight is the weight of the second moments of rows, relative to the curvature, in the choice of the next
// coordinates. By curvature alone, rows whose label is nearly certain become very long; by the second
// moments alone, the information in the curvature is lost.
const momentWeight = 0.3

// newtonSums holds the sums and histograms of a step over a part of the rows, before noise.
type newtonSums struct {
	score           *mech.Sum
	curvature, meat *mech.Moments
	sizes, lengths  *mech.Histogram
	residuals       *mech.Histogram // of Huber's loss
}

// step makes step t: it releases scores and curvatures at the fits, and then histograms for the next step
// or, in the last step, the second moments of scores for intervals.
func (a *newtonParts) step(t int, src *mech.Source) {
	seen := make([]newtonSums, len(a.fits))
	for g, f := range a.fits {
		f.choose(t)
		seen[g] = f.sumStep(t, a.parts[g])
	}
	scores := releaseSums(mapSlice(seen, func(s newtonSums) *mech.Sum { return s.score }), a.scoreContract(t), a.scoreNoise[t], src)
	curvatures := releaseMoments(mapSlice(seen, func(s newtonSums) *mech.Moments { return s.curvature }), a.curvatureContract(), a.curvatureNoise[t], src)
	for g, f := range a.fits {
		f.read(t, scores[g], curvatures[g])
	}
	if t == a.last() {
		a.releaseMeats(seen, src)
		for _, f := range a.fits {
			f.spreadBins()
		}
		return
	}
	sizes := releaseCounts(mapSlice(seen, func(s newtonSums) *mech.Histogram { return s.sizes }), a.sizeNoise[t], src)
	lengths := releaseCounts(mapSlice(seen, func(s newtonSums) *mech.Histogram { return s.lengths }), a.lengthNoise[t], src)
	for g, f := range a.fits {
		most := magnitude.LongestLength(f.shape.D)
		f.advance(f.magnitudes(sizes[g], a.sizeNoise[t], f.Curve.size(), most*10), f.magnitudes(lengths[g], a.lengthNoise[t], 1, most))
	}
	if a.huber() {
		residuals := releaseCounts(mapSlice(seen, func(s newtonSums) *mech.Histogram { return s.residuals }), a.residualNoise[t], src)
		for g, f := range a.fits {
			f.narrow(t+1, magnitude.Read(residuals[g], a.residualNoise[t].NoiseMultiplier*math.Sqrt2, f.delta, math.Inf(1), f.n).AsRun())
		}
	}
}

// spreadBins makes all that follows the last choice of a limit read histograms with spread bins.
func (f *newtonFit) spreadBins() {
	if f.scores != nil {
		f.scores, f.lengths = f.scores.WithSpreadBins(), f.lengths.WithSpreadBins()
	}
}

// releaseMeats releases the second moments of the last scores, if there are to be intervals.
func (a *newtonParts) releaseMeats(seen []newtonSums, src *mech.Source) {
	if !a.Intervals {
		return
	}
	meats := releaseMoments(mapSlice(seen, func(s newtonSums) *mech.Moments { return s.meat }), a.curvatureContract(), a.meatNoise, src)
	for g, f := range a.fits {
		f.meat = mat.NewSymDense(f.shape.D, meats[g])
		f.meat.ScaleSym(f.perRow*square(f.limit), f.meat)
	}
}

// magnitudes reads a released histogram of the part's rows.
func (f *newtonFit) magnitudes(noisy []float64, noise mech.Gaussian, unit, limit float64) *magnitude.Histogram {
	return magnitude.Read(noisy, noise.NoiseMultiplier*math.Sqrt2, unit, limit, f.n).Apart()
}

// sumStep makes the pass of step t over a part of the rows.
func (f *newtonFit) sumStep(t int, x table.Data) newtonSums {
	if x.Pushdown != nil {
		return f.queryStep(t, x.Pushdown)
	}
	last := t == f.last()
	scores := table.Parts[*mech.Sum]{Total: mech.NewSum(f.scoreContract(t))}
	curvatures := table.Parts[*mech.Moments]{Total: mech.NewMoments(f.curvatureContract())}
	meats := table.Parts[*mech.Moments]{Total: mech.NewMoments(f.curvatureContract())}
	sizes, lengths, residuals := magnitudeCounts(f.shape.N), magnitudeCounts(f.shape.N), magnitudeCounts(f.shape.N)
	huber := f.huber()
	scan(x, f.p, f.w, func() func(int, *rowBlock) {
		s, c, m, p, l, e := scores.Fork(), curvatures.Fork(), meats.Fork(), sizes.Fork(), lengths.Fork(), residuals.Fork()
		rows := newNewtonRows()
		return func(_ int, r *rowBlock) {
			rows.rowBlock = r
			rows.weigh(f.Curve, f.limit, f.bound, f.common)
			rows.addScore(s, f.limit, f.shells(t))
			if last {
				rows.addCurvature(c, rows.model, f.bound)
				if f.Intervals {
					rows.addMeat(m, f.limit)
				}
				return
			}
			rows.addCurvature(c, rows.robust, f.bound)
			r.count(p, func(i int) float64 { return rows.tail[i] / f.Curve.size() * r.length[i] })
			r.count(l, func(i int) float64 { return math.Sqrt(rows.robust[i]) * r.length[i] })
			if huber {
				r.countFirst(e, r.e, f.delta)
			}
		}
	})
	return newtonSums{scores.Merged(), curvatures.Merged(), meats.Merged(), sizes.Merged(), lengths.Merged(), residuals.Merged()}
}

// read converts the released score and curvature of step t to means over the part.
func (f *newtonFit) read(t int, shells, h []float64) {
	d := f.shape.D
	f.g, f.parts = mat.NewVecDense(d, nil), nil
	for k := range f.shells(t) {
		part := mat.NewVecDense(d, shells[k*d:(k+1)*d])
		part.ScaleVec(f.perRow*f.limit*math.Sqrt(shellWidth(k, f.shells(t))), part)
		f.g.AddVec(f.g, part)
		f.parts = append(f.parts, part)
	}
	f.gDeviation = 2 * f.limit * f.scoreNoise[t].NoiseMultiplier / f.n
	floats.Scale(f.perRow*square(f.bound), h)
	f.h = mat.NewSymDense(d, h)
	f.hDeviation = math.Sqrt2 * square(f.bound) * f.curvatureNoise[t].NoiseMultiplier / f.n
	f.hNoise = f.hDeviation
	if f.grouped {
		f.shrinkCurvature()
	}
}

// noiseFloor is the threshold below which eigenvalues of the curvature count as noise.
func (f *newtonFit) noiseFloor() float64 {
	factor := 1.0
	if f.LowInformation {
		factor = 1.5
	}
	return max(factor*f.hNoise*math.Sqrt(f.d), minCurvature)
}

// oneSidedAt reports whether nearly all scores of the pass just made have the same sign.
func (f *newtonFit) oneSidedAt() bool {
	return f.shape.Intercept && math.Abs(f.g.AtVec(0)/f.p.At(0, 0)) > mostOneSided*f.Curve.size()
}

// advance moves the fit and chooses the next coordinates.
func (f *newtonFit) advance(scores, lengths *magnitude.Histogram) {
	f.mean = f.meanCurvature()
	f.oneSided = f.oneSidedAt()
	f.whiten()
	w, _ := f.stretch(f.toLevel(f.next(f.Curve.longest())))
	f.moved = floats.Norm(linalg.SolveTriangular(f.a, linalg.Minus(w, 1, f.w)), 2) / math.Sqrt(f.mean)
	f.w = w
	gram := f.secondMoments()
	both := mat.NewSymDense(f.shape.D, nil)
	for i := range f.shape.D {
		for j := i; j < f.shape.D; j++ {
			both.SetSym(i, j, f.h.At(i, j)+momentWeight*f.mean/f.weights*gram.At(i, j))
		}
	}
	hidden := max(f.hNoise*math.Sqrt(f.d), minCurvature)
	q, _ := linalg.NewWhitener(both, hidden).Triangular(both)
	f.p.Mul(f.p, q)
	f.before = linalg.Sandwich(mat.DenseCopyOf(q.T()), f.h)
	if scores.Seen() && lengths.Seen() {
		if f.Curve.counted() != nil {
			f.perLength, f.kept = f.boundsOf(lengths)
		}
		f.scores, f.lengths, f.scoresAreKnown, f.rare = scores, lengths, true, nil
		f.indices = append(f.indices, f.indexOfPass())
		f.rescale = math.Sqrt(linalg.MeanSquareLength(q, f.h, f.hDeviation) / (lengths.Usable() * lengths.ExcessSquare(0)) / f.own)
		f.rescaleScores = f.rescale
		if f.rareLabel = f.hidesALabel(); f.rareLabel {
			f.scores, f.scoresAreKnown = lengths, false
			f.rescaleScores *= math.Sqrt(f.common / (f.mean / f.weights))
		}
	}
}

// secondMoments returns the second moments of rows in the coordinates of the pass, as far as the first pass has
// seen them. A direction that it has not seen is 0, so that it is stretched as far as noise allows. If it still
// shows nothing in a later step, features are redundant, and it counts for as much as the first pass allows:
// stretched further it would hold noise alone, also for intervals of the other coefficients.
func (f *newtonFit) secondMoments() *mat.SymDense {
	back := mat.DenseCopyOf(f.p.T())
	gram := linalg.Sandwich(back, f.seen)
	if f.before == nil {
		return gram
	}
	raised, w := linalg.Sandwich(back, f.most), linalg.NewWhitener(f.h, f.noiseFloor())
	for k, v := range w.Values {
		if u := w.Vectors.ColView(k); v >= 1/math.Sqrt(f.noiseFloor()) {
			gram.SymRankOne(gram, max(0, mat.Inner(u, raised, u)-mat.Inner(u, gram, u)), u)
		}
	}
	return gram
}

// hidesALabel reports whether noise masks the scores of the rows with surprising labels, as where one label
// is rare. Where the model holds, scores have the same mean square as rows times the root of their
// curvature. The label counts as masked if the visible mean square of scores is less than half of that, and
// the expected number of surprising rows, n times the mean curvature, is below maxHiddenLabels deviations
// of the noise of a count, so that their bins need not be visible.
func (f *newtonFit) hidesALabel() bool {
	surprising := f.n * f.mean / f.weights
	seen, all := f.scores.Usable()*f.scores.ExcessSquare(0), f.lengths.Usable()*f.lengths.ExcessSquare(0)
	return f.ofLabels() && surprising < maxHiddenLabels*f.scores.Deviation() && seen/f.common < all/2
}

// maxHiddenLabels is the number of rows, in standard deviations of the noise of a count, that may lie in
// half a dozen bins without any of these being visible.
const maxHiddenLabels = 20

// meanCurvature is the curvature along the constant or, without one, the mean over all directions. That of counts is at
// least as large as its noise or, if that is less, as that of a mean count of one scale of the target: where a fit has gone
// too far noise may leave nothing of it, or less, and steps measured by that would hardly be made.
func (f *newtonFit) meanCurvature() float64 {
	var t, whitened mat.Dense
	_ = t.Solve(f.p, f.whitened) // an error only reports bad conditioning
	whitened.Mul(f.h, &t)
	whitened.Mul(t.T(), &whitened)
	mean := mat.Trace(&whitened) / f.d
	if f.shape.Intercept {
		mean = f.h.At(0, 0) / square(f.p.At(0, 0))
	}
	least := f.Curve.least() * f.weights
	if f.Curve.counted() != nil && f.shape.Intercept {
		least = max(least, min(f.hDeviation/square(f.p.At(0, 0)), f.weights))
	}
	return numeric.ClampBetween(mean, least, f.Curve.most())
}
