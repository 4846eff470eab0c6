package experiment

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

const coverageNote = `How often the intervals of default methods hold the coefficient of the population:

- A row is of %d samples, each fresh, and of half as many of more than %d rows. A share p of k samples has a standard error of sqrt(p (1 - p) / k) for one coefficient.
- *population*: a generated table has the coefficients that its targets are made of; a real table is a population of which as many rows are drawn, with replacement, as it has.
- *slopes*, *worst slope*, *intercept*: the share of given 95 %% intervals that cover. In brackets, of counts on which no model holds: the shares of slopes, and of the worst one, that ordinary sandwich intervals of fits without privacy cover, in half of the samples.
- *width*: the median half width over 1.96 standard deviations of the middle, for the slopes: 1 would be exact.
- *NULL*: the share of intervals that are withheld; *why*: the reason met most often. A cell whose first 10 samples have no interval ends there and says 100 %%.
`

// coverDraws is the number of samples for each draw of Config.Draws.
const coverDraws = 10

// fewRows and manyRows are the sizes of the smallest and the largest tables of generators. Tables with more than
// largeRows rows get half as many samples.
const (
	fewRows  = 5_000
	manyRows = 1_000_000
)

// coverDraws returns the number of samples of tables with the given number of rows.
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
	seed       uint64 // of its samples; each cell has another
	ordinary   bool   // also count intervals of a fit without privacy
	population func(r *rand.Rand) (t *Table, truth []float64, err error)
}

func (c Config) coverage() (figures []Figure) {
	add := func(name, title string, model string, cells func(model string) ([]cover, error)) {
		figures = append(figures, Figure{
			Name: name + model, Title: "Do 95 % intervals of dp_" + model + "_regress cover" + title + "?",
			Study: func(ctx context.Context, c Config, w io.Writer, did func(string)) error {
				return c.writeCoverage(ctx, w, did, model, cells)
			},
		})
	}
	models := []string{"linear", "logistic", "huber", "poisson"}
	for _, model := range models {
		add("coverage-", "", model, c.covers)
	}
	for _, model := range models[1:] {
		add("coverage-misfit-", " where the model does not hold, or rows say nothing", model, c.misfitCovers)
	}
	for _, model := range models[:3] {
		add("coverage-far-", " where few rows lie far away", model, c.farCovers)
	}
	add("coverage-costs-", " where few rows have a cost", "linear", c.costCovers)
	return figures
}

func (c Config) writeCoverage(ctx context.Context, w io.Writer, did func(string), model string, covers func(model string) ([]cover, error)) error {
	cells, err := covers(model)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\n"+coverageNote+"\n| population | rows | d | eps | slopes | worst slope | intercept | width | NULL | why |\n|---|---|---|---|---|---|---|---|---|---|\n", coverDraws*c.draws(), largeRows)
	for k, cell := range cells {
		cell.seed = uint64(k)
		line, err := c.cover(ctx, model, cell, did)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "| %s | %d | %d | %g |%s\n", cell.name, cell.rows, cell.slopes, cell.epsilon, line)
		cells[k] = cover{} // releases the memory of its table
	}
	return nil
}

// covers returns the cells of a model.
func (c Config) covers(model string) (cells []cover, err error) {
	add := func(l generator, rows, slopes int, epsilon float64) {
		cells = append(cells, c.coverOfGenerator(l, l.name, rows, slopes, model, epsilon))
	}
	for _, l := range generatorsOf(model) {
		for _, epsilon := range []float64{10, 1, .3} {
			add(l, c.n(2*studyRows, 2*studyRows), generatedSlopes, epsilon)
		}
	}
	for _, d := range []int{2, 10, 20} {
		add(generators[0], c.n(5*studyRows, 25*studyRows), d, 1)
	}
	for _, l := range generators[:2] {
		add(l, c.n(manyRows, manyRows), generatedSlopes, 1)
		for _, epsilon := range []float64{3, 10} {
			add(l, c.n(fewRows, fewRows), generatedSlopes, epsilon)
		}
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
		cells = append(cells, c.samples(s.name, func() *Table { return t }, t.D-1, t.N, model, false)...)
	}
	return cells, nil
}

// samples returns cells of samples of n rows, drawn from a table with replacement. misfit says that the
// model does not hold on the table.
func (c Config) samples(name string, open func() *Table, slopes, n int, model string, misfit bool) (cells []cover) {
	population := sync.OnceValue(func() *posed { return pose(open(), model) })
	for _, epsilon := range []float64{.3, 1, 10} {
		ordinary := misfit && catalogue.IsCount(model) && epsilon > 1
		cells = append(cells, cover{name, slopes, n, epsilon, c.coverDraws(n), 0, ordinary, func(r *rand.Rand) (*Table, []float64, error) {
			p, rows := population(), make([]int, n)
			for i := range rows {
				rows[i] = r.IntN(p.N)
			}
			return p.pick(rows), p.exact, nil
		}})
	}
	return cells
}

