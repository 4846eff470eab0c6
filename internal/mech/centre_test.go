package mech

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// adversarial returns m points that lie as smooth bounds dislike.
func adversarial(r *rand.Rand, m int) [][]float64 {
	points := make([][]float64, m)
	kind, share, size := r.IntN(6), r.Float64(), math.Exp(-12*r.Float64())
	for i := range points {
		angle := 2 * math.Pi * r.Float64()
		on := []float64{size * math.Cos(angle), size * math.Sin(angle)} // a circle
		switch kind {
		case 0: // a point mass and others
			if r.Float64() < share {
				on = []float64{0, 0}
			}
		case 1: // a circle around one point
			if i == 0 {
				on = []float64{0, 0}
			}
		case 2: // two clusters
			if 2*i > m {
				on[0] += .7
			}
		case 3:
			on = []float64{size * r.NormFloat64(), size * r.NormFloat64()}
		case 4:
			on = []float64{.1, .2}
		case 5: // a line, ever wider
			on = []float64{math.Exp(-4 * share * float64(i)), 0}
		}
		points[i] = on
	}
	return points
}

// centreBound is a bound on how far one point moves the middle of a cluster.
type centreBound func(c cluster, radiiToAverage int, decay float64) float64

// roughPairs counts adversarial neighbours between which each bound is too small
// or not smooth.
func roughPairs(pairs int, bounds map[string]centreBound) map[string]int {
	r := rand.New(rand.NewPCG(1, uint64(pairs)))
	ball, count := Contract{L2, 1, 1, 2}, map[string]int{}
	for range pairs {
		m := 3 + r.IntN(40)
		decay := math.Log1p(1/float64(1+r.IntN(quorum(m)))) * (1 + 1e-9)
		points := adversarial(r, m)
		x := ball.project(points)
		c := newCluster(x, ball)
		replaced := r.IntN(m)
		if r.IntN(2) == 0 {
			replaced = c.smallestBall()
		}
		points[replaced] = [][]float64{{1, 0}, {-1e300, 1e300}, {0, 0}, points[r.IntN(m)], {math.NaN(), 1}, {r.NormFloat64(), r.NormFloat64()}}[r.IntN(6)]
		y := ball.project(points)
		other := newCluster(y, ball)
		jump := distanceOf(x[c.smallestBall()], y[other.smallestBall()])
		for name, bound := range bounds {
			s, t := bound(c, radiiToAverage(decay), decay), bound(other, radiiToAverage(decay), decay)
			if !(jump <= min(s, t)) || !(math.Abs(math.Log(s/t)) <= 2*decay+0x1p-34) {
				count[name]++
			}
		}
	}
	return count
}

func TestCentreBoundIsSmoothOnAdversarialClusters(t *testing.T) {
	const own = "own"
	count := roughPairs(5000, map[string]centreBound{
		own:               cluster.bound,
		"all radii":       func(c cluster, _ int, decay float64) float64 { return c.bound(len(c.radii), decay) },
		"twice the decay": func(c cluster, a int, decay float64) float64 { return c.bound(a, 2*decay) },
		"no radius beyond m": func(c cluster, a int, decay float64) float64 {
			c.diameter = 0
			return c.bound(a, decay)
		},
	})
	if count[own] > 0 || len(count) != 3 {
		t.Errorf("pairs on which bounds fail: %v; all but %q must", count, own)
	}
}

// A circle around one point loses that point: its radius is the least by a factor
// of sqrt2, and a bound without the mean over several would jump by that.
func TestTheLeastRadiusIsNotSmooth(t *testing.T) {
	const m, decay = 201, .1
	ball := Contract{L2, 1, 1, 2}
	points := make([][]float64, m)
	for i := range points {
		angle := 2 * math.Pi * float64(i) / (m - 1)
		points[i] = []float64{math.Cos(angle) / 10, math.Sin(angle) / 10}
	}
	points[m-1] = []float64{0, 0}
	c := newCluster(ball.project(points), ball)
	points[m-1] = []float64{.1, 0}
	other := newCluster(ball.project(points), ball)
	moved := func(radiiToAverage int) float64 {
		return math.Abs(math.Log(c.bound(radiiToAverage, decay) / other.bound(radiiToAverage, decay)))
	}
	if got := moved(radiiToAverage(decay)); got > 2*decay {
		t.Errorf("the bound moves by e^%v", got)
	}
	if got := moved(1); got <= 2*decay {
		t.Errorf("without the mean it moves by e^%v: the test has no power", got)
	}
}

