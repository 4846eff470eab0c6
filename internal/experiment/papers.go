package experiment

import (
	"math"
	"math/rand/v2"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/privacy"
)

// The settings of the papers as they state them: rows, columns, errors, batches, steps, eps and delta. If a
// method with its printed noise is not private at the stated eps it runs twice: with the printed noise,
// shown at the eps that it actually costs, and with the noise that the stated eps requires.

// papers are the figures of all settings.
func (c Config) papers() []Figure {
	figures := []Figure{c.icmlSetting(), c.icmlSizes()}
	if c.Data != "" {
		figures = append(figures, c.icmlAdult())
	}
	figures = append(figures, c.sinicaSetting())
	if c.Data != "" {
		figures = append(figures, c.nipsSetting())
	}
	return figures
}

// overBudgets returns a chart against the stated budgets.
func overBudgets(title, measure string, t *Task, at []float64, lines []Line) Chart {
	return Chart{Title: title, X: "eps", Y: measure, LogX: true, LogY: true, At: at, Task: onTask(t), Lines: lines}
}

// timed adds the times of fits, which the papers report, to tables and plots.
func timed(c Chart) Chart {
	c.Seconds = true
	return c
}

// icmlSetting is the setting n = 100,000, d = 10 of Wang, Xiao, Devadas & Xu.
func (c Config) icmlSetting() Figure {
	const d = 10
	n := c.n(100_000, 100_000)
	ridge := map[string]any{"penalty": "l2", "lambda": 1e-3}
	centred := logLogistic(.2, .2)
	f := Figure{Name: "papers-icml-budget", Title: "ICML 2020, the stated setting: n = 100,000, d = 10, delta = 1/n", Charts: []Chart{
		overBudgets("ridge, lognormal(1, 1) errors", "distance from w*", Linear(n, dense(d), false, logNormal, 6), epsilons, icmlStated(n, 6, ridge)),
		overBudgets("ridge, loglogistic(0.2, 0.2) errors", "distance from w*", Linear(n, dense(d), false, centred, 1), epsilons, icmlStated(n, 1, ridge)),
		overBudgets("logistic, lognormal(1, 1) errors", "excess log-loss", Logistic(n, dense(d), false, logNormal), epsilons, icmlStated(n, 1, nil)),
		overBudgets("logistic, loglogistic(0.2, 0.2) errors", "excess log-loss", Logistic(n, dense(d), false, centred), epsilons, icmlStated(n, 1, nil)),
	}}
	f.Charts[0].Note = "The numbers of iterations are not stated: here 300 for Algorithm 3, whose step is 0.01, and 100 for Algorithm 4. The paper prints curves only."
	return f
}

// icmlStated returns lines with the paper's parameters in scaled units, and our lines. Algorithm 4
// truncates at sqrt(n v / (2 ln(1/0.01))), v = 5 in the target's units.
func icmlStated(n int, scale float64, options map[string]any) []Line {
	truncation := math.Sqrt(float64(n)*5/(2*math.Log(100))) / scale
	trimmed := with(with(with(options, "trim", math.Round(.05*float64(n))), "step_size", .01), "steps", 300.)
	catoni := with(with(options, "truncation", truncation), "step_size", .1)
	holland := with(with(with(options, "method", "catoni"), "step_size", .1), "truncation", hollandScale)
	return append([]Line{
		atEpsilon("A3, stated parameters", "trimmed", trimmed),
		atEpsilon("A4, stated parameters", "catoni", catoni),
		atEpsilon("A4, our defaults", "catoni", options),
		{Name: "robust descent, not private", Fit: always(Request(noPrivacy, holland))},
	}, ours(options)...)
}

// ours returns the lines of the default method, of sample and aggregate, of the prediction zero and of the
// fit without privacy. Sample and aggregate runs without the penalty, which is small and slows the fits of
// so many blocks.
func ours(options map[string]any) []Line {
	return []Line{
		atEpsilon("auto", "auto", options), atEpsilon("sample_aggregate", "sample_aggregate", nil),
		{Name: "all zero", Fit: always(predictZero)}, {Name: "without privacy", Fit: always(withoutPrivacy)},
	}
}

