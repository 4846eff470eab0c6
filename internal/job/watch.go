package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"dpsidecar/internal/arrowio"
)

// Watcher is told what happens to jobs. How long pulls and fits take depends on
// the data: it is for operators, who may see it anyway, and for nobody else.
type Watcher interface {
	Ended(outcome string) // done, failed, dropped, parked or handed_back
	Pulled(took time.Duration)
	Ran(took time.Duration)
}

type nobody struct{}

func (nobody) Ended(string)         {}
func (nobody) Pulled(time.Duration) {}
func (nobody) Ran(time.Duration)    {}

// ErrSchema is returned when the database's schema is of another version.
var ErrSchema = errors.New("this dpsidecar does not fit the schema in the database")

// checkSchema compares the schema with the only version that this program may
// work with.
func (s *Sidecar) checkSchema(ctx context.Context, q arrowio.Querier) error {
	if s.Schema == 0 {
		return nil
	}
	var version int
	err := q.QueryRow(ctx, "SELECT dp_int.schema_version()").Scan(&version)
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && (pg.Code == "42883" || pg.Code == "3F000" || pg.Code == "42501"):
		return fmt.Errorf("%w: it is missing or older than version %d: run dpsidecar migrate up", ErrSchema, s.Schema)
	case err != nil:
		return err
	case version > s.Schema:
		return fmt.Errorf("%w: it has version %d, this program knows %d: upgrade dpsidecar", ErrSchema, version, s.Schema)
	case version < s.Schema:
		return fmt.Errorf("%w: it has version %d, this program needs %d: run dpsidecar migrate up", ErrSchema, version, s.Schema)
	}
	return nil
}

// Ready returns nil while the database hears of this sidecar.
func (s *Sidecar) Ready() error {
	if since := time.Since(time.Unix(0, s.alive.Load())); since > 3*heartbeat {
		return errors.New("the database has not heard of this sidecar for 15 s")
	}
	return nil
}

// Figures are what operators watch in the database.
type Figures struct {
	Budgets map[string]float64 `json:"budgets"` // share of its epsilon that is left, by data set
	Queued  int                `json:"queued"`  // jobs that wait
	Oldest  float64            `json:"oldest"`  // how long the oldest of them has, in seconds
}

// Figures asks the database. It needs a sidecar that is Ready.
func (s *Sidecar) Figures(ctx context.Context) (f Figures, err error) {
	if err := s.Ready(); err != nil {
		return f, err
	}
	var text []byte
	if err := s.pool.QueryRow(ctx, "SELECT dp_int.figures()").Scan(&text); err != nil {
		return f, err
	}
	return f, json.Unmarshal(text, &f)
}
