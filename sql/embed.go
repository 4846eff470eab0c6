// Package sql embeds the database side of dpsidecar. Tables are made by numbered
// migrations. Functions and views are not: their files are put in place whole, at
// every installation and upgrade, and their fingerprint is noted in the database.
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

// Migrations holds NNN_name.up.sql and NNN_name.down.sql for golang-migrate.
// Numbers begin at 010: what a database of before had at 014 is what they make up
// to there, functions and views aside.
var Migrations = sub(migrations, "migrations")

//go:embed migrations/*.sql
var migrations embed.FS

//go:embed views/*.sql functions/*.sql
var code embed.FS

// Admin is the script for whoever administers the server: it grants the
// installing role what CREATEROLE alone does not give. {{database}} and
// {{installer}} stand for quoted identifiers.
//
//go:embed admin/admin.sql
var Admin string

// Code returns everything that is put in place whole, in order: the catalogue, views,
// and functions, which may take and return rows of views. It replaces what is there.
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

// Schema tells what a program brings to a database, or finds there: the version of
// the tables, and the fingerprint of functions and views, by which two builds differ
// that bring the same migrations.
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

// The file system is part of the program: what is missing there is a bug.

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
