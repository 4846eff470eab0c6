package dpsco

import (
	"gonum.org/v1/gonum/stat/distuv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

type scaledColumn struct {
	name  string
	scale float64
}

type linearTask struct {
	name, file string
	target     scaledColumn
	features   []scaledColumn
	bounds     []atEpsilon // of the median excess risk, in percent
}

type atEpsilon struct{ eps, percent float64 }

// The scales are public knowledge about the columns.
var linearTasks = []linearTask{
	{"california", "california_housing.csv.gz", scaledColumn{"median_house_value", 200000}, []scaledColumn{{"median_income", 4}, {"housing_median_age", 30}, {"households", 500}},
		[]atEpsilon{{0.1, 3}, {0.3, 0.5}, {1, 0.15}}},
	{"claims", "aus_auto_bi.csv.gz", scaledColumn{"claim_amount", 30000}, []scaledColumn{{"op_time", 50}, {"legal_rep", 1}, {"n_injured", 1}},
		[]atEpsilon{{0.1, 7}, {0.3, 1}, {1, 0.3}}},
	{"blog", "blogfeedback_core.csv.gz", scaledColumn{"target_comments_24h", 10},
		[]scaledColumn{{"blog_avg_comments_last24h", 10}, {"comments_last24h", 10}, {"links_last24h", 5}, {"hours_since_publication", 40}},
		[]atEpsilon{{0.1, 24}, {0.3, 14}, {1, 2}}},
}

func (task linearTask) load(t *testing.T) table.Data {
	folder := os.Getenv("DPSIDECAR_DATA")
	if folder == "" {
		t.Skip("DPSIDECAR_DATA names no folder with the data sets")
	}
	column := readCSV(t, filepath.Join(folder, task.file))
	take := func(s scaledColumn) []float64 {
		v := slices.Clone(column[s.name])
		if v == nil {
			t.Fatal(s.name)
		}
		for i := range v {
			v[i] /= s.scale
		}
		return v
	}
	y := take(task.target)
	x := table.Data{Shape: table.Shape{N: len(y), D: len(task.features) + 1, Intercept: true}, Y: y}
	for _, f := range task.features {
		x.X = append(x.X, take(f))
	}
	return x
}

// leastSquares returns the gram matrix, the minimiser and least mean square.
type leastSquares struct {
	h     *mat.SymDense
	w     []float64
	least float64
}

func exactLeastSquares(x table.Data) leastSquares {
	d := x.D
	l := leastSquares{h: mat.NewSymDense(d, nil)}
	g := make([]float64, d)
	row := make([]float64, d)
	square := 0.0
	for i := range x.N {
		finiteRow(x, row, i)
		for j := range d {
			for k := j; k < d; k++ {
				l.h.SetSym(j, k, l.h.At(j, k)+row[j]*row[k]/float64(x.N))
			}
			g[j] += row[j] * x.Y[i] / float64(x.N)
		}
		square += x.Y[i] * x.Y[i] / float64(x.N)
	}
	var v mat.VecDense
	var qr mat.Cholesky
	qr.Factorize(l.h)
	_ = qr.SolveVecTo(&v, mat.NewVecDense(d, g))
	l.w = v.RawVector().Data
	l.least = square
	for j := range d {
		l.least -= g[j] * l.w[j]
	}
	return l
}

func (l leastSquares) excess(w []float64) float64 {
	d := len(w)
	diff := mat.NewVecDense(d, nil)
	for j := range d {
		diff.SetVec(j, w[j]-l.w[j])
	}
	return 100 * mat.Inner(diff, l.h, diff) / l.least
}

func excesses(t *testing.T, a Regression, x table.Data, l leastSquares, eps float64, draws int) []float64 {
	src := mechtest.Source(t, 1)
	var all []float64
	for range draws {
		p := plantest.Plan(t, a, x.Shape, privacy.Budget{Epsilon: eps, Delta: 1e-6}, privacy.Concentrated{})
		w, err := coefficients(p.Run(t.Context(), plantest.Clone(x), src))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l.excess(w))
	}
	slices.Sort(all)
	return all
}

