package job

import (
	"context"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/arrowio"
	"dpsidecar/internal/catalogue"
)

// countRegistered counts the rows of newly registered data sets until ctx ends. It runs in a goroutine of
// its own, so that a long count does not delay the heartbeats of the session that listens.
func (s *Sidecar) countRegistered(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.registered:
		}
		todo, err := s.uncounted(ctx)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("row counts failed", "error", err)
		}
		for _, d := range todo {
			if _, err := s.countRows(ctx, d.Dataset, pgx.Identifier{d.Schema, d.Relation}, d.persons()); err != nil && ctx.Err() == nil {
				s.log.Warn("row count failed", "dataset_id", d.Dataset, "error", err)
			}
		}
	}
}

type uncountedDataset struct {
	Dataset          int64
	Schema, Relation string
	Unit             *string
}

// persons returns how the persons of a data set without a registered number of them are counted.
func (d uncountedDataset) persons() persons {
	if d.Unit == nil {
		return persons{}
	}
	return persons{unit: &arrowio.Unit{Column: *d.Unit}}
}

// uncounted returns the data sets whose number of rows has not been published.
func (s *Sidecar) uncounted(ctx context.Context) ([]uncountedDataset, error) {
	ctx, done := context.WithTimeout(ctx, statementTimeout)
	defer done()
	rows, _ := s.pool.Query(ctx, "SELECT dataset, schema_name, relation_name, unit FROM dp_int.uncounted()")
	return pgx.CollectRows(rows, pgx.RowToStructByPos[uncountedDataset])
}

// countRows counts the rows, or persons, of a data set without a published count, and publishes the count,
// which is public. A count that a job has published in the meantime is newer and is kept.
func (s *Sidecar) countRows(ctx context.Context, dataset int64, relation pgx.Identifier, p persons) (n int64, err error) {
	err = s.inSnapshot(ctx, func(conn *pgx.Conn) error {
		shards, err := s.settleShards(ctx, conn, dataset)
		if err != nil {
			return err
		}
		versions, err := s.lockChecked(ctx, conn, relation, recheckDataset, dataset)
		if err != nil {
			return err
		}
		if err := s.examineShards(ctx, shards, dataset); err != nil {
			return asFailure(err)
		}
		if n, err = s.countIn(ctx, conn, relation, p); err != nil {
			return relationFailure(err)
		}
		return asFailure(s.recheckVersions(ctx, versions, recheckDataset, dataset))
	})
	if err != nil {
		return 0, err
	}
	return n, s.autocommit.exec(ctx, "SELECT dp_int.counted(dataset, $2, true) FROM dp_int.uncounted() WHERE dataset = $1", dataset, n)
}

// countIn counts the rows of a relation that conn's transaction sees, node by node if possible.
func (s *Sidecar) countIn(ctx context.Context, conn *pgx.Conn, relation pgx.Identifier, p persons) (int64, error) {
	if p.unit == nil && p.registered == nil {
		ns, err := s.openNodes(ctx, conn, relation)
		if err != nil {
			return 0, err
		}
		if ns != nil {
			defer ns.close()
			return ns.count(ctx, arrowio.Request{Where: p.window})
		}
	}
	return p.count(ctx, conn, relation)
}

// publishRowCount publishes the number of rows of a job's data set if it has changed, unless a steward's
// open transaction holds the data set: then a later job does. It does nothing for a sample, whose size is
// not that number, and with blocks, where the count of the window is published with the release.
func (s *Sidecar) publishRowCount(ctx context.Context, c *claim, n int64) error {
	_, sample := c.Request.Options[catalogue.SampleRows]
	if known := c.Dataset.RowCount; sample || c.Dataset.Block != nil || known != nil && *known == n {
		return nil
	}
	return s.autocommit.exec(ctx, "SELECT dp_int.counted($1, $2, false)", c.Dataset.ID, n)
}
