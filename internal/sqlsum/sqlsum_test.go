package sqlsum

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/localpg"
)

// columnsOf is how many raw columns the tests' rows have; the last one is a category of 3 levels.
const columnsOf = 5

// connect opens a private database.
func connect(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), localpg.Postgres(t).SuperuserURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// awkward are numbers at the ends of what floating point has, and others.
var awkward = []float64{
	0, math.Copysign(0, -1), 1, -1, 0.5, 3, 1e-300, -1e-300, 5e-324, -5e-324, 0x1p-1022, 1e300, -1e300, math.MaxFloat64, -math.MaxFloat64,
	math.Inf(1), math.Inf(-1), math.NaN(), 0x1p-60, 0x1p60, -0x1p60, 0x1p59, 0x1.fffffffffffffp59, 0x1p-61, 1e9, -1e9, 1e15, 1e-15, 0.1, 2, 40, -40, 41, 700, -700,
}

// someRows are random rows with awkward numbers among them.
func someRows(rng *rand.Rand, n int) [][]float64 {
	rows := make([][]float64, n)
	for i := range rows {
		rows[i] = make([]float64, columnsOf)
		for j := range rows[i] {
			switch rng.IntN(4) {
			case 0:
				rows[i][j] = awkward[rng.IntN(len(awkward))]
			case 1:
				rows[i][j] = math.Float64frombits(rng.Uint64())
			case 2:
				rows[i][j] = math.Ldexp(rng.NormFloat64(), rng.IntN(140)-70)
			default:
				rows[i][j] = rng.NormFloat64() * 3
			}
		}
		rows[i][columnsOf-1] = float64(rng.IntN(3))
	}
	return rows
}

// store writes rows to a table; every tenth lacks a value.
func store(t *testing.T, conn *pgx.Conn, table string, rows [][]float64) {
	t.Helper()
	names, types := []string{}, ""
	for j := range columnsOf {
		names = append(names, fmt.Sprintf("x%d", j))
		types += fmt.Sprintf(", x%d float8", j)
	}
	if _, err := conn.Exec(t.Context(), "DROP TABLE IF EXISTS "+table+"; CREATE TABLE "+table+" ("+types[2:]+")"); err != nil {
		t.Fatal(err)
	}
	_, err := conn.CopyFrom(t.Context(), pgx.Identifier{table}, names, pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) {
		values := make([]any, columnsOf)
		for j, v := range rows[i] {
			values[j] = v
		}
		if i%10 == 0 {
			values[i/10%columnsOf] = nil
			rows[i][i/10%columnsOf] = math.NaN()
		}
		return values, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
}

// ask runs the statement of a pass.
func ask(t *testing.T, conn *pgx.Conn, p Pass, table string) Totals {
	t.Helper()
	names := make([]string, columnsOf)
	for j := range names {
		names[j] = fmt.Sprintf(`"x%d"`, j)
	}
	text := p.SQL(table, names)
	rows, err := conn.Query(t.Context(), text, pgx.QueryExecModeExec)
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	var answer [][]int64
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			t.Fatal(err)
		}
		answer = append(answer, integers(t, values))
	}
	if rows.Err() != nil {
		t.Fatalf("%v in %s", rows.Err(), text)
	}
	totals, err := p.Totals(answer)
	if err != nil {
		t.Fatal(err)
	}
	return totals
}

func integers(t *testing.T, values []any) (row []int64) {
	t.Helper()
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			row = append(row, 0)
		case int32:
			row = append(row, int64(v))
		case int64:
			row = append(row, v)
		default:
			n, ok := new(big.Int).SetString(fmt.Sprint(text(v)), 10)
			if !ok || !n.IsInt64() {
				t.Fatalf("a sum of %v", v)
			}
			row = append(row, n.Int64())
		}
	}
	return row
}

func text(v any) string {
	type decimal interface{ MarshalJSON() ([]byte, error) }
	b, _ := v.(decimal).MarshalJSON()
	return string(b)
}

