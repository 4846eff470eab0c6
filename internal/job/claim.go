package job

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/arrowio"
	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/ledger"
	"dpsidecar/internal/privacy"
	"dpsidecar/internal/spill"
	"dpsidecar/sql"
)

// claim is a job as dp_int.job_claim hands it out.
type claim struct {
	ID      string
	Token   string
	State   string // claimed, or reading if an earlier attempt was lost after its charge
	Attempt int
	Model   string
	Dataset struct {
		ID       int64
		Name     string
		Schema   string
		Relation string
		Scales   map[string]unit // of the columns of the request
		Flags    []string        // boolean columns of the request
		RowCount *int64          `json:"row_count"` // the last published count: of rows, or of persons if the data set has a unit
		Unit     *string
		MaxRows  int     `json:"max_rows"`
		Persons  *int64  // with a unit: the registered number of persons in the blocks that are read; nil: they are counted
		Rows     *int64  // without a unit: the registered number of rows in the blocks that are read; nil: they are counted
		Block    *string // column that determines the block of time of a row; nil: the data set has no blocks

		BlockType string `json:"block_type"`

		Placement    string   // where the rows may be: auto, memory or database; empty means auto
		Distribution *string  // how the table is distributed over nodes; nil: it is on one node
		Servers      []string // servers of its foreign partitions
		Nodes        int      // number of Citus nodes that share the rows about equally; 0: none
		Citus        bool     // whether the database has Citus, and its tables may be on other nodes

		Accounting string   // pure, zcdp or rdp
		Order      *float64 // order of the Renyi divergence; only under rdp
	}
	Request struct {
		Eps       float64
		Delta     float64
		Target    string
		Features  []string
		Intercept bool
		Options   map[string]any
		Release   string   // the release that is scored; only for a score
		Flags     []string // boolean columns; only for a description
		Whole     []string // columns of whole numbers; only for a description
		Over      []string // the window: its first day and the day after its last; nil without blocks

		Categories map[string][]string // levels of each category column
		WhereLevel map[string][]string `json:"where_level"` // levels of a category whose rows are used, if not all are
	}
	Alone    bool            // whether the job's charge may be the only one of its account
	Scored   *scored         // the release to score; nil if the job is not a score
	RowCount *int64          `json:"row_count"`
	Event    json.RawMessage // the event that an earlier attempt charged
	leftOut  int64           // number of rows or persons that a sample leaves out
	Former   *former         `json:"former"` // an earlier release of the same coefficients; only for a question of dp_explain

	at   placement   // where the rows of this attempt are; set when the job is planned
	disk *spill.File // the file that holds the rows if they are on disk

	snapshot time.Time // of the transaction that this attempt reads in; set at the point of no return

	versions []byte // of the functions that the relation called when it was checked first: see recheck

	shards *string // locations of the Citus shards when the transaction began; nil: no table of Citus
	nodes  *nodes  // connections to the nodes that are asked separately; nil: one connection shows all rows
}

func (c *claim) owner() ledger.Owner { return ledger.Owner{Job: c.ID, Token: c.Token} }

func (c *claim) relation() pgx.Identifier {
	return pgx.Identifier{c.Dataset.Schema, c.Dataset.Relation}
}

func (c *claim) reading() bool { return c.State == "reading" }

// columns returns the columns that a regression reads, in this order: target, features, the columns that
// options name (see auxiliaryOptions), and the category that divides the rows into groups, if there is one.
func (c *claim) columns() []string {
	columns := append([]string{c.Request.Target}, c.Request.Features...)
	for _, option := range auxiliaryOptions {
		if column := c.column(option); column != "" {
			columns = append(columns, column)
		}
	}
	if by := c.by(); by != "" {
		columns = append(columns, by)
	}
	return columns
}

// namedTwice returns a column that a fit would read twice; empty if there is none. Columns are told apart by their names.
func (c *claim) namedTwice() string {
	columns := c.columns()
	for i, column := range columns {
		if slices.Contains(columns[:i], column) {
			return column
		}
	}
	return ""
}

// by returns the category column that divides the rows into groups; empty without groups.
func (c *claim) by() string {
	if c.Scored != nil {
		return c.Scored.Parameters.By
	}
	by, _ := c.Request.Options["by"].(string)
	return by
}

