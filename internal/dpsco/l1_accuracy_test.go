package dpsco

import (
	"compress/gzip"
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// The experiments run small by default; DPSIDECAR_EXPERIMENTS=full gives the
// figures of the documentation and wants -timeout 3h. Seeds are fixed: they fail
// when the code changes, not by chance.
var full = os.Getenv("DPSIDECAR_EXPERIMENTS") == "full"

// Mean excess risk on the law of lognormalTable. Bounds are 1.25 times the best
// iota known for each case.
func TestL1IsAccurateOnHeavyTails(t *testing.T) {
	for _, c := range []struct {
		n, d, tables, draws int
		eps, bound          float64
		small               bool
	}{
		{1000, 2, 4, 3, 1, .03, true},
		{10_000, 4, 20, 10, .1, 1.25 * .019, false},
		{10_000, 4, 20, 10, 1, 1.25 * .0030, false},
		{10_000, 4, 20, 10, 5, 1.25 * .0010, false},
	} {
		if c.small == full {
			continue
		}
		for _, method := range []string{catalogue.MethodAuto, catalogue.MethodObjective} {
			var means []float64
			for seed := range c.tables {
				x := lognormalTable(uint64(seed), c.n, c.d)
				means = append(means, stat.Mean(excessRisks(t, L1{Method: method}, x, c.eps, c.draws), nil))
			}
			mean, deviation := stat.MeanStdDev(means, nil)
			t.Logf("n = %d, d = %d, eps = %g, %s: mean excess risk %.4f, standard error %.4f", c.n, c.d, c.eps, method, mean, deviation/math.Sqrt(float64(c.tables)))
			if method == catalogue.MethodAuto && mean > c.bound {
				t.Errorf("expected at most %.4f", c.bound)
			}
		}
	}
}

// With many coefficients and few rows a fit is not much worse than the median of the target alone. Where smoothing did not
// follow the number of coefficients it had 1.16 to 4 times its risk.
func TestL1OfManyCoefficientsDoesNotFollowItsNoise(t *testing.T) {
	src := mechtest.Source(t, 3)
	for _, c := range []struct {
		n, features int
		eps, most   float64
	}{{5000, 100, 1, 1.05}, {5000, 100, .3, 1.1}, {1500, 30, .5, 1.05}, {600, 12, .3, 1.1}} {
		r := rand.New(rand.NewPCG(4, uint64(c.n)))
		x := table.Data{Shape: table.Shape{N: c.n, D: 1 + c.features, Intercept: true}, Y: make([]float64, c.n)}
		for range c.features {
			column, slope := make([]float64, c.n), r.NormFloat64()/math.Sqrt(float64(c.features))
			for i := range column {
				column[i] = r.NormFloat64()
				x.Y[i] += slope * column[i] * .5
			}
			x.X = append(x.X, column)
		}
		for i := range x.Y {
			x.Y[i] += .3 + .7*r.NormFloat64()
		}
		constant := make([]float64, x.D)
		constant[0] = .3
		mean := 0.
		const draws = 4
		for range draws {
			p := plantest.Plan(t, L1{}, x.Shape, privacy.Budget{Epsilon: c.eps}, privacy.PureSum{})
			w, err := coefficients(p.Run(context.Background(), plantest.Clone(x), src))
			if err != nil {
				t.Fatal(err)
			}
			mean += risk(w, x) / risk(constant, x) / draws
		}
		t.Logf("%d rows, %d features, eps %v: %.3f times the risk of the median alone", c.n, c.features, c.eps, mean)
		if mean > c.most {
			t.Errorf("expected at most %v", c.most)
		}
	}
}

// Median excess risk on real tables, in scaled units and as a share of the least
// risk. The scales are public knowledge about the columns.
func TestL1IsAccurateOnRealData(t *testing.T) {
	folder := os.Getenv("DPSIDECAR_DATA")
	if folder == "" {
		t.Skip("DPSIDECAR_DATA names no folder with the data sets")
	}
	type scaled struct {
		column string
		scale  float64
	}
	for _, task := range []struct {
		name, file string
		target     scaled
		features   []scaled
		small      bool // runs by default too
	}{
		{"claims", "aus_auto_bi.csv.gz", scaled{"claim_amount", 30000}, []scaled{{"op_time", 50}, {"legal_rep", 1}, {"n_injured", 1}}, true},
		{"blog", "blogfeedback_core.csv.gz", scaled{"target_comments_24h", 10},
			[]scaled{{"blog_avg_comments_last24h", 10}, {"comments_last24h", 10}, {"links_last24h", 5}, {"hours_since_publication", 40}}, false},
	} {
		if !task.small && !full {
			continue
		}
		column := readCSV(t, filepath.Join(folder, task.file))
		take := func(s scaled) []float64 {
			v := slices.Clone(column[s.column])
			floats.Scale(1/s.scale, v)
			return v
		}
		x := table.Data{Shape: table.Shape{N: len(column[task.target.column]), D: len(task.features) + 1, Intercept: true}, Y: take(task.target)}
		for _, f := range task.features {
			x.X = append(x.X, take(f))
		}
		least := risk(leastDeviations(x), x)
		epsilons, draws, bound := []float64{1}, 3, .04
		if full {
			epsilons, draws, bound = []float64{.1, 1, 5}, 20, .02
		}
		for _, eps := range epsilons {
			for _, method := range []string{catalogue.MethodAuto, catalogue.MethodObjective} {
				start := time.Now()
				excess := excessRisks(t, L1{Method: method}, x, eps, draws)
				slices.Sort(excess)
				share := stat.Quantile(.5, stat.Empirical, excess, nil) / least
				t.Logf("%s, eps = %g, %s: median excess %.2f%% of %.4f, %.2gs a draw", task.name, eps, method, 100*share, least, time.Since(start).Seconds()/float64(draws))
				if method == catalogue.MethodAuto && eps == 1 && share > bound {
					t.Errorf("expected at most %g%%", 100*bound)
				}
			}
		}
	}
}

func excessRisks(t *testing.T, a L1, x table.Data, eps float64, draws int) []float64 {
	least := risk(leastDeviations(x), x)
	src := mechtest.Source(t, 1)
	excess := make([]float64, draws)
	for i := range excess {
		p := plantest.Plan(t, a, x.Shape, privacy.Budget{Epsilon: eps}, privacy.PureSum{})
		copied := table.Data{Shape: x.Shape, Y: slices.Clone(x.Y)}
		for _, column := range x.X {
			copied.X = append(copied.X, slices.Clone(column))
		}
		w, err := coefficients(p.Run(context.Background(), copied, src))
		if err != nil {
			t.Fatal(err)
		}
		excess[i] = risk(w, x) - least
	}
	return excess
}

// lognormalTable has a constant and lognormal features, coefficients of norm 2
// uniform in direction and centred lognormal noise; the least risk is 1.12.
func lognormalTable(seed uint64, n, d int) table.Data {
	rng := rand.New(rand.NewPCG(seed, uint64(n*100+d)))
	w := make([]float64, d)
	for j := range w {
		w[j] = rng.NormFloat64()
	}
	floats.Scale(2/floats.Norm(w, 2), w)
	x := table.Data{Shape: table.Shape{N: n, D: d, Intercept: true}, X: make([][]float64, d-1), Y: make([]float64, n)}
	for j := range x.X {
		x.X[j] = make([]float64, n)
	}
	for i := range x.Y {
		x.Y[i] = w[0] + math.Exp(rng.NormFloat64()) - 1
		for j := range x.X {
			x.X[j][i] = math.Exp(rng.NormFloat64())
			x.Y[i] += w[j+1] * x.X[j][i]
		}
	}
	return x
}

func residual(w []float64, x table.Data, i int) float64 {
	r := x.Y[i] - w[0]
	for j, column := range x.X {
		r -= w[j+1] * column[i]
	}
	return r
}

func risk(w []float64, x table.Data) float64 {
	sum := 0.0
	for i := range x.Y {
		sum += math.Abs(residual(w, x, i))
	}
	return sum / float64(x.N)
}

// leastDeviations fits without privacy, by reweighted least squares.
func leastDeviations(x table.Data) []float64 {
	w := make([]float64, x.D)
	for width := 1.0; width > 1e-6; width *= .7 {
		h, g := mat.NewSymDense(x.D, nil), mat.NewVecDense(x.D, nil)
		for j := range x.D {
			h.SetSym(j, j, 1e-9*float64(x.N)) // for columns that depend on each other
		}
		row := mat.NewVecDense(x.D, nil)
		for i := range x.Y {
			row.SetVec(0, 1)
			for j, column := range x.X {
				row.SetVec(j+1, column[i])
			}
			r := residual(w, x, i)
			weight := 1 / math.Max(math.Abs(r), width)
			h.SymRankOne(h, weight, row)
			g.AddScaledVec(g, weight*r, row)
		}
		var factor mat.Cholesky
		var step mat.VecDense
		if !factor.Factorize(h) || factor.SolveVecTo(&step, g) != nil {
			return w
		}
		floats.Add(w, step.RawVector().Data)
	}
	return w
}

func readCSV(t testing.TB, path string) map[string][]float64 {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(z).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	columns := map[string][]float64{}
	for _, row := range rows[1:] {
		for j, text := range row {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(fmt.Errorf("%s: %w", path, err))
			}
			columns[rows[0][j]] = append(columns[rows[0][j]], v)
		}
	}
	return columns
}

// BenchmarkL1 draws once at eps = 1 and the defaults; the method that auto chose
// stands in the name.
func BenchmarkL1(b *testing.B) {
	for _, c := range []struct{ n, d int }{{10_000, 4}, {100_000, 4}, {100_000, 6}, {1_000_000, 4}, {10_000, 8}} {
		data := lognormalTable(1, c.n, c.d)
		plan := func() *plan.Plan {
			return plantest.Plan(b, L1{}, data.Shape, privacy.Budget{Epsilon: 1}, privacy.PureSum{})
		}
		b.Run(fmt.Sprintf("n=%d/d=%d/%s", c.n, c.d, plan().Method), func(b *testing.B) {
			for b.Loop() {
				if _, err := coefficients(plan().Run(b.Context(), data, mech.NewSource())); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
