package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/arrowio"
	"dpsidecar/internal/ledger"
	"dpsidecar/internal/mech"
)

// Rows may be on several nodes, each with a snapshot of its own; nodes.md proves that this suffices. The
// coordinator of Citus queries its workers itself. Servers of postgres_fdw are queried directly, because a
// query of the partitioned table would transfer every row.

// shardMoved parks a job if a shard of its table moved to another node during the read: its rows may then be in
// none of the job's snapshots, or in two.
const shardMoved parked = "a shard of the data set went to another node while the job read it"

// partChanged parks a job if a part is not what it was when the number of rows was taken.
const partChanged parked = "a table of the data set changed on its node while the job read it"

// nodeUnreachable parks a charged job if one of its nodes does not answer.
const nodeUnreachable parked = "a node of the data set cannot be reached now"

// citusSettings apply to the transaction of a job on tables of Citus, also those of one node, which may be a
// worker: each worker has one connection, whose transaction lasts as long as the coordinator's and has the same
// settings. No connection to a worker outlives the transaction, as functions of a view that was declared total
// may leave something in its session: see endSnapshot. Of reference tables the copy on the coordinator is read.
// The search path is pg_catalog because Citus omits the schema of system functions in statements to workers; the
// rest are those of pinSettings that matter to a read, which workers do not see otherwise.
const citusSettings = `SET LOCAL citus.max_cached_conns_per_worker = 0; SET LOCAL citus.enable_local_execution = on; SET LOCAL citus.max_adaptive_executor_pool_size = 1; ` +
	`SET LOCAL citus.propagate_set_commands = 'local'; SET LOCAL search_path = pg_catalog; SET LOCAL constraint_exclusion = off; ` +
	`SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL jit = off; SET LOCAL extra_float_digits = 1; SET LOCAL datestyle = 'ISO'`

// settle prepares the transaction of a job on a table of Citus, before its first statement that reads rows.
func (s *Sidecar) settle(ctx context.Context, conn *pgx.Conn, c *claim) (err error) {
	if c.Dataset.Citus {
		c.shards, err = s.settleShards(ctx, conn, c.Dataset.ID)
	}
	return err
}

// settleShards is settle for a data set. It returns the locations of the shards; nil if there are none.
func (s *Sidecar) settleShards(ctx context.Context, conn *pgx.Conn, dataset int64) (shards *string, err error) {
	if err := s.autocommit.QueryRow(ctx, "SELECT dp_int.job_shards($1)", dataset).Scan(&shards); err != nil || shards == nil {
		return nil, err
	}
	_, err = conn.PgConn().Exec(ctx, citusSettings).ReadAll()
	return shards, err
}

// examineShards has the nodes of a data set tell whether its shards are what the coordinator has in its
// catalogue. The owner of a table may change a shard on its node, and what he makes of it would run as
// dp_sidecar: so it is called before the first statement that reads them. That one locks them until the
// transaction ends, so that a call after it finds what was read.
//
// Errors: a *ledger.Refusal.
func (s *Sidecar) examineShards(ctx context.Context, shards *string, dataset int64) error {
	if shards == nil {
		return nil
	}
	ctx, done := context.WithTimeout(ctx, 8*statementTimeout) // as recheck
	defer done()
	_, err := s.pool.Exec(ctx, "SELECT dp_int.check_shards($1)", dataset)
	return ledger.Explain(err)
}

// checkShards parks a job if a shard has moved since its transaction began.
func (s *Sidecar) checkShards(ctx context.Context, c *claim) error {
	if c.shards == nil {
		return nil
	}
	var now *string
	if err := s.autocommit.QueryRow(ctx, "SELECT dp_int.job_shards($1)", c.Dataset.ID).Scan(&now); err != nil {
		return err
	}
	if now == nil || *now != *c.shards {
		return shardMoved
	}
	return nil
}

// unlisted returns the servers of a data set's foreign partitions that this sidecar may not query.
func (s *Sidecar) unlisted(c *claim) (servers []string) {
	for _, server := range c.Dataset.Servers {
		if s.config.Nodes[server] == nil {
			servers = append(servers, server)
		}
	}
	return servers
}

