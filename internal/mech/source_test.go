package mech

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// testSource returns a reproducible Source, that of mechtest.Source.
func testSource(_ testing.TB, seed uint64) *Source {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	return &Source{r: rand.NewChaCha8(key)}
}

// Nobody can foretell the noise: two sources of production code do not give the same 256 bits (false-failure rate
// 2^-256).
func TestSourcesAreIndependent(t *testing.T) {
	a, b := NewSource(), NewSource()
	for range 4 {
		if a.Uint64() != b.Uint64() {
			return
		}
	}
	t.Error("two sources give the same numbers")
}

// Near 2^63 the multiples of n leave up to half of all words over. Without
// rejection some integers get two words and others one: under 3 2^62, those
// that 3 divides come up half of the time instead of a third.
func TestUniformIntegersAreUniformNearTheTop(t *testing.T) {
	src := testSource(t, 1)
	for _, c := range []struct {
		n      uint64
		class  func(k uint64) int
		shares []float64
	}{
		{3 << 62, func(k uint64) int { return int(k % 3) }, []float64{1. / 3, 1. / 3, 1. / 3}},
		{5 << 61, func(k uint64) int { return int(k % 5) }, []float64{.2, .2, .2, .2, .2}},
		{1<<63 + 1, func(k uint64) int { return int(k >> 62) }, []float64{.5, .5}},
		{3, func(k uint64) int { return int(k) }, []float64{1. / 3, 1. / 3, 1. / 3}},
	} {
		counts := make([]int, len(c.shares))
		for range 60_000 {
			k := src.Uint64n(c.n)
			if k >= c.n {
				t.Fatalf("%d is not below %d", k, c.n)
			}
			counts[min(c.class(k), len(counts)-1)]++
		}
		if !fits(counts, c.shares) {
			t.Errorf("n = %d: %v", c.n, counts)
		}
	}
}

// Every integer keeps the same number of words, shown where that can be counted:
// all words whose product with n has a low half below 2^64 mod n are drawn again.
func TestUniformIntegersRejectTheWordsLeftOver(t *testing.T) {
	const n = 3 << 62 // 2^64 mod n = 2^62: words that 4 divides are left over
	for word, kept := range map[uint64]bool{0: false, 1: true, 2: true, 3: true, 4: false, 1 << 40: false, math.MaxUint64: true, math.MaxUint64 - 3: false} {
		given := stream{word, 1}
		src := &Source{r: &given}
		src.Uint64n(n)
		if again := len(given) == 0; again == kept {
			t.Errorf("word %d is drawn again: %t", word, again)
		}
	}
}
