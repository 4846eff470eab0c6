// Package audit tries to refute what the mechanisms promise. It plays the game
// that differential privacy is about: run a mechanism many times on each of two
// neighbours, look at its answers, and tell which table it was. If that works
// better than (epsilon, delta) allows, beyond chance, the claim is false.
//
// An audit that refutes nothing proves nothing; the proofs stand beside the code. It
// finds mistakes between proof and program, and mutant_test.go shows which ones.
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

// Game is a mechanism with two neighbouring tables that are hard for it to hide.
type Game struct {
	Name     string         // as in SQL
	Pair     string         // what the neighbours are, for people
	Claim    privacy.Budget // what is promised about them
	Slowness int            // > 1: a run takes so many times as long as others, and so many times fewer are made
	Alone    bool           // one run at a time, for time is what is looked at
	// Play runs the mechanism once, on the second table or on the first, and returns
	// a number that depends on its answer alone.
	Play func(second bool, src *mech.Source) float64
}

// FalseAlarm bounds the probability that an audit refutes anything although all
// mechanisms keep their promises.
const FalseAlarm = 1e-6

// Result is the outcome of a game.
type Result struct {
	Game
	Runs       int     // on both tables together
	Lower      float64 // lower bound on epsilon at Claim.Delta
	Confidence float64 // probability with which such a bound is right
}

// Refuted reports whether the claim is false, with the confidence of the result.
func (r Result) Refuted() bool { return r.Lower > r.Claim.Epsilon }

// Run plays a game about runs times, on both tables alternately, on all cores, each of
// which draws from a Source of its own. falseAlarm is the probability that the lower
// bound is wrong.
//
// Errors: the context's.
func (g Game) Run(ctx context.Context, runs int, falseAlarm float64, newSource func() *mech.Source) (Result, error) {
	all, err := g.playAll(ctx, runs, newSource)
	if err != nil {
		return Result{}, err
	}
	return g.evaluate(all, falseAlarm), nil
}

// evaluate chooses a distinguisher by a third of the answers and bounds epsilon by how
// it does on the others.
func (g Game) evaluate(all answers, falseAlarm float64) Result {
	third := len(all.first) / 3
	training := answers{all.first[:third], all.second[:third]}
	held := answers{all.first[third:], all.second[third:]}
	best := training.choose(g.Claim.Delta, len(held.first), falseAlarm)
	return Result{Game: g, Runs: 2 * len(all.first), Lower: best.bound(held, g.Claim.Delta, falseAlarm), Confidence: 1 - falseAlarm}
}

// playAll plays on each table half as many times as there are runs.
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

// answers are those from runs on the first and on the second table.
type answers struct{ first, second []float64 }

// distinguisher is a test of which table an answer comes from: those on one side of
// the threshold, itself included, are said to come from the target.
type distinguisher struct {
	threshold    float64
	above        bool // the side; else below
	targetSecond bool // the second table is the target, else the first
}

// count returns how many answers from the other table, and how many from the target,
// are said to come from the target.
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

// bound returns a lower bound on epsilon, which is wrong with probability falseAlarm at
// most. The rates P of true and Q of false positives of an (epsilon, delta)-DP
// mechanism satisfy P <= e^epsilon Q + delta.
func (d distinguisher) bound(in answers, delta, falseAlarm float64) float64 {
	falsePositives, truePositives := d.count(in)
	p := atLeast(truePositives, len(in.first), falseAlarm/2)
	q := atMost(falsePositives, len(in.first), falseAlarm/2)
	return math.Log(max(1, (p-delta)/q))
}

// choose returns the distinguisher that promises the largest bound from n answers
// about each table, by normal approximations of its confidence limits.
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

// distinguishers yields both sides and both targets at thresholds that are quantiles
// of the answers, dense in the tails.
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

// thresholdsASide is how many thresholds are tried from each end to the middle.
const thresholdsASide = 40
