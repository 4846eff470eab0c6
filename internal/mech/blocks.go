package mech

import (
	"math"
	"slices"
)

// Partition assigns the rows of a query, by position, to blocks of equal size at random. It does not depend
// on the data, is not released, and may serve several queries over the same number of rows, by several
// goroutines at once.
type Partition struct {
	sensitive
	blocks, size int
	label        []int32 // block number of every position, from 0; equal to blocks for the rows left over
}

// NewPartition draws a uniformly random partition of n rows into an odd number
// of blocks of floor(n / blocks) rows, with the rest left over. It panics
// unless 1 <= blocks <= n.
func NewPartition(n, blocks int, src *Source) *Partition {
	if blocks < 1 || blocks > n || blocks%2 == 0 {
		panic("mech: the number of blocks must be odd and at most that of rows")
	}
	p := &Partition{blocks: blocks, size: n / blocks, label: make([]int32, n)}
	for k, row := range NewPermutation(n, src).Sample(n) {
		p.label[row] = int32(min(k/p.size, blocks))
	}
	return p
}

// BlockSum sums, in each block of a Partition, the differences of contributions from a public centre, each
// coordinate clamped to bound. It passes to a mechanism the median over the blocks. One record changes one
// block, so it moves the median at most as far as it moves that block's sum (proof: blocks.md). A BlockSum
// is not safe for concurrent use: Fork one for each goroutine.
//
// Source: Xie et al., robust private means; here the blocks do not depend on the data.
type BlockSum struct{ *blockSum }

type blockSum struct {
	sensitive
	contract  Contract // of one block
	partition *Partition
	centre    []float64
	sums      []int64 // column by column: one sum for each block, then one for the rows left over
	records   int
}

// NewBlockSum returns empty sums of contributions of length len(centre). It
// panics when Contract.Check refuses a block of them under LInf and bound.
func NewBlockSum(bound float64, centre []float64, p *Partition) *BlockSum {
	c := Contract{LInf, bound, p.size, len(centre)}
	if err := c.Check(); err != nil {
		panic(err.Error())
	}
	return &BlockSum{&blockSum{contract: c, partition: p, centre: slices.Clone(centre), sums: make([]int64, c.D*(p.blocks+1))}}
}

// Fork returns empty sums under the same partition, to be merged later.
func (s *BlockSum) Fork() *BlockSum { return NewBlockSum(s.contract.Bound, s.centre, s.partition) }

// Merge adds the records of part, a fork of s, and empties it. The comparison of centres takes NaN as equal
// to itself.
func (s *BlockSum) Merge(part *BlockSum) {
	if part.contract != s.contract || part.partition != s.partition || slices.Compare(part.centre, s.centre) != 0 {
		panic("mech: sums under different contracts")
	}
	s.count(part.records)
	for k, v := range part.sums {
		s.sums[k] += v
	}
	part.clear()
}

func (s *blockSum) count(records int) {
	if records > len(s.partition.label)-s.records {
		panic("mech: more records than the partition has")
	}
	s.records += records
}

func (s *blockSum) clear() {
	clear(s.sums)
	s.records = 0
}

// AddRows adds c_i times row i for every i, each the contribution of the record
// at position start + i. A coordinate that is NaN counts as the centre. It
// panics unless rows have the length of the centre and columns that of c.
func (s *BlockSum) AddRows(start int, r Rows, c []float64) {
	if r.dimension() != s.contract.D {
		panic("mech: rows of the wrong length")
	}
	s.count(len(c))
	label := s.partition.label[start : start+len(c)]
	first := 0
	if r.Intercept {
		s.add(0, label, c, nil)
		first = 1
	}
	for j, x := range r.X {
		if len(x) != len(c) {
			panic("mech: columns of different length")
		}
		s.add(first+j, label, c, x)
	}
}

// add adds coordinate j of several records, c_i x_i; a nil x stands for ones.
func (s *blockSum) add(j int, label []int32, c, x []float64) {
	width := s.partition.blocks + 1
	sums := s.sums[j*width : (j+1)*width]
	centre, scale, limit := s.centre[j], s.contract.scale(), math.Ldexp(1, int(s.contract.bits()))
	label = label[:len(c)]
	if x == nil {
		for i, v := range c {
			sums[label[i]] += clampedSteps(float64(v-centre)*scale, limit)
		}
		return
	}
	x = x[:len(c)]
	for i, v := range c {
		sums[label[i]] += clampedSteps(float64(float64(v*x[i])-centre)*scale, limit)
	}
}

// clampedSteps cuts v toward zero to an integer within [-limit, limit]; NaN
// becomes 0.
func clampedSteps(v, limit float64) int64 {
	switch {
	case math.Abs(v) <= limit:
		return int64(v)
	case v > 0:
		return int64(limit)
	case v < 0:
		return -int64(limit)
	}
	return 0
}

// Median returns, for every coordinate, the median of the block sums, and leaves s empty. Its release is
// the difference between the median block's mean and the centre. Records that were not added count as the
// centre.
func (s *BlockSum) Median() Bounded {
	medians := make([]int64, s.contract.D)
	for j := range medians {
		width := s.partition.blocks + 1
		blocks := s.sums[j*width : (j+1)*width-1]
		slices.Sort(blocks)
		medians[j] = blocks[len(blocks)/2]
	}
	s.clear()
	return Bounded{&sealed{contract: s.contract, totals: medians}}
}
