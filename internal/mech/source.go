package mech

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"io"
	"math/bits"

	"dpsidecar/internal/mech/internal/hook"
)

// Source is the randomness of mechanisms: the operating system's generator.
// Its zero value is unusable and its reader unexported, so production code can
// only have one from NewSource. It is not safe for concurrent use.
type Source struct {
	r        io.Reader
	word     [8]byte       // buffer of Uint64, which saves an allocation for every draw
	observer hook.Observer // nil except in tests
}

// NewSource returns a Source over crypto/rand.
func NewSource() *Source { return &Source{r: bufio.NewReaderSize(rand.Reader, 4096)} }

// NewObservedSource returns a Source for tests: only packages below this one can name the type of its
// argument, and only mechtest uses it.
func NewObservedSource(s hook.Source) *Source { return &Source{r: s.Reader, observer: s.Observer} }

// begin notifies the observer of a release, and returns the source of its noise: s itself without an
// observer.
func (s *Source) begin(mechanism, contract any, hidden hook.Statistic) (noise *Source) {
	if s.observer == nil {
		return s
	}
	return &Source{r: s.observer.Begin(mechanism, contract, hidden)}
}

// end passes the released values to the observer.
func (s *Source) end(released []float64) {
	if s.observer != nil {
		s.observer.End(released)
	}
}

// Observe is begin and end for mechanisms of packages below this one; no other package can name the type of
// its last argument.
func (s *Source) Observe(mechanism, contract any, hidden hook.Statistic) (noise *Source, end func(released []float64)) {
	return s.begin(mechanism, contract, hidden), s.end
}

// Uint64 returns 64 uniform bits.
func (s *Source) Uint64() uint64 {
	if _, err := io.ReadFull(s.r, s.word[:]); err != nil {
		panic("mech: the operating system's random generator failed: " + err.Error())
	}
	return binary.LittleEndian.Uint64(s.word[:])
}

// Uint64n returns a uniform integer in [0, n), unbiased. It panics if n is 0.
//
// Source: Lemire 2019, Algorithm 5.
func (s *Source) Uint64n(n uint64) uint64 {
	if n == 0 {
		panic("mech: Uint64n of 0")
	}
	hi, lo := bits.Mul64(s.Uint64(), n)
	if lo < n {
		for threshold := -n % n; lo < threshold; {
			hi, lo = bits.Mul64(s.Uint64(), n)
		}
	}
	return hi
}