// icmlSizes varies features and rows, with the stochastic Algorithm 4: batches of 1,000, on an account that
// prices them with amplification by subsampling.
func (c Config) icmlSizes() Figure {
	n := c.n(100_000, 100_000)
	ridge := map[string]any{"penalty": "l2", "lambda": 1e-3}
	stochastic := with(with(with(ridge, "method", "spgd_holland"), "batch", 1000.), "step_size", .1)
	chart := func(title, x string, at []float64, task func(float64) *Task) Chart {
		lines := []Line{
			{Name: "A4, batches of 1,000", Fit: always(Amplified(1, stochastic))},
			{Name: "robust descent, not private", Fit: always(Request(noPrivacy, with(with(with(ridge, "method", "catoni"), "step_size", .1), "truncation", hollandScale)))},
		}
		lines = append(lines, Line{Name: "auto", Fit: always(Request(1, with(ridge, "method", "auto")))},
			Line{Name: "sample_aggregate", Fit: always(Request(1, map[string]any{"method": "sample_aggregate"}))}, Line{Name: "without privacy", Fit: always(withoutPrivacy)})
		return Chart{Title: title, X: x, Y: "distance from w*", LogX: true, LogY: true, At: at, Task: task, Lines: lines}
	}
	rows := []float64{20_000, 50_000, 100_000}
	if c.brief {
		rows = []float64{briefRows}
	}
	return Figure{Name: "papers-icml-sizes", Title: "ICML 2020, the stated sizes: lognormal(1, 1) errors, eps = 1", Charts: []Chart{
		chart("features, n = 100,000", "d", []float64{10, 20, 30, 50}, func(d float64) *Task { return Linear(n, dense(int(d)), false, logNormal, 6) }),
		chart("rows, d = 20", "n", rows, func(n float64) *Task { return Linear(int(n), dense(20), false, logNormal, 6) }),
	}}
}

// icmlAdult draws 30,000 rows, fits 28,000 of them, and measures the mean loss on the other 2,000.
func (c Config) icmlAdult() Figure {
	lines := func(options map[string]any) []Line {
		holland := with(with(options, "method", "catoni"), "truncation", hollandScale)
		return append([]Line{
			atEpsilon("A3", "trimmed", options), atEpsilon("A4", "catoni", options),
			{Name: "robust descent, not private", Fit: always(Request(noPrivacy, holland))},
		}, ours(options)...)
	}
	ridge := map[string]any{"penalty": "l2", "lambda": 1e-3}
	return Figure{Name: "papers-icml-adult", Title: "ICML 2020, the stated setting: Adult, 28,000 rows fitted, 2,000 to test, delta = 1/28,000", Charts: []Chart{
		overBudgets("logistic", "log-loss of the test rows", c.folder().AdultSplit("logistic"), epsilons, lines(nil)),
		overBudgets("ridge", "squared error of the test rows", c.folder().AdultSplit("linear"), epsilons, lines(ridge)),
	}}
}

// sinicaSetting is the setting n = 10,000 of Xie et al.: ten coefficients of 1 and -1, columns of unit
// norm, t(2) errors, five steps on all rows.
func (c Config) sinicaSetting() Figure {
	n := c.n(10_000, 10_000)
	budgets := []float64{.5, 1, 3}
	lasso, sparser := map[string]any{"penalty": "l1", "lambda": .001}, map[string]any{"penalty": "l1", "lambda": .001}
	unit, wide := 1/math.Sqrt(float64(n)), 1.
	byFeatures := Chart{Title: "lasso, columns of variance 1, eps = 1", X: "p", Y: "distance from beta*", LogX: true, LogY: true, At: []float64{20, 40, 60, 80, 100, 150},
		Task:  func(p float64) *Task { return SinicaLasso(n, int(p), wide) },
		Lines: sinicaStated(n, lasso, func(float64) float64 { return 1 })}
	if c.brief {
		byFeatures.At = byFeatures.At[:1]
	}
	same := func(x float64) float64 { return x }
	f := Figure{Name: "papers-sinica", Title: "Statistica Sinica, the stated setting: n = 10,000, 10 coefficients of 1 and -1, T = 5, m = n, delta = 1/n", Charts: []Chart{
		timed(overBudgets("lasso, columns of norm 1, p = 50", "distance from beta*", SinicaLasso(n, 50, unit), budgets, sinicaStated(n, lasso, same))),
		timed(overBudgets("l1-logistic, columns of norm 1, p = 50", "distance from beta*", SinicaLogistic(n, 50, unit), budgets, sinicaStated(n, sparser, same))),
		timed(overBudgets("lasso, columns of variance 1, p = 50", "distance from beta*", SinicaLasso(n, 50, wide), budgets, sinicaStated(n, lasso, same))),
		byFeatures,
	}}
	f.Charts[0].Note = "Printed in Table 1 at p = 50, seconds a simulation run on the authors' machine: DP-SPGD 31.3, (K) 20.1, (H) 28.9, HTP-LASSO 202.9, HTDP-FW 1.5."
	for i := range f.Charts {
		f.Charts[i].Top = 100
	}
	return f
}

// sinicaStated returns lines of the three algorithms with the printed noise and with the required noise,
// and our lines.
func sinicaStated(n int, options map[string]any, epsilon func(x float64) float64) (lines []Line) {
	five := with(with(options, "steps", 5.), "step_size", .5)
	delta := 1 / float64(n)
	for _, m := range []struct {
		name, method string
		sensitivity  float64 // ratio of the replace-one sensitivity to the scale that the printed noise is proportional to
	}{{"clipped", "spgd_clip", 2}, {"(K)", "spgd_kamath", 1}, {"(H)", "spgd_holland", 1}} {
		o := with(five, "method", m.method)
		lines = append(lines,
			Line{Name: m.name + ", noise as printed", Fit: func(x float64) Fit { return Request(sinicaCost(epsilon(x), delta, m.sensitivity), o) }},
			Line{Name: m.name + ", true cost", Fit: func(x float64) Fit { return Request(epsilon(x), o) }})
	}
	return append(lines, Line{Name: "auto", Fit: func(x float64) Fit { return Request(epsilon(x), with(options, "method", "auto")) }},
		Line{Name: "lasso, not private", Fit: always(unclipped(options))}, Line{Name: "all zero", Fit: always(predictZero)})
}

