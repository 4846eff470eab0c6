package tests

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// released is what dp.coefficients and dp_covariance say of the latest release.
type released struct {
	id                   string
	terms                []string
	middle, stdErr, df   []float64
	covariance, biasRows *mat.SymDense
}

// released reads the caller's latest release, and the allowance for bias from below.
func (w *world) released() (r released) {
	w.Helper()
	const of = ` FROM dp.coefficients WHERE release = dp_last_release($1)`
	r.id = one[string](w, w.analyst, `SELECT dp_last_release($1)::text`, w.dataset)
	r.terms = all[string](w, w.analyst, `SELECT term`+of, w.dataset)
	r.middle = all[float64](w, w.analyst, `SELECT (ci_low + ci_high) / 2`+of, w.dataset)
	r.stdErr = all[float64](w, w.analyst, `SELECT std_err`+of, w.dataset)
	r.df = all[float64](w, w.analyst, `SELECT df`+of, w.dataset)
	d := len(r.terms)
	r.covariance, r.biasRows = mat.NewSymDense(d, all[float64](w, w.analyst, `SELECT unnest(dp_covariance($1))`, r.id)), mat.NewSymDense(d, nil)
	for i := range d {
		for k, v := range one[[]float64](w, w.super, `SELECT bias FROM dp_int.coefficient WHERE release = $1 AND position = $2`, r.id, i+1) {
			r.biasRows.SetSym(i, k, v)
		}
	}
	return r
}

// wald is the test of the terms at these places by another library, and by how much the root of
// Wald's W may be too long by bias.
func (r released) wald(t *testing.T, places ...int) (statistic, df, w, longest float64) {
	t.Helper()
	q := len(places)
	m, s, bias, least := mat.NewVecDense(q, nil), mat.NewSymDense(q, nil), mat.NewDense(q, q, nil), math.Inf(1)
	for i, a := range places {
		m.SetVec(i, r.middle[a])
		least = min(least, r.df[a])
		for k, b := range places {
			s.SetSym(i, k, r.covariance.At(a, b))
			bias.Set(i, k, r.biasRows.At(a, b))
		}
	}
	var factor mat.Cholesky
	var solved mat.VecDense
	if !factor.Factorize(s) || factor.SolveVecTo(&solved, m) != nil {
		t.Fatal("singular")
	}
	df, w = least-float64(q)+1, mat.Dot(m, &solved)
	var relative mat.Dense
	var eigen mat.Eigen
	if err := relative.Solve(s, bias); err != nil || !eigen.Factorize(&relative, mat.EigenNone) {
		t.Fatal("no eigenvalues", err)
	}
	for _, v := range eigen.Values(nil) {
		longest = max(longest, math.Sqrt(real(v)))
	}
	return w * df / (least * float64(q)), df, w, longest
}

// unroundedInterval is dp_predict_interval with all digits.
const unroundedInterval = `SELECT ARRAY[p.prediction, p.ci_low, p.ci_high] FROM dp_int.release r, dp_int.prediction_interval(r, '', $2::float8[], 0) p WHERE r.id = $1`

// fewestDecimals is how many decimals a number is written with at least.
func fewestDecimals(v float64) int {
	_, decimals, _ := strings.Cut(strconv.FormatFloat(v, 'f', -1, 64), ".")
	return len(decimals)
}

// exceeds is the probability that F with q and df degrees of freedom is as large.
func exceeds(statistic float64, q int, df float64) float64 {
	return mathext.RegIncBeta(df/2, float64(q)/2, df/(df+float64(q)*statistic))
}

// agree reports numbers that differ by more than one in 1e9.
func (w *world) agree(name string, got, want float64) {
	w.Helper()
	if !(math.Abs(got-want) <= 1e-9*math.Abs(want)+1e-290) {
		w.Errorf("%s is %.15g, want %.15g", name, got, want)
	}
}

