// Package plantest replays plans, for tests. A plan is run on a table and on a neighbour that is given
// the first one's answers. Nothing public may then differ: neither which
// mechanisms are called, nor their parameters, nor what is drawn in between,
// nor the result. What is not public, the integers before noise, may differ by
// what the noise is scaled to, and the calls must be those that were charged.
package plantest

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"

	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"
)

// Plan returns the plan of an algorithm.
func Plan(tb testing.TB, a plan.Algorithm, s table.Shape, b privacy.Budget, accountant privacy.Accountant) *plan.Plan {
	tb.Helper()
	p, err := a.Plan(s, b, accountant)
	if err != nil {
		tb.Fatalf("%+v: %v", a, err)
	}
	return p
}

// Run returns what an algorithm releases of a copy of a table, with noise by a seed.
func Run(t *testing.T, a plan.Algorithm, x table.Data, b privacy.Budget, seed uint64) release.Result {
	t.Helper()
	r, err := Plan(t, a, x.Shape, b, privacy.Concentrated{}).Run(t.Context(), Clone(x), mechtest.Source(t, seed))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ReachHalf checks that some pair moved every kind of release by more than half of its bound, so that replays would
// notice noise that is scaled to half of it. moved is the most that Replay has returned, by mechanism.
func ReachHalf(t *testing.T, moved map[string]float64) {
	t.Helper()
	for _, kind := range slices.Sorted(maps.Keys(moved)) {
		t.Logf("%-50s %.3f", kind, moved[kind])
		if moved[kind] <= 0.5 {
			t.Errorf("%s: moved by %v of its bound at most; half the bound would pass", kind, moved[kind])
		}
	}
}

// Replay returns how far statistics moved, over what is allowed, by mechanism;
// an error says how two runs could be told apart.
func Replay(t *testing.T, planned func() *plan.Plan, a, b table.Data) (map[string]float64, error) {
	t.Helper()
	run := func(x table.Data, earlier *mechtest.Tape) (release.Result, *mechtest.Tape) {
		src, tape := mechtest.NewTape(t, 1, earlier)
		w, err := planned().Run(t.Context(), Clone(x), src)
		if err != nil {
			t.Fatal(err)
		}
		return w, tape
	}
	w, first := run(a, nil)
	v, second := run(b, first)
	if len(first.Releases) != len(second.Releases) {
		return nil, fmt.Errorf("%d releases and %d", len(first.Releases), len(second.Releases))
	}
	shares := map[string]float64{}
	for k, r := range first.Releases {
		s := second.Releases[k]
		if !r.Matches(s) {
			return nil, fmt.Errorf("release %d is %+v %+v after %d draws, and %+v %+v after %d", k, r.Mechanism, r.Contract, r.Draws, s.Mechanism, s.Contract, s.Draws)
		}
		name := fmt.Sprintf("%T on %T", r.Mechanism, r.Contract)
		if shares[name] = max(shares[name], r.Share(s)); shares[name] > 1 {
			return nil, fmt.Errorf("release %d, %s: one record moved it by %v of the bound", k, name, shares[name])
		}
	}
	if !reflect.DeepEqual(w, v) {
		return nil, fmt.Errorf("the same answers became %v and %v", w, v)
	}
	p := planned()
	return shares, covered(p.Event, first.Releases, strings.HasPrefix(p.Method, "svrg") || p.Method == MayReleaseLess)
}

// MayReleaseLess is the method of a plan that may release less than it charges.
const MayReleaseLess = "may release less"

// covered reports whether what was released is what was charged, or less where
// answers decide: SVRG does not ask for a difference to the anchor at the anchor.
func covered(e privacy.Event, releases []mechtest.Release, less bool) error {
	if whole, pure := e.(privacy.Pure); pure {
		return coveredByPure(whole, releases)
	}
	charged := map[privacy.Event]int{}
	count(charged, e, 1)
	for k, r := range releases {
		count(charged, asCharged(charged, r.Mechanism.(interface{ Event() privacy.Event }).Event()), -1)
		for kind, left := range charged {
			if left < 0 {
				return fmt.Errorf("release %d, %+v, is not among what %+v charges", k, kind, e)
			}
		}
	}
	left := 0
	for _, n := range charged {
		left += n
	}
	if left > 0 && !less {
		return fmt.Errorf("%d charged releases were not made: %+v of %+v", left, charged, e)
	}
	return nil
}

// asCharged is the event itself, or that with the next larger epsilon if it is among those
// charged: mechanisms stay below the epsilon of their charge.
func asCharged(charged map[privacy.Event]int, e privacy.Event) privacy.Event {
	pure, ok := e.(privacy.Pure)
	if next := (privacy.Pure{Epsilon: math.Nextafter(pure.Epsilon, math.Inf(1))}); ok && charged[next] > 0 {
		return next
	}
	return e
}

// count adds times e to the simple events of all. What a batch is surcharged is
// no release.
func count(all map[privacy.Event]int, e privacy.Event, times int) {
	switch e := e.(type) {
	case privacy.Compose:
		for _, part := range e {
			count(all, part, times)
		}
	case privacy.Repeat:
		count(all, e.Event, times*e.Count)
	case privacy.Sampled:
		count(all, e.Event, times)
	case privacy.Parallel:
		count(all, e.Event, times)
	case privacy.Approx:
		if e.Epsilon > 0 {
			all[e] += times
		}
	default:
		all[e] += times
	}
}

// coveredByPure is covered for releases that are charged as one pure event: their epsilons
// add up to no more, exactly, and to all of it but for rounding.
func coveredByPure(whole privacy.Pure, releases []mechtest.Release) error {
	sum := new(big.Rat)
	for k, r := range releases {
		cost := pureCost(r.Mechanism.(interface{ Event() privacy.Event }).Event())
		if cost == nil {
			return fmt.Errorf("release %d, %+v, is not pure", k, r.Mechanism)
		}
		sum.Add(sum, cost)
	}
	if sum.Cmp(new(big.Rat).SetFloat64(whole.Epsilon)) > 0 {
		return fmt.Errorf("releases cost %v, charged are %v", sum.FloatString(20), whole.Epsilon)
	}
	if cost, _ := sum.Float64(); cost < whole.Epsilon*(1-1e-9) {
		return fmt.Errorf("releases cost %v of the %v that are charged", cost, whole.Epsilon)
	}
	return nil
}

// pureCost is the epsilon of an event, nil for one that is not pure.
func pureCost(e privacy.Event) *big.Rat {
	switch e := e.(type) {
	case privacy.Pure:
		return new(big.Rat).SetFloat64(e.Epsilon)
	case privacy.BoundedRange:
		return new(big.Rat).SetFloat64(e.Epsilon)
	case privacy.Repeat:
		if each := pureCost(e.Event); each != nil {
			return each.Mul(each, big.NewRat(int64(e.Count), 1))
		}
	}
	return nil
}
