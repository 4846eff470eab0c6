package mech

// A database can compute the sums of contributions. It then has to bring each record into the contract, in
// integers, as Add does: see package sqlsum.

// Steps returns the length of Bound in grid steps, which bounds the length of a record's integers.
func (c Contract) Steps() int64 { return 1 << c.bits() }

// Steps returns the length of Bound in grid steps, which bounds the length of a row's integers.
func (c MomentContract) Steps() int64 { return 1 << c.bits() }

// A table may have more than N records by the time that they are summed. Totals beyond those of fewer than 2 N
// records are cut, so that they stay within the range that noise is added in: the sensitivity to one record is the
// same, and nothing else depends on how many there are.

// AddSummed adds all N records, summed in steps under s's contract. It panics unless s is empty and there
// are D totals.
func (s *Sum) AddSummed(totals []int64) { addSummed(s.totals, totals, s.count, s.contract.N, 1<<62) }

// AddSummed adds all N rows, summed in squares of steps under m's contract, row by row of the upper
// triangle. It panics unless m is empty.
func (m *Moments) AddSummed(totals []int64) {
	addSummed(m.totals, totals, m.count, m.contract.N, 1<<62)
}

// AddCounted adds all N records, each counted in at most one bin of every coordinate. It panics unless h is
// empty and there is a count for every bin.
func (h *Histogram) AddCounted(counts []int64) {
	addSummed(h.counts, counts, h.tally.count, h.shape.n, 2*int64(h.shape.n)-1)
}

func addSummed(totals, summed []int64, count func(records int), n int, most int64) {
	if len(summed) != len(totals) {
		panic("mech: sums of another contract")
	}
	count(n)
	for k, v := range summed {
		totals[k] = min(max(v, -most), most)
	}
}
