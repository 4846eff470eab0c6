//go:build !linux

package arrowio

import "github.com/jackc/pgx/v5"

// Tune does nothing on this system.
func Tune(*pgx.ConnConfig) {}
