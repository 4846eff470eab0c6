package magnitude

import (
	"iter"
	"math"
	"slices"

	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/mech"
)

// Histogram holds a released histogram of magnitudes, made by Read and then one of AsRun and Apart. A bin is visible
// if its count stands out from the noise; rows in other bins are hidden. All methods are post-processing.
type Histogram struct {
	unit     float64
	rows     float64       // of the table
	sd       float64       // standard deviation of the noise of a count
	seen     bool          // some bin is visible; if none, all rows are taken to be about 1 unit
	counted  float64       // rows in the visible bins, as a share of all rows
	share    [Bins]float64 // of each visible bin among the rows in visible bins; 0 for hidden bins
	top      int           // the highest visible bin
	last     float64       // count of bin top
	above    float64       // noisy count of the hides bins above top, in which rows may be hidden
	hides    int           // number of those bins: three, or more after Reach
	far      float64       // size up to which Reach says rows may be hidden; 0: next to the visible bins
	noisy    [Bins]float64 // counts as released
	bounded  bool          // hidden rows are known to be hardly larger than far, as losses of labels are
	spread   bool          // the rows of a bin count as spread over it, not as all at its middle
	quantity [Bins]float64 // middles of the bins, in the unit of the data
}

// Read reads a histogram of Bins noisy counts, whose noise has standard deviation sd, of a table with that many rows.
// unit is the unit of the bins. Counts of bins beyond limit are set to 0, in noisy too. All counts above 0 count as
// visible until AsRun or Apart.
func Read(noisy []float64, sd, unit, limit, rows float64) *Histogram {
	m := &Histogram{unit: unit, rows: rows, sd: sd, hides: 3}
	for k, middle := range Middles {
		m.quantity[k] = middle * unit
	}
	mode := 0
	for k, v := range noisy {
		if k > 0 && Edges[k-1]*unit >= limit {
			noisy[k] = 0
		} else if v > noisy[mode] {
			mode = k
		}
	}
	m.seen = noisy[mode] > seenMode*sd
	if !m.seen {
		noisy, mode = make([]float64, Bins), 1-LowestOctave
		noisy[mode] = m.rows
	}
	copy(m.share[:], noisy)
	m.top = mode
	return m
}

// ReadLengths reads a histogram, in units of 1, of the lengths of rows of d coordinates, of which Apart bins are
// visible. longer is the length that half of all rows exceed, over bound, if that ratio is above tooLong, else 1. Counts
// beyond LongestLength, or four times that length, are set to 0 in noisy.
func ReadLengths(noisy []float64, noise mech.Gaussian, d int, bound, tooLong, rows float64) (lengths *Histogram, longer float64) {
	sd := noise.NoiseMultiplier * math.Sqrt2
	limit, longer := LongestLength(d), 1.0
	if all := Read(slices.Clone(noisy), sd, 1, math.Inf(1), rows).Apart(); all.seen && all.counted >= 0.5 {
		if typical := all.Quantile(1 - 0.5/all.counted); typical > tooLong*bound {
			limit, longer = max(limit, 4*typical), typical/bound
		}
	}
	return Read(noisy, sd, 1, limit, rows).Apart(), longer
}

// OfNormal returns the histogram expected for centred normal numbers of standard deviation size under the given noise,
// as Read returns it.
func OfNormal(noise mech.Gaussian, size, unit float64, rows int) *Histogram {
	counts, below := make([]float64, Bins), 0.0
	for k := range counts {
		upTo := 1.0
		if k < len(Edges) {
			upTo = math.Erf(Edges[k] * unit / size / math.Sqrt2)
		}
		counts[k], below = float64(rows)*(upTo-below), upTo
	}
	return Read(counts, noise.NoiseMultiplier*math.Sqrt2, unit, math.Inf(1), float64(rows))
}

// LongestLength returns the largest length of a row of d whitened coordinates that histograms are read up to.
func LongestLength(d int) float64 { return 64 * (1 + math.Sqrt(float64(d))) }

// OfGroup reads the histogram of a group of that many rows, shrunk toward m, that of all rows, by the share of their
// squared distance that noise explains.
func (m *Histogram) OfGroup(noisy []float64, sd, rows float64) *Histogram {
	distance := 0.0
	for k, v := range noisy {
		distance += square(v - m.share[k]*rows)
	}
	keep := max(0, 1-float64(len(noisy))*square(sd)/distance)
	own := Read(noisy, sd, m.unit, math.Inf(1), rows).Apart()
	if !own.seen {
		keep = 0
	}
	for k := range own.share {
		own.share[k] = keep*own.share[k] + (1-keep)*m.share[k]
	}
	own.seen = m.seen
	return own
}

// Beyond returns a copy of the histogram with the count above the visible bins increased by the given number
// of standard deviations of its noise.
func (m *Histogram) Beyond(deviations float64) *Histogram {
	other := *m
	if m.seen {
		other.above = max(0, m.above+deviations*m.aboveDeviation())
	}
	return &other
}

