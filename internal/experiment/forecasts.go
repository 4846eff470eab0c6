package experiment

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/stat"
)

const forecastNote = `Both figures that dp_explain has of a coefficient's noise, over the standard deviation of its estimates in %d draws: 1 would be exact.

- *at scales*: noise_at_scales, before a first answer, for features as large and as independent as their scales: the least, the median and the most over the coefficients.
- *told*: for how many of as many releases, at %g times the eps, dp_explain gives figures after one; for the others, and for coefficients without one, it says why not.
- *from a release*: expected_error of these: what nine of ten exceed, the median, and what one of ten exceeds.
- *within*: how many of these lie between half and twice what is seen.
`

// formerEpsilon is the ratio of the budget of the release that forecasts are made from to the budget that
// they are for.
const formerEpsilon = 1.25

func (c Config) forecasts() (figures []Figure) {
	for _, model := range []string{"linear", "logistic", "huber", "poisson", "l1"} {
		figures = append(figures, Figure{
			Name: "forecasts-" + model, Title: "What dp_explain expects of dp_" + model + "_regress",
			Study: func(ctx context.Context, c Config, w io.Writer, did func(string)) error {
				return c.writeForecasts(ctx, w, did, model)
			},
		})
	}
	return figures
}

func (c Config) writeForecasts(ctx context.Context, w io.Writer, did func(string), model string) error {
	fmt.Fprintf(w, "\n"+forecastNote+"\n| table | eps | at scales | told | from a release | within |\n|---|---|---|---|---|---|\n", c.draws(), formerEpsilon)
	told, good := new(within), new(within)
	for _, s := range c.sources(model, c.n(studyRows, studyRows)) {
		t, err := s.open()
		if err != nil {
			return err
		}
		if t.N > largeRows && !c.Full {
			continue
		}
		for _, epsilon := range c.studyEpsilons() {
			did(fmt.Sprintf("%s, %s at %g", s.name, model, epsilon))
			f, err := c.forecast(ctx, &posed{Table: t, model: model}, epsilon)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "| %s | %g | %s | %s | %s | %s |\n", s.name, epsilon, quantiles(f.atScales, 0, .5, 1), told.add(within{f.told, f.releases}),
				quantiles(f.fromReleases, .1, .5, .9), good.add(withinTwo(f.fromReleases)))
		}
	}
	_, err := fmt.Fprintf(w, "| **all** | | | %s | | %s |\n", told, good)
	return err
}

// within counts good cases, such as forecasts that are wrong by at most a factor of two.
type within struct{ good, all int }

func (t *within) String() string { return fmt.Sprintf("%d of %d", t.good, t.all) }

// add adds the counts of a cell, and returns them as text.
func (t *within) add(cell within) string {
	t.good, t.all = t.good+cell.good, t.all+cell.all
	if cell.all == 0 {
		return ""
	}
	return cell.String()
}

func withinTwo(ratios []float64) (w within) {
	for _, r := range ratios {
		w.count(r >= .5 && r <= 2)
	}
	return w
}

// quantiles formats the quantiles of ratios at the given levels; 0 is the least ratio and 1 the largest.
func quantiles(ratios []float64, at ...float64) string {
	if len(ratios) == 0 {
		return "none"
	}
	slices.Sort(ratios)
	var text []string
	for _, p := range at {
		text = append(text, fmt.Sprintf("%.2g", ratios[int(p*float64(len(ratios)-1)+.5)]))
	}
	return strings.Join(text, ", ")
}

// forecastRatios are ratios of forecasts to observed standard deviations: atScales for each coefficient,
// nil if there are none; fromReleases for each coefficient that one of the told releases gives a forecast for, of all
// releases.
type forecastRatios struct {
	atScales, fromReleases []float64
	told, releases         int
}

func (c Config) forecast(ctx context.Context, p *posed, epsilon float64) (f forecastRatios, err error) {
	b := privacy.Budget{Epsilon: epsilon, Delta: studyDelta}
	if p.model == "l1" {
		b.Delta = 0
	}
	algorithm, err := p.algorithm()
	if err != nil {
		return f, err
	}
	expected, err := dpsco.Expect(algorithm, p.Shape, b, privacy.Concentrated{})
	if err != nil {
		return f, err
	}
	f.releases = max(2, c.draws())
	fits, releases := make([][]float64, p.D), make([][]float64, 0)
	for range f.releases {
		r, err := p.request(ctx, b)
		if err != nil {
			return f, err
		}
		for j, v := range r.Coefficients {
			fits[j] = append(fits[j], v)
		}
		told, err := p.told(ctx, b)
		if err != nil {
			return f, err
		}
		if told != nil {
			releases = append(releases, told)
		}
	}
	f.told = len(releases)
	for j, values := range fits {
		seen := math.Sqrt(stat.Variance(values, nil))
		if expected.Deviation != nil {
			f.atScales = append(f.atScales, expected.Deviation[j]/seen)
		}
		for _, told := range releases {
			if !math.IsNaN(told[j]) {
				f.fromReleases = append(f.fromReleases, told[j]/seen)
			}
		}
	}
	return f, nil
}

// told returns the forecast, from a release at another budget, of the noise at b; nil if the same method
// would not run, or releases give no forecast.
func (p *posed) told(ctx context.Context, b privacy.Budget) ([]float64, error) {
	before := b
	before.Epsilon *= formerEpsilon
	algorithm, err := p.algorithm()
	if err != nil {
		return nil, err
	}
	now, err := algorithm.Plan(p.Shape, b, privacy.Concentrated{})
	if err != nil {
		return nil, err
	}
	former, err := algorithm.Plan(p.Shape, before, privacy.Concentrated{})
	if err != nil {
		return nil, err
	}
	r, err := p.request(ctx, before)
	told := r.Noise()
	if err != nil || told == nil || former.Method != now.Method || former.Parameters["whitening"] != now.Parameters["whitening"] {
		return nil, err
	}
	for j := range told {
		told[j] *= now.Parameters["noise_multiplier"].(float64) / former.Parameters["noise_multiplier"].(float64)
	}
	return told, nil
}
