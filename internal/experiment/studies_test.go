package experiment

import (
	"math"
	"math/rand/v2"
	"testing"

	"dpsidecar/internal/privacy"
)

// Nearly without noise each peer comes to the best fit of a normal table, but for what its
// bounds cut: the comparison is with what was published, not with a mistake of ours.
func TestPeersComeToTheBestFit(t *testing.T) {
	b := privacy.Budget{Epsilon: 1e6, Delta: 1e-6}
	for model, peers := range map[string][]peer{"linear": linearFew, "logistic": logisticFew, "poisson": poissonFew} {
		p := pose(generators[0].table(5000, model, 1), model)
		wide := setting{row: 6, target: 30, rounds: 300, rate: 1}
		for _, peer := range peers {
			if excess := p.excess(peer.fit(p, wide, b, rand.New(rand.NewPCG(1, 1)))); !(excess >= 0 && excess < 0.05) {
				t.Errorf("%s, %s: %v %% above the least", model, peer.name, excess)
			}
		}
	}
}

// Nearly without noise ours comes to the best fit too, with exposures and scales as a study has
// them. In 10 runs of each model the excess was .002 % at most, 300 times less than the bound:
// noise makes that of no run in a million. Exposures taken for offsets had 88 %.
func TestOursComesToTheBestFit(t *testing.T) {
	for _, model := range []string{"linear", "logistic", "huber", "poisson"} {
		p := pose(generators[0].table(20_000, model, 1), model)
		r, err := p.request(t.Context(), privacy.Budget{Epsilon: 1000, Delta: studyDelta})
		if err != nil {
			t.Fatal(err)
		}
		if excess := p.excess(p.scaled(r.Coefficients)); !(excess >= -1e-6 && excess < 0.5) {
			t.Errorf("%s: %v %% above the least", model, excess)
		}
	}
}

// The exact fit is the least of each loss, in scaled units, whatever the units of the table.
func TestPosedFitsAreLeast(t *testing.T) {
	for _, model := range []string{"linear", "logistic", "huber", "poisson"} {
		table := generators[1].table(2000, model, 1)
		p := pose(table, model)
		for j := range p.exact {
			for _, step := range []float64{-1e-3, 1e-3} {
				w := append([]float64(nil), p.exact...)
				if w[j] += step; p.meanLoss(w) < p.least {
					t.Errorf("%s: coefficient %d moved by %v does better", model, j, step)
				}
			}
		}
		table.Scales[0] = 10
		scaled := pose(table, model)
		if got, want := scaled.exact[1], 10*p.exact[1]; math.Abs(got-want) > 1e-4*math.Abs(want) {
			t.Errorf("%s: %v at scale 10, want %v", model, got, want)
		}
		if excess := scaled.excess(scaled.scaled([]float64{p.exact[0], p.exact[1], p.exact[2], p.exact[3], p.exact[4]})); math.Abs(excess) > 1e-4 {
			t.Errorf("%s: the same fit has excess %v", model, excess)
		}
	}
}

// Huber's loss is flat at 0 where all targets are many scales away; the fit arrives all the same.
func TestPosedHuberFitsArriveFromFar(t *testing.T) {
	table := generators[0].table(2000, "huber", 1)
	near := pose(table, "huber").least
	for i := range table.Y {
		table.Y[i] += 100 * table.TargetScale
	}
	if far := pose(table, "huber").least; math.Abs(far/near-1) > 1e-6 {
		t.Errorf("the least loss is %v, and %v with targets far from 0", near, far)
	}
}

// With a bound that no row reaches, a peer's sensitivity is that of the noise it has: twice the
// length of a row's contribution, and Frobenius sqrt 2 times the square of it.
func TestPeersHaveTheNoiseOfTheirBudget(t *testing.T) {
	b := privacy.Budget{Epsilon: 1, Delta: 1e-6}
	if got, want := deviation(b, .5), 1/math.Sqrt(privacy.ZCDPRho(1, 1e-6)); math.Abs(got-want) > 1e-12 {
		t.Errorf("%v, want %v", got, want)
	}
	p, r := pose(generators[0].table(100, "linear", 1), "linear"), rand.New(rand.NewPCG(1, 2))
	sum := p.gram(3, math.Inf(1)).h
	square, off := 0., 0.
	const draws = 4000
	for range draws {
		noisy, _ := noisyMoments(sum, 3, 2, 2, r)
		square += math.Pow(noisy.At(0, 0)-sum.At(0, 0), 2) / draws
		off += math.Pow(noisy.At(0, 1)-sum.At(0, 1), 2) / draws
	}
	// 12 standard errors of a variance: sqrt(2/4000) each; the seed is fixed.
	if math.Abs(square/(2*9*9*4)-1) > .27 || math.Abs(off/(9*9*4)-1) > .27 {
		t.Errorf("variances %v and %v", square, off)
	}
}

func TestWithinCountsAFactorOfTwo(t *testing.T) {
	var w within
	if text := w.add(withinTwo([]float64{.49, .5, 1, 2, 2.1})); text != "3 of 5" || w.add(withinTwo(nil)) != "" || w.String() != "3 of 5" {
		t.Errorf("%q, %v", text, w)
	}
}
