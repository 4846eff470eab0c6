package mech

import "slices"

// A database can compute the sums of contributions. It then has to bring each record into the contract, in
// integers, as Add does: see package sqlsum.

// Steps returns the length of Bound in grid steps, which bounds the length of a record's integers.
func (c Contract) Steps() int64 { return 1 << c.bits() }

// Steps returns the length of Bound in grid steps, which bounds the length of a row's integers.
func (c MomentContract) Steps() int64 { return 1 << c.bits() }

// A retried job on a table that has grown may sum more than N records, but fewer than 2 N: the sums fit an
// int64, and the sensitivity to one record is the same.

// AddSummed adds all N records, summed in steps under s's contract. It panics unless s is empty and there
// are D totals.
func (s *Sum) AddSummed(totals []int64) { addSummed(s.totals, totals, s.count, s.contract.N) }

// AddSummed adds all N rows, summed in squares of steps under m's contract, row by row of the upper
// triangle. It panics unless m is empty.
func (m *Moments) AddSummed(totals []int64) { addSummed(m.totals, totals, m.count, m.contract.N) }

// AddCounted adds all N records, each counted in at most one bin of every coordinate. It panics unless h is
// empty and there is a count for every bin, each below 2 N.
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
