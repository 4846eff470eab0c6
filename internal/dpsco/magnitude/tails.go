package magnitude

import (
	"math"

	"dpsidecar/internal/dpsco/numeric"
)

// TailAssumption is an assumption about hidden rows: they number Deviations standard deviations of noise
// more than the count above the visible bins, and Steepest is the largest exponent of their Pareto
// tail.
type TailAssumption struct{ Deviations, Steepest float64 }

// CutTail is the assumption for the choice of cuts, and of the tail of another release (Again).
var CutTail = TailAssumption{Deviations: 0.5, Steepest: 3}

// IndexTail is that for the index by which a tail counts as too heavy (Heavy).
var IndexTail = TailAssumption{Deviations: 0.75, Steepest: 5}

// Reach changes the histogram: it extends the range in which rows may be hidden up to size. A few rows that are far larger
// than all others, such as those of a rare label, do not continue the visible tail and may lie in
// any bin up to size.
func (m *Histogram) Reach(size float64) {
	if m.seen && size > m.Edge() {
		m.far = size
		m.hides = max(m.hides, min(BinOf(size/m.unit), Bins-1)-m.top)
		m.countAbove()
	}
}

// SetBounded changes the histogram: it says whether hidden rows are known to be hardly larger than the size of Reach, as
// losses of labels are. For means PowerTail then goes by the tail of Hidden, whatever the last octaves show.
func (m *Histogram) SetBounded(bounded bool) { m.bounded = bounded }

// Reached reports whether Reach has extended the range in which rows may be hidden.
func (m *Histogram) Reached() bool { return m.far > m.Edge() }

// ReachOf returns the mean of other(v) over the visible bins for which other(v) lies beyond the
// highest visible bin; 0 if there are none.
func (m *Histogram) ReachOf(other func(v float64) float64) float64 {
	rows, sum := 0.0, 0.0
	for k, share := range m.share {
		if share == 0 {
			continue
		}
		if size := other(m.quantity[k]); size > m.Edge() {
			rows, sum = rows+share, sum+share*size
		}
	}
	return sum / max(rows, math.SmallestNonzeroFloat64)
}

// hiddenFrom returns the size from which the tail of hidden rows is taken to begin.
func (m *Histogram) hiddenFrom() float64 { return max(m.Edge(), m.far) }

// Hidden returns an upper estimate of the number of rows beyond the visible bins, and the exponent
// of their tail, estimated by comparing that number with the count of the highest visible bin. After
// Reach the exponent is at least farExponent, because the hidden rows do not continue the visible
// tail.
func (m *Histogram) Hidden(c TailAssumption) (rows, exponent float64) {
	rows = numeric.ClampBetween(m.above+c.Deviations*m.aboveDeviation(), 0, m.rows/4)
	least := 1.5
	if m.Reached() {
		least = farExponent
	}
	return rows, numeric.ClampBetween(2*math.Log2((m.last+rows)/rows), least, c.Steepest)
}

const farExponent = 2.5

// Tail returns the mean of max(0, v - cut) over the visible rows and a Pareto tail of hidden rows.
func (m *Histogram) Tail(cut float64, c TailAssumption) float64 {
	rows, a := m.Hidden(c)
	share, edge := rows/m.rows, m.hiddenFrom()
	if cut >= edge {
		return m.Excess(cut) + share*math.Pow(cut/edge, -a)*cut/(a-1)
	}
	return m.Excess(cut) + share*(edge-cut+edge/(a-1))
}

// groupFrom is the number of standard deviations of noise from which two adjacent bins above the visible ones may
// hold a group of rows (seenFarther more for each bin between), and groupBins the number of bins that are looked at.
const (
	groupFrom = 2
	groupBins = 12
)

// FarGroup bounds the mean of max(0, v - cut) over a group of rows that stands apart above the visible bins, such as those of a
// fee that few pay: by the two adjacent bins that stand out for which it is largest; 0 if none do. Bins become visible
// at about twice as many deviations, and the tail of Hidden begins at the edge and falls. Noise alone makes some
// bins stand out in one histogram of twelve.
func (m *Histogram) FarGroup(cut float64, c TailAssumption) (most float64) {
	if !m.seen {
		return 0
	}
	sd := m.sd * math.Sqrt2
	for k := m.top + 1; k < min(m.top+1+groupBins, Bins-1); k++ {
		rows, at := m.noisy[k]+m.noisy[k+1], k
		if m.noisy[k+1] > m.noisy[k] {
			at = k + 1
		}
		if rows > max((groupFrom+seenFarther*float64(k-m.top-1))*sd, 0.5) {
			most = max(most, (rows+c.Deviations*sd)/m.rows*max(0, m.quantity[at]-cut))
		}
	}
	return most
}

// SpreadStandsOut returns the largest sum of consecutive counts, in standard deviations of its
// noise, over the runs of bins that begin three bins above the start of the hidden tail. A few rows
// in each of many bins do not form the falling tail that Tail assumes.
func (m *Histogram) SpreadStandsOut() (most float64) {
	first, sum := BinOf(m.hiddenFrom()/m.unit)+3, 0.0
	for k, v := range m.noisy[min(first, Bins):] {
		sum += v
		most = max(most, sum/(m.sd*math.Sqrt(float64(k+1))))
	}
	return most
}