// Summaries, tests and intervals of predictions are those that another library makes of the
// same release, and free.
func TestResultsOfARelease(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.regressable("zcdp", 500, 1e-4)
	w.withIntervals(w.analyst, `SELECT * FROM dp_linear_regress($1, $2, 1e-5, features => '{age,region,insured}')`, w.dataset, 20)
	r, before := w.released(), w.entries()
	if !one[bool](w, w.analyst, `SELECT bool_and(abs(s.coef - c.coef) <= 0.0501 * c.std_err AND abs(s.std_err / c.std_err - 1) <= 0.0501 AND abs(s.p_value - c.p_value) <= 0.00501 * c.p_value
		  AND abs(s.t - (c.ci_low + c.ci_high) / 2 / c.std_err) <= 0.0051 AND abs(s.ci_low - c.ci_low) <= 0.0501 * c.std_err AND abs(s.ci_high - c.ci_high) <= 0.0501 * c.std_err
		  AND s.why_null IS NULL) AND count(*) = 4
		FROM dp_summary($1) s JOIN dp.coefficients c USING (term) WHERE c.release = $1::uuid`, r.id) {
		t.Error(all[string](w, w.analyst, `SELECT s::text FROM dp_summary($1) s`, r.id))
	}
	for _, places := range [][]int{{0}, {2}, {1, 2}, {3, 1}, {2, 0, 3, 1}} {
		var terms []string
		for _, p := range places {
			terms = append(terms, r.terms[p])
		}
		statistic, df, wald, longest := r.wald(t, places...)
		got := one[[]float64](w, w.super, `SELECT ARRAY[t.statistic, t.df, t.p_value] FROM dp_int.release r, dp_int.wald_test(r, $2) t WHERE r.id = $1`, r.id, terms)
		if shown := one[[]float64](w, w.analyst, `SELECT ARRAY[statistic, df, p_value] FROM dp_test($1, $2)`, r.id, terms); !(math.Abs(shown[0]-got[0]) < 0.00501 && math.Abs(shown[1]-got[1]) < 0.0501 &&
			math.Abs(shown[2]-got[2]) <= 0.00501*got[2]) || fewestDecimals(shown[0]) > 2 || fewestDecimals(shown[1]) > 1 {
			t.Errorf("the test of %v is shown as %v, it is %v", terms, shown, got)
		}
		w.agree("the statistic", got[0], statistic)
		w.agree("df", got[1], df)
		if len(places) == 1 {
			w.agree("t squared", got[0], math.Pow(r.middle[places[0]]/r.stdErr[places[0]], 2))
			w.agree("the p value", got[2], one[float64](w, w.analyst, `SELECT p_value FROM dp.coefficients WHERE release = $1 AND term = $2`, r.id, terms[0]))
			continue
		}
		// The bias is bounded from above, within a hundredth of its length.
		least, most := 0., 0.
		for _, at := range []struct {
			p     *float64
			taken float64
		}{{&least, longest}, {&most, 1.01 * longest}} {
			*at.p = exceeds(statistic*math.Pow(max(0, 1-at.taken/math.Sqrt(wald)), 2), len(places), df)
		}
		if longest == 0 || !(got[2] >= least*(1-1e-9) && got[2] <= most*(1+1e-9)) {
			t.Errorf("the p value of %v is %v, want %v to %v with a bias of %v", terms, got[2], least, most, longest)
		}
	}
	for _, x := range [][]float64{{1, 50, 2, 1}, {1, 20, 0, 0}, {1, 0, 0, 0}, {1, 1e6, -3, 0.5}} {
		c := mat.NewVecDense(4, x)
		variance, least := mat.Inner(c, r.covariance, c), min(r.df[0], r.df[1], r.df[2], r.df[3])
		bias := math.Sqrt(mat.Inner(c, r.biasRows, c) / variance)
		got := one[[]float64](w, w.super, unroundedInterval, r.id, x[1:])
		shown := one[[]float64](w, w.analyst, `SELECT ARRAY[prediction, ci_low, ci_high] FROM dp_predict_interval($1, $2::float8[]) WHERE why_null IS NULL`, r.id, x[1:])
		for i, v := range shown {
			if off := math.Abs(v-got[i]) / (got[2] - got[1]); off > 0.0126 || fewestDecimals(v) > max(0, 1-int(math.Floor(math.Log10((got[2]-got[1])/4)))) {
				t.Errorf("%v is shown as %v", got, shown)
			}
		}
		w.agree("the prediction", got[0], one[float64](w, w.analyst, `SELECT dp_predict($1, $2::float8[])`, r.id, x[1:]))
		w.agree("the middle", (got[1]+got[2])/2, mat.Dot(c, mat.NewVecDense(4, r.middle)))
		// The half width is in units of sd and t what 95 % of |N(bias, 1)| lie below.
		k := (got[2] - got[1]) / 2 / math.Sqrt(variance) * distuv.UnitNormal.Quantile(0.975) / distuv.StudentsT{Sigma: 1, Nu: least}.Quantile(0.975)
		w.agree("the coverage", distuv.UnitNormal.CDF(k-bias)-distuv.UnitNormal.CDF(-k-bias), 0.95)
	}
	// Where all features are 0 the interval is the intercept's, up to how it bounds the bias.
	if !one[bool](w, w.super, `SELECT (p.ci_high - p.ci_low) / (c.ci_high - c.ci_low) BETWEEN 0.999 AND 1.42 AND abs(p.ci_low + p.ci_high - c.ci_low - c.ci_high) < 1e-6 * c.std_err
		FROM dp_int.release r, dp_int.prediction_interval(r, '', '{0,0,0}', 0) p, dp_int.coefficient c WHERE r.id = $1::uuid AND c.release = r.id AND c.term = '(intercept)'`, r.id) {
		t.Error("the intercept's interval is another one")
	}
	if w.entries() != before {
		t.Error("results are not free")
	}
}

