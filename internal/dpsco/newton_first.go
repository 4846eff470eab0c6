package dpsco

import (
	"math"
	"slices"

	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// newtonFirst holds the moments and histograms of the first pass, before noise.
type newtonFirst struct {
	moments          *mech.Moments
	lengths, targets *mech.Histogram
}

// newtonTooLong is jointTooLong of a Newton. It is higher because the start corrects for scales that are far
// too small less well than JointMoments.
const newtonTooLong = 30

// first makes the first pass.
func (f *newtonFit) first(x table.Data, src *mech.Source) {
	seen := f.sumFirst(x)
	joint := make([]float64, (x.D+1)*(x.D+1))
	seen.moments.Release(joint, f.firstNoise, src)
	noisy := releaseCounts([]*mech.Histogram{seen.lengths}, f.firstLengthNoise, src)[0]
	var l *magnitude.Histogram
	longer := 1.0
	if c := f.Curve.counted(); c == nil {
		l, longer = magnitude.ReadLengths(noisy, f.firstLengthNoise, f.shape.D, f.Bound, newtonTooLong, f.n)
		f.tooLong = longer > 1
	} else { // no rescaling: means are exponential in predictions, and the start may be far off
		_, times := magnitude.ReadLengths(slices.Clone(noisy), f.firstLengthNoise, f.shape.D, f.Bound, newtonTooLong, f.n)
		f.farScales = times > 1
		l = f.magnitudes(noisy, f.firstLengthNoise, 1, magnitude.LongestLength(f.shape.D))
		f.Curve = f.knowing(releaseMagnitudes(seen.targets, f.targetNoise, c.unit, math.Inf(1), x.N, src).Apart(), f.n/float64(max(1, f.shape.GroupCount)))
	}
	f.begin(f.readFirst(joint, longer, x.Weighted(), x.HasOffsets()), l)
}

func (f *newtonFit) sumFirst(x table.Data) newtonFirst {
	if x.Pushdown != nil {
		return f.queryFirst(x.Pushdown)
	}
	moments := table.Parts[*mech.Moments]{Total: mech.NewMoments(f.firstContract())}
	lengths, targets := magnitudeCounts(x.N), magnitudeCounts(x.N)
	counted := f.Curve.counted() != nil
	scan(x, f.p, f.w, func() func(int, *rowBlock) {
		m, l, s, rows := moments.Fork(), lengths.Fork(), targets.Fork(), newNewtonRows()
		return func(_ int, r *rowBlock) {
			rows.rowBlock = r
			f.Curve.first(rows)
			r.scaleByWeight()
			if counted {
				r.count(s, rows.target)
			}
			r.countFirst(l, r.length, 1)
			rows.addFirst(m, f.Curve, f.Bound)
		}
	})
	return newtonFirst{moments.Merged(), lengths.Merged(), targets.Merged()}
}

// knowing returns the curve of counts clipped by the histogram of targets, for a last step on the given
// number of rows.
func (f *newtonFit) knowing(targets *magnitude.Histogram, rows float64) curve {
	return f.Curve.counted().knowing(targets, f.lastScoreNoise(rows))
}

// lastScoreNoise is the noise of the last step on the given number of rows, in units of the clipping threshold
// of counts, as the choice of that threshold uses it.
func (f *newtonFit) lastScoreNoise(rows float64) float64 {
	return f.d * f.scoreNoise[f.last()].NoiseMultiplier / rows
}

// readFirst splits released joint moments into second moments and a gradient, and corrects both for rows
// that are longer than their scales by the factor longer, as magnitude.ReadLengths returns it.
func (f *newtonFit) readFirst(joint []float64, longer float64, weighted, offset bool) *newtonStart {
	d := f.shape.D
	floats.Scale(square(longer), joint)
	unit := f.Bound * f.Curve.firstCut() / residualWeight
	deviation := square(longer) * f.firstNoise.NoiseMultiplier * math.Sqrt2 * square(jointBound) / f.n
	s := &newtonStart{
		intercept: f.shape.Intercept, rows: f.n, longer: longer, shortened: 1, usable: 1, weighted: weighted, offset: offset, moments: mat.NewSymDense(d, nil), gradient: mat.NewVecDense(d, nil),
		deviation: deviation / math.Sqrt2 * unit, noiseFloor: max(deviation*square(f.Bound)*math.Sqrt(f.d), linalg.MinEigenvalue),
	}
	for i := range d {
		for j := i; j < d; j++ {
			s.moments.SetSym(i, j, joint[i*(d+1)+j]*square(f.Bound))
		}
		s.gradient.SetVec(i, joint[i*(d+1)+d]*unit)
	}
	switch {
	case s.intercept && weighted:
		s.meanWeight = max(s.moments.At(0, 0), s.noiseFloor/math.Sqrt(f.d), minWeight)
		f.weights = min(1, max(s.moments.At(0, 0), s.noiseFloor, minWeight))
		s.moments.SetSym(0, 0, f.weights)
	case s.intercept:
		s.moments.SetSym(0, 0, max(s.moments.At(0, 0), minConstant))
	}
	s.q, _ = linalg.NewWhitener(s.moments, s.noiseFloor).AtScales(longer).Triangular(s.moments)
	return s
}

// begin sets the fit, the coordinates and the histograms for the first step.
func (f *newtonFit) begin(s *newtonStart, lengths *magnitude.Histogram) {
	if lengths.Seen() {
		s.usable = lengths.Usable()
		s.shortened = 1 / lengths.Mean(func(v float64) float64 { return square(min(1, f.Bound/v)) })
	}
	if c := f.Curve.counted(); c != nil {
		f.Curve = c.besideZeros(s, f.lastScoreNoise(f.n/float64(max(1, f.shape.GroupCount))))
	}
	w, mean := f.Curve.begin(s)
	f.mean, f.firstLengths = mean, lengths
	if s.weighted {
		f.boundByWeights(s)
	}
	features := inFeatures(f.p, s.moments)
	f.most, f.seen = s.readMoments(f.p, features)
	f.mostDeviation = s.noiseFloor / math.Sqrt(f.d)
	if s.longer == 1 && s.intercept {
		for _, c := range f.Levels { // what readMoments does for features, for first levels
			if firstLevel(features, c) < rareMoment*s.noiseFloor {
				f.seen.SetSym(0, 0, f.seen.At(0, 0)+max(0, s.noiseFloor-firstLevel(f.seen, c)))
			}
		}
	}
	f.w = linalg.Times(f.p, w)
	f.whitened = mat.NewDense(f.shape.D, f.shape.D, nil)
	f.whitened.Mul(f.p, s.q)
	linalg.ProximalStep(f.Psi, f.whitened, f.w, 1)
	f.p = mat.NewDense(f.shape.D, f.shape.D, nil)
	f.p.Scale(1/math.Sqrt(f.mean*(1+momentWeight)), f.whitened)
	if lengths.Seen() {
		f.rare = rareLengths(features, s.noiseFloor, lengths, s.intercept)
		floats.Scale(1/math.Sqrt(1+momentWeight), f.rare)
		f.scores, f.lengths = lengths, lengths
		f.rescale = math.Sqrt(linalg.MeanSquareLength(s.q, s.moments, 0) / (1 + momentWeight) / (lengths.Usable() * lengths.ExcessSquare(0)))
		whole := lengths.ExcessSquare(0)
		score := f.rescale / math.Sqrt(f.mean) * math.Sqrt(f.common/f.own)            // a score has its bounding weight, a length the root of its own
		f.firstScore = score * math.Sqrt(whole/(whole-lengths.ExcessSquare(f.Bound))) // moments are of shortened rows
		f.rescaleScores = score
		f.rescale /= math.Sqrt(f.own) // these lengths have the root of their own weight
	}
}

// boundByWeights chooses the least weight by which rows are bounded: the mean weight times minCommon or, where the
// last score then has noise of no more than noiseOfCommon of the deviation of sampling, a larger one, 1 at most. The
// larger it is, the fewer rows are bounded by their own weight, which may depend on the target.
func (f *newtonFit) boundByWeights(s *newtonStart) {
	mean := 1.0
	if f.firstLengths.Seen() { // rows, at their scales, are about as long as the root of their weight and number of columns
		mean = min(1, max(f.firstLengths.ExcessSquare(0)/f.d, minWeight))
	}
	if s.intercept {
		mean = min(1, s.meanWeight*s.shortened/s.usable)
		if f.firstLengths.Seen() { // no row is shorter than the root of its weight
			mean = min(mean, max(f.firstLengths.ExcessSquare(0), minWeight))
		}
	}
	z := f.scoreNoise[f.last()].NoiseMultiplier / f.n
	limit := 1.5 * f.Curve.size() * math.Sqrt(f.d/(mean*f.mean)) // of rows that weigh 1
	noise := noiseOfCommon
	if f.Curve.counted() != nil {
		noise = noiseOfCounts
	}
	affordable := noise * math.Sqrt(mean/f.n) / (2 * z) / limit
	f.common = min(1, max(minCommon*mean, affordable))
	f.own = mean / f.common
}

// minCommon times the mean weight is the least by which rows are bounded. More would cost noise where max_weight is
// far above all weights, and less would bias more designs.
const minCommon = 3

// noiseOfCommon is the noise of the last score, in deviations of sampling, up to which rows are bounded by more than
// minCommon times the mean weight; for counts, whose scores are bounded by far more than most are, noiseOfCounts.
const (
	noiseOfCommon = 1.0
	noiseOfCounts = 2.5
)
