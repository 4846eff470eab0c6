package experiment

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"

	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/stat"
)

const coverageNote = `95 %% intervals of default methods: the share that covers the coefficient of the population, over %d draws, each of a fresh sample, and half as many of more than %d rows. A law's population has
the coefficients that its targets are made of; a table is a population of which as many rows are drawn, with replacement, as it has. NULL: the share of draws
without intervals, and the reason met most often. A share p of k draws has a standard error of sqrt(p (1 - p) / k) for one coefficient. Width: the median half width over 1.96 standard deviations of the middle, for the slopes: 1 would be exact.
`

// coverDraws is how many samples are drawn for each draw that is asked for.
const coverDraws = 10

// manyRows is the size of the largest tables of laws; tables beyond largeRows are drawn half as
// often.
const manyRows = 1_000_000

// coverDraws is how many samples of so many rows are drawn.
func (c Config) coverDraws(rows int) int {
	if rows > largeRows {
		return coverDraws * c.draws() / 2
	}
	return coverDraws * c.draws()
}

// cover is one cell of the coverage table.
type cover struct {
	name       string
	slopes     int
	rows       int
	epsilon    float64
	draws      int
	seed       uint64 // of its samples: those of other cells are others
	population func(r *rand.Rand) (t *Table, truth []float64, err error)
}

func (c Config) coverage() (figures []Figure) {
	for _, model := range []string{"linear", "logistic", "huber", "poisson"} {
		figures = append(figures, Figure{
			Name: "coverage-" + model, Title: "Do 95 % intervals of dp_" + model + "_regress cover?",
			Study: func(ctx context.Context, c Config, w io.Writer, did func(string)) error {
				return c.writeCoverage(ctx, w, did, model)
			},
		})
	}
	return figures
}

func (c Config) writeCoverage(ctx context.Context, w io.Writer, did func(string), model string) error {
	fmt.Fprintf(w, "\n"+coverageNote+"\n| population | rows | d | eps | slopes | worst slope | intercept | width | NULL | why |\n|---|---|---|---|---|---|---|---|---|---|\n", coverDraws*c.draws(), largeRows)
	cells, err := c.covers(model)
	if err != nil {
		return err
	}
	for k, cell := range cells {
		cell.seed = uint64(k)
		line, err := c.cover(ctx, model, cell, did)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "| %s | %d | %d | %g |%s\n", cell.name, cell.rows, cell.slopes, cell.epsilon, line)
	}
	return nil
}

// covers lists the cells of a model.
func (c Config) covers(model string) (cells []cover, err error) {
	add := func(l law, rows, slopes int, epsilon float64) {
		cells = append(cells, cover{l.name, slopes, rows, epsilon, c.coverDraws(rows), 0, func(r *rand.Rand) (*Table, []float64, error) {
			return l.draw(rows, slopes, model, r.Uint64()), l.coefficients(slopes), nil
		}})
	}
	for _, l := range lawsOf(model) {
		for _, epsilon := range []float64{10, 1, .3} { // the first has intervals if any has
			add(l, c.n(2*studyRows, 2*studyRows), lawSlopes, epsilon)
		}
	}
	for _, d := range []int{2, 10, 20} {
		add(laws[0], c.n(5*studyRows, 25*studyRows), d, 1)
	}
	for _, l := range laws[:2] {
		add(l, c.n(manyRows, manyRows), lawSlopes, 1)
	}
	if c.Data == "" {
		return cells, nil
	}
	for _, s := range c.folder().tables(model) {
		t, err := s.open()
		if err != nil {
			return nil, err
		}
		if t.N > largeRows && !c.Full {
			continue
		}
		p := pose(t, model)
		for _, epsilon := range []float64{1, 10} {
			cells = append(cells, cover{s.name, p.D - 1, p.N, epsilon, c.coverDraws(p.N), 0, func(r *rand.Rand) (*Table, []float64, error) {
				rows := make([]int, p.N)
				for i := range rows {
					rows[i] = r.IntN(p.N)
				}
				return t.pick(rows), p.exact, nil
			}})
		}
	}
	return cells, nil
}

// cover draws samples and counts.
func (c Config) cover(ctx context.Context, model string, cell cover, did func(string)) (string, error) {
	draws, d := cell.draws, cell.slopes+1
	covered, middles, halves := make([]float64, d), make([][]float64, d), make([][]float64, d)
	reasons, given := map[string]int{}, 0
	for draw := 0; draw < draws; draw++ {
		did(fmt.Sprintf("%s, %s at %g", model, cell.name, cell.epsilon))
		r, truth, p, err := cell.request(ctx, model, draw)
		if err != nil {
			return "", err
		}
		if r.Low == nil {
			reasons[r.WhyNull]++
			if given == 0 && draw+1 == coverDraws {
				draws = coverDraws // a cell that has none
				break
			}
			continue
		}
		given++
		for j, low := range p.scaled(r.Low) {
			high := p.scaled(r.High)[j]
			if low <= truth[j] && truth[j] <= high {
				covered[j]++
			}
			middles[j], halves[j] = append(middles[j], (low+high)/2), append(halves[j], (high-low)/2)
		}
	}
	why := ""
	for reason, n := range reasons {
		if n > reasons[why] || n == reasons[why] && reason < why {
			why = reason
		}
	}
	if given < 2 {
		return fmt.Sprintf(" | | | | %.0f %% | %s |", 100*float64(draws-given)/float64(draws), why), nil
	}
	slopes, worst, widths := 0., 1., []float64{}
	for j := 1; j < d; j++ {
		share := covered[j] / float64(given)
		slopes, worst = slopes+share/float64(d-1), min(worst, share)
		slices.Sort(halves[j])
		widths = append(widths, halves[j][given/2]/1.96/math.Sqrt(stat.Variance(middles[j], nil)))
	}
	slices.Sort(widths)
	return fmt.Sprintf(" %.3f | %.2f | %.3f | %.2g | %.0f %% | %s |", slopes, worst, covered[0]/float64(given), widths[len(widths)/2],
		100*float64(draws-given)/float64(draws), why), nil
}

// request fits one sample of a cell, by its number. The result is in the table's units, and truth
// in scaled ones.
func (cell cover) request(ctx context.Context, model string, number int) (r dpsco.Result, truth []float64, p *posed, err error) {
	t, truth, err := cell.population(rand.New(rand.NewPCG(uint64(number), 22+cell.seed)))
	if err != nil {
		return r, nil, nil, err
	}
	p = &posed{Table: t, model: model}
	r, err = p.request(ctx, privacy.Budget{Epsilon: cell.epsilon, Delta: studyDelta}, nil)
	return r, truth, p, err
}
