package audit

import (
	"context"
	"math"
	"math/big"
	"slices"

	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/mathext"
)

// FiniteMechanism is a mechanism with few answers, whose probabilities on two neighbouring tables are
// known. Its privacy loss is computed, not estimated; a test checks that its sampler follows these
// probabilities.
type FiniteMechanism struct {
	Name  string
	Pair  string         // description of the neighbours, for people
	Claim privacy.Budget // the mechanism's privacy claim
	First []float64      // probabilities of the answers 0, 1, ... on the first table
	Other []float64      // the same on its neighbour
	Draw  func(src *mech.Source) int
}

// FiniteResult is the outcome of draws from a FiniteMechanism on its first table.
type FiniteResult struct {
	FiniteMechanism
	Runs    int
	Epsilon float64 // exact, at Claim.Delta
	PValue  float64 // of the chi-square test that draws follow First
}

// Refuted reports whether the exact epsilon exceeds the claim, or draws do not follow the probabilities.
// The latter is reported falsely with probability falseAlarm.
func (r FiniteResult) Refuted(falseAlarm float64) bool {
	return r.Epsilon > r.Claim.Epsilon*(1+1e-12) || r.PValue < falseAlarm
}

// Run draws from the mechanism and computes its epsilon.
//
// Errors: the context's.
func (m FiniteMechanism) Run(ctx context.Context, runs int, src *mech.Source) (FiniteResult, error) {
	counts := make([]float64, len(m.First))
	for range runs {
		if err := ctx.Err(); err != nil {
			return FiniteResult{}, err
		}
		counts[m.Draw(src)]++
	}
	return FiniteResult{
		FiniteMechanism: m, Runs: runs,
		Epsilon: max(exactEpsilon(m.First, m.Other, m.Claim.Delta), exactEpsilon(m.Other, m.First, m.Claim.Delta)),
		PValue:  chiSquarePValue(counts, m.First, float64(runs)),
	}, nil
}

