package score

import (
	"cmp"
	"math"
	"slices"

	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/mech"

	"gonum.org/v1/gonum/mat"
)

// Everything here is post-processing of the releases of a score.

// measured holds the releases of a score.
type measured struct {
	*scoring
	unknown                      bool    // noise hides how large targets without a scale are: those that are not 0 may be far larger than all that is seen
	scale, unit                  float64 // of the target, as registered or found; of the histograms of sizes and deviations
	sizes, targets, deviations   *magnitude.Histogram
	centre                       float64 // of the target
	rateDoubt                    float64 // counts: relative standard deviation of the noise of the rate
	cut, squareCut, deviationCut float64 // clipping thresholds: of sizes, of squared sizes, of distances from the centre
	means                        *scoreMeans
}

// tailAssumption is the assumption of intervals of scores about the rows that histograms hide.
var tailAssumption = magnitude.TailAssumption{Deviations: 1.5, Steepest: 5}

// Least tail indices for an interval of the mean of squares, and of the ratio of two such means, which are correlated.
// Where noise may hide few of the rows in a bin, a distant tail is visible, and lower ones do, but for deviance_explained:
// there is an interval where the second moment seems to exist. They were chosen as magnitude.MeanIndex was.
var (
	squareIndex = magnitude.MinIndex{Coarse: 3.3, Fine: 2}
	ratioIndex  = magnitude.MinIndex{Coarse: 2.9, Fine: 1.75}
)

// Rows surely lie beyond the hidden tail where the counts of the three bins above the visible ones, and those beyond, stand out by
// surelyOfSquares deviations of their noise together (surelyOfSizes for mean absolute errors, which such rows carry less), and
// those beyond alone by someBeyond. Deviations count for as much as those of leastRows rows at least.
const (
	surelyOfSquares = 3.2
	surelyOfSizes   = 4
	someBeyond      = 2
	leastRows       = 0.5
)

// spreads returns why if rows surely lie beyond the hidden tail, where nothing says how far away, and otherwise nothing. Where the
// tail is allowed to begin at any size up to that of a rare target it has them.
func spreads(of *magnitude.Histogram, surely float64, why string) string {
	part := min(1, of.Deviation()/leastRows)
	beyond := part * of.SpreadStandsOut()
	if of.Reached() || !(beyond > someBeyond) || !((part*of.StandsOut()+beyond)/math.Sqrt2 > surely) {
		return ""
	}
	return why
}

// chooseCuts chooses clipping thresholds, which balance noise with the bias by clipping.
func (m *measured) chooseCuts() {
	m.cut = m.cheapest(m.sizes, 1)
	switch {
	case m.Counts && !m.pure:
		m.deviationCut = m.cheapest(m.deviations, 1)
	case !m.pure && !m.Labels:
		m.squareCut, m.deviationCut = m.cheapest(m.sizes, 2), m.cheapest(m.deviations, 2)
	}
}

// cheapest is the clipping threshold of sizes of which the given power is averaged.
func (m *measured) cheapest(of *magnitude.Histogram, power float64) float64 {
	deviation := m.meanDeviation()
	return of.CheapestCut(func(cut float64) float64 {
		return square(deviation*math.Pow(cut, power)) + square(of.PowerTail(cut, power, tailAssumption))
	})
}

// meanDeviation is the standard deviation of the noise on the mean of a column.
func (g *scoring) meanDeviation() float64 {
	if noise, pure := g.noises[momentsRelease].(mech.Laplace); pure {
		return noise.MeanScale(g.sumContract()) // half of the sum of two such noises
	}
	noise := g.noises[momentsRelease].(mech.Gaussian)
	return noise.NoiseMultiplier * square(g.momentContract().Bound) / float64(g.shape.N) / g.weight()
}

// scoreMeans are means over all N rows: first the share of usable rows, then those of weight times each
// column. Forms are linear combinations of them.
type scoreMeans struct {
	n         float64
	weight    float64
	first     []float64
	sampling  *mat.SymDense                // covariance of one row
	noise     *mat.SymDense                // covariance of the noise of first
	deviation func(form []float64) float64 // standard deviation of the noise in the variance of a form for one row
	weighted  bool                         // the last column is the weight that the others were multiplied by
}

