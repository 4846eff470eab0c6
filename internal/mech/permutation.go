package mech

// Permutation is the rows 0 to n-1 in some order, to be shuffled or sampled from.
// Not safe for concurrent use.
type Permutation struct {
	rows []int
	src  *Source
}

// NewPermutation returns a permutation of n rows that src shuffles.
func NewPermutation(n int, src *Source) *Permutation {
	p := &Permutation{make([]int, n), src}
	for i := range p.rows {
		p.rows[i] = i
	}
	return p
}

// Sample returns m rows in random order: a uniformly random sequence of distinct
// rows, independent of every earlier sample. The next call overwrites it. It
// panics unless 0 <= m <= n.
//
// Privacy: sampling without replacement (proof: permutation.md), as long as the
// rows sampled are not released.
//
// Source: the first m steps of the Fisher-Yates shuffle. They make any order of
// the rows, an earlier sample's included, a uniformly random m-sequence.
func (p *Permutation) Sample(m int) []int {
	if m < 0 || m > len(p.rows) {
		panic("mech: a sample of more rows than there are")
	}
	for i := range m {
		k := i + int(p.src.Uint64n(uint64(len(p.rows)-i)))
		p.rows[i], p.rows[k] = p.rows[k], p.rows[i]
	}
	return p.rows[:m]
}

// Blocks shuffles all rows and cuts them into q blocks whose public sizes
// differ by at most one, larger ones first. The next call overwrites them. It
// panics unless 1 <= q <= n.
//
// Privacy: a replaced row stays in its block (proof: permutation.md).
func (p *Permutation) Blocks(q int) [][]int {
	if q < 1 || q > len(p.rows) {
		panic("mech: more blocks than rows")
	}
	rows := p.Sample(len(p.rows))
	blocks := make([][]int, q)
	for b := range blocks {
		size := (len(rows) + q - b - 1) / (q - b)
		blocks[b], rows = rows[:size:size], rows[size:]
	}
	return blocks
}
