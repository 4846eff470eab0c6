package tests

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// product is one row of dp_moments.
type product struct {
	A, B       string
	Sum, Noise float64
}

// fromMoments is one row of dp_linear_from_moments.
type fromMoments struct {
	Term                     string
	Coef                     float64
	StdErr, Low, High, Noise *float64
	Why                      *string
}

const askMoments = `SELECT * FROM dp_moments($1, $2)`

func TestSecondMomentsAreChargedOnceAndFitFree(t *testing.T) {
	w := newWorld(t, 200, 1e-4)
	first := rowsOf[product](w, w.analyst, askMoments, w.dataset, 50.0)
	entries, spent := w.entries(), w.spent()
	if again := rowsOf[product](w, w.analyst, askMoments, w.dataset, 50.0); !reflect.DeepEqual(again, first) || w.entries() != 1 || len(first) != 15 {
		t.Errorf("the same again is %v, not %v; %d entries", again, first, w.entries())
	}
	// A normal law is beyond 8 deviations with a probability of 1e-15.
	for k, want := range w.products() {
		if math.Abs(first[k].Sum-want) > 8*first[k].Noise+1e-3*math.Abs(want) {
			t.Errorf("%+v, in the table %v", first[k], want)
		}
	}
	lost, lostNoise := one[float64](w, w.analyst, `SELECT lost_weight FROM dp.moments WHERE dataset = $1`, w.dataset), one[float64](w, w.analyst, `SELECT lost_weight_noise FROM dp.moments WHERE dataset = $1`, w.dataset)
	for _, c := range []struct {
		target, features string
		kept             []int // of (intercept), age, region, insured, amount; the target last
	}{
		{"amount", "{age,region,insured}", []int{0, 1, 2, 3, 4}},
		{"age", "{amount,insured}", []int{0, 4, 3, 1}},
		{"amount", "{}", []int{0, 4}},
	} {
		for _, ridge := range []*float64{nil, new(float64)} {
			got := rowsOf[fromMoments](w, w.analyst, `SELECT * FROM dp_linear_from_moments($1, NULL, $2, $3, $4)`, w.dataset, c.target, c.features, ridge)
			w.sameFit(got, momentFit(first, c.kept, ridge != nil, lost, lostNoise))
		}
	}
	plain := rowsOf[fromMoments](w, w.analyst, `SELECT * FROM dp_linear_from_moments($1)`, w.dataset)
	for j, want := range []float64{10, 0, 0} { // amount = 100 + 10 age + what is independent; 7 standard errors are exceeded once in 1e11 runs
		if got := plain[1+j]; got.Why != nil || math.Abs(got.Coef-want) > 7**got.StdErr {
			t.Errorf("%+v, want %v", got, want)
		}
	}
	if w.entries() != entries || w.spent() != spent {
		t.Error("a fit from moments was charged")
	}
	w.exec(w.analyst, `CALL dp_run('moments', $1, 20, features => '{age,amount}')`, w.dataset)
	if n := one[int](w, w.analyst, `SELECT count(*)::int FROM dp.moments WHERE dataset = $1 AND rows = 1000 AND abs(row_length - 1.5 * sqrt(cardinality(terms) - 1)) < 1e-9`, w.dataset); n != 2 {
		t.Errorf("%d releases in dp.moments", n)
	}
	if n := len(w.mustRegress(w.analyst, `SELECT r.* FROM dp.jobs j, dp_result(j.id) r WHERE j.dataset = $1 AND j.eps = 20`, w.dataset)); n != 6 {
		t.Errorf("dp_result has %d rows", n)
	}
	if bad := one[int](w, w.steward, `SELECT count(*)::int FROM dp_verify() WHERE NOT ok`); bad != 0 {
		t.Error("dp_verify finds fault")
	}
}

// products are the sums over the rows of worldIn, by pairs of terms, as nobody but a superuser may see them.
func (w *world) products() []float64 {
	w.Helper()
	return all[float64](w, w.super, `WITH scaled AS (SELECT ARRAY[1, age / 40, region / 4.0, insured::int, amount / 500]::float8[] AS z FROM public.`+w.dataset+`),
		cut AS (SELECT z, least(1, 9 / (SELECT sum(v * v) FROM unnest(z) v)) AS weight FROM scaled)
		SELECT sum(weight * z[i] * z[k]) FROM cut, generate_series(1, 5) i, generate_series(i, 5) k GROUP BY i, k ORDER BY i, k`)
}

