package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"dpsidecar/internal/arrowio"
	"dpsidecar/sql"
)

// ErrSchema is returned if the database's schema has another version, ErrRole if a sidecar connects as a
// role other than dp_sidecar, and ErrAccess if the server refuses the connection for a reason that retrying
// does not remove.
var (
	ErrSchema = errors.New("this dpsidecar does not fit the schema in the database")
	ErrRole   = errors.New("a sidecar works as role dp_sidecar and no other")
	ErrAccess = errors.New("the database does not let this sidecar in")
)

// permanent reports whether trying again would not help.
func permanent(err error) bool {
	return errors.Is(err, ErrSchema) || errors.Is(err, ErrRole) || errors.Is(err, ErrAccess)
}

// remedies are hints for operators by the SQLSTATE with which a server refuses a connection. The causes are
// settings that are read at the start, so retrying does not help.
var remedies = map[string]string{
	"28P01": "give the password of the role in --password-file, ~/.pgpass or the URL",
	"28000": "the role must exist and log in, and pg_hba.conf let it in from here",
	"3D000": "name the database in --database-url or PGDATABASE",
	"42501": "grant the role CONNECT on the database, or run dpsidecar install",
}

// accessError wraps a refusal that has a remedy in ErrAccess, and returns other errors unchanged.
func accessError(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	if remedy, ok := remedies[pg.Code]; ok {
		return fmt.Errorf("%w: %s (SQLSTATE %s): %s", ErrAccess, pg.Message, pg.Code, remedy)
	}
	return err
}

// checkDatabase checks the role and the schema.
func (s *Sidecar) checkDatabase(ctx context.Context, q arrowio.Querier) error {
	if err := checkRole(ctx, q); err != nil {
		return err
	}
	return s.checkSchema(ctx, q)
}

// checkRole accepts the role dp_sidecar only, as dp_int.sidecars_alive does: callers would not find a
// sidecar that connects as a member of the role or as a superuser.
func checkRole(ctx context.Context, q arrowio.Querier) error {
	var role string
	if err := q.QueryRow(ctx, "SELECT session_user::text").Scan(&role); err != nil {
		return accessError(err)
	}
	if role != "dp_sidecar" {
		return fmt.Errorf("%w: connect as dp_sidecar, not as %s", ErrRole, role)
	}
	return nil
}

// checkSchema compares the schema of the database with the configured one, if one is configured.
func (s *Sidecar) checkSchema(ctx context.Context, q arrowio.Querier) error {
	if s.config.Schema == (sql.Schema{}) {
		return nil
	}
	return CheckSchema(ctx, q, s.config.Schema)
}

// CheckSchema compares the schema of the database with the one that this program requires. Any role that
// may execute dp_version can call it.
//
// Errors: ErrSchema; the server's.
func CheckSchema(ctx context.Context, q arrowio.Querier, want sql.Schema) error {
	var found sql.Schema
	err := q.QueryRow(ctx, `
		SELECT coalesce(substring(v FROM 'schema ([0-9]+)')::int, 0), coalesce(substring(v FROM 'functions ([0-9a-f]+)'), '') FROM public.dp_version() AS v`).
		Scan(&found.Version, &found.Fingerprint)
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.Code == "42883":
		var tables bool // are there any, without functions?
		if err := q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'dp_int')`).Scan(&tables); err != nil {
			return err
		}
		if tables {
			return fmt.Errorf("%w: it has been taken down; this program needs version %d: run dpsidecar migrate up", ErrSchema, want.Version)
		}
		return fmt.Errorf("%w: it is missing; this program needs version %d: run dpsidecar install", ErrSchema, want.Version)
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
