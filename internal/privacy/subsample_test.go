package privacy

import (
	"errors"
	"fmt"
	"math"
	"testing"
)

// want: values of an independent implementation of the same theorem, eight
// digits. general: what dp_accounting makes of Wang, Balle & Kasiviswanathan,
// with their sharper terms from order 3 on, six digits.
var subsampledGolden = []struct {
	rate, mu, order, want, general float64
}{
	{.01, .5, 2, 3.9079125e-05, .000113604}, {.01, .5, 4, 7.8172724e-05, .000229559}, {.01, .5, 8, 1.5647307e-04, .000468416},
	{.01, 1, 2, 2.8063929e-04, .000543509}, {.01, 1, 4, 5.6786266e-04, .00114161}, {.01, 1, 8, 1.2588277e-03, .00268417},
	{.1, .5, 2, 3.676321e-03, .011297}, {.1, .5, 4, 7.445438e-03, .024317}, {.1, .5, 8, 1.5792966e-02, .0526903},
	{.1, 1, 2, 2.3133812e-02, .0529393}, {.1, 1, 4, 6.6267996e-02, .149841}, {.1, 1, 8, 1.3783621, 1.47855},
}

// checkSubsampled tells whether divergence may price subsampled Gaussians.
func checkSubsampled(divergence func(rate, z, order float64) float64) error {
	for _, c := range subsampledGolden {
		if got := divergence(c.rate, 1/c.mu, c.order); !near(got, c.want) {
			return fmt.Errorf("divergence at rate %v, mu %v, order %v is %.8g; want %.8g", c.rate, c.mu, c.order, got, c.want)
		}
	}
	for _, rate := range []float64{1e-4, .03, .5, 1} {
		for _, mu := range []float64{.02, .3, 1.5} {
			for _, order := range []float64{1.25, 2.5, 7, 40} {
				want := softplus(simpson(rate, mu, order)) / (order - 1)
				whole := order * mu * mu / 2
				got := divergence(rate, 1/mu, order)
				if got > min(want, whole)*(1+1e-6) {
					return fmt.Errorf("divergence at rate %v, mu %v, order %v is %v; simpson %v", rate, mu, order, got, want)
				}
				if binomial := softplus((mixture{rate, mu, order}).binomial()) / (order - 1); got < min(want, whole, binomial)*(1-1e-7) {
					return fmt.Errorf("divergence at rate %v, mu %v, order %v is %v; below simpson %v, binomial %v", rate, mu, order, got, want, binomial)
				}
			}
		}
	}
	return nil
}

// simpson evaluates ln M in the theorem's first form, the integral over
// thresholds t = 1 + rate (e^x - 1) of (t^(a-2) + t^(-a-1)) rate G(e^x).
func simpson(rate, mu, a float64) float64 {
	const intervals = 20_000
	width := (mu*mu*(a+1) + mu*math.Sqrt(120+2*a) + 5*mu) / intervals
	var sum logSum
	for i := 0; i <= intervals; i++ {
		x := float64(i) * width
		u := math.Log1p(rate * math.Expm1(x))
		weight := float64(2 + i%2*2)
		if i == 0 || i == intervals {
			weight = 1
		}
		b := x/mu - mu/2 // G(e^x) = e^(-b^2/2) (scaledErfc(b/sqrt 2) - scaledErfc((b+mu)/sqrt 2)) / 2
		g := func(x float64) float64 {
			if x < 0 {
				return math.Exp(x*x) * math.Erfc(x)
			}
			return scaledErfc(x)
		}
		profile := (g(b/math.Sqrt2) - g((b+mu)/math.Sqrt2)) / 2
		sum.add((a-2)*u+x-b*b/2, weight*profile*(1+math.Exp((1-2*a)*u)))
	}
	return math.Log(a*(a-1)) + 2*math.Log(rate) + math.Log(width/3) + sum.log()
}

func TestSubsampledGaussianMatchesTheReference(t *testing.T) {
	if err := checkSubsampled(sampledRenyi); err != nil {
		t.Error(err)
	}
	for _, c := range subsampledGolden {
		general := softplus(mixture{c.rate, c.mu, c.order}.binomial()) / (c.order - 1)
		if general < c.general*(1-1e-5) || c.order == 2 && general > c.general*(1+1e-5) || c.want > c.general {
			t.Errorf("the general bound at rate %v, mu %v, order %v is %v; dp_accounting has %v", c.rate, c.mu, c.order, general, c.general)
		}
	}
}

func TestSubsampledGaussianCatchesMutants(t *testing.T) {
	for name, mutant := range map[string]func(rate, z, order float64) float64{
		"noise halved":              func(r, z, a float64) float64 { return sampledRenyi(r, 2*z, a) },
		"rate of one row too few":   func(r, z, a float64) float64 { return sampledRenyi(.999*r, z, a) },
		"one direction only":        func(r, z, a float64) float64 { return sampledRenyi(r, z, a) / 2 },
		"no amplification":          func(r, z, a float64) float64 { return a / (2 * z * z) },
		"amplified by rate squared": func(r, z, a float64) float64 { return r * r * a / (2 * z * z) },
	} {
		if checkSubsampled(mutant) == nil {
			t.Errorf("%s: not caught", name)
		}
	}
}

