// Package privacy does the accounting. It never sees data: an Event describes the
// mechanism that runs, Price bounds its cost, an Accountant converts the cost of a
// whole history to epsilon, and Calibrate finds the least noise that fits a budget.
//
// Everything here is relative to replace-one adjacency with a public number of
// rows: two tables are neighbours when one record is exchanged for another.
package privacy
