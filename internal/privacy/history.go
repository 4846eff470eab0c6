package privacy

import (
	"fmt"
	"math"
)

// UnmarshalHistory reads {"events":[...]}, everything released so far, as the
// composition of its events. It is as strict as UnmarshalEvent.
func UnmarshalHistory(text []byte) (Event, error) {
	object, err := parseObject(text)
	if err != nil {
		return nil, fmt.Errorf("%w: history: %w", ErrEvent, err)
	}
	body, ok := object["events"]
	if !ok || len(object) != 1 {
		return nil, fmt.Errorf(`%w: history: it must be {"events":[...]} and nothing else`, ErrEvent)
	}
	return parseCompose(body)
}

// term is a leaf of a history, count times: a Gaussian, Pure, BoundedRange, ZCDP
// or Approx, or a Sampled that holds one Gaussian. All are comparable.
type term struct {
	event Event
	count float64
}

// terms is a history without its structure, equal leaves counted together, in
// the order of their first appearance.
type terms struct {
	list  []term
	index map[Event]int
}

// leaves takes e apart. What every composition theorem here has in common makes
// that an upper bound:
//
//	Repeat     counts multiply; Compose adds: runs may depend on earlier answers
//	Parallel   is its event: one part holds the replaced record
//	Sampled    of Gaussians alone is one subsampled Gaussian: m of them on one batch
//	           have the trade-off function of one with the sum of the 1/z^2
//	           (Dong, Roth & Su 2022, Corollary 3.3). At rate 1 it is its event. Of
//	           anything else it is priced as its event, see Price
//
// Errors: as Price.
func leaves(e Event) ([]term, error) {
	if e == nil {
		return nil, fmt.Errorf("%w: nil", ErrEvent)
	}
	if err := e.check(); err != nil {
		return nil, err
	}
	t := terms{index: map[Event]int{}}
	err := t.add(e, 1)
	return t.list, err
}

func (t *terms) add(e Event, count float64) error {
	switch e := e.(type) {
	case Gaussian, Pure, BoundedRange, ZCDP, Approx:
		t.put(e, count)
	case Repeat:
		if count = mulUp(count, e.runs()); math.IsInf(count, 1) {
			return bad(e, "more runs in all than there are numbers for")
		}
		return t.add(e.Event, count)
	case Parallel:
		return t.add(e.Event, count)
	case Compose:
		for _, inner := range e {
			if err := t.add(inner, count); err != nil {
				return err
			}
		}
	case Sampled:
		return t.addSampled(e, count)
	default:
		return fmt.Errorf("%w: %T", ErrUnsupported, e)
	}
	return nil
}

func (t *terms) addSampled(e Sampled, count float64) error {
	inner := terms{index: map[Event]int{}}
	if err := inner.add(e.Event, 1); err != nil {
		return err
	}
	if z, ok := oneGaussian(inner.list); ok && e.Rate < 1 {
		t.put(Sampled{e.Rate, Gaussian{z}}, count)
		return nil
	}
	for _, x := range inner.list {
		t.put(x.event, mulUp(count, x.count))
	}
	return nil
}

func (t *terms) put(e Event, count float64) {
	if i, ok := t.index[e]; ok {
		t.list[i].count = addUp(t.list[i].count, count)
		return
	}
	t.index[e] = len(t.list)
	t.list = append(t.list, term{e, count})
}

// oneGaussian returns the noise multiplier, rounded downward, of the Gaussian
// that costs as much as all terms together; false when there is none.
func oneGaussian(list []term) (float64, bool) {
	if len(list) == 1 && list[0].count == 1 {
		g, ok := list[0].event.(Gaussian)
		return g.NoiseMultiplier, ok
	}
	sum := 0.0
	for _, t := range list {
		g, ok := t.event.(Gaussian)
		if !ok {
			return 0, false
		}
		sum = addUp(sum, mulUp(t.count, 2*gaussianRho(g.NoiseMultiplier)))
	}
	z := down(math.Sqrt(down(1 / sum)))
	return z, sum > 0 && z > 0
}

// total prices all terms together.
func total(list []term) (Cost, error) {
	var sum Cost
	for _, t := range list {
		c, err := Price(t.event)
		if err != nil {
			return Cost{}, err
		}
		sum = sum.plus(c.times(t.count))
	}
	return sum, nil
}
