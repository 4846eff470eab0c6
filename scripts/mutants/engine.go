package main

import "os"

// Tests on Citus, and their mutants, run only if DPSIDECAR_ENGINE is set. It names the folder from which the
// tests build Citus.
func init() {
	if os.Getenv("DPSIDECAR_ENGINE") == "" {
		return
	}
	citus := []tests{{"./tests", "TestCitus"}}
	mutants = append(mutants, []mutant{
		{"citus: a worker is asked on several connections, each with a snapshot of its own", "internal/job/nodes.go",
			"SET LOCAL citus.max_adaptive_executor_pool_size = 1; ", "", citus},
		{"citus: a shard that moves is not noticed", "internal/job/nodes.go",
			"if now == nil || *now != *c.shards {", "if now == nil {", citus},
		{"citus: tables without a shard for each person are read", "sql/functions/nodes.sql",
			"ELSIF t.partmethod NOT IN ('h', 'n') THEN", "ELSIF false THEN", citus},
		{"citus: copies of a shard are read", "sql/functions/nodes.sql", "ELSIF t.copied THEN", "ELSIF false THEN", citus},
		{"citus: a shard is registered by itself", "sql/functions/nodes.sql", "IF t.is_shard THEN", "IF false THEN", citus},
	}...)
}
