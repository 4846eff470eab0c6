package dpsco

import (
	"math"
	"slices"

	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/mech"
)

// magnitudeBins is the number of bins of halfOctaves.
const magnitudeBins = 50

// magnitudeEdges are the lower edges of all bins but the first, in units; magnitudeMiddles are the
// values that stand for the rows of each bin.
var magnitudeEdges, magnitudeMiddles = func() (edges [magnitudeBins - 1]float64, middles [magnitudeBins]float64) {
	for k := range edges {
		edges[k] = math.Exp2(float64(lowestOctave+k) / 2)
		middles[k] = edges[k] * math.Exp2(-0.25)
	}
	middles[magnitudeBins-1] = edges[magnitudeBins-2] * math.Exp2(0.25)
	return edges, middles
}()

// magnitudes holds a released histogram of magnitudes. A bin is visible if its count stands out from
// the noise; rows in other bins are hidden. All methods are post-processing.
type magnitudes struct {
	unit     float64
	rows     float64                // of the table
	sd       float64                // standard deviation of the noise of a count
	seen     bool                   // some bin is visible; if none, all rows are taken to be about 1 unit
	counted  float64                // rows in the visible bins, as a share of all rows
	share    [magnitudeBins]float64 // of each visible bin among the rows in visible bins; 0 for hidden bins
	top      int                    // the highest visible bin
	last     float64                // count of bin top
	above    float64                // noisy count of the hides bins above top, in which rows may be hidden
	hides    int                    // number of those bins: three, or more after reach
	far      float64                // size up to which reach says rows may be hidden; 0: next to the visible bins
	noisy    [magnitudeBins]float64 // counts as released
	bounded  bool                   // hidden rows are known to be hardly larger than far, as losses of labels are
	spread   bool                   // the rows of a bin count as spread over it, not as all at its middle
	quantity [magnitudeBins]float64 // middles of the bins, in the unit of the data
}

// The numbers of standard deviations of noise that a count must exceed to be visible: for the
// fullest bin, for one that continues a run of bins, and for one that stands alone.
const (
	seenMode  = 4.5
	seenRun   = 3
	seenAlone = 3.5
)

// readMagnitudes reads a histogram of noisy counts whose noise has standard deviation sd. Counts of
// bins beyond limit are set to 0.
func readMagnitudes(noisy []float64, sd, unit, limit, rows float64) *magnitudes {
	m := &magnitudes{unit: unit, rows: rows, sd: sd, hides: 3}
	for k, middle := range magnitudeMiddles {
		m.quantity[k] = middle * unit
	}
	mode := 0
	for k, v := range noisy {
		if k > 0 && magnitudeEdges[k-1]*unit >= limit {
			noisy[k] = 0
		} else if v > noisy[mode] {
			mode = k
		}
	}
	m.seen = noisy[mode] > seenMode*sd
	if !m.seen {
		noisy, mode = make([]float64, magnitudeBins), 1-lowestOctave
		noisy[mode] = m.rows
	}
	copy(m.share[:], noisy)
	m.top = mode
	return m
}

// Rows show that scales are far too small if they are this many times longer than the bound that
// fits the scales. The thresholds are high because skewed features, and those far from 0, make most
// rows a few times longer than the bound. Newton's is higher because its start corrects for such
// scales less well than JointMoments.
const (
	jointTooLong  = 10
	newtonTooLong = 30
)

// readLengths reads a histogram of the lengths of rows of d coordinates. longer is the length that half
// of all rows exceed, over bound, if that ratio is above tooLong, else 1.
func readLengths(noisy []float64, noise mech.Gaussian, d int, bound, tooLong, rows float64) (lengths *magnitudes, longer float64) {
	sd := noise.NoiseMultiplier * math.Sqrt2
	limit, longer := longest(d), 1.0
	if all := readMagnitudes(slices.Clone(noisy), sd, 1, math.Inf(1), rows).apart(); all.seen && all.counted >= 0.5 {
		if typical := all.quantile(1 - 0.5/all.counted); typical > tooLong*bound {
			limit, longer = max(limit, 4*typical), typical/bound
		}
	}
	return readMagnitudes(noisy, sd, 1, limit, rows).apart(), longer
}

