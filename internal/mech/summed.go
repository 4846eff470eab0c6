package mech

import "slices"

// A database can add up what records give. It then has to hold each record to the contract, in
// integers, as Add does: see package sqlsum.

// Steps is how many grid steps Bound is: the most that a record's integers are long.
func (c Contract) Steps() int64 { return 1 << c.bits() }

// Steps is that of a row.
func (c MomentContract) Steps() int64 { return 1 << c.bits() }

// What is tried again over a table that has grown may sum up more records than N, but fewer than 2 N: int64 holds
// that, and one record moves the sums as far.

// AddSummed adds all N records, summed up in steps under s's contract. It panics unless s is
// empty and totals are as many as D.
func (s *Sum) AddSummed(totals []int64) { addSummed(s.totals, totals, s.count, s.contract.N) }

// AddSummed adds all N rows, summed up in squares of steps under m's contract, row by row of the
// upper triangle. It panics unless m is empty.
func (m *Moments) AddSummed(totals []int64) { addSummed(m.totals, totals, m.count, m.contract.N) }

// AddCounted adds all N records, each counted in one bin of every coordinate at most. It panics
// unless h is empty and there is a count for every bin, below 2 N.
func (h *Histogram) AddCounted(counts []int64) {
	if slices.Max(counts) >= 2*int64(h.shape.n) {
		panic("mech: counts of twice as many records as N")
	}
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
