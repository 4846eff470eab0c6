package audit

import (
	"flag"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

var plots = flag.String("plots", "", "draw the mutants into this directory")

// TestMutantsAreRefuted plays the printed versions of broken algorithms, and ours
// with one thing wrong. Each has to be refuted with confidence 1 - 1e-7: that is how
// unlikely it is that a true claim would be. A mutant is missed very rarely, because
// the bounds are several standard errors above the claims (and with the same number
// of cores the draws are the same).
func TestMutantsAreRefuted(t *testing.T) {
	var curves []rocCurve
	for _, g := range mutants(t) {
		runs := 20_000
		if g.Name == "half the noise" {
			runs = 4000 // a plan each
		}
		all, err := g.playAll(t.Context(), runs, sources(t))
		if err != nil {
			t.Fatal(err)
		}
		r := g.evaluate(all, 1e-7)
		t.Logf("%-34s claims %.3f at %.3g: at least %.3f", r.Name, r.Claim.Epsilon, r.Claim.Delta, r.Lower)
		if !r.Refuted() {
			t.Errorf("%s is not refuted", r.Name)
		}
		curves = append(curves, rocCurve{r, all})
	}
	if *plots != "" {
		if err := drawROC(filepath.Join(*plots, "audit-mutants.png"), curves); err != nil {
			t.Fatal(err)
		}
	}
}

func mutants(t *testing.T) []Game {
	return []Game{
		ours(t, "gd", "half the noise", withNoise(1./2)),
		printedTrimmedMean(),
		positionalBlocks(),
		printedMeanOfHalves(),
		unclampedCatoni(),
		ours(t, "l1", "D1: printed weights", privacy.Budget{Epsilon: 2 * auditBudget.Epsilon}),
		printedSVRG(),
		printedAccMD(),
		clipForAddRemove(),
	}
}

// withNoise is the budget of a fit with this share of the noise of one with auditBudget.
func withNoise(share float64) privacy.Budget {
	delta := auditBudget.Delta - privacy.Reserve(auditBudget.Delta)
	rho := privacy.ZCDPRho(auditBudget.Epsilon, delta) / (share * share)
	return privacy.Budget{Epsilon: privacy.ZCDPEpsilon(rho, delta), Delta: auditBudget.Delta}
}

// ours is one of Games that gets a larger budget than it claims.
func ours(t *testing.T, name, as string, gets privacy.Budget) Game {
	i := slices.IndexFunc(worstCases, func(c worstCase) bool { return c.name == name })
	g, err := worstCases[i].game(gets, auditBudget)
	if err != nil {
		t.Fatal(err)
	}
	g.Name = as
	return g
}

// draws returns floating-point randomness: mutants need no better.
func draws(src *mech.Source) *rand.Rand { return rand.New(rand.NewPCG(src.Uint64(), src.Uint64())) }

// printedTrimmedMean has noise in proportion to max((x_(n) - x_(1))/(n - 2m), e^(-mt)(b - a)) / s, with t = eps^2/16,
// s = eps/4 and Z = sinh(normal): a bound on the smooth sensitivity which is not smooth itself.
//
// Source: Wang, Xiao, Devadas & Xu 2020, Algorithm 2.
func printedTrimmedMean() Game {
	const n, m, epsilon, length = 100, 5, 1., 2.
	return Game{Name: "A2: trimmed mean, printed scale", Pair: "zeros; one becomes 1e9", Claim: privacy.Budget{Epsilon: privacy.ZCDPEpsilon(epsilon*epsilon/2, .1), Delta: .1},
		Play: func(second bool, src *mech.Source) float64 {
			spread := 0.0
			if second {
				spread = 1e9
			}
			scale := max(spread/(n-2*m), math.Exp(-m*epsilon*epsilon/16)*length) / (epsilon / 4)
			return math.Abs(scale * math.Sinh(draws(src).NormFloat64()))
		}}
}

// positionalBlocks is the median of the means of blocks of consecutive rows, as many as the filter lets through: one row less
// moves all borders. Noise is for varrho q / m, as printed, with varrho = 2 and multiplier 1.
//
// Source: Xie et al., Algorithm 3.
func positionalBlocks() Game {
	const q = 7
	rows := worstOrder(q)
	median := func(x []float64) float64 {
		size := len(x) / q
		means := make([]float64, q)
		for b := range means {
			for _, v := range x[b*size : (b+1)*size] {
				means[b] += v / float64(size)
			}
		}
		slices.Sort(means)
		return means[q/2]
	}
	sensitivity := 2. * q / float64(len(rows))
	return Game{Name: "C2: blocks by position", Pair: "one row more or less", Claim: gaussianClaim(1),
		Play: func(second bool, src *mech.Source) float64 {
			x := rows
			if second {
				x = rows[1:]
			}
			return median(x) + sensitivity*draws(src).NormFloat64()
		}}
}

// worstOrder returns 35 rows of 1 and -1 in the order for which dropping the
// first one moves the median of block means most, by hill climbing.
func worstOrder(q int) []float64 {
	r := rand.New(rand.NewPCG(1, 1))
	gap := func(x []float64) float64 {
		median := func(x []float64) float64 {
			size := len(x) / q
			sums := make([]float64, q)
			for i := range q * size {
				sums[i/size] += x[i] / float64(size)
			}
			slices.Sort(sums)
			return sums[q/2]
		}
		return math.Abs(median(x) - median(x[1:]))
	}
	x := make([]float64, 5*q)
	for i := range x {
		x[i] = float64(1 - 2*r.IntN(2))
	}
	for range 20_000 {
		y := slices.Clone(x)
		for range 1 + r.IntN(3) {
			y[r.IntN(len(y))] *= -1
		}
		if gap(y) >= gap(x) {
			x = y
		}
	}
	return x
}

// printedMeanOfHalves finds the mean from n/2 of n records with the variance 32 tau^2 d / (9 rho n^2), the 2n-versus-n slip.
//
// Source: Kamath, Liu & Zhang 2021, Algorithm 3, read as if n were all records.
func printedMeanOfHalves() Game {
	const n, tau, rho = 40., 1., .5
	return Game{Name: "B3: n for 2n", Pair: "a kept record moves from end to end", Claim: gaussianClaim(1 / math.Sqrt(2*rho)),
		Play: func(second bool, src *mech.Source) float64 {
			behind := n / 2
			mean := tau / (3 * behind / 4) // a quarter is dropped: the divisor is as small as it gets
			if second {
				mean = -mean
			}
			return mean + math.Sqrt(32*tau*tau/(9*rho*n*n))*draws(src).NormFloat64()
		}}
}

// unclampedCatoni evaluates the printed closed form, which cancels to anything for large arguments, and does not clamp.
//
// Source: Wang, Xiao, Devadas & Xu 2020, Algorithm 4; Catoni & Giulini 2017.
func unclampedCatoni() Game {
	const n, z = 20., 1.
	h := func(a float64) float64 {
		b := math.Abs(a)
		near, far := (math.Sqrt2-a)/b, (math.Sqrt2+a)/b
		cdf := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
		f0, f1, e0, e1 := cdf(-near), cdf(-far), math.Exp(-near*near/2), math.Exp(-far*far/2)
		root := 1 / math.Sqrt(2*math.Pi)
		correction := 2*math.Sqrt2/3*(f0-f1) - (a-a*a*a/6)*(f0+f1) + b*root*(1-a*a/2)*(e1-e0) +
			a*b*b/2*(f1+f0+root*(far*e1+near*e0)) + b*b*b*root/6*((2+near*near)*e0-(2+far*far)*e1)
		return a*(1-b*b/2) - a*a*a/6 + correction
	}
	sensitivity := 2 * 2 * math.Sqrt2 / 3 / n
	return Game{Name: "A4: no clamp", Pair: "a gradient of 1 becomes 1e8", Claim: gaussianClaim(z),
		Play: func(second bool, src *mech.Source) float64 {
			a := 1.0
			if second {
				a = 1e8
			}
			return h(a)/n + z*sensitivity*draws(src).NormFloat64()
		}}
}

// printedSVRG draws one record a step with noise sigma^2 = 8 G^2 T m log(1/delta) / (n^2 epsilon^2). Long after the others'
// gradients are known, one record's has turned: the step that hits it shows.
//
// Source: Wang, Ye & Xu 2017, Algorithm 1.
func printedSVRG() Game {
	const n, steps, epsilon, delta = 1000., 100, 1., 1e-3
	sigma := math.Sqrt(8 * steps * math.Log(1/delta) / (n * n * epsilon * epsilon))
	return Game{Name: "E1: one record a step", Pair: "a gradient of 1 turns to -1 on the way", Claim: privacy.Budget{Epsilon: epsilon, Delta: delta},
		Play: func(second bool, src *mech.Source) (least float64) {
			r := draws(src)
			for range steps {
				v := 1 + sigma*r.NormFloat64()
				if second && r.Float64() < 1/n {
					v -= 2
				}
				least = min(least, v)
			}
			return least
		}}
}

// printedAccMD takes the exact gradient for its y-step, so that y after one step is an exact function of the data.
//
// Source: Wang, Ye & Xu 2017, Algorithm 3.
func printedAccMD() Game {
	return Game{Name: "E3: an exact step", Pair: "a gradient of 1 becomes -1", Claim: gaussianClaim(1),
		Play: func(second bool, _ *mech.Source) float64 {
			const n, rate = 1000., .1
			y := -rate * (n - 1) / n
			if second {
				return y + rate/n
			}
			return y - rate/n
		}}
}

// clipForAddRemove has noise in proportion to the clipping norm C, where replacing a record moves the sum by 2 C.
//
// Source: Xie et al., Algorithm 1.
func clipForAddRemove() Game {
	return Game{Name: "C1: noise for C, not 2C", Pair: "a clipped gradient turns", Claim: gaussianClaim(1),
		Play: func(second bool, src *mech.Source) float64 {
			v := draws(src).NormFloat64()
			if second {
				return v - 1
			}
			return v + 1
		}}
}

// gaussianClaim is the cost of normal noise of multiplier z, at delta = 0.1.
func gaussianClaim(z float64) privacy.Budget {
	epsilon, err := new(privacy.Best).Epsilon(privacy.Gaussian{NoiseMultiplier: z}, .1)
	if err != nil {
		panic(err)
	}
	return privacy.Budget{Epsilon: epsilon, Delta: .1}
}
