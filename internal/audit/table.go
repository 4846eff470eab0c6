package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"dpsidecar/internal/mech"
)

// ErrRefuted reports that a mechanism's claim is false.
var ErrRefuted = errors.New("audit: a claim is refuted")

// Audit plays every game, or those of one mechanism, and writes a line for each as it ends. It returns the
// results of the games.
//
// Errors: ErrRefuted, after all games; ErrUnknown for a mechanism without a game; the context's.
func Audit(ctx context.Context, w io.Writer, method string, runs int) ([]Result, error) {
	games, err := Games()
	if err != nil {
		return nil, err
	}
	finite, err := FiniteMechanisms()
	if err != nil {
		return nil, err
	}
	if err := known(method, games, finite); err != nil {
		return nil, err
	}
	falseAlarm := FalseAlarm / float64(len(games)+len(finite))
	fmt.Fprintf(w, "%-22s %7s %7s %7s  %-8s %7s  %s\n", "mechanism", "epsilon", "delta", "at least", "", "runs", "neighbours")
	var results []Result
	refuted := false
	for _, g := range games {
		if method != "" && method != g.Name {
			continue
		}
		r, err := g.Run(ctx, runs, falseAlarm, mech.NewSource)
		if err != nil {
			return nil, err
		}
		results, refuted = append(results, r), refuted || r.Refuted()
		fmt.Fprintf(w, "%-22s %7.3f %7.3g %8.3f  %-8s %7d  %s\n", g.Name, g.Claim.Epsilon, g.Claim.Delta, r.Lower, verdict(r.Refuted()), r.Runs, g.Pair)
	}
	for _, m := range finite {
		if method != "" && method != m.Name {
			continue
		}
		r, err := m.Run(ctx, runs, mech.NewSource())
		if err != nil {
			return nil, err
		}
		refuted = refuted || r.Refuted(falseAlarm)
		fmt.Fprintf(w, "%-22s %7.3f %7.3g %8.3f  %-8s %7d  exactly; %s; draws fit with p = %.2g\n", m.Name, m.Claim.Epsilon, m.Claim.Delta, r.Epsilon, verdict(r.Refuted(falseAlarm)), r.Runs, m.Pair, r.PValue)
	}
	fmt.Fprintf(w, "Each bound holds with confidence 1 - %.1g: if all claims are true, one is refuted with probability %.0g at most.\n", falseAlarm, FalseAlarm)
	if refuted {
		return results, ErrRefuted
	}
	return results, nil
}

// known refuses a method without a game, and names those that have one; empty stands for all.
func known(method string, games []Game, finite []FiniteMechanism) error {
	var names []string
	for _, g := range games {
		names = append(names, g.Name)
	}
	for _, m := range finite {
		names = append(names, m.Name)
	}
	if method == "" || slices.Contains(names, method) {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("%w %q; there are games for %s", ErrUnknown, method, strings.Join(slices.Compact(names), ", "))
}

// ErrUnknown reports that there is no game for a mechanism.
var ErrUnknown = errors.New("audit: there is no game for")

func verdict(refuted bool) string {
	if refuted {
		return "REFUTED"
	}
	return "holds"
}
