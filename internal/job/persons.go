package job

import (
	"context"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/arrowio"
	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
)

// persons defines the persons of a data set and how they are counted. Without a unit every row in the
// window is a person. registered, if not nil, is used instead of a count. The number of persons is public;
// with a unit, the number of rows is private.
type persons struct {
	unit       *arrowio.Unit
	registered *int64
	window     *arrowio.Window
}

func (c *claim) persons() persons {
	if c.Dataset.Unit == nil {
		return persons{registered: c.Dataset.Rows, window: c.window()}
	}
	return persons{&arrowio.Unit{Column: *c.Dataset.Unit, MaxRows: c.Dataset.MaxRows}, c.Dataset.Persons, c.window()}
}

// count returns the number of persons in a relation.
func (p persons) count(ctx context.Context, conn *pgx.Conn, relation pgx.Identifier) (int64, error) {
	switch {
	case p.registered != nil:
		return *p.registered, nil
	case p.unit == nil:
		return arrowio.Count(ctx, conn, relation, p.window)
	}
	return arrowio.CountUnits(ctx, conn, relation, *p.unit)
}

// describe checks that the values of the unit column can identify persons.
func (p persons) describe(ctx context.Context, conn *pgx.Conn, relation pgx.Identifier) error {
	if p.unit == nil {
		return nil
	}
	return arrowio.DescribeUnit(ctx, conn, relation, *p.unit)
}

// data pulls the job's columns for n persons. For a description of a data set with a unit it takes one
// random row of each person, among the rows that are used, including rows with missing values.
func (c *claim) data(ctx context.Context, conn *pgx.Conn, n int64, src *mech.Source) (x table.Data, err error) {
	unit := c.persons().unit
	if unit == nil {
		record, err := arrowio.Pull(ctx, conn, c.pull(n), src)
		if err != nil {
			return x, err
		}
		return c.dataOf(record), nil
	}
	if c.describes() {
		unit.MaxRows, unit.Incomplete = 1, true
	}
	record, first, err := arrowio.PullUnits(ctx, conn, c.pull(n), *unit, src)
	switch {
	case err != nil:
		return x, err
	case c.describes():
		return c.dataOf(record), nil
	}
	return arrowio.Grouped(c.dataOf(record), first, *unit), nil
}

// dataOf returns a record's columns in the form that the job's model takes: a category is a column of level
// positions for a description, and one column for each term for a fit.
func (c *claim) dataOf(record arrow.Record) table.Data {
	if c.describes() {
		return arrowio.Positions(record, c.Request.WhereLevel)
	}
	x := arrowio.Data(record, c.Request.Intercept, c.by(), c.disk.Make)
	for option, place := range map[string]*[]float64{catalogue.Exposure: &x.Exposure, catalogue.Weight: &x.Weight, catalogue.Offset: &x.Offset} {
		if i := c.auxiliaryIndex(option); i >= 0 {
			*place = x.X[len(c.slopes())+i]
		}
	}
	x.D -= len(x.X) - len(c.slopes())
	x.X = x.X[:len(c.slopes())]
	return x
}

// auxiliaryIndex returns the index of an option's column among the columns that are read after the features;
// negative if the option is not set.
func (c *claim) auxiliaryIndex(option string) (place int) {
	if c.column(option) == "" {
		return -1
	}
	for _, other := range auxiliaryOptions[:slices.Index(auxiliaryOptions, option)] {
		if c.column(other) != "" {
			place++
		}
	}
	return place
}
