package objpert

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dpsidecar/internal/mech/mechtest"
)

func TestValidateNamesWhatIsWrong(t *testing.T) {
	good := Params{1, 2, .3, 0x1p-26, true, 0, 1}
	if err := good.Validate(1, 1); err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(p *Params, n, d *int){
		func(p *Params, n, d *int) { p.Epsilon = 0 },
		func(p *Params, n, d *int) { p.Epsilon = math.NaN() },
		func(p *Params, n, d *int) { p.Epsilon = math.Inf(1) },
		func(p *Params, n, d *int) { p.Clip = -1 },
		func(p *Params, n, d *int) { p.Clip = math.Inf(1) },
		func(p *Params, n, d *int) { p.Smoothing = 0 },
		func(p *Params, n, d *int) { p.Smoothing = math.NaN() },
		func(p *Params, n, d *int) { p.Pitch = .3 },
		func(p *Params, n, d *int) { p.Pitch = 0 },
		func(p *Params, n, d *int) { p.Tilt = 1 },
		func(p *Params, n, d *int) { p.Short = 2.1 },
		func(p *Params, n, d *int) { p.Short = -1 },
		func(p *Params, n, d *int) { p.Short = math.NaN() },
		func(p *Params, n, d *int) { p.Tilt = math.NaN() },
		func(p *Params, n, d *int) { *n = 0 },
		func(p *Params, n, d *int) { *d = 0 },
		func(p *Params, n, d *int) { *d = maxColumns + 1 },
	} {
		p, n, d := good, 10, 2
		change(&p, &n, &d)
		if err := p.Validate(n, d); !errors.Is(err, errParams) {
			t.Errorf("%+v, n = %d, d = %d: %v", p, n, d, err)
		}
	}
}

// minimiserShare is what the plan leaves of Epsilon for the exact minimiser.
func (pl plan) minimiserShare(epsilon float64, d int) float64 {
	return epsilon - math.Ldexp(float64(d), -int(pl.shift))
}

// excess is the largest loss of the proof's Lemma 2 less what was promised: at
// most 0 for a valid plan. Residuals are smoothing tan(phi).
func (pl plan) excess(p Params, d int) float64 {
	beta, kappa := 1/pl.noise, p.curviest()/pl.ridge
	worst := 0.0
	for phi := -math.Pi / 2; phi <= math.Pi/2; phi += 1e-4 {
		loss := beta*p.Clip*math.Abs(math.Sin(phi)+p.Tilt) + math.Log1p(kappa*math.Pow(math.Cos(phi), 3))
		worst = math.Max(worst, loss)
	}
	return beta*p.Clip*(1+math.Abs(p.Tilt)) + worst - pl.minimiserShare(p.Epsilon, d)
}

func TestPlanSatisfiesThePrivacyInequality(t *testing.T) {
	for _, eps := range []float64{1e-9, 1e-3, .1, 1, 5, 20, 1000} {
		for k, d := range []int{1, 4, 100, 1, 4, 4} {
			p := Params{eps, 1.7, .3, 0x1p-26, true, []float64{0, 0, 0, .9, -.4, 0}[k], []float64{0, 0, 0, 0, .3, .2}[k]}
			pl := p.newPlan(d)
			if pl.excess(p, d) > 0 || pl.minimiserShare(eps, d) < eps*(1-1.0/gapShare) {
				t.Errorf("eps = %v, d = %d: plan %+v breaks the inequality by %g", eps, d, pl, pl.excess(p, d))
			}
			for name, mutant := range map[string]plan{
				"half the noise":               {pl.ridge, pl.noise / 2, pl.gap, pl.shift},
				"half the ridge":               {pl.ridge / 2, pl.noise, pl.gap, pl.shift},
				"the median's noise and ridge": {pl.ridge / p.steepest() * (1 - 0x1p-30), pl.noise / p.steepest() * (1 - 0x1p-30), pl.gap, pl.shift},
			} {
				if strings.HasPrefix(name, "the median") && p.Tilt == 0 {
					continue
				}
				if eps <= 5 && mutant.excess(p, d) <= 0 { // beyond, the closed form of the ridge is not tight
					t.Errorf("eps = %v: %s passes", eps, name)
				}
			}
		}
	}
}

