package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"dpsidecar/internal/experiment"
)

func setupExperiments(fs *flag.FlagSet) action {
	out := fs.String("out", "experiments", "write tables and plots into `DIR`")
	data := fs.String("data", "", "read the real tables from `DIR`; else what needs them is left out")
	only := fs.String("only", "", "run the figures whose names begin with `NAME`")
	draws := fs.Int("draws", 0, "average `N` draws; else 5, with --full 20")
	full := fs.Bool("full", false, "tables as large as the papers' in all figures, not only in those named papers-: hours instead of half an hour")
	return func(ctx context.Context, c console, _ []string) error {
		if *draws < 0 {
			return fmt.Errorf("%w: --draws must not be negative", errUsage)
		}
		err := experiment.Run(ctx, experiment.Config{Out: *out, Data: *data, Only: *only, Draws: *draws, Full: *full}, c.out)
		if errors.Is(err, experiment.ErrUnknown) {
			return fmt.Errorf("%w: %w", errUsage, err)
		}
		return err
	}
}
