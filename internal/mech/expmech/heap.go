package expmech

import (
	"math"

	"dpsidecar/internal/mech"
)

// boxHeap holds the boxes of an envelope. Box b is drawn with probability proportional to the integer
// weight(b), its mass times exp(level) rounded up. The heaviest box that can be split is found in constant
// time.
type boxHeap struct {
	boxes  []*box
	most   int // largest number of boxes
	level  float64
	leaves int      // a power of two, at least len(boxes)
	sum    []uint64 // sums of weights of a binary heap's subtrees
	top    []int32  // the box of the largest priority in the subtree, -1 for none
}

const (
	fullWeight = 40 // log2 of the heaviest weight when a level is chosen
	maxWeight  = 42 // log2 of a weight above which a new level is chosen
	minSum     = 32 // log2 of a sum of weights below which a new level is chosen
	maxBoxes   = 1 << 20
	minBoxes   = 1 << 10
	allMemory  = 4 << 30
)

// limits divides the memory of a draw: half is for the garbage collector, a quarter for boxes, a quarter
// for the rows in their lists.
func (p Params) limits(d int) (boxes int, rows int64) {
	quarter := p.Memory / 4
	if quarter == 0 {
		quarter = allMemory / 4
	}
	return int(max(minBoxes, min(quarter/int64(600+20*d*d), maxBoxes))), quarter / 4
}

// weight returns the integer weight of a box at the boxHeap's level: above its mass by more than a factor
// of 1 + 2^-30, which covers all rounding in the digits of a proposal.
func (f *boxHeap) weight(b *box) uint64 {
	return uint64(math.Exp(b.logMass+f.level)*(1+0x1p-30)) + 1
}

// heaviest returns the index of the box to split next, or -1.
func (f *boxHeap) heaviest() int { return int(f.top[1]) }

// full reports whether the number of boxes has reached its limit. Only the running time depends on it.
func (f *boxHeap) full() bool { return len(f.boxes) >= f.most }

// logSum returns the logarithm of the envelope's total mass.
func (f *boxHeap) logSum() float64 { return math.Log(float64(f.sum[1])) - f.level }

// pick draws a box.
func (f *boxHeap) pick(src *mech.Source) *box {
	u, node := src.Uint64n(f.sum[1]), 1
	for node < f.leaves {
		node *= 2
		if u >= f.sum[node] {
			u -= f.sum[node]
			node++
		}
	}
	return f.boxes[node-f.leaves]
}

// take removes box i.
func (f *boxHeap) take(i int) *box {
	b, last := f.boxes[i], len(f.boxes)-1
	f.boxes[i] = f.boxes[last]
	f.boxes[last] = nil
	f.boxes = f.boxes[:last]
	f.update(last)
	f.update(i)
	return b
}

// add puts boxes in.
func (f *boxHeap) add(boxes ...*box) {
	f.boxes = append(f.boxes, boxes...)
	heaviest := math.Inf(-1)
	for _, b := range boxes {
		heaviest = max(heaviest, b.logMass)
	}
	if len(f.boxes) > f.leaves || heaviest+f.level > maxWeight*math.Ln2 {
		f.rebuild()
		return
	}
	for i := range boxes {
		f.update(len(f.boxes) - 1 - i)
	}
	if f.sum[1] < 1<<minSum {
		f.rebuild()
	}
}

// rebuild chooses a new level from the heaviest box, and rebuilds the heap.
func (f *boxHeap) rebuild() {
	most := math.Inf(-1)
	for _, b := range f.boxes {
		most = max(most, b.logMass)
	}
	f.level = fullWeight*math.Ln2 - most
	for f.leaves = 1; f.leaves < 2*len(f.boxes); {
		f.leaves *= 2
	}
	f.sum, f.top = make([]uint64, 2*f.leaves), make([]int32, 2*f.leaves)
	for i := range f.leaves {
		f.leaf(i)
	}
	for node := f.leaves - 1; node >= 1; node-- {
		f.join(node)
	}
}

// update updates the heap after a change or removal of box i.
func (f *boxHeap) update(i int) {
	f.leaf(i)
	for node := (f.leaves + i) / 2; node >= 1; node /= 2 {
		f.join(node)
	}
}

func (f *boxHeap) leaf(i int) {
	node := f.leaves + i
	f.sum[node], f.top[node] = 0, -1
	if i < len(f.boxes) {
		f.sum[node] = f.weight(f.boxes[i])
		if f.boxes[i].axis >= 0 {
			f.top[node] = int32(i)
		}
	}
}

func (f *boxHeap) join(node int) {
	left, right := 2*node, 2*node+1
	f.sum[node] = f.sum[left] + f.sum[right]
	f.top[node] = f.top[left]
	if a, b := f.top[left], f.top[right]; a < 0 || b >= 0 && f.boxes[b].logMass > f.boxes[a].logMass {
		f.top[node] = b
	}
}
