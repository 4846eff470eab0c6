package mech

import (
	"encoding/binary"
	"math"
	"math/big"
	"testing"
)

// stream is a reader of given 64-bit words, then zeros.
type stream []uint64

func (s *stream) Read(p []byte) (int, error) {
	var word uint64
	if len(*s) > 0 {
		word, *s = (*s)[0], (*s)[1:]
	}
	binary.LittleEndian.PutUint64(p, word)
	return 8, nil
}

// belowExp draws a number and decides exactly whether it is below exp(-x).
func belowExp(src *Source, x *big.Rat) bool {
	return src.Uniform().BelowExp(big.NewRat(1, 1), new(big.Rat).Neg(x))
}

// With N = 20,000 draws the count is off by more than 6.5 standard deviations
// with probability below 1e-10, by the normal approximation.
func TestUniformIsBelowExpWithItsProbability(t *testing.T) {
	const n = 20_000
	src := testSource(t, 1)
	for _, x := range []*big.Rat{big.NewRat(0, 1), big.NewRat(1, 1000), big.NewRat(1, 3), big.NewRat(1, 1), big.NewRat(22, 7), big.NewRat(9, 1)} {
		hits := 0
		for range n {
			if belowExp(src, x) {
				hits++
			}
		}
		f, _ := x.Float64()
		p := math.Exp(-f)
		if sd := math.Sqrt(n * p * (1 - p)); math.Abs(float64(hits)-n*p) > 6.5*sd {
			t.Errorf("exp(-%v): %d of %d, want %.0f", x, hits, n, n*p)
		}
	}
}

// The first 64 digits of exp(-1) leave the comparison open; the next ones
// decide it, each way.
func TestBelowExpReadsMoreDigitsWhenItMust(t *testing.T) {
	low, _ := scaledExp(big.NewRat(1, 1), big.NewRat(-1, 1), 300)
	digits, _ := new(big.Float).SetPrec(300).SetMantExp(low, 192).Int(nil)
	words := make([]uint64, 3)
	for i := 2; i >= 0; i-- {
		words[i] = new(big.Int).And(digits, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
		digits.Rsh(digits, 64)
	}
	for _, c := range []struct {
		change int64
		below  bool
	}{{-1, true}, {1, false}} {
		given := stream{words[0], words[1], uint64(int64(words[2]) + c.change)}
		src := &Source{r: &given}
		if got := belowExp(src, big.NewRat(1, 1)); got != c.below {
			t.Errorf("digits of exp(-1) %+d in the 192nd: below is %t", c.change, got)
		}
		if len(given) != 0 {
			t.Errorf("%d words unread", len(given))
		}
	}
}

func TestExpEnclosureIsTightAndRight(t *testing.T) {
	for _, x := range []float64{0, 1e-300, -1e-9, 0.5, -1, 20, -700.25, 12345.678, -1e6} {
		low, high := scaledExp(big.NewRat(3, 7), new(big.Rat).SetFloat64(x), 200)
		if low.Cmp(high) > 0 {
			t.Fatalf("exp(%g): empty enclosure", x)
		}
		width := new(big.Float).Sub(high, low)
		if width.Sign() > 0 && width.MantExp(nil) > low.MantExp(nil)-190 {
			t.Errorf("exp(%g): enclosure is 2^%d wide", x, width.MantExp(nil))
		}
		if want := 3. / 7 * math.Exp(x); math.Abs(x) < 600 {
			if got, _ := low.Float64(); math.Abs(got-want) > 1e-14*want {
				t.Errorf("exp(%g) * 3/7 = %g, want %g", x, got, want)
			}
		}
		// exp(x) exp(-x) = 1 must lie between the products of the ends
		l2, h2 := scaledExp(big.NewRat(7, 3), new(big.Rat).SetFloat64(-x), 200)
		one := big.NewFloat(1)
		if new(big.Float).Mul(low, l2).Cmp(one) > 0 || new(big.Float).Mul(high, h2).Cmp(one) < 0 {
			t.Errorf("exp(%g) exp(-%g): 1 is outside", x, x)
		}
	}
}

// Arguments of many digits are rounded to the outside, whatever their sign. The
// hardest lie just below 2^-k with 2k + 2 binary digits to compute with: the
// series up to the second term is exact there, and the third less than what the
// argument is rounded by.
func TestExpEnclosureHoldsForArgumentsOfManyDigits(t *testing.T) {
	one := big.NewRat(1, 1)
	for k := uint(40); k <= 150; k++ {
		x := new(big.Rat).Inv(power(k))
		x.Sub(x, new(big.Rat).Inv(power(3*k+2)))
		x.Add(x, new(big.Rat).Inv(power(4*k)))
		for _, x := range []*big.Rat{x, new(big.Rat).Neg(x)} {
			low, high := scaledExp(one, x, 2*k+2-32) // which adds 32
			if l, h := scaledExp(one, x, 1000); low.Cmp(h) > 0 || high.Cmp(l) < 0 {
				t.Errorf("k = %d, sign %d: the value is outside", k, x.Sign())
			}
		}
	}
}

// Where the series ends, what it leaves out is added to the upper side: a coarse
// enclosure holds a fine one at every precision.
func TestExpEnclosureHoldsTheRestOfTheSeries(t *testing.T) {
	one := big.NewRat(1, 1)
	for _, x := range []*big.Rat{big.NewRat(1, 2), big.NewRat(3, 7), big.NewRat(-1, 3), big.NewRat(5, 1), big.NewRat(-100, 9)} {
		fineLow, fineHigh := scaledExp(one, x, 1000)
		for precision := uint(64); precision < 256; precision += 3 {
			if low, high := scaledExp(one, x, precision); low.Cmp(fineLow) > 0 || high.Cmp(fineHigh) < 0 {
				t.Errorf("exp(%v) to %d bits: the value is outside", x, precision)
			}
		}
	}
}

// The float bounds of the logarithm of the first digits enclose it: the fast
// decisions agree with the exact one, near the boundary and far from it.
func TestFastDecisionsAgreeWithTheExactOne(t *testing.T) {
	src := testSource(t, 2)
	for range 3000 {
		u := src.Uniform()
		f := float64(u.head) / (1 << 64)
		for _, shift := range []float64{0, 1e-15, -1e-15, 3e-16, 0.1, -0.1} {
			x := math.Log(f) + shift
			if x > 0 {
				continue
			}
			exact := (&Uniform{src: src, head: u.head, n: u.n}).BelowExp(big.NewRat(1, 1), new(big.Rat).SetFloat64(x))
			if u.SurelyBelowExp(x) && !exact || u.SurelyAboveExp(x) && exact {
				t.Fatalf("fast decision for exp(%g) is wrong", x)
			}
		}
	}
}

// The logarithms of what the first 64 digits leave open are between the bounds, of the fewest digits too.
func TestFirstDigitsAreEnclosed(t *testing.T) {
	for _, head := range []uint64{0, 1, 2, 3, 100, 1 << 40, 1<<53 + 1, 1 << 63, math.MaxUint64} {
		u := (&Source{r: &stream{head}}).Uniform()
		least, most := math.Log(float64(head))-64*math.Ln2, math.Log(float64(head)+1)-64*math.Ln2
		if !(u.low <= least+1e-14 && u.high >= most-1e-14) || u.low < least-1e-12 || u.high > most+1e-12 {
			t.Errorf("%d: from %v to %v, and the number is from %v to %v", head, u.low, u.high, least, most)
		}
	}
}
