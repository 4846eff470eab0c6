package experiment

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/score"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// population is a distribution of rows, with coefficients to score on them, and the metrics of these
// coefficients in the population.
type population struct {
	name   string
	labels bool
	load   func() (*scored, error)

	unscaled bool // the score does not know the scale of the target
}

// scored draws tables of n rows, and holds the coefficients w and their metrics.
type scored struct {
	draw func(r *rand.Rand, n int) *Table
	w    []float64
	of   map[string]float64
}

// lawOf is a population with one normal feature x: y = x + e(x), scored at .9 x + at; or with labels of
// log-odds 1.5 x + e(x), scored at 1.4 x + at.
func lawOf(name string, labels bool, at float64, e func(r *rand.Rand, x float64) float64, rows int) population {
	w, target := []float64{at, 0.9}, func(r *rand.Rand, x float64) float64 { return x + e(r, x) }
	if labels {
		w[1], target = 1.4, func(r *rand.Rand, x float64) float64 {
			return indicator(r.Float64() < 1/(1+math.Exp(-1.5*x-e(r, x))))
		}
	}
	return drawn(name, labels, w, 2, target, rows)
}

// claims is a population of which one row in a hundred has a claim, lognormal about e^8, which is scored at its mean.
func claims(rows int) population {
	const share, level, spread = 0.01, 8, 1.2
	return drawn("claims of one row in a hundred", false, []float64{share * math.Exp(level+spread*spread/2), 0}, 5000, func(r *rand.Rand, _ float64) float64 {
		if r.Float64() < share {
			return math.Exp(level + spread*r.NormFloat64())
		}
		return 0
	}, rows)
}

// drawn is a population with one normal feature, whose metrics are those of the given number of rows.
func drawn(name string, labels bool, w []float64, scale float64, target func(r *rand.Rand, x float64) float64, rows int) population {
	draw := func(r *rand.Rand, n int) *Table {
		t := design(r, n, []float64{1}, false)
		t.TargetScale = scale
		for i, x := range t.X[0] {
			t.Y[i] = target(r, x)
		}
		return t
	}
	return population{name: name, labels: labels, load: sync.OnceValues(func() (*scored, error) {
		all := draw(rand.New(rand.NewPCG(1, 99)), rows)
		return &scored{draw, w, all.metrics(w, labels)}, nil
	})}
}

func indicator(v bool) float64 {
	if v {
		return 1
	}
	return 0
}

// rowsOf is a real table as a population, scored at its best fit.
func rowsOf(name string, labels bool, task *Task) population {
	return population{name: name, labels: labels, load: sync.OnceValues(func() (*scored, error) {
		all, _, err := task.Draw(1)
		if err != nil {
			return nil, err
		}
		fit := all.fitLinear
		if labels {
			fit = all.fitLogistic
		}
		w := fit()
		return &scored{func(r *rand.Rand, n int) *Table {
			rows := make([]int, n)
			for i := range rows {
				rows[i] = r.IntN(all.N)
			}
			return all.pick(rows)
		}, w, all.metrics(w, labels)}, nil
	})}
}

// metrics returns the metrics of coefficients on all rows.
func (t *Table) metrics(w []float64, labels bool) map[string]float64 {
	var absolute, squares, sum, sumSquares, hits, brier float64
	n := float64(t.N)
	for i, y := range t.Y {
		z := t.predict(i, w)
		absolute, squares, sum, sumSquares = absolute+math.Abs(y-z), squares+(y-z)*(y-z), sum+y, sumSquares+y*y
		p := 1 / (1 + math.Exp(-z))
		hits, brier = hits+indicator((p >= 0.5) == (y == 1)), brier+(y-p)*(y-p)
	}
	if labels {
		return map[string]float64{"log_loss": t.logLoss(w), "accuracy": hits / n, "brier_score": brier / n}
	}
	return map[string]float64{
		"r2": 1 - squares/(sumSquares-sum*sum/n), "mean_absolute_error": absolute / n, "root_mean_squared_error": math.Sqrt(squares / n),
	}
}

// populations returns the generators, and the real tables if there are any.
func (c Config) populations() []population {
	rows := c.n(1_000_000, 4_000_000)
	normal := func(scale func(x float64) float64) func(*rand.Rand, float64) float64 {
		return func(r *rand.Rand, x float64) float64 { return scale(x) * r.NormFloat64() }
	}
	one := func(float64) float64 { return 1 }
	all := []population{
		lawOf("normal errors", false, 0, normal(one), rows),
		lawOf("errors that grow with x", false, 0, normal(func(x float64) float64 { return 0.2 + math.Abs(x) }), rows),
		lawOf("uniform errors", false, 0, func(r *rand.Rand, _ float64) float64 { return 4*r.Float64() - 2 }, rows),
		lawOf("Laplace errors", false, 0, func(r *rand.Rand, _ float64) float64 { return math.Copysign(r.ExpFloat64(), r.Float64()-0.5) }, rows),
		lawOf("errors of t, 5 df", false, 0, student(5), rows),
		lawOf("errors of t, 3 df", false, 0, student(3), rows),
		lawOf("lognormal errors", false, 0, func(r *rand.Rand, _ float64) float64 { return math.Exp(r.NormFloat64()) - math.Exp(0.5) }, rows),
		claims(rows),
		lawOf("labels", true, 0, func(*rand.Rand, float64) float64 { return 0 }, rows),
		lawOf("rare labels", true, -4, func(*rand.Rand, float64) float64 { return -4 }, rows),
		lawOf("very rare labels", true, -7, func(*rand.Rand, float64) float64 { return -7 }, rows),
	}
	if f := c.folder(); f.Dir != "" {
		for _, t := range f.tables("linear") {
			all = append(all, rowsOf(t.name, false, realTask(t.model, percentAbove, t.open)))
		}
		unscaled := rowsOf("california, no scale", false, f.California())
		unscaled.unscaled = true
		all = append(all, unscaled, rowsOf("adult", true, f.Adult()), rowsOf("covertype", true, f.Covertype()))
	}
	return all
}