// nodes are connections to the servers of a partitioned table's foreign partitions, each in a repeatable
// read, read only transaction, and the partitions of the table with their locations.
type nodes struct {
	conns map[string]*pgx.Conn
	parts []*part
}

// part is a leaf partition.
type part struct {
	Schema, Relation string            // names on the part's node
	Server           string            // name of its server; empty: the sidecar's own database
	Renamed          map[string]string // names on the node of the columns that have another name there

	conn   *pgx.Conn
	tables []string // identities of the tables that it reads, as of the last check
}

func (p *part) relation() pgx.Identifier { return pgx.Identifier{p.Schema, p.Relation} }

// where returns the location of a part for messages.
func (p *part) where() string {
	if p.Server == "" {
		return ""
	}
	return fmt.Sprintf(" on node %q", p.Server)
}

// findParts lists the leaf partitions of a relation; for foreign tables of postgres_fdw with the names from
// their options.
const findParts = `
	SELECT coalesce(o.schema_name, n.nspname), coalesce(o.table_name, c.relname), coalesce(s.srvname, ''),
	       coalesce((SELECT jsonb_object_agg(a.attname, x.option_value) FROM pg_catalog.pg_attribute a, pg_options_to_table(a.attfdwoptions) x
	                  WHERE a.attrelid = c.oid AND x.option_name = 'column_name'), '{}')
	  FROM pg_partition_tree($1::regclass) t
	  JOIN pg_catalog.pg_class c ON c.oid = t.relid
	  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
	  LEFT JOIN pg_catalog.pg_foreign_table f ON f.ftrelid = c.oid
	  LEFT JOIN pg_catalog.pg_foreign_server s ON s.oid = f.ftserver
	  LEFT JOIN LATERAL (SELECT max(option_value) FILTER (WHERE option_name = 'schema_name') AS schema_name, max(option_value) FILTER (WHERE option_name = 'table_name') AS table_name
	                       FROM pg_options_to_table(f.ftoptions)) o ON true
	 WHERE t.isleaf
	 ORDER BY c.oid`

// openNodes begins a transaction on every node of a relation that conn has locked, and checks the parts. It
// returns nil if the nodes are not queried separately: without foreign partitions, or with one on a server
// that is not listed.
//
// Errors: a failure if a node cannot be reached, or a part may not be read there.
func (s *Sidecar) openNodes(ctx context.Context, conn *pgx.Conn, relation pgx.Identifier) (_ *nodes, err error) {
	rows, _ := conn.Query(ctx, findParts, relation.Sanitize())
	parts, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByPos[part])
	if err != nil {
		return nil, err
	}
	foreign := func(p *part) bool { return p.Server != "" }
	if !slices.ContainsFunc(parts, foreign) || slices.ContainsFunc(parts, func(p *part) bool { return foreign(p) && s.config.Nodes[p.Server] == nil }) {
		return nil, nil
	}
	ns := &nodes{map[string]*pgx.Conn{}, parts}
	defer func() {
		if err != nil {
			ns.close()
		}
	}()
	for _, p := range parts {
		if p.conn, err = s.connectNode(ctx, ns, conn, p.Server); err != nil {
			return nil, err
		}
		if err := lockPart(ctx, p); err != nil {
			return nil, relationFailure(err)
		}
	}
	return ns, ns.check(ctx)
}

// connectNode returns the connection to a server; the first call connects and begins the transaction.
func (s *Sidecar) connectNode(ctx context.Context, ns *nodes, own *pgx.Conn, server string) (*pgx.Conn, error) {
	if server == "" {
		return own, nil
	}
	if conn := ns.conns[server]; conn != nil {
		return conn, nil
	}
	config := s.config.Nodes[server].Copy()
	pinSettings(config)
	maps.Copy(config.RuntimeParams, map[string]string{"search_path": "pg_catalog", "lock_timeout": "5s"}) // the settings that role dp_sidecar has in its own database
	ctx, done := context.WithTimeout(ctx, statementTimeout)
	defer done()
	conn, err := pgx.ConnectConfig(ctx, config)
	if err == nil {
		ns.conns[server] = conn
		_, err = conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	}
	if err != nil {
		s.log.Error("cannot reach a node", "server", server, "error", err)
		return nil, &failure{"DP005", fmt.Sprintf("node %q of the data set cannot be reached now", server), "Ask again once it can be, or let an operator see the sidecar's log. " + nothingSpent}
	}
	return conn, nil
}

