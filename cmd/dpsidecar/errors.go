package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"dpsidecar/internal/job"
	"dpsidecar/sql"
)

// describe returns an error for people, with the hint of Postgres if there is one.
func describe(err error) string {
	text := oneLine(err)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Hint != "" {
		text += "\nHINT: " + pg.Hint
	}
	return text
}

// oneLine joins the distinct lines of an error. A connection is tried with TLS and without, at each
// address, and the error has a line for every attempt.
func oneLine(err error) string {
	var said []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(said, line) {
			said = append(said, line)
		}
	}
	var b strings.Builder
	for i, line := range said {
		switch {
		case i == 0:
		case strings.HasSuffix(said[i-1], ":"):
			b.WriteString(" ")
		default:
			b.WriteString("; ")
		}
		b.WriteString(line)
	}
	return b.String()
}

// logError is a slog.HandlerOptions.ReplaceAttr that writes errors in one line.
func logError(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		return slog.String(a.Key, oneLine(err))
	}
	return a
}

// adviseSteward adds advice to the refusal of an action that only stewards may perform.
func adviseSteward(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "42501" {
		return fmt.Errorf("%w: connect as a steward, a member of dp_admin", err)
	}
	return err
}

// adviseVerify adds the advice of adviseSteward. If the schema lacks an object that a verification needs,
// it reports the schema's version. It ends tx.
func adviseVerify(ctx context.Context, tx pgx.Tx, conn *pgx.Conn, err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && slices.Contains([]string{"42883", "42P01", "42703"}, pg.Code) && tx.Rollback(ctx) == nil { // undefined function, table or column
		if schema := job.CheckSchema(ctx, conn, sql.Current()); errors.Is(schema, job.ErrSchema) {
			return schema
		}
	}
	return adviseSteward(err)
}
