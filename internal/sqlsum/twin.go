package sqlsum

import "sort"

// Twin returns a function that adds what one row gives, by its raw columns, to totals: in Go what
// the statement does in SQL. Both agree to the last bit, but for Exp, where the database's
// library may round another way.
func (p Pass) Twin() func(t Totals, raw []float64) {
	c := p.compile()
	values := make([]float64, len(c.nodes))
	args := make([]float64, 0, 8)
	value := func(e Expr) float64 { return values[c.place[e.node]] }
	return func(t Totals, raw []float64) {
		for k, n := range c.nodes {
			if n.column != nil {
				if values[k] = raw[n.column.index]; !n.column.admits(values[k]) {
					return
				}
				continue
			}
			args = args[:0]
			for _, a := range n.args {
				args = append(args, values[c.place[a]])
			}
			values[k] = n.eval(args)
		}
		for s, steps := range c.sums {
			for j, e := range steps {
				t.Sums[s][j] += int64(value(e))
			}
		}
		for s, steps := range c.moments {
			k := 0
			for i, a := range steps {
				for _, b := range steps[i:] {
					t.Moments[s][k] += int64(value(a)) * int64(value(b))
					k++
				}
			}
		}
		for s, b := range c.Counts {
			v := value(b.Of)
			t.Counts[s][sort.Search(len(b.Edges), func(i int) bool { return b.Edges[i] > v })]++
		}
	}
}
