// Package dev is a complete dpsidecar on one machine: a private Postgres with the schema installed, a
// steward and an analyst who can log in, and sidecars that run in this process. `dpsidecar dev`, the demo
// and the end-to-end tests use it.
package dev

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"dpsidecar/internal/install"
	"dpsidecar/internal/job"
	"dpsidecar/internal/localpg"
	"dpsidecar/sql"
)

// Database is the name of the database that everything is installed in.
const Database = "dpsidecar"

const (
	connectTimeout = 2 * time.Minute // for the database to receive a sidecar's heartbeat
	grace          = 2 * time.Second // for its jobs to end when it stops
)

// Options configure a system; the zero value is a temporary one.
type Options struct {
	Dir      string            // directory of a Postgres cluster that is kept; empty: temporary
	Port     int               // of Postgres; 0: a free one
	Bin      string            // folder of the server's programs; empty: the newest installed
	Password string            // of its superuser; empty: a new one
	Settings map[string]string // of Postgres; they override the defaults
	Version  string            // version that sidecars report
	Log      *slog.Logger      // of sidecars; nil: discarded

	Nodes map[string]*pgx.ConnConfig // servers that sidecars may query directly

	// Extend runs after Postgres has started and before the schema is installed; nil: nothing.
	Extend func(ctx context.Context, s *System) error
}

// System is a running Postgres with dpsidecar installed.
type System struct {
	Cluster *localpg.Cluster

	options  Options
	database string
	mu       sync.Mutex // guards stops
	stops    []func()
}

// Start starts Postgres, installs the schema and creates the login roles. Serve starts sidecars. Everything
// ends with Stop, and with this process.
//
// Errors: those of localpg.Start and install.Run.
func Start(ctx context.Context, o Options) (*System, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	cluster, err := localpg.Start(ctx, localpg.Options{Dir: o.Dir, Port: o.Port, Bin: o.Bin, Password: o.Password, Settings: o.Settings})
	if err != nil {
		return nil, err
	}
	s := &System{Cluster: cluster, options: o, database: Database}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *System) prepare(ctx context.Context) error {
	if err := s.createDatabase(ctx); err != nil {
		return err
	}
	if s.options.Extend != nil {
		if err := s.options.Extend(ctx, s); err != nil {
			return err
		}
	}
	admin, err := pgx.ParseConfig(s.SuperuserURL())
	if err != nil {
		return err
	}
	_, err = install.Run(ctx, install.Config{
		Admin:           admin,
		LoopbackHost:    s.Cluster.Host(),
		LoopbackPort:    uint16(s.Cluster.Port()),
		SidecarPassword: s.password("dp_sidecar"),
	})
	if err != nil {
		return err
	}
	return errors.Join(s.Login(ctx, "steward", "dp_admin"), s.Login(ctx, "analyst", "dp_analyst"))
}

// createDatabase creates the database unless a kept cluster has it already.
func (s *System) createDatabase(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.Cluster.SuperuserURL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var there bool
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, Database).Scan(&there); err != nil || there {
		return err
	}
	_, err = conn.Exec(ctx, `CREATE DATABASE `+Database)
	return err
}

// Login creates a login role for a person, as a member of role, unless it exists. URL returns its
// connection string.
func (s *System) Login(ctx context.Context, person, role string) error {
	conn, err := pgx.Connect(ctx, s.SuperuserURL())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var there bool
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)`, person).Scan(&there); err != nil {
		return err
	}
	if !there {
		if _, err := conn.Exec(ctx, `CREATE ROLE `+pgx.Identifier{person}.Sanitize()+` LOGIN IN ROLE `+pgx.Identifier{role}.Sanitize()); err != nil {
			return err
		}
	}
	return install.SetPassword(ctx, conn, person, s.password(person))
}

// password derives a role's password from the superuser's, so that the URLs of
// a kept cluster stay the same.
func (s *System) password(role string) string {
	h := hmac.New(sha256.New, []byte(s.Cluster.Password()))
	h.Write([]byte(role)) // does not return an error
	return base32.StdEncoding.EncodeToString(h.Sum(nil)[:20])
}

// URL returns the connection string of a role that was created here: a person, or dp_sidecar.
func (s *System) URL(role string) string { return s.Cluster.URL(role, s.password(role), s.database) }

// SuperuserURL returns the superuser's connection string for the system's database.
func (s *System) SuperuserURL() string { return s.Cluster.SuperuserURL(s.database) }

// StewardURL returns the connection string of the login role steward, a member of dp_admin.
func (s *System) StewardURL() string { return s.URL("steward") }

// AnalystURL returns the connection string of the login role analyst, a member of dp_analyst.
func (s *System) AnalystURL() string { return s.URL("analyst") }

// In returns a System for another database of the same cluster. The caller installs dpsidecar in it.
// Sidecars that the returned System starts use that database.
func (s *System) In(database string) *System {
	return &System{Cluster: s.Cluster, options: s.options, database: database}
}

// Serve starts a sidecar in this process and waits until the database has its heartbeat. It runs until the
// returned function or Stop is called.
func (s *System) Serve(ctx context.Context) (stop func(), err error) {
	config, err := pgxpool.ParseConfig(s.URL("dp_sidecar"))
	if err != nil {
		return nil, err
	}
	before, err := s.alive(ctx)
	if err != nil {
		return nil, err
	}
	sidecar := job.New(job.Config{Database: config, Schema: sql.Current(), Version: s.options.Version, Log: s.options.Log, Grace: grace, Nodes: s.options.Nodes})
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() {
		err := sidecar.Run(running)
		if err != nil {
			s.options.Log.Error("the sidecar has ended", "error", err)
		}
		ended <- err
	}()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	s.mu.Lock()
	s.stops = append(s.stops, stop)
	s.mu.Unlock()
	if err := s.await(ctx, before+1); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// alive returns the number of sidecars that the database takes to be alive.
func (s *System) alive(ctx context.Context) (n int, err error) {
	conn, err := pgx.Connect(ctx, s.SuperuserURL())
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	return n, conn.QueryRow(ctx, `SELECT dp_int.sidecars_alive()`).Scan(&n)
}

func (s *System) await(ctx context.Context, sidecars int) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	for {
		n, err := s.alive(ctx)
		if err != nil {
			return fmt.Errorf("sidecar does not connect: %w", err)
		}
		if n >= sidecars {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("sidecar does not connect: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop ends the sidecars, then Postgres, and removes a temporary cluster.
func (s *System) Stop() error {
	s.mu.Lock()
	stops := s.stops
	s.stops = nil
	s.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
	return s.Cluster.Stop()
}