// beyond returns the histogram with the count above the visible bins increased by the given number
// of standard deviations of its noise.
func (m *magnitudes) beyond(deviations float64) *magnitudes {
	other := *m
	if m.seen {
		other.above = max(0, m.above+deviations*m.aboveDeviation())
	}
	return &other
}

// again returns a simulated other release of the histogram: the visible rows and a tail of rows that may be
// hidden, with noise made of fixed numbers. draw selects the numbers.
func (m *magnitudes) again(draw int) *magnitudes {
	if !m.seen {
		return m
	}
	counts := make([]float64, magnitudeBins)
	for k, share := range m.share {
		counts[k] = share * m.counted * m.rows
	}
	rows, exponent := m.hidden(jointCutTail)
	ratio, last := math.Exp2(-exponent/2), magnitudeBins
	if m.far > 0 {
		ratio, last = 1, min(m.top+1+m.hides, magnitudeBins)
	}
	// hidden estimates the rows in the first m.hides bins above the visible ones.
	first := 0.0
	for k := range m.hides {
		first += math.Pow(ratio, float64(k))
	}
	for k := m.top + 1; k < last; k++ {
		counts[k] += rows / first * math.Pow(ratio, float64(k-m.top-1))
	}
	for k := range counts {
		counts[k] += m.sd * numeric.NormalNodes[(draw*(2*k+1)*2+k*k)%len(numeric.NormalNodes)]
	}
	other := readMagnitudes(counts, m.sd, m.unit, math.Inf(1), m.rows).run()
	other.reach(m.far)
	return other
}

// run keeps as visible the bins around the mode, with gaps of at most one bin, and other bins that
// stand out as the mode must. It is for residuals: their law is unimodal, except for an atom at zero
// or, where the target is rarely nonzero, a second group of larger values.
func (m *magnitudes) run() *magnitudes {
	visible := func(k int) bool { return k >= 0 && k < magnitudeBins && m.standsOutAt(k, seenRun) }
	keep, mode := make([]bool, magnitudeBins), m.top
	keep[mode] = true
	for _, step := range []int{1, -1} {
		for k := mode + step; visible(k) || visible(k+step) && k >= 0 && k < magnitudeBins; k += step {
			keep[k] = m.share[k] > 0
		}
	}
	last := magnitudeBins
	for k := range keep {
		least := seenMode + seenFarther*float64(max(0, k-last-1))
		if keep[k] = keep[k] || m.standsOutAt(k, least); keep[k] {
			last = k
		}
	}
	return m.keep(keep)
}

// standsOutAt reports whether the count of bin k is above that many standard deviations of its noise, and no
// less than half a row: at a large eps noise below that makes some bin of thousands of fits stand out.
func (m *magnitudes) standsOutAt(k int, deviations float64) bool {
	return m.share[k] > max(deviations*m.sd, 0.5)
}

// seenFarther is the number of standard deviations added to a bin's threshold for each bin between
// it and the next lower visible one. Far bins need more evidence because bounds follow them: there
// an error is costliest.
const seenFarther = 0.1

// apart keeps as visible all bins that stand out, wherever they are. It is for lengths of rows: those
// with a rare flag are far longer than the others.
func (m *magnitudes) apart() *magnitudes {
	keep, last := make([]bool, magnitudeBins), m.top
	for k := range keep {
		least := seenAlone + seenFarther*float64(max(0, k-last-1))
		if keep[k] = k == m.top || m.standsOutAt(k, least); keep[k] {
			last = max(last, k)
		}
	}
	return m.keep(keep)
}

