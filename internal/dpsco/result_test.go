package dpsco

// coefficients are those of a run.
func coefficients(r Result, err error) ([]float64, error) { return r.Coefficients, err }
