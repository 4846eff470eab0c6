package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"

	"dpsidecar/internal/dpsco/privacy"
)

func setupAccount(fs *flag.FlagSet) action {
	delta := fs.Float64("delta", math.NaN(), "report the epsilon at this `DELTA`; required")
	calibrate := fs.Bool("calibrate", false, "print the smallest noise multiplier for those that the history leaves out")
	epsilon := fs.Float64("epsilon", math.NaN(), "calibrate for this `EPSILON`")
	return func(ctx context.Context, c console, _ []string) error {
		if !(*delta >= 0 && *delta <= 1) {
			return fmt.Errorf("%w: account needs --delta from 0 to 1", errUsage)
		}
		if *calibrate == math.IsNaN(*epsilon) {
			return fmt.Errorf("%w: --calibrate and --epsilon belong together", errUsage)
		}
		var best privacy.Best
		evaluate := func(history []byte) (float64, error) { return reportEpsilon(&best, history, *delta) }
		if *calibrate {
			budget := privacy.Budget{Epsilon: *epsilon, Delta: *delta}
			evaluate = func(history []byte) (float64, error) { return calibrateNoise(&best, history, budget) }
		}
		return eachLine(ctx, os.Stdin, c.out, evaluate)
	}
}

func reportEpsilon(a privacy.Accountant, history []byte, delta float64) (float64, error) {
	e, err := privacy.UnmarshalHistory(history)
	if err != nil {
		return 0, err
	}
	return a.Epsilon(e, delta)
}

func calibrateNoise(a privacy.Accountant, history []byte, b privacy.Budget) (float64, error) {
	template, err := privacy.UnmarshalTemplate(history)
	if err != nil {
		return 0, err
	}
	return privacy.Calibrate(a, b, template)
}

// eachLine prints the value of each line that is not blank, and stops at the
// first that has none, with an error that names it.
func eachLine(ctx context.Context, r io.Reader, w io.Writer, value func([]byte) (float64, error)) (err error) {
	in, out := bufio.NewReader(r), bufio.NewWriter(w)
	defer func() { err = errors.Join(err, out.Flush()) }()
	for number := 1; ctx.Err() == nil; number++ {
		line, readErr := in.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			v, err := value(line)
			if err != nil {
				return fmt.Errorf("line %d: %w", number, err)
			}
			if _, err := fmt.Fprintln(out, strconv.FormatFloat(v, 'g', -1, 64)); err != nil {
				return err
			}
		}
		if errors.Is(readErr, io.EOF) {
			return nil
		} else if readErr != nil {
			return readErr
		}
	}
	return ctx.Err()
}
