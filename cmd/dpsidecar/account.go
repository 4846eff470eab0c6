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

	"dpsidecar/internal/privacy"
)

const accountManual = `A history is what was done to one table:

  {"events": [EVENT, ...]}

and an EVENT one of

  {"gaussian": {"noise_multiplier": 2}}       noise of twice the sensitivity
  {"pure": {"epsilon": 0.1}}
  {"bounded_range": {"epsilon": 0.1}}         for instance an exponential mechanism
  {"zcdp": {"rho": 0.01}}
  {"approx": {"epsilon": 0.1, "delta": 1e-7}}
  {"repeat": {"count": 10, "event": EVENT}}
  {"sampled": {"rate": 0.1, "event": EVENT}}  on a fresh random subset of this share
  {"parallel": {"event": EVENT}}              on each of several disjoint random parts
  {"only": {"event": {"gaussian": {"noise_multiplier": 2}}}}  normal noise, the first charge of an account
  {"compose": [EVENT, ...]}

What ten steps of noise 2 on batches of a tenth cost, and then the least noise
that fits a budget of epsilon = 1:

  echo '{"events": [{"repeat": {"count": 10, "event": {"sampled": {"rate": 0.1, "event": {"gaussian": {"noise_multiplier": 2}}}}}}]}' |
    dpsidecar account --delta 1e-5
  echo '{"events": [{"repeat": {"count": 10, "event": {"gaussian": {}}}}]}' |
    dpsidecar account --delta 1e-5 --epsilon 1 --calibrate
`

// numberFlagValue is the value of a number flag: NaN until it is set.
type numberFlagValue float64

func (n *numberFlagValue) Set(text string) error {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return errors.New("want a number")
	}
	*n = numberFlagValue(v)
	return nil
}

func (n *numberFlagValue) String() string {
	if n == nil || math.IsNaN(float64(*n)) {
		return ""
	}
	return strconv.FormatFloat(float64(*n), 'g', -1, 64)
}

func numberFlag(fs *flag.FlagSet, name, usage string) *float64 {
	v := math.NaN()
	fs.Var((*numberFlagValue)(&v), name, usage)
	return &v
}

func setupAccount(fs *flag.FlagSet) action {
	delta := numberFlag(fs, "delta", "report the epsilon at this `DELTA`; required")
	calibrate := fs.Bool("calibrate", false, "print the smallest noise_multiplier for each gaussian of a history that leaves it out")
	epsilon := numberFlag(fs, "epsilon", "calibrate for this `EPSILON`")
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

// eachLine prints the value of each line that is not blank. It stops at the first line without a value,
// with an error that names the line.
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
