// Package hook is what package mechtest may know of package mech and nobody else
// can: the compiler lets only packages below mech import it.
package hook

import (
	"io"
	"math"
	"math/big"
	"slices"
)

// Source is what a mech.Source is made of: where randomness comes from, and who
// is told of releases.
type Source struct {
	Reader   io.Reader
	Observer Observer
}

// Observer is told of every release, before and after it.
type Observer interface {
	// Begin notes what a mechanism is about to hide, and the contract that one
	// record was held to. It returns where the noise is to be drawn from.
	Begin(mechanism, contract any, hidden Statistic) (noise io.Reader)
	// End notes what was released, and may change it.
	End(released []float64)
}

// Statistic is what a mechanism hides.
type Statistic interface {
	Clone() Statistic
	// Share returns how far it is from that of a neighbour, over what the noise
	// is scaled to hide; above 1 exactly when it is too far.
	Share(neighbour Statistic) float64
}

// Totals are sums in grid steps whose squared l2 distance is bounded. Entry k
// counts Weight(k) times.
type Totals struct {
	Steps        []int64
	SquaredBound *big.Int
	Weight       func(k int) int64
}

// Once is the weight of entries that count once.
func Once(int) int64 { return 1 }

// Clone implements Statistic.
func (v Totals) Clone() Statistic {
	v.Steps = slices.Clone(v.Steps)
	return v
}

// Share implements Statistic.
func (v Totals) Share(neighbour Statistic) float64 {
	square := new(big.Int)
	for k, total := range neighbour.(Totals).Steps {
		gap := new(big.Int).Sub(big.NewInt(total), big.NewInt(v.Steps[k]))
		square.Add(square, gap.Mul(gap, gap).Mul(gap, big.NewInt(v.Weight(k))))
	}
	share, _ := new(big.Rat).SetFrac(square, v.SquaredBound).Float64()
	if square.Cmp(v.SquaredBound) > 0 {
		return 1 + share
	}
	return min(1, math.Sqrt(share))
}

// Absolutes are sums in grid steps whose l1 distance is bounded.
type Absolutes struct {
	Steps []int64
	Bound *big.Int
}

// Clone implements Statistic.
func (v Absolutes) Clone() Statistic {
	v.Steps = slices.Clone(v.Steps)
	return v
}

// Share implements Statistic.
func (v Absolutes) Share(neighbour Statistic) float64 {
	sum := new(big.Int)
	for k, total := range neighbour.(Absolutes).Steps {
		gap := new(big.Int).Sub(big.NewInt(total), big.NewInt(v.Steps[k]))
		sum.Add(sum, gap.Abs(gap))
	}
	share, _ := new(big.Rat).SetFrac(sum, v.Bound).Float64()
	if sum.Cmp(v.Bound) > 0 {
		return 1 + share
	}
	return share
}

// Smooth is a point with a smooth bound on how far one record moves it.
type Smooth struct {
	Point             []float64
	Bound, Smoothness float64
}

// Clone implements Statistic.
func (v Smooth) Clone() Statistic {
	v.Point = slices.Clone(v.Point)
	return v
}

// Share implements Statistic.
func (v Smooth) Share(neighbour Statistic) float64 {
	w, square := neighbour.(Smooth), 0.0
	for j := range v.Point {
		square += (v.Point[j] - w.Point[j]) * (v.Point[j] - w.Point[j])
	}
	return max(math.Sqrt(square)/min(v.Bound, w.Bound), math.Abs(math.Log(v.Bound/w.Bound))/v.Smoothness)
}

// Chosen is one of some points, of which one record moves at most one.
type Chosen struct {
	Points [][]int64
	Smooth
}

// Clone implements Statistic.
func (v Chosen) Clone() Statistic {
	points := make([][]int64, len(v.Points))
	for i, p := range v.Points {
		points[i] = slices.Clone(p)
	}
	return Chosen{points, v.Smooth.Clone().(Smooth)}
}

// Share implements Statistic: it is above 1 also when several points were moved.
func (v Chosen) Share(neighbour Statistic) float64 {
	w := neighbour.(Chosen)
	if moved := v.Moved(w); moved > 1 {
		return float64(moved)
	}
	return v.Smooth.Share(w.Smooth)
}

// Moved returns how many points differ.
func (v Chosen) Moved(w Chosen) (count int) {
	for i, p := range v.Points {
		if !slices.Equal(p, w.Points[i]) {
			count++
		}
	}
	return count
}

// Viewer is shown the integers of a mech.Bounded, and the square of how far one
// record moves them in l2.
type Viewer func(totals []int64, squaredSensitivity *big.Int)