// twin is what the rows give in Go.
func twin(p Pass, rows [][]float64) Totals {
	t, add := p.Empty(), p.TwinForTests()
	for _, row := range rows {
		add(t, row)
	}
	return t
}

// mix is a random expression of given ones, whose numbers stay so small that it can go on.
func mix(rng *rand.Rand, from []Expr) Expr {
	pick := func() Expr { return from[rng.IntN(len(from))] }
	number := func() Expr { return Number(math.Ldexp(rng.NormFloat64(), rng.IntN(20)-10)) }
	a, b := Snap(Clamp(pick(), 0x1p40), 0x1p-40), Snap(Clamp(pick(), 0x1p40), 0x1p-40)
	switch rng.IntN(10) {
	case 0:
		return Add(a, b, number(), Mul(a, number()))
	case 1:
		return Sub(a, b)
	case 2:
		return Mul(a, b)
	case 3:
		return Div(a, Max(Number(0.25), Abs(b)))
	case 4:
		return Sqrt(Add(Square(a), Square(b)))
	case 5:
		return Min(a, b)
	case 6:
		return Max(a, number())
	case 7:
		return IfBelow(a, b, Mul(a, number()), b)
	case 8:
		return Div(Number(1), Add(Number(1), Square(a)))
	}
	return Clamp(Mul(a, number()), 2)
}

// randomPass is a pass with all that one can have.
func randomPass(rng *rand.Rand) Pass {
	var from []Expr
	for j := range columnsOf - 1 {
		centre := []float64{0, 0, 1, -1e6, 1e-12}[rng.IntN(5)]
		from = append(from, Column(j, centre, math.Ldexp(1+rng.Float64(), rng.IntN(80)-40)))
	}
	from = append(from, Is(columnsOf-1, rng.IntN(3)))
	for range 12 {
		from = append(from, mix(rng, from))
	}
	some := func(n int) (v []Expr) {
		for range n {
			v = append(v, from[rng.IntN(len(from))])
		}
		return v
	}
	bits := 10 + rng.IntN(30)
	bound := []float64{math.Ldexp(1, rng.IntN(40)-20), math.Ldexp(1, rng.IntN(40)-20), math.Ldexp(1, rng.IntN(800)-400)}[rng.IntN(3)]
	p := Pass{Sums: []Vector{{some(1 + rng.IntN(5)), bound, 1 << bits}, {some(2), 1, 1 << 20}}}
	p.Moments = []Vector{{some(1 + rng.IntN(3)), math.Ldexp(1, rng.IntN(40)-20), 1 << (10 + rng.IntN(8))}}
	for range rng.IntN(3) {
		p.Counts = append(p.Counts, Bins{some(1)[0], []float64{-1, 0, 0x1p-20, 1, 1e10}})
	}
	return p
}

// The statement and its twin agree to the last bit, and no row makes the statement fail: rows of
// numbers at the ends of floating point, and expressions at random.
func TestStatementsAgreeWithTheirTwins(t *testing.T) {
	conn := connect(t)
	rng := rand.New(rand.NewPCG(1, 2))
	rows := someRows(rng, 4000)
	store(t, conn, "awkward", rows)
	for k := range 150 {
		p := randomPass(rng)
		got, want := ask(t, conn, p, "awkward"), twin(p, rows)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("pass %d: %v\n twin %v\n%s", k, got, want, p.SQL("t", []string{`"x0"`, `"x1"`, `"x2"`, `"x3"`, `"x4"`}))
		}
	}
	for j := range columnsOf - 1 {
		for _, e := range leaves(rng, j) {
			p := Pass{Sums: []Vector{{[]Expr{e}, math.Ldexp(1, rng.IntN(40)-20), 1 << 30}}}
			if got, want := ask(t, conn, p, "awkward"), twin(p, rows); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%v\n twin %v\n%s", got, want, p.SQL("t", []string{`"x0"`, `"x1"`, `"x2"`, `"x3"`, `"x4"`}))
			}
		}
	}
}

