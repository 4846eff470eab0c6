package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"dpsidecar/internal/arrowio"
	"dpsidecar/sql"
)

// Watcher is told what happens to jobs. How long pulls and fits take depends on
// the data: it is for operators, who may see it anyway, and for nobody else.
type Watcher interface {
	Ended(outcome string) // done, failed, refused, dropped, parked, panicked, out_of_time or handed_back
	Pulled(took time.Duration)
	Ran(took time.Duration)
}

type nobody struct{}

func (nobody) Ended(string)         {}
func (nobody) Pulled(time.Duration) {}
func (nobody) Ran(time.Duration)    {}

// ErrSchema is returned when the database's schema is of another version, ErrRole
// when a sidecar connects as somebody whom the database does not believe to be one,
// and ErrAccess when the server lets it not in.
var (
	ErrSchema = errors.New("this dpsidecar does not fit the schema in the database")
	ErrRole   = errors.New("a sidecar works as role dp_sidecar and no other")
	ErrAccess = errors.New("the database does not let this sidecar in")
)

// refused reports whether trying again would not help.
func refused(err error) bool {
	return errors.Is(err, ErrSchema) || errors.Is(err, ErrRole) || errors.Is(err, ErrAccess)
}

// remedies say what to do where a server that is there refuses a connection, by
// SQLSTATE: what is wrong are settings, which are read at the start.
var remedies = map[string]string{
	"28P01": "give the password of the role in --password-file, ~/.pgpass or the URL",
	"28000": "the role must exist and log in, and pg_hba.conf let it in from here",
	"3D000": "name the database in --database-url or PGDATABASE",
	"42501": "grant the role CONNECT on the database, or run dpsidecar install",
}

// access gives a connection that was refused for good its type.
func access(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	if remedy, ok := remedies[pg.Code]; ok {
		return fmt.Errorf("%w: %s (SQLSTATE %s): %s", ErrAccess, pg.Message, pg.Code, remedy)
	}
	return err
}

func (s *Sidecar) checkDatabase(ctx context.Context, q arrowio.Querier) error {
	if err := checkRole(ctx, q); err != nil {
		return err
	}
	return s.checkSchema(ctx, q)
}

// checkRole asks who we are as dp_int.sidecars_alive does: members of the role and
// superusers do not count, and callers would find no sidecar.
func checkRole(ctx context.Context, q arrowio.Querier) error {
	var role string
	if err := q.QueryRow(ctx, "SELECT session_user::text").Scan(&role); err != nil {
		return access(err)
	}
	if role != "dp_sidecar" {
		return fmt.Errorf("%w: connect as dp_sidecar, not as %s", ErrRole, role)
	}
	return nil
}

func (s *Sidecar) checkSchema(ctx context.Context, q arrowio.Querier) error {
	if s.Schema == (sql.Schema{}) {
		return nil
	}
	return CheckSchema(ctx, q, s.Schema)
}

// CheckSchema compares the schema with the only one that a program may work
// with. Whoever may use dp_version can ask.
//
// Errors: ErrSchema; the server's.
func CheckSchema(ctx context.Context, q arrowio.Querier, want sql.Schema) error {
	var found sql.Schema
	err := q.QueryRow(ctx, `
		SELECT substring(v FROM 'schema (\d+)')::int, coalesce(substring(v FROM 'functions (\w+)'), '') FROM public.dp_version() AS v`).
		Scan(&found.Version, &found.Fingerprint)
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.Code == "42883":
		return fmt.Errorf("%w: it is missing, or has been taken down; this program needs version %d: run dpsidecar install", ErrSchema, want.Version)
	case err != nil:
		return err
	case found.Version > want.Version:
		return fmt.Errorf("%w: it has version %d, this program knows %d: upgrade dpsidecar", ErrSchema, found.Version, want.Version)
	case found.Version < want.Version:
		return fmt.Errorf("%w: it has version %d, this program needs %d: run dpsidecar migrate up", ErrSchema, found.Version, want.Version)
	case found.Fingerprint != want.Fingerprint:
		return fmt.Errorf("%w: its functions and views (%s) are those of another build than this one (%s): run dpsidecar migrate up with the build that is to work here",
			ErrSchema, found.Fingerprint, want.Fingerprint)
	}
	return nil
}

// Ready returns nil while the database has heard of this sidecar within three
// heartbeats, the time after which it believes it dead. One lost connection is
// over before that.
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

	Running  int            `json:"running"`  // jobs that a worker has
	Parked   int            `json:"parked"`   // jobs that are spent and cannot be read now
	Failures map[string]int `json:"failures"` // jobs that have failed, by SQLSTATE; refused budgets are none
	Sidecars int            `json:"sidecars"` // that the database believes to be alive
	Verified *Verified      `json:"verified"` // nil: never
}

// Verified is what the last dpsidecar verify found.
type Verified struct {
	OK  bool    `json:"ok"`
	Age float64 `json:"age"` // in seconds
}

// Figures asks the database. It needs a sidecar that is Ready.
func (s *Sidecar) Figures(ctx context.Context) (f Figures, err error) {
	if err := s.Ready(); err != nil {
		return f, err
	}
	var text []byte
	if err := s.brief.QueryRow(ctx, "SELECT dp_int.figures()").Scan(&text); err != nil {
		return f, err
	}
	return f, json.Unmarshal(text, &f)
}
