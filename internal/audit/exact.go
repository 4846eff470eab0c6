package audit

import (
	"context"
	"math"
	"math/big"

	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/mathext"
)

// Law is a mechanism with few answers, whose probabilities on two neighbours
// are known: the privacy loss is computed, not estimated, and what is left to
// chance is whether the sampler draws by that law.
type Law struct {
	Name  string
	Pair  string
	Claim privacy.Budget
	First []float64 // probabilities of answers 0, 1, ... on the first table
	Other []float64 // and on its neighbour
	Draw  func(src *mech.Source) int
}

// Fit is what draws by a law came to.
type Fit struct {
	Law
	Runs       int
	Epsilon    float64 // the exact loss at Claim.Delta
	Likelihood float64 // probability that right draws look no more like the law
}

// Refuted reports whether the law breaks its promise, or draws are not by it,
// which for right ones happens with the given probability.
func (f Fit) Refuted(alarm float64) bool {
	return f.Epsilon > f.Claim.Epsilon*(1+1e-12) || f.Likelihood < alarm
}

// Run draws from the law.
//
// Errors: the context's.
func (l Law) Run(ctx context.Context, runs int, src *mech.Source) (Fit, error) {
	counts := make([]float64, len(l.First))
	for range runs {
		if err := ctx.Err(); err != nil {
			return Fit{}, err
		}
		counts[l.Draw(src)]++
	}
	return Fit{l, runs, max(loss(l.First, l.Other, l.Claim.Delta), loss(l.Other, l.First, l.Claim.Delta)), likelihood(counts, l.First, float64(runs))}, nil
}

// loss returns the least epsilon with sum max(0, p - e^epsilon q) <= delta.
func loss(p, q []float64, delta float64) float64 {
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

// likelihood is that of counts under p, by the chi-square test; answers that are
// expected less than 20 times are taken together.
func likelihood(counts, p []float64, n float64) float64 {
	var rare, seen, square float64
	cells := -1.0
	add := func(seen, expected float64) {
		square += (seen - expected) * (seen - expected) / expected
		cells++
	}
	for i, v := range p {
		if v*n < 20 {
			rare, seen = rare+v*n, seen+counts[i]
			continue
		}
		add(counts[i], v*n)
	}
	if rare > 0 {
		add(seen, max(rare, 20))
	}
	return mathext.GammaIncRegComp(max(cells, 1)/2, square/2)
}

// Laws are the exponential mechanism and the discrete samplers on tiny domains.
//
// Errors: those of planning.
func Laws() ([]Law, error) {
	exponential, err := exponential()
	if err != nil {
		return nil, err
	}
	return []Law{exponential, laplace(), gaussian()}, nil
}

// exponential is l1 on the points -1, 0 and 1 with three rows: one scores 0 at
// the slope it was made with, log 2 elsewhere, and the weights are
// exp(-epsilon/2 sum of scores / log 2).
func exponential() (Law, error) {
	const epsilon, rows = 1, 3
	algorithm, err := dpsco.Recipe("l1", options{"method": "exponential_mechanism", "radius": 1., "pitch": 1., "iota": 1.}, nil)
	if err != nil {
		return Law{}, err
	}
	tables := sides(rows)
	first, _ := tables()
	plan := func() (*dpsco.Plan, error) {
		return algorithm.Plan(first.Shape, privacy.Budget{Epsilon: epsilon}, privacy.Concentrated{})
	}
	if _, err := plan(); err != nil {
		return Law{}, err
	}
	law := func(against ...float64) []float64 {
		total := 0.0
		for i, scores := range against {
			against[i] = math.Exp(-epsilon / 2. * scores)
			total += against[i]
		}
		for i := range against {
			against[i] /= total
		}
		return against
	}
	return Law{
		Name: "exponential mechanism", Pair: "three rows and three points, one row changes sides", Claim: privacy.Budget{Epsilon: epsilon},
		First: law(rows, rows, 0), Other: law(rows-1, rows, 1),
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

// laplace is a count plus discrete Laplace noise.
func laplace() Law {
	return integers("discrete Laplace", privacy.Budget{Epsilon: 1}, func(k float64) float64 { return math.Exp(-math.Abs(k)) },
		func(src *mech.Source) *big.Int { return src.DiscreteLaplace(big.NewRat(1, 1)) })
}

// gaussian is a sum of one record plus discrete normal noise of multiplier 2. Its
// steps of 2^-41 are taken together in cells, where it is the normal law to a
// share of 2^-40.
func gaussian() Law {
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
	return Law{
		Name: "discrete normal", Pair: "a sum moves by its sensitivity", Claim: privacy.Budget{Epsilon: epsilon, Delta: 0.1},
		First: cell(-.5), Other: cell(.5), Draw: func(src *mech.Source) int {
			s, dst := mech.NewSum(contract), make([]float64, 1)
			s.Add([]float64{-1})
			g.Release(dst, s.Bounded(), src)
			return int(max(0, min(math.Floor(dst[0]/width+cells/2.), cells-1)))
		},
	}
}

// integers is a law on the integers -reach to reach, with what is beyond at the
// ends, against itself moved by one.
func integers(name string, claim privacy.Budget, weight func(k float64) float64, draw func(src *mech.Source) *big.Int) Law {
	const reach = 30
	law := func(centre int) []float64 {
		p, total := make([]float64, 2*reach+1), 0.0
		for k := -10 * reach; k <= 10*reach; k++ {
			v := weight(float64(k - centre))
			p[max(0, min(k+reach, 2*reach))] += v
			total += v
		}
		for i := range p {
			p[i] /= total
		}
		return p
	}
	return Law{Name: name, Pair: "a count moves by 1, scale 1", Claim: claim, First: law(0), Other: law(1), Draw: func(src *mech.Source) int {
		return int(max(0, min(draw(src).Int64()+reach, 2*reach)))
	}}
}
