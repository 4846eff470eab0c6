package dpsco

import (
	"math"
	"time"
)

// Ladder is the times, from the moment when reading begins, at which what depends on
// a value may be seen: steps 0 to Last, the first after First, each after 1.5 times the
// one before. It is made from public facts. Of how long a fit took, whoever watches
// learns a step and nothing finer.
type Ladder struct {
	First time.Duration
	Last  int
}

// growth is that of steps. The database computes the same times (sql/functions/jobs.sql).
const growth = 1.5

// What reading and fitting take beside what grows with the table, and a value's part of it.
const (
	overhead = 8 * time.Millisecond
	pull     = 50 * time.Nanosecond
)

// statement is the seconds that a statement takes beside its rows, and rowOfStatement those of a row with so many
// numbers, their products among them: what Postgres 15 was seen to take without just in time compilation, rounded upward.
const statement = 0.05

func rowOfStatement(columns int) float64 {
	d := float64(columns)
	return 1e-9 * (500 + 150*d + 25*d*d)
}

// NewLadder returns that of a plan whose columns are read with it, all within limit. Its
// first step leaves twice the time that one core takes where data are ordinary: as many
// jobs at a time as twice the cores do not make each other late.
func NewLadder(p *Plan, limit time.Duration) Ladder {
	l := Ladder{First: min(limit, overhead+2*p.Takes())}
	for l.Step(l.Last+1) <= limit {
		l.Last++
	}
	return l
}

// Takes is about how long reading and fitting take on one core, where data are ordinary.
func (p *Plan) Takes() time.Duration {
	const most = float64(math.MaxInt64 / 8)
	if p.InDatabase {
		seconds := float64(p.Passes) * (statement + float64(p.shape.N)/float64(max(1, p.Nodes))*rowOfStatement(p.shape.Columns()+2))
		return time.Duration(min(most, (seconds+p.Seconds)*float64(time.Second)))
	}
	values := float64(p.shape.N) * float64(max(1, p.maxRows)) * float64(p.shape.Columns()+1)
	return time.Duration(min(most, values*float64(pull)+p.Seconds*float64(time.Second)))
}

// LeavesOut tells the plan how many rows, or persons, are read beside those that it is about: those that
// a sample leaves out.
func (p *Plan) LeavesOut(rows int64) {
	p.Seconds += float64(rows) * float64(max(1, p.maxRows)) * float64(p.shape.Columns()+1) * pull.Seconds()
}

// Step returns when step k is.
func (l Ladder) Step(k int) time.Duration {
	return time.Duration(float64(l.First) * math.Pow(growth, float64(k)))
}

// End is the last step: whatever is not done by then ends.
func (l Ladder) End() time.Duration { return l.Step(l.Last) }

// At returns the first step that is not over after elapsed, the last one when all are.
func (l Ladder) At(elapsed time.Duration) (k int) {
	for k < l.Last && l.Step(k) < elapsed {
		k++
	}
	return k
}
