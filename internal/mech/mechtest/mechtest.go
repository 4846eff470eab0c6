// Package mechtest lets tests repeat the random draws of package mech, read its sensitive values, and
// compare the releases of two runs on neighbouring tables. It panics outside of a test binary.
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

// Totals returns the integers of b, before noise, and leaves them in b.
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

// Tape records every release of a run in order, with the statistic that it was computed from. A second run
// can be given the answers of the first: then only the mechanisms' sensitive inputs differ between runs on
// neighbours.
type Tape struct {
	Releases []Release
	answers  []Release // of an earlier run; nil: fresh noise
	noise    io.Reader // separate, so that the other draws of two runs stay in step
	draws    *readCounter
}

// Release is one release as recorded by a Tape. Mechanism, Contract and Draws are public and the same for
// neighbours, and so is Answer if it was taken from an earlier run.
type Release struct {
	Mechanism any
	Contract  any // the contract of one record
	Draws     int // number of random draws so far, without those of noise
	Answer    []float64
	hidden    hook.Statistic
}

// NewTape returns a reproducible Source that records its releases on a Tape. If earlier is not nil, the
// releases return its answers.
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

// End implements hook.Observer: it records the released values, or replaces them by the earlier answer.
func (t *Tape) End(released []float64) {
	now := len(t.Releases) - 1
	if now < len(t.answers) && len(t.answers[now].Answer) == len(released) {
		copy(released, t.answers[now].Answer)
	}
	t.Releases[now].Answer = slices.Clone(released)
}

// Matches reports whether all public parts of two releases agree.
func (r Release) Matches(other Release) bool {
	return reflect.DeepEqual(r.Mechanism, other.Mechanism) && reflect.DeepEqual(r.Contract, other.Contract) &&
		r.Draws == other.Draws && reflect.TypeOf(r.hidden) == reflect.TypeOf(other.hidden)
}

// Share returns the distance between the statistics of two matching releases, divided by the largest
// distance that the noise is calibrated for: above 1 exactly when they are too far apart.
func (r Release) Share(other Release) float64 { return r.hidden.Share(other.hidden) }

// PointsMoved returns how many of the points behind two releases of a
// mech.Centre differ, and -1 for any other mechanism.
func (r Release) PointsMoved(other Release) int {
	if v, ok := r.hidden.(hook.Chosen); ok {
		return v.Moved(other.hidden.(hook.Chosen))
	}
	return -1
}
