// Package privacy does the accounting. It never sees data: an Event describes the
// mechanism that runs, Price bounds its cost, an Accountant converts the cost of a
// whole history to epsilon, and Calibrate finds the least noise that fits a budget.
//
// Everything here is relative to replace-one adjacency with a public number of
// rows: two tables are neighbours when one record is exchanged for another.
//
// Files:
//
// Events, and what one costs:
//
//	event, leaves       descriptions of mechanisms; the mechanisms that a composition consists of
//	marshal, unmarshal  their form in the ledger
//	price               the cost of an event in each unit
//	gaussian, subsample normal noise, exactly; the Renyi divergence of mechanisms on samples
//	renyi               Renyi divergences on a grid of orders
//
// Histories:
//
//	accountant, order, alone  accountants: of all theorems, of one order, of a single release
//	convert             from rho and Renyi divergence to epsilon and back
//	calibrate           the least noise that fits a budget
//	round               arithmetic that is rounded to the safe side
package privacy
