package dpsco

import (
	"math"
	"math/rand/v2"
	"testing"

	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/table"
)

// A target's scale that is ten times too small costs little, also where targets are far from 0 besides: a pass takes a delta as
// large as residuals, where these are nearly all beyond the one asked for. With the delta asked for in all passes these three had .19,
// 372 and 269 %. Seeds are fixed.
func TestHuberFitsForgiveASmallScaleOfTheTarget(t *testing.T) {
	a := Regression{Loss: loss.Huber{Delta: 1}}
	for _, c := range []struct{ times, level, percent float64 }{{10, 0, 0.03}, {10, 5, 5}, {1, 0, 0.005}, {1, 20, 10}} {
		x := drawLaw("gauss", 30_000, 5, 1)
		for i := range x.Y {
			x.Y[i] = c.times * (x.Y[i] + c.level)
		}
		_, least := best(a.Loss, x)
		e := excessLosses(t, a, x, least, 1, 15)
		t.Logf("a target %g times as large as its scale, %g scales from 0: median excess %.4f%%", c.times, c.times*c.level, e[len(e)/2])
		if e[len(e)/2] > c.percent {
			t.Errorf("expected at most %g%%", c.percent)
		}
	}
}

// A feature whose scale is fifty times too large has a coefficient that the steps do not reach: there is no interval, not
// one around where the last step was cut short. Seeds are fixed.
func TestAStepThatWasCutShortHasNoInterval(t *testing.T) {
	a := Regression{Loss: loss.Huber{Delta: 1}, Radius: 1000}
	x := drawLaw("gauss", 20_000, 2, 1)
	for i := range x.Y {
		x.Y[i] += 3 * x.X[0][i]
		x.X[0][i] /= 50
	}
	w, _ := best(a.Loss, x)
	for seed := range uint64(10) {
		if r := resultOf(t, a, x, 10, seed); r.Low != nil && (w[1] < r.Low[1] || w[1] > r.High[1]) {
			t.Errorf("the best fit has %v, and the interval goes from %v to %v", w[1], r.Low[1], r.High[1])
		}
	}
}

// The rows of a rare flag weigh little, and most of them may be beyond delta at a fit that is off: their scores go on from
// what they are below delta, and so does the curvature. With a jump there more than half of all fits had the flag's coefficient farther
// than 1 from what it is, and intervals missed it. Now it is 23 of 200, and 8 of 186 intervals miss. Seeds are fixed.
func TestHuberFitsFindTheCoefficientOfARareFlag(t *testing.T) {
	const rows, draws, flag = 40_000, 200, .1
	r := rand.New(rand.NewPCG(4, 4))
	x := table.Data{Shape: table.Shape{N: rows, D: 4, Intercept: true}, X: table.NewColumns(3, rows), Y: make([]float64, rows)}
	for i := range x.Y { // log wages by schooling, experience and the flag, at scales 12 and 20 years
		schooling, experience := float64(8+r.IntN(12)), 40*r.Float64()
		x.X[0][i], x.X[1][i], x.X[2][i] = schooling/12, experience/20, indicatorOf(r.Float64() < .01)
		x.Y[i] = 2.1 + .08*schooling + .02*experience + flag*x.X[2][i] + .5*r.NormFloat64()
	}
	far, given, missed := 0, 0, 0
	for seed := range uint64(draws) {
		fit := resultOf(t, Regression{Loss: loss.Huber{Delta: 1}}, x, 1, seed)
		if math.Abs(fit.Coefficients[3]-flag) > 1 {
			far++
		}
		if fit.Low != nil {
			if given++; flag < fit.Low[3] || flag > fit.High[3] {
				missed++
			}
		}
	}
	t.Logf("%d of %d are far, %d of %d intervals miss", far, draws, missed, given)
	if far > draws/6 || missed > given/16 || given < draws/2 {
		t.Errorf("%d of %d are far, %d of %d intervals miss", far, draws, missed, given)
	}
}

// Where the target's mean is ten residual scales from 0, whole steps are long, and what an error of the curvature makes of the
// long one along the constant is no reason to make that one shorter: with it fits were farther off than none. Seeds are fixed.
func TestHuberFitsReachATargetThatIsFarFromZero(t *testing.T) {
	a := Regression{Loss: loss.Huber{Delta: 1}}
	x := drawLaw("gauss", 5_000, 5, 1)
	for i := range x.Y {
		x.Y[i] += 10
	}
	_, least := best(a.Loss, x)
	e := excessLosses(t, a, x, least, 3, 15)
	t.Logf("excess %.4f%%", e)
	if e[len(e)/2] > .15 || e[12] > 5 {
		t.Errorf("expected a median of at most .15%% and 12 of 15 of at most 5%%")
	}
}

// Where an effect ends at long rows, which weigh less, a fit is moved by what the outer shell of the last score shows of them.
// Without that the excess is 25 times as large. Seeds are fixed.
func TestHuberFitsFollowLongRowsThatTheModelMisses(t *testing.T) {
	a := Regression{Loss: loss.Huber{Delta: 1}}
	x := drawLaw("gauss", 30_000, 3, 1)
	for i, v := range x.X[0] {
		long := math.Exp(v)
		x.X[0][i] = long
		x.Y[i] += .6*math.Min(long, 4) - v/2
	}
	_, least := best(a.Loss, x)
	e := excessLosses(t, a, x, least, 10, 15)
	t.Logf("median excess %.4f%%", e[len(e)/2])
	if e[len(e)/2] > 0.004 {
		t.Errorf("expected at most .004%%")
	}
}

func indicatorOf(v bool) float64 {
	if v {
		return 1
	}
	return 0
}

// The coordinates of features whose distance from 0 is several times what they spread by stretch rows along them, which the
// histogram of the former coordinates shows as short. A bound that such rows pass takes them from each step, however
// large eps is. Distances from the exact fit in standard errors of sampling: 0.26 of one where the bound follows from that histogram alone.
func TestHuberOfFeaturesFarFromZero(t *testing.T) {
	const n, draws, slopes, stdErr = 20_000, 10, 3, 0.025
	total := 0.0
	for seed := range uint64(draws) {
		r := rand.New(rand.NewPCG(seed, 99))
		x := table.Data{Shape: table.Shape{N: n, D: 1 + slopes, Intercept: true}, X: table.NewColumns(slopes, n), Y: make([]float64, n)}
		for i := range n {
			for j := range x.X {
				x.X[j][i] = 5 + r.Float64()
			}
			x.Y[i] = x.X[0][i] + 2*x.X[1][i] - x.X[2][i] - 11 + r.NormFloat64()
		}
		want, _ := best(loss.Huber{Delta: 1}, x)
		fit := resultOf(t, Regression{Loss: loss.Huber{Delta: 1}}, x, 5, seed)
		for j := 1; j <= slopes; j++ {
			total += square((fit.Coefficients[j]-want[j])/stdErr) / draws / slopes
		}
	}
	t.Logf("%.3f", math.Sqrt(total))
	if math.Sqrt(total) > 0.15 {
		t.Errorf("fits are %.3f standard errors of sampling from the exact ones", math.Sqrt(total))
	}
}
