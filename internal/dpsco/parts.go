package dpsco

import (
	"fmt"
	"math"

	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/mean"
	"dpsidecar/internal/dpsco/mech"
	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/solve"
)

// The parts that recipes are made of, at the problem's public parameters.

// descent runs a solver on a private mean, whitened if that was decided.
func (p *problem) descent(m mean.Method, s solve.Solver) (fit, error) {
	if p.whitens() {
		return p.whitened(Descent{Loss: p.Loss, Psi: p.penalty(), Mean: m, Solver: s}, 0), nil
	}
	return Descent{Loss: p.Loss, Psi: p.bounded(), Mean: m, Solver: s}, nil
}

// The parts of the budget that whitening and the level take, of zCDP.
const (
	whiteningShare = 0.15
	levelShare     = 0.1
)

// whitened puts private whitening in front of a descent; a level > 0 is what
// residuals are clipped to in a last correction of the intercept.
func (p *problem) whitened(d Descent, level float64) Whitened {
	calls := 0.0 // of a full pass's weight
	for _, u := range d.Solver.Uses() {
		share := 1.0
		if u.Batch > 0 {
			share = float64(u.Batch) / float64(p.N)
		}
		calls += float64(u.Calls) * share * share
	}
	left := 1 - whiteningShare
	if level > 0 {
		left -= levelShare
	}
	return Whitened{
		Descent: d, Bound: p.FeatureNorm, Ratio: math.Sqrt(left / (whiteningShare * calls)),
		Level: Level{level, math.Sqrt(left / (levelShare * calls))},
	}
}

// auto is a whitened descent. For least squares it cuts off residuals, and weighs
// long rows down, separately: then skewed features do not bias the slopes, and
// what skewed residuals do to the intercept is made up for in the end.
func (p *problem) auto() (fit, error) {
	d := Descent{Loss: p.Loss, Psi: p.penalty(), Mean: mean.Clip{Norm: p.Clip}, Solver: p.gd()}
	_, squares := p.Loss.(loss.Squared)
	switch {
	case !p.whitens():
		return p.descent(d.Mean, d.Solver)
	case !squares:
		return p.whitened(d, 0), nil
	}
	d.Leverage = p.leverage()
	d.Loss = loss.Huber{Delta: p.Clip / d.Leverage}
	level := 0.0
	if p.Intercept {
		level = p.ResidualScale * math.Sqrt(math.Sqrt(levelShare)*p.information()/8)
	}
	return p.whitened(d, level), nil
}

// leverage is the length from which on whitened rows, sqrt(d) long in the root
// mean square, weigh less.
func (p *problem) leverage() float64 { return 1.2 * math.Sqrt(p.d()) }

// gd is gradient descent on all rows.
func (p *problem) gd() solve.GD {
	return solve.GD{Steps: int(p.Steps), Rate: p.StepSize, Average: averaged}
}

// averaged is the share of a descent's iterates that its answer is the mean of:
// noise asks for many, the way from the start for few.
const averaged = 0.7

// spgd is proximal gradient descent on batches.
func (p *problem) spgd() solve.GD {
	s := p.gd()
	s.Batch, s.Decay = p.batch(), p.facts().Decay(s.Steps)
	return s
}

// svrg is variance reduction with a fixed (1) or doubling (2) length of epochs,
// of about as many steps as a descent has.
func (p *problem) svrg(growth int) solve.SVRG {
	s := solve.SVRG{
		Epochs: 5, Inner: int(p.Steps / 5), Growth: growth, Rate: p.StepSize, Batch: p.batch(),
		Smoothness: p.curvature() * p.d(), Norm: p.Clip,
	}
	if growth == 2 {
		s.Epochs, s.Inner = 4, max(1, int(p.Steps/30))
	}
	return s
}

func (p *problem) accmd() solve.AccMD {
	f := p.facts()
	steps := f.AccMDSteps()
	return solve.AccMD{Steps: steps, Rate: f.AccMDRate(steps)}
}

// catoni takes the share of its balanced scale that serves real gradients.
func (p *problem) catoni(n int) mean.Catoni {
	scale := p.Truncation
	if scale == 0 {
		scale = catoniShare * mean.CatoniScale(p.Moment, math.Inf(1), p.z, n, p.D)
	}
	return mean.Catoni{Scale: scale, Beta: math.Inf(1)}
}

// trimmed cuts off enough records that the worst case weighs little.
func (p *problem) trimmed() mean.TrimmedMean {
	m := mean.TrimmedMean{Trim: int(p.Trim), Low: -p.Range / 2, High: p.Range / 2}
	if m.Trim == 0 {
		m.Trim = mean.TrimmedCount(p.z, p.N, p.D, m.Low, m.High, p.ResidualScale)
	}
	return m
}

// aggregate is sample and aggregate, with as many blocks as serve and the rows
// allow.
func (p *problem) aggregate() (fit, error) {
	a := SampleAggregate{Blocks: int(p.Blocks), Loss: p.Loss, Psi: p.penalty(),
		Centre: mech.Centre{Epsilon: min(p.budget.Epsilon, 20), Delta: p.reserve, Radius: p.Radius}}
	if a.Blocks > 0 {
		return a, nil
	}
	var err error
	if a.Blocks, err = a.Centre.Blocks(p.N, p.D, 0.1*p.Radius); err != nil {
		return nil, fmt.Errorf("%w: %w; ask for fewer features or more eps", ErrInfeasible, err)
	}
	return a, nil
}

// catoniShare of the scale that balances noise with the worst bias which the
// moment allows: the bias of real gradients is far from the worst.
const catoniShare = 1. / 6

// penalty returns the operator of the request's penalty and no more.
func (p *problem) penalty() prox.Operator {
	var psi prox.Operator
	switch p.Penalty {
	case PenaltyL1:
		psi = prox.L1{Lambda: p.Lambda}
	case PenaltyL2:
		psi = prox.L2{Lambda: p.Lambda}
	case PenaltyElasticNet:
		psi = prox.ElasticNet{L1: p.Lambda * p.L1Ratio, L2: p.Lambda * (1 - p.L1Ratio)}
	case PenaltyGroupL1:
		psi = prox.GroupL1{Lambda: p.Lambda, Groups: p.Groups}
	default:
		return prox.Zero{}
	}
	if p.Intercept {
		return prox.Rest{Operator: psi}
	}
	return psi
}

// bounded is the penalty on the ball of coefficients.
func (p *problem) bounded() prox.Operator {
	ball := prox.L2Ball{Radius: p.Radius}
	if p.Penalty == PenaltyNone {
		return ball
	}
	return prox.Sum{A: p.penalty(), B: ball}
}
