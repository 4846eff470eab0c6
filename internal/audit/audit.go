// Package audit tries to refute what the mechanisms promise. It plays the game
// that differential privacy is about: run a mechanism many times on each of two
// neighbours, look at its answers, and tell which table it was. If that works
// better than (epsilon, delta) allows, beyond chance, the claim is false.
//
// An audit that refutes nothing proves nothing; the proofs stand beside the
// code. It finds slips between proof and program, and it is only worth what the
// mutants show that it catches (mutant_test.go).
package audit

import (
	"context"
	"math"
	"runtime"
	"slices"
	"sync"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// Game is a mechanism on the two neighbours which it finds hard to hide.
type Game struct {
	Name     string         // as in SQL
	Pair     string         // what the neighbours are, for people
	Claim    privacy.Budget // what is promised about them
	Patience int            // > 1: a run takes long, and so many times fewer are made
	Alone    bool           // one run at a time, for time is what is looked at
	// Play runs the mechanism once, on the second table or on the first, and
	// returns a number that depends on nothing but its answer.
	Play func(second bool, src *mech.Source) float64
}

// FalseAlarm is the probability with which an audit of any number of games that
// keep their promises refutes one of them.
const FalseAlarm = 1e-6

// Result is what a game came to.
type Result struct {
	Game
	Runs       int     // in all
	Lower      float64 // bound on the epsilon at Claim.Delta
	Confidence float64 // that it is one
	Errors     []Error // of attempts to tell the tables apart
}

// Error is how often an attempt took the first table for the second and how
// often it recognised the second, or the other way round.
type Error struct{ Wrong, Right float64 }

// Refuted reports whether the claim is false, with the result's confidence.
func (r Result) Refuted() bool { return r.Lower > r.Claim.Epsilon }

// Run plays a game runs times, on both tables alternately, on all cores. A third
// of the answers serves to choose what to look for, the others to count. alarm
// is the probability that the bound is none. sources makes what a core draws from.
//
// Errors: the context's.
func (g Game) Run(ctx context.Context, runs int, alarm float64, sources func() *mech.Source) (Result, error) {
	first, second, err := g.play(ctx, max(runs/max(1, g.Patience)/2, 3), sources)
	if err != nil {
		return Result{}, err
	}
	third := len(first) / 3
	rest := answers{first[third:], second[third:]}
	best := answers{first[:third], second[:third]}.choose(g.Claim.Delta, len(rest.first), alarm)
	return Result{
		Game: g, Runs: 2 * len(first), Lower: best.bound(rest, g.Claim.Delta, alarm), Confidence: 1 - alarm,
		Errors: answers{first, second}.errors(),
	}, nil
}

// play returns n answers about each table.
func (g Game) play(ctx context.Context, n int, sources func() *mech.Source) (first, second []float64, err error) {
	first, second = make([]float64, n), make([]float64, n)
	var crew sync.WaitGroup
	cores := runtime.GOMAXPROCS(0)
	if g.Alone {
		cores = 1
	}
	for core := range cores {
		src := sources()
		crew.Go(func() {
			for i := core; i < n && ctx.Err() == nil; i += cores {
				first[i] = g.Play(false, src)
				second[i] = g.Play(true, src)
			}
		})
	}
	crew.Wait()
	return first, second, ctx.Err()
}

// answers are those about either table.
type answers struct{ first, second []float64 }

// attempt is a way to tell the tables apart: say Second, or if not Second the
// first, when an answer is at least, or if not Above at most, Threshold.
type attempt struct {
	threshold     float64
	above, second bool
}

// count returns how many answers of each table the attempt takes for its own.
func (a attempt) count(in answers) (wrong, right int) {
	hits := func(list []float64) (n int) {
		for _, v := range list {
			if a.above && v >= a.threshold || !a.above && v <= a.threshold {
				n++
			}
		}
		return n
	}
	if a.second {
		return hits(in.first), hits(in.second)
	}
	return hits(in.second), hits(in.first)
}

// bound returns a lower bound on epsilon that holds but with probability alarm:
// if P <= e^epsilon Q + delta, with P and Q known from counts.
func (a attempt) bound(in answers, delta, alarm float64) float64 {
	wrong, right := a.count(in)
	p := atLeast(right, len(in.first), alarm/2)
	q := atMost(wrong, len(in.first), alarm/2)
	return math.Log(max(1, (p-delta)/q))
}

// choose returns the attempt that promises the largest bound from n answers.
func (in answers) choose(delta float64, n int, alarm float64) (best attempt) {
	most := math.Inf(-1)
	width := math.Sqrt(-2 * math.Log(alarm/2))
	for a := range in.attempts() {
		wrong, right := a.count(in)
		p, q := float64(right)/float64(len(in.first)), float64(wrong)/float64(len(in.first))
		p -= width * math.Sqrt(p*(1-p)/float64(n))
		q += width*math.Sqrt(q*(1-q)/float64(n)) + width*width/2/float64(n)
		if v := (p - delta) / q; v > most {
			most, best = v, a
		}
	}
	return best
}

// attempts yields all directions at thresholds that are quantiles of the
// answers, dense in the tails.
func (in answers) attempts() func(yield func(attempt) bool) {
	all := slices.Concat(in.first, in.second)
	slices.Sort(all)
	last := len(all) - 1
	return func(yield func(attempt) bool) {
		for k := range 2 * grades {
			at := int(math.Pow(float64(last)/2, float64(k%grades)/(grades-1)))
			if k >= grades {
				at = last - at
			}
			for direction := range 4 {
				if !yield(attempt{all[at], direction&1 > 0, direction&2 > 0}) {
					return
				}
			}
		}
	}
}

// grades is how many thresholds are tried from each end to the middle.
const grades = 40

// errors returns the rates of all attempts.
func (in answers) errors() (all []Error) {
	n := float64(len(in.first))
	for a := range in.attempts() {
		wrong, right := a.count(in)
		all = append(all, Error{float64(wrong) / n, float64(right) / n})
	}
	return all
}