// keep normalises the counts of the visible bins and counts the rows above them.
func (m *magnitudes) keep(kept []bool) *magnitudes {
	counts := m.share
	m.noisy = counts
	total := 0.0
	for k := range m.share {
		if m.share[k] = 0; kept[k] && counts[k] > 0 {
			m.share[k], m.top = counts[k], k
			total += counts[k]
		}
	}
	m.counted, m.last = total/m.rows, max(counts[m.top], 1)
	for k := range m.share {
		m.share[k] /= total
	}
	if m.seen {
		m.countAbove()
	}
	return m
}

// countAbove sums the released counts of the bins above the visible ones in which rows may be hidden.
func (m *magnitudes) countAbove() {
	m.above = 0
	for _, v := range m.noisy[m.top+1 : min(m.top+1+m.hides, magnitudeBins)] {
		m.above += v
	}
	m.above = max(0, m.above)
}

// aboveDeviation returns the standard deviation of the noise of above.
func (m *magnitudes) aboveDeviation() float64 { return m.sd * math.Sqrt(float64(m.hides)) }

// reach extends the range in which rows may be hidden up to size. A few rows that are far larger
// than all others, such as those of a rare label, do not continue the visible tail and may lie in
// any bin up to size.
func (m *magnitudes) reach(size float64) {
	if m.seen && size > m.edge() {
		m.far = size
		m.hides = max(m.hides, min(sizeBin(size/m.unit), magnitudeBins-1)-m.top)
		m.countAbove()
	}
}

// reachOf returns the mean of other(v) over the visible bins for which other(v) lies beyond the
// highest visible bin; 0 if there are none.
func (m *magnitudes) reachOf(other func(v float64) float64) float64 {
	rows, sum := 0.0, 0.0
	for k, share := range m.share {
		if size := other(m.quantity[k]); share > 0 && size > m.edge() {
			rows, sum = rows+share, sum+share*size
		}
	}
	return sum / max(rows, math.SmallestNonzeroFloat64)
}

// A scale is typical of the values if at least typicalShare of the visible rows are at least
// typicalPart of it.
const (
	typicalShare = 0.25
	typicalPart  = 0.125
)

// rarelyAsLargeAs reports whether scale is not typical of the values.
func (m *magnitudes) rarelyAsLargeAs(scale float64) bool {
	return m.seen && 1-m.below(typicalPart*scale) < typicalShare
}

// hiddenFrom returns the size from which the tail of hidden rows is taken to begin.
func (m *magnitudes) hiddenFrom() float64 { return max(m.edge(), m.far) }

// Noise hides some rows of any table. All rows count as usable unless the hidden share is above
// maxUnseen plus maxUnseenByNoise standard deviations of a count.
const (
	maxUnseen        = 0.2
	maxUnseenByNoise = 20
)

// usable returns the share of usable rows, that is, without missing values. Histograms describe only
// these, whereas second moments are means over all rows.
func (m *magnitudes) usable() float64 {
	if 1-m.counted > maxUnseen+maxUnseenByNoise*m.sd/m.rows {
		return m.counted
	}
	return 1
}

// edge returns the upper edge of the highest visible bin.
func (m *magnitudes) edge() float64 { return magnitudeEdges[min(m.top, magnitudeBins-2)] * m.unit }

// quantile returns the middle of the bin in which the p-quantile lies.
func (m *magnitudes) quantile(p float64) float64 {
	sum := 0.0
	for k, share := range m.share {
		if sum += share; sum >= p {
			return m.quantity[k]
		}
	}
	return m.quantity[m.top]
}

// below returns the share of visible rows below v.
func (m *magnitudes) below(v float64) float64 {
	return m.mean(func(u float64) float64 {
		if u < v {
			return 1
		}
		return 0
	})
}

// mean returns the mean of f over the visible rows.
func (m *magnitudes) mean(f func(v float64) float64) (sum float64) {
	parts := binMiddle
	if m.spread {
		parts = binQuarters
	}
	for k, share := range m.share {
		if share > 0 {
			for _, part := range parts {
				sum += share * f(m.quantity[k]*part) / float64(len(parts))
			}
		}
	}
	return sum
}

