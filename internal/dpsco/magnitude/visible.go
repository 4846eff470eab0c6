package magnitude

import (
	"math"
	"slices"
)

// The numbers of standard deviations of noise that a count must exceed to be visible: for the
// fullest bin, for one that continues a run of bins, and for one that stands alone.
const (
	seenMode  = 4.5
	SeenRun   = 3
	seenAlone = 3.5
)

// AsRun changes the histogram, and returns it: it keeps as visible the bins around the mode, with gaps of at most one bin, and other bins that
// stand out as the mode must. It is for residuals: their law is unimodal, except for an atom at zero
// or, where the target is rarely nonzero, a second group of larger values.
func (m *Histogram) AsRun() *Histogram {
	visible := func(k int) bool { return k >= 0 && k < Bins && m.standsOutAt(k, SeenRun) }
	keep, mode := make([]bool, Bins), m.top
	keep[mode] = true
	for _, step := range []int{1, -1} {
		for k := mode + step; visible(k) || visible(k+step) && k >= 0 && k < Bins; k += step {
			keep[k] = m.share[k] > 0
		}
	}
	last := Bins
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
func (m *Histogram) standsOutAt(k int, deviations float64) bool {
	return m.share[k] > max(deviations*m.sd, 0.5)
}

// seenFarther is the number of standard deviations added to a bin's threshold for each bin between
// it and the next lower visible one. Far bins need more evidence because bounds follow them: there
// an error is costliest.
const seenFarther = 0.1

// Apart changes the histogram, and returns it: it keeps as visible all bins that stand out, wherever they are. It is
// for lengths of rows: those with a rare flag are far longer than the others.
func (m *Histogram) Apart() *Histogram {
	keep, last := make([]bool, Bins), m.top
	for k := range keep {
		least := seenAlone + seenFarther*float64(max(0, k-last-1))
		if keep[k] = k == m.top || m.standsOutAt(k, least); keep[k] {
			last = max(last, k)
		}
	}
	return m.keep(keep)
}

// keep normalises the counts of the visible bins and counts the rows above them.
func (m *Histogram) keep(kept []bool) *Histogram {
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
func (m *Histogram) countAbove() { m.above = m.countFrom(m.top + 1) }

// countFrom returns the sum of as many released counts as bins may hide rows, from one bin on; 0 if it is negative.
func (m *Histogram) countFrom(first int) (count float64) {
	for _, v := range m.noisy[min(first, Bins):min(first+m.hides, Bins)] {
		count += v
	}
	return max(0, count)
}

// aboveDeviation returns the standard deviation of the noise of above.
func (m *Histogram) aboveDeviation() float64 { return m.sd * math.Sqrt(float64(m.hides)) }

// StandsOut returns the count above the visible bins in standard deviations of its noise.
func (m *Histogram) StandsOut() float64 { return m.above / m.aboveDeviation() }

// FartherStandsOut is StandsOut from one bin farther on. The first bin that is not visible often holds nearly as many rows
// as would make it visible, of a tail that ends there or goes on falling.
func (m *Histogram) FartherStandsOut() float64 {
	if !m.seen {
		return 0
	}
	return m.countFrom(m.top+2) / m.aboveDeviation()
}

// Bulk returns the histogram up to the first gap that is followed by a separate group of rows: by a
// bin with apartBy standard deviations more rows than the gap's bins, which no falling tail has. It
// returns m if there is no such gap.
func (m *Histogram) Bulk() *Histogram {
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
func (m *Histogram) group(last, next int) bool {
	between := 0.0
	for _, v := range m.noisy[last+1 : next] {
		between += v / float64(next-last-1)
	}
	return slices.Max(m.noisy[next:min(next+2, Bins)])-max(0, between) > apartBy*m.sd
}

// apartBy is three standard deviations of the difference of two counts, in units of that of one count.
const apartBy = 3 * math.Sqrt2
