package mean

import "dpsidecar/internal/mech"

// where returns the rows of r for which in has the given value, by position.
// Their own positions are not kept.
func (r Rows) where(in []bool, value bool) Rows {
	n := 0
	for _, v := range in {
		if v == value {
			n++
		}
	}
	return Rows{N: n, D: r.D, Range: func(visitor func() func(Block)) {
		r.Range(func() func(Block) {
			visit, picked := visitor(), Block{}
			return func(b Block) {
				picked.pick(b, in[b.Start:], value)
				visit(picked)
			}
		})
	}}
}

// pick replaces the rows of p by those of b for which in has the given value.
func (p *Block) pick(b Block, in []bool, value bool) {
	if p.X.X == nil {
		p.X = mech.Rows{X: make([][]float64, len(b.X.X)), Intercept: b.X.Intercept}
	}
	p.C = pick(p.C[:0], b.C, in, value)
	for j, x := range b.X.X {
		p.X.X[j] = pick(p.X.X[j][:0], x, in, value)
	}
}

func pick(dst, x []float64, in []bool, value bool) []float64 {
	for i, v := range x {
		if in[i] == value {
			dst = append(dst, v)
		}
	}
	return dst
}
