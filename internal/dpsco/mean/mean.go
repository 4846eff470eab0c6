// Package mean estimates the mean of row gradients privately. Every estimator brings
// each row's contribution within a public bound by a function of that row alone,
// adds up integers, and adds noise. A bound that does not suit the data costs
// accuracy, never privacy. One record is one row; the number of rows n is public.
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

	Sum func(mech.Contract) *mech.Sum // of rows that stay in a database, in place of Range; nil: they are here
}

// Hints holds public facts that can make an estimate more accurate.
type Hints struct {
	Norm   float64   // bounds the norm of row gradients, which are clipped to it; 0: not known
	Centre []float64 // an earlier private answer close to this one; nil: there is none
}

// Method is an estimator that is not calibrated yet: its public parameters. A zero
// parameter is not a default: planning fills all in.
type Method interface {
	// At calibrates estimates of the mean of n gradients of length d to the noise
	// multiplier z. The cost of an estimate does not grow with z, as
	// privacy.Calibrate asks for.
	//
	// Errors: mech.ErrParams for parameters that cannot work with n and d.
	At(z float64, n, d int) (Estimator, error)
}

// Estimator is a calibrated Method for one run. It may remember its own answers, and
// nothing else of the data. It is not safe for concurrent use.
type Estimator interface {
	Begin() privacy.Event // charged once, for the first estimate, besides its Event; nil: nothing
	Event() privacy.Event // the cost of one estimate
	// Estimate writes the private mean to dst, of length d. r has the n and d of At,
	// and hints are public.
	Estimate(dst []float64, r Rows, hints Hints, src *mech.Source)
}
