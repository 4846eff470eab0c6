package mean

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// KSU averages row gradients brought near to a private centre: in every
// coordinate the middle of the fullest of some bins over [-Range, Range].
//
// Joint (the default): all rows serve the centre and the mean. They are
// projected onto the ball of Radius around the centre or, with Axis, onto the
// box; after the first estimate the previous answer is the centre. Noise is
// relative to 2 Radius / n, with Axis times sqrt(d).
//
// Split: half of the rows, drawn anew for every estimate, find the centre. Of
// the others, N = n/2, those further away than Radius are dropped, with Axis
// each coordinate for itself. Noise is relative to 8 Radius / (3 N), with Axis
// times sqrt(d).
//
// Privacy: joint, a Gaussian of multiplier z for each estimate and one of 3z to
// begin with, so that a single estimate spends a tenth of its rho on the centre;
// split, Gaussians of multiplier z on disjoint halves (proof: ksu.md).
//
// Source: Kamath, Liu & Zhang 2021, Algorithms 2 and 3 and Appendix B. Differs:
// the joint form; N is the number of rows behind the mean, not half of it.
type KSU struct {
	Radius float64
	Range  float64 // bounds the coordinates of the mean
	Axis   bool
	Split  bool
}

// At implements Method.
func (m KSU) At(z float64, n, d int) (Estimator, error) {
	k := ksu{n: n}
	rows, norm, finder := n, mech.L2, 3*z
	if m.Split {
		rows, finder = n/2, z
	}
	if m.Axis {
		norm = mech.LInf
	}
	k.finder = mech.Gaussian{NoiseMultiplier: finder}
	var err error
	if k.gaussian, err = newGaussian(z, mech.Contract{Norm: norm, Bound: m.Radius, N: rows, D: d}); err != nil {
		return nil, err
	}
	if k.bins, err = m.bins(d); err != nil {
		return nil, err
	}
	if err := errors.Join(k.finder.Check(), mech.CheckHistogram(k.bins, n, d)); err != nil {
		return nil, err
	}
	if m.Split {
		return &split{k}, nil
	}
	return &joint{ksu: k}, nil
}

// bins are tau wide, for Radius = tau sqrt(d), or tau with Axis, and one more
// than covers the range lies on either side.
func (m KSU) bins(d int) (mech.Bins, error) {
	width := m.Radius
	if !m.Axis {
		width /= math.Sqrt(float64(d))
	}
	half := math.Ceil(m.Range/width) + 1
	if !(m.Range >= 0 && half <= 1<<20) {
		return mech.Bins{}, fmt.Errorf("%w: Range = %v; it must be at least 0 and below 2^20 times %v", mech.ErrParams, m.Range, width)
	}
	return mech.Bins{Width: width, Half: int(half)}, nil
}

// ksu is what both forms have in common.
type ksu struct {
	gaussian               // on the mean
	finder   mech.Gaussian // on the counts that the centre is found from
	bins     mech.Bins
	n        int
}

// find returns a private centre of the rows.
func (k *ksu) find(r Rows, src *mech.Source) []float64 {
	noisy := make([]float64, 2*k.bins.Half*r.D)
	k.finder.Release(noisy, k.counts(r), src)
	centre := make([]float64, r.D)
	k.bins.Modes(centre, noisy)
	return centre
}

func (k *ksu) counts(r Rows) mech.Bounded {
	whole := mech.NewHistogram(k.bins, r.N, r.D)
	collect(whole, r, func(part *mech.Histogram) func(Block) {
		return func(b Block) { part.AddRows(b.X, b.C) }
	})
	return whole.Bounded()
}

// release writes the centre plus the private mean of what the rows differ from
// it to dst.
func (k *ksu) release(dst []float64, differences mech.Bounded, centre []float64, src *mech.Source) {
	k.Release(dst, differences, src)
	for j, v := range centre {
		dst[j] += v
	}
}

// rowAdder is a mech.Sum or a mech.Kept.
type rowAdder[A any] interface {
	adder[A]
	AddRows(r mech.Rows, c []float64)
	Bounded() mech.Bounded
}

// about adds what every row differs from centre to whole.
func about[A rowAdder[A]](whole A, r Rows, centre []float64) mech.Bounded {
	column := func(dst []float64, j int, x, c []float64) { subtract(dst, x, c, centre[j]) }
	collect(whole, r, func(part A) func(Block) {
		scratch := newColumns(r.D)
		add := func(rows mech.Rows, m int) { part.AddRows(rows, scratch.ones[:m]) }
		return func(b Block) { scratch.each(b, column, add) }
	})
	return whole.Bounded()
}

// subtract writes x_i c_i - v to dst.
func subtract(dst, x, c []float64, v float64) {
	x, c = x[:len(dst)], c[:len(dst)]
	for i := range dst {
		dst[i] = float64(x[i]*c[i]) - v
	}
}

// joint finds the centre and the mean from the same rows.
type joint struct {
	ksu
	last []float64 // the latest answer
}

// Begin implements Estimator.
func (e *joint) Begin() privacy.Event { return e.finder.Event() }

// Estimate implements Estimator.
func (e *joint) Estimate(dst []float64, r Rows, near Near, src *mech.Source) {
	centre := e.centre(r, near, src)
	e.release(dst, e.sum(r, centre), centre, src)
	e.last = slices.Clone(dst)
}

// centre returns the previous answer, which is public; for want of one it reads
// the rows, as the first estimate may do once.
func (e *joint) centre(r Rows, near Near, src *mech.Source) []float64 {
	previous := near.Centre
	if previous == nil {
		previous = e.last
	}
	if previous == nil {
		return e.find(r, src)
	}
	return e.within(previous)
}

// within returns v with its coordinates brought into the bins.
func (k *ksu) within(v []float64) []float64 {
	limit := k.bins.Width * float64(k.bins.Half)
	near := make([]float64, len(v))
	for j, vj := range v {
		if !math.IsNaN(vj) {
			near[j] = max(-limit, min(vj, limit))
		}
	}
	return near
}

func (e *joint) sum(r Rows, centre []float64) mech.Bounded {
	return about(mech.NewSum(e.contract), r, centre)
}

// split finds the centre from one half of the rows and the mean from the other.
type split struct{ ksu }

// Event implements Estimator.
func (e *split) Event() privacy.Event { return privacy.Parallel{Event: e.Gaussian.Event()} }

// Estimate implements Estimator.
func (e *split) Estimate(dst []float64, r Rows, _ Near, src *mech.Source) {
	first, second := e.halves(r, src)
	centre := e.find(first, src)
	e.release(dst, e.sum(second, centre), centre, src)
}

// halves draws which rows find the centre, and which the mean.
func (e *split) halves(r Rows, src *mech.Source) (first, second Rows) {
	in := make([]bool, e.n)
	for _, row := range mech.NewDeck(e.n, src).Deal(e.contract.N) {
		in[row] = true
	}
	return r.where(in, false), r.where(in, true)
}

func (e *split) sum(second Rows, centre []float64) mech.Bounded {
	return about(mech.NewKept(e.contract), second, centre)
}