// The theorem in closed form at rate 1 is the Gaussian itself.
func TestWholeTableIsTheGaussian(t *testing.T) {
	for _, mu := range []float64{1e-3, .1, 1, 3} {
		for _, order := range []float64{1.25, 2, 9.75, 64, 300} {
			want := order * mu * mu / 2
			if got := softplus(mixture{1, mu, order}.hockeyStick()) / (order - 1); got < want || got > want*(1+2e-9)+2e-9/(order-1)*min(1, want*(order-1)) {
				t.Errorf("mu %v, order %v: %v; want %v", mu, order, got, want)
			}
		}
	}
}

// Pairs that a subsampled Gaussian can show on real sums: a mixture against its
// base both ways, and against its mirror image, by quadrature.
func TestSubsampledGaussianDominatesRealPairs(t *testing.T) {
	for _, rate := range []float64{.01, .2, .7} {
		for _, mu := range []float64{.2, 1} {
			for _, order := range []float64{1.5, 3, 20} {
				bound := sampledRenyi(rate, 1/mu, order)
				for name, means := range map[string][2]float64{"over base": {mu, 0}, "under base": {0, mu}, "mirrored": {mu / 2, -mu / 2}} {
					if got := mixtureDivergence(rate, means[0], means[1], order); got > bound {
						t.Errorf("%s at rate %v, mu %v, order %v: %v is above %v", name, rate, mu, order, got, bound)
					}
				}
			}
		}
	}
}

// mixtureDivergence is the Renyi divergence between (1-rate) N(0,1) + rate N(p,1)
// and (1-rate) N(0,1) + rate N(q,1).
func mixtureDivergence(rate, p, q, order float64) float64 {
	ratio := func(y, mean float64) float64 { return math.Log1p(rate * math.Expm1(mean*y-mean*mean/2)) }
	var sum logSum
	const step = 1. / 64
	for y := -40 - order; y <= 40+order; y += step {
		sum.add(order*ratio(y, p)+(1-order)*ratio(y, q)-y*y/2, step/math.Sqrt(2*math.Pi))
	}
	return sum.log() / (order - 1)
}

// Extremes fall back to the cost without amplification and stay numbers.
func TestSubsampledGaussianIsSafeAtTheEdges(t *testing.T) {
	for _, rate := range []float64{5e-324, 1e-300, 1e-9, .5, 1 - 1e-16} {
		for _, z := range []float64{5e-324, 1e-200, 1e-9, .01, 1e9, 1e155, 1e300} {
			for _, order := range []float64{1.25, 2, 1024} {
				got := sampledRenyi(rate, z, order)
				if whole := order * gaussianRho(z); !(got > 0) || got > whole*(1+1e-15) {
					t.Errorf("sampledRenyi(%v, %v, %v) = %v; whole %v", rate, z, order, got, whole)
				}
			}
		}
	}
}

func TestSamplingOfOthersIsNotAmplified(t *testing.T) {
	r := new(Renyi)
	for _, e := range []Event{Pure{1}, BoundedRange{1}, ZCDP{.1}, Approx{1, 1e-6}, Compose{Gaussian{1}, Pure{1}}, Sampled{.5, Gaussian{1}}} {
		whole, err := r.Curve(e)
		if err != nil {
			t.Fatal(err)
		}
		sampled, err := r.Curve(Sampled{.01, e})
		if err != nil {
			t.Fatal(err)
		}
		for i := range whole {
			if whole[i] != sampled[i] {
				t.Errorf("Sampled of %#v at order %v: %v; want %v", e, orders[i], sampled[i], whole[i])
				break
			}
		}
	}
	if _, err := r.Curve(Sampled{.01, strange{}}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("Sampled of an unknown event: %v", err)
	}
}

// Gaussians on one batch are one Gaussian there.
func TestSampledGaussiansJoin(t *testing.T) {
	r := new(Renyi)
	one, _ := r.Curve(Sampled{.1, Gaussian{1}})
	for _, e := range []Event{Repeat{4, Gaussian{2}}, Compose{Gaussian{math.Sqrt2}, Parallel{Repeat{2, Gaussian{2}}}}} {
		many, err := r.Curve(Sampled{.1, e})
		if err != nil {
			t.Fatal(err)
		}
		for i := range one {
			if many[i] < one[i]*(1-1e-12) || many[i] > one[i]*(1+1e-12) {
				t.Errorf("Sampled of %#v at order %v: %v; want %v", e, orders[i], many[i], one[i])
				break
			}
		}
	}
}

func BenchmarkSampledRenyi(b *testing.B) {
	for b.Loop() {
		sampledRenyi(.01, 1, 8)
	}
}
