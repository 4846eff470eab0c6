package experiment

import (
	"maps"
	"math"

	"dpsidecar/internal/catalogue"
)

var epsilons = []float64{0.1, 0.5, 1}

// methods returns the names of all methods of a model.
func methods(model string) []string {
	m, err := catalogue.Find(model)
	if err != nil {
		panic(err)
	}
	o, _ := m.Option("method")
	return o.Choices
}

// with returns a copy of options with one option set.
func with(options map[string]any, name string, value any) map[string]any {
	more := maps.Clone(options)
	if more == nil {
		more = map[string]any{}
	}
	more[name] = value
	return more
}

// atEpsilon returns a line that requests a method at every epsilon.
func atEpsilon(name, method string, options map[string]any) Line {
	return Line{Name: name, Fit: func(epsilon float64) Fit { return Request(epsilon, with(options, "method", method)) }}
}

// everyMethod returns a chart of all methods at their defaults, with the prediction zero and the exact fit.
// most holds the acceptance bounds of some methods.
func everyMethod(t *Task, title, measure string, top float64, most map[string][]float64) Chart {
	c := Chart{Title: title, X: "eps", Y: measure, LogX: true, LogY: true, At: epsilons, Task: onTask(t), Top: top}
	for _, method := range methods(t.Model) {
		line := atEpsilon(method, method, nil)
		line.Most = most[method]
		c.Lines = append(c.Lines, line)
	}
	c.Lines = append(c.Lines, Line{Name: "all zero", Fit: always(predictZero)}, Line{Name: "without privacy", Fit: always(withoutPrivacy)})
	return c
}

// baselines are figures of every method at its defaults.
func (c Config) baselines() []Figure {
	n, w := c.n(100_000, 100_000), dense(10)
	figures := []Figure{{
		Name: "baseline-generated", Title: "Every method on generated tables, n = 100,000, d = 10, delta = 1e-5",
		Charts: []Chart{
			everyMethod(Linear(n, w, false, logNormal, 6), "linear, symmetric features", "distance of slopes from w*", 2,
				map[string][]float64{"auto": {.07, .035, .032}, "catoni": {.16, .085, .07}}),
			everyMethod(Linear(n, w, true, logNormal, 6), "linear, lognormal features", "distance of slopes from w*", 2,
				map[string][]float64{"auto": {.18, .125, .12}}),
			everyMethod(Logistic(n, w, false, logLogistic(.2, .2)), "logistic", "excess log-loss", 1,
				map[string][]float64{"auto": {5e-4, 1.5e-4, 1.2e-4}}),
		},
	}}
	if c.Data == "" {
		return figures
	}
	f := c.folder()
	last := func(v float64) []float64 { return []float64{math.Inf(1), math.Inf(1), v} } // at eps = 1
	return append(figures, Figure{
		Name: "baseline-real", Title: "Every method on real tables, delta = 1e-6",
		Charts: []Chart{
			everyMethod(f.California(), "california", "excess squared error, %", 100, map[string][]float64{"auto": last(1.5)}),
			everyMethod(f.ClaimsLS(), "claims-ls", "excess squared error, %", 100, map[string][]float64{"auto": last(6)}),
			everyMethod(f.Adult(), "adult", "excess log-loss, %", 200, map[string][]float64{"auto": last(2)}),
		},
	})
}
