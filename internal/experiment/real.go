package experiment

import (
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"dpsidecar/internal/dpsco"
)

// Column is a column of a table and its public scale.
type Column struct {
	Name  string
	Scale float64
}

// California, ClaimsLS and Adult are fits of real tables in the folder dir; the
// judge is the excess of the mean loss over the best one, as a share of that.
func California(dir string) (*Task, error) {
	return real(dir, "california", "california_housing", "linear", Column{"median_house_value", 200000},
		Column{"median_income", 4}, Column{"housing_median_age", 30}, Column{"households", 500})
}

func ClaimsLS(dir string) (*Task, error) {
	return real(dir, "claims-ls", "aus_auto_bi", "linear", Column{"claim_amount", 30000}, Column{"op_time", 50}, Column{"legal_rep", 1}, Column{"n_injured", 1})
}

func Adult(dir string) (*Task, error) {
	return real(dir, "adult", "adult", "logistic", Column{"income_gt_50k", 1}, Column{"age", 40}, Column{"education_num", 10}, Column{"hours_per_week", 40},
		Column{"sex_male", 1}, Column{"married", 1}, Column{"capital_gain", 10000})
}

func real(dir, name, file, model string, target Column, features ...Column) (*Task, error) {
	t, err := Load(dir, file, target, features...)
	if err != nil {
		return nil, err
	}
	loss, best := t.meanSquare, t.fitLinear
	if model == "logistic" {
		loss, best = t.logLoss, t.fitLogistic
	}
	least := loss(best())
	judge := func(w []float64) float64 { return loss(w)/least - 1 }
	return &Task{Name: name, Model: model, Delta: 1e-6, Draw: func(*rand.Rand) (*Table, func([]float64) float64) { return t, judge }}, nil
}

// Load reads columns of a compressed CSV file.
func Load(dir, file string, target Column, features ...Column) (*Table, error) {
	f, err := os.Open(filepath.Join(dir, file+".csv.gz"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	rows, err := csv.NewReader(text).ReadAll()
	if err != nil {
		return nil, err
	}
	column := func(name string) ([]float64, error) {
		for j, header := range rows[0] {
			if header == name {
				return numbers(rows[1:], j)
			}
		}
		return nil, fmt.Errorf("%s has no column %s", file, name)
	}
	t := &Table{Data: dpsco.Data{Shape: dpsco.Shape{N: len(rows) - 1, D: len(features) + 1, Intercept: true}}, TargetScale: target.Scale}
	if t.Y, err = column(target.Name); err != nil {
		return nil, err
	}
	for _, c := range features {
		x, err := column(c.Name)
		if err != nil {
			return nil, err
		}
		t.X, t.Scales = append(t.X, x), append(t.Scales, c.Scale)
	}
	return t, nil
}

func numbers(rows [][]string, j int) ([]float64, error) {
	x := make([]float64, len(rows))
	for i, row := range rows {
		v, err := strconv.ParseFloat(row[j], 64)
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", i+2, err)
		}
		x[i] = v
	}
	return x, nil
}
