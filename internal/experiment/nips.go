package experiment

// nips are Figures 1 and 2 of Wang, Ye & Xu (NIPS 2017): logistic regression on Covertype by SVRG and
// SVRG++ against gradient descent, optimality gap and time. Besides zCDP the two are priced by Renyi
// accounting, with amplification by subsampling.
func (c Config) nips() []Figure {
	if c.Data == "" {
		return nil
	}
	return []Figure{
		nipsFigure("nips-1", "NIPS 2017, Figure 1: DP-SVRG on Covertype", c.folder(), "svrg"),
		nipsFigure("nips-2", "NIPS 2017, Figure 2: DP-SVRG++ on Covertype", c.folder(), "svrg_pp"),
	}
}

func nipsFigure(name, title string, f Folder, method string) Figure {
	white := map[string]any{"whitening": "on"}
	return Figure{Name: name, Title: title, Charts: []Chart{{
		Title: "logistic regression, n = 92,962", X: "eps", Y: "optimality gap of the log-loss", LogX: true, LogY: true, Seconds: true,
		At: []float64{.1, .2, .5, 1, 2}, Task: onTask(f.Covertype()),
		Lines: []Line{
			atEpsilon("gd", "gd", white),
			atEpsilon(method, method, white),
			{Name: method + ", Renyi", Fit: func(epsilon float64) Fit { return Amplified(epsilon, with(white, "method", method)) }},
			{Name: "all zero", Fit: always(predictZero)},
		},
	}}}
}
