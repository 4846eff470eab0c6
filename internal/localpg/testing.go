package localpg

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// shared is the cluster of this test binary. Its guard ends it with the binary.
var shared = sync.OnceValues(func() (*Cluster, error) {
	return Start(context.Background(), Options{})
})

// Postgres returns the cluster that all tests of a test binary share. The first test that asks starts it,
// and it ends with the binary; no TestMain is needed. Roles are shared too: a test that needs its own roles
// calls Start.
func Postgres(tb testing.TB) *Cluster {
	tb.Helper()
	c, err := shared()
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// Database creates an empty database and returns its name. It is dropped, with
// its connections, when the test ends.
func (c *Cluster) Database(tb testing.TB) string {
	tb.Helper()
	name := "test_" + strings.ToLower(rand.Text()[:12])
	c.Exec(tb, "postgres", "CREATE DATABASE "+name)
	c.Exec(tb, name, "REVOKE CREATE ON SCHEMA public FROM PUBLIC") // as from Postgres 15 on
	tb.Cleanup(func() { c.Exec(tb, "postgres", "DROP DATABASE "+name+" WITH (FORCE)") })
	return name
}

// Exec runs statements as the superuser, each in a transaction of its own.
func (c *Cluster) Exec(tb testing.TB, database string, statements ...string) {
	tb.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, c.SuperuserURL(database))
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			tb.Fatalf("%v\n%s", err, s)
		}
	}
}

// Dir returns the cluster's directory.
func (c *Cluster) Dir() string { return c.dir }

// Resume starts the server again after a Halt, on the same port. After a Kill the first attempts may find
// processes that have not ended yet, or that still hold the port; or another program's outgoing connection
// may use the port for a while.
func (c *Cluster) Resume(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := c.run(ctx)
		if !errors.Is(err, errOrphans) && !errors.Is(err, ErrPortTaken) || ctx.Err() != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// Restart ends the server in the given mode and starts it again on the same port.
func (c *Cluster) Restart(ctx context.Context, mode Mode) error {
	if err := c.Halt(mode); err != nil {
		return err
	}
	return c.Resume(ctx)
}
