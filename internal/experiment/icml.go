package experiment

import "math"

// icml are Figures 1 to 4 of Wang, Xiao, Devadas & Xu (ICML 2020): their Algorithms 3 and 4 and robust
// descent without privacy, as a function of the number of iterations, features, rows, and of epsilon.
func (c Config) icml() []Figure {
	ridge := map[string]any{"penalty": "l2", "lambda": 1e-3}
	figures := []Figure{
		c.icmlFigure("icml-1", "ICML 2020, Figure 1: ridge regression, lognormal noise", "distance from w*", ridge,
			func(n, d int) *Task { return Linear(n, dense(d), false, logNormal, 6) }),
		c.icmlFigure("icml-2", "ICML 2020, Figure 2: ridge regression, loglogistic noise", "distance from w*", ridge,
			func(n, d int) *Task { return Linear(n, dense(d), false, logLogistic(.2, .4), 1) }),
		c.icmlFigure("icml-3", "ICML 2020, Figure 3: logistic regression, loglogistic noise", "excess log-loss", nil,
			func(n, d int) *Task { return Logistic(n, dense(d), false, logLogistic(.2, .2)) }),
	}
	if c.Data == "" {
		return figures
	}
	adult := c.folder().Adult()
	steps, eps := icmlSteps(adult, nil), icmlEpsilons(adult, nil)
	steps.Y, eps.Y = "excess log-loss, %", "excess log-loss, %"
	return append(figures, Figure{Name: "icml-4", Title: "ICML 2020, Figure 4: logistic regression on Adult", Charts: []Chart{steps, eps}})
}

func (c Config) icmlFigure(name, title, measure string, options map[string]any, task func(n, d int) *Task) Figure {
	const d = 10
	n := c.n(30_000, 100_000)
	base := task(n, d)
	f := Figure{Name: name, Title: title, Charts: []Chart{
		icmlSteps(base, options),
		{Title: "features, eps = 1", X: "d", LogX: true, At: []float64{5, 10, 20, 40},
			Task: func(d float64) *Task { return task(n, int(d)) }, Lines: icmlLines(options, func(float64) float64 { return 1 })},
		{Title: "rows, eps = 1", X: "n", LogX: true, At: []float64{float64(n / 10), float64(n / 3), float64(n)},
			Task: func(n float64) *Task { return task(int(n), d) }, Lines: icmlLines(options, func(float64) float64 { return 1 })},
		icmlEpsilons(base, options),
	}}
	for i := range f.Charts {
		f.Charts[i].Y, f.Charts[i].LogY = measure, true
	}
	return f
}

func icmlSteps(t *Task, options map[string]any) Chart {
	c := Chart{Title: "iterations, eps = 1", X: "iterations T", LogX: true, LogY: true, At: []float64{5, 10, 20, 50, 100}, Task: onTask(t)}
	for _, m := range icmlMethods {
		c.Lines = append(c.Lines, Line{Name: m.name, Fit: func(steps float64) Fit {
			return m.fit(1, with(options, "steps", steps))
		}})
	}
	return c
}

func icmlEpsilons(t *Task, options map[string]any) Chart {
	return Chart{Title: "budget", X: "eps", LogX: true, LogY: true, At: []float64{.1, .2, .5, 1, 2}, Task: onTask(t),
		Lines: icmlLines(options, func(x float64) float64 { return x })}
}

func icmlLines(options map[string]any, epsilon func(x float64) float64) (lines []Line) {
	for _, m := range icmlMethods {
		lines = append(lines, Line{Name: m.name, Fit: func(x float64) Fit { return m.fit(epsilon(x), options) }})
	}
	return lines
}

// icmlMethods are the methods that the paper compares. Robust descent is that of Holland (2019), the same
// estimator with negligible noise.
var icmlMethods = []struct {
	name string
	fit  func(epsilon float64, options map[string]any) Fit
}{
	{"trimmed (A3)", func(epsilon float64, o map[string]any) Fit { return Request(epsilon, with(o, "method", "trimmed")) }},
	{"catoni (A4)", func(epsilon float64, o map[string]any) Fit { return Request(epsilon, with(o, "method", "catoni")) }},
	{"robust descent, not private", func(_ float64, o map[string]any) Fit {
		return Request(noPrivacy, with(with(o, "method", "catoni"), "truncation", hollandScale))
	}},
}

// noPrivacy is the largest epsilon that a plan takes: its noise is far below the sampling error.
const noPrivacy = 1e4

// hollandScale is sqrt(n / (2 ln n)) for n = 1e5 gradients of second moment 1.
var hollandScale = math.Round(math.Sqrt(1e5 / (2 * math.Log(1e5))))
