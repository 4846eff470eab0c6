package dpsco

import (
	"fmt"
	"math"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/mean"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/solve"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// The estimators and solvers that recipes consist of. Each sets the public parameters that it uses,
// so that a plan lists those and no others.

// descent returns a descent on a private mean, whitened if that was decided.
func (p *problem) descent(m mean.Method, s solve.Solver) (fit, error) {
	if p.whitens() {
		return p.whitened(Descent{Loss: p.Loss, Psi: p.penalty(), Mean: m, Solver: s}), nil
	}
	return Descent{Loss: p.Loss, Psi: p.bounded(), Mean: m, Solver: s}, nil
}

// whiteningShare is the share of the zCDP budget that whitening or centring takes.
const whiteningShare = 0.15

// whitened adds private whitening to a descent.
func (p *problem) whitened(d Descent) Whitened {
	p.FeatureNorm = p.featureNorm()
	return Whitened{Descent: d, Bound: p.FeatureNorm, Ratio: p.ratio(d, whiteningShare)}
}

// ratio returns the noise multiplier of a release that takes the given share of the budget, over
// that of one estimate of the descent, which has the rest.
func (p *problem) ratio(d Descent, share float64) float64 {
	calls := 0.0 // the number of calls on all rows with the same cost
	for _, u := range d.Solver.Uses() {
		part := 1.0
		if u.Batch > 0 {
			part = float64(u.Batch) / float64(p.N)
		}
		calls += float64(u.Calls) * part * part
	}
	return math.Sqrt((1 - share) / (share * calls))
}

// auto chooses JointMoments for least squares and Newton for other losses. With less information
// about the latter it chooses a whitened descent in which long rows weigh less, and where there is
// too little for whitening a descent in scaled units. The constants are those that were most
// accurate on generated and real tables (docs/experiments/methods.md).
func (p *problem) auto() (fit, error) {
	_, squares := p.Loss.(loss.Squared)
	switch {
	case !p.whitens() && p.Labels:
		return p.weighedDescent(), nil
	case !p.whitens():
		return p.clippedDescent()
	case squares:
		return p.jointMoments()
	case p.newtonServes():
		return p.newton()
	}
	plan.SetDefault(&p.Steps, 60)
	plan.SetDefault(&p.Clip, p.Loss.Lipschitz()*p.leverage())
	steps := p.gd()
	if p.Labels {
		steps.Average = 0.5 // log-odds may be far from the start
	}
	return p.whitened(Descent{Loss: p.Loss, Psi: p.penalty(), Mean: p.clip(), Solver: steps, Leverage: p.leverage()}), nil
}

// maxWander bounds, in scale units, how far the noise of all steps together may move a clipped
// descent where the loss has no curvature. With half or twice this value the excess risk is a tenth
// higher over 21 generated distributions and 8 tables, whose individual optima lie on both sides.
const maxWander = 0.5

// stepsPerCoefficient is the number of steps of a clipped descent per coefficient; the number is
// kept between minSteps and maxClippedSteps. Rows with d coefficients have length sqrt(d), so
// that a step of length 1/smoothness makes 1/d of the way along a feature that is independent of the others.
const (
	stepsPerCoefficient = 6
	minSteps            = 100
	maxClippedSteps     = 400
)

// From minCentred coefficients on a clipped descent uses centred features, with steps centredStep
// times as long. Features of one sign are nearly collinear with the constant, and a step makes 1/d
// of the way, so that few steps do not separate them without centring.
const (
	minCentred  = 4
	centredStep = 2
)

// centres reports whether a clipped descent uses centred features.
func (p *problem) centres() bool { return p.Intercept && p.D >= minCentred }

// whyClipped returns the reason why auto chooses a clipped descent.
func (p *problem) whyClipped() string {
	why := "too few rows for this budget and so many coefficients to learn the features' second moments: a descent that clips gradients"
	if p.centres() {
		why += ", on features less their means"
	}
	return why
}

// clippedDescent returns a descent that clips gradients as closely as its noise requires: in
// directions of little curvature nothing corrects the effect of noise. Closer clipping would bias
// the mean of skewed residuals.
func (p *problem) clippedDescent() (fit, error) {
	centred := p.centres()
	plan.SetDefault(&p.Steps, numeric.ClampBetween(stepsPerCoefficient*p.d(), minSteps, maxClippedSteps))
	if centred {
		plan.SetDefault(&p.StepSize, centredStep/p.smoothness())
	}
	steps := p.gd()
	perClip := p.Steps * p.StepSize * 2 / p.recordsPerNoise() * math.Sqrt(p.d())
	plan.SetDefault(&p.Clip, min(p.gradientNorm(), maxWander/perClip))
	d := Descent{Loss: p.Loss, Psi: p.bounded(), Mean: p.clip(), Solver: steps}
	if !centred {
		return d, nil
	}
	d.Psi = p.penalty() // the ball is for the final coefficients, whose constant is another
	plan.SetDefault(&p.FeatureNorm, math.Sqrt(p.sources()))
	return Centred{Descent: d, Bound: p.FeatureNorm, Ratio: p.ratio(d, whiteningShare)}, nil
}

// labelLeverage is the length, relative to the root mean square, above which rows weigh less in an
// accelerated descent on labels. The descent makes moreSteps times as many steps as noise and
// smoothness alone require, because its start is farther from the optimum than that rule assumes.
// maxSteps bounds the passes over the rows: about 25 with five columns and 150 with a hundred.
const (
	labelLeverage = 0.7
	moreSteps     = 4
	maxSteps      = 200
)

// weighedDescent returns an accelerated descent on labels. Long rows weigh less in it, because
// clipped gradients of labels would carry little information beyond the counts of the two labels.
func (p *problem) weighedDescent() Descent {
	longest := labelLeverage * math.Sqrt(p.sources())
	plan.SetDefault(&p.Clip, p.Loss.Lipschitz()*longest)
	plan.SetDefault(&p.Steps, min(maxSteps, moreSteps*float64(p.facts().AccMDSteps())))
	return Descent{Loss: p.Loss, Psi: p.bounded(), Mean: p.clip(), Solver: p.accmd(), Leverage: longest}
}

// chosenName returns the name of auto's choice: that of a method, or a description if it is no method of its own.
func chosenName(f fit) string {
	inner, _ := withoutStandardising(f, 0)
	switch f := inner.(type) {
	case JointMoments:
		return catalogue.MethodJointMoments
	case Newton:
		return catalogue.MethodNewton
	case Whitened:
		return "whitened descent"
	case Centred:
		return "centred descent"
	case Descent:
		if _, accelerated := f.Solver.(solve.AccMD); accelerated {
			return "accmd"
		}
	}
	return "gd"
}

// leverage returns the length above which whitened rows weigh less; their root mean square is
// sqrt(d). With these weights no gradient is longer than that length times the loss's Lipschitz
// constant, so that nothing is clipped and the fit stays consistent.
func (p *problem) leverage() float64 { return 1.2 * math.Sqrt(p.d()) }

// gd returns gradient descent on all rows.
func (p *problem) gd() solve.GD {
	if p.whitens() {
		plan.SetDefault(&p.Steps, 15)
	}
	plan.SetDefault(&p.Steps, 100)
	plan.SetDefault(&p.StepSize, 1/p.smoothness())
	return solve.GD{Steps: int(p.Steps), Rate: p.StepSize, Average: averaged}
}

// averaged is the share of a descent's last iterates that are averaged. A large share reduces noise,
// a small one leaves out more of the path from the start.
const averaged = 0.7

// spgd returns proximal gradient descent on batches.
func (p *problem) spgd() solve.GD {
	s := p.gd()
	s.Batch, s.Decay = p.batch(float64(p.N)), p.facts().Decay(s.Steps)
	return s
}

// svrg returns variance reduction whose epochs have a fixed (1) or doubling (2) length, with about
// as many steps as gd. It uses batches if the accountant gives credit for sampling.
func (p *problem) svrg(growth int) solve.SVRG {
	p.clip()
	plan.SetDefault(&p.Steps, 100)
	plan.SetDefault(&p.StepSize, 0.5/p.smoothness())
	s := solve.SVRG{Epochs: 5, Inner: int(math.Ceil(p.Steps / 5)), Growth: growth, Rate: p.StepSize, Smoothness: 2 * p.curvature() * p.d(), Norm: p.Clip}
	if growth == 2 {
		s.Epochs, s.Inner = 4, int(math.Ceil(p.Steps/30))
	}
	rows := float64(p.N)
	if p.rdp {
		rows = max(256, math.Ceil(rows/200))
	}
	s.Batch = p.batch(rows)
	return s
}

// accmd returns accelerated mirror descent with the Euclidean mirror map.
func (p *problem) accmd() solve.AccMD {
	f := p.facts()
	plan.SetDefault(&p.Steps, float64(f.AccMDSteps()))
	plan.SetDefault(&p.StepSize, f.AccMDRate(int(p.Steps)))
	return solve.AccMD{Steps: int(p.Steps), Rate: p.StepSize}
}

// batch returns the size of a batch as solvers expect it, 0 for all rows. A size above the number of
// rows means all rows, because a table may shrink below the batch of a scheduled request.
func (p *problem) batch(usual float64) int {
	plan.SetDefault(&p.Batch, usual)
	p.Batch = min(p.Batch, float64(p.N))
	if int(p.Batch) == p.N {
		return 0
	}
	return int(p.Batch)
}

// facts returns the input of the papers' rules for numbers of steps and step sizes.
func (p *problem) facts() solve.Facts {
	norm := p.gradientNorm()
	return solve.Facts{
		Smoothness: p.smoothness(), Diameter: 2 * p.Radius, Signal: norm, Divergence: 0.5,
		Noise: p.d() * 4 * norm * norm / (p.recordsPerNoise() * p.recordsPerNoise()),
	}
}

// clip returns the estimator that clips row gradients, by default at the length of a typical one.
func (p *problem) clip() mean.Clip {
	plan.SetDefault(&p.Clip, p.gradientNorm())
	return mean.Clip{Norm: p.Clip}
}

// differences is clip for the differences of two clipped gradients, which are twice as long.
func (p *problem) differences() mean.Clip { return mean.Clip{Norm: 2 * p.clip().Norm} }

// catoniShare is multiplied with the scale that balances noise and the worst bias that the moment
// allows. It is below 1 because the bias of real gradients is far smaller than the worst.
const catoniShare = 1. / 6

// catoni returns the estimator for n rows.
func (p *problem) catoni(n int) mean.Catoni {
	plan.SetDefault(&p.Moment, p.ResidualScale*p.ResidualScale)
	plan.SetDefault(&p.Truncation, catoniShare*mean.CatoniScale(p.Moment, math.Inf(1), p.z, n, p.D))
	return mean.Catoni{Scale: p.Truncation, Beta: math.Inf(1)}
}

// holland returns catoni for batches.
func (p *problem) holland() mean.Catoni {
	p.batch(float64(p.N))
	return p.catoni(int(p.Batch))
}

// trimmed trims enough records that the worst case has little weight in the smooth sensitivity.
func (p *problem) trimmed() mean.TrimmedMean {
	plan.SetDefault(&p.Steps, 50)
	plan.SetDefault(&p.StepSize, 2/p.smoothness())
	plan.SetDefault(&p.Range, 8*p.ResidualScale)
	plan.SetDefault(&p.Trim, float64(mean.TrimmedCount(p.z, p.N, p.D, -p.Range/2, p.Range/2, p.ResidualScale)))
	return mean.TrimmedMean{Trim: int(p.Trim), Low: -p.Range / 2, High: p.Range / 2}
}

// ksu returns the joint estimator, on balls or on boxes.
func (p *problem) ksu(axis bool) mean.KSU {
	plan.SetDefault(&p.Range, 4*p.ResidualScale)
	if axis {
		plan.SetDefault(&p.Truncation, 2*p.ResidualScale)
	}
	plan.SetDefault(&p.Truncation, 2*p.gradientNorm())
	return mean.KSU{Radius: p.Truncation, Range: p.Range, Axis: axis}
}

// kamath returns the median of the means of an odd number of blocks.
func (p *problem) kamath() mean.MedianOfMeans {
	plan.SetDefault(&p.Blocks, 7)
	p.batch(float64(p.N))
	if p.Blocks > p.Batch {
		p.Blocks = float64((int(p.Batch) - 1) | 1) // blocks of one row; of an even number of rows one is left out
	}
	plan.SetDefault(&p.Range, 4*p.ResidualScale)
	return mean.MedianOfMeans{Blocks: int(p.Blocks), Range: p.Range}
}

// aggregate returns sample and aggregate.
func (p *problem) aggregate() (fit, error) {
	choose := p.rangeMean
	if p.Aggregator == catalogue.AggregatorCentre {
		choose = p.smoothCentre
	}
	aggregator, err := choose()
	if err != nil {
		return nil, err
	}
	return SampleAggregate{Blocks: int(p.Blocks), Loss: p.Loss, Psi: p.penalty(), Aggregator: aggregator}, nil
}

// Constants of RangeMean that were most accurate on generated and real tables (docs/experiments/methods.md).
const (
	rangeShare     = 1. / 3 // share of the budget for the histogram
	blocksPerNoise = 12     // blocks for each standard deviation of a count's noise, needed to find the windows
	binSpreads     = 2      // width of a bin, in standard deviations of a block's fit
	minBlockRows   = 4      // least number of rows of a block per coefficient
	labelBlockRows = 20     // the same for labels, if rows suffice: coefficients from few labels are too large
)

// rangeMean chooses blocks and bins: as many blocks as make the noise small beside the spread of the
// fits, but none too small to be fitted.
func (p *problem) rangeMean() (Aggregator, error) {
	rows, d := float64(p.N), p.d()
	p.Aggregator = catalogue.AggregatorRangeMean
	if p.Blocks == 0 {
		least := math.Ceil(blocksPerNoise * math.Sqrt(2*d) / math.Sqrt(2*p.rho*rangeShare))
		most := math.Floor(rows / (minBlockRows * d))
		if least > most {
			return nil, fmt.Errorf("%w: %d rows are too few for eps %.6g and %d coefficients, for method %q needs at least %.6g blocks of %d rows a coefficient; ask for more eps or fewer features, or for method %q",
				plan.ErrInfeasible, p.N, p.budget.Epsilon, p.D, p.Method, least, minBlockRows, catalogue.MethodAuto)
		}
		if p.Labels {
			most = math.Floor(rows / (labelBlockRows * d))
		}
		p.Blocks = min(1e6, max(least, min(most, math.Ceil(64*d/p.rho))))
	}
	p.Blocks = min(p.Blocks, rows)
	spread := p.ResidualScale / p.curvature() / math.Sqrt(max(1, rows/p.Blocks-d))
	width := max(binSpreads*spread, p.Radius*max(d/(1<<18), 1./(1<<10))) // not too many bins for their noise
	half := int(math.Ceil(p.Radius/width)) + 1
	return RangeMean{Bins: mech.Bins{Width: width, Half: half}, Ratio: math.Sqrt((1 - rangeShare) / rangeShare)}, nil
}

// minDelta is the least delta for which the reserve suffices for mech.Centre.
const minDelta = 1e-9

// smoothCentre chooses the number of blocks, as many as are useful and the rows allow.
func (p *problem) smoothCentre() (Aggregator, error) {
	if p.reserve < privacy.Reserve(minDelta) {
		return nil, fmt.Errorf("%w: aggregator %q takes a delta of at least %g; ask for that", plan.ErrInfeasible, p.Aggregator, minDelta)
	}
	centre := mech.Centre{Epsilon: min(p.budget.Epsilon, 20), Delta: p.reserve, Radius: p.Radius}
	if p.Blocks == 0 {
		blocks, err := centre.Blocks(p.N, p.D, 0.01*p.Radius)
		if err != nil {
			return nil, fmt.Errorf("%w; by default a block has 20 rows a coefficient: ask for more eps or fewer features, or for aggregator %q", plan.Infeasible(err), catalogue.AggregatorRangeMean)
		}
		p.Blocks = float64(blocks)
	} else if err := centre.Check(int(p.Blocks), p.D); err != nil {
		return nil, plan.Infeasible(err)
	}
	p.Blocks = min(p.Blocks, float64(p.N))
	return SmoothCentre{centre}, nil
}

// penalty returns the operator of the request's penalty, without the ball.
func (p *problem) penalty() prox.Operator {
	var psi prox.Operator
	switch p.Penalty {
	case catalogue.PenaltyL1:
		psi = prox.L1{Lambda: p.Lambda}
	case catalogue.PenaltyL2:
		psi = prox.L2{Lambda: p.Lambda}
	case catalogue.PenaltyElasticNet:
		plan.SetDefault(&p.L1Ratio, 0.5)
		psi = prox.ElasticNet{L1: p.Lambda * p.L1Ratio, L2: p.Lambda * (1 - p.L1Ratio)}
	case catalogue.PenaltyGroupL1:
		psi = prox.GroupL1{Lambda: p.Lambda, Groups: p.Groups}
	default:
		return prox.Zero{}
	}
	if p.Intercept {
		return prox.ExceptFirst{Operator: psi}
	}
	return psi
}

// bounded returns the penalty restricted to the ball of coefficients.
func (p *problem) bounded() prox.Operator {
	ball := prox.L2Ball{Radius: p.Radius}
	if p.Penalty == catalogue.PenaltyNone {
		return ball
	}
	return prox.Sum{A: p.penalty(), B: ball}
}
