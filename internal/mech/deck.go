package mech

// Deck is the rows 0 to n-1 in some order, to be shuffled or dealt from.
// Not safe for concurrent use.
type Deck struct {
	rows []int
	src  *Source
}

// NewDeck returns a deck of n rows that src shuffles.
func NewDeck(n int, src *Source) *Deck {
	d := &Deck{make([]int, n), src}
	for i := range d.rows {
		d.rows[i] = i
	}
	return d
}

// Deal returns m rows in random order: a uniformly random sequence of distinct
// rows, independent of every earlier deal. The next call overwrites it. It
// panics unless 0 <= m <= n.
//
// Privacy: sampling without replacement (proof: deck.md), as long as the
// rows dealt are not released.
//
// Source: the first m steps of the Fisher-Yates shuffle. They make any order of
// the deck, an earlier deal's included, a uniformly random m-sequence.
func (d *Deck) Deal(m int) []int {
	if m < 0 || m > len(d.rows) {
		panic("mech: deal more rows than there are")
	}
	for i := range m {
		k := i + int(d.src.Uint64n(uint64(len(d.rows)-i)))
		d.rows[i], d.rows[k] = d.rows[k], d.rows[i]
	}
	return d.rows[:m]
}

// Blocks shuffles all rows and cuts them into q blocks whose public sizes
// differ by at most one, larger ones first. The next call overwrites them. It
// panics unless 1 <= q <= n.
//
// Privacy: a replaced row stays in its block (proof: deck.md).
func (d *Deck) Blocks(q int) [][]int {
	if q < 1 || q > len(d.rows) {
		panic("mech: more blocks than rows")
	}
	rows := d.Deal(len(d.rows))
	blocks := make([][]int, q)
	for b := range blocks {
		size := (len(rows) + q - b - 1) / (q - b)
		blocks[b], rows = rows[:size:size], rows[size:]
	}
	return blocks
}