// momentFit computes what dp_linear_from_moments is to return from what dp_moments did, by
// another route, in the units of worldIn.
func momentFit(products []product, kept []int, unshrunk bool, lost, lostNoise float64) (fits []fromMoments) {
	scales := []float64{1, 40, 4, 1, 500}
	full, k := mat.NewSymDense(5, nil), 0
	for i := range 5 {
		for j := i; j < 5; j++ {
			full.SetSym(i, j, products[k].Sum)
			k++
		}
	}
	d, noise := len(kept)-1, products[0].Noise
	h, g := mat.NewSymDense(d, nil), mat.NewVecDense(d, nil)
	for i := range d {
		g.SetVec(i, full.At(kept[i], kept[d]))
		for j := range d {
			h.SetSym(i, j, full.At(kept[i], kept[j]))
		}
	}
	var plain, shrunk, squared mat.VecDense
	var inverse mat.Dense
	if inverse.Inverse(h) != nil || plain.SolveVec(h, g) != nil {
		panic("singular moments")
	}
	var normal mat.Dense // (H^2 + lambda) b = H g
	normal.Mul(h, h)
	for i := range d {
		normal.Set(i, i, normal.At(i, i)+noise*noise*float64(d+1))
	}
	squared.MulVec(h, g)
	if shrunk.SolveVec(&normal, &squared) != nil {
		panic("singular moments")
	}
	if unshrunk {
		shrunk = plain
	}
	var toward mat.VecDense
	toward.MulVec(&inverse, &plain)
	length := 1 + mat.Dot(&plain, &plain)
	yy := full.At(kept[d], kept[d])
	residual := (max(0, yy-mat.Dot(&plain, g)) + noise*noise/2*(length*mat.Trace(&inverse)+mat.Dot(&plain, &toward))) / (full.At(0, 0) - float64(d))
	var second mat.Dense
	second.Mul(&inverse, &inverse)
	for j := range d {
		unit := scales[kept[d]] / scales[kept[j]]
		byNoise := noise * noise / 2 * (length*second.At(j, j) + toward.AtVec(j)*toward.AtVec(j))
		deviation, ofNoise := unit*math.Sqrt(residual*inverse.At(j, j)+byNoise), unit*math.Sqrt(byNoise)
		bias := 5 * max(0, lost-lostNoise) * unit * math.Sqrt(residual*inverse.At(j, j)/full.At(0, 0))
		if j == 0 {
			bias = max(bias, 2.5*3*unit*max(0, lost)/full.At(0, 0)) // rows are 3 long
		}
		half := deviation * quantileWithBias(bias/deviation)
		low, high := unit*plain.AtVec(j)-half, unit*plain.AtVec(j)+half
		fits = append(fits, fromMoments{products[kept[j]].B, unit * shrunk.AtVec(j), &deviation, &low, &high, &ofNoise, nil})
	}
	return fits
}

// quantileWithBias is the 95 % quantile of |N(bias, 1)|.
func quantileWithBias(bias float64) float64 {
	low, high := 0., bias+3
	for range 60 {
		if c := (low + high) / 2; math.Erfc((c-bias)/math.Sqrt2)/2+math.Erfc((c+bias)/math.Sqrt2)/2 > 0.05 {
			low = c
		} else {
			high = c
		}
	}
	return low
}

// sameFit compares fits up to rounding, and intervals up to the quantile of Student's law.
func (w *world) sameFit(got, want []fromMoments) {
	w.Helper()
	if len(got) != len(want) {
		w.Fatalf("%v, want %v", got, want)
	}
	for j, g := range got {
		v := want[j]
		if g.Why != nil || g.Term != v.Term || !closeTo(g.Coef, v.Coef, 1e-9) || !closeTo(*g.StdErr, *v.StdErr, 1e-9) || !closeTo(*g.Noise, *v.Noise, 1e-9) ||
			math.Abs(*g.Low-*v.Low) > 0.01**v.StdErr || math.Abs(*g.High-*v.High) > 0.01**v.StdErr {
			w.Errorf("%s: %v %v %v (%v %v), want %s: %v %v %v (%v %v)", g.Term, g.Coef, *g.StdErr, *g.Noise, *g.Low, *g.High, v.Term, v.Coef, *v.StdErr, *v.Noise, *v.Low, *v.High)
		}
	}
}

