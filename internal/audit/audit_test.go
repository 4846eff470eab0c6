package audit

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/stat/distuv"
)

// sources makes reproducible sources. With the same number of cores the answers of a
// game are reproducible too.
func sources(t *testing.T) func() *mech.Source {
	var seed atomic.Uint64
	return func() *mech.Source { return mechtest.Source(t, seed.Add(1)) }
}

// Every method by its name in SQL has a game, and none is refuted. That a true
// claim is, has probability 1e-6 in all. So few runs find gross lapses only:
// noise of a fifth, say; make audit makes more of them.
func TestNoMechanismIsRefuted(t *testing.T) {
	var table strings.Builder
	results, err := Audit(t.Context(), &table, "", 400)
	if err != nil {
		t.Fatalf("%v\n%s", err, table.String())
	}
	t.Log("\n" + table.String())
	played := map[string]bool{}
	for _, r := range results {
		played[r.Name] = true
		if r.Lower < 0 || math.IsInf(r.Claim.Epsilon, 0) || !(r.Claim.Epsilon > 0) {
			t.Errorf("%s claims %v at least %v", r.Name, r.Claim, r.Lower)
		}
	}
	for _, name := range strings.Fields("auto joint_moments newton catoni trimmed ksu ksu_axis sample_aggregate spgd_clip spgd_kamath spgd_holland svrg svrg_pp accmd gd l1") {
		if !played[name] {
			t.Errorf("no game for %s", name)
		}
	}
	if !slices.ContainsFunc(results, func(r Result) bool { return strings.HasPrefix(r.Pair, "a count") }) {
		t.Error("no game for counts")
	}
	if r, err := ours(t, "gd", "a fifth of the noise", withNoise(1./5)).Run(t.Context(), 800, FalseAlarm/20, sources(t)); err != nil || !r.Refuted() {
		t.Errorf("a fifth of the noise passes: at least %v, %v", r.Lower, err)
	}
}

// A fit of counts with a fifth of the noise is refuted.
func TestCountsWithAFifthOfTheNoiseAreRefuted(t *testing.T) {
	i := slices.IndexFunc(worstCases, func(c worstCase) bool { return c.model == "poisson" })
	g, err := worstCases[i].game(withNoise(1./5), auditBudget)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := g.Run(t.Context(), 4000, FalseAlarm/20, sources(t)); err != nil || !r.Refuted() {
		t.Errorf("at least %v, claims %v, %v", r.Lower, g.Claim, err)
	}
}

// The bound is right for a mechanism whose epsilon is known, and near it.
func TestBoundOfRandomizedResponse(t *testing.T) {
	g := Game{Name: "randomized response", Claim: privacy.Budget{Epsilon: 1}, Play: func(second bool, src *mech.Source) float64 {
		truth := draws(src).Float64() < math.E/(1+math.E)
		if truth == second {
			return 1
		}
		return 0
	}}
	r, err := g.Run(t.Context(), 40_000, 1e-7, sources(t))
	if err != nil || r.Lower > 1 || r.Lower < .8 {
		t.Errorf("at least %v, %v", r.Lower, err)
	}
}

// At the limits of Clopper and Pearson the binomial tails have the stated probability.
func TestClopperPearson(t *testing.T) {
	for _, c := range []struct{ hits, n int }{{0, 10}, {1, 10}, {5, 10}, {9, 10}, {10, 10}, {20, 5000}, {4000, 5000}} {
		for _, falseAlarm := range []float64{1e-8, .05} {
			low, high := atLeast(c.hits, c.n, falseAlarm), atMost(c.hits, c.n, falseAlarm)
			if c.hits > 0 {
				if tail := 1 - (distuv.Binomial{N: float64(c.n), P: low}).CDF(float64(c.hits)-1); falseAlarm > 1e-3 && math.Abs(tail/falseAlarm-1) > 1e-6 {
					t.Errorf("%v from below: %v", c, tail)
				}
			}
			if c.hits < c.n {
				if tail := (distuv.Binomial{N: float64(c.n), P: high}).CDF(float64(c.hits)); math.Abs(tail/falseAlarm-1) > 1e-6 {
					t.Errorf("%v from above: %v", c, tail)
				}
			}
			if !(low <= float64(c.hits)/float64(c.n) && float64(c.hits)/float64(c.n) <= high) {
				t.Errorf("%v: [%v, %v]", c, low, high)
			}
		}
	}
	if got, want := atMost(0, 1000, 1e-8), -math.Expm1(math.Log(1e-8)/1000); math.Abs(got/want-1) > 1e-9 {
		t.Errorf("no hits: %v, want %v", got, want)
	}
}

// A finite mechanism that breaks its promise is refuted, and so are draws that do not
// follow its probabilities.
func TestFiniteMechanismsRefuteMutants(t *testing.T) {
	mechanisms, err := FiniteMechanisms()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range mechanisms {
		right, err := l.Run(t.Context(), 4000, mechtest.Source(t, 1))
		if err != nil || right.Refuted(1e-8) || right.Epsilon < .5*l.Claim.Epsilon {
			t.Errorf("%s: %+v, %v", l.Name, right, err)
		}
		l.Claim.Epsilon = right.Epsilon * .99
		if lies, err := l.Run(t.Context(), 10, mechtest.Source(t, 1)); err != nil || !lies.Refuted(1e-8) {
			t.Errorf("%s may claim too little: %v", l.Name, err)
		}
		l.First, l.Claim.Epsilon = l.Other, 99
		if wrong, err := l.Run(t.Context(), 4000, mechtest.Source(t, 1)); err != nil || !wrong.Refuted(1e-8) {
			t.Errorf("%s may draw with its neighbour's probabilities: %v", l.Name, err)
		}
	}
}

func TestAuditRefusesByName(t *testing.T) {
	var out strings.Builder
	if _, err := Audit(t.Context(), &out, "l7", 100); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "joint_moments") || out.Len() > 0 {
		t.Errorf("got %v, and prints %q", err, out.String())
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := Audit(ended, io.Discard, "gd", 100); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