// groups returns the levels that have a fit each; nil if there is one fit of all rows.
func (c *claim) groups() []string {
	groups, _ := c.levels(c.by())
	return groups
}

// auxiliaryOptions lists the options that name a column. Their columns are read after the features, in this order.
var auxiliaryOptions = []string{catalogue.Exposure, catalogue.Weight, catalogue.Offset}

// column returns the column that an option names; empty if the request does not set the option.
func (c *claim) column(option string) string { return catalogue.ColumnOf(c.Request.Options, option) }

// maxWeight returns the largest weight that a row may have; 0 without weights.
func (c *claim) maxWeight() float64 {
	most, _ := c.Request.Options[catalogue.MaxWeight].(float64)
	return most
}

// filters returns the columns that only decide whether a row is used.
func (c *claim) filters() (names []string) {
	columns := c.columns()
	for _, name := range slices.Sorted(maps.Keys(c.Request.WhereLevel)) {
		if !slices.Contains(columns, name) {
			names = append(names, name)
		}
	}
	return names
}

// pull returns the request that reads the job's columns, for the given number of rows or persons.
func (c *claim) pull(rows int64) arrowio.Request {
	filters := c.filters()
	return arrowio.Request{
		Relation: c.relation(), Columns: append(c.columns(), filters...), Filters: len(filters),
		Levels: c.Request.Categories, Only: c.Request.WhereLevel, Rows: rows, Where: c.window(), Make: c.disk.Make,
	}
}

// window returns the window of time whose rows are read; nil for all rows. Its blocks are the ones charged:
// the database derives both from the same request.
func (c *claim) window() *arrowio.Window {
	if c.Dataset.Block == nil {
		return nil
	}
	return &arrowio.Window{Column: *c.Dataset.Block, Type: c.Dataset.BlockType, From: c.Request.Over[0], To: c.Request.Over[1]}
}

// levels returns the levels of a category whose rows are used. ok reports whether column is a category.
func (c *claim) levels(column string) (levels []string, ok bool) {
	if levels, ok = c.Request.WhereLevel[column]; ok {
		return levels, ok
	}
	levels, ok = c.Request.Categories[column]
	return levels, ok
}

// interceptTerm is the name of the constant among the coefficients.
const interceptTerm = "(intercept)"

// terms returns the names of a fit's coefficients.
func (c *claim) terms() []string {
	slopes := c.slopes()
	if c.Request.Intercept {
		return append([]string{interceptTerm}, slopes...)
	}
	return slopes
}

// slopes returns the terms of all features.
func (c *claim) slopes() (terms []string) {
	for _, f := range c.Request.Features {
		terms = append(terms, c.slopesOf(f)...)
	}
	return terms
}

// isFlag reports whether the terms of a feature are always 0 or 1 by registration: those of boolean columns
// and of categories.
func (c *claim) isFlag(feature string) bool {
	_, category := c.levels(feature)
	return category || slices.Contains(c.Dataset.Flags, feature)
}

// slopesOf returns the terms of a feature: its name or, for a category, one term for every level but the
// first.
func (c *claim) slopesOf(feature string) []string {
	levels, ok := c.levels(feature)
	if !ok {
		return []string{feature}
	}
	var terms []string
	for _, level := range levels[1:] {
		terms = append(terms, feature+"="+level)
	}
	return terms
}

// sources returns the number of columns that a row of the design is made from, the intercept's included.
func (c *claim) sources() int {
	if c.Request.Intercept {
		return 1 + len(c.Request.Features)
	}
	return len(c.Request.Features)
}

// sampled returns how many of n rows or persons are fitted. All of them are read; sampled stores the number
// left out in the claim.
func (c *claim) sampled(n int64) int64 {
	fitted := n
	if sample, ok := c.Request.Options[catalogue.SampleRows].(float64); ok && sample < float64(n) {
		fitted = int64(sample)
	}
	c.leftOut = n - fitted
	return fitted
}

// options returns the options that the algorithm takes. Categories in them are replaced: a label by its
// position among the levels of the target, a category in a group by its terms.
func (c *claim) options() map[string]any {
	options := maps.Clone(c.Request.Options)
	delete(options, catalogue.SampleRows)
	for _, name := range []string{"negative_label", "positive_label"} {
		if label, ok := options[name].(string); ok {
			options[name] = c.position(label)
		}
	}
	if groups, ok := options["groups"].([]any); ok {
		options["groups"] = c.expandGroups(groups)
	}
	return options
}