// exactEpsilon returns the least epsilon with sum max(0, p - e^epsilon q) <= delta.
func exactEpsilon(p, q []float64, delta float64) float64 {
	low, high := 0., 64.
	for range 60 {
		middle, sum := (low+high)/2, 0.
		for i := range p {
			sum += max(0, p[i]*(1-1e-13)-math.Exp(middle)*q[i])
		}
		if sum > delta {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// chiSquarePValue returns the p-value of the chi-square test that n draws with these counts follow p.
// Answers with an expected count below 20 are merged.
func chiSquarePValue(counts, p []float64, n float64) float64 {
	var rareExpected, rareSeen, square float64
	cells := -1.0
	add := func(seen, expected float64) {
		square += (seen - expected) * (seen - expected) / expected
		cells++
	}
	for i, v := range p {
		if v*n < 20 {
			rareExpected, rareSeen = rareExpected+v*n, rareSeen+counts[i]
			continue
		}
		add(counts[i], v*n)
	}
	if rareExpected > 0 {
		add(rareSeen, max(rareExpected, 20))
	}
	return mathext.GammaIncRegComp(max(cells, 1)/2, square/2)
}

// FiniteMechanisms returns the exponential mechanism, quantiles by ranks and the discrete samplers, on tiny
// domains.
//
// Errors: those of planning.
func FiniteMechanisms() ([]FiniteMechanism, error) {
	exponential, err := exponentialMechanism()
	if err != nil {
		return nil, err
	}
	return []FiniteMechanism{exponential, rankQuantile(), discreteLaplace(), discreteNormal()}, nil
}

// exponentialMechanism is l1 on the grid of slopes -1, 0 and 1 with three rows. A row scores 0 at the slope
// that generated it and log 2 elsewhere, and the weights are exp(-epsilon/2 sum of scores / log 2).
func exponentialMechanism() (FiniteMechanism, error) {
	const epsilon, rows = 1, 3
	algorithm, err := dpsco.Recipe("l1", options{"method": "exponential_mechanism", "radius": 1., "pitch": 1., "iota": 1.}, nil)
	if err != nil {
		return FiniteMechanism{}, err
	}
	tables := sides(rows)
	first, _ := tables()
	plan := func() (*plan.Plan, error) {
		return algorithm.Plan(first.Shape, privacy.Budget{Epsilon: epsilon}, privacy.Concentrated{})
	}
	if _, err := plan(); err != nil {
		return FiniteMechanism{}, err
	}
	probabilities := func(scores ...float64) []float64 { // of the slopes, with scores in units of log 2
		p, total := make([]float64, len(scores)), 0.0
		for i, score := range scores {
			p[i] = math.Exp(-epsilon / 2. * score)
			total += p[i]
		}
		for i := range p {
			p[i] /= total
		}
		return p
	}
	return FiniteMechanism{
		Name: "exponential mechanism", Pair: "three rows and three points, one row changes sides", Claim: privacy.Budget{Epsilon: epsilon},
		First: probabilities(rows, rows, 0), Other: probabilities(rows-1, rows, 1),
		Draw: func(src *mech.Source) int {
			a, _ := tables()
			p, err := plan()
			if err != nil {
				panic("audit: a plan that was made before: " + err.Error())
			}
			r, err := p.Run(context.Background(), a, src)
			if err != nil {
				panic("audit: a run failed: " + err.Error())
			}
			return int(r.Coefficients[0]) + 1
		},
	}, nil
}

// rankQuantile is the median of three records. Its answers are the numbers 0, 1 and 2 and the intervals
// below, between and above them. On the grid of two digits a number of one digit weighs 10, others 1, a decade 171, zero 160.
func rankQuantile() FiniteMechanism {
	q := mech.RankQuantiles{Epsilon: 6, Percents: []int{50}}
	weights := []float64{33*171 + 10, 160, 15 * 171, 10, 9, 10, 18*171 + 10 - 29}
	probabilities := func(misses ...float64) []float64 { // in records
		p, total := make([]float64, len(weights)), 0.0
		for i, w := range weights {
			p[i] = w * math.Exp(-q.Epsilon/2*misses[i])
			total += p[i]
		}
		for i := range p {
			p[i] /= total
		}
		return p
	}
	return FiniteMechanism{
		Name: "quantile by ranks", Pair: "0, 1, 1 and 1, 1, 2", Claim: privacy.Budget{Epsilon: q.Epsilon},
		First: probabilities(1.5, 0.5, 0.5, 0, 1.5, 1.5, 1.5), Other: probabilities(1.5, 1.5, 1.5, 0, 0.5, 0.5, 1.5),
		Draw: func(src *mech.Source) int {
			r, dst := mech.NewRanks(mech.RankContract{N: 3, Digits: 2}), make([]float64, 1)
			r.Add([]float64{0, 1, 1})
			q.Release(dst, r, src)
			answer, equal := slices.BinarySearch([]float64{0, 1, 2}, dst[0])
			if equal {
				return 2*answer + 1
			}
			return 2 * answer
		},
	}
}

// discreteLaplace is a count plus discrete Laplace noise.
func discreteLaplace() FiniteMechanism {
	return noisyCount("discrete Laplace", privacy.Budget{Epsilon: 1}, func(k float64) float64 { return math.Exp(-math.Abs(k)) },
		func(src *mech.Source) *big.Int { return src.DiscreteLaplace(big.NewRat(1, 1)) })
}

// discreteNormal is a sum of one record plus discrete normal noise of multiplier 2. Its steps of 2^-41 are
// grouped into cells, whose probabilities are those of continuous normal noise up to a relative error of
// 2^-40.
func discreteNormal() FiniteMechanism {
	g := mech.Gaussian{NoiseMultiplier: 2}
	contract := mech.Contract{Norm: mech.L2, Bound: 0.5, N: 1, D: 1} // replace-one moves it by 1
	const cells, width = 81, 0.25
	cell := func(centre float64) []float64 {
		p, before := make([]float64, cells), 0.0
		for i := range p {
			after := 1.0
			if i < cells-1 {
				after = math.Erfc(-((float64(i+1)-cells/2.)*width-centre)/g.NoiseMultiplier/math.Sqrt2) / 2
			}
			p[i], before = after-before, after
		}
		return p
	}
	epsilon, err := new(privacy.Best).Epsilon(g.Event(), 0.1)
	if err != nil {
		panic("audit: " + err.Error())
	}
	return FiniteMechanism{
		Name: "discrete normal", Pair: "a sum moves by its sensitivity", Claim: privacy.Budget{Epsilon: epsilon, Delta: 0.1},
		First: cell(-.5), Other: cell(.5), Draw: func(src *mech.Source) int {
			s, dst := mech.NewSum(contract), make([]float64, 1)
			s.Add([]float64{-1})
			g.Release(dst, s.Bounded(), src)
			return int(max(0, min(math.Floor(dst[0]/width+cells/2.), cells-1)))
		},
	}
}

// noisyCount is integer noise with probabilities proportional to weight, against the same noise shifted by
// one. Noise beyond -limit or limit counts as these ends.
func noisyCount(name string, claim privacy.Budget, weight func(k float64) float64, draw func(src *mech.Source) *big.Int) FiniteMechanism {
	const limit = 30
	probabilities := func(centre int) []float64 {
		p, total := make([]float64, 2*limit+1), 0.0
		for k := -10 * limit; k <= 10*limit; k++ {
			v := weight(float64(k - centre))
			p[max(0, min(k+limit, 2*limit))] += v
			total += v
		}
		for i := range p {
			p[i] /= total
		}
		return p
	}
	return FiniteMechanism{Name: name, Pair: "a count moves by 1, scale 1", Claim: claim, First: probabilities(0), Other: probabilities(1), Draw: func(src *mech.Source) int {
		return int(max(0, min(draw(src).Int64()+limit, 2*limit)))
	}}
}
