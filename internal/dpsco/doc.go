// Package dpsco computes differentially private regressions by several methods. Beside it packages score, describe and
// moments compute the accuracy of their predictions, descriptions of columns, and second moments. Each is planned from
// public facts, priced, charged to the ledger, and only then run, once.
//
// Its name is that of the first method, stochastic convex optimisation under differential privacy (DP-SCO).
//
// Files:
//
// Plans, from public facts, by package plan; package release has what they release:
//
//	doc                 this overview
//	stage               fits whose cost follows from one noise multiplier
//	options             options of a request
//	regression, problem a model with a loss; the same with a shape and a budget
//	recipes, parts      the table of methods; the estimators and solvers that they are made of
//	expect              forecasts of the error from noise
//	seconds             how long a fit takes
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
// Histograms, by package histogram; package magnitude reads those of lengths and residuals:
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
//	withhold            why a fit has no errors
package dpsco
