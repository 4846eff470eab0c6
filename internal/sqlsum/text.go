package sqlsum

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// program is a Pass with its nodes in an order in which each follows its arguments.
type program struct {
	Pass
	nodes []*node       // arguments before the nodes that use them
	place map[*node]int // index in nodes
	uses  map[*node]int // number of references by other nodes, sums and bins
	level map[*node]int // the subquery that computes it; 0 if it is not a column of a subquery
	until map[*node]int // the last subquery that refers to it

	sums, moments [][]Expr // integers
}

// compile orders all nodes of a Pass.
func (p Pass) compile() *program {
	c := &program{Pass: p, place: map[*node]int{}, uses: map[*node]int{}, level: map[*node]int{}, until: map[*node]int{}}
	for _, v := range p.Sums {
		c.sums = append(c.sums, v.steps())
	}
	for _, v := range p.Moments {
		steps := v.steps()
		c.moments = append(c.moments, steps)
		for _, k := range steps {
			c.uses[k.node]++ // for its products with all others
		}
	}
	for _, n := range c.outputs() {
		c.visit(n)
	}
	return c
}

// visit adds a node after its arguments.
func (c *program) visit(n *node) {
	c.uses[n]++
	if _, known := c.place[n]; known {
		return
	}
	for _, a := range n.args {
		c.visit(a)
	}
	c.place[n] = len(c.nodes)
	c.nodes = append(c.nodes, n)
}

// kept reports whether a node becomes a column of a subquery: one that is used more than once does, and one
// that reads the row.
func (c *program) kept(n *node) bool { return !n.leaf && (c.uses[n] > 1 || readsRow(n)) }

// readsRow reports whether a node reads a column of the row: all of these are computed in the first
// subquery.
func readsRow(n *node) bool {
	return len(n.args) > 0 && n.args[0].column != nil
}

// name returns the name of a node's column.
func (c *program) name(n *node) string { return "v" + strconv.Itoa(c.place[n]) }

// text returns a node's SQL, in which kept nodes are names of columns.
func (c *program) text(n *node) string {
	args := make([]string, len(n.args))
	for i, a := range n.args {
		switch {
		case a.column != nil:
			args[i] = rawName(a.column.index)
		case c.kept(a):
			args[i] = c.name(a)
		default:
			args[i] = c.text(a)
		}
	}
	return n.sql(args)
}

// value returns a node's SQL outside of the subquery that computes it.
func (c *program) value(n *node) string {
	if c.kept(n) {
		return c.name(n)
	}
	return c.text(n)
}

func rawName(index int) string { return "c" + strconv.Itoa(index) }

// fence prevents the planner from copying an expression to each place where it is used: the planner does
// not flatten a subquery with a volatile column. This function is cheap and may run in parallel workers.
const fence = "pg_catalog.pg_is_in_recovery() AS fence"

// SQL returns the statement of the pass. from is the text after FROM: a relation, possibly with a
// condition. columns[j] is the SQL of raw column j, a float8 or NULL, which must not raise an error for any
// row. All columns of the result are integers: the group, which encodes the bins, the number of its rows,
// and the sums. Results for disjoint parts of the table add up.
func (p Pass) SQL(from string, columns []string) string {
	c := p.compile()
	levels := c.levels()
	query := c.read(from, columns)
	for level := 1; level <= levels; level++ {
		query = c.subquery(query, level)
	}
	return c.sum(query)
}

// levels assigns every kept node to a subquery, after those of its arguments, and returns the number of
// subqueries.
func (c *program) levels() (most int) {
	below := map[*node]int{} // the last subquery that a node depends on
	for _, n := range c.nodes {
		for _, a := range n.args {
			below[n] = max(below[n], below[a])
		}
		if c.kept(n) {
			below[n]++
			c.level[n] = below[n]
			most = max(most, below[n])
		}
	}
	for _, n := range c.outputs() {
		c.until[n] = most + 1
	}
	for _, n := range slices.Backward(c.nodes) {
		by := c.until[n]
		if c.kept(n) {
			by = c.level[n]
		}
		for _, a := range n.args {
			c.until[a] = max(c.until[a], by)
		}
	}
	return most
}