// misfitRows is the number of rows of a misfit's population. A sample has a tenth of it, for farRows a
// twentieth.
const misfitRows = 20 * studyRows

// misfitCovers returns the cells of misfits, and of generators whose first feature is missing in most rows.
func (c Config) misfitCovers(model string) (cells []cover, err error) {
	all, shares := slices.Concat(misfits, otherMisfits), missingShares
	if c.brief {
		all, shares = all[:1], shares[:1]
	}
	for _, l := range all {
		n := c.n(misfitRows, misfitRows)
		cells = append(cells, c.samples(l.name, func() *Table { return l.table(n, model, 1) }, generatedSlopes, n/10, model, true)...)
	}
	for _, l := range generators[:2] {
		for _, share := range shares {
			l.missing = share
			for _, epsilon := range []float64{1, 10} {
				cells = append(cells, c.coverOfGenerator(l, fmt.Sprintf("%s, %g %% NULL", l.name, 100*share), c.n(largeRows, largeRows), generatedSlopes, model, epsilon))
			}
		}
	}
	return cells, nil
}

// farCovers returns the cells of generators with few rows far away.
func (c Config) farCovers(model string) (cells []cover, err error) {
	all, n := farRows, c.n(misfitRows, misfitRows)
	if c.brief {
		all = all[:1]
	}
	for _, l := range all {
		cells = append(cells, c.samples(l.name, func() *Table { return l.table(n, model, 1) }, generatedSlopes, n/20, model, true)...)
	}
	return cells, nil
}

// costCovers returns the cells of costs that a share of the rows has, at all sizes: lognormal, at a scale that
// is the median of those that are not 0. Their number grows with the first of two features.
func (c Config) costCovers(model string) (cells []cover, err error) {
	shares, spreads, n := []float64{.003, .03, .3}, []float64{1, 1.5, 2}, c.n(2*studyRows, 2*studyRows)
	if c.brief {
		shares, spreads = shares[:1], spreads[:1]
	}
	for _, share := range shares {
		for _, spread := range spreads {
			for _, epsilon := range []float64{.3, 1, 3, 10} {
				name := fmt.Sprintf("%g %% of rows have a cost, spread %g", 100*share, spread)
				cells = append(cells, cover{name, 2, n, epsilon, c.coverDraws(n), 0, false, func(r *rand.Rand) (*Table, []float64, error) {
					t, truth := costs(r, n, share, spread)
					return t, truth, nil
				}})
			}
		}
	}
	return cells, nil
}

// costs returns such a table, and the coefficients of least squares of its population.
func costs(r *rand.Rand, n int, share, spread float64) (t *Table, truth []float64) {
	const growth = .5
	t = design(r, n, []float64{growth, 0}, false)
	t.TargetScale = 1
	for i := range t.Y {
		t.Y[i] = 0
		if r.Float64() < share*math.Exp(growth*t.X[0][i]-growth*growth/2) {
			t.Y[i] = math.Exp(spread * r.NormFloat64())
		}
	}
	mean := share * math.Exp(spread*spread/2)
	return t, []float64{mean, growth * mean, 0}
}

// coverOfGenerator returns the cell of a generator.
func (c Config) coverOfGenerator(l generator, name string, rows, slopes int, model string, epsilon float64) cover {
	return cover{name, slopes, rows, epsilon, c.coverDraws(rows), 0, false, func(r *rand.Rand) (*Table, []float64, error) {
		return l.draw(rows, slopes, model, r.Uint64()), l.coefficients(slopes), nil
	}}
}

// cover draws samples, counts how many intervals contain the true coefficient, and returns a line of the
// table.
func (c Config) cover(ctx context.Context, model string, cell cover, did func(string)) (string, error) {
	draws, seen := cell.draws, newCoverTally(cell.slopes+1)
	without := ordinary{covered: make([]float64, cell.slopes+1)}
	for draw := 0; draw < draws; draw++ {
		did(fmt.Sprintf("%s, %s at %g", model, cell.name, cell.epsilon))
		r, truth, p, err := cell.request(ctx, model, draw)
		if err != nil {
			return "", err
		}
		if cell.ordinary && 2*draw < cell.draws {
			without.add(p, truth)
		}
		seen.add(p, r, truth)
		if seen.given == 0 && draw+1 >= coverDraws && !(cell.ordinary && 2*(draw+1) < cell.draws) {
			draws = draw + 1 // end a cell without intervals early
		}
	}
	return seen.line(draws, without), nil
}

