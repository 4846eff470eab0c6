// Package sql embeds the database side of dpsidecar. Tables are made by numbered migrations. Functions and
// views are not: every installation and upgrade replaces all of them from their files, and records their
// fingerprint in the database.
package sql

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"strconv"
	"strings"
	"sync"
)

// Migrations holds NNN_name.up.sql and NNN_name.down.sql for golang-migrate. Numbers begin at 010: the
// migrations up to 014 make the same tables as version 014 of older releases, without functions and views.
var Migrations = sub(migrations, "migrations")

//go:embed migrations/*.sql
var migrations embed.FS

//go:embed views/*.sql functions/*.sql
var code embed.FS

// Admin is the script for the server's administrator: it grants the installing role the rights that
// CREATEROLE does not include. {{database}} and {{installer}} stand for quoted identifiers.
//
//go:embed admin/admin.sql
var Admin string

// Code returns the catalogue, views and functions, in this order, because functions may take and return
// rows of views. It replaces existing ones.
func Code() string {
	var all strings.Builder
	all.WriteString(catalogueTables())
	for _, pattern := range []string{"views/*.sql", "functions/*.sql"} {
		for _, name := range glob(code, pattern) {
			all.WriteString(read(code, name))
		}
	}
	return all.String()
}

// Schema identifies the schema of a program or of a database: the version of the tables, and the
// fingerprint of functions and views, which distinguishes builds with the same migrations.
type Schema struct {
	Version     int
	Fingerprint string
}

// Current returns the schema of this build.
var Current = sync.OnceValue(func() Schema {
	versions := Versions()
	sum := sha256.Sum256([]byte(Code()))
	return Schema{versions[len(versions)-1], hex.EncodeToString(sum[:6])}
})

// Versions returns the numbers of the migrations, in order.
func Versions() (list []int) {
	for _, name := range glob(Migrations, "*.up.sql") {
		number, _, _ := strings.Cut(name, "_")
		n, err := strconv.Atoi(number)
		if err != nil {
			panic("sql: " + err.Error())
		}
		list = append(list, n)
	}
	return list
}

// The files are part of the program: a missing one is a bug.

func sub(files fs.FS, dir string) fs.FS {
	inner, err := fs.Sub(files, dir)
	if err != nil {
		panic("sql: " + err.Error())
	}
	return inner
}

func glob(files fs.FS, pattern string) []string {
	names, err := fs.Glob(files, pattern)
	if err != nil || len(names) == 0 {
		panic("sql: no " + pattern)
	}
	return names
}

func read(files fs.FS, name string) string {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		panic("sql: " + err.Error())
	}
	return string(text)
}