// What one row gives is at most as long as it may be, and lies in one bin of each histogram.
func TestNoRowGivesMoreThanItMay(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	rows := someRows(rng, 2000)
	longest := 0.0
	for range 100 {
		p := randomPass(rng)
		add := p.TwinForTests()
		for _, row := range rows {
			given := p.Empty()
			add(given, row)
			for s, v := range p.Sums {
				longest = max(longest, length(given.Sums[s])/float64(v.Steps))
			}
			for s, v := range p.Moments {
				longest = max(longest, math.Sqrt(trace(given.Moments[s], len(v.Of)))/float64(v.Steps))
			}
			for _, counts := range given.Counts {
				if n := slices.Max(counts); n > 1 {
					t.Fatalf("a row counts %d times", n)
				}
			}
		}
	}
	if !(longest <= 1 && longest > 0.99) {
		t.Errorf("the longest row is %v of what it may be", longest)
	}
}

// Sums of so many rows that they exceed an int64 are cut, and a row that is there or not, as a group of its own or in another's, changes
// totals by no more than its own integers, in whatever order groups are told.
func TestTotalsBeyondAnInt64MoveNoFurther(t *testing.T) {
	p := Pass{Sums: []Vector{{Of: []Expr{Column(0, 0, 1), Column(1, 0, 1)}, Bound: 1, Steps: 1 << 40}}, Counts: []Bins{{Of: Column(0, 0, 1), Edges: []float64{0, 1}}}}
	totals := func(rows ...[]int64) []int64 {
		t.Helper()
		got, err := p.Totals(rows)
		if err != nil {
			t.Fatal(err)
		}
		return append(slices.Clone(got.Sums[0]), got.Counts[0]...)
	}
	const most, least = math.MaxInt64, math.MinInt64
	rng := rand.New(rand.NewPCG(8, 9))
	for range 1000 {
		rows := [][]int64{{0, most, most, least}, {1, 1, most, 5}, {0, 1, least, most}, {2, 3, -7, least}}[rng.IntN(3):]
		row := []int64{2, 1, rng.Int64N(100) - 50, rng.Int64N(100) - 50}
		with, without := append(slices.Clone(rows), row), totals(rows...)
		rng.Shuffle(len(with), func(i, j int) { with[i], with[j] = with[j], with[i] })
		for j, v := range totals(with...) {
			moved, own := v-without[j], []int64{row[2], row[3], 0, 0, 1}[j]
			if max(moved, -moved) > max(own, -own) || moved*own < 0 {
				t.Fatalf("total %d: %d with %v, %d without, beside %v", j, v, row, without[j], rows)
			}
		}
	}
	if got := totals([]int64{0, most, most, 1}, []int64{0, 1, 5, -3}); !slices.Equal(got, []int64{most, -2, most, 0, 0}) {
		t.Errorf("cut to %v", got)
	}
}

func length(v []int64) float64 {
	sum := new(big.Int)
	for _, k := range v {
		sum.Add(sum, new(big.Int).Mul(big.NewInt(k), big.NewInt(k)))
	}
	f, _ := new(big.Float).SetInt(sum).Float64()
	return math.Sqrt(f)
}

// trace is that of an upper triangle.
func trace(v []int64, d int) (sum float64) {
	for i := range d {
		sum += float64(v[0])
		v = v[d-i:]
	}
	return sum
}

