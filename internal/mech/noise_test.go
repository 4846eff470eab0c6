package mech

import (
	"math"
	"math/big"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// Every chi-square test of this package fails by chance with probability
// 1e-8; there are about thirty, so less than 1e-6 a run. (Seeds are fixed: a run
// that passed passes again.) Expected counts are above 100 and mostly far above,
// where the tail of the chi-square law is accurate enough for that.
const chance = 1e-8

// fits compares counts with probabilities that sum to 1.
func fits(counts []int, probability []float64) bool {
	total := 0
	for _, c := range counts {
		total += c
	}
	square := 0.0
	for i, c := range counts {
		expected := probability[i] * float64(total)
		square += (float64(c) - expected) * (float64(c) - expected) / expected
	}
	return square <= distuv.ChiSquared{K: float64(len(counts) - 1)}.Quantile(1-chance)
}

// fitsLaw tests draws against a distribution function in 64 equally likely bins.
func fitsLaw(draws []float64, cdf func(float64) float64) bool {
	const bins = 64
	counts, probability := make([]int, bins), make([]float64, bins)
	for i := range probability {
		probability[i] = 1.0 / bins
	}
	for _, v := range draws {
		counts[min(int(cdf(v)*bins), bins-1)]++
	}
	return fits(counts, probability)
}

// fitsIntegers tests n draws of a symmetric law on the integers with the given
// weights of |y|, the tails beyond edge in one bin each.
func fitsIntegers(draws []int64, weight func(y float64) float64, edge int64) bool {
	counts, probability := make([]int, 2*edge+1), make([]float64, 2*edge+1)
	total := 0.0
	for y := -100 * edge; y <= 100*edge; y++ {
		w := weight(math.Abs(float64(y)))
		probability[max(-edge, min(y, edge))+edge] += w
		total += w
	}
	for i := range probability {
		probability[i] /= total
	}
	for _, y := range draws {
		counts[max(-edge, min(y, edge))+edge]++
	}
	return fits(counts, probability)
}

func draws(n *noise, count int, src *Source) []int64 {
	all, y := make([]int64, count), new(big.Int)
	for i := range all {
		n.draw(y, src)
		all[i] = y.Int64()
	}
	return all
}

func TestDiscreteGaussianHasItsLaw(t *testing.T) {
	for i, c := range []struct {
		variance *big.Rat
		edge     int64 // the tail beyond has probability of about 1e-3
	}{{big.NewRat(1, 4), 2}, {big.NewRat(1, 1), 3}, {big.NewRat(21, 2), 10}} {
		v, _ := c.variance.Float64()
		all := draws(newGaussianNoise(c.variance), 1_000_000, testSource(t, uint64(i)))
		law := func(v float64) func(float64) float64 {
			return func(y float64) float64 { return math.Exp(-y * y / (2 * v)) }
		}
		if !fitsIntegers(all, law(v), c.edge) {
			t.Errorf("variance %v: wrong law", v)
		}
		if fitsIntegers(all, law(1.02*v), c.edge) {
			t.Errorf("variance %v: the test has no power against 1%% less noise", v)
		}
	}
}

// Between a discrete normal draw at variance v and the normal law the
// distribution functions differ by less than 1/sqrt(v) = 2^-20 here, a share of
// 6e-5 of a bin: it adds less than 0.01 to chi-square.
func TestWideDiscreteGaussianHasItsLaw(t *testing.T) {
	all := draws(newGaussianNoise(power(40)), 1_000_000, testSource(t, 10))
	scaled := make([]float64, len(all))
	for i, y := range all {
		scaled[i] = float64(y) * 0x1p-20
	}
	if !fitsLaw(scaled, distuv.UnitNormal.CDF) {
		t.Error("wrong law")
	}
	if fitsLaw(scaled, distuv.Normal{Sigma: 1.01}.CDF) {
		t.Error("the test has no power against 1% less noise")
	}
	low := make([]float64, len(all)) // the last digits are uniform
	for i, y := range all {
		low[i] = float64(y&1023) / 1024
	}
	if !fitsLaw(low, func(v float64) float64 { return v }) {
		t.Error("the last ten digits are not uniform")
	}
}

// Scales that need more than one word of digits.
func TestVeryWideNoiseHasItsLaw(t *testing.T) {
	src := testSource(t, 11)
	for _, shift := range []uint{63, 64, 65, 128, 150} {
		n, y := newGaussianNoise(power(2*shift)), new(big.Int)
		scaled, low := make([]float64, 50_000), make([]float64, 50_000)
		for i := range scaled {
			n.draw(y, src)
			v, _ := new(big.Float).SetInt(y).Float64()
			scaled[i] = math.Ldexp(v, -int(shift))
			low[i] = float64(new(big.Int).And(y, big.NewInt(1023)).Int64()) / 1024
		}
		if !fitsLaw(scaled, distuv.UnitNormal.CDF) || !fitsLaw(low, func(v float64) float64 { return v }) {
			t.Errorf("standard deviation 2^%d: wrong law", shift)
		}
	}
}

func TestDiscreteLaplaceHasItsLaw(t *testing.T) {
	src := testSource(t, 12)
	for _, c := range []struct {
		scale *big.Rat
		edge  int64
	}{{big.NewRat(1, 3), 2}, {big.NewRat(1, 1), 5}, {big.NewRat(17, 5), 15}, {big.NewRat(8, 1), 30}} {
		b, _ := c.scale.Float64()
		all := make([]int64, 200_000)
		for i := range all {
			all[i] = src.DiscreteLaplace(c.scale).Int64()
		}
		law := func(b float64) func(float64) float64 { return func(y float64) float64 { return math.Exp(-y / b) } }
		if !fitsIntegers(all, law(b), c.edge) {
			t.Errorf("scale %v: wrong law", b)
		}
		if fitsIntegers(all, law(1.03*b), c.edge) {
			t.Errorf("scale %v: the test has no power against 3%% less noise", b)
		}
	}
}

// The float64 enclosure of the exponent holds the exact one, which is not
// negative, and is narrow.
func TestExponentIsEnclosed(t *testing.T) {
	src := testSource(t, 13)
	for _, n := range []*noise{
		newGaussianNoise(big.NewRat(1, 1<<20)), newGaussianNoise(big.NewRat(1, 4)), newGaussianNoise(big.NewRat(21, 2)), newGaussianNoise(power(40)),
		newGaussianNoise(big.NewRat(math.MaxInt64, 3)), newGaussianNoise(power(200)), newGaussianNoise(power(127)),
		newLaplaceNoise(big.NewRat(1, 1000)), newLaplaceNoise(big.NewRat(17, 5)), newLaplaceNoise(big.NewRat(math.MaxInt64, 5)), newLaplaceNoise(power(90)),
	} {
		y := new(big.Int)
		for range 2000 {
			whole, head := src.Uint64n(60), src.Uint64()
			if n.shift < 64 {
				head &= ^(^uint64(0) >> n.shift)
			}
			low, high := n.exponent(float64(whole), float64(head)*0x1p-64)
			n.appendDigits(y, whole, head, src)
			x := new(big.Rat).Neg(n.minusExponent(whole, y))
			if x.Sign() < 0 || x.Cmp(rational(low)) < 0 || x.Cmp(rational(high)) > 0 {
				t.Fatalf("shift %d: exponent %v outside [%v, %v]", n.shift, x, low, high)
			}
			if exact, _ := x.Float64(); high-low > (exact+float64(whole)+10)*(n.a+n.b+1)*0x1p-40 {
				t.Fatalf("shift %d: exponent %v enclosed only by [%v, %v]", n.shift, exact, low, high)
			}
		}
	}
}

// When the first digits leave a decision open, exact arithmetic takes it: with
// every enclosure widened to be useless the law stays.
func TestUndecidedDrawsAreExact(t *testing.T) {
	src := testSource(t, 14)
	for _, n := range []*noise{newGaussianNoise(big.NewRat(21, 2)), newLaplaceNoise(big.NewRat(17, 5))} {
		fast := draws(n, 20_000, src)
		n.c = math.NaN()
		slow := draws(n, 4000, src)
		weight := func(y float64) float64 { return math.Exp(-y * y / 21) }
		if n.b != 0 {
			weight = func(y float64) float64 { return math.Exp(-y * 5 / 17) }
		}
		if !fitsIntegers(slow, weight, 4) || !fitsIntegers(fast, weight, 6) {
			t.Errorf("%+v: wrong law", n)
		}
	}
}

func TestGeometricHasItsLaw(t *testing.T) {
	src := testSource(t, 15)
	counts, probability := make([]int, 7), make([]float64, 7)
	for k := range probability {
		probability[k] = math.Exp(-float64(k)) * (1 - math.Exp(-1))
	}
	probability[6] = math.Exp(-6)
	for range 200_000 {
		counts[min(src.geometric(), 6)]++
	}
	if !fits(counts, probability) {
		t.Errorf("wrong law: %v", counts)
	}
}

func BenchmarkDiscreteGaussian(b *testing.B) {
	for name, variance := range map[string]*big.Rat{"sigma=1": power(0), "sigma=2^40": power(80)} {
		b.Run(name, func(b *testing.B) {
			src, n, y := NewSource(), newGaussianNoise(variance), new(big.Int)
			for b.Loop() {
				n.draw(y, src)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "draws/s")
		})
	}
}
