package experiment

// sinica are Figures 1 to 4 and Table 1 of Xie et al. (Statistica Sinica): proximal descent with clipped,
// median and truncated gradients, as a function of the number of features and of epsilon.
func (c Config) sinica() []Figure {
	lasso := map[string]any{"penalty": "l1", "lambda": .02}
	sparser := map[string]any{"penalty": "l1", "lambda": .005}
	n := c.n(10_000, 50_000)
	figures := []Figure{
		sinicaFigure("sinica-lasso", "Statistica Sinica, Figures 1 and 2: lasso, lognormal features and noise, 5 of p coefficients", "distance from w*", lasso,
			func(p int) *Task { return Linear(n, sparse(p, 5), true, logNormal, 6) }),
		sinicaFigure("sinica-logistic", "Statistica Sinica, Figures 3 and 4: logistic regression with an l1 penalty", "excess log-loss", sparser,
			func(p int) *Task { return Logistic(n, sparse(p, 5), true, logLogistic(.2, .2)) }),
	}
	if c.Data == "" {
		return figures
	}
	return append(figures, blogFigure(c.folder()))
}

func sinicaFigure(name, title, measure string, options map[string]any, task func(p int) *Task) Figure {
	const p = 50
	f := Figure{Name: name, Title: title, Charts: []Chart{
		{Title: "features, eps = 1", X: "p", LogX: true, At: []float64{10, 20, 50, 100}, Seconds: true,
			Task: func(p float64) *Task { return task(int(p)) }, Lines: sinicaLines(options, func(float64) float64 { return 1 })},
		{Title: "budget, p = 50", X: "eps", LogX: true, At: []float64{.5, 1, 2, 4},
			Task: onTask(task(p)), Lines: sinicaLines(options, func(x float64) float64 { return x })},
	}}
	for i := range f.Charts {
		f.Charts[i].Y, f.Charts[i].LogY = measure, true
	}
	return f
}

func sinicaLines(options map[string]any, epsilon func(x float64) float64) (lines []Line) {
	for _, method := range []string{"spgd_clip", "spgd_kamath", "spgd_holland"} {
		lines = append(lines, Line{Name: method, Fit: func(x float64) Fit {
			return Request(epsilon(x), with(options, "method", method))
		}})
	}
	return append(lines, Line{Name: "all zero", Fit: always(predictZero)}, Line{Name: "not private", Fit: always(unclipped(options))})
}

// unclipped is proximal descent with negligible noise.
func unclipped(options map[string]any) Fit {
	return Request(noPrivacy, with(with(with(options, "method", "gd"), "clip", 1e3), "steps", 300.))
}

// blogFigure is Table 1. The number of steps, their length, truncation and range are not the defaults:
// features that are mostly zero allow longer steps than 1/p.
func blogFigure(f Folder) Figure {
	lasso := map[string]any{"penalty": "l1", "lambda": 1e-3, "steps": 30., "step_size": 1. / 60}
	return Figure{Name: "sinica-blog", Title: "Statistica Sinica, Table 1: lasso on BlogFeedback, p = 280, 36,678 posts fitted, delta = 1/n", Charts: []Chart{
		{Title: "blog feedback", X: "eps", Y: "test RMSE, comments", LogX: true, Seconds: true, At: []float64{.5, 1, 2}, Task: onTask(f.BlogLasso()), Lines: []Line{
			atEpsilon("spgd_clip", "spgd_clip", lasso),
			atEpsilon("spgd_kamath", "spgd_kamath", with(with(lasso, "blocks", 3.), "range", 4.)),
			atEpsilon("spgd_holland", "spgd_holland", with(lasso, "truncation", 10.)),
			{Name: "mean only", Fit: always(predictMean)},
			{Name: "spgd_clip, not private", Fit: always(Request(noPrivacy, with(with(lasso, "method", "spgd_clip"), "clip", 60.)))},
		}},
	}}
}
