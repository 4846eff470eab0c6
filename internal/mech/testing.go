package mech

import (
	"io"
	"math"
	"math/big"
	"reflect"
	"slices"
	"testing"
)

// TestValue returns the integers that b holds, before noise, and leaves them
// there. It panics outside a test binary.
func TestValue(tb testing.TB, b Bounded) []int64 {
	if !testing.Testing() || tb == nil {
		panic("mech: TestValue called outside a test")
	}
	return slices.Clone(b.totals)
}

// TestL2Squared returns the bound on how far one record moves those integers,
// squared. It panics outside a test binary.
func TestL2Squared(tb testing.TB, b Bounded) *big.Int {
	if !testing.Testing() || tb == nil {
		panic("mech: TestL2Squared called outside a test")
	}
	return b.contract.l2Squared()
}

// Tape notes every release of a run in order, with what it was computed from.
// A second run can be given the answers of the first: then all that differs
// between runs on neighbours is what the mechanisms were asked to hide.
type Tape struct {
	Releases []TestRelease
	answers  []TestRelease // of an earlier run; nil: fresh noise
	noise    *Source       // apart, so that other draws of two runs stay in step
	words    *readCounter
}

// TestRelease is one release as a Tape notes it. Mechanism, Contract and Draws
// are public and the same for neighbours, and so is Answer once it is frozen.
type TestRelease struct {
	Mechanism any
	Contract  any // what one record was held to
	Draws     int // of randomness so far, that of noise apart
	Answer    []float64
	statistic statistic
}

// TestTape returns a reproducible Source whose releases go to a Tape, and are
// answered as those of an earlier one unless that is nil. It panics outside a
// test binary.
func TestTape(tb testing.TB, seed uint64, earlier *Tape) (*Source, *Tape) {
	src := TestSource(tb, seed)
	t := &Tape{noise: TestSource(tb, ^seed), words: &readCounter{r: src.r}}
	if earlier != nil {
		t.answers = earlier.Releases
	}
	src.r, src.tape, t.noise.tape = t.words, t, nil
	return src, t
}

type readCounter struct {
	r     io.Reader
	reads int
}

func (c *readCounter) Read(p []byte) (int, error) {
	c.reads++
	return c.r.Read(p)
}

// Matches reports whether the two releases agree in everything that is public.
func (r TestRelease) Matches(other TestRelease) bool {
	return reflect.DeepEqual(r.Mechanism, other.Mechanism) && reflect.DeepEqual(r.Contract, other.Contract) &&
		r.Draws == other.Draws && reflect.TypeOf(r.statistic) == reflect.TypeOf(other.statistic)
}

// Share returns how far the statistics behind two matching releases are apart,
// over what the noise is scaled to hide; above 1 exactly when it is too far.
func (r TestRelease) Share(other TestRelease) float64 { return r.statistic.share(other.statistic) }

// PointsMoved returns how many of the points behind two releases of a Centre
// differ, and -1 for any other mechanism.
func (r TestRelease) PointsMoved(other TestRelease) int {
	if v, ok := r.statistic.(parts); ok {
		return v.moved(other.statistic.(parts))
	}
	return -1
}

// onTape returns where a release takes its noise from. Without a tape, which
// only tests have, it does nothing.
func (s *Source) onTape(mechanism, contract any, v statistic) (*Source, *Tape) {
	t := s.tape
	if t == nil {
		return s, nil
	}
	t.Releases = append(t.Releases, TestRelease{Mechanism: mechanism, Contract: contract, Draws: t.words.reads, statistic: v.clone()})
	return t.noise, t
}

// answer notes what was released, or puts the earlier answer in its place.
func (t *Tape) answer(dst []float64) {
	if t == nil {
		return
	}
	now := len(t.Releases) - 1
	if now < len(t.answers) && len(t.answers[now].Answer) == len(dst) {
		copy(dst, t.answers[now].Answer)
	}
	t.Releases[now].Answer = slices.Clone(dst)
}

// statistic is what a mechanism hides.
type statistic interface {
	clone() statistic
	share(other statistic) float64
}

// integers are the totals of a Bounded, or of Moments, whose entries off the
// diagonal count twice.
type integers struct {
	totals  []int64
	limit   *big.Int // squared
	weights func(k int) int64
}

func (v integers) clone() statistic {
	v.totals = slices.Clone(v.totals)
	return v
}

func (v integers) share(other statistic) float64 {
	square := new(big.Int)
	for k, total := range other.(integers).totals {
		gap := new(big.Int).Sub(big.NewInt(total), big.NewInt(v.totals[k]))
		square.Add(square, gap.Mul(gap, gap).Mul(gap, big.NewInt(v.weights(k))))
	}
	share, _ := new(big.Rat).SetFrac(square, v.limit).Float64()
	if square.Cmp(v.limit) > 0 {
		return 1 + share
	}
	return min(1, math.Sqrt(share))
}

func once(int) int64 { return 1 }

// weights returns how often the entries of the upper triangle stand in the
// matrix.
func (c MomentContract) weights(k int) int64 {
	for row := c.D; k >= row; row-- {
		k -= row
	}
	if k == 0 {
		return 1
	}
	return 2
}

// smooth is a point with a smooth bound on how far one record moves it.
type smooth struct {
	at                []float64
	bound, smoothness float64
}

// parts are points of which one record moves at most one, and what is released of
// them.
type parts struct {
	points [][]int64
	smooth
}

func (v parts) clone() statistic { // the points are nobody else's
	return parts{v.points, v.smooth.clone().(smooth)}
}

// share is above 1 also when several points were moved.
func (v parts) share(other statistic) float64 {
	w := other.(parts)
	if moved := v.moved(w); moved > 1 {
		return float64(moved)
	}
	return v.smooth.share(w.smooth)
}

func (v parts) moved(w parts) (count int) {
	for i, p := range v.points {
		if !slices.Equal(p, w.points[i]) {
			count++
		}
	}
	return count
}

// inFloats returns integers below 2^53 as they are.
func inFloats(steps []int64) []float64 {
	at := make([]float64, len(steps))
	for j, v := range steps {
		at[j] = float64(v)
	}
	return at
}

func (v smooth) clone() statistic {
	v.at = slices.Clone(v.at)
	return v
}

func (v smooth) share(other statistic) float64 {
	w, square := other.(smooth), 0.0
	for j := range v.at {
		square += (v.at[j] - w.at[j]) * (v.at[j] - w.at[j])
	}
	return max(math.Sqrt(square)/min(v.bound, w.bound), math.Abs(math.Log(v.bound/w.bound))/v.smoothness)
}
