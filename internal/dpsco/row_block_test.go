package dpsco

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
)

// plainRow is a row of a pass, computed alone and in the order that rowBlock keeps.
type plainRow struct {
	z         []float64
	e, length float64
	weight    float64 // its own
}

// plainRowOf is row i of x, times the root of its weight.
func plainRowOf(x table.Data, i int, p *mat.Dense, w []float64) (r plainRow) {
	row := make([]float64, 0, x.D)
	if x.Intercept {
		row = append(row, 1)
	}
	for _, column := range x.X {
		row = append(row, column[i])
	}
	product := func(n int, a func(j int) float64) (sum float64) {
		for j := range n {
			sum += float64(a(j) * row[j])
		}
		return sum
	}
	r.e = product(x.D, func(j int) float64 { return w[j] })
	if x.Offset != nil {
		r.e += x.Offset[i]
	}
	r.e = x.Y[i] - r.e
	square := 0.0
	for j := range x.D {
		z := product(j+1, func(k int) float64 { return p.At(k, j) })
		r.z = append(r.z, z)
		square += float64(z * z)
	}
	if r.length = math.Sqrt(square); !(square <= math.MaxFloat64 && math.Abs(r.e) <= math.MaxFloat64) {
		r.length, r.e = math.NaN(), math.NaN()
	}
	if r.weight = x.WeightOf(i); x.Weight != nil {
		root := math.Sqrt(r.weight)
		r.e, r.length = r.e*root, r.length*root
		for j := range r.z {
			r.z[j] *= root
		}
	}
	return r
}

// level is what it gives to the mean residual.
func (r plainRow) level() float64 { return r.e * math.Sqrt(r.weight) }

// times is c z.
func (r plainRow) times(c float64) []float64 {
	v := make([]float64, len(r.z))
	for j, z := range r.z {
		v[j] = c * z
	}
	return v
}

// plainMean is the mean of what the rows of a record give, of a single row that itself; NaN counts as zero.
func plainMean(rows []plainRow, records bool, give func(r plainRow) []float64) []float64 {
	if !records {
		return give(rows[0])
	}
	total := make([]float64, len(give(rows[0])))
	for _, r := range rows {
		for j, v := range give(r) {
			if !math.IsNaN(v) {
				total[j] += v
			}
		}
	}
	for j := range total {
		total[j] /= float64(len(rows))
	}
	return total
}

// seenPass is what the pilot and the step of a JointMoments hand to their releases.
type seenPass struct {
	*jointFit
	pilot, meat       *mech.Moments
	e, length, size   *mech.Histogram
	step, level       *mech.Sum
	shortened, weight []float64
}

func newSeenPass(f *jointFit, rows int) *seenPass {
	n := f.shape.N
	histogram := func() *mech.Histogram { return mech.NewHistogram(magnitude.HalfOctaves, n, 1) }
	return &seenPass{jointFit: f, pilot: mech.NewMoments(f.pilotContract()), meat: mech.NewMoments(f.meatContract()), e: histogram(), length: histogram(),
		size: histogram(), step: mech.NewSum(f.stepContract()), level: mech.NewSum(f.interceptContract()), shortened: make([]float64, rows)}
}

// add adds a record, row by row.
func (s *seenPass) add(x table.Data, u int) {
	first, last := x.Span(u, u+1)
	var rows, stepRows []plainRow
	records := x.First != nil
	weights := map[*float64]float64{}
	block := table.Data{Shape: x.Shape, X: table.NewColumns(x.D+1, last-first)}
	for i := first; i < last; i++ {
		r := plainRowOf(x, i, s.p, s.w)
		rows = append(rows, r)
		stepRow := plainRowOf(x, i, s.stepCoordinates(), s.w)
		stepRows = append(stepRows, stepRow)
		weights[&stepRow.z[0]] = s.weight[i]
		s.shortened[i] = min(1, s.bound/r.length)
		for j, z := range r.z {
			block.X[j][i-first] = s.shortened[i] / s.bound * z
		}
		block.X[x.D][i-first] = s.shortened[i] * (residualWeight / s.cut) * max(-s.cut, min(r.e, s.cut))
	}
	table.AddRows(s.pilot, mech.Rows{X: block.X}, 1, map[bool][]int{true: {0, last - first}}[records])
	count := func(h *mech.Histogram, v float64) {
		h.AddRows(mech.Rows{Intercept: true}, []float64{magnitude.Position(v)})
	}
	count(s.e, rows[0].e/s.Scale)
	count(s.length, rows[0].length)
	size := func(given []float64, c float64) float64 {
		if !records {
			return math.Abs(c) * rows[0].length
		}
		square := 0.0
		for _, v := range given {
			square += v * v
		}
		return math.Sqrt(square)
	}
	count(s.size, size(plainMean(rows, records, func(r plainRow) []float64 { return r.times(r.e / s.Scale) }), rows[0].e/s.Scale))

	// split is both parts of what is cut.
	split := func(given []float64, length float64, c cuts) (parts []float64) {
		unit, unitRest := c.units()
		within := min(1, c.inner/length)
		for _, v := range given {
			parts = append(parts, within/unit*v)
		}
		for _, v := range given {
			parts = append(parts, (min(1, c.outer/length)-within)/unitRest*v)
		}
		return parts
	}
	rows = stepRows
	weight := func(r plainRow) float64 { return weights[&r.z[0]] }
	given := plainMean(rows, records, func(r plainRow) []float64 { return r.times(weight(r) * r.e) })
	s.step.Add(split(given, size(given, weight(rows[0])*rows[0].e), s.stepCuts))
	level := plainMean(rows, records, func(r plainRow) []float64 { return []float64{r.level()} })
	if s.shape.Intercept {
		s.level.Add(split(level, math.Abs(level[0]), s.interceptCuts))
	}
	given = plainMean(rows, records, func(r plainRow) []float64 { return r.times(weight(r) * r.e / s.stepCuts.outer) })
	within := min(1, 1/size(given, weight(rows[0])*rows[0].e/s.stepCuts.outer))
	for j := range given {
		given[j] *= within
	}
	if s.shape.Intercept {
		last := plainMean(rows, records, func(r plainRow) []float64 { return []float64{r.level() / s.interceptCuts.outer} })[0]
		given = append(given, max(-1, min(last, 1)))
	}
	meat := table.NewColumns(len(given), 1)
	for j, v := range given {
		meat[j][0] = v
	}
	s.meat.AddRows(mech.Rows{X: meat}, 1)
}