// Again returns a simulated other release of the histogram: the visible rows and a tail of rows that may be
// hidden, with noise made of fixed numbers. draw selects the numbers.
func (m *Histogram) Again(draw int) *Histogram {
	if !m.seen {
		return m
	}
	counts := make([]float64, Bins)
	for k, share := range m.share {
		counts[k] = share * m.counted * m.rows
	}
	rows, exponent := m.Hidden(CutTail)
	ratio, last := math.Exp2(-exponent/2), Bins
	if m.far > 0 {
		ratio, last = 1, min(m.top+1+m.hides, Bins)
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
	other := Read(counts, m.sd, m.unit, math.Inf(1), m.rows).AsRun()
	other.Reach(m.far)
	return other
}

// Seen reports whether some bin is visible. If none is, all rows are taken to be about 1 unit.
func (m *Histogram) Seen() bool { return m.seen }

// Counted returns the rows in the visible bins as a share of all rows, which noise may take above 1.
func (m *Histogram) Counted() float64 { return m.counted }

// Rows returns the number of rows of the table.
func (m *Histogram) Rows() float64 { return m.rows }

// Deviation returns the standard deviation of the noise of a count.
func (m *Histogram) Deviation() float64 { return m.sd }

// Top returns the number of the highest visible bin. Bins - 1, which has no upper edge, means that sizes have no bound.
func (m *Histogram) Top() int { return m.top }

// Visible returns the visible bins: the middle of each, in the unit of the data, and its share among the rows in
// visible bins.
func (m *Histogram) Visible() iter.Seq2[float64, float64] {
	return func(yield func(middle, share float64) bool) {
		for k, share := range m.share {
			if share > 0 && !yield(m.quantity[k], share) {
				return
			}
		}
	}
}

// A scale is typical of the values if at least TypicalShare of the visible rows are at least
// TypicalPart of it.
const (
	TypicalShare = 0.25
	TypicalPart  = 0.125
)

// RarelyAsLargeAs reports whether scale is not typical of the values.
func (m *Histogram) RarelyAsLargeAs(scale float64) bool {
	return m.seen && 1-m.Below(TypicalPart*scale) < TypicalShare
}

// Noise hides some rows of any table. All rows count as usable unless the hidden share is above
// maxUnseen plus maxUnseenByNoise standard deviations of a count.
const (
	maxUnseen        = 0.2
	maxUnseenByNoise = 20
)

// Usable returns the share of usable rows, that is, without missing values. Histograms describe only
// these, whereas second moments are means over all rows.
func (m *Histogram) Usable() float64 {
	if 1-m.counted > maxUnseen+maxUnseenByNoise*m.sd/m.rows {
		return m.counted
	}
	return 1
}

// Edge returns the upper edge of the highest visible bin.
func (m *Histogram) Edge() float64 { return Edges[min(m.top, Bins-2)] * m.unit }

// Quantile returns the middle of the bin in which the p-quantile of the visible rows lies.
func (m *Histogram) Quantile(p float64) float64 {
	sum := 0.0
	for k, share := range m.share {
		if sum += share; sum >= p {
			return m.quantity[k]
		}
	}
	return m.quantity[m.top]
}

// Below returns the share of visible rows below v.
func (m *Histogram) Below(v float64) float64 {
	return m.Mean(func(u float64) float64 {
		if u < v {
			return 1
		}
		return 0
	})
}

// Mean returns the mean of f over the visible rows, by the middles of their bins or, of a histogram with spread bins,
// by four points in each.
func (m *Histogram) Mean(f func(v float64) float64) (sum float64) {
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

// WithSpreadBins returns a copy of the histogram with the rows of each bin spread evenly by their logarithms. It is
// for the rows beyond a limit that was chosen by the histogram itself: the chosen limit tends to lie just
// above the middle of a bin, where all rows of the bin appear to be within it. Shares below a limit change
// in quarters of a bin then, not in whole bins.
func (m *Histogram) WithSpreadBins() *Histogram {
	other := *m
	other.spread = true
	return &other
}

// Excess returns the mean of max(0, v - cut) over the visible rows.
func (m *Histogram) Excess(cut float64) float64 {
	return m.Mean(func(v float64) float64 { return max(0, v-cut) })
}

// ExcessSquare returns the mean of max(0, v^2 - cut^2) over the visible rows.
func (m *Histogram) ExcessSquare(cut float64) float64 {
	return m.Mean(func(v float64) float64 { return max(0, v*v-cut*cut) })
}

// CheapestCut returns the bin edge with the least cost.
func (m *Histogram) CheapestCut(cost func(cut float64) float64) float64 {
	best := Edges[0] * m.unit
	least := cost(best)
	for _, edge := range Edges[1:] {
		if c := cost(edge * m.unit); c < least {
			best, least = edge*m.unit, c
		}
	}
	return best
}

func square(v float64) float64 { return v * v }
