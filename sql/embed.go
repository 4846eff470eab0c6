// Package sql embeds the database side of dpsidecar: numbered migrations, one
// concern a file, and the script a cloud administrator runs once.
package sql

import "embed"

// Migrations holds NNN_name.up.sql and NNN_name.down.sql for golang-migrate.
//
//go:embed *.sql
var Migrations embed.FS

// Admin is the script for whoever administers the server: it grants the
// installing role what CREATEROLE alone does not give. {{database}} and
// {{installer}} stand for quoted identifiers.
//
//go:embed admin/admin.sql
var Admin string
