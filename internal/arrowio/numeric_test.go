package arrowio

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestNumericIsTotal gives arbitrary bytes of any admissible size.
func TestNumericIsTotal(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		b := make([]byte, numericHeader+r.IntN(30))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		if r.IntN(2) == 0 { // a count that fits, so that digits are looked at
			copy(b, words(uint16((len(b)-numericHeader)/2)))
			copy(b[4:], words(0))
		}
		if x := numeric(b); math.IsInf(x, 0) {
			t.Fatalf("%x: %v", b, x)
		}
	}
}

// TestNumericRoundsToNearest compares with exact rationals. Half of the values
// have few digits and are read by parseShort.
func TestNumericRoundsToNearest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		count, weight := 1+r.IntN(8), r.IntN(40)-20
		digits := make([]uint16, count)
		exact, unit := new(big.Rat), new(big.Rat)
		for i := range digits {
			digits[i] = uint16(1 + r.IntN(numericBase-1))
			power := new(big.Int).Exp(big.NewInt(numericBase), big.NewInt(int64(max(weight-i, i-weight))), nil)
			if unit.SetInt(power); weight < i {
				unit.Inv(unit)
			}
			exact.Add(exact, unit.Mul(unit, new(big.Rat).SetInt64(int64(digits[i]))))
		}
		want, _ := exact.Float64()
		got := numeric(words(append([]uint16{uint16(count), uint16(weight), numericNegative, 0}, digits...)...))
		if got != -want {
			t.Fatalf("-%s: got %v, want %v", exact.FloatString(40), got, -want)
		}
	}
}
