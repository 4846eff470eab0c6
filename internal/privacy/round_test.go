package privacy

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func TestSubDownIsTightAndSafe(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 20_000 {
		a, b := rng.Float64(), rng.Float64()*math.Pow(2, float64(rng.IntN(60)-50))
		exact := new(big.Rat).Sub(new(big.Rat).SetFloat64(a), new(big.Rat).SetFloat64(b))
		got := subDown(a, b)
		if new(big.Rat).SetFloat64(got).Cmp(exact) > 0 || new(big.Rat).SetFloat64(up(got)).Cmp(exact) <= 0 {
			t.Fatalf("subDown(%v, %v) = %v", a, b, got)
		}
	}
}
