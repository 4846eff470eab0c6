package experiment

import (
	"math"
	"math/rand/v2"

	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/mat"
)

// Peers are published methods for the same tasks. Here they are references, not products: their noise is
// real-valued and from a seeded generator, and their rows are bounded by public numbers alone, so that each
// is private under replace-one in exact arithmetic. The choice of their best settings in hindsight is not
// private.

// setting holds the parameters of a peer; unused ones are 0.
type setting struct {
	row    float64 // bound on a row's length, in units of sqrt(d)
	target float64 // bound on the target or on residuals, in target scales
	rounds int
	rate   float64 // step length, relative to the one that is safe if rows have length sqrt(d)
}

// peer is one published method.
type peer struct {
	name  string
	fixed setting   // chosen beforehand: as published, with public scales for its bounds
	grid  []setting // in each cell the best of these, chosen in hindsight, is reported
	fit   func(p *posed, s setting, b privacy.Budget, r *rand.Rand) []float64
}

// settings returns all combinations.
func settings(rows, targets []float64, rounds []int, rates []float64) (all []setting) {
	for _, row := range rows {
		for _, target := range targets {
			for _, n := range rounds {
				for _, rate := range rates {
					all = append(all, setting{row, target, n, rate})
				}
			}
		}
	}
	return all
}

var (
	none      = []float64{0}
	linearFew = []peer{
		{"AdaSSP", setting{row: 1.5, target: 3}, settings([]float64{.5, 1, 2, 4, 8}, []float64{1, 3, 10, 30}, []int{0}, none), adaSSP},
		{"boosted AdaSSP", setting{row: 1, target: 1, rounds: 10}, settings([]float64{.5, 1, 2, 4}, []float64{.3, 1, 3, 10}, []int{3, 10}, none), boostedAdaSSP},
		{"objective perturbation", setting{row: 1.2, target: 1}, settings([]float64{.6, 1.2, 2.4}, []float64{.3, 1, 3}, []int{0}, none), objectivePerturbation},
		{"DP-GD", setting{target: 1, rounds: 50, rate: 1}, settings(none, []float64{.3, 1, 3, 10}, []int{15, 50}, []float64{1, 3}), gradientDescent},
	}
	logisticFew = []peer{
		{"objective perturbation", setting{row: 1.2}, settings([]float64{.6, 1.2, 2.4, 4}, none, []int{0}, none), objectivePerturbation},
		{"DP-GD", setting{target: 1, rounds: 50, rate: 1}, settings(none, []float64{.3, 1, 3}, []int{15, 50}, []float64{1, 3, 10}), gradientDescent},
	}
	huberFew   = linearFew[2:] // these bound residuals at about one target scale, as Huber's delta does
	poissonFew = []peer{
		{"DP-GD", setting{target: 1, rounds: 50, rate: 1}, settings(none, []float64{.3, 1, 3, 10}, []int{15, 50}, []float64{.1, 1, 3, 10}), gradientDescent},
	}
)

// adaSSP is the method of Wang 2018: a third of the budget each for the second moments, their least
// eigenvalue and the products with the target; a ridge if the noise requires one.
func adaSSP(p *posed, s setting, b privacy.Budget, r *rand.Rand) []float64 {
	bound, z := s.row*math.Sqrt(float64(p.D)), deviation(b, 1./3)
	sums := p.gram(bound, s.target)
	h, ridge := noisyMoments(sums.h, bound, z, z, r)
	g := mat.NewVecDense(p.D, nil)
	for j, v := range sums.g {
		g.SetVec(j, v+2*bound*s.target*z*r.NormFloat64())
	}
	return solveRidge(h, ridge, g)
}

// boostedAdaSSP is the method of Tang et al. 2023: one noisy matrix, with half the budget including its
// least eigenvalue, and rounds of noisy products with clamped residuals.
func boostedAdaSSP(p *posed, s setting, b privacy.Budget, r *rand.Rand) []float64 {
	bound := s.row * math.Sqrt(float64(p.D))
	h, ridge := noisyMoments(p.gram(bound, math.Inf(1)).h, bound, deviation(b, 1./3), deviation(b, 1./6), r)
	w, row, z := make([]float64, p.D), make([]float64, p.D), deviation(b, .5/float64(s.rounds))
	for range s.rounds {
		g := make([]float64, p.D)
		for i, y := range p.y {
			p.shorten(row, i, bound)
			e := math.Max(-s.target, math.Min(y-dot(row, w), s.target))
			for j, a := range row {
				g[j] += e * a
			}
		}
		for j := range g {
			g[j] += 2 * bound * s.target * z * r.NormFloat64()
		}
		for j, v := range solveRidge(h, ridge, mat.NewVecDense(p.D, g)) {
			w[j] += v
		}
	}
	return w
}

