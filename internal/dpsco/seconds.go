package dpsco

import "dpsidecar/internal/dpsco/mean"

// How long fits take on two cores, as seen with ten thousands of rows and more: rough figures
// from public facts, for those who wait.

// pace is the seconds that an estimate takes for a number.
func pace(m mean.Method) float64 {
	switch m.(type) {
	case mean.Catoni:
		return 3.5e-9
	case mean.TrimmedMean:
		return 9e-9
	}
	return 1.6e-9
}

func (d Descent) seconds(s Shape) float64 {
	rows := 0
	for _, u := range d.Solver.Uses() {
		n := s.N
		if u.Batch > 0 {
			n = u.Batch
		}
		rows += n * u.Calls
	}
	return pace(d.Mean) * float64(rows) * float64(s.D+1)
}

func (a Whitened) seconds(s Shape) float64 {
	return a.Descent.seconds(s) + 1e-9*float64(s.N)*float64(s.D)*float64(s.D)
}

func (a SampleAggregate) seconds(s Shape) float64 {
	return 2.7e-7 * float64(s.N) * float64(s.D+3)
}

// seconds is that of the passes, each over products of all pairs of columns.
func (a JointMoments) seconds(s Shape) float64 {
	return 4e-10 * float64(pilotPasses+a.Steps) * float64(s.N) * float64(s.D+4) * float64(s.D+4)
}