// position returns the index of a level among those of the target.
func (c *claim) position(level string) float64 {
	levels, _ := c.levels(c.Request.Target)
	return float64(slices.Index(levels, level))
}

// expandGroups replaces the name of a category in groups by the category's terms.
func (c *claim) expandGroups(groups []any) (expanded []any) {
	for _, group := range groups {
		var terms []any
		names, _ := group.([]any)
		for _, name := range names {
			text, _ := name.(string)
			for _, term := range c.slopesOf(text) {
				terms = append(terms, term)
			}
		}
		expanded = append(expanded, terms)
	}
	return expanded
}

func (c *claim) shape(n int64) table.Shape {
	if c.describes() {
		return table.Shape{N: int(n), D: len(c.Request.Features)}
	}
	return table.Shape{N: int(n), D: len(c.terms()), Intercept: c.Request.Intercept, GroupCount: len(c.groups())}
}

func (c *claim) budget() privacy.Budget {
	return privacy.Budget{Epsilon: c.Request.Eps, Delta: c.Request.Delta}
}

// plan returns the plan of the job for n rows. It depends on public facts only.
func (s *Sidecar) plan(c *claim, n int64) (*plan.Plan, error) {
	p, err := s.planRequest(c, n)
	if err != nil || !c.Alone || !privacy.IsNoise(p.Event) {
		return p, err
	}
	// Where delta is tiny, or eps huge, being alone makes no difference.
	among, err := privacy.Concentrated{}.Epsilon(p.Event, c.Request.Delta-privacy.Reserve(c.Request.Delta))
	if among > c.Request.Eps {
		p.Event = privacy.Only{Event: p.Event}
	}
	return p, err
}

// planRequest is plan for an event that does not yet say whether it is to be the only one of its account.
func (s *Sidecar) planRequest(c *claim, n int64) (*plan.Plan, error) {
	if c.Scored != nil {
		return s.planScore(c, n)
	}
	if c.describes() {
		return s.planDescription(c, n)
	}
	algorithm, err := c.algorithm()
	if err != nil {
		return nil, err
	}
	algorithm.Memory, algorithm.MaxRows = s.samplerMemory(c, n), c.Dataset.MaxRows
	plan, err := algorithm.Plan(c.shape(n), c.budget(), s.accountant(c))
	if err != nil {
		return nil, err
	}
	c.nameLabels(plan)
	if sample, ok := c.Request.Options[catalogue.SampleRows]; ok {
		plan.Parameters[catalogue.SampleRows] = sample
		plan.AddUnsampledRows(c.leftOut)
	}
	return plan, nil
}

// nameLabels writes the labels of a category into the parameters that are stored with the release.
func (c *claim) nameLabels(p *plan.Plan) {
	for _, name := range []string{"negative_label", "positive_label"} {
		if label, ok := c.Request.Options[name].(string); ok {
			p.Parameters[name] = label
		}
	}
}

// accountant returns the accountant of the data set's accounting. Under zcdp the first charge of an account
// may have less noise.
func (s *Sidecar) accountant(c *claim) privacy.Accountant {
	switch c.Dataset.Accounting {
	case "pure":
		return privacy.PureSum{}
	case "rdp":
		return privacy.AtOrder{Order: *c.Dataset.Order, Renyi: &s.renyi}
	}
	if c.Alone {
		return privacy.Alone{}
	}
	return privacy.Concentrated{}
}

// claimNext claims the next job of the queue; nil if there is none, or if the schema is no longer that of
// this program.
func (s *Sidecar) claimNext(ctx context.Context) (*claim, error) {
	var text []byte
	if err := s.autocommit.QueryRow(ctx, "SELECT dp_int.job_claim($1, $2, nullif($3, ''))", s.id, s.config.Lease, s.build()).Scan(&text); err != nil || text == nil {
		return nil, err
	}
	c := new(claim)
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("claimed job: %w", err)
	}
	return c, nil
}

// build identifies the schema that this sidecar requires, as dp_int.job_claim compares it; empty: any.
func (s *Sidecar) build() string {
	if s.config.Schema == (sql.Schema{}) {
		return ""
	}
	return fmt.Sprint(s.config.Schema.Version, " ", s.config.Schema.Fingerprint)
}