// binMiddle and binQuarters are points that stand for the rows of a bin, over its middle: the middle, and
// the middles of its four quarters on the logarithmic scale.
var (
	binMiddle   = []float64{1}
	binQuarters = []float64{math.Exp2(-3. / 16), math.Exp2(-1. / 16), math.Exp2(1. / 16), math.Exp2(3. / 16)}
)

// withSpreadBins returns the histogram with the rows of each bin spread evenly by their logarithms. It is
// for the rows beyond a limit that was chosen by the histogram itself: the chosen limit tends to lie just
// above the middle of a bin, where all rows of the bin appear to be within it. Shares below a limit change
// in quarters of a bin then, not in whole bins.
func (m *magnitudes) withSpreadBins() *magnitudes {
	other := *m
	other.spread = true
	return &other
}

// excess returns the mean of max(0, v - cut) over the visible rows, excessSquare that of max(0, v^2 - cut^2).
func (m *magnitudes) excess(cut float64) float64 {
	return m.mean(func(v float64) float64 { return max(0, v-cut) })
}

func (m *magnitudes) excessSquare(cut float64) float64 {
	return m.mean(func(v float64) float64 { return max(0, v*v-cut*cut) })
}

// standsOut returns the count above the visible bins in standard deviations of its noise.
func (m *magnitudes) standsOut() float64 { return m.above / m.aboveDeviation() }

// tailAssumption is an assumption about hidden rows: they number deviations standard deviations of noise
// more than the count above the visible bins, and steepest is the largest exponent of their Pareto
// tail.
type tailAssumption struct{ deviations, steepest float64 }

// hidden returns an upper estimate of the number of rows beyond the visible bins, and the exponent
// of their tail, estimated by comparing that number with the count of the highest visible bin. After
// reach the exponent is at least farExponent, because the hidden rows do not continue the visible
// tail.
func (m *magnitudes) hidden(c tailAssumption) (rows, exponent float64) {
	rows = numeric.ClampBetween(m.above+c.deviations*m.aboveDeviation(), 0, m.rows/4)
	least := 1.5
	if m.far > m.edge() {
		least = farExponent
	}
	return rows, numeric.ClampBetween(2*math.Log2((m.last+rows)/rows), least, c.steepest)
}

const farExponent = 2.5

// tail returns the mean of max(0, v - cut) over the visible rows and a Pareto tail of hidden rows.
func (m *magnitudes) tail(cut float64, c tailAssumption) float64 {
	rows, a := m.hidden(c)
	share, edge := rows/m.rows, m.hiddenFrom()
	if cut >= edge {
		return m.excess(cut) + share*math.Pow(cut/edge, -a)*cut/(a-1)
	}
	return m.excess(cut) + share*(edge-cut+edge/(a-1))
}

// spreadStandsOut returns the largest sum of consecutive counts, in standard deviations of its
// noise, over the runs of bins that begin three bins above the start of the hidden tail. A few rows
// in each of many bins do not form the falling tail that tail assumes.
func (m *magnitudes) spreadStandsOut() (most float64) {
	first, sum := sizeBin(m.hiddenFrom()/m.unit)+3, 0.0
	for k, v := range m.noisy[min(first, magnitudeBins):] {
		sum += v
		most = max(most, sum/(m.sd*math.Sqrt(float64(k+1))))
	}
	return most
}

// tailAlong is tail with the hidden rows placed at the visible lengths, times unit, that lie beyond
// the visible bins. From the longest on, their number is limited to an upper bound on the rows
// hidden in the bins from that size on. It returns 0 if there are no such lengths.
func (m *magnitudes) tailAlong(lengths *magnitudes, unit, cut float64, c tailAssumption) float64 {
	counts, bins, last, hidden, excess := 0.0, 0.0, 0, 0.0, 0.0
	for k := magnitudeBins - 1; k >= 0; k-- {
		size := lengths.quantity[k] * unit
		if !(lengths.share[k] > 0 && size > m.edge()) {
			continue
		}
		bin := sizeBin(size / m.unit)
		if bins == 0 {
			last = min(bin+1, magnitudeBins-1) // the rows of one bin of lengths may lie in two bins here
		}
		for ; last >= bin; last-- {
			counts, bins = counts+m.noisy[last], bins+1
		}
		most := max(0, counts) + c.deviations*m.sd*math.Sqrt(bins)
		rows := numeric.ClampBetween(most-hidden, 0, lengths.share[k]*lengths.counted*m.rows)
		hidden += rows
		excess += rows * max(0, size-cut)
	}
	if bins == 0 {
		return 0
	}
	return m.excess(cut) + excess/m.rows
}