// gaussianMeans reads second moments of 1 and k columns.
func gaussianMeans(released []float64, k int, noise mech.Gaussian, c mech.MomentContract) *scoreMeans {
	n := float64(c.N)
	diagonal := noise.NoiseMultiplier * math.Sqrt2 * square(c.Bound) / n
	m := &scoreMeans{n: n, weight: 1 / math.Sqrt(float64(k)), first: slices.Clone(released[:k+1]), noise: mat.NewSymDense(k+1, nil)}
	sampling := mat.NewSymDense(k+1, released)
	for j := range k + 1 {
		m.noise.SetSym(j, j, square(diagonal)/2)
		for i := range j + 1 {
			sampling.SetSym(i, j, sampling.At(i, j)-m.first[i]*m.first[j])
		}
	}
	m.noise.SetSym(0, 0, square(diagonal))
	m.sampling = linalg.PositivePart(sampling)
	m.deviation = func(x []float64) float64 {
		v := mat.NewVecDense(len(x), x)
		return diagonal * mat.Dot(v, v)
	}
	return m
}

// laplaceMeans reads means of 1, and of 2u - 1 and 2u^2 - 1 for k columns u; their covariances are neither
// released nor needed.
func laplaceMeans(released []float64, k int, noise mech.Laplace, c mech.Contract) *scoreMeans {
	n, ones := float64(c.N), released[0]
	variance := 2 * square(noise.MeanScale(c))
	m := &scoreMeans{n: n, weight: 1, first: []float64{ones}, noise: mat.NewSymDense(k+1, nil), sampling: mat.NewSymDense(k+1, nil)}
	m.noise.SetSym(0, 0, variance)
	m.sampling.SetSym(0, 0, max(0, ones*(1-ones)))
	for j := range k {
		u, squared := (released[1+j]+ones)/2, (released[1+k+j]+ones)/2
		m.first = append(m.first, u)
		m.noise.SetSym(0, 1+j, variance/2)
		m.noise.SetSym(1+j, 1+j, variance/2)
		m.sampling.SetSym(1+j, 1+j, max(0, squared-u*u))
		m.sampling.SetSym(0, 1+j, max(0, u*(1-ones)))
		for i := range j {
			m.noise.SetSym(1+i, 1+j, variance/4)
		}
	}
	m.deviation = func(x []float64) float64 {
		sum := 0.0
		for _, v := range x {
			sum += v * v
		}
		return math.Sqrt(variance/2) * sum
	}
	return m
}

// doubtWeights sets the correlation of columns with weights to -1, where it is not released: the variance
// of their quotient is then largest.
func (m *scoreMeans) doubtWeights() {
	last := len(m.first) - 1
	for j := 1; j < last; j++ {
		m.sampling.SetSym(j, last, -math.Sqrt(m.sampling.At(j, j)*m.sampling.At(last, last)))
	}
}

// form is a linear combination of the means: one times the share of usable rows, or the mean weight, and
// columns in the units of their clipping thresholds.
func (m *scoreMeans) form(one float64, values ...float64) []float64 {
	x := make([]float64, len(m.first))
	x[0] = one
	for j, v := range values {
		x[1+j] = v / m.weight
	}
	if m.weighted {
		x[0], x[len(x)-1] = 0, one/m.weight
	}
	return x
}

// value is the value of a form.
func (m *scoreMeans) value(x []float64) (sum float64) {
	for j, v := range x {
		sum += v * m.first[j]
	}
	return sum
}

// covariance is the covariance of two forms, due to sampling and noise.
func (m *scoreMeans) covariance(x, y []float64) float64 {
	u, v := mat.NewVecDense(len(x), x), mat.NewVecDense(len(y), y)
	return mat.Inner(u, m.sampling, v)/m.n + mat.Inner(u, m.noise, v)
}

// ratio is a quotient q of two forms and the ends of its interval. off bounds the error of above - q below.
// known is false where noise may account for the whole denominator. bounded is false where the sign of the
// denominator is uncertain, so that the interval has no ends.
func (m *scoreMeans) ratio(above, below []float64, off func(q float64) float64) (q, low, high float64, known, bounded bool) {
	a, b := m.value(above), m.value(below)
	if !(b > numeric.MinDenominator*math.Sqrt(m.covariance(below, below))) {
		return 0, 0, 0, false, false
	}
	q = a / b
	x := linalg.Minus(above, q, below)
	variance := m.covariance(x, x)
	df := max(1, 2*square(variance*m.n/m.deviation(x)))
	k := numeric.HalfWidth(math.Sqrt(variance), df, magnitude.BiasShare*off(q))
	k2 := k * k / variance
	// Fieller: all r with (a - r b)^2 <= k2 times the variance of above - r below.
	leading := b*b - k2*m.covariance(below, below)
	middle := a*b - k2*m.covariance(above, below)
	last := a*a - k2*m.covariance(above, above)
	root := math.Sqrt(middle*middle - leading*last)
	if !(leading > 0) || math.IsNaN(root) {
		return q, 0, 0, true, false
	}
	return q, (middle - root) / leading, (middle + root) / leading, true, true
}

