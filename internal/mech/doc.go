// Package mech holds the only code that turns sensitive values into public ones. Its arithmetic is exact:
// decisions are made by integers, rationals and lazily refined intervals; floating point only makes
// proposals.
//
// Files:
//
// Public parameters and the shape of sums:
//
//	fixedpoint          contracts, sums of bounded rows in whole steps of a grid
//	summed              the same sums, computed by a database
//	moments             sums of products of bounded rows
//	histogram           counts in bins
//	rounding            what rounding noise to the grid costs in delta
//
// Noise on sums:
//
//	mechanism           what these have in common
//	gaussian, laplace   discrete noise on every coordinate
//	matrixlaplace       noise on a matrix of second moments
//	noise, normal, uniform  the laws that are drawn from, exactly
//	smooth              noise by the smooth sensitivity of a number
//
// Selection:
//
//	quantile, signed_quantile, disjoint_quantile  quantiles on grids of magnitudes
//	ranks               quantiles on a grid of decimal numbers
//	centre              a point near which most of several points lie
//
// Randomness and rows:
//
//	source              the randomness of all mechanisms
//	permutation, blocks samples and partitions of rows
//	panicgroup          goroutines whose panics reach the caller
package mech
