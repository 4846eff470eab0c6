package dpsco

import (
	"math"
	"math/rand/v2"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/stat/distuv"
)

// What both methods of l1 release has the law of the epsilon that is charged,
// and not of another one: the tests below know the event and the public
// parameters of a plan, the printed law, and nothing of the code that draws.
// Every comparison fails by chance with probability 1e-9 were the seeds not
// fixed; there are fewer than 100.
const lawChance = 1e-9

// l1Tables are shapes with tables of normal numbers.
func l1Tables(shapes ...table.Shape) (tables []table.Data) {
	r := rand.New(rand.NewPCG(7, 7))
	for _, s := range shapes {
		x := table.Data{Shape: s, X: table.NewColumns(s.Columns(), s.N), Y: make([]float64, s.N)}
		for i := range s.N {
			plantest.SetRow(x, i, func(int) float64 { return r.NormFloat64() })
		}
		tables = append(tables, x)
	}
	return tables
}

// chargedEpsilon is that of a plan's event.
func chargedEpsilon(t *testing.T, e privacy.Event) float64 {
	cost, err := privacy.Price(e)
	if err != nil || cost.Delta != 0 {
		t.Fatalf("%+v costs %+v, %v", e, cost, err)
	}
	return cost.Epsilon
}

// released draws what a request releases, many times.
func released(t *testing.T, a L1, x table.Data, epsilon float64, draws int, src *mech.Source, visit func(p *plan.Plan, w []float64)) {
	for range draws {
		p := plantest.Plan(t, a, x.Shape, privacy.Budget{Epsilon: epsilon}, privacy.PureSum{})
		w, err := coefficients(p.Run(t.Context(), plantest.Clone(x), src))
		if err != nil {
			t.Fatal(err)
		}
		visit(p, w)
	}
}

// residualOf is y_i less the prediction.
func residualOf(x table.Data, i int, w []float64) float64 {
	r := x.Y[i]
	if x.Intercept {
		r, w = r-w[0], w[1:]
	}
	for j, v := range w {
		r -= x.X[j][i] * v
	}
	return r
}

// On a box of three values a coefficient, all points can be listed. The mean of
// the scores drawn is what epsilon makes it, in as many draws as tell epsilon
// from its half and its double.
func TestTheExponentialMechanismHasTheChargedEpsilon(t *testing.T) {
	src := mechtest.Source(t, 1)
	most := distuv.UnitNormal.Quantile(1 - lawChance/2)
	for _, x := range l1Tables(table.Shape{N: 60, D: 2, Intercept: true}, table.Shape{N: 90, D: 3, Intercept: false}) {
		for _, epsilon := range []float64{.3, .6} {
			a := L1{Method: catalogue.MethodExponential, Radius: 1, Pitch: 1, Set: catalogue.SetBox, Iota: .5, Theta: 1.5 + .5*float64(x.D%2)}
			score := truncatedScore(x, a.Theta, a.Iota)
			mean, deviation := lawOfScore(x, score, epsilon)
			draws := 0
			for _, mutant := range []float64{epsilon / 2, 2 * epsilon} {
				m, _ := lawOfScore(x, score, mutant)
				draws = max(draws, int(math.Pow(1.6*most*deviation/(m-mean), 2)))
			}
			if draws > 10_000 {
				t.Errorf("%+v at %v would need %d draws", x.Shape, epsilon, draws)
			}
			sum, charged := 0.0, 0.0
			released(t, a, x, epsilon, draws, src, func(p *plan.Plan, w []float64) {
				charged = chargedEpsilon(t, p.Event)
				sum += score(w)
			})
			off := func(epsilon float64) float64 {
				mean, deviation := lawOfScore(x, score, epsilon)
				return math.Abs(sum/float64(draws)-mean) / deviation * math.Sqrt(float64(draws))
			}
			if off(charged) > most {
				t.Errorf("%+v at %v: the mean score is %.1f standard errors from that of the charged epsilon", x.Shape, epsilon, off(charged))
			}
			if off(2*charged) <= most || off(charged/2) <= most {
				t.Errorf("%+v at %v: the test has no power", x.Shape, epsilon)
			}
		}
	}
}

// truncatedScore returns w -> sum_i psi(iota |r_i|) / (2 log theta), whose range
// for one record is a half: replacing one moves it by that at most.
func truncatedScore(x table.Data, theta, iota float64) func(w []float64) float64 {
	return func(w []float64) (sum float64) {
		for i := range x.N {
			u := math.Min(1, iota*math.Abs(residualOf(x, i, w)))
			sum -= math.Log(1-u+math.Pow(u, theta)/theta) / (2 * math.Log(theta))
		}
		return sum
	}
}

