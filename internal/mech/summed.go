package mech

// A database can add up what records give. It then has to hold each record to the contract, in
// integers, as Add does: see package sqlsum.

// Steps is how many grid steps Bound is: the most that a record's integers are long.
func (c Contract) Steps() int64 { return 1 << c.bits() }

// Steps is that of a row.
func (c MomentContract) Steps() int64 { return 1 << c.bits() }

// AddSummed adds all N records, summed up in steps under s's contract. It panics unless s is
// empty and totals are as many as D.
func (s *Sum) AddSummed(totals []int64) { addSummed(s.totals, totals, s.count, s.contract.N) }

// AddSummed adds all N rows, summed up in squares of steps under m's contract, row by row of the
// upper triangle. It panics unless m is empty.
func (m *Moments) AddSummed(totals []int64) { addSummed(m.totals, totals, m.count, m.contract.N) }

// AddCounted adds all N records, each counted in one bin of every coordinate at most. It panics
// unless h is empty and there is a count for every bin.
func (h *Histogram) AddCounted(counts []int64) {
	addSummed(h.counts, counts, h.tally.count, h.shape.n)
}

func addSummed(totals, summed []int64, count func(records int), n int) {
	if len(summed) != len(totals) {
		panic("mech: sums of another contract")
	}
	count(n)
	for k, v := range summed {
		totals[k] += v
	}
}
