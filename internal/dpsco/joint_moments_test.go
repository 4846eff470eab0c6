package dpsco

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"
)

// jointFits are the fits of each kind: much information and little, with and without what
// intervals are made of, a penalty, an active ball.
func jointFits() map[string]JointMoments {
	return map[string]JointMoments{
		"a step":          {Bound: 2, Scale: 1, Meat: true},
		"low information": {Bound: 2, Scale: 1, LowInformation: true},
		"a penalty":       {Bound: 2, Scale: 1, Psi: prox.Sum{A: prox.L1{Lambda: 0.1}, B: prox.L2Ball{Radius: 2}}},
		"an active ball":  {Bound: 2, Scale: 0.1, LowInformation: true, Psi: prox.L2Ball{Radius: 0.1}, Meat: true},
		"another scale":   {Bound: 5, Scale: 1e6, Meat: true},
		"a smaller bound": {Bound: 0.01, Scale: 1e-6, Meat: true},
	}
}

// planOf is a plan of a fit at a noise multiplier.
func planOf(t *testing.T, f fit, s table.Shape, z float64) *plan.Plan {
	t.Helper()
	g, err := f.at(s, z)
	if err != nil {
		t.Fatal(err)
	}
	return planOfStage(g, s)
}

// planOfStage is a plan that makes a stage for data of a shape, in the units from which the stage has moved columns.
func planOfStage(g *stage, s table.Shape) *plan.Plan {
	p := &plan.Plan{Event: g.event, Shape: s}
	return p.WithRun(func(ctx context.Context, x table.Data, src *mech.Source) (release.Result, error) {
		r, err := g.run(ctx, x, src)
		for _, units := range []*Scaled{r.moved, r.found} {
			if units != nil {
				r.Each(units.unscaleResult)
			}
		}
		return r.Result, err
	})
}

// One replaced row moves the integers of every release by no more than its noise
// is scaled to hide, exactly, and given the answers nothing else; every kind of
// release is moved by most of that by some pair.
func TestJointMomentsReplays(t *testing.T) {
	testReplays(t, jointFits(), func(JointMoments) bool { return false })
}

// testReplays replays fits on small neighbours, whose targets are labels where the fit says so.
func testReplays[F fit](t *testing.T, fits map[string]F, labels func(F) bool) {
	t.Helper()
	largest := map[string]float64{}
	for name, a := range fits {
		r := rand.New(rand.NewPCG(3, uint64(len(name))))
		for k := range 120 {
			s := table.Shape{N: 1 + r.IntN(23), D: 1 + k%3, Intercept: k%2 == 0}
			x, y := plantest.Neighbours(r, s, labels(a))
			if n, newton := any(a).(Newton); newton && n.Curve.counted() != nil {
				plantest.AsCounts(r, &x, &y)
			}
			z := []float64{0.01, 0.3, 3}[k%3]
			shares, err := plantest.Replay(t, func() *plan.Plan { return planOf(t, a, s, z) }, x, y)
			if err != nil {
				t.Fatalf("%s, pair %d: %v", name, k, err)
			}
			for kind, share := range shares {
				largest[kind] = max(largest[kind], share)
			}
		}
	}
	reachTheirBounds(t, largest)
}

// reachTheirBounds reports kinds of releases, of which the proofs know three, that no pair moves by most of
// what is allowed.
func reachTheirBounds(t *testing.T, largest map[string]float64) {
	t.Helper()
	if len(largest) != 3 {
		t.Errorf("releases of kinds %v; the proof knows three", largest)
	}
	for kind, share := range largest {
		t.Logf("%-40s %.4f", kind, share)
		if share < 0.7 {
			t.Errorf("%s: no pair moves it by more than %v of what is allowed", kind, share)
		}
	}
}