// student returns draws of Student's t with df degrees of freedom.
func student(df int) func(r *rand.Rand, x float64) float64 {
	return func(r *rand.Rand, _ float64) float64 {
		square := 0.0
		for range df {
			v := r.NormFloat64()
			square += v * v
		}
		return r.NormFloat64() / math.Sqrt(square/float64(df))
	}
}

// scoring keeps the metrics of every run, because each chart shows one metric.
type scoring struct {
	population
	n    int
	runs map[float64][][]release.Metric
}

// run returns the k-th score of a population at an epsilon, from 0.
func (s *scoring) run(ctx context.Context, epsilon float64, k int) ([]release.Metric, error) {
	if k < len(s.runs[epsilon]) {
		return s.runs[epsilon][k], nil
	}
	from, err := s.load()
	if err != nil {
		return nil, err
	}
	t := from.draw(rand.New(rand.NewPCG(uint64(k), 21)), s.n)
	a := score.Metrics{Coefficients: from.w, Labels: s.labels, TargetUnscaled: s.unscaled}
	if !s.labels && !s.unscaled {
		a.Scale = t.TargetScale
	}
	p, err := a.Plan(t.Shape, privacy.Budget{Epsilon: epsilon, Delta: 1e-6}, privacy.Concentrated{})
	if err != nil {
		return nil, err
	}
	r, err := p.Run(ctx, t.copy(), mech.NewSource())
	s.runs[epsilon] = append(s.runs[epsilon], r.Metrics)
	return r.Metrics, err
}

// line returns a line of say, a function of one metric and its population value, draw by draw.
func (s *scoring) line(metric string, say func(m release.Metric, of float64) float64) Line {
	draws := map[float64]int{}
	return Line{Name: s.name, Fit: func(epsilon float64) Fit {
		return func(ctx context.Context, _ *Task, _ *Table) ([]float64, time.Duration, error) {
			metrics, err := s.run(ctx, epsilon, draws[epsilon])
			if err != nil {
				return nil, 0, err
			}
			draws[epsilon]++
			i := slices.IndexFunc(metrics, func(m release.Metric) bool { return m.Name == metric })
			from, err := s.load()
			return []float64{say(metrics[i], from.of[metric])}, 0, err
		}
	}}
}

// covers returns 1 if an interval contains the population value, 0 if it does not, and NaN if there is no
// interval.
func covers(m release.Metric, of float64) float64 {
	if m.Low == nil {
		return math.NaN()
	}
	return indicator(*m.Low <= of && of <= *m.High)
}

// given returns 1 if there is an interval, otherwise 0.
func given(m release.Metric, _ float64) float64 { return indicator(m.Low != nil) }

// scores measures how often the intervals of dp_score cover, and how often there is an interval.
func (c Config) scores() []Figure {
	n := c.n(20_000, 200_000)
	all := make([]*scoring, 0)
	for _, p := range c.populations() {
		all = append(all, &scoring{p, n, map[float64][][]release.Metric{}})
	}
	nothing := onTask(&Task{draw: func(*rand.Rand) (*Table, Judge, error) { return nil, func(w []float64) float64 { return w[0] }, nil }})
	f := Figure{Name: "scores", Title: "Intervals of dp_score: " + short(float64(n)) + " rows, delta = 1e-6"}
	for _, metric := range []string{"r2", "mean_absolute_error", "root_mean_squared_error", "log_loss", "accuracy", "brier_score"} {
		labels := slices.Contains([]string{"log_loss", "accuracy", "brier_score"}, metric)
		coverage := Chart{Title: metric, X: "eps", Y: "share of 95 % intervals that cover", At: []float64{.1, .3, 1, 3}, LogX: true, Task: nothing}
		share := coverage
		share.Title, share.Y = metric+", given", "share of scores with an interval"
		for _, s := range all {
			if s.labels == labels {
				coverage.Lines = append(coverage.Lines, s.line(metric, covers))
				share.Lines = append(share.Lines, s.line(metric, given))
			}
		}
		f.Charts = append(f.Charts, coverage)
		if metric != "accuracy" && metric != "brier_score" { // these two always have an interval
			f.Charts = append(f.Charts, share)
		}
	}
	return []Figure{f}
}