// logDensity is that of the exact minimiser for one coefficient: b = -F'(w), so
// log F”(w) - |F'(w)| / noise up to a constant of the plan.
func logDensity(p Params, pl plan, x, y []float64, w float64) float64 {
	o := objective{records: newRecords([][]float64{slices.Clone(x)}, slices.Clone(y), p), plan: pl, tilt: p.Tilt, bNear: []float64{0}}
	at := o.at([]float64{w}, newton)
	return math.Log(at.h.At(0, 0)) - math.Abs(at.g[0])/pl.noise
}

// smoothingAt is the smoothing of a row of one feature.
func (p Params) smoothingAt(x float64) float64 {
	return p.Smoothing * math.Max(1, math.Pow(math.Min(math.Abs(x), p.Clip)/p.short(), 2))
}

// worstLoss searches neighbouring tables and outputs for the largest privacy
// loss: rows whose residual at w is their smoothing tan(phi), wild rows, and some
// rows in common.
func worstLoss(p Params, pl plan) float64 {
	rng := rand.New(rand.NewPCG(5, 5))
	worst := 0.0
	for _, w := range []float64{0, .1, 1, 10, 1000} {
		var rows [][2]float64
		for _, x := range []float64{p.Clip, -p.Clip, p.Clip / 3, 5 * p.Clip} {
			for _, phi := range []float64{-1.57, -1, -.52, 0, .3, .52, .7, .9, 1.2, 1.57} {
				rows = append(rows, [2]float64{x, w*x + p.smoothingAt(x)*math.Tan(phi)})
			}
		}
		rows = append(rows, [2]float64{math.NaN(), 1}, [2]float64{1e300, 1e308}, [2]float64{1, -math.MaxFloat64}, [2]float64{0, 0})
		for _, common := range []int{0, 1, 5} {
			x, y := make([]float64, common+1), make([]float64, common+1)
			for i := range common {
				x[i], y[i] = rng.NormFloat64(), 3*rng.NormFloat64()
			}
			least, most := math.Inf(1), math.Inf(-1)
			for _, row := range rows {
				x[common], y[common] = row[0], row[1]
				l := logDensity(p, pl, x, y, w)
				least, most = math.Min(least, l), math.Max(most, l)
			}
			worst = math.Max(worst, most-least)
		}
	}
	return worst
}

func TestAuditOnNeighbouringTables(t *testing.T) {
	for k, eps := range []float64{.1, 1, 5, .1, 1, 5, .1, 1, 5, 1} {
		p := Params{eps, 1.5, .3, 0x1p-26, false, []float64{0, 0, 0, .8, -.8, .5, 0, 0, 0, .8}[k], []float64{0, 0, 0, 0, 0, 0, .3, .3, 1, .3}[k]}
		pl := p.newPlan(1)
		loss := worstLoss(p, pl)
		if least := map[bool]float64{true: .95, false: .75}[p.Tilt == 0]; loss > pl.minimiserShare(eps, 1) || loss < least*eps {
			t.Errorf("eps = %v, tilt %v: the worst loss found is %v", eps, p.Tilt, loss)
		}
		if p.Tilt != 0 {
			if l := worstLoss(p, Params{eps, 1.5, .3, 0x1p-26, false, 0, p.Short}.newPlan(1)); l <= eps {
				t.Errorf("eps = %v, tilt %v: the plan of the median passes the audit with %v", eps, p.Tilt, l)
			}
		}
		if l := worstLoss(p, plan{pl.ridge, pl.noise / 2, pl.gap, pl.shift}); l <= eps {
			t.Errorf("eps = %v: half the noise passes the audit with %v", eps, l)
		}
		if l := worstLoss(p, plan{pl.ridge / 2, pl.noise, pl.gap, pl.shift}); l <= eps {
			t.Errorf("eps = %v: half the ridge passes the audit with %v", eps, l)
		}
	}
}

// Two computed minimisers within gap of a common point are at most one step
// apart on the grid, in every coordinate: what the noise on the grid pays for.
func TestGapIsOneStepOnTheGrid(t *testing.T) {
	p := Params{1, 1.5, .3, 0x1p-10, false, 0, 0}
	pl := p.newPlan(3)
	rng := rand.New(rand.NewPCG(6, 6))
	for range 100_000 {
		w := rng.NormFloat64() * .01
		a := onGrid(big.NewFloat(w+pl.gap), p.Pitch, new(big.Int))
		b := onGrid(big.NewFloat(w-pl.gap), p.Pitch, new(big.Int))
		if a-b > p.Pitch {
			t.Fatalf("around %v: %v and %v are %v steps apart", w, a, b, (a-b)/p.Pitch)
		}
	}
	if share := 3 * math.Ldexp(1, -int(pl.shift)); share > p.Epsilon/gapShare {
		t.Errorf("the gap costs %v of %v", share, p.Epsilon)
	}
}

