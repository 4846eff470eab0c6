// Package audit tries to refute the privacy claims of the mechanisms. It plays the game that defines
// differential privacy: it runs a mechanism many times on each of two neighbouring tables and guesses from
// its answers which table it was. If the guesses are better than (epsilon, delta) allows, beyond chance,
// the claim is false.
//
// An audit that refutes nothing proves nothing; the proofs are beside the code. It finds mistakes between
// proof and program; mutant_test.go shows which ones.
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

// Game is a mechanism with two neighbouring tables that are hard to hide.
type Game struct {
	Name     string         // the mechanism's name in SQL
	Pair     string         // description of the neighbours, for people
	Claim    privacy.Budget // the privacy claim for them
	Slowness int            // above 1: a run takes so many times as long as others, and the number of runs is divided by it
	Alone    bool           // one run at a time, because the game measures time
	// Play runs the mechanism once, on the first or on the second table, and returns a number that depends
	// on its answer alone.
	Play func(second bool, src *mech.Source) float64
}

// FalseAlarm bounds the probability that an audit refutes any claim although all claims are true.
const FalseAlarm = 1e-6

// Result is the outcome of a game.
type Result struct {
	Game
	Runs  int     // on both tables together
	Lower float64 // lower bound on epsilon at Claim.Delta
}

// Refuted reports whether the claim is false, unless the lower bound is wrong.
func (r Result) Refuted() bool { return r.Lower > r.Claim.Epsilon }

// Run plays a game about runs times, on both tables alternately, on all cores, each with a Source of its
// own. falseAlarm is the probability that the lower bound is wrong.
//
// Errors: the context's.
func (g Game) Run(ctx context.Context, runs int, falseAlarm float64, newSource func() *mech.Source) (Result, error) {
	all, err := g.playAll(ctx, runs, newSource)
	if err != nil {
		return Result{}, err
	}
	return g.evaluate(all, falseAlarm), nil
}

// evaluate selects a distinguisher with a third of the answers and bounds epsilon by its performance on the
// others.
func (g Game) evaluate(all answers, falseAlarm float64) Result {
	third := len(all.first) / 3
	training := answers{all.first[:third], all.second[:third]}
	held := answers{all.first[third:], all.second[third:]}
	best := training.choose(g.Claim.Delta, len(held.first), falseAlarm)
	return Result{Game: g, Runs: 2 * len(all.first), Lower: best.bound(held, g.Claim.Delta, falseAlarm)}
}

// playAll plays half of the runs on each table.
func (g Game) playAll(ctx context.Context, runs int, newSource func() *mech.Source) (answers, error) {
	n := max(runs/max(1, g.Slowness)/2, 3)
	first, second := make([]float64, n), make([]float64, n)
	var workers sync.WaitGroup
	cores := runtime.GOMAXPROCS(0)
	if g.Alone {
		cores = 1
	}
	for core := range cores {
		src := newSource()
		workers.Go(func() {
			for i := core; i < n && ctx.Err() == nil; i += cores {
				first[i] = g.Play(false, src)
				second[i] = g.Play(true, src)
			}
		})
	}
	workers.Wait()
	return answers{first, second}, ctx.Err()
}

// answers are the results of runs on the first and on the second table.
type answers struct{ first, second []float64 }

// distinguisher is a test that guesses the table of an answer: answers on one side of the threshold,
// including the threshold itself, are attributed to the target table.
type distinguisher struct {
	threshold    float64
	above        bool // the side: at or above the threshold, otherwise at or below
	targetSecond bool // the target is the second table, otherwise the first
}

// count returns the numbers of answers from the other table and from the target that are attributed to the
// target.
func (d distinguisher) count(in answers) (falsePositives, truePositives int) {
	positives := func(list []float64) (n int) {
		for _, v := range list {
			if d.above && v >= d.threshold || !d.above && v <= d.threshold {
				n++
			}
		}
		return n
	}
	if d.targetSecond {
		return positives(in.first), positives(in.second)
	}
	return positives(in.second), positives(in.first)
}

// bound returns a lower bound on epsilon, which is wrong with probability at most falseAlarm. The rates P
// of true and Q of false positives of an (epsilon, delta)-DP mechanism satisfy P <= e^epsilon Q + delta.
func (d distinguisher) bound(in answers, delta, falseAlarm float64) float64 {
	falsePositives, truePositives := d.count(in)
	p := atLeast(truePositives, len(in.first), falseAlarm/2)
	q := atMost(falsePositives, len(in.first), falseAlarm/2)
	return math.Log(max(1, (p-delta)/q))
}

// choose returns the distinguisher with the largest expected bound for n answers about each table, by
// normal approximations of its confidence limits.
func (in answers) choose(delta float64, n int, falseAlarm float64) (best distinguisher) {
	most := math.Inf(-1)
	width := math.Sqrt(-2 * math.Log(falseAlarm/2)) // of a limit, in standard deviations
	for d := range in.distinguishers() {
		falsePositives, truePositives := d.count(in)
		p, q := float64(truePositives)/float64(len(in.first)), float64(falsePositives)/float64(len(in.first))
		p -= width * math.Sqrt(p*(1-p)/float64(n))
		q += width*math.Sqrt(q*(1-q)/float64(n)) + width*width/2/float64(n)
		if v := (p - delta) / q; v > most {
			most, best = v, d
		}
	}
	return best
}

// distinguishers yields both sides and both targets at thresholds that are quantiles of the answers, dense
// in the tails.
func (in answers) distinguishers() func(yield func(distinguisher) bool) {
	all := slices.Concat(in.first, in.second)
	slices.Sort(all)
	last := len(all) - 1
	return func(yield func(distinguisher) bool) {
		for k := range 2 * thresholdsASide {
			rank := int(math.Pow(float64(last)/2, float64(k%thresholdsASide)/(thresholdsASide-1)))
			if k >= thresholdsASide {
				rank = last - rank
			}
			for direction := range 4 {
				if !yield(distinguisher{all[rank], direction&1 > 0, direction&2 > 0}) {
					return
				}
			}
		}
	}
}

// thresholdsASide is the number of thresholds from each end to the middle.
const thresholdsASide = 40