// Whoever asks for moments afresh at the same eps is answered from these: the first release of an account has a little less
// noise. Where later ones have much more of it, a NOTICE says that they are not used.
func TestFreshMomentsAreUsed(t *testing.T) {
	w := newWorld(t, 200, 1e-4)
	conn, heard := w.listening(w.person)
	slope := func() float64 {
		return rowsOf[fromMoments](w, conn, `SELECT * FROM dp_linear_from_moments($1, features => '{age}')`, w.dataset)[1].Coef
	}
	w.exec(conn, `SELECT * FROM dp_moments($1, 20)`, w.dataset)
	if got := slope(); math.Abs(got-10) > 4 {
		t.Fatalf("slope %v", got)
	}
	w.exec(w.super, `UPDATE `+w.dataset+` SET amount = -amount`)
	w.exec(conn, `SELECT * FROM dp_moments($1, 20, fresh => true)`, w.dataset)
	if got := slope(); math.Abs(got+10) > 4 {
		t.Errorf("after fresh moments of another table the slope is %v", got)
	}
	if said := strings.Join(heard(), "\n"); strings.Contains(said, "are not used") {
		t.Error(said)
	}
	w.exec(conn, `SELECT * FROM dp_moments($1, 5, fresh => true)`, w.dataset)
	if got := slope(); math.Abs(got+10) > 4 {
		t.Errorf("after moments with more noise the slope is %v", got)
	}
	if said := strings.Join(heard(), "\n"); !strings.Contains(said, "have more noise and are not used") {
		t.Error(said)
	}
}

func closeTo(a, b, share float64) bool { return math.Abs(a-b) <= share*math.Max(1, math.Abs(b)) }

func TestBadRequestsOfMomentsAreRefused(t *testing.T) {
	w := newWorld(t, 1, 1e-6)
	for sql, want := range map[string][2]string{
		`SELECT * FROM dp_moments($1, 0)`:                                                {"22023", "eps must be a positive"},
		`SELECT * FROM dp_moments($1, 0.5, 0)`:                                           {"22023", "need a delta"},
		`SELECT * FROM dp_moments($1, 0.5, columns => '{age,note}')`:                     {"42703", "not registered"},
		`SELECT * FROM dp_moments($1, 5)`:                                                {"DP002", ""},
		`SELECT dp_submit('moments', $1, 0.5, target => 'age')`:                          {"22023", "no target"},
		`SELECT dp_submit('moments', $1, 0.5, options => '{"radius": 2}')`:               {"22023", "no options but"},
		`SELECT * FROM dp_linear_from_moments($1 || '_')`:                                {"42501", "not granted"},
		`SELECT * FROM dp_linear_from_moments($1)`:                                       {"55000", "no second moments"},
		`SELECT * FROM dp_linear_from_moments($1, daterange('2026-01-01', NULL))`:        {"22023", "two ends"},
		`SELECT * FROM dp_linear_from_moments($1, ridge => -1)`:                          {"22023", "ridge must be"},
		`SELECT * FROM dp_linear_from_moments($1, ridge => 'NaN')`:                       {"22023", "ridge must be"},
		`SELECT * FROM dp_linear_from_moments($1, target => 'note')`:                     {"42703", "not registered"},
		`SELECT * FROM dp_linear_from_moments($1, target => 'age', features => '{age}')`: {"22023", "every column once"},
	} {
		_, err := w.analyst.Exec(context.Background(), sql, w.dataset)
		w.wantError(err, want[0], want[1])
		if h := hint(err); !strings.Contains(h, "budget") && !strings.Contains(h, "free") {
			t.Errorf("%s: hint %q", sql, h)
		}
	}
	if w.entries() != 0 {
		t.Errorf("%d entries", w.entries())
	}
	other := newWorld(t, 1, 1e-6)
	rowsOf[product](w, other.analyst, askMoments, other.dataset, 0.5)
	for _, sql := range []string{`SELECT * FROM dp_linear_from_moments($1, features => '{}')`, askMoments[:len(askMoments)-3] + `0.5)`} {
		_, err := w.analyst.Exec(context.Background(), sql, other.dataset)
		w.wantError(err, "42501", "not granted")
	}
	if n := one[int](w, w.analyst, `SELECT count(*)::int FROM dp.moments WHERE dataset = $1`, other.dataset); n != 0 {
		t.Errorf("%d releases of somebody else's data set are seen", n)
	}
	rowsOf[fromMoments](w, w.steward, `SELECT * FROM dp_linear_from_moments($1, features => '{}')`, other.dataset)
}