// lockPart locks a part's relation against changes of its definition.
func lockPart(ctx context.Context, p *part) error {
	ctx, done := context.WithTimeout(ctx, statementTimeout)
	defer done()
	return arrowio.Lock(ctx, p.conn, p.relation())
}

// examinePart selects whether a relation and all tables that inherit from it are tables without row-level
// security, whether they may be read, and the identity of each (cluster, database, table).
const examinePart = `
	WITH RECURSIVE below(oid) AS (
	  SELECT $1::regclass::oid
	  UNION
	  SELECT i.inhrelid FROM below b JOIN pg_catalog.pg_inherits i ON i.inhparent = b.oid)
	SELECT bool_and(c.relkind IN ('r', 'p', 'm') AND NOT pg_catalog.row_security_active(c.oid)), has_table_privilege($1::regclass, 'SELECT'),
	       array_agg(concat_ws(' ', (SELECT system_identifier FROM pg_catalog.pg_control_system()), (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()), c.oid) ORDER BY c.oid)
	  FROM below b JOIN pg_catalog.pg_class c ON c.oid = b.oid`

// check refuses a part that is not a table or does not show all of its rows, and parts that share rows.
func (ns *nodes) check(ctx context.Context) error {
	known := map[string]bool{}
	for _, p := range ns.parts {
		var plain, readable bool
		if err := p.conn.QueryRow(ctx, examinePart, p.relation().Sanitize()).Scan(&plain, &readable, &p.tables); err != nil {
			return relationFailure(err)
		}
		if !readable {
			return &failure{"DP004", fmt.Sprintf("partition %s of the data set may not be read%s", p.relation().Sanitize(), p.where()),
				"As its owner run: GRANT SELECT ON " + p.relation().Sanitize() + " TO " + pgx.Identifier{p.conn.Config().User}.Sanitize() + ". " + nothingSpent}
		}
		if !plain {
			return &failure{"DP004", fmt.Sprintf("partition %s of the data set is no table%s, or row-level security applies to it", p.relation().Sanitize(), p.where()),
				"Let its foreign table name a table there, whose rows the role of the sidecar may all read. " + nothingSpent}
		}
		for _, t := range p.tables {
			if known[t] {
				return &failure{"DP004", fmt.Sprintf("two partitions of the data set show the same rows of %s", p.relation().Sanitize()), "Let every foreign table name a table of its own. " + nothingSpent}
			}
			known[t] = true
		}
	}
	return nil
}

// recheckNodes repeats the check of the parts on servers after the read. Locks do not prevent that another table is made
// to inherit from one that is read, as ATTACH PARTITION does, and later statements read it. A job's own transactions
// do not see that in the catalogue, so it is asked in new ones. What was read stays attached until they end.
func (s *Sidecar) recheckNodes(ctx context.Context, c *claim) error {
	if c.nodes == nil {
		return nil
	}
	ctx, done := context.WithTimeout(ctx, 8*statementTimeout) // as recheck
	defer done()
	var were []*part
	now := &nodes{conns: map[string]*pgx.Conn{}}
	defer now.close()
	for _, p := range c.nodes.parts {
		if p.Server == "" {
			continue // see recheckVersions
		}
		again := *p
		var err error
		if again.conn, err = s.connectNode(ctx, now, nil, p.Server); err != nil {
			return s.failureAsParked(ctx, c, err)
		}
		were, now.parts = append(were, p), append(now.parts, &again)
	}
	if err := now.check(ctx); err != nil {
		return s.failureAsParked(ctx, c, err)
	}
	for i, p := range now.parts {
		if !slices.Equal(p.tables, were[i].tables) {
			return partChanged
		}
	}
	return nil
}

