package privacy

import (
	"fmt"
	"math"
)

// leaf is an event without structure that occurs count times in a history: a Gaussian, Pure, BoundedRange,
// ZCDP or Approx, or a Sampled that holds one Gaussian. All of them are comparable.
type leaf struct {
	event Event
	count float64
}

// leafCounter collects the leaves of a history in the order of their first
// appearance and counts equal ones together.
type leafCounter struct {
	leaves []leaf
	index  map[Event]int // position in leaves
}

// leavesOf reduces e to its leaves. Their cost is an upper bound on that of e, by
// rules that hold for all the composition theorems used here:
//
//	Repeat     multiplies counts, Compose adds them: runs may depend on earlier answers
//	Parallel   is its event: one part holds the replaced record
//	Only       is its event
//	Sampled    of Gaussians alone is one subsampled Gaussian: m of them on one batch
//	           have the trade-off function of one with the sum of the 1/z^2
//	           (Dong, Roth & Su 2022, Corollary 3.3). At rate 1 it is its event. Of
//	           anything else it is priced as its event, see Price
//
// Errors: as Price.
func leavesOf(e Event) ([]leaf, error) {
	if e == nil {
		return nil, fmt.Errorf("%w: nil", ErrEvent)
	}
	if err := e.check(); err != nil {
		return nil, err
	}
	c := leafCounter{index: map[Event]int{}}
	err := c.collect(e, 1)
	return c.leaves, err
}

// collect counts the leaves of e, which occurs count times.
func (c *leafCounter) collect(e Event, count float64) error {
	switch e := e.(type) {
	case Gaussian, Pure, BoundedRange, ZCDP, Approx:
		c.put(e, count)
	case Repeat:
		if count = mulUp(count, e.runs()); math.IsInf(count, 1) {
			return invalid(e, "more runs in all than there are numbers for")
		}
		return c.collect(e.Event, count)
	case Parallel:
		return c.collect(e.Event, count)
	case Only:
		return c.collect(e.Event, count)
	case Compose:
		for _, inner := range e {
			if err := c.collect(inner, count); err != nil {
				return err
			}
		}
	case Sampled:
		return c.collectSampled(e, count)
	default:
		return fmt.Errorf("%w: %T", ErrUnsupported, e)
	}
	return nil
}

func (c *leafCounter) collectSampled(e Sampled, count float64) error {
	inner := leafCounter{index: map[Event]int{}}
	if err := inner.collect(e.Event, 1); err != nil {
		return err
	}
	if z, ok := equivalentGaussian(inner.leaves); ok && e.Rate < 1 {
		c.put(Sampled{e.Rate, Gaussian{z}}, count)
		return nil
	}
	for _, l := range inner.leaves {
		c.put(l.event, mulUp(count, l.count))
	}
	return nil
}

// put adds count of one leaf.
func (c *leafCounter) put(e Event, count float64) {
	if i, ok := c.index[e]; ok {
		c.leaves[i].count = addUp(c.leaves[i].count, count)
		return
	}
	c.index[e] = len(c.leaves)
	c.leaves = append(c.leaves, leaf{e, count})
}

// equivalentGaussian returns the noise multiplier, rounded downward, of the one Gaussian that costs as much
// as all the leaves together; false if some leaf is not Gaussian.
func equivalentGaussian(leaves []leaf) (float64, bool) {
	if len(leaves) == 1 && leaves[0].count == 1 {
		g, ok := leaves[0].event.(Gaussian)
		return g.NoiseMultiplier, ok
	}
	sum := 0.0
	for _, l := range leaves {
		g, ok := l.event.(Gaussian)
		if !ok {
			return 0, false
		}
		sum = addUp(sum, mulUp(l.count, 2*gaussianRho(g.NoiseMultiplier)))
	}
	z := down(math.Sqrt(down(1 / sum)))
	return z, sum > 0 && z > 0
}

// totalCost returns the cost of all leaves together.
func totalCost(leaves []leaf) (Cost, error) {
	var sum Cost
	for _, l := range leaves {
		c, err := Price(l.event)
		if err != nil {
			return Cost{}, err
		}
		sum = sum.plus(c.times(l.count))
	}
	return sum, nil
}
