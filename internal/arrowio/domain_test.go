package arrowio

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/localpg"
)

// What a pull selects is of no domain, whatever the type under it, so that nobody holds a value against its
// constraints where the rows arrive. tests/citus_test.go has those of others run where a pull selects columns.
func TestNoDomainTravels(t *testing.T) {
	ctx, c := context.Background(), localpg.Postgres(t)
	conn, err := pgx.Connect(ctx, c.SuperuserURL(c.Database(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	kinds := slices.Sorted(maps.Keys(castNames))
	for _, types := range []map[uint32]string{keyTypes, typeNames()} {
		for _, name := range types {
			if castNames[name] == "" {
				t.Errorf("no cast to %s", name)
			}
		}
	}
	for _, kind := range kinds {
		if _, err := conn.Exec(ctx, `CREATE DOMAIN over_it AS `+kind+`; CREATE DOMAIN twice AS over_it; CREATE TABLE of_it (c twice, plain `+kind+`)`); err != nil {
			t.Fatal(err)
		}
		for _, column := range []string{"c", "plain"} {
			var travels string
			if err := conn.QueryRow(ctx, `SELECT pg_typeof(`+underDomain(column, kind)+`) FROM (SELECT) AS one LEFT JOIN of_it ON true`).Scan(&travels); err != nil || travels != kind {
				t.Errorf("%s of %s travels as %s: %v", column, kind, travels, err)
			}
		}
		if _, err := conn.Exec(ctx, `DROP TABLE of_it; DROP DOMAIN over_it CASCADE`); err != nil {
			t.Fatal(err)
		}
	}
	units := Request{Relation: pgx.Identifier{"r"}, Columns: []string{"y"}}
	types := []columnType{supportedTypes[701]}
	if got, want := keyedQuery(units, types, "k", 20), `SELECT "k"::pg_catalog.int8, "y"::pg_catalog.float8 FROM "r"`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// typeNames are the types whose columns can be pulled, categories among them.
func typeNames() map[uint32]string {
	names := map[uint32]string{}
	for oid, t := range supportedTypes {
		names[oid] = t.name
	}
	for oid, k := range categoryKinds {
		names[oid] = k.name
	}
	return names
}