// Why a metric has no value, or no interval.
const (
	whyNoScale    = "noise hides how large the target is, or do few rows have one that is not 0? Register its scale, or ask for more eps"
	whyOutOfReach = "a few predictions are off by more than is looked for: have a scale of the target registered that fits"
	whyNoSize     = "noise hides how far predictions are off: ask for more eps"
	whyNoSpread   = "noise hides how much the target varies: ask for more eps"
	whyNoRows     = "noise hides how many rows are complete: ask for more eps"
	whyHeavyTail  = "a few rows that are predicted badly may carry it: more eps shows whether they do"
	whyHeavyY     = "a few rows with extreme targets may carry it: more eps shows whether they do"
)

// whyNoValue returns why nothing is known of residuals, and otherwise nothing.
func (m *measured) whyNoValue() string {
	switch {
	case m.unknown:
		return whyNoScale
	case !m.sizes.Seen():
		return whyNoSize
	case m.sizes.Top() == magnitude.Bins-1: // without an upper edge
		return whyOutOfReach
	}
	return ""
}

// metrics returns all metrics.
func (m *measured) metrics() []release.Metric {
	switch {
	case m.Labels && m.pure:
		return []release.Metric{m.meanSize("log_loss"), m.share("accuracy", 1)}
	case m.Labels:
		return []release.Metric{m.meanSize("log_loss"), m.share("accuracy", 1), m.share("brier_score", 2)}
	case m.Counts && m.pure:
		return []release.Metric{m.meanSize("mean_deviance")}
	case m.Counts:
		return []release.Metric{m.devianceExplained(), m.meanSize("mean_deviance")}
	case m.pure:
		return []release.Metric{m.meanSize("mean_absolute_error")}
	}
	absolute := m.meanSize("mean_absolute_error")
	return []release.Metric{m.rSquared(), absolute, notBelow(m.rootMeanSquare(), absolute)}
}

// notBelow returns the root of a mean of squares, which noise may have left below the mean of absolute values: it is at least
// that. An interval of the one then begins no earlier than that of the other.
func notBelow(root, mean release.Metric) release.Metric {
	if root.Value == nil || mean.Value == nil {
		return root
	}
	root.Value = new(max(*root.Value, *mean.Value))
	if root.Low != nil {
		root.High = new(max(*root.High, *root.Value))
	}
	if root.Low != nil && mean.Low != nil {
		root.Low = new(max(*root.Low, *mean.Low))
	}
	return root
}

// quotient is a metric as a function of the ratio of two forms.
type quotient struct {
	name         string
	above, below []float64
	off          func(q float64) float64 // as in ratio
	to           func(q float64) float64 // from the ratio to the metric; nondecreasing
	why          string                  // why there is no interval; empty: there is one
	whyNoValue   string                  // why there is no value if noise masks the denominator
	negative     string                  // why there is none if the ratio is negative and has no interval; empty: it may be
	far          bool                    // rows surely lie beyond all that is seen (spreads)
	vague        bool                    // without an interval there is no value either, if what is seen leaves it unknown within maxVague, or is not all (far)
}

// maxVague is the largest width at which a share of what a model explains is given without an interval.
const maxVague = 0.2

// metric computes the metric of a quotient.
func (m *measured) metric(c quotient) release.Metric {
	q, low, high, known, bounded := m.means.ratio(c.above, c.below, c.off)
	result := release.Metric{Name: c.name, WhyNull: c.whyNoValue}
	if !known {
		return result
	}
	result.Value = release.Finite(c.to(q))
	switch {
	case c.why != "":
		result.WhyNull = c.why
		if c.vague && (c.far || !(bounded && c.to(high)-c.to(low) <= maxVague)) {
			result.Value = nil
		}
	case bounded:
		result.Low, result.High, result.WhyNull = release.Finite(c.to(low)), release.Finite(c.to(high)), ""
		if result.Value == nil || result.Low == nil || result.High == nil {
			return release.Metric{Name: c.name, WhyNull: c.whyNoValue}
		}
	}
	if q < 0 && c.negative != "" && result.Low == nil {
		return release.Metric{Name: c.name, WhyNull: c.negative}
	}
	return result
}

// one is the form of the share of usable rows, or of their mean weight.
func (m *measured) one() []float64 { return m.means.form(1) }

