package audit

import (
	"context"
	"fmt"
	"math"
	"syscall"
	"time"

	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// timeClaim is the expectation for the time of an answer, not a theorem. Its delta allows that one answer
// in a hundred is a step later on one table, which identifies the table.
var timeClaim = privacy.Budget{Epsilon: 0.1, Delta: 0.01}

// jobTime is the time limit of the fits below, equal to the default for jobs.
const jobTime = time.Hour

// timedFits are the fits whose time is audited. The time of l1's exact sampler depends on the table the
// most.
var timedFits = []worstCase{
	{name: "time of l1", model: "l1", pair: "the step of an answer; one of 300 rows is an outlier", pure: true, tables: withOutlier(300), slowness: 4,
		options: options{"method": "exponential_mechanism"}},
	{name: "time of gd", model: "linear", pair: "the step of an answer; one of 300 rows is an outlier", tables: withOutlier(300), slowness: 4,
		options: options{"method": "gd"}},
}

// stepOf returns the part of an answer's time that an analyst can observe: the step of its ladder.
func stepOf(l plan.Ladder, took time.Duration) float64 { return float64(l.At(took)) }

// timingGame returns a game whose answer is show of a fit's time. It uses processor time, so that other
// programs on the machine have no influence.
func (f worstCase) timingGame(show func(plan.Ladder, time.Duration) float64) (Game, error) {
	b := privacy.Budget{Epsilon: 1, Delta: 1e-6}
	if f.pure {
		b.Delta = 0
	}
	algorithm, err := dpsco.Recipe(f.model, f.options, []string{"a", "b"})
	if err != nil {
		return Game{}, err
	}
	first, _ := f.tables()
	if _, err := algorithm.Plan(first.Shape, b, privacy.Concentrated{}); err != nil {
		return Game{}, err
	}
	return Game{Name: f.name, Pair: f.pair, Claim: timeClaim, Slowness: f.slowness, Alone: true, Play: func(second bool, src *mech.Source) float64 {
		x, other := f.tables()
		if second {
			x = other
		}
		p, err := algorithm.Plan(x.Shape, b, privacy.Concentrated{})
		if err != nil {
			panic("audit: a plan that was made before: " + err.Error())
		}
		began := processorTime()
		if _, err := p.Run(context.Background(), x, src); err != nil {
			panic("audit: a run failed: " + err.Error())
		}
		return show(plan.NewLadder(p, jobTime), processorTime()-began)
	}}, nil
}

// timingGames returns the games about time.
//
// Errors: those of planning.
func timingGames() ([]Game, error) {
	var games []Game
	for _, f := range timedFits {
		g, err := f.timingGame(stepOf)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		games = append(games, g)
	}
	return games, nil
}

// withOutlier is n rows near a plane, and the same rows with one replaced by an outlier.
func withOutlier(n int) func() (a, b table.Data) {
	return func() (table.Data, table.Data) { return nearPlane(n), addOutlier(nearPlane(n)) }
}

// nearPlane is n rows of two features near a plane, the same every time.
func nearPlane(n int) table.Data {
	a := table.Data{Shape: table.Shape{N: n, D: 3, Intercept: true}, X: [][]float64{make([]float64, n), make([]float64, n)}, Y: make([]float64, n)}
	for i := range n {
		k := float64(i)
		a.X[0][i], a.X[1][i] = math.Sin(k*k), math.Sin(k*k+17*k)
		a.Y[i] = a.X[0][i] + a.X[1][i] + 0.1*math.Cos(3*k*k+k)
	}
	return a
}

// addOutlier makes the first row an outlier.
func addOutlier(a table.Data) table.Data {
	a.X[0][0], a.Y[0] = 1e3, 3
	return a
}

// processorTime returns the processor time that this program has used on all cores.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic("audit: " + err.Error())
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