// The bound is what its formula says, and positive where all points agree.
func TestCentreBoundIsItsDefinition(t *testing.T) {
	const m, decay = 21, .25
	ball := Contract{L2, 1, 1, 1}
	same := make([][]float64, m)
	for i := range same {
		same[i] = []float64{.5}
	}
	c := newCluster(ball.project(same), ball)
	want := (1 + math.Exp(decay)) * math.Exp(-decay*float64(m-quorum(m))) * 0x1p41
	if got := c.bound(radiiToAverage(decay), decay); math.Abs(got/want-1) > 1e-9 {
		t.Errorf("all equal: %v, want %v", got, want)
	}
	r := rand.New(rand.NewPCG(2, 2))
	between := 0
	for trial := range 30 {
		for i := range same { // ever wider, so that the largest term comes early or late
			same[i] = []float64{math.Exp(-12*r.Float64()*float64(trial)/30) * math.Copysign(1, r.NormFloat64())}
		}
		points := ball.project(same)
		want, at := boundByDefinition(points, decay)
		if at > 0 && at < m-quorum(m) {
			between++
		}
		if got := newCluster(points, ball).bound(radiiToAverage(decay), decay); math.Abs(got/want-1) > 1e-9 {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	if between == 0 {
		t.Error("the largest term is always the first or the last: the decay is not tested")
	}
}

// boundByDefinition returns the bound of centre.md for numbers, and which term is
// the largest.
func boundByDefinition(points [][]int64, decay float64) (bound float64, at int) {
	m := len(points)
	for k := range 3 * m {
		least := make([]float64, m)
		for i, p := range points {
			distances := make([]float64, m)
			for j, q := range points {
				distances[j] = math.Abs(float64(p[0] - q[0]))
			}
			least[i] = smallest(distances, quorum(m)+1+k, 0x1p41)
		}
		mean := 0.
		for rank := range radiiToAverage(decay) {
			mean += smallest(least, rank+1, 0) / float64(radiiToAverage(decay))
		}
		if v := (1 + math.Exp(decay)) * math.Exp(-decay*float64(k)) * mean; v > bound {
			bound, at = v, k
		}
	}
	return bound, at
}

// smallest returns the t-th smallest of v, beyond where there is none.
func smallest(v []float64, t int, beyond float64) float64 {
	for _, x := range v {
		below, equal := 0, 0
		for _, y := range v {
			if y < x {
				below++
			} else if y == x {
				equal++
			}
		}
		if below < t && t <= below+equal {
			return x
		}
	}
	return beyond
}

// Tails of the chi-square law, at 2a degrees, against sums of Poisson
// probabilities in 300 bits.
func TestChiSquareTailsAreAccurate(t *testing.T) {
	for _, a := range []int{1, 2, 5, 50, 199, 201, 2048} {
		for z := -7.5; z <= 8; z += .37 {
			x := float64(a) + z*math.Sqrt(float64(a))
			if x <= 0 {
				continue
			}
			lower, upper := poissonTails(a, x)
			if got := mathext.GammaIncReg(float64(a), x); math.Abs(got/lower-1) > tailSlack/20 {
				t.Errorf("P(%d, %v) = %v, want %v", a, x, got, lower)
			}
			if got := mathext.GammaIncRegComp(float64(a), x); math.Abs(got/upper-1) > tailSlack/20 {
				t.Errorf("Q(%d, %v) = %v, want %v", a, x, got, upper)
			}
		}
	}
}

// poissonTails returns P(N >= a) and P(N < a) for N with mean x.
func poissonTails(a int, x float64) (atLeast, below float64) {
	number := func(v float64) *big.Float { return new(big.Float).SetPrec(300).SetFloat64(v) }
	term, head, total := number(1), number(0), number(0)
	for k := 0; k < 2*a+600; k++ {
		if k > 0 {
			term.Quo(term.Mul(term, number(x)), number(float64(k)))
		}
		if k < a {
			head.Add(head, term)
		}
		total.Add(total, term)
	}
	below, _ = new(big.Float).Quo(head, total).Float64()
	atLeast, _ = head.Quo(head.Sub(total, head), total).Float64()
	return atLeast, below
}

// integral is the trapezoid rule, which is at its best for what vanishes at both
// ends.
func integral(from, to float64, f func(x float64) float64) (sum float64) {
	const steps = 60_000
	h := (to - from) / steps
	for k := range steps + 1 {
		sum += f(from+float64(k)*h) * h
	}
	return sum
}

// The closed form is the integral of the excess of one density over e^epsilon times
// the other, in either direction: in three dimensions, by radius.
func TestDilationDeltaIsTheDivergence(t *testing.T) {
	density := func(x, scale float64) float64 {
		x /= scale
		return math.Sqrt(2/math.Pi) * x * x * math.Exp(-x*x/2) / scale
	}
	for _, c := range []struct{ epsilon, b float64 }{{0, .1}, {.1, .2}, {.5, .1}, {1, .5}, {.05, .02}} {
		worst := 0.
		for _, b := range []float64{c.b, -c.b} {
			worst = max(worst, integral(0, 40, func(x float64) float64 {
				return max(0, density(x, 1)-math.Exp(c.epsilon)*density(x, math.Exp(b)))
			}))
		}
		if got := dilationDelta(c.epsilon, c.b, 3); math.Abs(got-worst) > 1e-8 {
			t.Errorf("%+v: %v, want %v", c, got, worst)
		}
	}
}

// exactDelta is the delta, at epsilon, of N(0, 1) against N(shift, e^(2b)), for b of
// the worse sign.
func exactDelta(epsilon, shift, b float64) float64 {
	against := func(b float64) float64 {
		p, q := distuv.UnitNormal, distuv.Normal{Mu: shift, Sigma: math.Exp(b)}
		return integral(-12, 12, func(x float64) float64 { return max(0, p.Prob(x)-math.Exp(epsilon)*q.Prob(x)) })
	}
	return max(against(b), against(-b))
}

// What neighbours can differ by costs at most Delta, exactly; with half the noise,
// or a bound half as smooth, it would cost more.
func TestCentreDeltaIsNearlyUsed(t *testing.T) {
	for _, c := range []Centre{{1, 1e-6, 1}, {.3, 1e-4, 1}, {4, 1e-8, 1}} {
		shift, decay := c.calibrate(1)
		got, half, rough := exactDelta(c.Epsilon, shift, 2*decay), exactDelta(c.Epsilon, 2*shift, 2*decay), exactDelta(c.Epsilon, shift, 4*decay)
		t.Logf("%+v: delta %.2g, with half the noise %.2g, half as smooth %.2g", c, got, half, rough)
		if got > c.Delta {
			t.Errorf("%+v: delta %v", c, got)
		}
		if half <= c.Delta || rough <= c.Delta {
			t.Errorf("%+v: the test has no power: deltas %v and %v", c, half, rough)
		}
	}
}

// The constants are about twice the printed ones at delta = 1e-6.
func TestCentreCalibration(t *testing.T) {
	for _, d := range []int{1, 3, 10} {
		c := Centre{1, 1e-6, 1}
		shift, _ := c.calibrate(d)
		if kappa := shift * 5 * math.Sqrt(2*math.Log(2e6)); kappa < 2 || kappa > 2.2 {
			t.Errorf("d = %d: kappa = %v", d, kappa)
		}
	}
}

func TestCentreReleaseIsNearTheMajority(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	const m, d = 900, 2
	points := make([][]float64, m)
	for i := range points {
		points[i] = []float64{3 + 1e-3*r.NormFloat64(), -1 + 1e-3*r.NormFloat64()}
		if i%4 == 0 {
			points[i] = []float64{[]float64{1e300, math.NaN(), math.Inf(-1), -9}[i/4%4], 5}
		}
	}
	got := make([]float64, d)
	c := Centre{2, 1e-6, 10}
	c.Release(got, points, testSource(t, 1))
	if math.Hypot(got[0]-3, got[1]+1) > .5 {
		t.Errorf("released %v", got)
	}
	for i := range points { // no majority: the answer stays in the ball
		points[i] = []float64{20 * r.NormFloat64(), 20 * r.NormFloat64()}
	}
	c.Release(got, points, testSource(t, 2))
	if math.Hypot(got[0], got[1]) > 10*(1+1e-12) {
		t.Errorf("released %v outside the ball", got)
	}
	if c.Event() != (privacy.Approx{Epsilon: 2, Delta: 1e-6}) || c.Arithmetic() != Float64Grid {
		t.Error("wrong event or mark")
	}
}

// The noise of a centre has the standard deviation bound/shift, here of points
// that agree. The sum of its squares is chi-square; with fixed seeds it fails when
// the code changes, with others with probability 1e-9. Half the noise is a quarter
// of the sum.
func TestCentreReleaseAddsTheNoiseOfItsBound(t *testing.T) {
	const m, d, draws = 60, 2, 500
	c := Centre{20, 1e-4, 1}
	points := make([][]float64, m)
	for i := range points {
		points[i] = []float64{.25, -.125}
	}
	shift, decay := c.calibrate(d)
	std := c.ball(d).inUnits(big.NewInt(1)) / shift * newCluster(c.ball(d).project(points), c.ball(d)).bound(radiiToAverage(decay), decay)
	if std > .05 {
		t.Fatalf("noise of %v leaves the ball", std)
	}
	src, square, got := testSource(t, 5), 0.0, make([]float64, d)
	for range draws {
		c.Release(got, points, src)
		square += (math.Pow(got[0]-.25, 2) + math.Pow(got[1]+.125, 2)) / (std * std)
	}
	law := distuv.ChiSquared{K: d * draws}
	if square < law.Quantile(5e-10) || square > law.Quantile(1-5e-10) {
		t.Errorf("the noise's variance is %v times what it must be", square/law.K)
	}
}

func TestNearestIsExactlyNormal(t *testing.T) {
	src := testSource(t, 4)
	draws := make([]float64, 20_000)
	for i := range draws {
		v, _ := new(big.Float).SetInt(nearest(1000, big.NewRat(1e9, 7), src.Normal())).Float64()
		draws[i] = (v - 1000) * 7 / 1e9
	}
	if !fitsLaw(draws, distuv.UnitNormal.CDF) {
		t.Error("wrong noise")
	}
	if fitsLaw(draws, distuv.Normal{Sigma: .95}.CDF) || fitsLaw(draws, distuv.Normal{Sigma: 2}.CDF) {
		t.Error("the test has no power")
	}
}

func TestCentreBlocks(t *testing.T) {
	c := Centre{1, 1e-6, 1}
	for _, k := range []struct{ n, d, want int }{
		{1_000_000, 3, 737}, // enough
		{40_000, 3, 666},    // capped at 20 records a dimension
		{10_000, 3, 166},    // still valid
	} {
		if m, err := c.Blocks(k.n, k.d, .01); m != k.want || err != nil {
			t.Errorf("%+v: %d points, %v", k, m, err)
		}
	}
	if m, err := c.Blocks(5000, 3, .01); !errors.Is(err, ErrParams) {
		t.Errorf("%d points are too few, but %v", m, err)
	}
}

func TestCentreChecksItsParameters(t *testing.T) {
	good := Centre{1, 1e-6, 1}
	shift, decay := good.calibrate(3)
	least := 2*radiiToAverage(decay) - 3
	if err := good.Check(least, 3); err != nil || shift <= 0 {
		t.Error(err)
	}
	if err := good.Check(least-1, 3); !errors.Is(err, ErrParams) {
		t.Errorf("one point less: %v", err)
	}
	for _, c := range []Centre{{0, 1e-6, 1}, {math.NaN(), 1e-6, 1}, {21, 1e-6, 1}, {1, 0, 1}, {1, .2, 1}, {1, math.NaN(), 1}, {1, 1e-6, 0}, {1, 1e-6, math.Inf(1)}} {
		if err := c.Check(1000, 3); !errors.Is(err, ErrParams) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, k := range [][2]int{{2, 1}, {5001, 1}, {1000, 0}, {1000, 4097}} {
		if err := good.Check(k[0], k[1]); !errors.Is(err, ErrParams) {
			t.Errorf("%d points of length %d: %v", k[0], k[1], err)
		}
	}
	if !panics(func() { good.Release(make([]float64, 3), make([][]float64, 5), testSource(t, 1)) }) {
		t.Error("too few points are released")
	}
}

func BenchmarkCentre(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 5))
	points := make([][]float64, 1000)
	for i := range points {
		for range 10 {
			points[i] = append(points[i], r.NormFloat64()/100)
		}
	}
	dst, src := make([]float64, 10), testSource(b, 1)
	for b.Loop() {
		Centre{1, 1e-6, 1}.Release(dst, points, src)
	}
}
