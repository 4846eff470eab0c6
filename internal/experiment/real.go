package experiment

import (
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/table"
)

// Column is a column of a table and its public scale.
type Column struct {
	Name  string
	Scale float64
}

// Folder holds the real tables.
type Folder struct {
	Dir  string
	Rows int // above 0: only the first rows of every table
}

// California, ClaimsLS, Adult and Covertype are fits of real tables. The judge is the excess of the mean
// loss over the least, for the first three in percent.
func (f Folder) California() *Task {
	return realTask("linear", percentAbove, sync.OnceValues(func() (*Table, error) {
		return f.Load("california_housing", Column{"median_house_value", 200000},
			Column{"median_income", 4}, Column{"housing_median_age", 30}, Column{"households", 500})
	}))
}

func (f Folder) ClaimsLS() *Task {
	return realTask("linear", percentAbove, sync.OnceValues(func() (*Table, error) {
		return f.Load("aus_auto_bi", Column{"claim_amount", 30000}, Column{"op_time", 50}, Column{"legal_rep", 1}, Column{"n_injured", 1})
	}))
}

func (f Folder) Adult() *Task {
	return realTask("logistic", percentAbove, sync.OnceValues(f.adult))
}

func (f Folder) adult() (*Table, error) {
	return f.Load("adult", Column{"income_gt_50k", 1}, Column{"age", 40}, Column{"education_num", 10}, Column{"hours_per_week", 40},
		Column{"sex_male", 1}, Column{"married", 1}, Column{"capital_gain", 10000})
}

func (f Folder) Covertype() *Task {
	return realTask("logistic", above, sync.OnceValues(func() (*Table, error) {
		return f.Load("covertype_92k", Column{"is_lodgepole", 1}, Column{"elevation", 3000}, Column{"slope", 20},
			Column{"horizontal_distance_to_hydrology", 300}, Column{"vertical_distance_to_hydrology", 50},
			Column{"horizontal_distance_to_roadways", 2000}, Column{"horizontal_distance_to_fire_points", 2000})
	}))
}

// AdultSplit draws 30,000 rows of Adult, fits 28,000 and measures the mean loss on the others; delta is one
// over the number of rows fitted.
func (f Folder) AdultSplit(model string) *Task {
	load := sync.OnceValues(f.adult)
	return &Task{Model: model, Delta: 1. / 28_000, draw: func(r *rand.Rand) (*Table, Judge, error) {
		t, err := load()
		if err != nil {
			return nil, nil, err
		}
		rows := r.Perm(t.N)[:min(t.N, 30_000)]
		fitted := len(rows) * 14 / 15
		return t.pick(rows[:fitted]), t.pick(rows[fitted:]).risk(model), nil
	}}
}

// CovertypeFull has all 54 features: ten measurements, and an indicator of each wilderness area and soil
// type. The judge is the excess of the mean log-loss plus lambda / 2 times the squared length of the slopes
// of scaled features.
func (f Folder) CovertypeFull(lambda float64) *Task {
	type posed struct {
		table *Table
		judge Judge
	}
	load := sync.OnceValues(func() (posed, error) {
		t, err := f.covertypeFull()
		if err != nil {
			return posed{}, err
		}
		risk := func(w []float64) float64 {
			square := 0.0
			for _, v := range w[1:] {
				square += v * v
			}
			return t.logLoss(w) + lambda/2*square
		}
		least := risk(t.fitLogisticRidge(lambda))
		return posed{t, func(w []float64) float64 { return risk(w) - least }}, nil
	})
	return &Task{Model: "logistic", Delta: 1e-3, draw: func(*rand.Rand) (*Table, Judge, error) {
		p, err := load()
		return p.table, p.judge, err
	}}
}

// covertypeFull divides every column by its public scale.
func (f Folder) covertypeFull() (*Table, error) {
	t, err := f.Load("covertype_92k", Column{"is_lodgepole", 1}, Column{"elevation", 3000}, Column{"aspect", 180}, Column{"slope", 20},
		Column{"horizontal_distance_to_hydrology", 300}, Column{"vertical_distance_to_hydrology", 50}, Column{"horizontal_distance_to_roadways", 2000},
		Column{"hillshade_9am", 200}, Column{"hillshade_noon", 200}, Column{"hillshade_3pm", 200}, Column{"horizontal_distance_to_fire_points", 2000},
		Column{"wilderness_area", 1}, Column{"soil_type", 1})
	if err != nil {
		return nil, err
	}
	areas, soils, numbers := t.X[10], t.X[11], t.X[:10]
	for j, x := range numbers {
		for i := range x {
			x[i] /= t.Scales[j]
		}
	}
	t.X = append(append(numbers, indicators(areas, 4)...), indicators(soils, 40)...)
	t.D, t.Scales = len(t.X)+1, make([]float64, len(t.X))
	for j := range t.Scales {
		t.Scales[j] = 1
	}
	return t, nil
}

