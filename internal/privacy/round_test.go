package privacy

import (
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// What is proved is rounded upward: no bound is below the exact one, of 40 digits, nor above it by
// more than so much of itself. A few last digits on the wrong side are found.
func TestBoundsAreRoundedUpward(t *testing.T) {
	text, err := os.ReadFile("testdata/upward.json")
	if err != nil {
		t.Fatal(err)
	}
	var tables map[string][][]any
	if err := json.Unmarshal(text, &tables); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		bound func(v []float64) float64
		most  float64
	}{
		"zcdp":       {func(v []float64) float64 { return ZCDPEpsilon(v[0], v[1]) }, 1e-9},
		"renyi":      {func(v []float64) float64 { return RenyiEpsilon(v[0], v[1], v[2]) }, 1e-9},
		"pure_renyi": {func(v []float64) float64 { return pureRenyi(v[0], v[1]) }, 1e-12},
		"pure_rho":   {func(v []float64) float64 { return pureRho(v[0]) }, 1e-13},
		"gaussian":   {func(v []float64) float64 { return gaussianEpsilon(v[0], v[1]) }, 1e-9},
	} {
		if len(tables[name]) < 15 {
			t.Errorf("%s: %d values", name, len(tables[name]))
		}
		for _, row := range tables[name] {
			var v []float64
			for _, x := range row[:len(row)-1] {
				v = append(v, x.(float64))
			}
			exact, ok := new(big.Rat).SetString(row[len(row)-1].(string))
			got := c.bound(v)
			if !ok || math.IsInf(got, 0) || math.IsNaN(got) {
				t.Fatalf("%s of %v: %v, want %v", name, v, got, row)
			}
			excess, _ := new(big.Rat).Quo(new(big.Rat).Sub(new(big.Rat).SetFloat64(got), exact), exact).Float64()
			if !(excess >= 0 && excess <= c.most) {
				t.Errorf("%s of %v: %v is off by %g of itself", name, v, got, excess)
			}
		}
	}
}

// Several Gaussians on one batch are one that costs no less, exactly, and next to nothing more.
func TestEquivalentGaussiansAreRoundedDownward(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 1))
	for range 2000 {
		sum, leaves := new(big.Rat), []leaf(nil)
		for range 2 + rng.IntN(4) {
			z, count := math.Exp(4*rng.NormFloat64()), 1+rng.IntN(100)
			leaves = append(leaves, leaf{Gaussian{z}, float64(count)})
			square := new(big.Rat).SetFloat64(z)
			sum.Add(sum, new(big.Rat).Quo(new(big.Rat).SetInt64(int64(count)), square.Mul(square, square)))
		}
		z, ok := equivalentGaussian(leaves)
		cost := new(big.Rat).SetFloat64(z)
		cost.Mul(cost, cost).Mul(cost, sum) // 1 where it is exact
		if excess, _ := cost.Sub(big.NewRat(1, 1), cost).Float64(); !ok || excess < 0 || excess > 1e-14 {
			t.Fatalf("%v: %v is off by %g", leaves, z, excess)
		}
	}
}

// A count that no float64 has is rounded upward.
func TestRunsAreRoundedUpward(t *testing.T) {
	for _, count := range []int{1, 1<<53 - 1, 1 << 53, 1<<53 + 1, 1<<53 + 2, 1<<62 + 1, math.MaxInt64} {
		runs := new(big.Rat).SetFloat64(Repeat{Count: count}.runs())
		if runs.Cmp(new(big.Rat).SetInt64(int64(count))) < 0 {
			t.Errorf("%d runs count as %v", count, runs)
		}
	}
}

// As decimals, which is how the ledger compares them, the reserve is at most a tenth of delta.
func TestTheReserveIsATenthAsADecimal(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 2))
	decimal := func(v float64) *big.Rat {
		r, _ := new(big.Rat).SetString(strconv.FormatFloat(v, 'g', -1, 64))
		return r
	}
	for range 20_000 {
		delta := math.Exp2(-60 * rng.Float64())
		if rng.IntN(2) == 0 { // as people write it
			delta, _ = strconv.ParseFloat(strconv.FormatFloat(delta, 'g', 1+rng.IntN(3), 64), 64)
		}
		if ten := decimal(Reserve(delta)); ten.Mul(ten, big.NewRat(10, 1)).Cmp(decimal(delta)) > 0 || Reserve(delta) < .0999999*delta {
			t.Fatalf("of %v a reserve of %v", delta, Reserve(delta))
		}
	}
}

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