// coverTally counts the intervals of the fits of one cell.
type coverTally struct {
	covered         []float64      // for each coefficient, the number of intervals that contain it
	middles, halves [][]float64    // of the intervals of each coefficient; halves of their widths
	reasons         map[string]int // why intervals are not given
	given           int            // fits with intervals
}

func newCoverTally(d int) *coverTally {
	return &coverTally{make([]float64, d), make([][]float64, d), make([][]float64, d), map[string]int{}, 0}
}

// add counts the intervals of a fit. truth is in scaled units.
func (t *coverTally) add(p *posed, r release.Result, truth []float64) {
	if r.Low == nil {
		t.reasons[r.WhyNull]++
		return
	}
	t.given++
	if r.WhyNull != "" {
		t.reasons[r.WhyNull]++
	}
	for j, low := range p.scaled(r.Low) {
		if r.Withholds(j) {
			continue
		}
		high := p.scaled(r.High)[j]
		if low <= truth[j] && truth[j] <= high {
			t.covered[j]++
		}
		t.middles[j], t.halves[j] = append(t.middles[j], (low+high)/2), append(t.halves[j], (high-low)/2)
	}
}

// mostFrequentReason is the one why most intervals are not given; empty if there is none.
func (t *coverTally) mostFrequentReason() (why string) {
	for reason, n := range t.reasons {
		if n > t.reasons[why] || n == t.reasons[why] && reason < why {
			why = reason
		}
	}
	return why
}

// line is the line of the table after so many draws.
func (t *coverTally) line(draws int, without ordinary) string {
	d, all := len(t.halves), 0 // all is the number of intervals that are given
	for _, half := range t.halves {
		all += len(half)
	}
	withheld, why := 100*(1-float64(all)/float64(draws*d)), t.mostFrequentReason()
	hold, slopes, worst, widths := 0., 0, 1., []float64{}
	for j := 1; j < d; j++ {
		n := len(t.halves[j])
		hold, slopes = hold+t.covered[j], slopes+n
		if n < 2 {
			continue
		}
		worst = min(worst, t.covered[j]/float64(n))
		slices.Sort(t.halves[j])
		widths = append(widths, t.halves[j][n/2]/1.96/math.Sqrt(stat.Variance(t.middles[j], nil)))
	}
	if len(widths) == 0 {
		return fmt.Sprintf("%s | | | | %.0f %% | %s |", without, withheld, why)
	}
	slices.Sort(widths)
	constant := ""
	if n := len(t.halves[0]); n > 0 {
		constant = fmt.Sprintf("%.3f", t.covered[0]/float64(n))
	}
	return fmt.Sprintf(" %.3f%s | %.2f | %s | %.2g | %.0f %% | %s |", hold/float64(slopes), without, worst, constant, widths[len(widths)/2], withheld, why)
}

// request fits one sample of a cell, by its number. The result is in the table's units, truth in scaled
// units.
func (cell cover) request(ctx context.Context, model string, number int) (r release.Result, truth []float64, p *posed, err error) {
	t, truth, err := cell.population(rand.New(rand.NewPCG(uint64(number), 22+cell.seed)))
	if err != nil {
		return r, nil, nil, err
	}
	p = &posed{Table: t, model: model}
	r, err = p.request(ctx, privacy.Budget{Epsilon: cell.epsilon, Delta: studyDelta})
	return r, truth, p, err
}

// ordinary counts how many sandwich intervals of fits without privacy contain the true coefficient.
type ordinary struct {
	covered []float64
	fits    int
}

// add fits a table and counts the intervals that contain truth, which is in scaled units.
func (o *ordinary) add(t *posed, truth []float64) {
	p := pose(t.Table, t.model)
	loss, meat := p.loss(), mat.NewSymDense(p.D, nil)
	for i, y := range p.y {
		_, first, _ := loss(p.known[i]+dot(p.row(i), p.exact), y)
		meat.SymRankOne(meat, first*first, mat.NewVecDense(p.D, p.row(i)))
	}
	_, _, h := p.derivatives(loss, math.Inf(1), 0, make([]float64, p.D), p.exact)
	var inverse, v mat.Dense
	if inverse.Inverse(h) != nil {
		return
	}
	v.Mul(&inverse, meat)
	v.Mul(&v, &inverse)
	o.fits++
	for j := range truth {
		if math.Abs(truth[j]-p.exact[j]) <= distuv.UnitNormal.Quantile(.975)*math.Sqrt(v.At(j, j)) {
			o.covered[j]++
		}
	}
}

// String returns the share of slopes that are covered, and that of the worst slope; the empty string
// without fits.
func (o ordinary) String() string {
	if o.fits == 0 {
		return ""
	}
	slopes := o.covered[1:]
	return fmt.Sprintf(" (%.2f, %.2f)", floats.Sum(slopes)/float64(len(slopes)*o.fits), floats.Min(slopes)/float64(o.fits))
}
