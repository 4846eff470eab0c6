package dpsco

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"dpsidecar/internal/catalogue"

	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/privacy"
	"dpsidecar/sql"
)

// inSQL are the numbers and words that the groups of a pattern match in the code of the database.
func inSQL(t *testing.T, pattern string) []string {
	t.Helper()
	found := regexp.MustCompile(pattern).FindAllStringSubmatch(sql.Code(), -1)
	if len(found) != 1 {
		t.Fatalf("%d matches of %s", len(found), pattern)
	}
	return found[0][1:]
}

func numbersInSQL(t *testing.T, pattern string) (out []float64) {
	t.Helper()
	for _, text := range inSQL(t, pattern) {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

// leastN is the least number of rows from which something holds.
func leastN(holds func(n int) bool) float64 {
	low, high := 1, 1<<40
	for low < high {
		if middle := (low + high) / 2; holds(middle) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return float64(high)
}

func near(t *testing.T, what string, got, want, least, most float64) {
	t.Helper()
	if ratio := got / want; !(ratio >= least && ratio <= most) {
		t.Errorf("%s: warnings.sql has %v, and plans %v", what, got, want)
	}
}

// Warnings of the database repeat bounds of plans as numbers (warnings.sql): where plans change, they must.
func TestWarningsHaveTheBoundsOfPlans(t *testing.T) {
	t.Run("rows_for_scales", func(t *testing.T) {
		pure := numbersInSQL(t, `greatest\((\d+) \* p_columns, (\d+) \* p_coefficients \^ 1\.5\) / p_eps`)
		normal := numbersInSQL(t, `ELSE (\d+) \* sqrt\(p_columns\) / nullif\(sqrt\(dp_int\.zcdp_rho`)
		for columns := 1; columns < 6; columns++ {
			near(t, "medians", pure[0]*float64(columns)/.5, leastN(func(n int) bool {
				return newStagedShares(table.Shape{N: n, D: columns, Intercept: true}, .5, .5, false, columns, 0).scales > 0
			}), 0.99, 1.01)
			const rho = 0.3
			near(t, "means, of which half are the fewest", normal[0]*math.Sqrt(float64(columns)/rho)/2, leastN(func(n int) bool {
				return shareForScales(math.Sqrt(float64(columns)/rho)/float64(n)) > 0
			}), 0.95, 1.05)
		}
		near(t, "stages", pure[1], enoughForStaged, 1, 1)
	})
	t.Run("rows_for_quantile", func(t *testing.T) {
		bounds := numbersInSQL(t, `THEN (\d+) / least\(o\.tau, 1 - o\.tau\) ELSE (\d+) END,\s+CASE o\.method WHEN 'auto' THEN (\d+) \*`)
		level := func(tau float64, weighted bool, n int) float64 {
			s := table.Shape{N: n, D: 2, Intercept: !weighted}
			return attainableLevel(tau, newStagedShares(s, .5, tau, true, 0, 0).quantileShift, n, weighted)
		}
		for _, tau := range []float64{.05, .1, .75, .9} {
			near(t, "weights", bounds[0]/min(tau, 1-tau)/.5, leastN(func(n int) bool { return level(tau, true, n) > 0 }), 1, 1.1)
			near(t, "no weights", bounds[1]/.5, leastN(func(n int) bool { return level(tau, false, n) > 0 }), 1, 1.1)
		}
		near(t, "stages", bounds[2], enoughForStaged, 1, 1)
	})
	t.Run("least_rows", func(t *testing.T) {
		pure := numbersInSQL(t, `CASE WHEN p_delta = 0 THEN (\d+) \* p_coefficients / p_eps`)[0]
		normal := numbersInSQL(t, `THEN greatest\((\d+) \* r\.root, (\d+)\) WHEN dp_int\.is_count\(p_model\) THEN (\d+) \* r\.root ELSE (\d+) \* p_coefficients END`)
		for model, a := range map[string]plan.Algorithm{"l1": L1{}, "linear": Regression{Loss: loss.Squared{}}, "huber": Regression{Loss: loss.Huber{}}, "logistic": Regression{Loss: loss.Logistic{}, Labels: true}, "poisson": Regression{Loss: loss.Poisson{}}} {
			for _, d := range []int{2, 5, 15} {
				s, b := table.Shape{N: 10_000, D: d, Intercept: true}, privacy.Budget{Epsilon: 1, Delta: 1e-6}
				root := math.Sqrt(1-math.Log(b.Delta)) - math.Sqrt(-math.Log(b.Delta))
				size := math.Sqrt(float64(d) / 2)
				got, accountant := normal[3]*float64(d)/root, privacy.Accountant(privacy.Concentrated{})
				switch model {
				case "l1":
					b.Delta, got, accountant = 0, pure*float64(d), privacy.PureSum{}
				case "logistic":
					got = max(normal[0]*size, normal[1]) / root
				case "poisson":
					got = normal[2] * size / root
				}
				near(t, model, got, float64(RowsFor(0.1, a, s, b, accountant)), 0.5, 1.5)
			}
		}
	})
	t.Run("looks_for_scales", func(t *testing.T) {
		listed := strings.Split(inSQL(t, `coalesce\(p_body #>> '\{options,method\}', 'auto'\) IN \('(.*?)'\)`)[0], "', '")
		shape := table.Shape{N: 200_000, D: 3, Intercept: true}
		losses := map[string]loss.Loss{"linear": loss.Squared{}, "huber": loss.Huber{}, "logistic": loss.Logistic{}, "poisson": loss.Poisson{}}
		known := map[string]bool{}
		for _, m := range catalogue.Models() {
			methods := m.Options[slices.IndexFunc(m.Options, func(o catalogue.Option) bool { return o.Name == "method" })].Choices
			for _, method := range methods {
				looks := false
				known[method] = true
				if m.Delta == 0 {
					chosen, _, err := (L1{Method: method}).choose(shape, 1)
					looks = err == nil && chosen == catalogue.MethodStaged
				} else {
					r := Regression{Loss: losses[m.Name], Labels: m.Labels, Method: method}
					p, err := withoutScales(r, shape).Algorithm.(Regression).withPublicFacts(withoutScales(r, shape)).(Regression).resolve(shape, privacy.Budget{Epsilon: 1, Delta: 1e-6}, privacy.Concentrated{})
					if err == nil {
						f, err := p.withNoise(5).fit()
						looks = err == nil && findsOf(f).scales
					}
				}
				if looks != slices.Contains(listed, method) {
					t.Errorf("%s by %s", m.Name, method)
				}
			}
		}
		for _, method := range listed {
			if !known[method] {
				t.Errorf("there is no method %s", method)
			}
		}
	})
}