// noisyMoments adds symmetric noise to a sum of outer products of rows no longer than bound, and returns
// the ridge of AdaSSP: the excess of a bound on the noise over a private lower bound of the least
// eigenvalue, at least 0.
func noisyMoments(h *mat.SymDense, bound, z, zEigen float64, r *rand.Rand) (noisy *mat.SymDense, ridge float64) {
	d := h.SymmetricDim()
	noisy = mat.NewSymDense(d, nil)
	for j := range d {
		for k := j; k < d; k++ {
			size := bound * bound * z
			if j == k {
				size *= math.Sqrt2
			}
			noisy.SetSym(j, k, h.At(j, k)+size*r.NormFloat64())
		}
	}
	var eigen mat.EigenSym
	eigen.Factorize(h, false)
	least := math.Max(0, eigen.Values(nil)[0]+bound*bound*zEigen*(r.NormFloat64()-1.7))
	return noisy, math.Max(0, bound*bound*z*math.Sqrt(float64(d)*math.Log(12*float64(d*d)))-least)
}

func solveRidge(h *mat.SymDense, ridge float64, g *mat.VecDense) []float64 {
	d := h.SymmetricDim()
	a := mat.DenseCopyOf(h)
	for j := range d {
		a.Set(j, j, a.At(j, j)+ridge)
	}
	w := mat.NewVecDense(d, nil)
	if w.SolveVec(a, g) != nil {
		return make([]float64, d)
	}
	return w.RawVector().Data
}

// objectivePerturbation is the method of Redberg et al. 2023 with Gaussian noise: a tenth of epsilon pays
// for the determinant, by a ridge; rows longer than the bound have a smaller weight. Squared residuals have
// no bounded gradient, so their loss is replaced by Huber's.
func objectivePerturbation(p *posed, s setting, b privacy.Budget, r *rand.Rand) []float64 {
	const determinant = .1
	bound, lipschitz, loss, curvature := s.row*math.Sqrt(float64(p.D)), 1., lossOf(logLossOf), .25
	if p.model != "logistic" {
		lipschitz, loss, curvature = s.target, huberOf(s.target), 1
	}
	z := 1 / math.Sqrt(2*privacy.ZCDPRho((1-determinant)*b.Epsilon, b.Delta/2))
	linear := make([]float64, p.D)
	for j := range linear {
		linear[j] = 2 * bound * lipschitz * z * r.NormFloat64()
	}
	return p.minimise(loss, bound, curvature*bound*bound/math.Expm1(determinant*b.Epsilon), linear)
}

// gradientDescent is descent on clipped gradients with Gaussian noise; it returns the average of the second
// half of the iterates.
func gradientDescent(p *posed, s setting, b privacy.Budget, r *rand.Rand) []float64 {
	loss, smooth := p.loss(), 1.
	if p.model == "logistic" {
		smooth = .25
	}
	w, mean := make([]float64, p.D), make([]float64, p.D)
	z, rate, n := deviation(b, 1/float64(s.rounds)), s.rate/(smooth*float64(p.D)), float64(p.N)
	for round := range s.rounds {
		g := make([]float64, p.D)
		for i, y := range p.y {
			row := p.row(i)
			_, first, _ := loss(p.known[i]+dot(row, w), y)
			if length := math.Abs(first) * math.Sqrt(dot(row, row)); length > s.target {
				first *= s.target / length
			}
			for j, a := range row {
				g[j] += first * a
			}
		}
		for j := range w {
			w[j] -= rate * (g[j] + 2*s.target*z*r.NormFloat64()) / n
			if round >= s.rounds/2 {
				mean[j] += w[j] / float64(s.rounds-s.rounds/2)
			}
		}
	}
	return mean
}

// deviation returns the standard deviation of Gaussian noise for a sensitivity of 1 and a share of a
// budget.
func deviation(b privacy.Budget, share float64) float64 {
	return 1 / math.Sqrt(2*share*privacy.ZCDPRho(b.Epsilon, b.Delta))
}