// number is the form of column j, in the given unit.
func (m *measured) number(j int, unit float64) []float64 {
	numbers := make([]float64, m.columns())
	numbers[j] = unit
	return m.means.form(0, numbers...)
}

// meanSize is the mean absolute error, the log-loss, or the mean deviance.
func (m *measured) meanSize(name string) release.Metric {
	if why := m.whyNoValue(); why != "" {
		return release.Metric{Name: name, WhyNull: why}
	}
	why := ""
	switch { // mayHide bounds the tail of the losses of labels
	case m.Labels:
		why = magnitude.MinIndex{}.Refuses(m.sizes, whyHeavyTail)
	case m.Counts:
		why = cmp.Or(magnitude.MeanIndex.Refuses(m.sizes, whyHeavyTail), spreads(m.sizes, surelyOfSquares, whyHeavyTail))
	default:
		why = cmp.Or(magnitude.MeanIndex.Refuses(m.sizes, whyHeavyTail), spreads(m.sizes, surelyOfSizes, whyHeavyTail))
	}
	return m.metric(quotient{
		name: name, above: m.number(0, m.cut), below: m.one(), why: why, whyNoValue: whyNoRows, negative: whyNoSize, to: atLeastZero,
		off: func(float64) float64 { return m.sizes.PowerTail(m.cut, 1, tailAssumption) },
	})
}

// share is the mean of a column with values in [0, 1].
func (m *measured) share(name string, j int) release.Metric {
	return m.metric(quotient{
		name: name, above: m.number(j, 1), below: m.one(), whyNoValue: whyNoRows,
		off: func(float64) float64 { return 0 }, to: func(q float64) float64 { return numeric.ClampBetween(q, 0, 1) },
	})
}

// rootMeanSquare is the root mean squared error.
func (m *measured) rootMeanSquare() release.Metric {
	const name = "root_mean_squared_error"
	if why := m.whyNoValue(); why != "" {
		return release.Metric{Name: name, WhyNull: why}
	}
	why := cmp.Or(squareIndex.Refuses(m.sizes, whyHeavyTail), spreads(m.sizes, surelyOfSquares, whyHeavyTail))
	return m.metric(quotient{
		name: name, above: m.number(1, square(m.squareCut)), below: m.one(), why: why, whyNoValue: whyNoRows, negative: whyNoSize,
		off: func(float64) float64 { return m.squaresOff() }, to: func(q float64) float64 { return math.Sqrt(atLeastZero(q)) },
	})
}

func atLeastZero(q float64) float64 { return max(0, q) }

// squaresOff bounds the bias of the mean of squares by clipping.
func (m *measured) squaresOff() float64 { return m.sizes.PowerTail(m.squareCut, 2, tailAssumption) }

// rSquared is 1 less the mean square of residuals over that of the target about its mean. The distance of
// that mean from the centre is small and enters to first order. Clipping one or the other moves the ratio
// in opposite directions.
func (m *measured) rSquared() release.Metric {
	const name = "r2"
	switch why := m.whyNoValue(); {
	case why != "":
		return release.Metric{Name: name, WhyNull: why}
	case !m.deviations.Seen():
		return release.Metric{Name: name, WhyNull: whyNoSpread}
	}
	far := cmp.Or(spreads(m.sizes, surelyOfSquares, whyHeavyTail), spreads(m.deviations, surelyOfSquares, whyHeavyY))
	why := cmp.Or(ratioIndex.Refuses(m.sizes, whyHeavyTail), ratioIndex.Refuses(m.deviations, whyHeavyY), far)
	squares := m.number(1, square(m.squareCut))
	return m.metric(quotient{
		name: name, above: linalg.Minus(make([]float64, len(squares)), 1, squares), below: m.spread(), why: why, whyNoValue: whyNoSpread, far: far != "", vague: true,
		off: func(q float64) float64 {
			return max(m.squaresOff(), -q*m.deviations.PowerTail(m.deviationCut, 2, tailAssumption))
		},
		to: func(q float64) float64 { return min(1, 1+q) },
	})
}

// spread is the form of the mean square of the target about its mean, over all rows.
func (m *measured) spread() []float64 {
	away := 0.0 // of the mean from the centre
	if rows := m.means.value(m.one()); rows > 0 {
		away = numeric.ClampTo(m.means.value(m.number(2, 1))/rows, 1)
	}
	c2 := square(m.deviationCut)
	return m.means.form(away*away*c2, 0, 0, -2*away*c2, c2)
}

func square(v float64) float64 { return v * v }