// trimmed returns an upper bound on the mean of max(0, v - cut^2/v), the amount that a weight of
// (cut/v)^2 takes away, over the visible rows and a Pareto tail of hidden rows.
func (m *magnitudes) trimmed(cut float64, c tailAssumption) float64 {
	seen := m.mean(func(v float64) float64 { return max(0, v-cut*cut/max(v, cut)) })
	return seen + m.tail(cut, c) - m.excess(cut)
}

// index estimates the exponent of the tail from the four bins up to the highest visible one (two
// octaves) and the hidden rows.
func (m *magnitudes) index(c tailAssumption) float64 {
	rows, _ := m.hidden(c)
	beyond := 0.0
	for _, share := range m.share[max(m.top-3, 0):] {
		beyond += share
	}
	return math.Log2((beyond*m.counted*m.rows+rows)/rows) / 2
}

// bulk returns the histogram up to the first gap that is followed by a separate group of rows: by a
// bin with apartBy standard deviations more rows than the gap's bins, which no falling tail has. It
// returns m if there is no such gap.
func (m *magnitudes) bulk() *magnitudes {
	last, below := -1, 0.0
	for k, share := range m.share {
		if share <= 0 {
			continue
		}
		if last >= 0 && k > last+1 && below > 0.5 && m.group(last, k) {
			own := *m
			clear(own.share[k:])
			own.top, own.hides, own.far = last, min(3, k-last-1), 0
			own.countAbove()
			own.hides = 3 // for aboveDeviation the noise is that of three bins
			return &own
		}
		last, below = k, below+share
	}
	return m
}

// group reports whether bin next, or the bin after it, has significantly more rows than the mean bin
// between last and next.
func (m *magnitudes) group(last, next int) bool {
	between := 0.0
	for _, v := range m.noisy[last+1 : next] {
		between += v / float64(next-last-1)
	}
	return slices.Max(m.noisy[next:min(next+2, magnitudeBins)])-max(0, between) > apartBy*m.sd
}

// apartBy is three standard deviations of the difference of two counts, in units of that of one count.
const apartBy = 3 * math.Sqrt2

// cheapestCut returns the bin edge with the least cost.
func (m *magnitudes) cheapestCut(cost func(cut float64) float64) float64 {
	best := magnitudeEdges[0] * m.unit
	least := cost(best)
	for _, edge := range magnitudeEdges[1:] {
		if c := cost(edge * m.unit); c < least {
			best, least = edge*m.unit, c
		}
	}
	return best
}

// minTailIndex is the least exponent of the tail that the bias of a mean is bounded by.
const minTailIndex = 1.2

// powerTail is the mean of (v^p - cut^p)+ over the visible bins and a Pareto tail of hidden rows, whose
// p-th moment is assumed to exist. The tail of means is no steeper than the last octaves that are seen.
func (m *magnitudes) powerTail(cut, p float64, c tailAssumption) float64 {
	rows, exponent := m.hidden(c)
	least := p + 0.5
	if p == 1 && !m.bounded {
		exponent, least = min(exponent, m.index(c)), minTailIndex
	}
	a, share, edge := max(exponent, least), rows/m.rows, m.hiddenFrom()
	seen := m.mean(func(v float64) float64 { return max(0, math.Pow(v, p)-math.Pow(cut, p)) })
	if cut >= edge {
		return seen + share*math.Pow(cut/edge, -a)*math.Pow(cut, p)*p/(a-p)
	}
	return seen + share*(math.Pow(edge, p)*a/(a-p)-math.Pow(cut, p))
}