// Daily moments: each day is charged once, any window of days, target and subset of columns is
// free afterwards, each row in one release of those that make up a window, and a day without
// moments is named.
func TestDailyMomentsServeEveryWindow(t *testing.T) {
	w := newWorld(t, 1, 0)
	name := w.admissions(6000, 1e-5)
	day := func(back int) string {
		return one[string](w, w.super, `SELECT to_char((now() AT TIME ZONE 'UTC')::date - $1::int, 'YYYY-MM-DD')`, back)
	}
	window := func(from, to int) string { return "[" + day(from) + "," + day(to) + ")" }
	for back := 5; back > 1; back-- {
		w.exec(w.analyst, `CALL dp_run('moments', $1, 1000, over => $2::text::daterange)`, name, window(back, back-1))
	}
	rowsOf[product](w, w.analyst, `SELECT * FROM dp_moments($1, 1000, over => $2::text::daterange)`, name, window(5, 3)) // two days with the noise of one
	rowsOf[product](w, w.analyst, `SELECT * FROM dp_moments($1, 250, over => $2::text::daterange)`, name, window(3, 1))  // with more than that of two
	rowsOf[product](w, w.analyst, `SELECT * FROM dp_moments($1, 250, over => $2::text::daterange)`, name, window(9, 6))  // reaches beyond all windows below
	entries := one[int64](w, w.steward, `SELECT entries FROM dp.budget WHERE dataset = $1`, name)
	for _, c := range []struct {
		window   string
		releases []string
	}{{window(5, 1), []string{window(5, 3), window(3, 2), window(2, 1)}}, {window(4, 2), []string{window(4, 3), window(3, 2)}}} {
		chosen := all[string](w, w.super, `SELECT v.over::text FROM dp_int.dataset d,
			LATERAL dp_int.choose_moments(d, '{age,cost}', $2::text::daterange) c, unnest(c.releases) r, dp.moments v WHERE v.release = r AND d.name = $1 ORDER BY v.over`, name, c.window)
		if !reflect.DeepEqual(chosen, c.releases) {
			t.Errorf("%s is made up of %v, not %v", c.window, chosen, c.releases)
		}
		fit := rowsOf[fromMoments](w, w.analyst, `SELECT * FROM dp_linear_from_moments($1, $2::text::daterange)`, name, c.window)
		if g := fit[1]; g.Why != nil || math.Abs(g.Coef-2) > 5**g.StdErr+0.2 || !(*g.Noise < *g.StdErr) { // cost = 2 age + what is independent
			t.Errorf("%s: %+v", c.window, g)
		}
	}
	other := rowsOf[fromMoments](w, w.analyst, `SELECT * FROM dp_linear_from_moments($1, $2::text::daterange, 'age', '{cost}')`, name, window(5, 1))
	if other[1].Term != "cost" || math.Abs(other[1].Coef-0.4) > 5**other[1].StdErr+0.1 { // 2 / (4 + 1)
		t.Errorf("%+v", other)
	}
	_, err := w.analyst.Exec(context.Background(), `SELECT * FROM dp_linear_from_moments($1, $2::text::daterange)`, name, window(7, 0))
	w.wantError(err, "55000", "cover "+window(7, 5)+", "+window(1, 0))
	_, err = w.analyst.Exec(context.Background(), `SELECT * FROM dp_linear_from_moments($1)`, name)
	w.wantError(err, "22023", "needs a window")
	if n := one[int64](w, w.steward, `SELECT entries FROM dp.budget WHERE dataset = $1`, name); n != entries {
		t.Error("a fit from moments was charged")
	}
	// A day on which nobody came is released like any other.
	w.exec(w.super, `DELETE FROM public.`+name+` WHERE admitted_on = $1::text::date`, day(6))
	if said := w.explain(w.analyst, `SELECT * FROM dp_explain('moments', $1, 1000, over => $2::text::daterange)`, name, window(6, 5)); said["affordable"] != "yes" {
		t.Error(said)
	}
	if sums := rowsOf[product](w, w.analyst, `SELECT * FROM dp_moments($1, 1000, over => $2::text::daterange)`, name, window(6, 5)); math.Abs(sums[0].Sum) > 8*sums[0].Noise {
		t.Errorf("a day without rows: %v", sums)
	}
	w.exec(w.analyst, `SELECT * FROM dp_linear_from_moments($1, $2::text::daterange)`, name, window(6, 1))
	if wrong := w.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// A person may be in several of the blocks that a fit sums, and say the same in all: then four days tell no more
// than one does, and intervals are as wide, unless a steward states that nobody is in two blocks. Noise is a hundredth
// of the error of sampling here, so that the ratio of variances is 1, or 1/4, within a tenth.
func TestMomentsOfPersonsInSeveralBlocks(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.awayFromMidnight()
	for options, want := range map[string]float64{`{}`: 1, `{"one_block_a_person": "a test"}`: 0.25} {
		name := fmt.Sprintf("panel%d_%s", len(options), w.dataset)
		w.exec(w.super, `CREATE TABLE public.`+name+` AS SELECT i AS patient, x AS age, 2 * x + 4 * (random() - 0.5) AS cost, (now() AT TIME ZONE 'UTC')::date - 4 + g AS admitted_on
			FROM (SELECT i, random() - 0.5 AS x FROM generate_series(1, 1000) AS i) AS r, generate_series(0, 3) AS g`)
		w.exec(w.super, `UPDATE public.`+name+` AS v SET cost = o.cost FROM public.`+name+` AS o WHERE o.patient = v.patient AND o.admitted_on = $1::date`, w.day(4))
		w.exec(w.super, `GRANT SELECT ON public.`+name+` TO dp_sidecar`)
		w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'cost', '{age}', 10000, 1e-4, '{"cost": 1.5, "age": 0.5}', unit => 'patient', persons => 1000, max_rows => 2,
			block => 'admitted_on', block_width => '1 day', block_origin => $3::date, block_is_fixed => 'nobody may update it', options => $4)`, name, "public."+name, w.day(4), options)
		w.exec(w.steward, `SELECT dp_grant($1, $2)`, name, w.person)
		for back := 4; back > 0; back-- {
			w.exec(w.analyst, `CALL dp_run('moments', $1, 1000, over => $2::text::daterange)`, name, w.window(back, back-1))
		}
		sampling := func(window string) float64 {
			g := rowsOf[fromMoments](w, w.analyst, `SELECT * FROM dp_linear_from_moments($1, $2::text::daterange)`, name, window)[1]
			if g.Why != nil || !(*g.Noise < 0.2**g.StdErr) {
				t.Fatalf("%s: %+v", window, g)
			}
			return *g.StdErr**g.StdErr - *g.Noise**g.Noise
		}
		if ratio := sampling(w.window(4, 0)) / sampling(w.window(4, 3)); math.Abs(ratio/want-1) > 0.2 {
			t.Errorf("%s: the variance of four days is %.2f of that of one, want %v", options, ratio, want)
		}
	}
}

// A day that was released while it ran may lack rows: whoever fits it is told, and where it was released again
// afterwards that release serves, though it has more noise. What weight is lost to is told in words of the data set.
func TestMomentsThatWereReadEarly(t *testing.T) {
	w := newWorld(t, 1, 0)
	name := w.admissions(600, 1e-5)
	w.exec(w.steward, `SELECT dp_unregister($1)`, name)
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'cost', '{age}', 600, 1e-5, '{"cost": 2, "age": 1}', block_rows => 100, block => 'admitted_on', block_width => '1 day',
		block_origin => (now() AT TIME ZONE 'UTC')::date - 200, block_is_fixed => 'nobody may update it')`, name, "public."+name)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, name, w.person)
	analyst, heard := w.listening(w.person)
	const fit, early = `SELECT * FROM dp_linear_from_moments($1, $2::text::daterange)`, "may lack rows"
	for _, window := range []string{w.window(0, -1), w.window(2, 1)} {
		w.exec(analyst, `SELECT * FROM dp_moments($1, 100, over => $2::text::daterange)`, name, window)
		before := len(heard())
		w.exec(analyst, fit, name, window)
		said := strings.Join(heard()[before:], "\n")
		if !strings.Contains(said, "fewer than the 100 that are registered") || strings.Contains(said, early) != (window == w.window(0, -1)) {
			t.Errorf("%s: %s", window, said)
		}
	}
	readAtNoon := func(back int) { // as if it had been read at noon of its day
		w.exec(w.super, `UPDATE dp_int.release SET read_at = $2::date + interval '12 hours' WHERE id = (SELECT release FROM dp.moments WHERE dataset = $1 AND over = $3::text::daterange)`, name, w.day(back), w.window(back, back-1))
	}
	readAtNoon(2)
	w.exec(analyst, fit, name, w.window(2, 1))
	if said := heard(); !strings.Contains(said[len(said)-1], w.window(2, 1)+" were read before") {
		t.Errorf("%q", said)
	}
	w.exec(analyst, `SELECT * FROM dp_moments($1, 50, over => $2::text::daterange)`, name, w.window(2, 1))
	before := len(heard())
	w.exec(analyst, fit, name, w.window(2, 1))
	if said := strings.Join(heard()[before:], "\n"); strings.Contains(said, early) {
		t.Errorf("what was read early serves before what was not: %s", said)
	}
	w.exec(analyst, `SELECT * FROM dp_moments($1, 100, over => $2::text::daterange)`, name, w.window(1, 0))
	readAtNoon(1)
	before = len(heard())
	w.exec(analyst, fit, name, w.window(2, 0))
	if said := strings.Join(heard()[before:], "\n"); !strings.Contains(said, "moments of "+w.window(1, 0)+" were read before") {
		t.Errorf("beside a day that was read early alone: %s", said)
	}
	w.exec(w.steward, `SELECT dp_set_scales($1, '{"cost": 3}')`, name)
	w.exec(w.analyst, `SELECT * FROM dp_moments($1, 50, over => $2::text::daterange)`, name, w.window(3, 2))
	_, err := w.analyst.Exec(context.Background(), fit, name, w.window(3, 1))
	w.wantError(err, "55000", "other columns or scales")
}