// law draws n rows of d coefficients, the first for the intercept, of a named kind.
func drawLaw(kind string, n, d int, seed uint64) table.Data {
	r := rand.New(rand.NewPCG(seed, 99))
	k := d - 1
	x := table.Data{Shape: table.Shape{N: n, D: d, Intercept: true}, X: table.NewColumns(k, n), Y: make([]float64, n)}
	gamma := func(shape float64) float64 { return distuv.Gamma{Alpha: shape, Beta: shape, Src: r}.Rand() }
	t3 := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: 3, Src: r}
	t25 := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: 2.5, Src: r}
	for i := range n {
		common := r.NormFloat64()
		mean := 0.5
		for j := range k {
			beta := 0.6 / math.Sqrt(float64(k))
			if j%2 == 1 {
				beta = -beta
			}
			v := 0.0
			switch kind {
			case "gauss", "lognoise", "t3":
				v = r.NormFloat64()
			case "hetero", "multi", "counts":
				v = gamma(4)
			case "heavy":
				v = math.Exp(0.6 * r.NormFloat64())
			case "skew":
				v = gamma(2)
			case "flags":
				v = gamma(2)
				if j == k-1 {
					v = 0
					if r.Float64() < 0.005 {
						v = 1
						beta = 1
					}
				}
			case "cond": // correlation and far from the origin: condition number about 1e4
				v = 1 + 0.2*(math.Sqrt(.98)*common+math.Sqrt(.02)*r.NormFloat64())
			case "years":
				v = gamma(3)
				if j == 0 {
					v = 1 + 0.005*r.NormFloat64()
					beta = 20
				}
			}
			x.X[j][i] = v
			mean += beta * v
		}
		e := 0.0
		switch kind {
		case "gauss", "flags", "years":
			e = r.NormFloat64()
		case "cond":
			e = 0.5 * r.NormFloat64()
		case "hetero":
			e = r.NormFloat64() * (0.2 + 0.8*x.X[0][i])
		case "t3":
			e = t3.Rand() * 0.6
		case "heavy":
			e = t25.Rand() * 0.6
		case "lognoise", "skew":
			e = 0.6 * (math.Exp(r.NormFloat64()) - math.Exp(.5))
		case "multi":
			m := math.Exp(-1 + 0.5*x.X[0][i])
			e = m*math.Exp(0.8*r.NormFloat64()) - m
		}
		if x.Y[i] = mean + e; kind == "counts" { // rarely not zero
			x.Y[i] = 0
			if r.Float64() < 0.02+0.02*x.X[0][i] {
				x.Y[i] = 1
			}
		}
	}
	return x
}

// Median excess risk over the exact fit on real tables, at defaults. The bounds at eps 1 are
// what was set out for; at less they are what is reached, and a half.
func TestLinearIsAccurateOnRealData(t *testing.T) {
	for _, task := range linearTasks {
		x := task.load(t)
		l := exactLeastSquares(x)
		for _, c := range task.bounds {
			e := excesses(t, Regression{Loss: loss.Squared{}}, x, l, c.eps, 20)
			t.Logf("%s, eps %g: median excess %.3f%%, ninth decile %.3f%%", task.name, c.eps, e[len(e)/2], e[len(e)*9/10])
			if e[len(e)/2] > c.percent {
				t.Errorf("expected at most %g%%", c.percent)
			}
		}
	}
}

