// Package job runs a job through its stages: claim, plan, charge, pull, run, publish. A Sidecar is an
// ordinary client of Postgres; any number of them share the queue.
//
// Files:
//
//	sidecar, connect, checks  the sidecar, its sessions, and what it refuses to run on
//	listen, watch       heartbeats and notifications; events for operators
//	claim, attempt, outcome  a claimed job, one attempt at it, and its end
//	publish, publish_groups  steps of the ladder, and what is published at them
//	drawn               answers that could not be published yet
//	explain             answers to questions of what a request would do
//
// Rows:
//
//	persons, count      the persons of a data set, and their number
//	nodes               rows on several servers
//	sums                rows that stay in a database, which sums them
//	memory              the bytes that a job needs
//	scales              units of columns
//
// Kinds of jobs besides fits:
//
//	score, describe, moments
package job
