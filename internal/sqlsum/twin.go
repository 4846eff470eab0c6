package sqlsum

import "sort"

// TwinForTests returns a function that adds the contribution of one row, given its raw columns, to totals: the same
// computation in Go as the statement in SQL. They agree to the last bit except for Exp, which the
// database's library may round differently.
func (p Pass) TwinForTests() func(t Totals, raw []float64) {
	c := p.compile()
	return func(t Totals, raw []float64) {
		if values, ok := c.values(raw); ok {
			c.add(t, values)
		}
	}
}

// values returns the values of all nodes. ok reports whether the row is included.
func (c *program) values(raw []float64) (values []float64, ok bool) {
	values = make([]float64, len(c.nodes))
	args := make([]float64, 0, 8)
	for k, n := range c.nodes {
		if n.column != nil {
			if values[k] = raw[n.column.index]; !n.column.admits(values[k]) {
				return nil, false
			}
			continue
		}
		args = args[:0]
		for _, a := range n.args {
			args = append(args, values[c.place[a]])
		}
		values[k] = n.eval(args)
	}
	return values, true
}

// add adds the contribution of a row with these values.
func (c *program) add(t Totals, values []float64) {
	integer := func(e Expr) int64 { return int64(values[c.place[e.node]]) }
	for s, steps := range c.sums {
		for j, e := range steps {
			t.Sums[s][j] += integer(e)
		}
	}
	for s, steps := range c.moments {
		k := 0
		for i, a := range steps {
			for _, b := range steps[i:] {
				t.Moments[s][k] += integer(a) * integer(b)
				k++
			}
		}
	}
	for s, b := range c.Counts {
		v := values[c.place[b.Of.node]]
		t.Counts[s][sort.Search(len(b.Edges), func(i int) bool { return b.Edges[i] > v })]++
	}
}
