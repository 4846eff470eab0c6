package main

import "os"

// Tests on Citus, and their mutants, run only if DPSIDECAR_ENGINE is set. It names the folder from which the
// tests build Citus.
func init() {
	if os.Getenv("DPSIDECAR_ENGINE") == "" {
		return
	}
	citus, owners := []tests{{"./tests", "TestCitus"}}, []tests{{"./tests", "TestOwnersRunNothingOnCitus"}}
	mutants = append(mutants, []mutant{
		{"citus: a worker is asked on several connections, each with a snapshot of its own", "internal/job/nodes.go",
			"SET LOCAL citus.max_adaptive_executor_pool_size = 1; ", "", citus},
		{"citus: sessions on workers outlive a job", "internal/job/nodes.go", "SET LOCAL citus.max_cached_conns_per_worker = 0; SET", "SET", owners},
		{"citus: settings of a worker reach a job", "internal/job/nodes.go", "SET LOCAL idle_in_transaction_session_timeout = 0; ", "", owners},
		{"citus: a shard that moves is not noticed", "internal/job/nodes.go",
			"if now == nil || *now != *c.shards {", "if now == nil {", citus},
		{"citus: tables without a shard for each person are read", "sql/functions/nodes.sql",
			"ELSIF t.partmethod NOT IN ('h', 'n') THEN", "ELSIF false THEN", citus},
		{"citus: tables of one shard are all on this node", "sql/functions/nodes.sql", "CASE WHEN citus THEN dp_int.node_of(s.relid) ELSE 'this node' END", "'this node'", citus},
		{"citus: copies of a shard are read", "sql/functions/nodes.sql", "ELSIF t.copied THEN", "ELSIF false THEN", citus},
		{"citus: a shard is registered by itself", "sql/functions/nodes.sql", "IF t.is_shard THEN", "IF false THEN", citus},
		{"citus: shards are read before they are examined", "internal/job/attempt.go",
			"	if err := s.examineShards(ctx, c.shards, c.Dataset.ID); err != nil {\n		return asFailure(err)\n	}\n", "", owners},
		{"citus: shards may have policies", "sql/functions/shards.sql", "WHEN (f.facts ->> 'hidden')::boolean THEN", "WHEN false THEN", owners},
		{"citus: shards may be views", "sql/functions/shards.sql", "WHEN f.facts -> 'kind' <> k.facts -> 'kind' THEN", "WHEN false THEN", owners},
		{"citus: shards may have columns of other types", "sql/functions/shards.sql", "WHEN f.facts -> 'columns' IS DISTINCT FROM k.facts -> 'columns' THEN", "WHEN false THEN", owners},
		{"citus: shards may have children", "sql/functions/shards.sql", "WHEN f.facts ->> 'child' IS NOT NULL THEN", "WHEN false THEN", owners},
		{"citus: indexes of shards may call functions", "sql/functions/shards.sql", "UNION ALL SELECT 'pg_catalog.pg_class'::pg_catalog.regclass, i.indexrelid FROM pg_catalog.pg_index i WHERE i.indrelid = t.id", "", owners},
		{"citus: statistics of shards may call functions", "sql/functions/shards.sql", "UNION ALL SELECT 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass, e.oid FROM pg_catalog.pg_statistic_ext e WHERE e.stxrelid = t.id) AS o(class, id)", ") AS o(class, id)", owners},
		{"citus: indexes of shards may call casts", "sql/functions/shards.sql", "SELECT 'a cast'", "SELECT NULL", owners},
		{"citus: indexes of shards may cast to domains", "sql/functions/shards.sql", "y.typtype = 'd' AND y.oid >= 16384", "false", owners},
		{"citus: functions on workers may be others", "sql/functions/shards.sql", "WHERE f.hash <> coalesce(p_here -> 'functions' ->> f.name, '')) AS w(wrong)", "WHERE false) AS w(wrong)", owners},
		{"citus: the coordinator checks domains of what is pulled", "internal/arrowio/arrowio.go", "			expressions[j] = underDomain(expressions[j], t.name)\n", "", owners},
		{"citus: the coordinator checks domains of persons", "internal/arrowio/units.go", `underDomain(column, keyTypes[oid]), name, column)`, `column+keyTypes[oid][:0], name, column)`, owners},
		{"citus: a trigger of the coordinator's table is taken to freeze its shards", "sql/functions/freeze.sql", " AND NOT dp_int.of_citus(s.relid) THEN", " THEN", owners},
		{"citus: roles on workers stay as they are", "internal/install/schema.go", "execute(ctx, admin, likeHere)", "error(nil)", owners},
	}...)
}
