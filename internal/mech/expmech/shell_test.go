package expmech

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// boxAround returns a random box that holds z = 0, often with 0 near a corner.
func boxAround(rng *rand.Rand, d int) []place {
	size := math.Exp(4 * rng.Float64())
	places := make([]place, d)
	for j := range places {
		low, high := size*rng.Float64(), size*rng.Float64()
		places[j] = place{middle: (high - low) / 2, half: (high + low) / 2}
	}
	return places
}

// psiAt returns the sum of psi over rows at z.
func psiAt(s *sampler, rows []int32, z []float64) (sum float64) {
	for _, i := range rows {
		row := s.view.row(i)
		r := row[0]
		for j, v := range z {
			r -= row[1+j] * v
		}
		sum += s.psi.at(math.Abs(r))
	}
	return sum
}

// shellExcess returns how far, at random points of random boxes, the bound that shell gives for
// what is beyond a cube lies above the sum of psi, and for how many cubes: without one,
// nothing was tried. least is taken as low as shell accepts it, or up to high times that.
func shellExcess(rng *rand.Rand, trials int, mutate func(*sampler)) (excess float64, cubes int) {
	const points = 300
	for range trials {
		s, plain := fenceProblem(rng)
		mutate(s)
		places := boxAround(rng, s.target.d)
		level := s.atMode(plain)
		least := level + 2*float64(s.target.n)*s.rowSlack() + [...]float64{0, 0.01, 0.3}[rng.IntN(3)]*(float64(len(plain))*s.psi.top-level)
		q := s.shell(places, plain, least)
		if math.IsInf(q, 1) {
			continue
		}
		cubes++
		whole := &cell{places: places}
		for range points {
			z := within(rng, whole)
			reach := 0.0
			for _, v := range z {
				reach = max(reach, math.Abs(v))
			}
			if reach < q { // move it to where the cube ends, if that is in the box
				for j := range z {
					z[j] *= q / reach
				}
			}
			if inBox(places, z) {
				excess = max(excess, least-psiAt(s, plain, z))
			}
		}
	}
	return excess, cubes
}

func inBox(places []place, z []float64) bool {
	for j, p := range places {
		if math.Abs(z[j]-p.middle) > p.half {
			return false
		}
	}
	return true
}

// Wherever shell says that the rows score at least so much beyond a cube, they do.
func TestShellsBoundWhatIsBeyond(t *testing.T) {
	excess, cubes := shellExcess(rand.New(rand.NewPCG(41, 1)), 1500, func(*sampler) {})
	if excess > 1e-9 {
		t.Errorf("a bound is %g above the sum of scores", excess)
	}
	if cubes < 100 {
		t.Errorf("%d cubes: the test says little", cubes)
	}
	// a mutant: C above psi
	excess, _ = shellExcess(rand.New(rand.NewPCG(41, 1)), 1500, func(s *sampler) {
		chords := append([]float64(nil), s.psi.chords...)
		for i := range chords {
			chords[i] *= 1.1
		}
		steep := *s.psi
		steep.chords, steep.top = chords, s.psi.top*1.1
		steeper := *s.score.target
		steeper.psi = &steep
		s.score.target = &steeper
	})
	if excess < 1e-3 {
		t.Errorf("scores a tenth too large: a bound is only %g above the sum", excess)
	}
}

// Convexity says nothing where C may be larger at 0 than on the surface: shell then has no cube.
func TestShellsWantNoLessThanTheScoreAtZero(t *testing.T) {
	rng := rand.New(rand.NewPCG(43, 1))
	cubes := 0
	for range 500 {
		s, plain := fenceProblem(rng)
		places, level := boxAround(rng, s.target.d), s.atMode(plain)
		for _, below := range []float64{1, 0.99, rng.Float64()} {
			if q := s.shell(places, plain, below*level); !math.IsInf(q, 1) {
				t.Fatalf("a cube of %g for %g of the score at 0", q, below)
			}
		}
		if !math.IsInf(s.shell(places, plain, level+2*float64(s.target.n)*s.rowSlack()), 1) {
			cubes++
		}
	}
	if cubes < 30 {
		t.Errorf("%d cubes for the score at 0 itself: the test says little", cubes)
	}
}

// Every point of a cube's surface that lies in the box is on one of the faces.
func TestFacesAreTheSurfaceWithinTheBox(t *testing.T) {
	rng := rand.New(rand.NewPCG(44, 1))
	points := 0
	for range 2000 {
		box := boxAround(rng, 1+rng.IntN(4))
		q := widest(box) * math.Exp2(2-6*rng.Float64())
		faces := facesWithin(box, q)
		for range 20 {
			z := make([]float64, len(box))
			for j := range z {
				z[j] = q * [...]float64{-1, 1, 2*rng.Float64() - 1, 2*rng.Float64() - 1}[rng.IntN(4)]
			}
			axis := rng.IntN(len(z))
			z[axis] = math.Copysign(q, z[axis])
			if !inBox(box, z) {
				continue
			}
			points++
			if !slices.ContainsFunc(faces, func(c *cell) bool { return inBox(c.places, z) }) {
				t.Fatalf("%v is on the cube of %g in %v, and on none of %d faces", z, q, box, len(faces))
			}
		}
	}
	if points < 5000 {
		t.Errorf("%d points: the test says little", points)
	}
}

// The plane that a hull has on a part of its box is below the sum of psi there, and so is what
// convexity makes of two points.
func TestHullsAreConvexAndBelowTheScores(t *testing.T) {
	rng := rand.New(rand.NewPCG(42, 1))
	for trial := range 2000 {
		s, plain := fenceProblem(rng)
		places := boxAround(rng, s.target.d)
		h := s.newHull(places, plain)
		part := &cell{places: append([]place(nil), places...), model: unitModel(s.target.d)}
		for range rng.IntN(6) {
			halves := part.halves()
			part = halves[rng.IntN(len(halves))]
		}
		for range 3 {
			s.survey(part, h)
			for range 30 {
				z := within(rng, part)
				bound := part.plane.f
				for j, v := range z {
					bound += part.plane.g[j] * (v - part.plane.middle[j])
				}
				if c := hullAt(h, z); bound > c+1e-9*float64(len(plain)) {
					t.Fatalf("trial %d: a plane is %g above C", trial, bound-c)
				}
				if sum := psiAt(s, plain, z); hullAt(h, z) > sum+1e-9*float64(len(plain)) {
					t.Fatalf("trial %d: C is %g above the sum of scores", trial, hullAt(h, z)-sum)
				}
			}
		}
	}
}

// hullAt returns C(z).
func hullAt(h *hull, z []float64) float64 {
	sum := h.lines.f
	for j, v := range z {
		sum += h.lines.g[j] * (v - h.lines.middle[j])
	}
	for n, i := range h.rows {
		row := h.view.row(i)
		r := row[0]
		for j, v := range z {
			r -= row[1+j] * v
		}
		sum += max(h.up[n]*r, -h.down[n]*r)
	}
	return sum
}