// With the longest bias that intervals allow for, in its worst direction, a test at .05 rejects what is
// true in at most that share of draws. 6,000 draws of a share of .05 are more than 386 with a
// probability of 2e-7. Without the allowance more than a third would be.
func TestTestsAllowForBias(t *testing.T) {
	const q, draws, df = 3, 6000, 40.
	w := newWorld(t, 1, 0)
	correlation := mat.NewSymDense(q, []float64{1, .6, -.3, 0, 1, .2, 0, 0, 1})
	bias := mat.NewSymDense(q, []float64{2, .5, .1, 0, .4, -.2, 0, 0, 1.5})
	var factor mat.Cholesky
	if !factor.Factorize(correlation) {
		t.Fatal("no correlation")
	}
	var l mat.TriDense
	factor.LTo(&l)
	worst, flat := worstBias(t, &l, bias), func(m mat.Matrix) (v []float64) {
		for i := range q {
			v = append(v, mat.Row(nil, i, m)...)
		}
		return v
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var values []float64
	for range draws {
		z := mat.NewVecDense(q, nil)
		for i := range q {
			z.SetVec(i, rng.NormFloat64())
		}
		z.MulVec(&l, z)
		z.AddVec(z, worst)
		values = append(values, z.RawVector().Data...)
	}
	var rejected, plain int64
	row := w.super.QueryRow(t.Context(), `
		WITH w AS (SELECT (SELECT sum(z * z) FROM unnest(dp_int.solve_lower(dp_int.cholesky($1, $2), ($4::float8[])[(k - 1) * $2 + 1 : k * $2], $2)) AS z) AS w FROM generate_series(1, $5::int) AS k)
		SELECT count(*) FILTER (WHERE dp_int.wald_p(w, b, $2, 1e8) < .05), count(*) FILTER (WHERE dp_int.wald_p(w, 0, $2, 1e8) < .05)
		  FROM w, (SELECT dp_int.longest_bias($1, $3, $2) AS b OFFSET 0) AS l`, flat(correlation), q, flat(bias), values, draws)
	if err := row.Scan(&rejected, &plain); err != nil {
		t.Fatal(err)
	}
	t.Logf("rejected: %d, without the allowance %d, of %d", rejected, plain, draws)
	if rejected > 386 || plain < 1000 {
		t.Errorf("of %d true hypotheses %d are rejected, and without the allowance for bias %d", draws, rejected, plain)
	}
}

// worstBias is the longest in the metric of L L' of those whose square in any direction c is at most
// c'Bc: with an eigenvector u of L^-1 B L^-1' for its largest eigenvalue e, it is sqrt(e) L u.
func worstBias(t *testing.T, l *mat.TriDense, bias *mat.SymDense) *mat.VecDense {
	t.Helper()
	q := bias.SymmetricDim()
	var inverse mat.TriDense
	if err := inverse.InverseTri(l); err != nil {
		t.Fatal(err)
	}
	var m mat.Dense
	m.Mul(&inverse, bias)
	m.Mul(&m, inverse.T())
	s := mat.NewSymDense(q, nil)
	for i := range q {
		for j := i; j < q; j++ {
			s.SetSym(i, j, m.At(i, j))
		}
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(s, true) {
		t.Fatal("no eigenvalues")
	}
	var vectors mat.Dense
	eigen.VectorsTo(&vectors)
	worst := mat.NewVecDense(q, nil)
	worst.MulVec(l, vectors.ColView(q-1))
	worst.ScaleVec(math.Sqrt(eigen.Values(nil)[q-1]), worst)
	return worst
}

// Numbers are shown to two digits of their standard error, or three of their own.
func TestResultsAreRounded(t *testing.T) {
	w := newWorld(t, 1, 0)
	for _, c := range []struct {
		value, shown float64
		err          any
	}{{1234.5678, 1234.568, 0.0314}, {1234.5678, 1230, 250.}, {0.3, 0, 99.}, {-0.00012345, -0.000123, nil}, {98765, 98800, nil}, {0, 0, nil}, {1e-300, 1e-300, nil}, {1.2345e300, 1.23e300, nil}} {
		if got := one[float64](w, w.super, `SELECT dp_int.rounded($1, dp_int.decimals($1, $2))`, c.value, c.err); got != c.shown {
			t.Errorf("%v with error %v is shown as %v", c.value, c.err, got)
		}
	}
	// Predictions near 0, or 1 for a probability, keep how far from there they are.
	for _, c := range []struct {
		model        string
		value, shown float64
		width        any
	}{
		{"linear", 27.39592268, 27.396, .0747}, {"linear", -3.14159, -3, 50.}, {"linear", 2014.3333333, 2014.3, nil}, {"linear", -271.8281828, -271.83, nil}, {"linear", math.NaN(), math.NaN(), nil}, {"linear", math.Inf(1), math.Inf(1), nil}, {"linear", 1.2345678e300, 1.2346e300, nil},
		{"logistic", 0.43219, 0.432, .1}, {"logistic", 0.0000123456, 0.000012, .1}, {"logistic", 0.99998765, 0.999988, .1}, {"logistic", 1, 1, .1}, {"logistic", 0, 0, .1},
		{"logistic", 0.4321987654, 0.4322, nil}, {"logistic", 0.9999876543, 0.999987654, nil}, {"logistic", 0.0000123456789, 0.000012346, nil}, {"logistic", 1, 1, nil}, {"poisson", 5.43219876, 5.4322, nil},
		{"poisson", 27.39592268, 27.396, .0747}, {"poisson", 0.0000123456, 0.000012, 4.}, {"poisson", 5.4321, 5.4, 4.},
	} {
		if got := one[float64](w, w.super, `SELECT dp_int.shown_prediction($1, $2, $3)`, c.model, c.value, c.width); got != c.shown && !(math.IsNaN(got) && math.IsNaN(c.shown)) {
			t.Errorf("%s: %v in an interval as wide as %v is shown as %v", c.model, c.value, c.width, got)
		}
	}
	// What dp_describe shows, with and without an interval, where it ends at the value, and where it reaches far to one side.
	for _, c := range []struct {
		value     float64
		low, high any
		shown     []float64
	}{
		{1192.0321, 1150.123, 1233.46789, []float64{1192, 1150, 1234}}, {2014.321, nil, nil, []float64{2014.3}}, {.60654321, .6007123, .6124321, []float64{.6065, .6007, .6124}},
		{803.12, 787.3341, 822.4819, []float64{803.1, 787.3, 822.5}}, {803.12, 803.12, 1022.4819, []float64{803.12, 803.12, 1022.49}}, {42311, 42311., 43211., []float64{42311, 42311, 43211}},
		{2014, 2014., 2014., []float64{2014, 2014, 2014}}, {1, .99943123, 1., []float64{1, .99943, 1}}, {0, 0., 0., []float64{0, 0, 0}},
		{2008, 2007., 3719437501757.125, []float64{2008, 2007, 3.8e12}}, {4.6e16, -1.2345678e19, 4.61e16, []float64{4.6e16, -1.24e19, 4.61e16}}, {-8.51234, -4e9, -8.01234, []float64{-8.51, -4e9, -8.01}},
		{.99964, .9917, 1., []float64{.9996, .9917, 1}}, // of a share
		{-.004, -3.1415930005, 3.1335930005, []float64{0, -3.2, 3.2}}, {1e15, 1e15, 1e15 + 5, []float64{1e15, 1e15, 1e15 + 5}},
	} {
		statistic := "median"
		if c.value < 1 && c.value > 0 {
			statistic = "usable_share"
		}
		got := one[[]float64](w, w.super, `SELECT array_remove(dp_int.rounded_described($4, ARRAY[$1, $2, $3]::float8[], NULL), NULL)`, c.value, c.low, c.high, statistic)
		if !slices.Equal(got, c.shown) {
			t.Errorf("%v, %v to %v is shown as %v", c.value, c.low, c.high, got)
		}
	}
	// A mean that has no interval is shown to two digits of half of what lies between the quartiles.
	for _, c := range []struct{ value, spread, shown float64 }{{38367.123, 30000, 38000}, {2013.43, 8, 2013.4}, {1.62250123e9, 3e7, 1.623e9}, {12.345, 0, 12.3}} {
		if got := one[float64](w, w.super, `SELECT (dp_int.rounded_described('mean', ARRAY[$1, NULL, NULL]::float8[], $2))[1]`, c.value, c.spread); got != c.shown {
			t.Errorf("the mean %v of a column that spreads by %v is shown as %v", c.value, c.spread, got)
		}
	}
	for _, v := range []string{"NaN", "Infinity", "-Infinity"} {
		if got := one[string](w, w.super, `SELECT dp_int.rounded($1::text::float8, dp_int.decimals($1::text::float8, NULL))::text`, v); got != v {
			t.Errorf("%s is shown as %s", v, got)
		}
	}
}

// Where there is nothing to test or no interval, the reason is told.
func TestResultsSayWhyThereAreNone(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.regressable("zcdp", 500, 1e-4)
	w.withIntervals(w.analyst, `SELECT * FROM dp_linear_regress($1, $2, 1e-5, features => '{age,region}')`, w.dataset, 20)
	good := w.released().id
	w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 20, 1e-5, features => '{age,region}', method => 'gd')`, w.dataset)
	bare := one[string](w, w.analyst, `SELECT dp_last_release($1)::text`, w.dataset)
	if n := one[int64](w, w.analyst, `SELECT count(*) FROM dp_summary($1) WHERE coef IS NOT NULL AND std_err IS NULL AND t IS NULL AND why_null LIKE '%no standard errors%' AND coef::text ~ '^-?[0.]*([1-9][0-9]{0,2}0*|[1-9]\.[0-9]{1,2}|[1-9][0-9]\.[0-9])(e[+-][0-9]+)?$'`, bare); n != 3 {
		t.Error(all[string](w, w.analyst, `SELECT s::text FROM dp_summary($1) s`, bare))
	}
	if why := one[string](w, w.analyst, `SELECT why_null FROM dp_predict_interval($1, '{50,2}') WHERE ci_low IS NULL AND prediction <> dp_predict($1, '{50,2}') AND abs(prediction / dp_predict($1, '{50,2}') - 1) < 1e-4`, bare); why == "" {
		t.Error("no reason")
	}
	if why := one[string](w, w.analyst, `SELECT why_null FROM dp_predict_interval($1, '{50,NULL}') WHERE prediction IS NULL AND ci_low IS NULL`, good); why != "a feature is missing, or has a value that is no level" {
		t.Error(why)
	}
	_, err := w.analyst.Exec(context.Background(), `SELECT dp_test($1, '{nothing}')`, good)
	if w.wantError(err, "42703", `no coefficient "nothing"`); hint(err) != "It has (intercept), age, region." {
		t.Error(hint(err))
	}
	w.mustRegress(w.analyst, `SELECT * FROM dp_l1_regress($1, 20, features => '{age,region}')`, w.dataset)
	_, err = w.analyst.Exec(context.Background(), `SELECT dp_test(dp_last_release($1), '{age}')`, w.dataset)
	w.wantError(err, "55000", `no standard errors`)
	if advice := hint(err); advice != "dp_summary shows what this release has; asking anew is charged." { // no method of medians has them
		t.Error(advice)
	}
	w.exec(w.super, `CREATE TEMP TABLE kept AS SELECT * FROM dp_int.coefficient WHERE release = $1`, good)
	for _, c := range []struct{ release, terms, code, says, before string }{
		{good, `{age,nobody}`, "42703", `no coefficient "nobody"`, ``},
		{good, `{age,age}`, "22023", `each once`, ``},
		{good, `{age,NULL}`, "22023", `each once`, ``},
		{good, `{}`, "22023", `(intercept), age, region`, ``},
		{bare, `{age}`, "55000", `The default method without a penalty has them where rows, budget and tails allow. dp_summary shows`, ``},
		{good, `{age,region}`, "55000", `singular`, `UPDATE dp_int.coefficient c SET covariance[2] = c.std_err * (SELECT std_err FROM kept WHERE position = 2) WHERE release = '%s' AND position = 3`},
		{good, `{age,region}`, "55000", `degrees of freedom`, `UPDATE dp_int.coefficient SET df = 1 WHERE release = '%s'`},
		{good, `{age}`, "55000", `before dpsidecar kept the covariance`, `UPDATE dp_int.coefficient SET covariance = NULL WHERE release = '%s'`},
	} {
		if c.before != "" {
			w.exec(w.super, fmt.Sprintf(c.before, c.release))
		}
		_, err := w.analyst.Exec(context.Background(), `SELECT * FROM dp_test($1, $2::text::text[])`, c.release, c.terms)
		w.wantError(err, c.code, c.says)
		w.exec(w.super, `UPDATE dp_int.coefficient c SET covariance = k.covariance, df = k.df FROM kept k WHERE c.release = k.release AND c.position = k.position`)
	}
	w.exec(w.super, `UPDATE dp_int.coefficient SET covariance = NULL WHERE release = $1`, good)
	if why := one[string](w, w.analyst, `SELECT why_null FROM dp_predict_interval($1, '{50,2}') WHERE ci_low IS NULL`, good); why != "it is from before dpsidecar kept the covariance of coefficients" {
		t.Error(why)
	}
	w.exec(w.super, `UPDATE dp_int.coefficient c SET covariance = k.covariance FROM kept k WHERE c.release = k.release AND c.position = k.position`) // stewards see it in the examples of dp_help
}

// A flag that is the same in all rows has no interval, nor has the intercept, which nothing tells apart from it. The other
// coefficients have theirs, and can be tested. With 40,000 rows at eps 20 the slope's standard error is some .01.
func TestAFeatureThatNoiseHidesHasNoInterval(t *testing.T) {
	w := newWorld(t, 1, 0)
	name := w.dataset + "_constant"
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s AS SELECT 3 * age + random() + random() AS amount, age, true AS member, 1.0::float8 AS version, NULL::float8 AS gone, 1 + (random() < 0.5)::int AS sex FROM (SELECT random() AS age FROM generate_series(1, 40000)) AS r;
		GRANT SELECT ON public.%[1]s TO dp_sidecar`, name))
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age,member,version,gone,sex}', 200, 1e-4)`, name, "public."+name)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, name, w.person)
	// Of 400 fits 12 stretch what noise hides so far that the radius cuts all. Then nothing has an interval: five one after another are so with a probability of 2e-8.
	w.askUntil(w.analyst, `SELECT * FROM dp_linear_regress($1, $2, 1e-5, features => '{age,member}')`, name, 20, `bool_or(ci_low IS NOT NULL)`)
	id := one[string](w, w.analyst, `SELECT dp_last_release($1)::text`, name)
	shown := all[string](w, w.analyst, `SELECT concat_ws(' ', term, num_nulls(std_err, t, p_value, ci_low, ci_high), why_null LIKE 'noise hides how "member" varies%') FROM dp_summary($1)`, id)
	if want := []string{"(intercept) 5 t", "age 0", "member 5 t"}; !slices.Equal(shown, want) {
		t.Errorf("%q, want %q", shown, want)
	}
	if p := one[float64](w, w.analyst, `SELECT p_value FROM dp_test($1, '{age}')`, id); p > 0.001 {
		t.Errorf("a slope of 3 has p = %v", p)
	}
	if n := one[int](w, w.analyst, `SELECT count(*)::int FROM unnest(dp_covariance($1)) AS v WHERE v IS NULL`, id); n != 8 {
		t.Errorf("%d of 9 covariances are not known, want 8", n)
	}
	if n := one[int](w, w.analyst, `SELECT count(*)::int FROM dp_explain('linear', $1, 20, 1e-5, features => '{age,member}') AS e(line) WHERE e::text LIKE '%lacks intervals%noise hides how%member%varies%'`, name); n != 1 {
		t.Error("a forecast from that release does not say what it is worth")
	}
	_, err := w.analyst.Exec(context.Background(), `SELECT * FROM dp_test($1, '{age,member}')`, id)
	w.wantError(err, "55000", `coefficient "member" has no standard error: noise hides how "member" varies`)
	if why := one[string](w, w.analyst, `SELECT why_null FROM dp_predict_interval($1, '{0.5,1}') WHERE prediction IS NOT NULL AND ci_low IS NULL`, id); !strings.HasPrefix(why, `noise hides how "member" varies`) {
		t.Error(why)
	}
	// A column of numbers may hide what goes together with others, as a year without a center does: nothing has an interval then.
	w.askUntil(w.analyst, `SELECT * FROM dp_linear_regress($1, $2, 1e-5, features => '{age,version}')`, name, 20, `bool_and(why_null LIKE 'noise hides how "version" varies%')`)
	if n := one[int](w, w.analyst, `SELECT count(*)::int FROM dp_summary(dp_last_release($1)) WHERE ci_low IS NULL AND why_null LIKE 'noise hides how "version" varies%'`, name); n != 3 {
		t.Errorf("%d of 3 coefficients have no interval", n)
	}
	// Where no row says anything, because a column is never there or labels are other values, that is among the reasons told.
	w.askUntil(w.analyst, `SELECT * FROM dp_linear_regress($1, $2, 1e-5, features => '{age,gone}')`, name, 20, `bool_and(why_null LIKE 'noise hides %, or do few rows have a value in every column?%')`)
	w.askUntil(w.analyst, `SELECT * FROM dp_logistic_regress($1, $2, 1e-5, target => 'sex', features => '{age,member}', options => '{"negative_label": 7, "positive_label": 8}')`, name, 20, `bool_and(why_null LIKE 'noise hides %, or do few rows have one of the two labels and %')`)
	w.askUntil(w.analyst, `SELECT * FROM dp_logistic_regress($1, $2, 1e-5, target => 'sex', features => '{age}', options => '{"negative_label": 0, "positive_label": 1}')`, name, 20, `bool_and(why_null ~ 'no value of the target|one of the two labels')`)
}

