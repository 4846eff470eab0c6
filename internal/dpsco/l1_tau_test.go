package dpsco

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/floats"
)

// Fits of the median are, to the last bit, what they were before there were other quantiles; those in stages since they look for the length of long rows.
func TestTheMedianIsTheDefault(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // of one the exponential mechanism draws other proposals, of the same law
	for method, want := range map[string][]float64{
		catalogue.MethodStaged:      {0x1.f6accbf338d1bp-02, 0x1.2359aa8a2e008p-01},
		catalogue.MethodObjective:   {0x1.eb328bp-02, 0x1.2a805fp-01},
		catalogue.MethodExponential: {0x1.5c7p-02, 0x1.1597p-01},
	} {
		for _, tau := range []float64{0, .5} {
			x := drawLaw("gauss", 3000, 2, 1)
			if got := quantileFit(t, L1{Method: method, Tau: tau}, x, 1, mechtest.Source(t, 5)); !slices.Equal(got, want) {
				t.Errorf("%s, tau %v: %x, want %x", method, tau, got, want)
			}
		}
	}
}

func quantileFit(t *testing.T, a L1, x table.Data, epsilon float64, src *mech.Source) []float64 {
	p := plantest.Plan(t, a, x.Shape, privacy.Budget{Epsilon: epsilon}, privacy.PureSum{})
	w, err := coefficients(p.Run(t.Context(), plantest.Clone(x), src))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// shareBelow is that of rows whose target is below its prediction.
func shareBelow(x table.Data, w []float64) float64 {
	below := 0.0
	for i := range x.N {
		if residualOf(x, i, w) < 0 {
			below++
		}
	}
	return below / float64(x.N)
}

// tauLaws are laws, and how far from tau the share of residuals below may be. They are in one order: fits share a source.
var tauLaws = []struct {
	law string
	off float64
}{{"gauss", .02}, {"skew", .02}, {"heavy", .03}}

// The share of residuals below is tau. Bounds are about twice what was seen; seeds are fixed.
func TestQuantilesCoverTheirShare(t *testing.T) {
	src := mechtest.Source(t, 3)
	for _, c := range tauLaws {
		x := drawLaw(c.law, 20_000, 4, 2)
		for _, tau := range []float64{.1, .25, .75, .9} {
			if share := shareBelow(x, quantileFit(t, L1{Tau: tau}, x, 1, src)); math.Abs(share-tau) > c.off {
				t.Errorf("%s: %.4f of residuals are below the quantile %v", c.law, share, tau)
			}
		}
	}
	x := drawLaw("gauss", 5000, 2, 2)
	share := shareBelow(x, quantileFit(t, L1{Tau: .9, Method: catalogue.MethodObjective}, x, 3, src))
	if math.Abs(share-.9) > .05 {
		t.Errorf("objective perturbation: %.4f below the quantile .9", share)
	}
}

// It is tau too where half of the rows are unusable. Bounds are about twice what was seen; seeds are fixed.
func TestQuantilesAmongUnusableRows(t *testing.T) {
	src := mechtest.Source(t, 5)
	for _, c := range tauLaws {
		x := drawLaw(c.law, 40_000, 4, 2)
		usable := x.Pick(firsts(20_000))
		for i := usable.N; i < x.N; i++ {
			x.Y[i] = math.NaN()
		}
		for _, tau := range []float64{.1, .9} {
			share := shareBelow(usable, quantileFit(t, L1{Tau: tau}, x, 1, src))
			t.Logf("| %s | %v | %.4f |", c.law, tau, share)
			if math.Abs(share-tau) > c.off {
				t.Errorf("%s: %.4f of residuals are below the quantile %v", c.law, share, tau)
			}
		}
	}
}

// It is tau, of weights, where rows have them: even ones, heavy-tailed ones, ones far below the largest that they may be, and ones that go with a
// feature. It was .21 below the quantile .1 of even ones and up to .05 off elsewhere. Bounds are about twice what was seen; seeds are fixed.
func TestQuantilesCoverTheirShareOfWeights(t *testing.T) {
	src, r := mechtest.Source(t, 6), rand.New(rand.NewPCG(6, 21))
	weights := []func(x float64) float64{
		func(float64) float64 { return .25 + .75*r.Float64() },
		func(float64) float64 { return .05 * min(20, math.Pow(1-r.Float64(), -1/1.3)) },
		func(float64) float64 { return .02 + .08*r.Float64() },
		func(x float64) float64 { return sigmoid(2 * x) },
	}
	for _, law := range []struct {
		name string
		off  float64
	}{{"gauss", .02}, {"skew", .025}, {"heavy", .03}} {
		for k, weight := range weights {
			x := drawLaw(law.name, 20_000, 4, 2)
			x.Weight = mapSlice(x.X[0], weight)
			for _, tau := range []float64{.1, .25, .75, .9} {
				w := quantileFit(t, L1{Tau: tau, MaxWeight: 1}, x, 1, src)
				below, all := 0.0, 0.0
				for i, v := range x.Weight {
					if all += v; residualOf(x, i, w) < 0 {
						below += v
					}
				}
				t.Logf("| %s | %d | %v | %.4f |", law.name, k, tau, below/all)
				if math.Abs(below/all-tau) > law.off {
					t.Errorf("%s, weights %d: %.4f of weights are below the quantile %v", law.name, k, below/all, tau)
				}
			}
		}
	}
}

// It is tau too where targets are far from 0, beside what they spread: the rough fit is then short of quantiles on the near side and
// beyond those on the other. Bounds are about twice what was seen; seeds are fixed.
func TestQuantilesOfTargetsFarFromZero(t *testing.T) {
	src := mechtest.Source(t, 7)
	for _, c := range []struct{ level, epsilon float64 }{{6, .3}, {-6, .3}, {15, 1}, {-15, 1}} {
		x := drawLaw("gauss", 20_000, 4, 2)
		floats.AddConst(c.level, x.Y)
		for _, tau := range []float64{.1, .25, .75, .9} {
			share := shareBelow(x, quantileFit(t, L1{Tau: tau}, x, c.epsilon, src))
			t.Logf("| %v | %v | %.4f |", c.level, tau, share)
			if math.Abs(share-tau) > .018 {
				t.Errorf("targets around %v: %.4f of residuals are below the quantile %v", c.level, share, tau)
			}
		}
	}
}

// With too little information for the shift to the quantile the rough fit is not left for what noise says: the mean loss of a low quantile is not far above the
// least, with weights and without. It was .25 to .32 above it. Bounds are about twice what was seen; seeds are fixed.
func TestLowQuantilesOfLittleInformation(t *testing.T) {
	src, r := mechtest.Source(t, 8), rand.New(rand.NewPCG(6, 21))
	for _, weighted := range []bool{false, true} {
		x, a := drawLaw("skew", 20_000, 4, 2), L1{Tau: .1}
		if weighted {
			x.Weight, a.MaxWeight = mapSlice(x.Y, func(float64) float64 { return .25 + .75*r.Float64() }), 1
		}
		loss := func(w []float64) (sum float64) {
			for i := range x.Y {
				weight, residual := 1.0, residualOf(x, i, w)
				if weighted {
					weight = x.Weight[i]
				}
				sum += weight * max(a.Tau*residual, (a.Tau-1)*residual)
			}
			return sum
		}
		least, mean := loss(quantileFit(t, a, x, 1e4, src)), 0.0
		for range 20 {
			mean += loss(quantileFit(t, a, x, .1, src)) / 20
		}
		t.Logf("weights %v: %.4f", weighted, mean/least-1)
		if mean > 1.1*least {
			t.Errorf("weights %v: the mean loss is %.4f above the least", weighted, mean/least-1)
		}
	}
}

// Where few rows lie beyond a quantile and residuals are small beside the target's scale, the fit is near it: it was above .93 to 1 of the rows at the
// quantile .9, and its mean loss 1.5 to 540 % above the least, when the shift to the quantile was looked for with more rows only. Medians of five draws; the bound is
// about twice the largest that was seen. Seeds are fixed.
func TestQuantilesOfSmallResiduals(t *testing.T) {
	src := mechtest.Source(t, 12)
	for _, size := range []float64{.3, .1} {
		for _, c := range []struct {
			tau, epsilon float64
			n            int
			most         float64
		}{{.9, .3, 10_000, .8}, {.9, 1, 3000, .8}, {.95, 1, 6000, .8}, {.1, 1, 3000, .8}} {
			r := rand.New(rand.NewPCG(1, 12))
			x := table.Data{Shape: table.Shape{N: c.n, D: 4, Intercept: true}, X: table.NewColumns(3, c.n), Y: make([]float64, c.n)}
			for i := range c.n {
				x.X[0][i], x.X[1][i], x.X[2][i] = r.NormFloat64(), r.ExpFloat64(), float64(r.IntN(2))
				x.Y[i] = .3 + .6*x.X[0][i] - .3*x.X[1][i] + .2*x.X[2][i] + size*r.NormFloat64()
			}
			least := pinball(x, []float64{.3 + size*math.Sqrt2*math.Erfinv(2*c.tau-1), .6, -.3, .2}, c.tau)
			var all, shares []float64
			for range 5 {
				w := quantileFit(t, L1{Tau: c.tau}, x, c.epsilon, src)
				all, shares = append(all, 100*(pinball(x, w, c.tau)/least-1)), append(shares, shareBelow(x, w))
			}
			slices.Sort(all)
			slices.Sort(shares)
			t.Logf("| %v | %v | %d | %v | %.3f | %.2f |", size, c.tau, c.n, c.epsilon, shares, all[2])
			if all[2] > c.most {
				t.Errorf("residuals of %v scales: at eps %v the median loss at the quantile %v is %.2f %% above the least", size, c.epsilon, c.tau, all[2])
			}
		}
	}
}

// The same on real tables. A quarter of hours is an atom of the target: no share tells.
func TestQuantilesOnRealTables(t *testing.T) {
	folder := os.Getenv("DPSIDECAR_DATA")
	if folder == "" {
		t.Skip("DPSIDECAR_DATA names no folder with the data sets")
	}
	src := mechtest.Source(t, 4)
	for _, task := range medianTasks {
		if task.name != "claims" && task.name != "california" && task.name != "hours" {
			continue
		}
		x := task.load(t, folder)
		for _, tau := range []float64{.25, .75, .9, .95} {
			if task.name == "hours" && tau < .5 {
				continue
			}
			share := shareBelow(x, quantileFit(t, L1{Tau: tau}, x, 1, src))
			t.Logf("| %s | %v | %.4f |", task.name, tau, share)
			if math.Abs(share-tau) > .025 {
				t.Errorf("%s: %.4f of residuals are below the quantile %v", task.name, share, tau)
			}
		}
	}
}

// The exact sampler is for medians: asked for another quantile it is refused with what
// serves, and auto takes another method.
func TestOtherQuantilesTakeOtherMethods(t *testing.T) {
	s, b := table.Shape{N: 500, D: 3, Intercept: true}, privacy.Budget{Epsilon: .1}
	if _, err := (L1{Tau: .9, Method: catalogue.MethodExponential}).Plan(s, b, privacy.PureSum{}); !errors.Is(err, plan.ErrParameter) {
		t.Errorf("exponential mechanism: %v", err)
	}
	p, err := L1{Tau: .9}.Plan(s, b, privacy.PureSum{})
	if err != nil || p.Method != catalogue.MethodObjective || p.Parameters["tau"] != .9 {
		t.Errorf("auto: %v, %v", p, err)
	}
	for _, tau := range []float64{-1, .001, 1, 2, math.NaN()} {
		if _, err := (L1{Tau: tau}).Plan(s, b, privacy.PureSum{}); !errors.Is(err, plan.ErrParameter) {
			t.Errorf("tau %v: %v", tau, err)
		}
	}
}

// pinball is the mean loss of a fit of the quantile tau.
func pinball(x table.Data, w []float64, tau float64) (mean float64) {
	for i := range x.N {
		residual := residualOf(x, i, w)
		mean += max(tau*residual, (tau-1)*residual) / float64(x.N)
	}
	return mean
}

// Fits go to the best one as epsilon grows, also far out and where residuals spread with a feature, in a hundredth or in all of the target's scale. Before
// the rough fit went only a part of the way they were 11 and 131 % above the least loss at eps 1, .5 % at 10. Bounds are about four times what was seen; seeds are fixed.
func TestQuantilesFarOutArrive(t *testing.T) {
	src, r := mechtest.Source(t, 9), rand.New(rand.NewPCG(9, 21))
	for _, unit := range []float64{1, .01} {
		x := drawLaw("gauss", 30_000, 6, 2)
		for i := range x.N {
			x.Y[i] = unit * (x.Y[i] + math.Abs(x.X[0][i])*(math.Exp(r.NormFloat64())-1))
		}
		for _, tau := range []float64{.05, .9, .95} {
			least := pinball(x, quantileFit(t, L1{Tau: tau}, x, 1e4, src), tau)
			for _, c := range []struct{ epsilon, most float64 }{{1, .6}, {10, .03}} {
				excess := 100 * (pinball(x, quantileFit(t, L1{Tau: tau}, x, c.epsilon, src), tau)/least - 1)
				t.Logf("| %v | %v | %v | %.3f |", unit, tau, c.epsilon, excess)
				if excess > c.most {
					t.Errorf("residuals of %v scales: at eps %v the mean loss at the quantile %v is %.3f %% above the least", unit, c.epsilon, tau, excess)
				}
			}
		}
	}
}

// Where the quantile is the largest value there is, which many rows have, all numbers beyond it are quantiles of residuals, and all smoothings up to the
// next value are as good: the fit stays near it. Losses of ratings were 3 to 16 times the least when these were looked for near the target's scale.
// The bound is about twice what was seen; seeds are fixed.
func TestQuantilesOfRatings(t *testing.T) {
	src, r := mechtest.Source(t, 10), rand.New(rand.NewPCG(10, 21))
	for _, step := range []float64{1, .3, .1} {
		x := drawLaw("gauss", 50_000, 4, 2)
		for i := range x.N {
			x.Y[i] = step * math.Round(numeric.ClampBetween(.7*r.NormFloat64()+.1*x.X[0][i]+.6, -2, 1))
		}
		for _, tau := range []float64{.9, .95} {
			over := pinball(x, quantileFit(t, L1{Tau: tau}, x, 1, src), tau) / pinball(x, []float64{step, 0, 0, 0}, tau)
			if t.Logf("| %v | %v | %.4f |", step, tau, over); over > 1.35 {
				t.Errorf("ratings %v apart: the mean loss at the quantile %v is %.4f of that of the highest", step, tau, over)
			}
		}
	}
}

// A flag of few rows costs a quantile far out little: the refinement keeps it small, as the rough one does. Where it saw the flag as whitened, the
// median loss at eps 10 was .5 to 1.6 % above the least, ten times what it was without that fit; .12 now.
// The bound is about three times what was seen; seeds are fixed.
func TestQuantilesOfRareFlags(t *testing.T) {
	src, x := mechtest.Source(t, 11), drawLaw("flags", 12_000, 5, 2)
	for _, tau := range []float64{.05, .95} {
		least := pinball(x, quantileFit(t, L1{Tau: tau}, x, 1e4, src), tau)
		var all []float64
		for range 9 {
			all = append(all, 100*(pinball(x, quantileFit(t, L1{Tau: tau}, x, 10, src), tau)/least-1))
		}
		slices.Sort(all)
		if t.Logf("| %v | %.3f |", tau, all[4]); all[4] > .35 {
			t.Errorf("the mean loss at the quantile %v is %.3f %% above the least in the median", tau, all[4])
		}
	}
}

// A ladder leaves time for the third fit of a quantile of many rows.
func TestTheNearerFitIsForeseen(t *testing.T) {
	s := table.Shape{N: 400_000, D: 8, Intercept: true}
	takes := func(tau float64) float64 { return newStaged(L1{Tau: tau}.withDefaults(s, 1), s, 1).seconds() }
	if median, far := takes(.5), takes(.95); far < 1.4*median {
		t.Errorf("%v s are foreseen for the quantile .95, %v for the median", far, median)
	}
}
