// Package mean estimates the mean of row gradients privately. Every estimator
// brings each row's contribution within a public bound by a function of that
// row alone, adds integers, and adds noise: what the bounds cost is accuracy,
// never privacy. One record is one row; n is public.
package mean

import (
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// Block is some consecutive rows of a query: the gradient of row i is C[i]
// times row i of X.
type Block struct {
	Start int // position of its first row among the query's
	X     mech.Rows
	C     []float64
}

// Rows are the N row gradients of one query, of length D, never stored as such.
//
// Range calls visitor once per goroutine, one call after the other, and then
// passes every block to one of the functions it returned; those run side by
// side, each on one goroutine. Range may be called several times and gives the
// same rows in the same positions (order of blocks and division among visitors
// vary).
type Rows struct {
	N, D  int
	Range func(visitor func() func(Block))
}

// Near is what is public about a query by now.
type Near struct {
	Norm   float64   // a bound on the norm of row gradients, to be clipped to; 0: none is known
	Centre []float64 // an earlier private answer close to this one; nil at the first query
}

// Method is an estimator by public parameters only. A zero parameter is not a
// default: planning fills all in.
type Method interface {
	// At fixes the noise of estimates of the mean of n gradients of length d.
	// z is the noise multiplier of one estimate, so that its cost does not
	// grow with z, as privacy.Calibrate asks for.
	//
	// Errors: wraps mech.ErrParams for parameters that cannot work with n and d.
	At(z float64, n, d int) (Estimator, error)
}

// Estimator is a calibrated Method for one run. It may remember answers that it
// gave, nothing else. Not safe for concurrent use.
type Estimator interface {
	Begin() privacy.Event // paid once, by the first estimate, besides its Event; nil: nothing
	Event() privacy.Event // of one estimate
	// Estimate writes the private mean to dst, of length d. r has the n and d
	// of At.
	Estimate(dst []float64, r Rows, near Near, src *mech.Source)
}