// The page on daily moments runs as it tells, and finds what its table is made with.
func TestThePageOnDailyMomentsRuns(t *testing.T) {
	s, err := shared() // no other test has its table
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, system: s}
	w.awayFromMidnight()
	people := w.people()
	w.runPage("how-to/daily-moments.md", people)
	// Five half widths, each of 1.96 deviations, miss with a probability far below 1e-6.
	for term, truth := range map[string]float64{"age": 40, "days": 500, "urgent": 900} {
		if !one[bool](w, people["analyst"], `SELECT abs($2 - (ci_low + ci_high) / 2) < 2.5 * (ci_high - ci_low) FROM dp_linear_from_moments('visits', dp_last('visits', 7)) WHERE term = $1`, term, truth) {
			t.Errorf("%s is far from %v", term, truth)
		}
	}
}

// Intervals of fits from moments cover, whether sampling or noise makes most of the error. Of 480
// intervals at a true coverage of 95 %, 425 or fewer cover with probability below 1e-7, were they
// independent; those of one fit are not, so that draws are fixed besides.
func TestIntervalsFromMomentsCover(t *testing.T) {
	w := newWorld(t, 1, 0)
	truth := []float64{0.3, 0.5, -0.4, 0.2}
	for noise, rows := range map[float64]int{10: 500, 80: 2000} {
		r := rand.New(rand.NewPCG(4, 4))
		var sums [][]float64
		for range 120 {
			sums = append(sums, noisyProducts(r, truth, rows, noise))
		}
		var covered, all int
		var width float64
		err := w.super.QueryRow(context.Background(), `SELECT count(*) FILTER (WHERE abs(s.a[j] - ($2::float8[])[j]) < 1.96 * sqrt(s.covariance[5 * j - 4])), count(*), avg(sqrt(s.covariance[5 * j - 4] ))
			FROM jsonb_array_elements($1::jsonb) AS m, LATERAL dp_int.solve_moments(ARRAY(SELECT v::float8 FROM jsonb_array_elements_text(m) WITH ORDINALITY AS e(v, o) ORDER BY o), 5, $3, NULL, 1) AS s,
			     generate_series(1, 4) AS j WHERE s.why_null IS NULL`, sums, truth, noise).Scan(&covered, &all, &width)
		if err != nil || all < 460 || covered <= 425*all/480 || covered > 475*all/480 {
			t.Errorf("noise %v: %d of %d intervals cover, standard errors of %v: %v", noise, covered, all, width, err)
		}
	}
}