// totals are all integers, with the same noise on those of second moments each time.
func (s *seenPass) totals(t *testing.T) (all []float64) {
	for _, m := range []*mech.Moments{s.pilot, s.meat} {
		d := s.shape.D + 1
		if m == s.meat {
			d = s.meatContract().D
		}
		dst := make([]float64, d*d)
		m.Release(dst, mech.Gaussian{NoiseMultiplier: 1e-3}, mechtest.Source(t, 1))
		all = append(all, dst...)
	}
	for _, b := range []mech.Bounded{s.e.Bounded(), s.length.Bounded(), s.size.Bounded(), s.step.Bounded(), s.level.Bounded()} {
		for _, v := range mechtest.Totals(t, b) {
			all = append(all, float64(v))
		}
	}
	return all
}

// randomPass is a fit before its passes, with random coordinates and cuts, the first time those of
// the first pass.
func randomPass(r *rand.Rand, s table.Shape, weighted, first bool) *jointFit {
	f := newJointFit(&jointReleases{JointMoments: JointMoments{Bound: 1.5 * math.Sqrt(float64(s.D)), Scale: 1, Meat: true}, shape: s})
	f.weighted = weighted
	f.stepCuts, f.interceptCuts = randomCuts(r), randomCuts(r)
	if first {
		return f
	}
	f.Scale, f.cut = math.Exp(r.NormFloat64()), math.Exp(r.NormFloat64())
	for j := range s.D {
		f.w[j] = r.NormFloat64()
		for k := range j + 1 {
			f.p.Set(k, j, r.NormFloat64())
		}
	}
	return f
}

// Blocks of columns hand to the releases the very integers that single rows do, computed one
// after the other: whatever the number of columns, with records of several rows, weights and
// rows that hold no numbers.
func TestBlocksGiveWhatSingleRowsGive(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 1))
	for d := 1; d <= 24; d++ {
		for k := range 8 {
			s := table.Shape{D: d, Intercept: k%2 == 0, N: 40}
			x, _ := plantest.Neighbours(r, s, false)
			for i := range x.Y { // most rows are ordinary
				if i%4 > 0 {
					plantest.SetRow(x, i, func(int) float64 { return r.NormFloat64() })
				}
			}
			if k&2 != 0 {
				sizes := make([]int, 0, s.N)
				for left := s.N; left > 0; left -= sizes[len(sizes)-1] {
					sizes = append(sizes, min(left, 1+r.IntN(plantest.MaxFellows)))
				}
				x = plantest.Grouped(x, sizes)
			}
			rows := len(x.Y)
			if k&4 != 0 {
				x.Weight, x.Offset = make([]float64, rows), make([]float64, rows)
				for i := range x.Weight {
					x.Weight[i], x.Offset[i] = r.Float64(), r.NormFloat64()
				}
			}
			f := randomPass(r, x.Shape, x.Weight != nil, k < 4 && d%2 == 0)
			weights := make([]float64, rows)
			for i := range weights {
				weights[i] = r.Float64()
			}
			plain, blocks := newSeenPass(f, rows), newSeenPass(f, rows)
			plain.weight = weights
			for u := range x.N {
				plain.add(x, u)
			}
			blocks.addBlocks(x, weights)
			if got, want := blocks.totals(t), plain.totals(t); !slices.Equal(got, want) {
				t.Errorf("%d coefficients, %+v: blocks give %v, single rows %v", d, x.Shape, got, want)
			}
			for i, v := range plain.shortened {
				if math.Float64bits(v) != math.Float64bits(blocks.shortened[i]) && !math.IsNaN(v) {
					t.Errorf("%d coefficients: row %d is shortened by %v, want %v", d, i, blocks.shortened[i], v)
				}
			}
		}
	}
}

// addBlocks makes the passes as a fit does.
func (s *seenPass) addBlocks(x table.Data, weights []float64) {
	f := *s.jointFit
	f.shortened, f.weights = s.shortened, weights
	pilot, step := f.sumPilot(pilotPasses-1, x), f.sumStep(x)
	s.pilot, s.e, s.length, s.size = pilot.moments, pilot.residuals, pilot.lengths, pilot.products
	s.step, s.level, s.meat = step.step, step.intercept, step.meat
}