// TailAlong is Tail with the hidden rows placed at the visible lengths, times unit, that lie beyond
// the visible bins. From the longest on, their number is limited to an upper bound on the rows
// hidden in the bins from that size on. It returns 0 if there are no such lengths.
func (m *Histogram) TailAlong(lengths *Histogram, unit, cut float64, c TailAssumption) float64 {
	counts, bins, last, hidden, excess := 0.0, 0.0, 0, 0.0, 0.0
	for k := Bins - 1; k >= 0; k-- {
		size := lengths.quantity[k] * unit
		if !(lengths.share[k] > 0 && size > m.Edge()) {
			continue
		}
		bin := BinOf(size / m.unit)
		if bins == 0 {
			last = min(bin+1, Bins-1) // the rows of one bin of lengths may lie in two bins here
		}
		for ; last >= bin; last-- {
			counts, bins = counts+m.noisy[last], bins+1
		}
		most := max(0, counts) + c.Deviations*m.sd*math.Sqrt(bins)
		rows := numeric.ClampBetween(most-hidden, 0, lengths.share[k]*lengths.counted*m.rows)
		hidden += rows
		excess += rows * max(0, size-cut)
	}
	if bins == 0 {
		return 0
	}
	return m.Excess(cut) + excess/m.rows
}

// Trimmed returns an upper bound on the mean of max(0, v - cut^2/v), the amount that a weight of
// (cut/v)^2 takes away, over the visible rows and a Pareto tail of hidden rows.
func (m *Histogram) Trimmed(cut float64, c TailAssumption) float64 {
	seen := m.Mean(func(v float64) float64 { return max(0, v-cut*cut/max(v, cut)) })
	return seen + m.Tail(cut, c) - m.Excess(cut)
}

// Index estimates the exponent of the tail from the four bins up to the highest visible one (two
// octaves) and the hidden rows.
func (m *Histogram) Index(c TailAssumption) float64 {
	rows, _ := m.Hidden(c)
	beyond := 0.0
	for _, share := range m.share[max(m.top-3, 0):] {
		beyond += share
	}
	return math.Log2((beyond*m.counted*m.rows+rows)/rows) / 2
}

// minTailIndex is the least exponent of the tail that the bias of a mean is bounded by.
const minTailIndex = 1.2

// PowerTail is the mean of (v^p - cut^p)+ over the visible bins and a Pareto tail of hidden rows, whose
// p-th moment is assumed to exist. The tail of means is no steeper than the last octaves that are seen.
func (m *Histogram) PowerTail(cut, p float64, c TailAssumption) float64 {
	rows, exponent := m.Hidden(c)
	least := p + 0.5
	if p == 1 && !m.bounded {
		exponent, least = min(exponent, m.Index(c)), minTailIndex
	}
	a, share, edge := max(exponent, least), rows/m.rows, m.hiddenFrom()
	seen := m.Mean(func(v float64) float64 { return max(0, math.Pow(v, p)-math.Pow(cut, p)) })
	if cut >= edge {
		return seen + share*math.Pow(cut/edge, -a)*math.Pow(cut, p)*p/(a-p)
	}
	return seen + share*(math.Pow(edge, p)*a/(a-p)-math.Pow(cut, p))
}

// Heavy returns why if a tail is too heavy for an interval, since its index is below least or it has no end among the
// bins, and otherwise nothing.
func Heavy(of *Histogram, least float64, why string) string {
	if of.top == Bins-1 || of.Index(IndexTail) < least { // the last bin has no upper edge
		return why
	}
	return ""
}

// MinIndex has least tail indices: Coarse where noise may hide more than the share coarseNoise of the rows in a bin, and
// Fine where it may not.
type MinIndex struct{ Coarse, Fine float64 }

const coarseNoise = 0.012

// Refuses returns why if a tail is too heavy for an interval beside the noise that hides its rows, and otherwise nothing.
func (least MinIndex) Refuses(of *Histogram, why string) string {
	if seenAlone*of.sd <= coarseNoise*of.rows {
		return Heavy(of, least.Fine, why)
	}
	return Heavy(of, least.Coarse, why)
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

// Farther returns the noisy mean of max(0, min(v, most) - cut) over the rows in those bins beyond the hidden tail
// for which it stands out most; 0 if it does for none.
func (m *Histogram) Farther(cut, most float64) (mean float64) {
	best := 0.0
	for start := m.top + 1 + m.hides; start < Bins; start++ {
		out, end := fewOut, start+fewBins
		if start == m.top+1+m.hides {
			out, end = spreadOut, Bins
		}
		sum, squares := 0.0, 0.0
		for k := start; k < min(end, Bins) && m.quantity[k] < farReach*most; k++ {
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

// BiasShare is the fraction that intervals allow for of the bound on the bias by clipping.
const BiasShare = 0.8

// MeanIndex is the least tail index for an interval of the mean size. Where noise may hide few of the rows in a bin
// (MinIndex) such a mean has an interval, whatever is seen. It was chosen on laws and tables (docs/experiments/scores.md).
var MeanIndex = MinIndex{Coarse: 2.5}