// What Draw releases has the audited density. With one coefficient F' increases
// and w = F'^-1(-b), so P(W <= w) is the Laplace distribution function at F'(w).
func TestDrawHasTheAuditedLaw(t *testing.T) {
	for k, tilt := range []float64{0, .7, .2} {
		testAuditedLaw(t, Params{1, 1.5, .3, 0x1p-26, false, tilt, []float64{0, 0, .6}[k]})
	}
}

func testAuditedLaw(t *testing.T, p Params) {
	x, y := []float64{1, -.5, 3, math.NaN(), 1}, []float64{2, 1, 5, 1, -1e300}
	pl := p.newPlan(1)
	o := objective{records: newRecords([][]float64{slices.Clone(x)}, slices.Clone(y), p), plan: pl, tilt: p.Tilt, bNear: []float64{0}}
	src := mechtest.Source(t, 7)
	draws := make([]float64, 20_000)
	for i := range draws {
		w, err := Draw(background, p, [][]float64{slices.Clone(x)}, slices.Clone(y), src)
		if err != nil {
			t.Fatal(err)
		}
		draws[i] = w[0]
	}
	law := func(noise float64) func(float64) float64 {
		return func(w float64) float64 {
			z := o.at([]float64{w}, newton).g[0] / noise
			if z < 0 {
				return math.Exp(z) / 2
			}
			return 1 - math.Exp(-z)/2
		}
	}
	if !fitsLaw(draws, law(pl.noise)) {
		t.Error("the released coefficient does not have the audited law")
	}
	if fitsLaw(draws, law(pl.noise*1.1)) {
		t.Error("the test has no power against 10% less noise")
	}
}

func TestDrawWorksOnDegenerateTables(t *testing.T) {
	nan := math.NaN()
	for name, table := range map[string]struct {
		x [][]float64
		y []float64
	}{
		"one row":          {[][]float64{{1}}, []float64{2}},
		"constant columns": {[][]float64{{5, 5, 5}, {5, 5, 5}}, []float64{1, 1, 1}},
		"all missing":      {[][]float64{{nan, nan}}, []float64{nan, nan}},
		"huge":             {[][]float64{{1e308, -1e308}}, []float64{1e308, math.MaxFloat64}},
		"huge target":      {[][]float64{{1, 2}}, []float64{1e308, -math.MaxFloat64}},
		"tiny":             {[][]float64{{5e-324, -5e-324}}, []float64{5e-324, 0}},
		"no features":      {nil, []float64{1, 2, 3}},
	} {
		for _, eps := range []float64{0x1p-40, 1e-3, 1, 1e6} {
			src := mechtest.Source(t, 8)
			x := make([][]float64, len(table.x))
			for j := range x {
				x[j] = slices.Clone(table.x[j])
			}
			w, err := Draw(background, Params{eps, 1, .3, 0x1p-26, true, 0, 0}, x, slices.Clone(table.y), src)
			if err != nil || len(w) != len(x)+1 || !finite(w) {
				t.Errorf("%s at eps = %v: %v, %v", name, eps, w, err)
			}
		}
	}
}

// lognormal is a heavy-tailed design with a constant, coefficients of norm 2 in
// a uniform direction and centred lognormal noise; the minimal risk is 1.12.
func lognormal(seed uint64, n, d int) (x [][]float64, y []float64) {
	rng := rand.New(rand.NewPCG(seed, uint64(n*100+d)))
	w := make([]float64, d)
	for j := range w {
		w[j] = rng.NormFloat64()
	}
	scale := 2 / norm(w)
	x, y = make([][]float64, d-1), make([]float64, n)
	for j := range x {
		x[j] = make([]float64, n)
	}
	for i := range y {
		y[i] = scale*w[0] + math.Exp(rng.NormFloat64()) - 1
		for j := range x {
			x[j][i] = math.Exp(rng.NormFloat64())
			y[i] += scale * w[j+1] * x[j][i]
		}
	}
	return x, y
}

func risk(w []float64, x [][]float64, y []float64) float64 {
	sum := 0.0
	for i := range y {
		r := y[i] - w[0]
		for j := range x {
			r -= w[j+1] * x[j][i]
		}
		sum += math.Abs(r)
	}
	return sum / float64(len(y))
}