// indicators returns a column for each of the codes 1 to most.
func indicators(codes []float64, most int) [][]float64 {
	columns := make([][]float64, most)
	for k := range columns {
		columns[k] = make([]float64, len(codes))
		for i, code := range codes {
			if int(code) == k+1 {
				columns[k][i] = 1
			}
		}
	}
	return columns
}

// percentAbove and above return the excess of a loss over the least, relative in percent and absolute.
func percentAbove(loss, least float64) float64 { return 100 * (loss/least - 1) }
func above(loss, least float64) float64        { return loss - least }

// realTask returns a task with the same table in every draw, whose judge returns excess.
func realTask(model string, excess func(loss, least float64) float64, load func() (*Table, error)) *Task {
	return &Task{Model: model, Delta: 1e-6, draw: func(*rand.Rand) (*Table, Judge, error) {
		t, err := load()
		if err != nil {
			return nil, nil, err
		}
		loss, best := t.meanSquare, t.fitLinear
		if catalogue.Classifies(model) {
			loss, best = t.logLoss, t.fitLogistic
		}
		least := loss(best())
		return t, func(w []float64) float64 { return excess(loss(w), least) }, nil
	}}
}

// BlogLasso predicts comments from all features of the blog posts: 70% of the rows, drawn at random, are
// fitted, and the judge is the root mean square error on the others, in comments. delta is 1/n.
func (f Folder) BlogLasso() *Task {
	load := sync.OnceValues(func() (*Table, error) {
		names, err := f.header("blogfeedback_train")
		if err != nil {
			return nil, err
		}
		const target = "target_comments_24h"
		var features []Column
		for _, name := range names {
			if name != target {
				features = append(features, Column{name, blogScale(name)})
			}
		}
		return f.Load("blogfeedback_train", Column{target, 10}, features...)
	})
	const rows = 36678 // number fitted, of 52,397
	return &Task{Model: "linear", Delta: 1. / rows, draw: func(r *rand.Rand) (*Table, Judge, error) {
		t, err := load()
		if err != nil {
			return nil, nil, err
		}
		order, fitted := r.Perm(t.N), (7*t.N+9)/10
		train, test := t.pick(order[:fitted]), t.pick(order[fitted:])
		return train, func(w []float64) float64 { return math.Sqrt(test.meanSquare(w)) }, nil
	}}
}

// blogScale returns the public scale of a column: one for each group of columns, and separate ones for
// hours and characters.
func blogScale(name string) float64 {
	switch name {
	case "hours_since_publication":
		return 40
	case "post_length":
		return 3000
	}
	switch group, _, _ := strings.Cut(name, "_"); group {
	case "blog", "comments":
		return 30
	case "links":
		return 10
	}
	return 1
}

// pick returns a table of the given rows.
func (t *Table) pick(rows []int) *Table {
	part := &Table{Data: table.Data{Shape: t.Shape}, Scales: t.Scales, TargetScale: t.TargetScale}
	part.N = len(rows)
	take := func(x []float64) []float64 {
		some := make([]float64, len(rows))
		for i, row := range rows {
			some[i] = x[row]
		}
		return some
	}
	part.Y = take(t.Y)
	if t.Exposure != nil {
		part.Exposure = take(t.Exposure)
	}
	for _, x := range t.X {
		part.X = append(part.X, take(x))
	}
	return part
}

func (f Folder) header(file string) (names []string, err error) {
	err = f.open(file, func(r *csv.Reader) error {
		names, err = r.Read()
		return err
	})
	return names, err
}

// Load reads columns of a compressed CSV file.
func (f Folder) Load(file string, target Column, features ...Column) (*Table, error) {
	t := &Table{Data: table.Data{Shape: table.Shape{D: len(features) + 1, Intercept: true}}, TargetScale: target.Scale}
	for _, c := range features {
		t.Scales = append(t.Scales, c.Scale)
	}
	columns := make([][]float64, len(features)+1)
	err := f.open(file, func(r *csv.Reader) error {
		names, err := r.Read()
		if err != nil {
			return err
		}
		from, err := positions(slices.Clone(names), append([]Column{target}, features...))
		if err != nil {
			return err
		}
		for f.Rows == 0 || t.N < f.Rows {
			row, err := r.Read()
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return err
			}
			for j, k := range from {
				v, err := strconv.ParseFloat(row[k], 64)
				if err != nil {
					return err
				}
				columns[j] = append(columns[j], v)
			}
			t.N++
		}
		return nil
	})
	t.Y, t.X = columns[0], columns[1:]
	return t, err
}

func positions(names []string, columns []Column) (from []int, err error) {
	for _, c := range columns {
		k := slices.Index(names, c.Name)
		if k < 0 {
			return nil, fmt.Errorf("no column %s", c.Name)
		}
		from = append(from, k)
	}
	return from, nil
}

func (f Folder) open(file string, read func(*csv.Reader) error) error {
	packed, err := os.Open(filepath.Join(f.Dir, file+".csv.gz"))
	if err != nil {
		return err
	}
	defer packed.Close()
	text, err := gzip.NewReader(packed)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	r := csv.NewReader(text)
	r.ReuseRecord = true
	if err := read(r); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
