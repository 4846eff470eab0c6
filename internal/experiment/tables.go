package experiment

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/table"

	"gonum.org/v1/gonum/stat/distuv"
)

// source is a table for fits of a model: a real table, or a draw from a generator.
type source struct {
	name, model string
	open        func() (*Table, error)
}

// sources returns the tables for a model: every real table that is available, with public scales, and generators
// with the given number of rows.
func (c Config) sources(model string, rows int) []source {
	var all []source
	if c.Data != "" {
		all = c.folder().tables(model)
	}
	for _, l := range generatorsOf(model) {
		all = append(all, source{l.name, model, func() (*Table, error) { return l.table(rows, model, 1), nil }})
	}
	return all
}

// tables returns the real tables for a model.
func (f Folder) tables(model string) (all []source) {
	numbers, labels := f.Load, f.loadLabels
	add := func(name string, load func(string, Column, ...Column) (*Table, error), file string, target Column, features ...Column) {
		all = append(all, source{name, model, sync.OnceValues(func() (*Table, error) { return load(file, target, features...) })})
	}
	claims := []Column{{"op_time", 50}, {"legal_rep", 1}, {"n_injured", 1}}
	blog := []Column{{"blog_avg_comments_last24h", 10}, {"comments_last24h", 10}, {"links_last24h", 5}, {"hours_since_publication", 40}}
	people := []Column{{"age", 40}, {"education_num", 10}, {"sex_male", 1}, {"married", 1}, {"capital_gain", 10000}}
	policies := []Column{{"exposure", 1}, {"veh_power", 5}, {"veh_age", 10}, {"driv_age", 50}, {"density", 1000}, {"gas_diesel", 1}}
	trees := []Column{{"slope", 20}, {"horizontal_distance_to_hydrology", 300}, {"horizontal_distance_to_roadways", 2000}, {"horizontal_distance_to_fire_points", 2000}}
	funds := []Column{{"coverage_bc", 50}, {"ln_deduct_bc", 7}, {"no_claim_credit_bc", 1}}
	if catalogue.Classifies(model) {
		add("adult: income", labels, "adult", Column{"income_gt_50k", 1}, append(people, Column{"hours_per_week", 40})...)
		add("covertype: lodgepole", labels, "covertype_92k", Column{"is_lodgepole", 1}, append(trees, Column{"elevation", 3000}, Column{"vertical_distance_to_hydrology", 50})...)
		add("fremtpl2: any claim", labels, "fremtpl2_policies", Column{"claim_nb", 1}, append(policies, Column{"bonus_malus", 100})...)
		add("blogfeedback: any comment", labels, "blogfeedback_core", Column{"target_comments_24h", 10}, blog...)
		add("aus_auto_bi: lawyer", labels, "aus_auto_bi", Column{"legal_rep", 1}, Column{"op_time", 50}, Column{"n_injured", 1}, Column{"settle_delay", 20})
		add("lgpif: any claim", labels, "lgpif", Column{"any_claim_bc", 1}, funds...)
		return all
	}
	if catalogue.IsCount(model) {
		add("fremtpl2: claims", f.loadClaims, "fremtpl2_policies", Column{"claim_nb", 1}, append(policies[1:], Column{"bonus_malus", 100})...)
		add("blogfeedback: comments", numbers, "blogfeedback_core", Column{"target_comments_24h", 1}, blog...)
		add("aus_auto_bi: injured", numbers, "aus_auto_bi", Column{"n_injured", 1}, Column{"op_time", 50}, Column{"legal_rep", 1}, Column{"settle_delay", 20})
		add("lgpif: claims", numbers, "lgpif", Column{"freq_bc", 1}, funds...)
		return all
	}
	add("california", numbers, "california_housing", Column{"median_house_value", 200000}, Column{"median_income", 4}, Column{"housing_median_age", 30}, Column{"households", 500})
	add("aus_auto_bi", numbers, "aus_auto_bi", Column{"claim_amount", 30000}, claims...)
	add("blogfeedback_core", numbers, "blogfeedback_core", Column{"target_comments_24h", 10}, blog...)
	add("adult: hours", numbers, "adult", Column{"hours_per_week", 40}, append(people, Column{"capital_loss", 2000})...)
	add("covertype: elevation", numbers, "covertype_92k", Column{"elevation", 3000}, append(trees, Column{"hillshade_9am", 200}, Column{"hillshade_noon", 200})...)
	add("fremtpl2: bonus", numbers, "fremtpl2_policies", Column{"bonus_malus", 100}, policies...)
	add("fremtpl2: amount", numbers, "fremtpl2_policies", Column{"claim_amount_total", 1000}, policies...)
	add("lgpif", numbers, "lgpif", Column{"claim_bc", 10000}, funds...)
	return all
}

// loadLabels is Load with a target that is converted to labels: 1 where it is above 0.
func (f Folder) loadLabels(file string, target Column, features ...Column) (*Table, error) {
	t, err := f.Load(file, Column{target.Name, 1}, features...)
	if err == nil {
		for i, y := range t.Y {
			if t.Y[i] = 0; y > 0 {
				t.Y[i] = 1
			}
		}
	}
	return t, err
}

// loadClaims is Load of counts with a column of exposures.
func (f Folder) loadClaims(file string, target Column, features ...Column) (*Table, error) {
	t, err := f.Load(file, target, append(slices.Clone(features), Column{"exposure", 1})...)
	if err == nil {
		last := len(features)
		t.D, t.X, t.Scales, t.Exposure = t.D-1, t.X[:last], t.Scales[:last], t.X[last]
	}
	return t, err
}

