package experiment

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// study is a measurement that is not a chart; it writes tables. It calls did for each fit.
type study func(ctx context.Context, c Config, w io.Writer, did func(what string)) error

// studyEpsilons and studyDelta are the budgets of studies.
var studyEpsilons = []float64{.1, .3, 1}

const studyDelta = 1e-6

// studyRows is the number of rows of a generator's table. Forecasts and coverage use tables of more than
// largeRows with --full only.
const (
	studyRows = 20_000
	largeRows = 5 * studyRows
)

func (c Config) studyEpsilons() []float64 {
	if c.brief {
		return studyEpsilons[2:]
	}
	return studyEpsilons
}

// comparisons are figures that compare the default method with peers.
func (c Config) comparisons() []Figure {
	against := func(model string, peers []peer) study {
		return func(ctx context.Context, c Config, w io.Writer, did func(string)) error {
			return c.compare(ctx, w, did, model, peers)
		}
	}
	return []Figure{
		{Name: "peers-linear", Title: "Least squares: ours at its defaults against published peers", Study: against("linear", linearFew)},
		{Name: "peers-logistic", Title: "Logistic regression: ours at its defaults against published peers", Study: against("logistic", logisticFew)},
		{Name: "peers-huber", Title: "Huber regression: ours at its defaults against published peers", Study: against("huber", huberFew)},
		{Name: "peers-poisson", Title: "Poisson regression: ours at its defaults against descent on clipped gradients", Study: against("poisson", poissonFew)},
	}
}

const comparisonNote = `Excess of the mean loss, of counts the deviance, over the least, in percent of it: median of %d draws, delta %g.

- *ours*: the default method, as a request without options.
- *fixed*: a peer at a setting that was chosen beforehand. *best*: at the best one of its grid in hindsight, in each cell another. That is not private: no one who has only the table's public facts could ask for it.
- Peers have real-valued noise and are no products.
`

// compare writes a row for each table and eps.
func (c Config) compare(ctx context.Context, w io.Writer, did func(string), model string, peers []peer) error {
	fmt.Fprintf(w, "\n"+comparisonNote+"\n| table | rows | eps | ours |", c.draws(), studyDelta)
	for _, peer := range peers {
		fmt.Fprintf(w, " %s, fixed | best |", peer.name)
	}
	fmt.Fprintf(w, "\n|---|---|---|---|%s\n", strings.Repeat("---|", 2*len(peers)))
	means := map[float64][]float64{} // means of logarithms, by eps and column
	sources := c.sources(model, c.n(studyRows, studyRows))
	for _, s := range sources {
		t, err := s.open()
		if err != nil {
			return err
		}
		p := pose(t, model)
		for _, epsilon := range c.studyEpsilons() {
			row, err := c.compareCell(ctx, p, s.name, epsilon, peers, did)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "| %s | %d | %g |%s\n", s.name, p.N, epsilon, cells(row))
			if means[epsilon] == nil {
				means[epsilon] = make([]float64, len(row))
			}
			for k, v := range row {
				means[epsilon][k] += math.Log(max(v, 1e-6)) / float64(len(sources))
			}
		}
	}
	for _, epsilon := range c.studyEpsilons() {
		for k, v := range means[epsilon] {
			means[epsilon][k] = math.Exp(v)
		}
		fmt.Fprintf(w, "| **geometric mean** | | %g |%s\n", epsilon, cells(means[epsilon]))
	}
	return nil
}

func cells(row []float64) string {
	text := ""
	for _, v := range row {
		text += fmt.Sprintf(" %.2g |", v)
	}
	return text
}

// compareCell returns the median excess of the default method and, of each peer, at its fixed setting and
// at its best setting.
func (c Config) compareCell(ctx context.Context, p *posed, name string, epsilon float64, peers []peer, did func(string)) ([]float64, error) {
	b := privacy.Budget{Epsilon: epsilon, Delta: studyDelta}
	ours, err := c.median(func(int) (float64, error) {
		did(fmt.Sprintf("%s at %g: ours", name, epsilon))
		r, err := p.request(ctx, b)
		if err != nil {
			return 0, err
		}
		return p.excess(p.scaled(r.Coefficients)), nil
	})
	row := []float64{ours}
	for _, peer := range peers {
		at := func(c Config, s setting) float64 {
			v, failed := c.median(func(draw int) (float64, error) {
				did(fmt.Sprintf("%s at %g: %s", name, epsilon, peer.name))
				return p.excess(peer.fit(p, s, b, rand.New(rand.NewPCG(uint64(draw), 21)))), ctx.Err()
			})
			err = cmp.Or(err, failed)
			return v
		}
		fixed, best, least := at(c, peer.fixed), peer.fixed, at(c.few(), peer.fixed)
		for _, s := range peer.grid {
			if c.brief {
				break
			}
			if v := at(c.few(), s); v < least {
				best, least = s, v
			}
		}
		row = append(row, fixed, min(fixed, at(c, best)))
	}
	return row, err
}

// screenDraws is the number of draws that select the best setting of a grid.
const screenDraws = 3

func (c Config) few() Config {
	c.Draws = min(c.draws(), screenDraws)
	return c
}

// median returns the median of as many draws as c asks for.
func (c Config) median(draw func(number int) (float64, error)) (float64, error) {
	var all []float64
	for number := range c.draws() {
		v, err := draw(number)
		if err != nil {
			return math.NaN(), err
		}
		if math.IsNaN(v) {
			v = math.Inf(1)
		}
		all = append(all, v)
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2, nil
}

// algorithm returns a request for the model in the table's scales.
func (p *posed) algorithm() (dpsco.Scaled, error) {
	algorithm, err := dpsco.Recipe(p.model, nil, nil)
	scaled := dpsco.Scaled{Algorithm: algorithm, X: p.Scales, Y: p.targetScale(), Flags: p.flags(), Counts: catalogue.IsCount(p.model)}
	if p.Exposure != nil {
		scaled.Exposure = 1
	}
	return scaled, err
}

// request runs a fit as an analyst would ask for it, on an account with zCDP accounting.
func (p *posed) request(ctx context.Context, b privacy.Budget) (release.Result, error) {
	algorithm, err := p.algorithm()
	if err != nil {
		return release.Result{}, err
	}
	plan, err := algorithm.Plan(p.Shape, b, privacy.Concentrated{})
	if err != nil {
		return release.Result{}, err
	}
	return plan.Run(ctx, p.copy(), mech.NewSource())
}