// Probabilities have intervals within 0 and 1.
func TestIntervalsOfProbabilities(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.regressable("zcdp", 500, 1e-4)
	w.mustRegress(w.analyst, `SELECT * FROM dp_logistic_regress($1, 3, 1e-5, target => 'label', features => '{age,region}')`, w.dataset)
	r := one[string](w, w.analyst, `SELECT dp_last_release($1)::text`, w.dataset)
	w.exec(w.super, `UPDATE dp_int.coefficient SET std_err = 1, df = 50, ci_low = coef - 2, ci_high = coef + 2, p_value = 0.5, bias = NULL,
		covariance = array_fill(0::float8, ARRAY[position - 1]) || 1::float8 WHERE release = $1`, r)
	w.exec(w.super, `UPDATE dp_int.release SET why_null = NULL WHERE id = $1`, r)
	odds := func(p float64) float64 { return math.Log(p / (1 - p)) }
	got := one[[]float64](w, w.super, unroundedInterval, r, []float64{0.5, -1})
	half := distuv.StudentsT{Sigma: 1, Nu: 50}.Quantile(0.975) * math.Sqrt(1+0.25+1)
	for _, end := range []float64{odds(got[0]) - half - odds(got[1]), odds(got[0]) + half - odds(got[2])} {
		if math.Abs(end) > 1e-9 {
			t.Errorf("an end is off by %v", end)
		}
	}
	if !one[bool](w, w.analyst, `SELECT ci_low >= 0 AND ci_low <= prediction AND prediction <= ci_high AND ci_high <= 1 FROM dp_predict_interval($1, '{1e6,-1e9}')`, r) {
		t.Error("far from the data")
	}
}

