package experiment

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/stat"
)

const forecastNote = `Both figures that dp_explain has of a coefficient's noise, over the standard deviation of its estimates in %d draws: the least, the median and the most over the
coefficients. Before a first answer: noise_at_scales, for features as large and as independent as their scales. After one: expected_error, from a single
release at %g times the eps; none where it does not tell, and dp_explain says why. Within: coefficients for which the latter lies between half and twice what is seen.
`

// formerEpsilon is the budget of the release that forecasts are made from, over the budget
// that they are for.
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
	fmt.Fprintf(w, "\n"+forecastNote+"\n| table | eps | at scales | from a release | within |\n|---|---|---|---|---|\n", c.draws(), formerEpsilon)
	total := new(within)
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
			fmt.Fprintf(w, "| %s | %g | %s | %s | %s |\n", s.name, epsilon, spread(f.atScales), spread(f.fromRelease), total.add(f.fromRelease))
		}
	}
	_, err := fmt.Fprintf(w, "| **all** | | | | %s |\n", total)
	return err
}

// within counts forecasts that are off by a factor of two at most.
type within struct{ good, all int }

func (t *within) String() string { return fmt.Sprintf("%d of %d", t.good, t.all) }

func (t *within) add(ratios []float64) string {
	own := new(within)
	for _, r := range ratios {
		own.all++
		if r >= .5 && r <= 2 {
			own.good++
		}
	}
	t.good, t.all = t.good+own.good, t.all+own.all
	if own.all == 0 {
		return ""
	}
	return own.String()
}

// spread is the least, the median and the most.
func spread(ratios []float64) string {
	if len(ratios) == 0 {
		return "none"
	}
	slices.Sort(ratios)
	return fmt.Sprintf("%.2g, %.2g, %.2g", ratios[0], ratios[len(ratios)/2], ratios[len(ratios)-1])
}

// forecastRatios are forecasts over what is seen, for each coefficient; nil where there are none.
type forecastRatios struct{ atScales, fromRelease []float64 }

func (c Config) forecast(ctx context.Context, p *posed, epsilon float64) (f forecastRatios, err error) {
	b := privacy.Budget{Epsilon: epsilon, Delta: studyDelta}
	if p.model == "l1" {
		b.Delta = 0
	}
	algorithm, err := p.algorithm(nil)
	if err != nil {
		return f, err
	}
	expected, err := dpsco.Expect(algorithm, p.Shape, b, privacy.Concentrated{})
	if err != nil {
		return f, err
	}
	told, err := p.told(ctx, b)
	if err != nil {
		return f, err
	}
	fits := make([][]float64, p.D)
	for range max(2, c.draws()) {
		r, err := p.request(ctx, b, nil)
		if err != nil {
			return f, err
		}
		for j, v := range r.Coefficients {
			fits[j] = append(fits[j], v)
		}
	}
	for j, values := range fits {
		seen := math.Sqrt(stat.Variance(values, nil))
		if expected.Deviation != nil {
			f.atScales = append(f.atScales, expected.Deviation[j]/seen)
		}
		if told != nil {
			f.fromRelease = append(f.fromRelease, told[j]/seen)
		}
	}
	return f, nil
}

// told is what a release at another budget tells of the noise at b; nil where the same
// method would not run, or releases do not tell.
func (p *posed) told(ctx context.Context, b privacy.Budget) ([]float64, error) {
	before := b
	before.Epsilon *= formerEpsilon
	algorithm, err := p.algorithm(nil)
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
	r, err := p.request(ctx, before, nil)
	told := r.Noise()
	if err != nil || told == nil || former.Method != now.Method || former.Parameters["whitening"] != now.Parameters["whitening"] {
		return nil, err
	}
	for j := range told {
		told[j] *= now.Parameters["noise_multiplier"].(float64) / former.Parameters["noise_multiplier"].(float64)
	}
	return told, nil
}