// leastRisk is the risk without privacy: no noise, next to no ridge or smoothing.
func leastRisk(x [][]float64, y []float64) float64 {
	o := objective{records: newRecords(x, y, Params{Clip: 1e9, Smoothing: .02, Intercept: true}), plan: plan{ridge: 1e-6, gap: 1e5}}
	o.bNear = make([]float64, len(x)+1)
	w, _, _ := o.descend(background)
	return risk(w, x, y)
}

// The mean excess is .0025 and .0004 over many draws; the bounds are twice
// that. The seeds are fixed, so it fails only when the code changes.
func TestDrawIsAccurate(t *testing.T) {
	src := mechtest.Source(t, 9)
	for _, c := range []struct {
		n, d, tables int
		smoothing    float64
		bound        float64
	}{{10_000, 4, 10, .3, .005}, {100_000, 10, 2, .15, .0008}} {
		mean := 0.0
		for seed := range c.tables {
			x, y := lognormal(uint64(seed), c.n, c.d)
			least := leastRisk(x, y)
			w, err := Draw(background, Params{1, .75 * math.Sqrt(float64(c.d)), c.smoothing, 0x1p-26, true, 0, 0}, x, y, src)
			if err != nil {
				t.Fatal(err)
			}
			mean += (risk(w, x, y) - least) / float64(c.tables)
		}
		t.Logf("n = %d, d = %d: mean excess risk %.4f", c.n, c.d, mean)
		if mean > c.bound {
			t.Errorf("n = %d, d = %d: mean excess risk %.4f, expected at most %.4f", c.n, c.d, mean, c.bound)
		}
	}
}

func BenchmarkDraw(b *testing.B) {
	src := mechtest.Source(b, 10)
	for range b.N {
		b.StopTimer()
		x, y := lognormal(1, 100_000, 10)
		b.StartTimer()
		if _, err := Draw(background, Params{1, .75 * math.Sqrt(10), .15, 0x1p-26, true, 0, 0}, x, y, src); err != nil {
			b.Fatal(err)
		}
	}
}

// What would have been released without noise lies outside the band as often as
// it says where nothing narrower holds, on rows that say nothing, and hardly ever
// where rows add curvature. Seeds are fixed; another one would fail with
// probability 6e-7, five standard deviations of a binomial count.
func TestBandHoldsWhatThereWouldBeWithoutNoise(t *testing.T) {
	const draws, outside = 4000, .05
	nan := math.NaN()
	p := Params{1, 1.5, .3, 0x1p-26, false, 0, 0}
	src := mechtest.Source(t, 8)
	missed := func(x [][]float64, y []float64, radius float64) (misses float64) {
		clone := func() [][]float64 { return [][]float64{slices.Clone(x[0]), slices.Clone(x[1])} }
		quiet := objective{records: newRecords(clone(), slices.Clone(y), p), plan: p.newPlan(2), tilt: p.Tilt, bNear: []float64{0, 0}}
		w0 := []float64{0, 0}
		for range 100 {
			w0 = quiet.at(w0, majorise).next()
		}
		if g := norm(quiet.at(w0, newton).g); g > 1e-9 {
			t.Fatalf("without noise the gradient is %v", g)
		}
		for range draws {
			w, err := Draw(background, p, clone(), slices.Clone(y), src)
			if err != nil {
				t.Fatal(err)
			}
			if math.Hypot(w[0]-w0[0], w[1]-w0[1]) > radius {
				misses++
			}
		}
		return misses
	}
	most := draws*outside + 5*math.Sqrt(draws*outside*(1-outside))
	empty, none := [][]float64{{nan}, {nan}}, []float64{nan}
	band := p.Band(2, outside)
	if misses := missed(empty, none, band); misses > most || misses < 2*draws*outside-most {
		t.Errorf("%v of %d draws are outside the band on a table that says nothing; want about %v", misses, draws, draws*outside)
	}
	if misses := missed(empty, none, .9*band); misses <= most {
		t.Errorf("the test has no power against a band narrower by a tenth: %v outside", misses)
	}
	if misses := missed([][]float64{{1, -2, .5, 30}, {0, 1, 3, -4}}, []float64{1, -300, 2, 1e9}, band); misses > most {
		t.Errorf("%v of %d draws are outside the band", misses, draws)
	}
}