// sinicaCost returns the eps that five steps with noise of sqrt(ln(1/delta)) / eps actually cost, by zCDP.
func sinicaCost(epsilon, delta, sensitivity float64) float64 {
	const steps = 5
	z := math.Sqrt(math.Log(1/delta)) / epsilon / sensitivity
	return privacy.ZCDPEpsilon(steps/(2*z*z), delta-privacy.Reserve(delta))
}

// SinicaLasso has p normal features times size, and t(2) errors.
func SinicaLasso(n, p int, size float64) *Task {
	w := tenSigns(p)
	return &Task{Model: "linear", Delta: 1 / float64(n), draw: func(r *rand.Rand) (*Table, Judge, error) {
		t := design(r, n, scaled(w, size), false)
		for i := range t.Y {
			t.Y[i] += studentTwo(r)
		}
		t.resize(size)
		return t, func(v []float64) float64 { return distance(v[1:], w) }, nil
	}}
}

// SinicaLogistic has labels by the sign of <w, x> plus a centred loglogistic(1/2, 1/2) error.
func SinicaLogistic(n, p int, size float64) *Task {
	w, e := tenSigns(p), logLogistic(.5, .5)
	return &Task{Model: "logistic", Delta: 1 / float64(n), draw: func(r *rand.Rand) (*Table, Judge, error) {
		t := design(r, n, scaled(w, size), false)
		for i, z := range t.Y {
			t.Y[i] = 0
			if z+e(r) > 0 {
				t.Y[i] = 1
			}
		}
		t.resize(size)
		return t, func(v []float64) float64 { return distance(v[1:], w) }, nil
	}}
}

// tenSigns returns ten coefficients of 1 and -1 alternately, and zeros.
func tenSigns(p int) []float64 {
	w := make([]float64, p)
	for j := range min(p, 10) {
		w[j] = float64(1 - 2*(j%2))
	}
	return w
}

func scaled(w []float64, by float64) []float64 {
	v := make([]float64, len(w))
	for j := range w {
		v[j] = by * w[j]
	}
	return v
}

// resize multiplies the features by size, which becomes their registered scale.
func (t *Table) resize(size float64) {
	for j, x := range t.X {
		t.Scales[j] = size
		for i := range x {
			x[i] *= size
		}
	}
}

// studentTwo is t with two degrees of freedom: its variance is infinite.
func studentTwo(r *rand.Rand) float64 {
	return r.NormFloat64() / math.Sqrt(r.ExpFloat64())
}

// nipsSetting is Covertype with all 54 features, and 92,962 of the 200,000 rows.
func (c Config) nipsSetting() Figure {
	budgets := []float64{.2, .5, 1}
	f := Figure{Name: "papers-nips", Title: "NIPS 2017, the stated setting: Covertype, 54 features, delta = 0.001"}
	for _, s := range []struct {
		title, method string
		lambda        float64
	}{{"DP-SVRG, lambda = 0.01", "svrg", .01}, {"DP-SVRG++, no penalty", "svrg_pp", 0}} {
		o := map[string]any{}
		if s.lambda > 0 {
			o = map[string]any{"penalty": "l2", "lambda": s.lambda}
		}
		white := with(o, "whitening", "on")
		f.Charts = append(f.Charts, timed(overBudgets(s.title, "optimality gap F(w) - F(w*)", c.folder().CovertypeFull(s.lambda), budgets, []Line{
			atEpsilon("gd, 500 steps of 0.1", "gd", with(with(o, "steps", 500.), "step_size", .1)),
			atEpsilon("gd, whitened", "gd", white),
			{Name: s.method + ", batches", Fit: func(epsilon float64) Fit { return Amplified(epsilon, with(white, "method", s.method)) }},
			atEpsilon("auto", "auto", o), {Name: "all zero", Fit: always(predictZero)},
		})))
	}
	f.Charts[0].Note = "Limited by the data at hand: 92,962 rows, not 200,000. The loss is log(1 + exp(-y z)) with an intercept. The stated 1,500 and 1,000 steps of gradient descent, and 15 epochs of 5,000 inner steps or more, exceed the 500 steps that a request may ask for."
	return f
}

// risk returns the mean loss of a model.
func (t *Table) risk(model string) func(w []float64) float64 {
	if catalogue.Classifies(model) {
		return t.logLoss
	}
	return t.meanSquare
}