// generator draws the features of a row and the error of its target, all of about the size 1. The models compute
// their targets from these with known coefficients.
type generator struct {
	name string
	row  func(x []float64, r *rand.Rand)
	e    func(x []float64, r *rand.Rand) float64 // symmetric, so that all models have the same coefficients

	effect  func(x []float64) float64 // added to predictions, so that the model does not hold; nil: none
	missing float64                   // share of rows whose first feature is missing

	// For counts, whose exposures lie between .05 and 1.
	constant float64 // the logarithm of the mean of a row of zeros is .3 more
	vary     float64 // the variance of a count is (1 + vary) times its mean
}

// rare is the share of rows in which a rare flag is 1.
const rare = 0.0075

var generators = []generator{
	{name: "generated: normal", row: normals, e: func(_ []float64, r *rand.Rand) float64 { return r.NormFloat64() }},
	{name: "generated: skewed rows, heavy errors", row: func(x []float64, r *rand.Rand) {
		for j := range x {
			x[j] = math.Exp(.6 * r.NormFloat64())
		}
	}, e: func(_ []float64, r *rand.Rand) float64 { return .6 * studentThree(r) }},
	{name: "generated: a rare flag", row: func(x []float64, r *rand.Rand) {
		normals(x, r)
		if x[0] = 0; r.Float64() < rare {
			x[0] = 1
		}
	}, e: func(_ []float64, r *rand.Rand) float64 { return r.NormFloat64() }},
	{name: "generated: badly conditioned", row: func(x []float64, r *rand.Rand) {
		common := r.NormFloat64()
		for j := range x {
			x[j] = 1 + .2*(math.Sqrt(.98)*common+math.Sqrt(.02)*r.NormFloat64())
		}
	}, e: func(_ []float64, r *rand.Rand) float64 { return .5 * r.NormFloat64() }},
	{name: "generated: heteroscedastic", row: normals, e: func(x []float64, r *rand.Rand) float64 { return r.NormFloat64() * (.2 + .8*math.Abs(x[0])) }},
}

func normals(x []float64, r *rand.Rand) {
	for j := range x {
		x[j] = r.NormFloat64()
	}
}

// studentThree draws from Student's t with three degrees of freedom.
func studentThree(r *rand.Rand) float64 {
	chi := 0.
	for range 3 {
		v := r.NormFloat64()
		chi += v * v / 3
	}
	return r.NormFloat64() / math.Sqrt(chi)
}

// generatedSlopes is the number of slopes in a generator's tables.
const generatedSlopes = 4

// countGenerators are additional generators for counts.
var countGenerators = []generator{
	{name: "generated: rare counts", row: normals, constant: -3.3},
	{name: "generated: large counts", row: normals, constant: 3},
	{name: "generated: varying counts", row: normals, vary: 2},
}

// generatorsOf returns the generators for a model. Counts do not use the errors of heteroscedastic generators.
func generatorsOf(model string) []generator {
	if catalogue.IsCount(model) {
		return slices.Concat(generators[:4], countGenerators)
	}
	return generators
}

// coefficients returns the generator's coefficients: the intercept, .3 plus the generator's constant, and the slopes.
func (l generator) coefficients(slopes int) []float64 {
	w := []float64{.3 + l.constant}
	for j := range slopes {
		w = append(w, math.Pow(-1, float64(j))*.6/math.Sqrt(float64(slopes)))
	}
	return w
}

// table draws a table. Labels follow the logistic model.
func (l generator) table(n int, model string, seed uint64) *Table {
	return l.draw(n, generatedSlopes, model, seed)
}

func (l generator) draw(n, slopes int, model string, seed uint64) *Table {
	r, w := rand.New(rand.NewPCG(seed, 77)), l.coefficients(slopes)
	t := &Table{Data: table.Data{Shape: table.Shape{N: n, D: slopes + 1, Intercept: true}, Y: make([]float64, n)}, TargetScale: 1}
	for range slopes {
		t.X, t.Scales = append(t.X, make([]float64, n)), append(t.Scales, 1)
	}
	x := make([]float64, slopes)
	for i := range n {
		l.row(x, r)
		z := w[0] + dot(x, w[1:])
		if l.effect != nil {
			z += l.effect(x)
		}
		for j, v := range x {
			t.X[j][i] = v
		}
		switch {
		case catalogue.IsCount(model):
			exposure := 1 - .95*r.Float64()
			t.Exposure = append(t.Exposure, exposure)
			t.Y[i] = l.count(exposure*math.Exp(z), r)
		case catalogue.Classifies(model):
			if r.Float64() < 1/(1+math.Exp(-z)) {
				t.Y[i] = 1
			}
		default:
			t.Y[i] = z + l.e(x, r)
		}
		if l.missing > 0 && r.Float64() < l.missing {
			t.X[0][i] = math.NaN()
		}
	}
	return t
}

// count draws a count with the given mean.
func (l generator) count(mean float64, r *rand.Rand) float64 {
	if l.vary > 0 { // mean of a Gamma distribution of variance vary mean
		mean = distuv.Gamma{Alpha: mean / l.vary, Beta: 1 / l.vary, Src: r}.Rand()
	}
	return distuv.Poisson{Lambda: max(mean, 1e-300), Src: r}.Rand()
}
