package expmech

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestPsiIsConcaveIncreasingAndCapped(t *testing.T) {
	for _, theta := range []float64{1.05, 1.2, 1.5, 1.9, 2} {
		p := newPsi(theta)
		if got := p.at(1); math.Abs(got-math.Log(theta)) > 1e-14 {
			t.Errorf("theta=%g: psi(1) = %g, want log theta", theta, got)
		}
		if p.quanta(0) != 0 || p.quanta(1) != p.limit || p.quanta(math.NaN()) != p.limit || p.quanta(math.Inf(1)) != p.limit {
			t.Errorf("theta=%g: scores at 0, 1, NaN, Inf", theta)
		}
		const n = 4000
		for i := 1; i < n; i++ {
			u := float64(i) / n
			slope := (p.at(u+1./n) - p.at(u-1./n)) * n / 2
			bend := -(p.at(u+1./n) - 2*p.at(u) + p.at(u-1./n)) * n * n
			if slope < -1e-9 || slope > 1+1e-9 {
				t.Fatalf("theta=%g: slope %g at %g", theta, slope, u)
			}
			if bend < -1e-4 {
				t.Fatalf("theta=%g: convex at %g", theta, u)
			}
			if math.Abs(slope-p.slope(u)) > 1e-3*max(1, p.bend(max(u-1./n, 1e-9), u+1./n)) {
				t.Fatalf("theta=%g: psi'(%g) = %g, differences say %g", theta, u, p.slope(u), slope)
			}
			if most := p.bend(max(u-1./n, 1e-9), u+1./n); bend > most*(1+1e-6)+1e-4 {
				t.Fatalf("theta=%g: |psi''| = %g at %g, bound %g", theta, bend, u, most)
			}
		}
	}
}

func TestChordIsBelowPsi(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, theta := range []float64{1.05, 1.5, 2} {
		p := newPsi(theta)
		for range 20000 {
			u := math.Exp(10 * (rng.Float64() - 0.8))
			v := u * rng.Float64() // psi(v)/v >= psi(u)/u for v < u
			if p.chord(u)*v > p.at(v)*(1+1e-12) {
				t.Fatalf("theta=%g: chord to %g is above psi at %g", theta, u, v)
			}
		}
	}
}

// theta = 2 is the limit of the general formula, psi(u) = -log(1 - u + u^2/2),
// bit for bit with the product u*u for the power.
func TestThetaTwoIsTheSecondMomentLoss(t *testing.T) {
	p := newPsi(2)
	general := newPsi(2)
	general.theta = math.Nextafter(2, 3) // off the special case
	for i := range 1000 {
		u := float64(i) / 1000
		if got, want := p.at(u), -math.Log(1-u+u*u/2); got != want {
			t.Fatalf("psi(%g) = %g, want %g", u, got, want)
		}
		if got, want := p.at(u), general.at(u); math.Abs(got-want) > 1e-14 {
			t.Fatalf("psi(%g) = %g, general formula %g", u, got, want)
		}
	}
}

func TestValidateSeesOnlyPublicFacts(t *testing.T) {
	good := Params{Epsilon: 1, Theta: 2, Iota: 0.1, Radius: 10, Pitch: 0.01}
	if err := good.Validate(1000, 4); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Params){
		"epsilon 0":    func(p *Params) { p.Epsilon = 0 },
		"epsilon NaN":  func(p *Params) { p.Epsilon = math.NaN() },
		"epsilon Inf":  func(p *Params) { p.Epsilon = math.Inf(1) },
		"theta 1":      func(p *Params) { p.Theta = 1 },
		"theta 3":      func(p *Params) { p.Theta = 3 },
		"iota 0":       func(p *Params) { p.Iota = 0 },
		"radius NaN":   func(p *Params) { p.Radius = math.NaN() },
		"pitch 0":      func(p *Params) { p.Pitch = 0 },
		"pitch tiny":   func(p *Params) { p.Pitch = 1e-12 },
		"unknown set":  func(p *Params) { p.Set = 7 },
		"radius large": func(p *Params) { p.Radius = math.MaxFloat64 },
	} {
		p := good
		change(&p)
		if p.Validate(1000, 4) == nil {
			t.Errorf("%s accepted", name)
		}
	}
	if good.Validate(0, 4) == nil || good.Validate(10, 0) == nil || good.Validate(10, 65) == nil {
		t.Error("bad shape accepted")
	}
}
