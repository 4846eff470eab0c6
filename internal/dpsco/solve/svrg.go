package solve

import (
	"context"
	"math"

	"dpsidecar/internal/dpsco/prox"
)

// SVRG is proximal gradient descent with variance reduction: an epoch takes the
// gradient of all rows at an anchor once, and its inner steps correct that by
// the mean difference to the anchor over small batches. Epoch s = 1, 2, ... has
// Inner * Growth^s inner steps, and their mean is the next anchor and in the end
// the answer.
//
// With Growth 1 this is SVRG, whose epochs start at their anchor. With Growth 2
// it is SVRG++, whose epochs start where the one before ended.
//
// Differences are clipped to min(2 Norm, Smoothness |x - anchor|), so that the noise
// shrinks with the distance. No difference is longer if Norm and Smoothness are true
// bounds. At distance 0 the difference is known to be 0 and no query is made.
//
// Source: Wang, Ye & Xu 2017, Algorithms 1 and 2; Xiao & Zhang 2014; Allen-Zhu & Yuan 2016. Differs:
// the noise of the anchor's gradient is drawn once an epoch, that of differences every step; batches
// are drawn without replacement; differences are clipped. The paper adds noise to the sum of both
// gradients, which depends on all rows, and claims amplification by sampling for it.
type SVRG struct {
	Epochs, Inner int
	Growth        int // 1: SVRG, 2: SVRG++
	Rate          float64
	Batch         int     // rows of an inner step; 0: all
	Smoothness    float64 // bounds the change of a row gradient by that of w, > 0
	Norm          float64 // clipping norm of row gradients, > 0
}

// The two kinds of queries, by their index in Uses.
const (
	useAnchor = iota
	useInner
)

// Uses declares one query of all rows an epoch and one for every inner step
// that may be away from its anchor: for SVRG all but the first of an epoch, for
// SVRG++ all (2^(Epochs+1) - 2) Inner of them, although the very first step is at its
// anchor and makes no query.
func (s SVRG) Uses() []Use {
	calls, length := 0, s.Inner
	for range s.Epochs {
		length *= s.Growth
		calls += length
	}
	if s.Growth == 1 {
		calls -= s.Epochs
	}
	return []Use{useAnchor: {Calls: s.Epochs}, useInner: {Calls: calls, Batch: s.Batch, Diff: true}}
}

// Solve runs all epochs.
func (s SVRG) Solve(ctx context.Context, w []float64, g Oracle, psi prox.Operator) error {
	x, full := append([]float64(nil), w...), make([]float64, len(w))
	length := s.Inner
	for range s.Epochs {
		if err := ask(ctx, g, full, Query{Use: useAnchor, W: w, Norm: s.Norm}); err != nil {
			return err
		}
		if s.Growth == 1 {
			copy(x, w)
		}
		length *= s.Growth
		if err := s.epoch(ctx, w, x, full, length, g, psi); err != nil {
			return err
		}
	}
	return nil
}

// epoch makes length steps from x. The anchor is w, and full the gradient there. In
// the end x is the last iterate and w the mean of all.
func (s SVRG) epoch(ctx context.Context, w, x, full []float64, length int, g Oracle, psi prox.Operator) error {
	gradient := make([]float64, len(w))
	var inner runningMean
	for k := range length {
		clear(gradient)
		norm := s.differenceNorm(x, w)
		if k == 0 && s.Growth == 1 {
			norm = 0 // x is the anchor, also where it is NaN: Uses has no query for this step
		}
		if norm > 0 {
			if err := ask(ctx, g, gradient, Query{Use: useInner, W: x, Anchor: w, Norm: norm}); err != nil {
				return err
			}
		}
		for j := range gradient {
			gradient[j] += full[j]
		}
		prox.GradientStep(psi, x, gradient, s.Rate)
		inner.add(x)
	}
	copy(w, inner.mean)
	return nil
}

// differenceNorm is the norm that differences are clipped to, 0 at the anchor. It is
// 2 Norm where x has diverged.
func (s SVRG) differenceNorm(x, anchor []float64) float64 {
	distance := 0.0
	for j := range x {
		distance = math.Hypot(distance, x[j]-anchor[j])
	}
	if distance == 0 {
		return 0
	}
	if c := s.Smoothness * distance; c < 2*s.Norm {
		return c
	}
	return 2 * s.Norm
}
