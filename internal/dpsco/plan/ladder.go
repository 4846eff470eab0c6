package plan

import (
	"math"
	"time"
)

// Ladder holds the times, measured from the start of reading, at which results that depend on values
// may become visible: steps 0 to Last, the first after First, each 1.5 times as late as the one
// before. It follows from public facts. An observer learns the step in which a fit ended, and
// nothing finer about its duration.
type Ladder struct {
	First time.Duration
	Last  int
}

// ladderGrowth is the ratio of consecutive steps. The database computes the same times (sql/functions/jobs.sql).
const ladderGrowth = 1.5

// FixedTime is the time for reading and fitting that does not grow with the table, timePerValue the time to
// read one value.
const (
	FixedTime    = 8 * time.Millisecond
	timePerValue = 50 * time.Nanosecond
)

// SecondsPerStatement is the time of a statement without that for its rows, and rowOfStatement the
// time for a row with the given number of columns, including their products. Both were measured on
// Postgres 15 without just-in-time compilation and rounded upward.
const SecondsPerStatement = 0.05

func rowOfStatement(columns int) float64 {
	d := float64(columns)
	return 1e-9 * (500 + 150*d + 25*d*d)
}

// NewLadder returns the ladder of a plan and the reading of its columns, with all steps within
// limit. The first step leaves twice the time that one core takes for ordinary data, so that twice
// as many jobs as cores can run at a time without missing it.
func NewLadder(p *Plan, limit time.Duration) Ladder {
	l := Ladder{First: min(limit, FixedTime+2*p.Duration())}
	for l.Step(l.Last+1) <= limit {
		l.Last++
	}
	return l
}

// Duration estimates the time for reading and fitting on one core, for ordinary data.
func (p *Plan) Duration() time.Duration {
	const most = float64(math.MaxInt64 / 8)
	if p.InDatabase {
		rows := float64(p.Shape.N) / float64(max(1, p.Nodes))
		seconds := float64(p.Passes)*(SecondsPerStatement+rows*rowOfStatement(p.Shape.Columns()+2)) + float64(p.Statements)*(SecondsPerStatement+rows*rowOfStatement(1))
		return time.Duration(min(most, (seconds+p.Seconds)*float64(time.Second)))
	}
	values := float64(p.Shape.N) * float64(max(1, p.maxRows)) * float64(p.Shape.Columns()+1)
	return time.Duration(min(most, values*float64(timePerValue)+p.Seconds*float64(time.Second)))
}

// AddUnsampledRows adds the time for reading the given number of rows, or persons, that a sample leaves out.
func (p *Plan) AddUnsampledRows(rows int64) {
	p.Seconds += float64(rows) * float64(max(1, p.maxRows)) * float64(p.Shape.Columns()+1) * timePerValue.Seconds()
}

// Step returns the time of step k.
func (l Ladder) Step(k int) time.Duration {
	return time.Duration(float64(l.First) * math.Pow(ladderGrowth, float64(k)))
}

// End returns the time of the last step, at which unfinished jobs end.
func (l Ladder) End() time.Duration { return l.Step(l.Last) }

// At returns the first step at or after elapsed, or the last step if there is none.
func (l Ladder) At(elapsed time.Duration) (k int) {
	for k < l.Last && l.Step(k) < elapsed {
		k++
	}
	return k
}