// Where a target bends and a feature has a tail, fits of shortened rows are not those of all rows: who fits is told how much
// weight is lost, and intervals allow for what that may do. They do where a release is from before that was known, too. With
// rows that are no longer than scales allow nothing is told, and intervals are narrow. A normal law is beyond 5 deviations
// with a probability below 1e-6.
func TestIntervalsFromMomentsAllowForShortening(t *testing.T) {
	w := newWorld(t, 1, 0)
	relation := "bent_" + w.dataset
	w.exec(w.super, `CREATE TABLE `+relation+` AS SELECT x, (x - 0.4) ^ 2 + 0.5 * e + 10 AS y
		FROM (SELECT sqrt(-2 * ln((i + 0.5) / 40000)) * cos(i * 2.399963) - 0.7 * ln((i * 7919 % 40000 + 0.5) / 40000) - 0.7 AS x, sin(i * 1.7) AS e FROM generate_series(0, 39999) AS i) AS r;
		GRANT SELECT ON `+relation+` TO dp_sidecar`)
	want := one[float64](w, w.super, `SELECT regr_slope(y, x) FROM `+relation)
	analyst, heard := w.listening(w.person)
	for k, scales := range []string{`{"x": 1.2, "y": {"center": 11.5, "scale": 2.5}}`, `{"x": 12, "y": {"center": 11.5, "scale": 25}}`} {
		name := fmt.Sprint(relation, k)
		w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'y', '{x}', 20, 1e-6, $3::text::jsonb)`, name, relation, scales)
		w.exec(w.steward, `SELECT dp_grant($1, $2)`, name, w.person)
		w.exec(analyst, `SELECT * FROM dp_moments($1, 5)`, name)
		fit := func() (slope fromMoments, told bool) {
			before := len(heard())
			slope = rowsOf[fromMoments](w, analyst, `SELECT * FROM dp_linear_from_moments($1)`, name)[1]
			return slope, strings.Contains(strings.Join(heard()[before:], "\n"), "of the weight of rows is lost")
		}
		slope, told := fit()
		reach := 1. // of half an interval, which allows for more than noise does
		if k == 1 {
			reach = 2.6 // of 1.96 deviations
		}
		if off := math.Abs(want - (*slope.Low+*slope.High)/2); off > reach*(*slope.High-*slope.Low)/2 || told != (k == 0) {
			t.Errorf("%s: from %v to %v, of all rows %v; told: %v", scales, *slope.Low, *slope.High, want, told)
		}
		if biased := math.Abs(slope.Coef-want) > 5**slope.StdErr; biased != (k == 0) {
			t.Errorf("%s: %v with a standard error of %v, of all rows %v", scales, slope.Coef, *slope.StdErr, want)
		}
		width := *slope.High - *slope.Low
		w.exec(w.super, `UPDATE dp_int.second_moments SET lost = NULL, lost_noise = NULL WHERE release IN (SELECT release FROM dp.moments WHERE dataset = $1)`, name)
		before, told := fit()
		if *before.High-*before.Low < 0.8*width || told || !strings.Contains(strings.Join(heard(), "\n"), "from before it was released how much weight") {
			t.Errorf("%s: %v wide, and %v where lost weight was not released; told: %v", scales, width, *before.High-*before.Low, told)
		}
	}
}

// noisyProducts are the sums of the products of 1, three features and the target over some rows,
// with noise of a standard deviation on the diagonal, as a full matrix.
func noisyProducts(r *rand.Rand, truth []float64, rows int, noise float64) []float64 {
	m, z := mat.NewSymDense(5, nil), make([]float64, 5)
	for range rows {
		z[0], z[4] = 1, truth[0]+0.7*r.NormFloat64()
		for j := 1; j < 4; j++ {
			z[j] = math.Exp(r.NormFloat64()/2) - 1
			z[4] += truth[j] * z[j]
		}
		m.SymRankOne(m, 1, mat.NewVecDense(5, z))
	}
	for i := range 5 {
		m.SetSym(i, i, m.At(i, i)+noise*r.NormFloat64())
		for k := range i {
			m.SetSym(i, k, m.At(i, k)+noise/math.Sqrt2*r.NormFloat64())
		}
	}
	full := make([]float64, 0, 25)
	for i := range 5 {
		for k := range 5 {
			full = append(full, m.At(i, k))
		}
	}
	return full
}
