// Package dpsco computes differentially private statistics of a table: regressions, by several methods, the
// accuracy of their predictions, descriptions of columns, and second moments. Each is planned from public
// facts, priced, charged to the ledger, and only then run, once.
//
// Its name is that of the first method, stochastic convex optimisation under differential privacy (DP-SCO).
//
// Files:
//
// Plans, from public facts:
//
//	dpsco, plan, result errors, plans, and their results
//	stage               fits whose cost follows from one noise multiplier
//	request, options    options of a request and their defaults
//	regression, problem a model with a loss; the same with a shape and a budget
//	recipes, parts      the table of methods; the estimators and solvers that they are made of
//	expect              forecasts of the error from noise
//	ladder, seconds     when a release is published, and how long a fit takes
//
// Data, whose rows package table holds:
//
//	scaled, weights     conversion to scaled units; weights of rows
//	counts              scaling, offsets and exposures of counts
//	pushdown, *_pushdown  rows that stay in a database, which computes the sums of a pass
//	row_block, scan     rows in the coordinates of a pass, and the releases of a pass
//	vectors             vectors of numbers
//
// Coordinates, by the linear algebra of package linalg:
//
//	whiten              second moments, and descents in coordinates in which they are the identity
//	levels              coordinates in which the levels of a category are equally far from each other
//
// Histograms; package magnitude reads those of sizes:
//
//	scales, standardise the scales of columns without one, and where their values lie
//
// Fits:
//
//	descent, oracle     first-order solvers on private means of row gradients
//	centre              the same on centred columns
//	joint_*             least squares from joint moments of rows and residuals
//	newton, newton_*    logistic, Huber and Poisson fits by private Newton steps
//	aggregate, rangemean  sample and aggregate
//	l1                  median regression: the choice of a method, and its two single mechanisms
//	l1_staged, l1_staged_*  median regression in private stages: the plan, the shares of epsilon, and the fit
//	l1_groups           the same by groups
//	groups              fits by groups
//	intervals           confidence intervals
//
// Scores:
//
//	score, score_*      accuracy of a release's predictions
//
// Descriptions:
//
//	describe, describe_*  descriptions of columns, and scales for them
//	second_moments      released second moments, from which the database fits
package dpsco

import (
	"errors"
	"fmt"
	"strings"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// ErrParameter marks a public parameter that is never valid (SQLSTATE 22023); ErrInfeasible marks
// parameters that are valid one by one but cannot work with this many rows and columns (SQLSTATE
// DP005). ErrAlreadyRun is returned by a second Run of a plan: its event is charged once, and pays for one release.
var (
	ErrParameter  = catalogue.ErrRequest
	ErrInfeasible = errors.New("not possible with these rows, columns, options and budget")
	ErrAlreadyRun = errors.New("dpsco: plan already run")
)

// infeasible wraps a mechanism's error about public parameters in ErrInfeasible.
func infeasible(err error) error {
	return fmt.Errorf("%w: %s", ErrInfeasible, strings.TrimPrefix(err.Error(), mech.ErrParams.Error()+": "))
}

// Algorithm plans a fit from public facts alone: a shape, a budget, and the accountant that prices
// releases for the account in question.
//
// Errors: wraps ErrParameter or ErrInfeasible; the text says which request would be possible.
type Algorithm interface {
	Plan(s table.Shape, b privacy.Budget, a privacy.Accountant) (*Plan, error)
}
