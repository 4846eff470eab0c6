package expmech

import (
	"context"
	"math"
	"math/big"
	"sync/atomic"

	"dpsidecar/internal/mech"
)

// Draw returns one grid point of W as d coefficients, drawn exactly from the
// exponential mechanism: point w has probability proportional to
//
//	exp(-epsilon/(2 Q) * sum_i q_i(w)),  q_i = min(Q, floor(2^40 psi(iota |y_i - <x_i, w>|))),
//
// with Q = ceil(2^40 log theta). x holds d columns of n values, d-1 with an
// intercept, y n values, all in scaled units. NaN marks a missing value; a row
// with one has q_i = Q everywhere.
//
// Privacy: epsilon-DP under replace-one, with bounded range epsilon; expmech.md.
// How long it takes depends on the data.
// Errors: the context's only. Parameters that Validate refuses panic.
func Draw(ctx context.Context, p Params, x [][]float64, y []float64, src *mech.Source) ([]float64, error) {
	d := len(x)
	if p.Intercept {
		d++
	}
	if err := p.Validate(len(y), d); err != nil {
		panic(err.Error())
	}
	s := newSampler(newTarget(p, len(y), d), x, y, func() bool { return ctx.Err() != nil })
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if s.splitIsDue() {
			s.split()
		} else if k, ok := s.propose(src); ok {
			return s.coefficients(k), nil
		}
	}
}

// sampler is an envelope after some number of splits. The law of an accepted proposal does not depend on
// that number.
type sampler struct {
	*envelope
	boxHeap
	logTarget float64 // estimate of the logarithm of the target's mass
	splitting float64 // time spent on splits and on proposals, in the units below
	proposing float64
}

// Costs of operations, in about nanoseconds; only their ratios matter.
const (
	costBoundRow, costBoundRowAxis = 10, 4
	costBoundAxis                  = 2500
	costEvalRow, costEvalRowAxis   = 2, 0.8
	costProposalAxis               = 300
	earlyShare                     = 0.125 // time for proposals, as a fraction of that for splits, while proposals are expected to be rejected
)

// negligible is the logarithm of a box's share of the target's mass below which the box needs no better
// bound. So many boxes as there may be, each with this share, add up to less than 1.
const negligible = -14.0

// newSampler prepares a draw. Once stop reports true, its result is void.
func newSampler(t *target, x [][]float64, y []float64, stop func() bool) *sampler {
	sc := &score{target: t, table: newTable(x, y)}
	k, l := centre(sc)
	sc.table = sc.descending(k)
	g := newLattice(t, l, k)
	v, plain, imprecise := newView(sc, g, k)
	boxes, rows := t.limits(t.d)
	s := &sampler{boxHeap: boxHeap{most: boxes}, envelope: &envelope{
		score: sc, lattice: g, view: v, repeat: 1, ignore: math.Inf(-1), listed: new(atomic.Int64), looked: new(atomic.Int64), maxListed: rows, stop: stop,
	}}
	root := &box{
		list:  &list{plain: plain, imprecise: imprecise, middle: make([]float64, t.d), expansion: newExpansion(t.d)},
		model: unitModel(t.d),
	}
	root.list.f = float64(sc.missing) * t.psi.top
	root.low, root.size = g.root(t)
	s.logTarget = -t.gain * sc.estimate(k)
	for j := range t.d {
		s.logTarget += max(0, math.Log(math.Sqrt(2*math.Pi)/g.cell(j)))
	}
	s.start(root)
	return s
}

// start adds boxes that cover W: slabs beyond a fence and beyond the cubes inside it, and the remaining
// box, or its parts as chosen with a sample of the rows.
func (s *sampler) start(root *box) {
	least := s.negligibleBeyond(root)
	root = s.cutOff(root, s.fence(root.list.plain, least), least)
	root = s.shells(root)
	parts := []*box{root}
	if widest(s.boundaries(root)) > sampleWidest {
		parts = s.splitBySample(root)
	}
	s.ignore = s.logTarget + negligible
	for _, b := range parts {
		if !s.stop() && s.bound(b) {
			s.add(b)
		}
	}
}

// negligibleBeyond returns the sum of psi from which on all of a box is negligible.
func (s *sampler) negligibleBeyond(b *box) float64 {
	volume := fenceMargin - s.logTarget
	for _, size := range b.size {
		volume += math.Log(float64(size))
	}
	return volume/s.gain - b.list.f
}

// cutOff adds slabs for the part of a box outside of a cube of half-width q, where the plain rows score at
// least least, and returns the rest of the box.
func (s *sampler) cutOff(root *box, q, least float64) *box {
	beyond := &plane{
		middle: make([]float64, s.target.d), g: make([]float64, s.target.d),
		f: least + root.list.f - float64(s.target.n)*s.rowSlack(),
	}
	for j := range root.size {
		for _, side := range [...]float64{-q, q} {
			slab, rest := root.slab(s.lattice, j, side)
			if slab == nil {
				continue
			}
			slab.plane, slab.inner = beyond, slab.list
			places := s.locate(slab)
			s.setExponent(slab, places)
			s.choose(slab, places, make([]float64, s.target.d))
			s.add(slab)
			root = rest
		}
	}
	return root
}