// takeSnapshots has postgres_fdw take the snapshots of all servers before a value is read: it takes each when it first
// reads from the server. The number of rows, where conn has counted them, has done so already, and Citus opens its
// connections before it reads.
func (s *Sidecar) takeSnapshots(ctx context.Context, conn *pgx.Conn, c *claim, counted bool) error {
	if counted || c.Dataset.Distribution == nil || c.Dataset.Unit != nil || c.shards != nil || c.nodes != nil && c.at == inDatabase {
		return nil
	}
	_, err := arrowio.Count(ctx, conn, c.relation(), c.window())
	return s.asParked(ctx, c, err, notRead)
}

// requests returns the request for each part.
func (ns *nodes) requests(req arrowio.Request) (requests []arrowio.Request) {
	for _, p := range ns.parts {
		requests = append(requests, req.Elsewhere(p.relation(), p.Renamed))
	}
	return requests
}

// describe refuses parts whose columns have types other than those of the relation.
func (ns *nodes) describe(ctx context.Context, conn *pgx.Conn, req arrowio.Request) error {
	want, err := arrowio.Describe(ctx, conn, req)
	if err != nil {
		return relationFailure(err)
	}
	for i, part := range ns.requests(req) {
		p := ns.parts[i]
		got, err := arrowio.Describe(ctx, p.conn, part)
		if err != nil {
			return relationFailure(err)
		}
		for j, field := range want.Fields() {
			if !got.Field(j).Metadata.Equal(field.Metadata) {
				return &failure{"DP004", fmt.Sprintf("column %q of the data set has another type in %s%s", field.Name, p.relation().Sanitize(), p.where()),
					"Let the foreign table have the types of the table that it stands for. " + nothingSpent}
			}
		}
	}
	return nil
}

// count returns the number of rows in all parts.
func (ns *nodes) count(ctx context.Context, req arrowio.Request) (n int64, err error) {
	counts := make([]int64, len(ns.parts))
	requests := ns.requests(req)
	err = ns.each(func(i int) (err error) {
		counts[i], err = arrowio.Count(ctx, ns.parts[i].conn, requests[i].Relation, requests[i].Where)
		return err
	})
	for _, c := range counts {
		n += c
	}
	return n, err
}

// each calls do for every part: concurrently on different nodes, in sequence on one node.
func (ns *nodes) each(do func(i int) error) error {
	on := map[*pgx.Conn][]int{}
	for i, p := range ns.parts {
		on[p.conn] = append(on[p.conn], i)
	}
	errs := make([]error, len(ns.parts))
	var group mech.PanicGroup
	for _, parts := range on {
		group.Go(func() {
			for _, i := range parts {
				if errs[i] = do(i); errs[i] != nil {
					return
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// sources returns the sources of a pass over all parts.
func (ns *nodes) sources(ctx context.Context, req arrowio.Request) (list []source, err error) {
	for i, r := range ns.requests(req) {
		x := source{conn: ns.parts[i].conn}
		if x.from, x.columns, err = arrowio.Expressions(ctx, x.conn, r); err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return list, nil
}

// close closes the connections, which ends their transactions.
func (ns *nodes) close() {
	if ns == nil {
		return
	}
	ctx, done := context.WithTimeout(context.Background(), time.Second)
	defer done()
	for _, conn := range ns.conns {
		conn.Close(ctx)
	}
}

// notListed returns the failure of a job on a data set whose rows stay on servers that this sidecar may not query.
func notListed(dataset string, servers []string) error {
	return &failure{"DP005", "the rows of this data set stay in the database, and this dpsidecar may not ask " + strings.Join(servers, ", "),
		"Let an operator start it with --node SERVER=URL for each of them. Or a steward lets the rows travel through this server: " + setPlacement(dataset, "memory") + ". " + nothingSpent}
}