// outputs returns the nodes that are summed or counted.
func (c *program) outputs() (nodes []*node) {
	for _, e := range slices.Concat(slices.Concat(c.sums...), slices.Concat(c.moments...)) {
		nodes = append(nodes, e.node)
	}
	for _, b := range c.Counts {
		nodes = append(nodes, b.Of.node)
	}
	return nodes
}

// read selects the raw columns of the rows that are included. The condition is a single CASE, which the
// planner estimates to keep half of all rows; for separate range conditions it would multiply their
// estimates and plan for a single row. An index cannot serve a CASE, so no index statistics count the rows
// that are included. The condition is outside of the fence, so that expressions are evaluated once.
func (c *program) read(from string, columns []string) string {
	var list, where []string
	plain, seen := true, map[column]bool{}
	for _, n := range c.nodes {
		if n.column == nil || seen[*n.column] {
			continue
		}
		seen[*n.column] = true
		name, text := rawName(n.column.index), columns[n.column.index]
		if item := text + " AS " + name; !slices.Contains(list, item) {
			list = append(list, item)
		}
		plain = plain && isName(text)
		where = append(where, n.column.condition(name))
	}
	if !plain {
		list = append(list, fence)
	}
	query := "SELECT " + strings.Join(list, ", ") + " FROM " + from
	if len(where) == 0 {
		return query
	}
	condition := "CASE WHEN " + strings.Join(where, " AND ") + " THEN true ELSE false END"
	if !plain {
		condition = strings.Replace(condition, "CASE", "CASE WHEN fence IS NULL THEN false", 1)
	}
	return "SELECT * FROM (" + query + ") rows WHERE " + condition
}

// isName reports whether SQL is only a quoted name, possibly cast to float8.
func isName(text string) bool {
	text = strings.TrimSuffix(text, "::pg_catalog.float8")
	return len(text) > 1 && text[0] == '"' && text[len(text)-1] == '"' && strings.Count(text, `"`) == 2
}

// subquery computes the nodes of a level, and passes on those of lower levels that higher levels use.
func (c *program) subquery(query string, level int) string {
	list := []string{}
	for _, n := range c.nodes {
		switch {
		case c.level[n] == level:
			list = append(list, c.text(n)+" AS "+c.name(n))
		case c.kept(n) && c.level[n] < level && c.until[n] > level:
			list = append(list, c.name(n))
		}
	}
	return "SELECT " + strings.Join(append(list, fence), ", ") + " FROM (" + query + ") level" + strconv.Itoa(level-1)
}

// sum adds the aggregation to the query.
func (c *program) sum(query string) string {
	list := []string{c.group() + " AS g", "pg_catalog.count(*)"}
	for _, steps := range c.sums {
		for _, k := range steps {
			list = append(list, "pg_catalog.sum("+c.value(k.node)+")")
		}
	}
	for _, steps := range c.moments {
		for i, k := range steps {
			for _, l := range steps[i:] {
				list = append(list, "pg_catalog.sum("+c.value(k.node)+" * "+c.value(l.node)+")")
			}
		}
	}
	text := "SELECT " + strings.Join(list, ", ") + " FROM (" + query + ") summed"
	if len(c.Counts) > 0 {
		text += " GROUP BY 1"
	}
	return text
}

// group returns the SQL of a row's group: one number with the bin of each Bins as a digit.
func (c *program) group() string {
	text := "0"
	for _, b := range c.Counts {
		text = fmt.Sprintf("(%s * %d + pg_catalog.width_bucket(%s, %s))", text, len(b.Edges)+1, c.value(b.Of.node), edges(b.Edges))
	}
	return text
}

func edges(at []float64) string {
	texts := make([]string, len(at))
	for i, v := range at {
		texts[i] = strconv.FormatFloat(v, 'g', -1, 64)
	}
	return "'{" + strings.Join(texts, ",") + "}'::pg_catalog.float8[]"
}