// lawOfScore returns mean and standard deviation of the score of a point of
// {-1, 0, 1}^D drawn with probability proportional to exp(-epsilon score).
func lawOfScore(x table.Data, score func(w []float64) float64, epsilon float64) (mean, deviation float64) {
	var scores []float64
	least := math.Inf(1)
	w := make([]float64, x.D)
	for k := range int(math.Pow(3, float64(x.D))) {
		for j := range w {
			w[j] = float64(k%3) - 1
			k /= 3
		}
		scores = append(scores, score(w))
		least = math.Min(least, scores[len(scores)-1])
	}
	var mass, first, second float64
	for _, v := range scores {
		p := math.Exp(-epsilon * (v - least))
		mass, first, second = mass+p, first+p*v, second+p*v*v
	}
	mean = first / mass
	return mean, math.Sqrt(second/mass - mean*mean)
}

// The minimiser w of objective perturbation tells the noise b: the gradient of
// the rest at w is -b. The length of b over its scale 2 Clip/eps is Gamma of D,
// eps being epsilon less what the grid takes, a 64th at most; and where no row
// says anything, w is b over the ridge 1.5 sqrt(3) Clip^2/(eps Smoothing). Both
// together are what epsilon follows from (Lemma 1 of objpert.md).
func TestObjectivePerturbationHasTheChargedEpsilon(t *testing.T) {
	src := mechtest.Source(t, 2)
	for _, x := range l1Tables(table.Shape{N: 200, D: 1, Intercept: false}, table.Shape{N: 100, D: 1, Intercept: true}, table.Shape{N: 200, D: 3, Intercept: true}, table.Shape{N: 400, D: 4, Intercept: false}) {
		silent := table.Data{Shape: table.Shape{N: 1, D: x.D, Intercept: x.Intercept}, X: table.NewColumns(x.Columns(), 1), Y: []float64{nan}}
		for _, epsilon := range []float64{.2, 1, 5} {
			a, draws := L1{Method: catalogue.MethodObjective, Radius: 1e6, Pitch: 0x1p-26}, 600/x.D
			var length, silentLength, charged float64
			released(t, a, x, epsilon, draws, src, func(p *plan.Plan, w []float64) {
				charged = chargedEpsilon(t, p.Event)
				clip := p.Parameters["clip"].(float64)
				length += perturbationOf(x, w, clip, p.Parameters["smoothing"].(float64), charged) / (2 * clip)
			})
			released(t, a, silent, epsilon, draws, src, func(p *plan.Plan, w []float64) {
				square := 0.0
				for _, v := range w {
					square += v * v
				}
				silentLength += math.Sqrt(square) * 1.5 * math.Sqrt(3) * p.Parameters["clip"].(float64) / (2 * p.Parameters["smoothing"].(float64))
			})
			law := distuv.Gamma{Alpha: float64(draws * x.D), Beta: 1}
			least, most := law.Quantile(lawChance/2), law.Quantile(1-lawChance/2)
			fits := func(v float64) bool { return v >= least && v <= most*64/63 }
			if !fits(charged * length) {
				t.Errorf("%+v at %v: the noise is %.3f times what is charged for", x.Shape, epsilon, charged*length/law.Alpha)
			}
			if !fits(silentLength) {
				t.Errorf("%+v at %v: the noise over the ridge is %.3f times what it must be", x.Shape, epsilon, silentLength/law.Alpha)
			}
			if fits(charged*length/1.6) || fits(silentLength*1.6) {
				t.Errorf("%+v at %v: the test has no power", x.Shape, epsilon)
			}
		}
	}
}

// perturbationOf returns the length of the gradient at w of what is minimised
// besides <b, w>: that of b.
func perturbationOf(x table.Data, w []float64, clip, smoothing, epsilon float64) float64 {
	ridge := 1.5 * math.Sqrt(3) * clip * clip / (epsilon * smoothing)
	gradient := make([]float64, x.D)
	for j, v := range w {
		gradient[j] = ridge * v
	}
	for i := range x.N {
		row := make([]float64, 0, x.D)
		if x.Intercept {
			row = append(row, 1)
		}
		for _, column := range x.X {
			row = append(row, column[i])
		}
		square := 0.0
		for _, v := range row {
			square += v * v
		}
		f := math.Min(1, clip/math.Sqrt(square))
		r := f * residualOf(x, i, w)
		for j, v := range row {
			gradient[j] -= r / math.Hypot(r, smoothing) * f * v
		}
	}
	square := 0.0
	for _, v := range gradient {
		square += v * v
	}
	return math.Sqrt(square)
}