// Who may not see a release sees nothing made of it; stewards and all to whom the data set is
// granted do.
func TestResultsAreForWhoMaySeeTheRelease(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.regressable("zcdp", 500, 1e-4)
	w.withIntervals(w.analyst, `SELECT * FROM dp_linear_regress($1, $2, 1e-5, features => '{age}')`, w.dataset, 20)
	release := w.released().id
	stranger := w.newAnalyst(w.person + "b")
	for _, sql := range []string{`SELECT * FROM dp_summary($1)`, `SELECT * FROM dp_test($1, '{age}')`, `SELECT dp_covariance($1)`, `SELECT * FROM dp_predict_interval($1, '{50}')`,
		`SELECT * FROM dp_predict_interval($1::uuid, '{50}')`} {
		w.exec(w.steward, sql, release)
		w.exec(stranger, sql, release)
		w.exec(w.steward, `SELECT dp_revoke($1, $2)`, w.dataset, w.person+"b")
		_, err := stranger.Exec(context.Background(), sql, release)
		w.wantError(err, "22023", "no release")
		w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset, w.person+"b")
		_, err = w.analyst.Exec(context.Background(), sql, one[string](w, w.super, `SELECT gen_random_uuid()::text`))
		w.wantError(err, "22023", "no release")
	}
}