// slab cuts off the part of a box beyond z_axis = side, as seen from 0; both results are nil if that part
// is empty or the whole box.
func (b *box) slab(g *lattice, axis int, side float64) (slab, rest *box) {
	cells := math.Floor((side/g.scale[axis] + float64(g.origin[axis]-b.low[axis])) / (1 << shearBits))
	if side > 0 {
		cells++
	}
	if !(cells > 0 && cells < float64(b.size[axis])) {
		return nil, nil
	}
	b.axis, b.at, b.inner = axis, int64(cells), b.list
	halves := b.halves()
	if side > 0 {
		return halves[1], halves[0]
	}
	return halves[0], halves[1]
}

// splitIsDue reports whether a split is due rather than a proposal: proposals get as much time as splits,
// or the fraction earlyShare while too few would be accepted.
func (s *sampler) splitIsDue() bool {
	if s.heaviest() < 0 || s.full() {
		return false
	}
	expected := math.Exp(min(s.logSum()-s.logTarget, 500)) * s.costEval(s.rows)
	share := 1.0
	if expected > s.splitting {
		share = earlyShare
	}
	return s.proposing > share*s.splitting
}

func (s *sampler) costEval(rows int) float64 {
	d := float64(s.target.d)
	return float64(rows)*(costEvalRow+costEvalRowAxis*d)/float64(s.workers) + costProposalAxis*d
}

func (s *sampler) costBound(rows int) float64 {
	d := float64(s.target.d)
	return float64(rows)*(costBoundRow+costBoundRowAxis*d)/float64(s.workers) + costBoundAxis*d
}

// split splits the heaviest boxes, one per worker.
func (s *sampler) split() {
	s.ignore = min(s.logTarget, s.logSum()) + negligible // the estimate may be too high
	var boxes []*box
	for range s.workers {
		i := s.heaviest()
		if i < 0 {
			break
		}
		b := s.take(i)
		boxes = append(boxes, b)
		s.splitting += 2 * s.costBound(len(b.inner.plain)+len(b.inner.imprecise))
	}
	s.add(s.refine(boxes)...)
}

// propose draws a grid point from the envelope and accepts it with probability target over envelope.
func (s *sampler) propose(src *mech.Source) (k []int64, accepted bool) {
	d := s.target.d
	b := s.pick(src)
	s.proposing += costProposalAxis * float64(d)
	k = make([]int64, d)
	var o odds
	for j := range d {
		k[j] = o.steps(src, b.rate[j], b.size[j])
		if k[j] >= b.size[j] {
			return nil, false // outside of the box, because the leading digit covers more than size
		}
		if b.falls[j] {
			k[j] = b.size[j] - 1 - k[j]
		}
	}
	s.lattice.point(k, b.low, k)
	if !s.contains(k) {
		return nil, false
	}
	weight := s.weight(b)
	envelope := math.Log(float64(weight)) + o.log()
	u := src.Uniform()
	if b.inner != nil && 2*len(b.inner.plain) < s.rows {
		s.proposing += s.costEval(len(b.inner.plain))
		s.looked.Add(int64(len(b.inner.plain)))
		if exponent := s.level - envelope - s.gain*s.atLeast(b.inner, k); u.SurelyAboveExp(exponent + s.exponentError(exponent, envelope)) {
			return nil, false
		}
	}
	s.proposing += s.costEval(s.rows)
	s.looked.Add(int64(s.rows))
	exponent := s.level - envelope - s.gain*s.estimate(k)
	exponentError := s.exponentError(exponent, envelope) + s.gain*s.estimateSlack()
	switch {
	case exponent-exponentError > 0:
		panic("expmech: the envelope does not hold")
	case u.SurelyBelowExp(exponent - exponentError):
		return k, true
	case u.SurelyAboveExp(exponent + exponentError):
		return nil, false
	}
	return k, s.decide(u, weight, &o, k)
}

// exponentError bounds the rounding of an acceptance exponent.
func (s *sampler) exponentError(exponent, envelope float64) float64 {
	return 0x1p-38 + (math.Abs(s.level)+math.Abs(envelope)+math.Abs(exponent))*0x1p-48
}

// decide settles a proposal exactly: it reports whether u is below the acceptance probability
//
//	exp(level - unit*total) / (weight * odds).
func (s *sampler) decide(u *mech.Uniform, weight uint64, o *odds, k []int64) bool {
	exponent := new(big.Rat).SetInt(s.total(k))
	exponent.Mul(exponent, s.unit)
	exponent.Sub(new(big.Rat).SetFloat64(s.level), exponent)
	scale := o.inverse()
	scale.Quo(scale, new(big.Rat).SetInt(new(big.Int).SetUint64(weight)))
	return u.BelowExp(scale, exponent)
}

// atLeast returns a lower bound of sum_i q_i(k)/2^40 for a k in the box that l was made for.
func (s *sampler) atLeast(l *list, k []int64) float64 {
	z := make([]float64, s.target.d)
	s.lattice.whitened(z, k)
	q := l.moved(z)
	sums := make([]float64, s.workers)
	s.workers.share(len(l.plain), 16*blockRows, func(worker, from, to int) {
		for ; from < to; from += blockRows {
			product := 1.0
			for _, i := range l.plain[from:min(to, from+blockRows)] {
				row := s.view.row(i)
				r := row[0]
				for j, x := range row[1:] {
					r -= x * z[j]
				}
				product *= s.psi.decay(min(math.Abs(r), 1))
			}
			sums[worker] -= math.Log(product)
		}
	})
	for _, v := range sums {
		q.f += v
	}
	return q.f - float64(s.target.n)*s.rowSlack()
}
