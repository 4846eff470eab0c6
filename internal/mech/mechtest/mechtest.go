// Package mechtest lets tests repeat what package mech draws, look at what it
// hides, and compare what two runs on neighbouring tables release. Nothing of it
// works outside of a test binary.
package mechtest

import (
	"encoding/binary"
	"io"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/internal/hook"
)

// onlyInTests panics outside of a test binary.
func onlyInTests(tb testing.TB) {
	if !testing.Testing() || tb == nil {
		panic("mechtest: called outside a test")
	}
}

// Source returns a reproducible Source.
func Source(tb testing.TB, seed uint64) *mech.Source {
	onlyInTests(tb)
	return mech.NewObservedSource(hook.Source{Reader: reader(seed)})
}

func reader(seed uint64) io.Reader {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	return rand.NewChaCha8(key)
}

// Totals returns the integers that b holds, before noise, and leaves them there.
func Totals(tb testing.TB, b mech.Bounded) (totals []int64) {
	onlyInTests(tb)
	b.Show(func(v []int64, _ *big.Int) { totals = slices.Clone(v) })
	return totals
}

// SquaredSensitivity returns the square of the bound on how far one record moves
// those integers in l2.
func SquaredSensitivity(tb testing.TB, b mech.Bounded) (square *big.Int) {
	onlyInTests(tb)
	b.Show(func(_ []int64, v *big.Int) { square = v })
	return square
}

// Tape notes every release of a run in order, with what it was computed from.
// A second run can be given the answers of the first: then all that differs
// between runs on neighbours is what the mechanisms were asked to hide.
type Tape struct {
	Releases []Release
	answers  []Release // of an earlier run; nil: fresh noise
	noise    io.Reader // apart, so that other draws of two runs stay in step
	draws    *readCounter
}

// Release is one release as a Tape notes it. Mechanism, Contract and Draws are
// public and the same for neighbours, and so is Answer once it is an earlier one.
type Release struct {
	Mechanism any
	Contract  any // what one record was held to
	Draws     int // of randomness so far, that of noise apart
	Answer    []float64
	hidden    hook.Statistic
}

// NewTape returns a reproducible Source whose releases go to a Tape, and are
// answered as those of an earlier one unless that is nil.
func NewTape(tb testing.TB, seed uint64, earlier *Tape) (*mech.Source, *Tape) {
	onlyInTests(tb)
	t := &Tape{noise: reader(^seed), draws: &readCounter{r: reader(seed)}}
	if earlier != nil {
		t.answers = earlier.Releases
	}
	return mech.NewObservedSource(hook.Source{Reader: t.draws, Observer: t}), t
}

type readCounter struct {
	r     io.Reader
	reads int
}

func (c *readCounter) Read(p []byte) (int, error) {
	c.reads++
	return c.r.Read(p)
}

// Begin implements hook.Observer.
func (t *Tape) Begin(mechanism, contract any, hidden hook.Statistic) (noise io.Reader) {
	t.Releases = append(t.Releases, Release{Mechanism: mechanism, Contract: contract, Draws: t.draws.reads, hidden: hidden.Clone()})
	return t.noise
}

// End implements hook.Observer: it notes what was released, or puts the earlier
// answer in its place.
func (t *Tape) End(released []float64) {
	now := len(t.Releases) - 1
	if now < len(t.answers) && len(t.answers[now].Answer) == len(released) {
		copy(released, t.answers[now].Answer)
	}
	t.Releases[now].Answer = slices.Clone(released)
}

// Matches reports whether the two releases agree in everything that is public.
func (r Release) Matches(other Release) bool {
	return reflect.DeepEqual(r.Mechanism, other.Mechanism) && reflect.DeepEqual(r.Contract, other.Contract) &&
		r.Draws == other.Draws && reflect.TypeOf(r.hidden) == reflect.TypeOf(other.hidden)
}

// Share returns how far the statistics behind two matching releases are apart,
// over what the noise is scaled to hide; above 1 exactly when it is too far.
func (r Release) Share(other Release) float64 { return r.hidden.Share(other.hidden) }

// PointsMoved returns how many of the points behind two releases of a
// mech.Centre differ, and -1 for any other mechanism.
func (r Release) PointsMoved(other Release) int {
	if v, ok := r.hidden.(hook.Chosen); ok {
		return v.Moved(other.hidden.(hook.Chosen))
	}
	return -1
}
