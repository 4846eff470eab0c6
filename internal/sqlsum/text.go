package sqlsum

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// program is a Pass whose numbers are in an order in which each follows from those before it.
type program struct {
	Pass
	nodes []*node       // arguments first
	place map[*node]int // in nodes
	uses  map[*node]int // how often other expressions, sums and bins name it
	level map[*node]int // the subquery that computes it; 0 for what is no column of one
	until map[*node]int // the last one that names it

	sums, moments [][]Expr // integers
}

// compile orders all that a Pass is made of.
func (p Pass) compile() *program {
	c := &program{Pass: p, place: map[*node]int{}, uses: map[*node]int{}, level: map[*node]int{}, until: map[*node]int{}}
	for _, v := range p.Sums {
		c.sums = append(c.sums, v.steps())
	}
	for _, v := range p.Moments {
		steps := v.steps()
		c.moments = append(c.moments, steps)
		for _, k := range steps {
			c.uses[k.node]++ // in products with all others
		}
	}
	for _, n := range c.outputs() {
		c.visit(n)
	}
	return c
}

// visit notes a node and what it is made of.
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

// kept reports whether a node becomes a column of a subquery: what is used more than once does.
func (c *program) kept(n *node) bool { return !n.leaf && (c.uses[n] > 1 || readsRow(n)) }

// readsRow reports whether a node is a column of the row: the first subquery makes them all.
func readsRow(n *node) bool {
	return len(n.args) > 0 && n.args[0].column != nil
}

// name is that of a node's column.
func (c *program) name(n *node) string { return "v" + strconv.Itoa(c.place[n]) }

// text is a node's SQL where all kept ones below are columns.
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

// value is a node's SQL above the subquery that makes it.
func (c *program) value(n *node) string {
	if c.kept(n) {
		return c.name(n)
	}
	return c.text(n)
}

func rawName(index int) string { return "c" + strconv.Itoa(index) }

// fence keeps the planner from writing an expression into each place where it is used: it takes a
// subquery with a volatile column as it is. This one may run in parallel workers, and is cheap.
const fence = "pg_catalog.pg_is_in_recovery() AS fence"

// SQL is the statement: from is what follows FROM, a relation perhaps with a condition, and
// columns[j] the SQL of raw column j, a float8 or NULL, for which no row raises an error. Its
// columns are all integers: the group, which tells the bins, how many rows are in it, and the
// sums. Rows of several answers, of disjoint parts of the rows, add up.
func (p Pass) SQL(from string, columns []string) string {
	c := p.compile()
	levels := c.levels()
	query := c.read(from, columns)
	for level := 1; level <= levels; level++ {
		query = c.subquery(query, level)
	}
	return c.sum(query)
}

// levels places all kept nodes in subqueries, each after those that it is made of, and says how
// many there are.
func (c *program) levels() (most int) {
	below := map[*node]int{} // the last subquery that a node needs
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

// outputs are the nodes that sums and bins are of.
func (c *program) outputs() (nodes []*node) {
	for _, e := range slices.Concat(slices.Concat(c.sums...), slices.Concat(c.moments...)) {
		nodes = append(nodes, e.node)
	}
	for _, b := range c.Counts {
		nodes = append(nodes, b.Of.node)
	}
	return nodes
}

// read selects the raw columns of the rows that say something. The condition is one CASE, of which the planner
// takes half of all rows: it would multiply what it takes a range of each column to leave, and plan for a single row. No
// index serves for it, so that no counter of one tells how many rows say something. It stands above
// the fence, so that expressions are evaluated once.
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

// isName reports whether SQL is a quoted name, perhaps as a float8, and nothing else.
func isName(text string) bool {
	text = strings.TrimSuffix(text, "::pg_catalog.float8")
	return len(text) > 1 && text[0] == '"' && text[len(text)-1] == '"' && strings.Count(text, `"`) == 2
}

// subquery computes the nodes of a level, beside those below that are used above.
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

// sum adds up.
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

// group tells the bins of a row, each a digit of one number.
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
