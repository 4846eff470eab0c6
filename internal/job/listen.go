package job

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// listen maintains the session by which the database knows that this sidecar is alive: it sends heartbeats,
// and wakes workers on notifications. It reconnects until ctx ends; a permanent error ends it, and cancels the
// sidecar.
func (s *Sidecar) listen(ctx context.Context, cancel context.CancelCauseFunc) {
	for failures := 0; ctx.Err() == nil; failures++ {
		started := time.Now()
		err := s.session(ctx)
		s.listening.Store(false)
		if permanent(err) {
			s.log.Error("cannot serve any more", "error", err)
			cancel(err)
			return
		}
		if ctx.Err() != nil {
			return
		}
		if time.Since(started) > time.Minute {
			failures = 0
		}
		delay := backoff(failures)
		message := "no connection to the database"
		says := []any{"host", s.listener.Host, "port", s.listener.Port, "database", s.listener.Database, "user", s.listener.User,
			"error", err, "retry_in", delay}
		if pg := new(pgconn.PgError); errors.As(err, &pg) && pg.Code == "DP003" {
			message, says = "the database takes no sidecar", append(says, "hint", pg.Hint)
		}
		s.log.Warn(message, says...)
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
	}
}

// session runs one connection of listen from connecting to its loss. It wakes one worker at the start,
// since notifications may have been missed.
func (s *Sidecar) session(ctx context.Context) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer closeConn(context.WithoutCancel(ctx), conn)
	s.listening.Store(true)
	s.log.Info("connected", "worker", s.id, "database", s.listener.Database)
	signal(s.registered)
	signal(s.queued)
	signal(s.inquired)
	for next := time.Now().Add(heartbeat); ; {
		n, err := waitUntil(ctx, conn, next)
		switch {
		case err == nil && n.Payload == "registered":
			signal(s.registered)
		case err == nil && n.Payload == "inquiry":
			signal(s.inquired)
		case err == nil:
			signal(s.queued)
		case ctx.Err() != nil || conn.IsClosed():
			return err
		default: // the deadline has passed: send a heartbeat
			if err := s.beat(ctx, conn); err != nil {
				return err
			}
			next = time.Now().Add(heartbeat)
		}
	}
}

// connect opens the session that listens, and sends its first heartbeat.
func (s *Sidecar) connect(ctx context.Context) (conn *pgx.Conn, err error) {
	limited, done := context.WithTimeout(ctx, statementTimeout)
	defer done()
	if conn, err = pgx.ConnectConfig(limited, s.listener); err != nil {
		return nil, accessError(err)
	}
	if err = checkRole(limited, conn); err == nil {
		_, err = conn.Exec(limited, "LISTEN dp_jobs")
	}
	if err == nil {
		err = s.beat(ctx, conn)
	}
	if err != nil {
		closeConn(context.WithoutCancel(ctx), conn)
		return nil, err
	}
	return conn, nil
}

// closeConn closes a connection that may not answer; it waits at most a second.
func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, done := context.WithTimeout(ctx, time.Second)
	defer done()
	conn.Close(ctx)
}

// beat checks that the schema has not changed, and sends a heartbeat.
func (s *Sidecar) beat(ctx context.Context, conn *pgx.Conn) error {
	ctx, done := context.WithTimeout(ctx, statementTimeout)
	defer done()
	if err := s.checkSchema(ctx, conn); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, "SELECT dp_int.worker_beat($1, $2, $3)", s.id, conn.PgConn().PID(), s.config.Version)
	if err == nil {
		s.lastBeat.Store(time.Now().UnixNano())
	}
	return err
}

// waitUntil waits for a notification; it returns an error at the deadline.
func waitUntil(ctx context.Context, conn *pgx.Conn, deadline time.Time) (*pgconn.Notification, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	return conn.WaitForNotification(ctx)
}

// level returns the level at which workers log failed statements. While the database cannot be reached
// listen logs that as a warning, and the workers' errors are logged at debug level.
func (s *Sidecar) level() slog.Level {
	if s.listening.Load() {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// signal sends without blocking; it does nothing if the channel is full.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// backoff returns the time to wait after the given number of failures: 0.1 s, doubled with each failure up
// to 5 s, with jitter.
func backoff(failures int) time.Duration {
	return jitter(min(100*time.Millisecond<<min(failures, 10), 5*time.Second))
}

// jitter returns a random duration between d/2 and d, so that sidecars do not act in step.
func jitter(d time.Duration) time.Duration {
	var b [1]byte
	rand.Read(b[:])
	return d/2 + d/2*time.Duration(b[0])/255
}