// Every way to be wrong is found by a replay.
func TestJointMomentsReplaysRefuteMutants(t *testing.T) {
	a := JointMoments{Bound: 2, Scale: 1, Meat: true}
	const z = 0.3
	for name, mutant := range map[string]func(r *jointReleases, x table.Data, f *jointFit, p *plan.Plan) (twice bool){
		"nothing": func(*jointReleases, table.Data, *jointFit, *plan.Plan) bool { return false },
		"half of the noise": func(r *jointReleases, _ table.Data, _ *jointFit, _ *plan.Plan) bool {
			r.stepNoise.NoiseMultiplier /= 2
			return false
		},
		"a share used twice": func(_ *jointReleases, _ table.Data, _ *jointFit, p *plan.Plan) bool { return true },
		"a release is not charged": func(_ *jointReleases, _ table.Data, _ *jointFit, p *plan.Plan) bool {
			p.Event = p.Event.(privacy.Compose)[1:]
			return false
		},
		"a bound read from the data": func(_ *jointReleases, x table.Data, f *jointFit, _ *plan.Plan) bool {
			f.bound = 1e-3 + math.Abs(x.Y[0])
			return false
		},
		"a cut read from the data": func(_ *jointReleases, x table.Data, f *jointFit, _ *plan.Plan) bool {
			f.cut = 1e-3
			for _, y := range x.Y {
				if math.Abs(y) <= 1e9 {
					f.cut = max(f.cut, math.Abs(y))
				}
			}
			return false
		},
	} {
		var found error
		r := rand.New(rand.NewPCG(2, 2))
		for range 60 {
			s := table.Shape{N: 23, D: 2}
			x, y := plantest.Neighbours(r, s, false)
			_, err := plantest.Replay(t, func() *plan.Plan {
				releases, err := a.releases(s, z)
				if err != nil {
					t.Fatal(err)
				}
				p := planOf(t, a, s, z)
				twice := mutant(releases, x, newJointFit(releases), p)
				p.WithRun(func(_ context.Context, x table.Data, src *mech.Source) (release.Result, error) {
					a := newJointParts(releases, x)
					mutant(releases, x, a.fits[0], &plan.Plan{Event: p.Event})
					for t := range pilotPasses {
						a.pilot(t, src)
					}
					a.step(src)
					if twice {
						a.step(src)
					}
					return a.fits[0].finish(), nil
				})
				return p
			}, x, y)
			if err != nil {
				found = err
			}
		}
		if (found == nil) != (name == "nothing") {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// A row counts once in every sum: added twice it would move some by more than is
// allowed.
func TestARowTwiceInJointMomentsIsSeen(t *testing.T) {
	a := JointMoments{Bound: 2, Scale: 1, Meat: true}
	s, double := table.Shape{N: 11, D: 2}, table.Shape{N: 22, D: 2}
	r := rand.New(rand.NewPCG(5, 5))
	caught := 0
	for range 40 {
		x, y := plantest.Neighbours(r, s, false)
		if _, err := plantest.Replay(t, func() *plan.Plan { return planOf(t, a, double, 0.3) }, twice(x), twice(y)); err != nil {
			caught++
		}
	}
	if caught == 0 {
		t.Error("two rows that change together pass for one")
	}
}

// twice is every row of x two times.
func twice(x table.Data) table.Data {
	c := plantest.Clone(x)
	c.N *= 2
	c.Y = append(c.Y, x.Y...)
	for j := range c.X {
		c.X[j] = append(c.X[j], x.X[j]...)
	}
	return c
}

// What rows hand to a mechanism is within its contract before the mechanism cuts it,
// and the residual is shortened with its row: then weighted moments fit together.
func TestJointRowsKeepTheirContracts(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for range 3000 {
		s := table.Shape{N: 1, D: 1 + r.IntN(4), Intercept: r.IntN(2) == 0}
		x, _ := plantest.Neighbours(r, s, false)
		rows := newRowBlock(s.D)
		p := make([][]float64, s.D)
		for j := range p {
			for range j + 1 {
				p[j] = append(p[j], r.NormFloat64())
			}
		}
		w := make([]float64, s.D)
		rows.load(x, p, w)
		if math.IsNaN(rows.length[0]) != math.IsNaN(rows.e[0]) {
			t.Fatalf("a row of length %v has residual %v", rows.length[0], rows.e[0])
		}
		if !(rows.length[0] > 1e-100) {
			continue // says nothing, or its square underflows: the mechanism has the last word
		}
		bound, cut := math.Exp(3*r.NormFloat64()), math.Exp(3*r.NormFloat64())
		shortened := make([]float64, 1)
		m := mech.NewMoments(mech.MomentContract{Bound: jointBound, N: 1, D: s.D + 1})
		rows.addPilot(m, bound, cut, shortened)
		row := 0.0
		for _, v := range rows.joint[:s.D] {
			row += v[0] * v[0]
		}
		last := rows.joint[s.D][0]
		if row > 1+1e-9 || math.Abs(last) > residualWeight*(1+1e-9) {
			t.Fatalf("lengths %v and %v", row, last)
		}
		if want := shortened[0] * residualWeight / cut * max(-cut, min(rows.e[0], cut)); math.Abs(last-want) > 1e-9 {
			t.Fatalf("residual %v beside a row shortened by %v", last, shortened[0])
		}
		rows.addMeat(mech.NewMoments(mech.MomentContract{Bound: math.Sqrt2, N: 1, D: s.D + 1}), []float64{0.7}, cut, bound, true)
		row = 0
		for _, v := range rows.joint[:s.D] {
			row += v[0] * v[0]
		}
		if row > 1+1e-9 || math.Abs(rows.joint[s.D][0]) > 1+1e-9 {
			t.Fatalf("meat of lengths %v and %v", row, rows.joint[s.D][0])
		}
	}
}

// What is planned is what is spent, within the budget, under each accountant.
func TestJointMomentsCostWhatTheyRelease(t *testing.T) {
	total := 0.0
	for t := range pilotPasses {
		total += jointShares.moments[t] + jointShares.residuals[t] + jointShares.lengths[t]
	}
	total += jointShares.products + jointShares.step + jointShares.intercept + jointShares.meat
	if math.Abs(total-1) > 1e-12 {
		t.Errorf("shares add up to %v", total)
	}
	for name, a := range jointFits() {
		for _, s := range []table.Shape{{N: 1000, D: 4, Intercept: true}, {N: 1000, D: 4, Intercept: false}} {
			p := planOf(t, a, s, 3)
			cost, err := privacy.Price(p.Event)
			if err != nil || math.Abs(cost.Rho*2*9-1) > 1e-9 {
				t.Errorf("%s: rho %v of %v, %v", name, cost.Rho, 1./18, err)
			}
		}
	}
	for _, accountant := range []privacy.Accountant{privacy.Concentrated{}, privacy.AtOrder{Order: 32, Renyi: new(privacy.Renyi)}} {
		for _, n := range []int{1000, 30_000, 1_000_000} {
			p := plantest.Plan(t, Regression{Loss: loss.Squared{}, Method: catalogue.MethodJointMoments}, table.Shape{N: n, D: 5, Intercept: true}, privacy.Budget{Epsilon: 1, Delta: 1e-6}, accountant)
			spent, err := accountant.Epsilon(p.Event, 1e-6-privacy.Reserve(1e-6))
			if err != nil || spent > 1 || spent < 0.999 {
				t.Errorf("%d rows: spends %v, %v", n, spent, err)
			}
		}
	}
}

// doesNotDependOnCoresOrOrder tells where cores or the order of rows change a bit of what a makes of x.
func doesNotDependOnCoresOrOrder(t *testing.T, name string, a fit, x table.Data) {
	t.Helper()
	run := func(x table.Data) []float64 {
		w, err := coefficients(planOf(t, a, x.Shape, 1).Run(t.Context(), plantest.Clone(x), mechtest.Source(t, 1)))
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	all := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(all)
	want := run(x)
	for cores := 1; cores <= 8; cores++ {
		runtime.GOMAXPROCS(cores)
		if got := run(x); !slices.Equal(got, want) {
			t.Errorf("%s: %v on %d cores, %v on %d", name, got, cores, want, all)
		}
	}
	runtime.GOMAXPROCS(all)
	if got := run(x.Pick(rand.New(rand.NewPCG(7, 7)).Perm(x.N))); !slices.Equal(got, want) {
		t.Errorf("%s: %v in another order, %v", name, got, want)
	}
}

func TestJointMomentsDoNotDependOnCoresOrOrder(t *testing.T) {
	x := normalTable(1, 9000, 1, 2, -1)
	x.X[0][17], x.Y[40], x.X[1][5000] = math.NaN(), math.Inf(1), 1e300
	for name, a := range jointFits() {
		doesNotDependOnCoresOrOrder(t, name, a, x)
	}
}

// Rows that hold no numbers, or too large ones, are all the same row.
func TestRowsWithoutNumbersAreOneRowToJointMoments(t *testing.T) {
	x := normalTable(1, 4000, 0.1, 2, -1)
	run := func(bad func(k int, x table.Data)) []float64 {
		c := plantest.Clone(x)
		for k := range 400 {
			bad(k, c)
		}
		w, err := coefficients(planOf(t, JointMoments{Bound: 2, Scale: 1, Meat: true}, x.Shape, 0.1).Run(t.Context(), c, mechtest.Source(t, 1)))
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	want := run(func(k int, x table.Data) { x.Y[k*10] = math.NaN() })
	for j, v := range []float64{1, 2, -1} {
		if math.Abs(want[j]-v) > 0.05 { // a tenth of the rows is missing, not zero
			t.Errorf("%v", want)
			break
		}
	}
	for name, bad := range map[string]func(k int, x table.Data){
		"missing features":   func(k int, x table.Data) { x.X[k%2][k*10] = math.NaN() },
		"infinite":           func(k int, x table.Data) { x.X[k%2][k*10] = math.Inf(1 - 2*(k%3)) },
		"an infinite target": func(k int, x table.Data) { x.Y[k*10] = math.Inf(-1) },
		"overflow":           func(k int, x table.Data) { x.X[k%2][k*10] = 1e200 },
		"all of it":          func(k int, x table.Data) { x.Y[k*10], x.X[0][k*10], x.X[1][k*10] = math.NaN(), math.NaN(), math.Inf(1) },
	} {
		if got := run(bad); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// Integers on a grid of 2^-20 leave least squares what it is: with hardly any noise,
// the coefficients of an exact fit.
func TestRoundingOfJointMoments(t *testing.T) {
	for n, near := range map[int]float64{2000: 1e-4, 200_000: 1e-5} {
		x := normalTable(2, n, 1, 2, -1, 0.001)
		exact := exactLeastSquares(x)
		w, err := coefficients(planOf(t, JointMoments{Bound: 3, Scale: 1, Meat: true}, x.Shape, 0x1p-10).Run(t.Context(), plantest.Clone(x), mechtest.Source(t, 1)))
		if err != nil {
			t.Fatal(err)
		}
		for j := range w {
			if math.Abs(w[j]-exact.w[j]) > near {
				t.Errorf("%d rows: %v, want %v", n, w, exact.w)
				break
			}
		}
	}
}

// auto follows a public rule, and other models have no such method.
func TestAutoChoosesJointMomentsByAPublicRule(t *testing.T) {
	for _, c := range []struct {
		n    int
		want float64 // steps
		on   string
	}{{200_000, 1, catalogue.WhiteningOn}, {10_000, 1, catalogue.WhiteningOn}, {2000, 100, catalogue.WhiteningOff}} {
		for _, penalty := range []string{catalogue.PenaltyNone, catalogue.PenaltyL1} {
			p, err := Regression{Loss: loss.Squared{}, Penalty: penalty, Lambda: 0.1}.Plan(table.Shape{N: c.n, D: 5, Intercept: true}, privacy.Budget{Epsilon: 0.3, Delta: 1e-6}, privacy.Concentrated{})
			if err != nil || p.Parameters["steps"] != c.want || p.Parameters["whitening"] != c.on || p.Method != catalogue.MethodAuto {
				t.Errorf("%d rows: %v, %v", c.n, p.Parameters, err)
			}
		}
	}
	_, err := Regression{Loss: loss.Logistic{}, Labels: true, Method: catalogue.MethodJointMoments}.Plan(table.Shape{N: 1000, D: 5, Intercept: true}, privacy.Budget{Epsilon: 1, Delta: 1e-6}, privacy.Concentrated{})
	if !errors.Is(err, plan.ErrParameter) {
		t.Errorf("logistic: %v", err)
	}
	if _, err := Recipe("huber", map[string]any{"method": catalogue.MethodJointMoments}, nil); !errors.Is(err, plan.ErrParameter) {
		t.Errorf("huber: %v", err)
	}
}

// With hardly any noise a penalised fit, one within a small ball and one without an
// intercept are those of the exact problem, on skewed and correlated features.
func TestJointMomentsSolveThePenalisedProblem(t *testing.T) {
	x := drawLaw("cond", 20_000, 5, 3)
	for j := range x.X[1] {
		x.X[1][j] *= 3
	}
	ones := plantest.Clone(x)
	ones.X, ones.Intercept = append([][]float64{slices.Repeat([]float64{1}, x.N)}, ones.X...), false
	ball := prox.L2Ball{Radius: 100}
	for name, psi := range map[string]prox.Operator{
		"l1":                        prox.ExceptFirst{Operator: prox.L1{Lambda: 0.02}},
		"l2":                        prox.ExceptFirst{Operator: prox.L2{Lambda: 0.1}},
		"elastic net":               prox.ExceptFirst{Operator: prox.ElasticNet{L1: 0.01, L2: 0.05}},
		"group l1":                  prox.ExceptFirst{Operator: prox.GroupL1{Lambda: 0.01, Groups: [][]int{{0, 1}, {2}}}},
		"an l1 that leaves nothing": prox.ExceptFirst{Operator: prox.L1{Lambda: 10}},
		"no penalty":                prox.Zero{},
	} {
		want := exact(loss.Squared{}, psi, plantest.Clone(x))
		for layout, table := range map[string]table.Data{"intercept": x, "a column of ones": ones} {
			for _, low := range []bool{false, true} {
				a := JointMoments{Bound: 3.4, Scale: 1, LowInformation: low, Psi: prox.Sum{A: psi, B: ball}}
				w, err := coefficients(planOf(t, a, table.Shape, 0x1p-10).Run(t.Context(), plantest.Clone(table), mechtest.Source(t, 1)))
				if err != nil {
					t.Fatal(err)
				}
				for j := range w {
					if math.Abs(w[j]-want[j]) > 2e-3 {
						t.Errorf("%s, %s, low %v: %v, want %v", name, layout, low, w, want)
						break
					}
				}
			}
		}
	}
	small := prox.L2Ball{Radius: 0.7}
	want := exact(loss.Squared{}, small, plantest.Clone(x))
	w, err := coefficients(planOf(t, JointMoments{Bound: 3.4, Scale: 1, Psi: small}, x.Shape, 0x1p-10).Run(t.Context(), plantest.Clone(x), mechtest.Source(t, 1)))
	if err != nil {
		t.Fatal(err)
	}
	for j := range w {
		if math.Abs(w[j]-want[j]) > 2e-3 {
			t.Errorf("in a small ball: %v, want %v", w, want)
			break
		}
	}
}

// A direction of a rare flag, whose rows are shortened, is stretched to a quarter at least: its rows may count until it
// holds 1 + maxRestored, not only until they would if it had been stretched to 1.
func TestShortenedRowsAreGivenBackUpToAnOvershoot(t *testing.T) {
	for _, least := range []float64{0.01, 0.1, 0.2, 0.25, 0.5, 0.9, 1, 1.2} {
		restored := restoredShare(0, least)
		held := (least + (1-least)*restored) / max(least, shortenedEigenvalue)
		if restored < 0 || restored > 1 || held > 1+maxRestored+1e-12 || restored < 1 && held < 1+maxRestored-1e-12 {
			t.Errorf("smallest moment %v: rows count %v, the direction holds %v", least, restored, held)
		}
	}
	if restored := restoredShare(2, 0.9); restored != maxRestored/2 {
		t.Errorf("rows that hold twice the second moments beyond the bound count %v", restored)
	}
}
