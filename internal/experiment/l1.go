package experiment

// l1 measures how the error of least absolute deviations depends on the number of rows, on epsilon, on the
// number of features, and on theta, the assumed order of the moments of residuals (Wang & Xu). The
// residuals have moments below 1.4 only.
func (c Config) l1() Figure {
	n := c.n(10_000, 50_000)
	task := func(n, d int) *Task { return absoluteDeviations(Linear(n, dense(d), true, pareto(1.4), 1)) }
	one := func(float64) float64 { return 1 }
	same := func(x float64) float64 { return x }
	chart := func(title, x string, at []float64, task func(float64) *Task, epsilon func(float64) float64) Chart {
		c := Chart{Title: title, X: x, Y: "distance from w*", LogX: true, LogY: true, At: at, Task: task}
		for _, theta := range []float64{1.2, 2} {
			c.Lines = append(c.Lines, Line{Name: "exponential, theta " + short(theta), Fit: func(x float64) Fit {
				return Request(epsilon(x), map[string]any{"method": "exponential_mechanism", "theta": theta})
			}})
		}
		objective := map[string]any{"method": "objective_perturbation"}
		c.Lines = append(c.Lines, Line{Name: "objective perturbation", Fit: func(x float64) Fit { return Request(epsilon(x), objective) }},
			Line{Name: "not private", Fit: always(Request(noPrivacy, objective))})
		return c
	}
	return Figure{Name: "l1", Title: "Wang & Xu: l1 regression, d = 2, residuals of tail index 1.4", Charts: []Chart{
		chart("rows, eps = 1", "n", []float64{float64(n / 16), float64(n / 4), float64(n)}, func(n float64) *Task { return task(int(n), 2) }, one),
		chart("budget", "eps", []float64{.1, .3, 1, 3}, onTask(task(n, 2)), same),
		chart("features, eps = 1", "d", []float64{1, 2, 3}, func(d float64) *Task { return task(n, int(d)) }, one),
		thetaChart(task(n, 2)),
	}}
}

func thetaChart(t *Task) Chart {
	c := Chart{Title: "theta", X: "theta", Y: "distance from w*", LogY: true, At: []float64{1.1, 1.2, 1.5, 2}, Task: onTask(t)}
	for _, epsilon := range []float64{.1, 1} {
		c.Lines = append(c.Lines, Line{Name: "exponential, eps " + short(epsilon), Fit: func(theta float64) Fit {
			return Request(epsilon, map[string]any{"method": "exponential_mechanism", "theta": theta})
		}})
	}
	return c
}

// absoluteDeviations returns the same task for a fit of absolute deviations, which has no delta.
func absoluteDeviations(t *Task) *Task {
	return &Task{Model: "l1", draw: t.draw}
}
