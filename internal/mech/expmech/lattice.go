package expmech

import "math"

// shearBits is the resolution of the shear: a step of k_j moves s_j by 2^16.
const shearBits = 16

// lattice gives grid points k integer coordinates along the axes of the posterior,
//
//	s_j = 2^shearBits k_j + sum over m > j of shear[j][m] k_m,
//
// so that a box in s holds, for any k_m with m > j, exactly size_j values of k_j. Boxes therefore partition
// the grid in integers, for any shear. In floating point the same axes are z_j = scale_j (s_j - origin_j).
type lattice struct {
	d      int
	shear  [][]int64 // upper triangular, 2^shearBits on the diagonal
	origin []int64   // s of the centre of the posterior
	scale  []float64 // z per unit of s
	extent []float64 // |z_j - 0| of any point of W is at most extent_j
}

// newLattice makes the lattice whose axes whiten the precision matrix l l', l lower triangular by rows,
// around the grid point centre. The law of a draw does not depend on l; the running time does.
func newLattice(t *target, l [][]float64, centre []int64) *lattice {
	g := &lattice{d: t.d, origin: make([]int64, t.d), scale: make([]float64, t.d), extent: make([]float64, t.d)}
	most := float64(int64(1)<<60) / (float64(t.d) * float64(t.reach+1)) // keeps s within 2^61
	for j := range t.d {
		row := make([]int64, t.d)
		row[j] = 1 << shearBits
		unit := l[j][j]
		if !(unit >= 0x1p-300 && unit <= 0x1p300) { // also if NaN; squares of what is made of it must not leave the range of float64
			unit = 1
		}
		for m := j + 1; m < t.d; m++ {
			if v := l[m][j] / unit * (1 << shearBits); !math.IsNaN(v) {
				row[m] = int64(max(-most, min(most, math.Round(v))))
			}
		}
		g.shear = append(g.shear, row)
		g.scale[j] = unit * t.Pitch / (1 << shearBits)
		sum := 0.0
		for m := j; m < t.d; m++ {
			sum += math.Abs(float64(row[m]))
		}
		g.extent[j] = 2.0001 * sum * float64(t.reach+2) * g.scale[j]
	}
	g.coordinates(g.origin, centre)
	return g
}

// coordinates writes the s of grid point k to s.
func (g *lattice) coordinates(s, k []int64) {
	for j, row := range g.shear {
		s[j] = 0
		for m := j; m < g.d; m++ {
			s[j] += row[m] * k[m]
		}
	}
}

// whitened writes the z of grid point k to z.
func (g *lattice) whitened(z []float64, k []int64) {
	for j, row := range g.shear {
		s := -g.origin[j]
		for m := j; m < g.d; m++ {
			s += row[m] * k[m]
		}
		z[j] = g.scale[j] * float64(s)
	}
}

// point writes to k the grid point at an index of the box at low: index_j counts the values of k_j upwards
// from the lowest, given the later k_m.
func (g *lattice) point(k, low, index []int64) {
	for j := g.d - 1; j >= 0; j-- {
		rest := low[j]
		for m := j + 1; m < g.d; m++ {
			rest -= g.shear[j][m] * k[m]
		}
		k[j] = (rest+1<<shearBits-1)>>shearBits + index[j] // rounded up
	}
}

// root returns low and size of a box that holds all of W.
func (g *lattice) root(t *target) (low, size []int64) {
	low, size = make([]int64, g.d), make([]int64, g.d)
	for j, row := range g.shear {
		one, two := 0.0, 0.0
		for _, v := range row {
			one += math.Abs(float64(v))
			two += float64(v) * float64(v)
		}
		if t.Set == Ball {
			one = math.Sqrt(two)
		}
		// |s_j| <= reach * norm of the row; |k| <= Radius/Pitch < reach+1
		half := int64(one*float64(t.reach+1)*(1+0x1p-40))>>shearBits + 2
		low[j], size[j] = -half<<shearBits, 2*half
	}
	return low, size
}

// span writes the middle and half-width, in z, of a box along every axis to places. Half-widths are rounded
// up. If each later k_m in the shear of an axis has a single value, the points along the axis are known,
// and the interval is as narrow as they are: on a grid that is coarse for the data, most of the mass may be
// on a few values of some k_j.
func (g *lattice) span(places []place, low, size []int64) {
	k := make([]int64, g.d) // valid where known
	known := make([]bool, g.d)
	for j := g.d - 1; j >= 0; j-- {
		first, steps, exact := low[j], size[j], true
		shift := int64(0)
		for m := j + 1; m < g.d; m++ {
			exact = exact && (known[m] || g.shear[j][m] == 0)
			shift += g.shear[j][m] * k[m]
		}
		if exact {
			k[j] = (low[j] - shift + 1<<shearBits - 1) >> shearBits
			first, steps = k[j]<<shearBits+shift, size[j]-1
			known[j] = size[j] == 1
		}
		width := float64(steps) * (1 << (shearBits - 1)) * g.scale[j]
		places[j].middle = g.scale[j]*float64(first-g.origin[j]) + width
		places[j].half = width * (1 + 0x1p-45)
	}
}

// cell returns the z-length of one step of k_j.
func (g *lattice) cell(j int) float64 { return g.scale[j] * (1 << shearBits) }

// misses reports whether a hyperplane proves that no point of W lies in the box: with v = shear' mu, every
// point of W has mu.s = v.k at most the support function of W at v, while mu.s is at least least on the
// box. This holds for any mu.
func (g *lattice) misses(t *target, mu []float64, low, size []int64) bool {
	least, magnitude := 0.0, 0.0
	for j := range g.d {
		half := float64(size[j]) * (1 << (shearBits - 1))
		middle := float64(low[j]) + half
		least += mu[j]*middle - math.Abs(mu[j])*half
		magnitude += math.Abs(mu[j]) * (math.Abs(middle) + half)
	}
	one, two := 0.0, 0.0
	for m := range g.d {
		v := 0.0
		for j := 0; j <= m; j++ {
			v += mu[j] * float64(g.shear[j][m])
			magnitude += math.Abs(mu[j]*float64(g.shear[j][m])) * float64(t.reach+1)
		}
		one += math.Abs(v)
		two += v * v
	}
	if t.Set == Ball {
		one = math.Sqrt(two)
	}
	return least > one*float64(t.reach+1)+0x1p-40*magnitude
}

// outside reports whether a box is proved to miss W; it tries the direction from the centre of W to the
// middle of the box.
func (g *lattice) outside(t *target, low, size []int64) bool {
	k := make([]float64, g.d)
	for j := g.d - 1; j >= 0; j-- {
		k[j] = float64(low[j]) + float64(size[j])*(1<<(shearBits-1))
		for m := j + 1; m < g.d; m++ {
			k[j] -= float64(g.shear[j][m]) * k[m]
		}
		k[j] /= 1 << shearBits
	}
	mu := make([]float64, g.d)
	if t.Set == Ball {
		return g.separates(t, mu, k, low, size)
	}
	for m, v := range k {
		if math.Abs(v) > float64(t.reach) {
			side := make([]float64, g.d)
			side[m] = v
			if g.separates(t, mu, side, low, size) {
				return true
			}
		}
	}
	return false
}

// separates tries the hyperplane normal to v: it solves shear' mu = v.
func (g *lattice) separates(t *target, mu, v []float64, low, size []int64) bool {
	for m := range g.d {
		mu[m] = v[m]
		for j := 0; j < m; j++ {
			mu[m] -= float64(g.shear[j][m]) * mu[j]
		}
		mu[m] /= 1 << shearBits
	}
	return g.misses(t, mu, low, size)
}