// A vector as long as it may be stays so when its coordinates are rounded.
func TestRoundingHasItsMargin(t *testing.T) {
	const d = 100
	var of []Expr
	for j := range d {
		of = append(of, Column(j, 0, 1))
	}
	p := Pass{Sums: []Vector{{of, 1, 1 << 10}}}
	add, row := p.TwinForTests(), make([]float64, d)
	rng := rand.New(rand.NewPCG(5, 6))
	longest := 0.0
	for range 200 {
		for j := range row {
			row[j] = rng.NormFloat64()
		}
		given := p.Empty()
		add(given, row)
		longest = max(longest, length(given.Sums[0]))
	}
	if longest > 1<<10 || longest < 1<<10-2*d {
		t.Errorf("the longest is %v of %d steps", longest, 1<<10)
	}
}

// Every number that a row makes of a pass lies in the span that is proved for it.
func TestNumbersLieInTheirSpans(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	rows := someRows(rng, 300)
	checked := 0
	for range 300 {
		c := randomPass(rng).compile()
		for _, row := range rows {
			values, ok := c.values(row)
			if !ok {
				continue
			}
			for k, n := range c.nodes {
				if n.column != nil {
					continue
				}
				checked++
				if v := values[k]; v == 0 && !n.zero || v < 0 && !n.negative || v != 0 && !(math.Abs(v) >= n.least && math.Abs(v) <= n.most) {
					t.Fatalf("%v is not within %+v", v, n.span)
				}
			}
		}
	}
	if checked < 1e6 {
		t.Errorf("%d numbers", checked)
	}
}

// leaves are all that a raw column can become, with what a span has to keep out of it: an inverse of what is
// not 0, a root of what is not below 0, a centre next to nothing.
func leaves(rng *rand.Rand, j int) []Expr {
	scale := math.Ldexp(1+rng.Float64(), rng.IntN(80)-40)
	return []Expr{
		Column(j, 0, scale), Column(j, scale, scale), Column(j, -1e-200, scale), Column(j, 5e-324, scale), Column(j, 0x1p-31*scale, scale), Column(j, 1e300, scale),
		Sqrt(Count(j, scale)), Div(Number(1), Positive(j, scale)), Label(j, -1, 1), Label(j, 0, 3), Is(j, 1), Sqrt(Is(j, 2)),
	}
}

// A column lies in its span in every row that takes part, next to a centre and at the ends of what is taken too.
func TestColumnsLieInTheirSpans(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for range 200 {
		for _, e := range leaves(rng, 0) {
			c := Pass{Sums: []Vector{{[]Expr{e}, 1, 1 << 20}}}.compile()
			values := slices.Clone(awkward)
			for _, n := range c.nodes {
				if n.column != nil {
					low, top := n.column.low, n.column.top
					values = append(values, low, top, math.Nextafter(low, 0), math.Nextafter(top, 0), low/2+top/2, math.Nextafter(low/2+top/2, 1e300), n.column.labels.negative)
				}
			}
			for _, raw := range values {
				made, ok := c.values([]float64{raw})
				for k, n := range c.nodes {
					if v := made; ok && n.column == nil && (v[k] == 0 && !n.zero || v[k] < 0 && !n.negative || v[k] != 0 && !(math.Abs(v[k]) >= n.least && math.Abs(v[k]) <= n.most)) {
						t.Fatalf("of %g: %g is not within %+v", raw, v[k], n.span)
					}
				}
			}
		}
	}
}

// Terms of both signs come as near to 0 as their sum's span says, and no nearer.
func TestSumsCancelNoFurtherThanTheirSpans(t *testing.T) {
	one := Number(1)
	above := Max(Column(0, 0, 1), one)
	for name, e := range map[string]Expr{"difference": Sub(above, one), "sum": Add(above, Number(-1)), "centre": Column(0, 1, 1)} {
		c := Pass{Sums: []Vector{{[]Expr{e}, 1, 1 << 20}}}.compile()
		values, ok := c.values([]float64{math.Nextafter(1, 2), 0, 0, 0, 0})
		if got := values[c.place[e.node]]; !ok || got != 0x1p-52 || got < e.least {
			t.Errorf("%s: %g, least %g", name, got, e.least)
		}
	}
}
