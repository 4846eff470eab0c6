package localpg

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"testing"

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
