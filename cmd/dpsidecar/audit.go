package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"dpsidecar/internal/audit"
)

func setupAudit(fs *flag.FlagSet) action {
	method := fs.String("method", "", "audit this `METHOD` alone, by its name in SQL")
	runs := fs.Int("runs", 20_000, "run each mechanism `N` times, slow ones less")
	picture := fs.String("plot", "", "draw bounds and claims into this PNG `FILE`")
	return func(ctx context.Context, c console, _ []string) error {
		if *runs < 6 {
			return fmt.Errorf("%w: audit needs at least 6 --runs", errUsage)
		}
		results, err := audit.Audit(ctx, c.out, *method, *runs)
		if errors.Is(err, audit.ErrUnknown) {
			return fmt.Errorf("%w: %w", errUsage, err)
		}
		if *picture != "" && len(results) > 0 {
			err = errors.Join(err, audit.Plot(*picture, "What mechanisms promise, and what an audit shows them to cost at least", results))
		}
		return err
	}
}