// Median excess risk on laws whose features and residuals are skewed, heavy-tailed, rare,
// heteroscedastic or badly conditioned. It goes to zero as rows grow.
func TestLinearIsAccurateOnLaws(t *testing.T) {
	for kind, percent := range map[string]float64{
		"gauss": 0.02, "t3": 0.05, "lognoise": 0.06, "hetero": 0.04, "multi": 0.15, "heavy": 0.05, "skew": 0.05, "flags": 0.8, "cond": 0.03, "counts": 0.12,
	} {
		x := drawLaw(kind, 30_000, 5, 1)
		e := excesses(t, Regression{Loss: loss.Squared{}}, x, exactLeastSquares(x), 1, 9)
		x = drawLaw(kind, 300_000, 5, 1)
		more := excesses(t, Regression{Loss: loss.Squared{}}, x, exactLeastSquares(x), 1, 3)
		t.Logf("%s: %.4f%% with 30,000 rows, %.4f%% with 300,000", kind, e[4], more[1])
		if e[4] > percent || more[1] > percent/10 {
			t.Errorf("%s: expected at most %g%%, and a tenth", kind, percent)
		}
	}
}

// Rows in which a rare flag is set are long once features are whitened, and histograms do not show it before. Where the
// bound of the second pass did not follow them they were shortened, and the mean excess was .0043 %. Seeds are fixed.
func TestLinearIsAccurateWithRareFlags(t *testing.T) {
	r, truth := rand.New(rand.NewPCG(1, 6)), []float64{0.3, 0.3, -0.3, 0.3, -0.3}
	x := table.Data{Shape: table.Shape{N: 20_000, D: 5, Intercept: true}, X: table.NewColumns(4, 20_000), Y: make([]float64, 20_000)}
	for i := range x.Y {
		x.Y[i] = truth[0] + r.NormFloat64()
		for j, share := range []float64{0.004, 0.01, 0.03, 1} {
			x.X[j][i] = indicatorOf(r.Float64() < share)
			if share == 1 {
				x.X[j][i] = r.NormFloat64()
			}
			x.Y[i] += truth[j+1] * x.X[j][i]
		}
	}
	e := excesses(t, Regression{Loss: loss.Squared{}}, x, exactLeastSquares(x), 10, 20)
	mean := floats.Sum(e) / float64(len(e))
	t.Logf("mean excess %.4f%%, median %.4f%%", mean, e[len(e)/2])
	if mean > 0.0022 {
		t.Error("expected at most .0022%")
	}
}

// A feature that is the logarithm of an amount, and 0 where there is none: those rows are short before whitening and the longest
// after it. Least squares and its intervals are about them too. With bounds that follow lengths before whitening alone the excess is
// 9 to 22 %, and 7 of 10 intervals hold. Seeds are fixed.
func TestRowsThatWhiteningMakesLongCount(t *testing.T) {
	const n = 20_000
	held := 0
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 2))
		x := table.Data{Shape: table.Shape{N: n, D: 2, Intercept: true}, X: [][]float64{make([]float64, n)}, Y: make([]float64, n)}
		for i := range n {
			x.X[0][i] = 8.5 + 0.7*r.NormFloat64()
			x.Y[i] = 0.3*(x.X[0][i]-8.5) + 0.5*r.NormFloat64()
			if r.Float64() < 0.03 {
				x.X[0][i], x.Y[i] = 0, 0.5*r.NormFloat64()-0.4
			}
		}
		best := exactLeastSquares(x).w
		squares := func(w []float64) (sum float64) {
			for i, v := range x.X[0] {
				sum += square(x.Y[i] - w[0] - w[1]*v)
			}
			return sum
		}
		result := resultOf(t, Regression{Loss: loss.Squared{}}, x, 10, seed)
		if excess := squares(result.Coefficients)/squares(best) - 1; excess > 1e-3 {
			t.Errorf("seed %d: excess %.2g %%", seed, 100*excess)
		}
		if result.Low != nil && !result.Withholds(1) && result.Low[1] <= best[1] && best[1] <= result.High[1] {
			held++
		}
	}
	if held < 8 {
		t.Errorf("%d of 10 intervals hold", held)
	}
}