// heavy returns why if a tail is too heavy for an interval, and otherwise nothing.
func heavy(of *magnitudes, least float64, why string) string {
	if of.top == magnitudeBins-1 || of.index(scoreIndexTail) < least { // the last bin has no upper edge
		return why
	}
	return ""
}

// minIndex is the least tail index where noise may hide more than the share coarseNoise of the rows in a bin, and where it
// may not.
type minIndex struct{ coarse, fine float64 }

const coarseNoise = 0.012

// refuses returns why if a tail is too heavy for an interval beside the noise that hides its rows, and otherwise nothing.
func (least minIndex) refuses(of *magnitudes, why string) string {
	if seenAlone*of.sd <= coarseNoise*of.rows {
		return heavy(of, least.fine, why)
	}
	return heavy(of, least.coarse, why)
}

// ofGroup reads the histogram of a group, shrunk toward that of all rows by the share of their squared
// distance that noise explains.
func (m *magnitudes) ofGroup(noisy []float64, sd, rows float64) *magnitudes {
	distance := 0.0
	for k, v := range noisy {
		distance += square(v - m.share[k]*rows)
	}
	keep := max(0, 1-float64(len(noisy))*square(sd)/distance)
	own := readMagnitudes(noisy, sd, m.unit, math.Inf(1), rows).apart()
	if !own.seen {
		keep = 0
	}
	for k := range own.share {
		own.share[k] = keep*own.share[k] + (1-keep)*m.share[k]
	}
	own.seen = m.seen
	return own
}

// farther lets rows beyond the hidden tail count against a smaller delta, if they stand out from the noise. It tries two
// kinds of sets of bins, up to farReach times the requested delta: all from the hidden tail to some bin, if their
// weighted sum exceeds spreadOut standard deviations of its noise, and at most fewBins adjacent ones, if theirs exceeds
// fewOut. The first serves targets such as claims of one policy in a hundred, spread over ten bins none of which
// stands out alone. Without such rows noise triggers this in one fit of fifteen, whose delta is then larger than
// necessary.
const (
	farReach  = 16
	spreadOut = 2.5
	fewBins   = 3
	fewOut    = 3.
)

// farther returns the noisy mean of max(0, min(v, most) - cut) over the rows in those bins beyond the hidden tail
// for which it stands out most; 0 if it does for none.
func (m *magnitudes) farther(cut, most float64) (mean float64) {
	best := 0.0
	for start := m.top + 1 + m.hides; start < magnitudeBins; start++ {
		out, end := fewOut, start+fewBins
		if start == m.top+1+m.hides {
			out, end = spreadOut, magnitudeBins
		}
		sum, squares := 0.0, 0.0
		for k := start; k < min(end, magnitudeBins) && m.quantity[k] < farReach*most; k++ {
			part := max(0, min(m.quantity[k], most)-cut)
			sum += part * m.noisy[k]
			squares += square(part)
			if beyond := sum - out*m.sd*math.Sqrt(squares); beyond > 0 && sum/math.Sqrt(squares) > best {
				mean, best = sum/m.rows, sum/math.Sqrt(squares)
			}
		}
	}
	return mean
}

// expectedMagnitudes returns the histogram expected for centred normal numbers of standard deviation size.
func expectedMagnitudes(noise mech.Gaussian, size, unit float64, rows int) *magnitudes {
	counts, below := make([]float64, magnitudeBins), 0.0
	for k := range counts {
		upTo := 1.0
		if k < len(magnitudeEdges) {
			upTo = math.Erf(magnitudeEdges[k] * unit / size / math.Sqrt2)
		}
		counts[k], below = float64(rows)*(upTo-below), upTo
	}
	return readMagnitudes(counts, noise.NoiseMultiplier*math.Sqrt2, unit, math.Inf(1), float64(rows))
}

// longest is the largest length of a row of d whitened coordinates that histograms are read up to.
func longest(d int) float64 { return 64 * (1 + math.Sqrt(float64(d))) }
