package main

// mutants are errors that would cost privacy. Whoever proves something adds the
// errors that the proof is about, each with the tests that must notice it.
var mutants = []mutant{
	// Errors that tests once let pass.
	{"objective perturbation runs at twice the epsilon charged", "internal/dpsco/l1.go",
		`objpert.Params{Epsilon: below(epsilon)`, `objpert.Params{Epsilon: 2 * below(epsilon)`, []tests{{"./internal/dpsco", "TheChargedEpsilon"}}},
	{"the exponential mechanism runs at twice the epsilon charged", "internal/dpsco/l1.go",
		`expmech.Params{Epsilon: below(epsilon)`, `expmech.Params{Epsilon: 2 * below(epsilon)`, []tests{{"./internal/dpsco", "TheChargedEpsilon"}}},
	{"the leverage limit follows the mean row length", "internal/dpsco/oracle.go",
		"	weights := x.numbers(x.N)\n", "	weights := x.numbers(x.N)\n	total := 0.0\n	for _, column := range x.X {\n		for _, v := range column {\n			if square := v * v / float64(x.N); square < math.Inf(1) {\n				total += square\n			}\n		}\n	}\n	limit *= math.Sqrt(total)\n",
		[]tests{{"./internal/dpsco", "TestReplaysOfLognormalTables"}}},
	{"each batch is used twice", "internal/dpsco/oracle.go",
		"		x, weights = o.deal(u.Batch)\n", "		if o.batch.N == 0 || o.left[q.Use]%2 == 1 {\n			o.deal(u.Batch)\n		}\n		x, weights = o.batch, nil\n",
		[]tests{{"./internal/dpsco", "TestEveryCallDealsAfresh"}}},
	{"sample_aggregate's blocks go by position", "internal/dpsco/aggregate.go",
		`mech.NewDeck(x.N, src).Blocks(a.Blocks)`,
		`func() [][]int {
			blocks := make([][]int, a.Blocks)
			for i := range x.N {
				blocks[i%a.Blocks] = append(blocks[i%a.Blocks], i)
			}
			return blocks
		}()`, []tests{{"./internal/dpsco", "TestBlocksOfSampleAndAggregateAreDrawn"}}},
	{"the fit of a block is mixed with the one before", "internal/dpsco/aggregate.go",
		"		points = append(points, exact(a.Loss, a.Psi, x.pick(rows)))\n",
		`		points = append(points, exact(a.Loss, a.Psi, x.pick(rows)))
		if k := len(points) - 1; k > 0 {
			for j := range points[k] {
				points[k][j] = .99*points[k][j] + .01*points[k-1][j]
			}
		}
`, []tests{{"./internal/dpsco", "TestANeighbourChangesOneBlocksFit"}}},
	{"all rows are whitened together before the blocks", "internal/dpsco/aggregate.go",
		`	points := make([][]float64, 0, a.Blocks)
	for _, rows := range mech.NewDeck(x.N, src).Blocks(a.Blocks) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		points = append(points, exact(a.Loss, a.Psi, x.pick(rows)))
`, `	all := newWhitener(exactMoments(x), 1e-6)
	x = x.times(all.matrix)
	points := make([][]float64, 0, a.Blocks)
	for _, rows := range mech.NewDeck(x.N, src).Blocks(a.Blocks) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		points = append(points, all.apply(exact(a.Loss, all.metric(a.Psi), x.pick(rows))))
`, []tests{{"./internal/dpsco", "TestANeighbourChangesOneBlocksFit"}}},
	{"uniform integers are not rejected", "internal/mech/source.go",
		"	if lo < n {\n", "	if lo < 0 {\n", []tests{{"./internal/mech", "TestUniformIntegersAreUniform"}, {"./internal/mech", "TestUniformIntegersReject"}}},
	{"objective perturbation adds half the noise on the grid", "internal/mech/objpert/objpert.go",
		"Lsh(big.NewInt(1), plan.shift))", "Lsh(big.NewInt(1), plan.shift-1))", []tests{{"./internal/mech/objpert", "TestTheNoiseOnTheGrid"}}},

	// Records of several rows.
	{"a person's rows count 1 each in second moments", "internal/mech/moments.go",
		"float64(first[record+1] - first[record])", "1", []tests{{"./internal/mech", "TestMomentSensitivityHoldsForRecords"}}},
	{"a person's rows stay in the order of the scan", "internal/arrowio/units.go",
		"	slices.SortFunc(rows, func(a, b int32) int { return compareBits(s.row(a), s.row(b)) })\n", "", []tests{{"./internal/arrowio", "TestOrderOfArrival"}}},
	{"rows that are equal but for a zero's sign keep the order of the scan", "internal/arrowio/units.go",
		"cmp.Compare(math.Float64bits(v), math.Float64bits(b[j]))", "cmp.Compare(v, b[j])", []tests{{"./internal/arrowio", "TestOrderOfArrival"}}},
	{"keys of one hash are taken for the same", "internal/arrowio/units.go",
		"return p.hash == q.hash && p.size == q.size && p.short == q.short && p.long == q.long", "return p.hash == q.hash", []tests{{"./internal/arrowio", "TestKeysAreCompared"}}},
	{"rows of nobody are a person's", "internal/arrowio/units.go",
		"	if key == nil {\n		return\n	}\n", "", []tests{{"./internal/arrowio", "TestKeysAreCompared"}}},
	{"who was given up for another may come back", "internal/arrowio/units.go",
		"	if p.compare(last) > 0 {\n", "	if false {\n", []tests{{"./internal/arrowio", "TestKeptPersonsAreWhole"}}},
	{"a record's gradient takes a row of the next one", "internal/dpsco/records.go",
		"average(column, c, starts[u], starts[u+1])", "average(column, c, starts[u], min(starts[u+1]+1, len(column)))", []tests{{"./internal/dpsco", "TestAnotherRecordKeepsItsBits"}}},
	{"all rows of a person count in lengths", "internal/dpsco/row_block.go",
		"	if unit != 1 || r.starts != nil {\n", "	if unit != 1 {\n", []tests{{"./internal/dpsco", "TestReplaysOfRecordsOfSeveralRows"}}},
	{"all rows of a person count in second moments of fits", "internal/dpsco/row_block.go",
		`r.rowsOf(r.joint, d)}, r.n, r.starts)`, `r.rowsOf(r.joint, d)}, r.n, nil)`, []tests{{"./internal/dpsco", "TestReplaysOfRecordsOfSeveralRows"}}},
	{"all rows of a person count in the level", "internal/dpsco/joint_rows.go",
		"	e := r.given(1)[0]\n", "	e := r.joint[0][:r.n]\n", []tests{{"./internal/dpsco", "TestReplaysOfRecordsOfSeveralRows"}}},
	{"a person is counted by a row of the next one", "internal/dpsco/row_block.go",
		"			i = r.starts[u]\n", "			i = r.starts[min(u+1, len(r.starts)-2)]\n", []tests{{"./internal/dpsco", "TestReplaysOfRecordsOfSeveralRows"}}},
	{"an account mixes rows and persons", "sql/functions/units.sql",
		"IF (o.unit IS NULL) <> (p_unit IS NULL) THEN", "IF false THEN", []tests{{"./tests", "TestAnAccountOfRowsStaysOne"}}},
	{"one table has two units", "sql/functions/units.sql",
		"ELSIF p_unit IS NOT NULL AND o.unit_source <> p_source", "ELSIF false", []tests{{"./tests", "TestPersonsOfSeveralTables"}}},
	{"who a unit refers to is not looked at", "sql/functions/units.sql",
		"WHERE p_unit IS NOT NULL AND c.oid NOT IN", "WHERE false AND c.oid NOT IN", []tests{{"./tests", "TestPersonsOfSeveralTables"}}},
	{"a column that took the unit's name over is read", "sql/functions/register.sql",
		"d.unit) <> d.unit_number THEN", "d.unit) <> d.unit_number AND false THEN", []tests{{"./tests", "TestAColumnThatTakesTheUnitsNameIsNoticed"}}},

	// Noise and its event.
	{"normal noise of the square root of its variance", "internal/mech/gaussian.go",
		`z.Mul(z, z).Mul(z, `, `z.Mul(z, `, []tests{{"./internal/mech", "TestGaussianReleaseAdds"}}},
	{"normal noise is charged as if it were twice as large", "internal/mech/gaussian.go",
		`return privacy.Gaussian(g)`, `return privacy.Gaussian{NoiseMultiplier: 2 * g.NoiseMultiplier}`, []tests{{"./internal/mech", "TestGaussianReleaseAdds"}}},
	{"normal noise of half the variance", "internal/mech/noise.go",
		"	half := big.NewRat(1, 2)\n	square :=", "	half := big.NewRat(1, 1)\n	square :=", []tests{{"./internal/mech", "TestMomentsAddTheNoise"}}},
	{"zero takes two signs", "internal/mech/noise.go",
		`if negative && y.Sign() == 0 {`, `if negative && y.Sign() > 0 {`, []tests{{"./internal/mech", "TestDiscreteGaussianHasItsLaw"}}},
	{"the exponent's enclosure is a point", "internal/mech/noise.go",
		`return x - slack, x + slack`, `return x + 0*slack, x`, []tests{{"./internal/mech", "TestExponentIsEnclosed"}}},
	{"the exact decision forgets the constant", "internal/mech/noise.go",
		`.Mul(x, v).Add(x, n.constant)`, `.Mul(x, v)`, []tests{{"./internal/mech", "TestExponentIsEnclosed"}}},
	{"a normal number has one chance too few", "internal/mech/normal.go",
		`return allOf(k+1,`, `return allOf(k,`, []tests{{"./internal/mech", "TestNormalHasItsLaw"}}},
	{"a normal number's integer part is geometric", "internal/mech/normal.go",
		`allOf(k*(k-1), half)`, `allOf(0, half)`, []tests{{"./internal/mech", "TestNormalHasItsLaw"}}},
	{"normal numbers are positive", "internal/mech/normal.go",
		`return Normal{k, u, s.Uint64n(2) == 0}`, `return Normal{k, u, false}`, []tests{{"./internal/mech", "TestNormalHasItsLaw"}}},
	{"the upper side of exp forgets the remainder", "internal/mech/uniform.go",
		"		if mode == big.ToPositiveInf {\n			total.Add(total, term)\n		}\n", "", []tests{{"./internal/mech", "TestExpEnclosureHoldsTheRest"}}},
	{"a shuffle that is not uniform", "internal/mech/deck.go",
		`k := i + int(d.src.Uint64n(uint64(len(d.rows)-i)))`, `k := int(d.src.Uint64n(uint64(len(d.rows))))`, []tests{{"./internal/mech", "TestDealIsUniformAndFresh"}}},
	{"the surcharge forgets the coordinates", "internal/mech/surcharge.go",
		`*0.0211*float64(d)`, `*0.0211`, []tests{{"./internal/mech", "TestSurchargeCounts"}}},

	// What events cost.
	{"accounting: normal noise costs half of its rho", "internal/privacy/price.go",
		`divUp(0.5, mulDown(z, z))`, `divUp(0.25, mulDown(z, z))`, []tests{{"./internal/privacy", "TestPriceFollows"}}},
	{"accounting: a pure epsilon costs half of its rho", "internal/privacy/price.go",
		`math.Tanh(eps/2)*`, `math.Tanh(eps/4)*`, []tests{{"./internal/privacy", "TestPriceFollows"}}},
	{"accounting: a batch costs its share of all rows", "internal/privacy/price.go",
		"	case Sampled:\n		return Price(e.Event)\n", "	case Sampled:\n		c, err := Price(e.Event)\n		return c.times(e.Rate), err\n", []tests{{"./internal/privacy", "TestPriceFollows"}}},
	{"accounting: what is released together costs what the dearest does", "internal/privacy/price.go",
		"		sum = sum.plus(c)\n	}\n	return sum, nil\n}\n\n// runs", "		sum = Cost{max(sum.Epsilon, c.Epsilon), max(sum.Rho, c.Rho), max(sum.Delta, c.Delta)}\n	}\n	return sum, nil\n}\n\n// runs", []tests{{"./internal/privacy", "TestPriceFollows"}}},
	{"accounting: an event has no delta", "internal/privacy/price.go",
		`Rho: pureRho(e.Epsilon), Delta: e.Delta}`, `Rho: pureRho(e.Epsilon)}`, []tests{{"./internal/privacy", "TestPriceFollows"}}},
	{"accounting: equal events count once", "internal/privacy/leaves.go",
		`c.leaves[i].count = addUp(c.leaves[i].count, count)`, `c.leaves[i].count = max(c.leaves[i].count, count)`, []tests{{"./internal/privacy", "TestLeavesAreCounted"}}},
	{"accounting: of several releases of one batch the dearest counts", "internal/privacy/leaves.go",
		"		sum = addUp(sum, mulUp(l.count, 2*gaussianRho(g.NoiseMultiplier)))\n	}\n	z :=", "		sum = max(sum, mulUp(l.count, 2*gaussianRho(g.NoiseMultiplier)))\n	}\n	z :=", []tests{{"./internal/privacy", "TestSampledGaussiansJoin"}}},
	{"accounting: half of what a batch shows", "internal/privacy/subsample.go",
		`weight*math.Expm1(-m.order*u)`, `weight/2*math.Expm1(-m.order*u)`, []tests{{"./internal/privacy", "TestSubsampledGaussianMatches"}}},
	{"accounting: half of what a batch shows by the binomial bound", "internal/privacy/subsample.go",
		`sum.add(choose+j*(j-1)*square/2, 2)`, `sum.add(choose+j*(j-1)*square/2, 1)`, []tests{{"./internal/privacy", "TestSubsampledGaussianMatches"}}},
	{"accounting: a divergence is that of the order below", "internal/privacy/renyi.go",
		`return mulUp(order, gaussianRho(e.NoiseMultiplier)), nil`, `return mulUp(order-1, gaussianRho(e.NoiseMultiplier)), nil`, []tests{{"./internal/privacy", "TestCurve"}}},
	{"accounting: zcdp is converted for less", "internal/privacy/convert.go",
		`eps := grow - shrink + (l-log)/x`, `eps := grow - 2*shrink + (l-log)/x`, []tests{{"./internal/privacy", "TestConversionMatches"}}},
	{"accounting: deltas of events serve the conversion of rho", "internal/privacy/accountant.go",
		`return ZCDPEpsilon(cost.Rho, subDown(delta, cost.Delta)), err`, `return ZCDPEpsilon(cost.Rho, delta), err`, []tests{{"./internal/privacy", "TestDeltasOfEvents"}}},
	{"accounting: deltas of events serve the conversion of divergences", "internal/privacy/renyi.go",
		"	delta = subDown(delta, cost.Delta)\n", "	delta = subDown(delta, 0*cost.Delta)\n", []tests{{"./internal/privacy", "TestDeltasOfEvents"}}},
	{"accounting: deltas of events serve the conversion at one order", "internal/privacy/order.go",
		`left := subDown(delta, cost.Delta)`, `left := subDown(delta, 0*cost.Delta)`, []tests{{"./internal/privacy", "TestDeltasOfEvents"}}},
	{"accounting: the largest noise that does not fit", "internal/privacy/calibrate.go",
		"	return hi.z, nil\n}", "	return lo.z, nil\n}", []tests{{"./internal/privacy", "TestCalibrateIsSafe"}}},

	// Randomness, and who counts.
	{"noise can be foretold", "internal/mech/source.go",
		`bufio.NewReaderSize(rand.Reader, 4096)}`, `bufio.NewReaderSize(foretold{rand.Reader}, 4096)}` + " }\n\ntype foretold struct{ io.Reader }\n\nfunc (foretold) Read(b []byte) (int, error) {\n	clear(b)\n	return len(b), nil", []tests{{"./internal/mech", "TestSourcesAreIndependent"}}},
	{"merged sums are not counted", "internal/mech/fixedpoint.go",
		"	s.count(part.records)\n", "", []tests{{"./internal/mech", "TestMisuseOfSums"}}},
	{"merged second moments are not counted", "internal/mech/moments.go",
		"	m.count(part.records)\n", "", []tests{{"./internal/mech", "TestMisuseOfMoments"}}},
	{"merged histograms are not counted", "internal/mech/histogram.go",
		"	h.count(part.records)\n", "", []tests{{"./internal/mech", "TestHistogramRefusals"}}},
	{"records of several rows are not counted", "internal/mech/moments.go",
		"	m.count(len(first) - 1)\n", "", []tests{{"./internal/mech", "TestMisuseOfMoments"}}},
	{"records of several rows may overlap", "internal/mech/moments.go",
		`first[0] != 0 || !slices.IsSorted(first)`, `first[0] != 0 && !slices.IsSorted(first)`, []tests{{"./internal/mech", "TestMisuseOfMoments"}}},
	{"second moments of parts may hold more records than N", "internal/mech/moments.go",
		`if records += m.records; records > contract.N {`, `if records += m.records; records < 0 {`, []tests{{"./internal/mech", "TestMisuseOfDisjoint"}}},
	{"second moments are released twice", "internal/mech/moments.go",
		"		totals = append(totals, m.totals...)\n		m.clear()\n", "		totals = append(totals, m.totals...)\n", []tests{{"./internal/mech", "TestMomentsAreReleasedOnce"}}},
	{"counts are released twice", "internal/mech/histogram.go",
		`h.counts, h.records = make([]int64, len(totals)), 0`, `h.counts, h.records = append([]int64(nil), totals...), 0`, []tests{{"./internal/mech", "TestHistogramRefusals"}}},
	{"magnitudes of more records than N", "internal/mech/quantile.go",
		"	m.records += len(v)\n", "", []tests{{"./internal/mech", "TestMisuseOfMagnitudes"}}},
	{"magnitudes are released twice", "internal/mech/quantile.go",
		"	clear(m.counts)\n", "", []tests{{"./internal/mech", "TestMisuseOfMagnitudes"}}},
	{"ranks of more records than N", "internal/mech/ranks.go",
		"	r.records += len(v)\n", "", []tests{{"./internal/mech", "TestMisuseOfRanks"}}},
	{"sums that were made elsewhere are not counted", "internal/mech/summed.go",
		"	count(n)\n", "", []tests{{"./internal/mech", "TestMisuseOfSums|TestMisuseOfMoments|TestHistogramRefusals"}}},
	{"only the first part has noise", "internal/mech/moments.go",
		"		entry, matrix := noise.entries(contract, from), dst[part*d*d:]\n", "		entry, matrix := noise.entries(contract, from), dst[part*d*d:]\n		if part > 0 {\n			entry = func(_, _ int) *big.Int { return new(big.Int) }\n		}\n", []tests{{"./internal/mech", "TestPartsHaveNoiseOfTheirOwn"}}},
	{"parts need not be sums", "internal/mech/fixedpoint.go",
		`if !part.sums || part.contract != joined.contract {`, `if part.contract != joined.contract {`, []tests{{"./internal/mech", "TestMisuseOfDisjoint"}}},

	// Sums.
	{"half the l2 sensitivity", "internal/mech/fixedpoint.go",
		`big.NewInt(1), 2*(c.bits()+1))`, `big.NewInt(1), 2*c.bits())`, []tests{{"./internal/mech", "TestSensitivityHolds|TestGaussianReleaseAdds"}}},
	{"coordinates bounded one by one, and none counted", "internal/mech/fixedpoint.go",
		"	if c.Norm == LInf {\n		s.Mul(", "	if c.Norm == LInf && c.D == 0 {\n		s.Mul(", []tests{{"./internal/mech", "TestGaussianReleaseAdds"}}},
	{"rows are not clipped", "internal/mech/fixedpoint.go",
		`if length > limit {`, `if length > 2*limit {`, []tests{{"./internal/mech", "TestSensitivityHolds|TestClamp|TestContributions"}}},
	{"rows twice as long as the bound are taken for short", "internal/mech/fixedpoint.go",
		`short := limit * limit * (1 - 0x1p-40)`, `short := 4 * limit * limit`, []tests{{"./internal/mech", "TestSensitivityHolds"}, {"./internal/mech", "TestShortRows"}}},
	{"rows are clipped without room for rounding", "internal/mech/fixedpoint.go",
		`const provedLimit = 1 - 0x1p-30`, `const provedLimit = 1`, []tests{{"./internal/mech", "TestSensitivityHolds|TestClamp"}}},
	{"integers are not compared with the bound", "internal/mech/fixedpoint.go",
		`return high < limitHigh || high == limitHigh && low <= limitLow`, `return high <= limitHigh || low <= limitLow`, []tests{{"./internal/mech", "TestSensitivityHolds|TestClamp|TestIntegers"}}},
	{"coordinates are not clamped", "internal/mech/fixedpoint.go",
		`sum += max(-limit, min(int64(v), limit))`, `sum += max(-2*limit, min(int64(v), 2*limit))`, []tests{{"./internal/mech", "TestSensitivityHolds|TestClamp"}}},
	{"a norm that is not a number is taken for proved", "internal/mech/fixedpoint.go",
		`if !(length <= 0x1p900) {`, `if length > 0x1p900 {`, []tests{{"./internal/mech", "TestSensitivityHolds|TestWhatIsNot"}}},
	{"more records than N", "internal/mech/fixedpoint.go",
		`if records > s.contract.N-s.records {`, `if records > s.contract.N {`, []tests{{"./internal/mech", "TestMisuseOfSums"}}},
	{"a sum is released twice", "internal/mech/fixedpoint.go",
		"	b.totals = nil\n", "", []tests{{"./internal/mech", "TestMisuseOfSums"}}},
	{"half the l1 sensitivity", "internal/mech/fixedpoint.go",
		`coordinates.Lsh(coordinates, c.bits()+1)`, `coordinates.Lsh(coordinates, c.bits())`, []tests{{"./internal/mech", "TestL1Sens"}, {"./internal/mech", "TestLaplace"}}},
	{"the root of the coordinates is rounded downward", "internal/mech/fixedpoint.go",
		`			root.Add(root, big.NewInt(1))
`, "", []tests{{"./internal/mech", "TestL1Sens"}}},
	{"Laplace noise is charged half", "internal/mech/laplace.go",
		`return privacy.Pure(l)`, `return privacy.Pure{Epsilon: l.Epsilon / 2}`, []tests{{"./internal/mech", "TestLaplace"}}},
	{"Laplace noise of half the scale", "internal/mech/laplace.go",
		`return epsilon.Quo(`, `epsilon.Mul(epsilon, big.NewRat(2, 1))
	return epsilon.Quo(`, []tests{{"./internal/mech", "TestLaplace"}}},
	{"counts: the l1 sensitivity of adding a record", "internal/mech/histogram.go",
		`big.NewInt(int64(s.d)), s.bits()+1)`, `big.NewInt(int64(s.d)), s.bits())`, []tests{{"./internal/mech", "TestL1Sens"}}},

	// Second moments, counts, medians.
	{"second moments: the sensitivity of one row", "internal/mech/moments.go",
		`Lsh(big.NewInt(2), 4*c.bits())`, `Lsh(big.NewInt(1), 4*c.bits())`, []tests{{"./internal/mech", "TestMoments"}}},
	{"second moments: a record is as long as each of its rows may be", "internal/mech/moments.go",
		`factor[i] /= math.Sqrt(fellow[i])`, `fellow[i] = 1`, []tests{{"./internal/mech", "TestMomentSensitivityHoldsForRecords"}}},
	{"counts: positions are not counted as records", "internal/mech/histogram.go",
		"	h.count(len(positions))\n", "", []tests{{"./internal/mech", "TestPositionsAreThose"}}},
	{"lanes cut to the nearest integer", "internal/lane/lane_amd64.s",
		"	VROUNDPD $11, Y4, Y4 // toward zero\n", "	VROUNDPD $8, Y4, Y4\n", []tests{{"./internal/lane", "TestColumnsAreTheirRows"}, {"./internal/mech", "TestMomentsAreThoseOfSingleRows"}}},
	{"lanes take a row for the one beside it", "internal/lane/lane_amd64.s",
		"	VMULPD 32(R12)(AX*1), Y1, Y5\n", "	VMULPD 32(R12)(AX*1), Y0, Y5\n", []tests{{"./internal/lane", "TestColumnsAreTheirRows"}, {"./internal/mech", "TestMomentsAreThoseOfSingleRows"}}},
	{"second moments: a quarter of the variance off the diagonal", "internal/mech/moments.go",
		`Mul(variance, big.NewRat(1, 2))`, `Mul(variance, big.NewRat(1, 4))`, []tests{{"./internal/mech", "TestMoments"}}},
	{"quantile: twice the rate", "internal/mech/quantile.go",
		`rate.Quo(rate, big.NewRat(2, 1))`, `rate.Quo(rate, big.NewRat(1, 1))`, []tests{{"./internal/mech", "TestQuantileHasItsLaw"}}},
	{"quantile: a miss counts twice", "internal/mech/quantile.go",
		`scores[i] = max(miss, -miss)`, `scores[i] = 2*max(miss, -miss)`, []tests{{"./internal/mech", "TestScoresMoveByOne"}}},
	{"quantile: the aim is a share of the numbers that are not missing", "internal/mech/quantile.go",
		"	for i, count := range counts {\n		below += count\n", "	for _, count := range counts {\n		below += count\n	}\n	aim, below = 3*int64(q.Level*float64(below)), 0\n	for i, count := range counts {\n		below += count\n", []tests{{"./internal/mech", "TestScoresMoveByOne"}}},
	{"quantile: the first that is kept is selected", "internal/mech/quantile.go",
		`return kept[src.Uint64n(uint64(len(kept)))]`, `return kept[0]`, []tests{{"./internal/mech", "TestQuantileHasItsLaw"}}},
	{"matrix Laplace: half the noise", "internal/mech/matrixlaplace.go",
		`Quo(power(2*c.bits()), `, `Quo(power(2*c.bits()-1), `, []tests{{"./internal/mech", "TestMatrixLaplaceHasItsLaw"}}},
	{"matrix Laplace: D degrees of freedom", "internal/mech/matrixlaplace.go",
		`for range rows + 1 {`, `for range rows {`, []tests{{"./internal/mech", "TestMatrixLaplaceHasItsLaw"}}},
	{"matrix Laplace: the trace norm of one row", "internal/mech/matrixlaplace.go",
		`Lsh(big.NewInt(2), 2*c.bits())`, `Lsh(big.NewInt(1), 2*c.bits())`, []tests{{"./internal/mech", "TestTraceNorm"}}},
	{"matrix Laplace: the first digits decide", "internal/mech/matrixlaplace.go",
		`			slack.Add(slack, size)`, `			slack.Add(slack, slack.Sub(slack, slack).Abs(size)).SetInt64(0)`, []tests{{"./internal/mech", "TestMatrixLaplaceIsDecided"}}},
	{"counts: the sensitivity of adding a record", "internal/mech/histogram.go",
		`big.NewInt(int64(s.d)), 2*s.bits()+1)`, `big.NewInt(int64(s.d)), 2*s.bits())`, []tests{{"./internal/mech", "TestHistogram"}}},
	{"medians: values are not clamped", "internal/mech/blocks.go",
		`case math.Abs(v) <= limit:`, `case math.Abs(v) <= 0x1p62:`, []tests{{"./internal/mech", "TestMedian"}}},

	// Smooth sensitivity.
	{"half the noise for a smooth bound", "internal/mech/smooth.go",
		"	a, s := m.calibrate()\n	for digits", "	a, s := m.calibrate()\n	s *= 2\n	for digits", []tests{{"./internal/mech", "TestSmooth"}}},
	{"the change of a smooth bound costs nothing", "internal/mech/smooth.go",
		` - a.dilation*m.Smoothness*smoothSlack)`, `)`, []tests{{"./internal/mech", "TestSmooth|TestArsinh"}}},
	{"a shape's cost of dilation is too small", "internal/mech/smooth.go",
		`{0.70, 2.1403,`, `{0.70, 2.0403,`, []tests{{"./internal/mech", "TestArsinh"}}},
	{"a bound less smooth than the noise allows", "internal/mech/smooth.go",
		`if b.smoothness > m.Smoothness {`, `if b.smoothness > 2*m.Smoothness {`, []tests{{"./internal/mech", "TestMisuseOfSmooth"}}},
	{"a smoothed number is released twice", "internal/mech/smooth.go",
		"	b.released = true\n", "", []tests{{"./internal/mech", "TestMisuseOfSmooth"}}},

	// The centre of points.
	{"centre: half the noise", "internal/mech/centre.go",
		`Quo(rational(bound), rational(shift))`, `Quo(rational(bound), rational(2*shift))`, []tests{{"./internal/mech", "TestCentreReleaseAdds"}}},
	{"centre: a quorum of half the points", "internal/mech/centre.go",
		`return (m+1)/2 + 1`, `return m / 2`, []tests{{"./internal/mech", "TestCentre"}}},
	{"centre: the bound of one ball", "internal/mech/centre.go",
		`max(1, (1+math.Exp(decay))*largest)`, `max(1, largest)`, []tests{{"./internal/mech", "TestCentre"}}},
	{"centre: twice the decay", "internal/mech/centre.go",
		`math.Exp(-decay*float64(k-1))*mean`, `math.Exp(-2*decay*float64(k-1))*mean`, []tests{{"./internal/mech", "TestCentre"}}},
	{"centre: the mean of too few radii", "internal/mech/centre.go",
		"	a := math.Ceil(1 / math.Expm1(decay))\n", "	a := math.Ceil(.5 / math.Expm1(decay))\n	decay = 1\n", []tests{{"./internal/mech", "TestCentre"}}},
	{"centre: a delta is not multiplied on its way", "internal/mech/centre.go",
		`+math.Exp(e)*dilationDelta`, `+dilationDelta`, []tests{{"./internal/mech", "TestCentre"}}},
	{"centre: half of epsilon is charged", "internal/mech/centre.go",
		`privacy.Approx{Epsilon: c.Epsilon,`, `privacy.Approx{Epsilon: c.Epsilon / 2,`, []tests{{"./internal/mech", "TestCentre"}}},

	// Objective perturbation.
	{"objective perturbation: half the noise", "internal/mech/objpert/objpert.go",
		`noise: 2 * p.Clip`, `noise: p.Clip`, []tests{{"./internal/mech/objpert", "TestPlanSatisfies"}}},
	{"objective perturbation: half the ridge", "internal/mech/objpert/objpert.go",
		`ridge: 1.5 *`, `ridge: .75 *`, []tests{{"./internal/mech/objpert", "TestPlanSatisfies"}}},
	{"objective perturbation: every quantile has the noise of the median", "internal/mech/objpert/objpert.go",
		`noise: 2 * p.Clip / epsilon * p.steepest() * up`, `noise: 2 * p.Clip / epsilon * up`, []tests{{"./internal/mech/objpert", "TestPlanSatisfies|TestAudit"}}},
	{"objective perturbation: every quantile has the ridge of the median", "internal/mech/objpert/objpert.go",
		`(epsilon * p.Smoothing) * p.steepest() * up`, `(epsilon * p.Smoothing) * up`, []tests{{"./internal/mech/objpert", "TestPlanSatisfies|TestAudit"}}},
	{"objective perturbation: minimisers two steps apart", "internal/mech/objpert/objpert.go",
		`p.Pitch * 7 / 16`, `p.Pitch * 15 / 16`, []tests{{"./internal/mech/objpert", "TestGapIsOne"}}},
	{"objective perturbation: the grid's share is spent twice", "internal/mech/objpert/objpert.go",
		`math.Nextafter(p.Epsilon-math.Ldexp(float64(changed*d), -int(shift)), 0)`, `math.Nextafter(p.Epsilon, 0)`, []tests{{"./internal/mech/objpert", "TestPlanSatisfies"}}},
	{"objective perturbation: rows are shortened by the root of their length", "internal/mech/objpert/record.go",
		`t.clip/math.Sqrt(square)*lower`, `math.Sqrt(t.clip/math.Sqrt(square))*lower`, []tests{{"./internal/mech/objpert", "TestRowsAreShort|TestGradientSens"}}},
	{"objective perturbation: rows are shortened without room for rounding", "internal/mech/objpert/record.go",
		`lower := 1 - float64(len(t.x)+8)*0x1p-52`, `lower := 1.0`, []tests{{"./internal/mech/objpert", "TestRowsAreShort"}}},
	{"objective perturbation: the intercept is not counted as part of a row", "internal/mech/objpert/record.go",
		"	for _, column := range t.x {\n		if !(math.Abs", "	for _, column := range t.x[min(1, len(t.x)-1):] {\n		if !(math.Abs", []tests{{"./internal/mech/objpert", "TestRowsAreShort|TestGradientSens"}}},
	{"objective perturbation: a minimiser is certified but for its rounding", "internal/mech/objpert/certify.go",
		`(gradient+err+o.bError)*`, `gradient*`, []tests{{"./internal/mech/objpert", "TestMinimiserIsCertified"}}},
	{"objective perturbation: the noise has one degree of freedom too few", "internal/mech/objpert/random.go",
		`make([]mech.Normal, d+1)`, `make([]mech.Normal, d)`, []tests{{"./internal/mech/objpert", "TestRadialNoise"}}},

	// The exponential mechanism.
	{"exponential mechanism: the sensitivity of one score", "internal/mech/expmech/expmech.go",
		`SetInt64(2*t.psi.limit)`, `SetInt64(t.psi.limit)`, []tests{{"./internal/mech/expmech", "TestPrivacyLossOnWorstNeighbours"}}},
	{"exponential mechanism: a score above the limit", "internal/mech/expmech/expmech.go",
		"	if !(u < 1) {\n		return p.limit\n	}\n	q :=", "	if !(u < 1) {\n		return p.limit + p.limit/8\n	}\n	q :=", []tests{{"./internal/mech/expmech", "TestScoreOfOne|TestPrivacyLoss|TestPsi"}}},
	{"exponential mechanism: points outside of the set", "internal/mech/expmech/draw.go",
		"	if !s.contains(k) {\n		return nil, false\n	}\n", "", []tests{{"./internal/mech/expmech", "TestDrawsStayInTheBall"}}},
	{"exponential mechanism: digits are proposed unevenly", "internal/mech/expmech/proposal.go",
		"	o.sums = append(o.sums, sum)\n", "	o.sums = append(o.sums, sum-sum/64)\n", []tests{{"./internal/mech/expmech", "TestNotedOdds|TestDigits"}}},
	{"exponential mechanism: a kink is bounded by a steeper line", "internal/mech/expmech/bound.go",
		`steep := b.psi.chord(rho + side*r)`, `steep := 1.1 * b.psi.chord(rho+side*r)`, []tests{{"./internal/mech/expmech", "TestBoundOfARowIsBelowItsScore"}}},
	{"exponential mechanism: a chord is bounded by its end", "internal/mech/expmech/bound.go",
		"s.live.f += (start + end) / 2\n", "s.live.f += end\n", []tests{{"./internal/mech/expmech", "TestBoundOfARowIsBelowItsScore"}}},
	{"exponential mechanism: convex bounds above the score", "internal/mech/expmech/shell.go",
		`append(h.up, psi.chord(rho+r))`, `append(h.up, 1.1*psi.chord(rho+r))`, []tests{{"./internal/mech/expmech", "TestHullsAreConvex"}}},
	{"exponential mechanism: one row chooses the axes", "internal/mech/expmech/centre.go",
		"	out.dropRare()\n", "", []tests{{"./internal/mech/expmech", "TestOneRowDoesNot"}}},
	{"exponential mechanism: no room for rounding", "internal/mech/expmech/expmech.go",
		`return 0x1p-30 * (1`, `return 0 * (1`, []tests{{"./internal/mech/expmech", "TestRowSlack|TestTerms"}}},

	// Joint moments.
	{"joint moments: half of the noise on the step", "internal/dpsco/joint_moments.go",
		`r.stepNoise = part(step)`, `r.stepNoise = part(4 * step)`, []tests{{"./internal/dpsco", "TestJointMomentsCostWhatTheyRelease"}}},
	{"joint moments: the level is not charged", "internal/dpsco/joint_moments.go",
		`noises = append(noises, r.levelNoise)`, `noises = append(noises[:len(noises):len(noises)])`, []tests{{"./internal/dpsco", "TestJointMomentsReplays"}}},
	{"joint moments: the level has the noise of the step", "internal/dpsco/joint_fit.go",
		`a.levelContract(), a.levelNoise, src)`, `a.levelContract(), a.stepNoise, src)`, []tests{{"./internal/dpsco", "TestJointMomentsReplays"}}},
	{"joint moments: cuts follow the rows", "internal/dpsco/joint_fit.go",
		"func (f *jointFit) seeStep(x Data) jointStep {\n", "func (f *jointFit) seeStep(x Data) jointStep {\n	if v := math.Abs(x.Y[0]); v < 1e9 {\n		f.stepCuts.outer += v\n	}\n", []tests{{"./internal/dpsco", "TestJointMomentsReplays"}}},
	{"joint moments: both parts of a step have all of the contract", "internal/dpsco/joint_cuts.go",
		`(c.outer - c.inner) / math.Sqrt(1-c.share)`, `c.outer - c.inner`, []tests{{"./internal/dpsco", "TestBothPartsOfAStep"}}},
	{"joint moments: what is kept tells the noise of the inner sum alone", "internal/dpsco/joint_cuts.go",
		`math.Hypot(noise*(1/c.uncut-m.keep*back), m.keep*noiseRest)`, `noise`, []tests{{"./internal/dpsco", "TestMeansTellTheirNoise"}}},

	{"joint moments: nothing says how far rows are shortened", "internal/dpsco/magnitudes.go",
		"typical > farTooLong*bound", "typical > 1e9*farTooLong*bound", []tests{{"./internal/dpsco", "TestScalesThatAreFarTooSmall"}}},
	{"joint moments: one long row in three passes for all", "internal/dpsco/magnitudes.go",
		"all.quantile(1 - 0.5/all.counted)", "all.quantile(0.67)", []tests{{"./internal/dpsco", "TestLengthsSayHowFar"}}},
	{"joint moments: intervals are where rows are far too long for their scales", "internal/dpsco/joint_intervals.go",
		"case f.tooLong:", "case f.tooLong && f.n < 0:", []tests{{"./internal/dpsco", "TestScalesThatAreFarTooSmall"}}},
	{"newton: intervals are where rows are far too long for their scales", "internal/dpsco/newton_intervals.go",
		"case f.tooLong:", "case f.tooLong && f.n < 0:", []tests{{"./internal/dpsco", "TestScalesThatAreFarTooSmall"}}},
	{"joint moments: all directions are as long as the longest", "internal/dpsco/whiten.go",
		"moment < longDirection*most", "moment < 0*most", []tests{{"./internal/dpsco", "TestLengthsSayHowFar"}}},

	// Newton steps.
	{"newton: half of the noise on scores", "internal/dpsco/newton.go",
		`r.scoreNoise[t], r.curvatureNoise[t] = part(share.scores[t]), part(share.curvatures[t])`, `r.scoreNoise[t], r.curvatureNoise[t] = part(4*share.scores[t]), part(share.curvatures[t])`, []tests{{"./internal/dpsco", "TestNewtonCostsWhatItReleases"}}},
	{"newton: a histogram is not charged", "internal/dpsco/newton.go",
		`noises = append(noises, r.sizeNoise[t], r.lengthNoise[t])`, `noises = append(noises, r.sizeNoise[t])`, []tests{{"./internal/dpsco", "TestNewtonReplays"}}},
	{"newton: the meat has the noise of the curvature", "internal/dpsco/newton_fit.go",
		`a.curvatureContract(), a.meatNoise, src)`, `a.curvatureContract(), a.curvatureNoise[newtonSteps-1], src)`, []tests{{"./internal/dpsco", "TestNewtonReplays"}}},
	{"newton: weights follow the label", "internal/dpsco/newton_curve.go",
		`derivative, max(p, 1-p), model`, `derivative, math.Abs(derivative), model`, []tests{{"./internal/dpsco", "TestNewtonRowsKeepTheirContracts"}}},
	{"newton: scores are not brought within their limit", "internal/dpsco/newton_rows.go",
		`min(1, limit/(length*r.most[i]), square(bound/length)/r.model[i])`, `min(1, square(bound/length)/r.model[i])`, []tests{{"./internal/dpsco", "TestNewtonRowsKeepTheirContracts"}}},
	{"newton: shells of a score are larger than their contract", "internal/dpsco/newton_shells.go",
		`unit := limit * math.Sqrt(shellWidth(k, shells))`, `unit := limit * shellWidth(k, shells)`, []tests{{"./internal/dpsco", "TestShellsAreTheScore"}}},
	{"newton: shells overlap", "internal/dpsco/newton_shells.go",
		`inner = min(weight[i], lower/size)`, `inner = min(weight[i], lower/size/2)`, []tests{{"./internal/dpsco", "TestShellsAreTheScore"}}},
	{"newton: intervals do not allow for what a shell shows", "internal/dpsco/newton_shells.go",
		`return max(0, 1-d/size), max(0, 1-(d+2*math.Sqrt(2*d))/size)`, `return 0 * d, 0 * size`, []tests{{"./internal/dpsco", "TestNewtonsIntervalsAllowForBias"}}},
	{"newton: intervals do not allow for what is certain not to hold", "internal/dpsco/newton_shells.go",
		"if size := mat.Norm(x.off, 2); doubts.most*x.certain > 0 {", "if size := mat.Norm(x.off, 2); size < 0 {", []tests{{"./internal/dpsco", "TestWhatIsMissingFollowsTheHistogram"}}},
	{"newton: an empty shell makes no numbers of intervals", "internal/dpsco/newton_shells.go",
		"if taken == 0 {", "if taken < 0 {", []tests{{"./internal/dpsco", "TestWhatIsMissingFollowsTheHistogram"}}},
	{"newton: rows beyond all that histograms show are no reason to withhold", "internal/dpsco/newton_intervals.go",
		"f.beyondSight() > surelyBeyond", "f.beyondSight() > 1e9", []tests{{"./internal/dpsco", "TestWhatIsMissingFollowsTheHistogram"}}},
	{"newton: intervals are where the coefficients are", "internal/dpsco/newton_intervals.go",
		`slices.Clone(f.centre)), x.factor, middle)`, `slices.Clone(f.centre)), 0, middle)`, []tests{{"./internal/dpsco", "TestNewtonsIntervalsMove"}}},
	{"newton: intervals allow for any bias", "internal/dpsco/newton_intervals.go",
		`> mostBias*deviation:`, `> 1e9*deviation:`, []tests{{"./internal/dpsco", "TestIntervalsThatAreAllBias"}}},
	{"newton: no heavy tail is too heavy for intervals", "internal/dpsco/newton_intervals.go",
		`index < leastIndex && missing > leastInShell`, `index < leastIndex && missing > 1e9`, []tests{{"./internal/dpsco", "TestNewtonGivesNoIntervalsWhereLongRows"}}},
	{"newton: weights of counts go by scores", "internal/dpsco/newton_counts.go",
		`if f.perLength == 0 {`, `if f.perLength >= 0 {`, []tests{{"./internal/dpsco", "TestWeightsOfCountsAreKnown"}}},
	{"newton: intercepts of counts do not allow for overdispersion", "internal/dpsco/newton_counts.go",
		`return min(math.Sqrt(f.overdispersion())`, `return min(0*math.Sqrt(f.overdispersion())`, []tests{{"./internal/dpsco", "TestInterceptsOfCountsThatBend"}}},
	{"newton: overdispersion goes by weights that are not squared", "internal/dpsco/newton_counts.go",
		`model := f.evenly() * max(`, `model := max(`, []tests{{"./internal/dpsco", "TestWeightsOfCountsAreKnown"}}},
	{"newton: tails of counts are judged by one pass", "internal/dpsco/newton_counts.go",
		`stat.Mean(f.indices, nil)`, `stat.Mean(f.indices[:1], nil)`, []tests{{"./internal/dpsco", "TestTailsOfCountsInAllPasses"}}},
	{"newton: limits of counts go by scores", "internal/dpsco/newton_fit.go",
		`limit = max(limit, f.cheapLimit(z))`, `limit = max(limit, 0*z)`, []tests{{"./internal/dpsco", "TestWeightsOfCountsAreKnown"}}},
	{"newton: heavy scores of labels tell their noise", "internal/dpsco/newton_noise.go",
		`f.missing(expected) > mostToldMissingOfLabels`, `f.missing(expected) > 1e9`, []tests{{"./internal/dpsco", "TestWhatIsMissingFollowsTheHistogram"}}},
	{"newton: heavy counts tell their noise", "internal/dpsco/newton_noise.go",
		`(f.bends() || f.cutsMove())`, `f.bends()`, []tests{{"./internal/dpsco", "TestHeavyCountsDoNotTell"}}},
	{"newton: the limit follows the rows", "internal/dpsco/newton_fit.go",
		"		f.choose(t)\n", "		f.choose(t)\n		if y := a.parts[g].Y; len(y) > 0 && math.Abs(y[0]) < 1e9 {\n			f.limit += math.Abs(y[0])\n		}\n", []tests{{"./internal/dpsco", "TestNewtonReplays"}}},
	{"newton: the sizes of counts are not charged", "internal/dpsco/newton.go",
		"		noises = append(noises, r.targetNoise)\n", "", []tests{{"./internal/dpsco", "TestNewtonReplays"}}},
	{"newton: the sizes of counts have half of their noise", "internal/dpsco/newton_fit.go",
		`releaseMagnitudes(seen.targets, f.targetNoise,`, `releaseMagnitudes(seen.targets, mech.Gaussian{NoiseMultiplier: f.targetNoise.NoiseMultiplier / 2},`, []tests{{"./internal/dpsco", "TestNewtonReplays"}}},
	{"newton: scores of counts have no bound", "internal/dpsco/newton_poisson.go",
		`y := min(r.y[i], c.cut)`, `y := r.y[i]`, []tests{{"./internal/dpsco", "TestNewtonRowsKeepTheirContracts"}}},
	{"newton: rows of large means have no bound", "internal/dpsco/newton_poisson.go",
		`max(mean, c.cut-mean)`, `c.cut`, []tests{{"./internal/dpsco", "TestNewtonRowsKeepTheirContracts"}}},
	{"newton: the cut of counts is the first row's", "internal/dpsco/newton_fit.go",
		"	f.begin(f.readFirst(joint, longer, x.weighted()), l)\n", "	if c, ok := f.Curve.(poissonCurve); ok && x.Y[0] >= 1 && x.Y[0] < 1e9 {\n		c.cut = x.Y[0]\n		f.Curve = c\n	}\n	f.begin(f.readFirst(joint, longer, x.weighted()), l)\n", []tests{{"./internal/dpsco", "TestNewtonReplays"}}},
	{"newton: Huber steps take the whole curvature of parabolas", "internal/dpsco/newton_curve.go",
		"const touching = 0.7", "const touching = 1", []tests{{"./internal/dpsco", "TestHuberFitsForgive"}}},
	{"newton: intervals are where a step was cut short", "internal/dpsco/newton_intervals.go",
		"case !f.arrives, floats", "case floats", []tests{{"./internal/dpsco", "TestAStepThatWasCutShort"}}},
	{"newton: exposures are left out", "internal/dpsco/block.go",
		`	if b.Offset != nil {`, `	if b.Offset == nil && len(b.Offset) > 0 {`, []tests{{"./internal/dpsco", "TestPoissonIntervalsCover"}}},
	{"score: the rate has half of its noise", "internal/dpsco/score_counts.go",
		`g.noises[centre].Release(total`, `mech.Gaussian{NoiseMultiplier: g.noises[centre].(mech.Gaussian).NoiseMultiplier / 2}.Release(total`, []tests{{"./internal/dpsco", "TestReplaysOfScores"}}},
	{"score: the rate is the table's own", "internal/dpsco/score_counts.go",
		`	m.centre = m.rate(rows, m.targets.edge(), src)`, `	m.centre = m.rate(rows, m.targets.edge(), src)
	if y := rows.Y[0]; y > 0 && y < 1e9 {
		m.centre *= 1 + y
	}`, []tests{{"./internal/dpsco", "TestReplaysOfScores"}}},
	{"newton: rows without numbers have a length", "internal/dpsco/row_block.go",
		`length[i], e[i] = math.NaN(), math.NaN()`, `length[i], e[i] = 1, 0`, []tests{{"./internal/dpsco", "TestRowsWithoutNumbersAreOneRowToNewton"}}},

	{"weights: the largest one is the rows' own", "internal/dpsco/weights.go",
		"func (x Data) weigh(most float64) {\n", "func (x Data) weigh(most float64) {\n	most = 1e-300\n	for _, v := range x.Weight {\n		if v < math.Inf(1) {\n			most = max(most, v)\n		}\n	}\n", []tests{{"./internal/dpsco", "TestReplaysOfWeights"}}},
	{"weights: above the largest one they count as they are", "internal/dpsco/weights.go",
		`min(v/most, 1)`, `v / most`, []tests{{"./internal/dpsco", "TestWeightsAreRepeatedRows"}}},
	{"weights: scores have the squares", "internal/dpsco/weights.go",
		`r.score[i] *= v`, `r.score[i] *= v * v`, []tests{{"./internal/dpsco", "TestWeightsAreRepeatedRows"}}},
	{"weights: the level is taken for that of rows without", "internal/dpsco/weights.go",
		`if !f.weighted && f.residuals.said() == 1 {`, `if f.weighted || !f.weighted {`, []tests{{"./internal/dpsco", "TestTheLevelIsWeighted"}}},
	{"weights: batches have those of other rows", "internal/dpsco/oracle.go",
		"		gather(batch, column, rows)\n		return batch\n", "		copy(batch, column)\n		return batch\n", []tests{{"./internal/dpsco", "TestEveryMethodTakesWeights"}}},
	{"weights: medians have weights of the target alone", "internal/dpsco/weights.go",
		`range append(slices.Clone(x.X), x.Y) {`, `range append(slices.Clone(x.X[:0]), x.Y) {`, []tests{{"./internal/dpsco", "TestWeightedMedians"}}},
	{"weights: scores count rows beside weighted numbers", "internal/dpsco/score_metrics.go",
		"	if m.weighted {\n", "	if m.weighted && one == 0 {\n", []tests{{"./internal/dpsco", "TestScoresAreWeighted"}}},

	// Means.
	{"the search for a centre is not charged", "internal/dpsco/mean/ksu.go",
		`func (e *ksuEstimator) Begin() privacy.Event { return e.centreNoise.Event() }`, `func (e *ksuEstimator) Begin() privacy.Event { return nil }`, []tests{{"./internal/dpsco", "TestDescentsCost"}}},
	{"the centre is searched for at every estimate", "internal/dpsco/mean/ksu.go",
		"	if previous == nil {\n		return e.releaseCentre(r, src)\n	}\n	return e.clampToBins(previous)", `	return e.releaseCentre(r, src)`, []tests{{"./internal/dpsco/mean", "TestKSU"}}},
	{"trimmed: one coordinate is charged", "internal/dpsco/mean/trimmed.go",
		`privacy.Repeat{Count: e.d,`, `privacy.Repeat{Count: 1,`, []tests{{"./internal/dpsco/mean", "TestTrimmed"}}},
	{"trimmed: the bound decays too fast", "internal/dpsco/mean/trimmed.go",
		`math.Exp(-decay * float64(k))`, `math.Exp(-2 * decay * float64(k))`, []tests{{"./internal/dpsco/mean", "TestSmoothBound|TestBoundIsSmooth"}}},
	{"trimmed: values are not clamped", "internal/dpsco/mean/trimmed.go",
		`int64(max(-float64(g.limit), min(v, float64(g.limit))))`, `int64(max(-0x1p45, min(v, 0x1p45)))`, []tests{{"./internal/dpsco/mean", "TestTrimmed|TestBoundIsSmooth"}}},
	{"trimmed: the bound is that of one end", "internal/dpsco/mean/trimmed.go",
		"float64(e.above[u]-e.below[i])\n", "float64(e.above[u]-e.below[0])\n", []tests{{"./internal/dpsco/mean", "TestSmoothBound|TestBoundIsSmooth"}}},
	{"trimmed: the first rung is left out", "internal/dpsco/mean/trimmed.go",
		"for u := 1; u < len(e.above); u++ {\n		most = max", "for u := 2; u < len(e.above); u++ {\n		most = max", []tests{{"./internal/dpsco/mean", "TestSmoothBound|TestBoundIsSmooth"}}},
	{"catoni: the bound is too small for its values", "internal/dpsco/mean/catoni.go",
		`newGaussianNoise(z, mech.Contract{Norm: mech.LInf,`, `newGaussianNoise(2*z, mech.Contract{Norm: mech.LInf,`, []tests{{"./internal/dpsco/mean", "TestCatoni|TestNoiseIsThat"}}},

	// Fits.
	{"one step is not charged", "internal/dpsco/descent.go",
		`privacy.Repeat{Count: u.Calls,`, `privacy.Repeat{Count: max(1, u.Calls-1),`, []tests{{"./internal/dpsco", "TestReplaysDiffer|TestDescentsCost"}}},
	{"a batch is priced at the square of its rate", "internal/dpsco/descent.go",
		`privacy.Sampled{Rate: float64(batch) / float64(n),`, `privacy.Sampled{Rate: float64(batch) / float64(n) * float64(batch) / float64(n),`, []tests{{"./internal/dpsco", "TestDescentsCost"}}},
	{"batches are not surcharged", "internal/dpsco/descent.go",
		"		if n < s.N {\n			cost = append(", "		if n > s.N {\n			cost = append(", []tests{{"./internal/dpsco", "TestDescentsCost"}}},
	{"queries beyond the charge are answered", "internal/dpsco/oracle.go",
		`if o.left[q.Use] == 0 || `, `if `, []tests{{"./internal/dpsco", "TestAQueryBeyond"}}},
	{"staged: the reach is not charged", "internal/dpsco/l1_staged.go",
		`privacy.Repeat{Count: columns, Event: privacy.Pure{Epsilon: p.reach}}`, `privacy.Repeat{Count: 1, Event: privacy.Pure{Epsilon: p.reach}}`, []tests{{"./internal/dpsco", "TestStagedShares"}, {"./internal/dpsco", "TestReplaysOfStaged"}}},
	{"staged: the last fit has the share of the width too", "internal/dpsco/l1_staged.go",
		` - p.aside - p.sizes - p.width`, ` - p.aside - p.sizes`, []tests{{"./internal/dpsco", "TestStagedShares"}}},
	{"staged: the rough fit at twice its epsilon", "internal/dpsco/l1_staged.go",
		`f.perturbation(f.shares.rough, roughSmoothing,`, `f.perturbation(2*f.shares.rough, roughSmoothing,`, []tests{{"./internal/dpsco", "TestReplaysOfStaged"}}},
	{"staged: the width at twice its epsilon", "internal/dpsco/l1_staged.go",
		`Quantile{Epsilon: below(f.shares.width)`, `Quantile{Epsilon: 2 * below(f.shares.width)`, []tests{{"./internal/dpsco", "TestReplaysOfStaged"}}},
	{"staged: the way aside is not charged", "internal/dpsco/l1_staged.go",
		`p.rough, p.aside, p.sizes, p.width, p.last} {
		if epsilon > 0`, `p.rough, p.sizes, p.width, p.last} {
		if epsilon > 0`, []tests{{"./internal/dpsco", "TestStagedShares|TestReplaysOfStaged"}}},
	{"staged: the way aside is the largest residual", "internal/dpsco/l1_staged.go",
		`	floats.AddConst(-aside, residuals)`, `	aside = side * max(aside, slices.Max(beyond))
	floats.AddConst(-aside, residuals)`, []tests{{"./internal/dpsco", "TestReplaysOfStaged"}}},
	{"staged: the second moments are those of the first epsilon", "internal/dpsco/l1_staged.go",
		`MatrixLaplace{Epsilon: below(epsilon)}`, `MatrixLaplace{Epsilon: below(f.shares.moments[1])}`, []tests{{"./internal/dpsco", "TestReplaysOfStaged"}}},
	{"staged: what a rare feature counts for follows from the table", "internal/dpsco/l1_staged.go",
		`	rare, found := f.rare(t, inverse)`, `	inverse.Scale(1/(1+floats.Norm(x.X[len(x.X)-1], 1)), inverse)
	rare, found := f.rare(t, inverse)`, []tests{{"./internal/dpsco", "TestReplaysOfStaged"}}},
	{"staged: targets are centred at a median of the table", "internal/dpsco/l1_staged.go",
		"	divide(x.Y, f.ResidualScale)\n", "	divide(x.Y, f.ResidualScale)\n	middle := slices.Sorted(slices.Values(x.Y))[x.N/2]\n	for i := range x.Y {\n		x.Y[i] -= middle\n	}\n", []tests{{"./internal/dpsco", "TestReplaysOfStaged"}}},
	{"whitening is not charged", "internal/dpsco/whiten.go",
		`event: append(event, noise.Event()),`, `event: event,`, []tests{{"./internal/dpsco", "TestDescentsCost"}}},
	{"second moments with half the noise that is charged", "internal/dpsco/whiten.go",
		"	seeMoments(x, c).Release(h, noise, src)\n", "	seeMoments(x, c).Release(h, mech.Gaussian{NoiseMultiplier: noise.(mech.Gaussian).NoiseMultiplier / 2}, src)\n", []tests{{"./internal/dpsco", "TestReplaysOfLognormal"}}},
	{"second moments released once more than charged", "internal/dpsco/whiten.go",
		`p := newWhitener(secondMoments(x, contract, noise, src),`, "secondMoments(x, contract, noise, src)\n		p := newWhitener(secondMoments(x, contract, noise, src),", []tests{{"./internal/dpsco", "TestReplaysOfLognormal"}}},
	{"a score's histogram of residuals is not charged", "internal/dpsco/score.go",
		`if noise, made := g.noises[name]; made {`, `if noise, made := g.noises[name]; made && name != sizes {`, []tests{{"./internal/dpsco", "TestReplaysOfScores"}}},
	{"a pure score spends twice its epsilon", "internal/dpsco/score.go",
		`mech.Laplace{Epsilon: below(share * below(b.Epsilon))}`, `mech.Laplace{Epsilon: 2 * below(share*below(b.Epsilon))}`, []tests{{"./internal/dpsco", "TestReplaysOfScores"}}},
	{"a score spends the reserve of delta", "internal/dpsco/score.go",
		`Delta: b.Delta - privacy.Reserve(b.Delta)}`, `Delta: b.Delta}`, []tests{{"./internal/dpsco", "TestAScoreCosts"}}},
	{"a score is about the exact mean of the target", "internal/dpsco/score_rows.go",
		`		m.centre = g.mean(rows, m.targets.edge(), src)
`, `		m.centre = g.mean(rows, m.targets.edge(), src)
		for _, y := range rows.Y {
			if math.Abs(y) < 1e6 {
				m.centre += y / float64(rows.N)
			}
		}
`, []tests{{"./internal/dpsco", "TestReplaysOfScores"}}},
	{"residuals are cut where the data end", "internal/dpsco/score_rows.go",
		`	m.chooseCuts()
`, `	m.chooseCuts()
	for _, e := range rows.X[0] {
		if size := g.size(e); size < 1e6 {
			m.cut = max(m.cut, size)
		}
	}
`, []tests{{"./internal/dpsco", "TestReplaysOfScores"}}},
	{"a score counts the complete rows exactly", "internal/dpsco/score_rows.go",
		`	return gaussianMeans(released, k, noise, contract)
`, `	released[0] = 0
	for _, e := range rows.X[0] {
		if !math.IsNaN(e) {
			released[0] += 1 / float64(rows.N)
		}
	}
	return gaussianMeans(released, k, noise, contract)
`, []tests{{"./internal/dpsco", "TestReplaysOfScores"}}},
	{"a pure score counts the complete rows exactly", "internal/dpsco/score_rows.go",
		`	return laplaceMeans(released, k, noise, m.sumContract())
`, `	released[0] = 0
	for _, e := range rows.X[0] {
		if !math.IsNaN(e) {
			released[0] += 1 / float64(rows.N)
		}
	}
	return laplaceMeans(released, k, noise, m.sumContract())
`, []tests{{"./internal/dpsco", "TestReplaysOfScores"}}},
	{"quantiles by ranks: half of what a record moves", "internal/mech/ranks.go",
		`const rankSensitivity = 100`, `const rankSensitivity = 50`, []tests{{"./internal/mech", "TestMissesMoveByTheirBound"}}},
	{"quantiles by ranks: twice the rate", "internal/mech/ranks.go",
		`rate.Quo(rate, big.NewRat(2*rankSensitivity, 1))`, `rate.Quo(rate, big.NewRat(rankSensitivity, 1))`, []tests{{"./internal/mech", "TestRankQuantilesHaveTheirLaw"}}},
	{"quantiles by ranks: the weight of plain numbers is left out of the draw", "internal/mech/ranks.go",
		`total += uint64(multiples(first, last, k)) * levelWeight(k)`, `total += uint64(multiples(first, last, k))`, []tests{{"./internal/mech", "TestWeightsOfTheGrid"}, {"./internal/audit", "TestFiniteMechanisms"}}},
	{"quantiles by ranks: misses are squared", "internal/mech/ranks.go",
		`	return max(100*below-p*total, 100*above-(100-p)*total, 0)`, `	far := max(100*below-p*total, 100*above-(100-p)*total, 0)
	return far * far`, []tests{{"./internal/mech", "TestMissesMoveByTheirBound"}}},
	{"quantiles by ranks: every proposal is accepted", "internal/mech/ranks.go",
		`if src.Uniform().BelowExp(power(uint(t)), x.Mul(x, s.rate)) {`, `if src.Uniform().BelowExp(power(uint(t)), x.Mul(x, s.rate)) || t < halvings {`, []tests{{"./internal/mech", "TestRankQuantilesHaveTheirLaw"}}},
	{"quantiles by ranks: one is charged of several", "internal/mech/ranks.go",
		`privacy.Repeat{Count: len(q.Percents), Event:`, `privacy.Repeat{Count: 1, Event:`, []tests{{"./internal/dpsco", "TestReplaysOfDescriptions"}}},
	{"joint moments: how far shortened rows count follows the rows", "internal/dpsco/joint_fit.go",
		"	f.weights = f.shortened\n", "	if len(f.shortened) > 0 {\n		f.back *= .5 + f.shortened[0]/2\n	}\n	f.weights = f.shortened\n", []tests{{"./internal/dpsco", "TestJointMomentsReplays"}}},
	{"columns are divided by their largest value", "internal/dpsco/scaled.go",
		"		divide(column, a.X[j])\n", "		largest := a.X[j]\n		for _, v := range column {\n			if math.Abs(v) < 1e12 {\n				largest = max(largest, math.Abs(v))\n			}\n		}\n		divide(column, largest)\n", []tests{{"./internal/dpsco", "TestReplaysDiffer"}}},
	{"a description's means have half of their noise", "internal/dpsco/describe_rows.go",
		`g.averages.Release(means, total.merged().Bounded(), src)`, `half(g.averages).Release(means, total.merged().Bounded(), src)` + "\n	return means\n}\n\nfunc half(noise release) release {\n	switch noise := noise.(type) {\n	case mech.Gaussian:\n		return mech.Gaussian{NoiseMultiplier: noise.NoiseMultiplier / 2}\n	case mech.Laplace:\n		return mech.Laplace{Epsilon: 2 * noise.Epsilon}\n	}\n	return noise\n}\n\nfunc unused(means []float64) []float64 {", []tests{{"./internal/dpsco", "TestReplaysOfDescriptions"}}},
	{"the sizes of groups have half of their noise", "internal/dpsco/groups.go",
		"	noise.Release(noisy, counts.Bounded(), src)\n", "	if g, ok := noise.(mech.Gaussian); ok {\n		noise = mech.Gaussian{NoiseMultiplier: g.NoiseMultiplier / 2}\n	}\n	noise.Release(noisy, counts.Bounded(), src)\n", []tests{{"./internal/dpsco", "TestFitsByGroupsReplay"}}},
	{"newton: the sizes of targets of groups have half of their noise", "internal/dpsco/newton_groups.go",
		`releaseCounts(counts, a.targetNoise, src)`, `releaseCounts(counts, mech.Gaussian{NoiseMultiplier: a.targetNoise.NoiseMultiplier / 2}, src)`, []tests{{"./internal/dpsco", "TestFitsByGroupsReplay"}}},
	{"a hint makes the clip longer", "internal/dpsco/mean/clip.go",
		`if hints.Norm > 0 && hints.Norm < c.Bound {`, `if hints.Norm > 0 {`, []tests{{"./internal/dpsco/mean", "TestNoiseIsThat"}}},
	{"staged: a feature's reach at twice its epsilon", "internal/dpsco/l1_staged.go",
		`Quantile{Epsilon: below(f.shares.reach)`, `Quantile{Epsilon: 2 * below(f.shares.reach)`, []tests{{"./internal/dpsco", "TestReplaysOfStaged"}}},
	{"second moments are charged at twice their noise", "internal/dpsco/second_moments.go",
		`Method: "moments_gaussian", Event: noise.Event()`, `Method: "moments_gaussian", Event: mech.Gaussian{NoiseMultiplier: 2 * z}.Event()`, []tests{{"./internal/dpsco", "TestReplaysOfSecondMoments|TestSecondMomentsCost"}}},
	{"second moments spend the reserve of delta", "internal/dpsco/second_moments.go",
		`Delta: b.Delta - privacy.Reserve(b.Delta)}`, `Delta: b.Delta}`, []tests{{"./internal/dpsco", "TestSecondMomentsCost"}}},
	{"second moments count complete rows exactly", "internal/dpsco/second_moments.go",
		`	total.merged().Release(means, noise, src)
`, `	total.merged().Release(means, noise, src)
	means[0] = 0
	for _, v := range x.Y {
		if isUsable(v) {
			means[0] += 1 / float64(c.N)
		}
	}
`, []tests{{"./internal/dpsco", "TestReplaysOfSecondMoments"}}},
	{"rows of second moments are as long as the longest", "internal/dpsco/second_moments.go",
		`	total := merging[*mech.Moments]{total: mech.NewMoments(c)}
`, `	for _, v := range x.Y {
		if math.Abs(v) < 1e100 {
			c.Bound = max(c.Bound, math.Abs(v))
		}
	}
	total := merging[*mech.Moments]{total: mech.NewMoments(c)}
`, []tests{{"./internal/dpsco", "TestReplaysOfSecondMoments"}}},
	{"a person's rows count in full in second moments", "internal/dpsco/second_moments.go",
		`len(b.Y), starts)`, `len(b.Y), nil)`, []tests{{"./internal/dpsco", "TestReplaysOfSecondMoments|TestSecondMomentsAreThose"}}},
	{"second moments tell half their noise", "internal/dpsco/second_moments.go",
		`Noise: math.Sqrt2 * c.Bound`, `Noise: math.Sqrt2 / 2 * c.Bound`, []tests{{"./internal/dpsco", "TestSecondMomentsAddTheNoise"}}},
	{"anybody fits from second moments", "sql/functions/linear_from_moments.sql",
		`AND (dp_int.grant_of(d.id, session_user)).dataset IS NULL THEN`, `AND false THEN`, []tests{{"./tests", "TestBadRequestsOfMoments"}}},
	{"second moments are seen by everybody", "sql/views/public.sql",
		`    FROM dp_int.second_moments m
    JOIN dp_int.release r ON r.id = m.release
    JOIN dp_int.job j ON j.id = r.job
    JOIN dp_int.dataset d ON d.id = r.dataset
   WHERE pg_has_role(session_user, 'dp_admin', 'USAGE') OR`, `    FROM dp_int.second_moments m
    JOIN dp_int.release r ON r.id = m.release
    JOIN dp_int.job j ON j.id = r.job
    JOIN dp_int.dataset d ON d.id = r.dataset
   WHERE true OR`, []tests{{"./tests", "TestBadRequestsOfMoments"}}},
	{"fits from second moments leave half the noise out of errors", "sql/functions/linear_from_moments.sql",
		`half CONSTANT float8 := p_noise * p_noise / 2;`, `half CONSTANT float8 := p_noise * p_noise / 8;`, []tests{{"./tests", "TestSecondMomentsAreChargedOnce|TestIntervalsFromMoments"}}},
	{"a description's histogram is not charged", "internal/dpsco/describe.go",
		`	if g.distances != nil {
		e = append(e, g.distances.Event())
	}
`, ``, []tests{{"./internal/dpsco", "TestReplaysOfDescriptions"}}},
	{"a pure description spends its epsilon for each column", "internal/dpsco/describe.go",
		`part(split[quartiles] / float64(g.selections()))`, `part(split[quartiles] / float64(len(percents)))`, []tests{{"./internal/dpsco", "TestReplaysOfDescriptions"}}},
	{"a description spends the reserve of delta", "internal/dpsco/describe.go",
		`Delta: b.Delta - privacy.Reserve(b.Delta)}`, `Delta: b.Delta}`, []tests{{"./internal/dpsco", "TestADescriptionCosts"}}},
	{"values are cut where the data end", "internal/dpsco/describe_figures.go",
		`		cuts[k] = cutAt{at[k].median(), g.cheapest(sizes[k])}
`, `		cuts[k] = cutAt{at[k].median(), g.cheapest(sizes[k])}
		for _, v := range x.X[g.numbers[k]] {
			if size := math.Abs(v - at[k].median()); size < 1e6 {
				cuts[k].cut = max(cuts[k].cut, size)
			}
		}
`, []tests{{"./internal/dpsco", "TestReplaysOfDescriptions"}}},
	{"a description counts the values exactly", "internal/dpsco/describe_rows.go",
		`	g.averages.Release(means, total.merged().Bounded(), src)
`, `	g.averages.Release(means, total.merged().Bounded(), src)
	means[1] = -1
	for _, v := range x.X[0] {
		if isUsable(v) {
			means[1] += 2 / float64(x.N)
		}
	}
`, []tests{{"./internal/dpsco", "TestReplaysOfDescriptions"}}},
	{"means of a description are of the rows that say something", "internal/dpsco/describe_rows.go",
		`	total, l := merging[*mech.Sum]{total: mech.NewSum(g.contract())}, g.layout()
`, `	c, l := g.contract(), g.layout()
	for _, v := range x.X[0] {
		if math.IsNaN(v) {
			c.N = max(1, c.N-1)
		}
	}
	total := merging[*mech.Sum]{total: mech.NewSum(c)}
`, []tests{{"./internal/dpsco", "TestReplaysOfDescriptions"}}},
	{"a description is of the rows of all levels", "internal/arrowio/arrowio.go",
		`_, tells := only[field.Name]; tells {`, `_, tells := only[field.Name]; tells && false {`, []tests{{"./internal/arrowio", "TestRowsOfOtherLevelsHaveNoPlace"}}},
	{"a person's rows of other levels may be the one that is described", "internal/arrowio/units.go",
		`tells || !u.Incomplete`, `!u.Incomplete && !tells`, []tests{{"./internal/arrowio", "TestRowsOfLevelsThatDoNotCount"}}},
	{"columns are centred at their first row", "internal/dpsco/scaled.go",
		`shiftBy(column, a.centres()[j])`, `shiftBy(column, column[0])`, []tests{{"./internal/dpsco", "TestReplaysDiffer"}}},
	{"the intercept does not take centres up", "internal/dpsco/scaled.go",
		`w[0] -= c * w[1+j]`, `w[0] -= 0 * c * w[1+j]`, []tests{{"./internal/dpsco", "TestACentreIsAShift"}}},
	{"the covariance does not take centres up", "internal/dpsco/scaled.go",
		`move.Set(0, 1+j, -c)`, `move.Set(0, 1+j, 0*c)`, []tests{{"./internal/dpsco", "TestACentreIsAShift"}}},
	{"the target's centre is left out of the intercept", "internal/dpsco/scaled.go",
		`w[0] += a.CentreY`, `w[0] += 0 * a.CentreY`, []tests{{"./internal/dpsco", "TestACentreIsAShift"}}},
	{"a band leaves centres out", "internal/dpsco/scaled.go",
		`band[0] += math.Abs(c)`, `band[0] += 0 * math.Abs(c)`, []tests{{"./internal/dpsco", "TestBandsAndForecasts"}}},
	{"a job that was charged is tried again under the scales of today", "sql/functions/jobs.sql",
		`dp_int.request_scales(d.id, p_request)`, `d.scales`, []tests{{"./tests", "TestJobsKeepTheirScales"}}},
	{"fits are charged under scales that were taken back", "sql/functions/jobs.sql",
		"  PERFORM dp_int.refuse_former_scales(j);\n", "", []tests{{"./tests", "TestJobsKeepTheirScales"}}},
	{"one row is in every block", "internal/dpsco/aggregate.go",
		`x.pick(rows)`, `x.pick(append(rows[:len(rows):len(rows)], 0))`, []tests{{"./internal/dpsco", "TestANeighbour"}}},
	{"the reserve of delta is spent twice", "internal/dpsco/problem.go",
		`Delta: b.Delta - reserve}`, `Delta: b.Delta}`, []tests{{"./internal/dpsco", "TestDefaultsPlan"}}},
	{"epsilon is rounded upward", "internal/dpsco/problem.go",
		`Epsilon: below(b.Epsilon)`, `Epsilon: b.Epsilon`, []tests{{"./internal/dpsco", "TestTheCentrePlans"}}},
	{"a plan runs on more rows than it is of", "internal/dpsco/dpsco.go",
		`if x.Shape != p.shape || x.columns()`, `if x.Levels != p.shape.Levels || x.columns()`, []tests{{"./internal/dpsco", "TestAPlanRunsOnItsRows"}}},
	{"a plan without weights runs on rows that have some", "internal/dpsco/dpsco.go",
		`if x.weighted() != (p.maxWeight > 0) {`, `if !x.weighted() && p.maxWeight > 0 {`, []tests{{"./internal/dpsco", "TestAPlanRunsOnItsRows"}}},
	{"a plan runs twice", "internal/dpsco/dpsco.go",
		`p.spent.Swap(true)`, `p.spent.Load()`, []tests{{"./internal/dpsco", "TestAPlanRunsOnce"}}},

	// Categories.
	{"a value of no level counts as the reference", "internal/arrowio/category.go",
		`	return c.other
`, `	if math.IsNaN(c.other) {
		return 0
	}
	return c.other
`, []tests{{"./internal/arrowio", "TestAValueIsItsLevel"}}},
	{"every other value takes NULL too", "internal/arrowio/decoder.go",
		`		return math.NaN(), 4, 0, nil
`, `		if t.category != nil {
			return t.category.other, 4, 0, nil
		}
		return math.NaN(), 4, 0, nil
`, []tests{{"./internal/arrowio", "TestAValueIsItsLevel"}}},
	{"blanks at the end of a char column count", "internal/arrowio/category.go",
		`	if c.padded {
`, `	if c == nil {
`, []tests{{"./internal/arrowio", "TestAValueIsItsLevel"}}},
	{"a long text is the level that it begins with", "internal/arrowio/decoder.go",
		`!c.padded || !allBlank(b[:n])`, `c.padded && !allBlank(b[:n])`, []tests{{"./internal/arrowio", "TestAValueIsItsLevel"}}},
	{"texts of any length are sent as they are", "internal/arrowio/arrowio.go",
		`t.category != nil && t.category.text`, `false`, []tests{{"./internal/arrowio", "TestTextsOfAnyLength"}}},
	{"keys as long as a hash travel as they are", "internal/arrowio/units.go",
		`OPERATOR(pg_catalog.<) %d`, `OPERATOR(pg_catalog.<=) %d`, []tests{{"./internal/arrowio", "TestTextsOfAnyLength"}}},
	{"foreign keys of partitions are not followed", "sql/functions/units.sql",
		`k.conrelid = h.relid AND k.contype`, `k.conrelid = r.relid AND k.contype`, []tests{{"./tests", "TestReferencesOfPartitions"}}},
	{"a level spills into the row before", "internal/arrowio/category.go",
		`			columns[int(p)-1][i] = 1
`, `			columns[int(p)-1][i], columns[int(p)-1][max(i-1, 0)] = 1, 1
`, []tests{{"./internal/arrowio", "TestAValueChangesItsRowAlone"}}},
	{"rows of levels that a request is not about count", "internal/arrowio/arrowio.go",
		`leaveOut(columns[0], values)`, `leaveOut(nil, values[:0])`, []tests{{"./internal/arrowio", "TestPullReadsCategories"}}},
	{"categories change after the first charge", "sql/functions/categories.sql",
		`WHERE j.dataset = d.id AND j.charge IS NOT NULL) THEN`, `WHERE j.dataset = d.id AND j.charge < 0) THEN`, []tests{{"./tests", "TestCategoriesAreFixedByTheFirstCharge"}}},
	{"a bound of l1 in stages follows a value", "internal/dpsco/l1_staged.go",
		`newWhitener(secondMoments(x, f.contract(bound), noise, src), floor)`,
		`newWhitener(secondMoments(x, f.contract(bound+math.Abs(x.X[0][0])/1e9), noise, src), floor)`, []tests{{"./internal/dpsco", "TestReplaysOfCategories"}}},

	// The filters of an account, as dpsidecar verify and the database have them.
	{"filters: pure epsilons are admitted beside others", "internal/ledger/filters.go",
		`return t.rest == 0 && t.epsilon.Cmp`, `return t.epsilon.Cmp`, []tests{{"./internal/ledger", "TestFiltersAt|TestAdaptive|TestReplay"}}},
	{"filters: the rest costs its rho in the mixture, at no order", "internal/ledger/filters.go",
		`spent := new(big.Rat).Mul(order, t.restRho)`, `spent := new(big.Rat).Set(t.restRho)`, []tests{{"./internal/ledger", "TestFiltersAt|TestAdaptive"}}},
	{"filters: the mixture may take all of epsilon", "internal/ledger/filters.go",
		`limit := new(big.Rat).Mul(order, b.cap)`, `limit := new(big.Rat).Set(b.epsilon)`, []tests{{"./internal/ledger", "TestFiltersAt|TestAdaptive"}}},
	{"filters: deltas of mechanisms have no reserve", "internal/ledger/filters.go",
		`if t.delta.Cmp(reserve) > 0 {`, `if t.delta.Cmp(reserve) > 9 {`, []tests{{"./internal/ledger", "TestFiltersAt"}}},
	{"filters: a refund counts as a charge", "internal/ledger/filters.go",
		`t.rest -= 2`, `t.rest -= 0`, []tests{{"./internal/ledger", "TestReplay"}}},
	{"filters: budgets of before have all filters", "internal/ledger/filters.go",
		`b.epsilon != nil && b.accounting`, `b.accounting`, []tests{{"./internal/ledger", "TestFiltersAt|TestReplay"}}},
	{"the view that a hint names raises an error on some text", "sql/functions/types.sql",
		"CASE WHEN left(%1$I, 30) COLLATE \"C\" ~ ''^-?[0-9]{1,9}([.][0-9]{1,9})?$'' THEN left(%1$I, 30)::numeric END", "left(%1$I, 30)::numeric", []tests{{"./tests", "TestWhatHintsShowRaisesNoError"}}},
	{"the view that a hint names raises an error on some json", "sql/functions/types.sql",
		"CASE jsonb_typeof(%1$s -> ''field'') WHEN ''number'' THEN (%1$s -> ''field'')::numeric END", "(%1$s -> ''field'')::numeric", []tests{{"./tests", "TestWhatHintsShowRaisesNoError"}}},
	{"filters: the database admits pure epsilons beside others", "sql/functions/accounts.sql",
		`t.rest = 0 AND t.epsilon <= p_epsilon THEN`, `t.epsilon <= p_epsilon THEN`, []tests{{"./tests", "TestFiltersAgreeWithTheModel"}}},
	{"filters: the database mixes them in one history", "sql/functions/accounts.sql",
		`t.rest = 0 AND t.epsilon <= p_epsilon THEN`, `t.rest_rho <= p_cap AND t.epsilon <= p_epsilon THEN`, []tests{{"./tests", "TestFiltersAgreeWithTheModel"}}},

	{"filters: all of delta serves the conversion in the database", "sql/functions/accounts.sql",
		"SELECT least(delta * 0.9, ", "SELECT least(delta, ", []tests{{"./tests", "TestFiltersAgreeWithTheModel"}}},
	{"filters: the reserve of delta is half of it in the database", "sql/functions/accounts.sql",
		"delta * 0.1 $$", "delta * 0.5 $$", []tests{{"./tests", "TestDeltasOfMechanismsHaveAReserve"}}},
	{"filters: divergences of another order are added", "sql/functions/ledger.sql",
		"e.renyi[array_position(dp_int.renyi_orders(), a.renyi_order)]", "e.renyi[array_position(dp_int.renyi_orders(), a.renyi_order) - 1]", []tests{{"./tests", "TestFiltersAgreeWithTheModel"}}},
	{"a cost below 0 gives budget back", "sql/functions/ledger.sql",
		"NOT (cost >= 0 AND cost < 'Infinity')", "NOT (cost < 'Infinity')", []tests{{"./tests", "TestNoCostGivesBudgetBack"}}},
	{"a delta below 0 gives delta back", "sql/functions/ledger.sql",
		"NOT coalesce(e.delta >= 0 AND e.delta < 1, false)", "NOT coalesce(e.delta < 1, false)", []tests{{"./tests", "TestNoCostGivesBudgetBack"}}},

	// Fits by groups.
	{"a group of joint moments works with its true size", "internal/dpsco/joint_groups.go",
		`all.ofGroup(len(part.Y), sizes[g])`, `all.ofGroup(len(part.Y), groupSize{float64(max(part.N, 1)), 0, sizes[g].small})`, []tests{{"./internal/dpsco", "TestFitsByGroupsReplay"}}},
	{"a group of newton works with its true size", "internal/dpsco/newton_groups.go",
		`all.ofGroup(size)`, `all.ofGroup(groupSize{float64(max(a.parts[len(a.fits)].N, 1)), 0, size.small})`, []tests{{"./internal/dpsco", "TestFitsByGroupsReplay"}}},
	{"newton does not charge the sizes of groups", "internal/dpsco/newton.go",
		`return []mech.Gaussian{r.groupNoise}`, `return nil`, []tests{{"./internal/dpsco", "TestFitsByGroupsReplay"}}},
	{"newton does not charge the sizes of targets of groups", "internal/dpsco/newton.go",
		`return []mech.Gaussian{r.groupNoise, r.targetNoise}`, `return []mech.Gaussian{r.groupNoise}`, []tests{{"./internal/dpsco", "TestFitsByGroupsReplay"}}},
	{"where counts of a group are cut follows from its true size", "internal/dpsco/newton_groups.go",
		`NoiseMultiplier*math.Sqrt2, f.n), f.n)`, `NoiseMultiplier*math.Sqrt2, f.n), float64(max(a.parts[g].N, 1)))`, []tests{{"./internal/dpsco", "TestFitsByGroupsReplay"}}},
	{"counts are scored by the coefficients of the first group", "internal/dpsco/score_counts.go",
		`g.predict(deviance, b)`, `predict(deviance, b, g.Coefficients[:b.D])`, []tests{{"./tests", "TestOtherModelsFitByGroups"}}},
	{"a row is in two groups", "internal/dpsco/groups.go",
		`x.rows(starts[g], starts[g+1])`, `x.rows(max(0, starts[g]-1), starts[g+1])`, []tests{{"./internal/dpsco", "TestRowsAreSortedByGroup"}}},
	{"objective perturbation of parts pays for one gap", "internal/mech/objpert/objpert.go",
		`const movedFits = 2`, `const movedFits = 1`, []tests{{"./internal/mech/objpert", "TestPlanOfPartsPaysForTwoGaps|TestPartsHaveTheirPlan"}}},
	{"objective perturbation of parts is planned as of one", "internal/mech/objpert/objpert.go",
		`p.planOf(d, movedFits), make`, `p.newPlan(d), make`, []tests{{"./internal/mech/objpert", "TestPartsHaveTheirPlan"}}},
	{"each group of medians has the ridge of its own size", "internal/dpsco/l1_groups.go",
		`objpert.DrawParts(ctx, last, f.shape.N,`, `objpert.DrawParts(ctx, f.perturbation(f.shares.last, last.Smoothing*float64(1+len(parts[0].Y)), f.clip, f.tilt()), f.shape.N,`, []tests{{"./internal/dpsco", "TestReplaysOfStagedByGroups"}}},
	{"medians: the sizes of groups are not charged", "internal/dpsco/l1_staged.go",
		`p.aside, p.sizes, p.width, p.last} {`, `p.aside, p.width, p.last} {`, []tests{{"./internal/dpsco", "TestReplaysOfStagedByGroups"}, {"./internal/dpsco", "TestStagedSharesByGroupsAddUp"}}},
	{"a row's group in the last fit of medians follows from its residual", "internal/dpsco/l1_groups.go",
		`for _, part := range x.byGroup() {`, `for i := range x.Level {
		if len(x.Y) > 1 && x.Y[0] > 0 {
			x.Level[i] = 0
		}
	}
	for _, part := range x.byGroup() {`, []tests{{"./internal/dpsco", "TestReplaysOfStagedByGroups"}}},
	{"rows of other groups stay in a person's record", "internal/dpsco/groups.go",
		`if x.groupOf(i) == group {`, `if x.groupOf(i) == group || i == 3 {`, []tests{{"./internal/dpsco", "TestARecordIsInOneGroup"}, {"./internal/dpsco", "TestFitsByGroupsOfRecordsReplay"}}},
	{"records of a group begin where others did", "internal/dpsco/groups.go",
		`part.First[part.N]+x.First[u+1]-x.First[u])`, `x.First[u+1])`, []tests{{"./internal/dpsco", "TestARecordIsInOneGroup"}, {"./internal/dpsco", "TestFitsByGroupsOfRecordsReplay"}}},
	{"disjoint parts may hold more records than N", "internal/mech/fixedpoint.go",
		`if joined.records += part.records; joined.records > joined.contract.most() {`, `if joined.records += part.records; joined.records < 0 {`, []tests{{"./internal/mech", "TestMisuseOfDisjointPanics"}}},

	// Why a row stays in its block of time.
	{"a disabled trigger keeps a column", "sql/functions/freeze.sql",
		"t.tgenabled = 'A' AND t.tgfoid =", "t.tgfoid =", []tests{{"./sql", "TestWhatFixesAColumn"}}},
	{"any body of the trigger's function keeps a column", "sql/functions/freeze.sql",
		" AND p.prosrc = dp_int.refusal()", "", []tests{{"./sql", "TestWhatFixesAColumn"}}},
	{"partitions and children without the trigger are not looked at", "sql/functions/freeze.sql",
		"AND c.relkind = 'r'\n", "AND c.relkind = 'r' AND c.oid = s.relid\n", []tests{{"./sql", "TestWhatFixesAColumn"}}},
	{"a trigger that comes after sets a frozen column", "sql/functions/freeze.sql",
		`t.tgname COLLATE "C" > (`, `t.tgname COLLATE "C" < (`, []tests{{"./sql", "TestWhatFixesAColumn"}}},
	{"the trigger of a partition sets what is moved there", "sql/functions/freeze.sql",
		"WHERE moves AND t.tgtype & 4 > 0", "WHERE false AND moves", []tests{{"./sql", "TestWhatFixesAColumn"}}},
	{"somebody's own operator compares a frozen column", "sql/functions/freeze.sql",
		"(d.refclassid, d.refobjid) <> (", "d.refobjid = 0 AND (d.refclassid, d.refobjid) <> (", []tests{{"./sql", "TestWhatFixesAColumn"}}},
	{"the owner's right to UPDATE is not one", "sql/functions/freeze.sql",
		"WHERE x.privilege_type = 'UPDATE' AND", "WHERE x.privilege_type = 'UPDATE' AND x.grantee <> c.relowner AND", []tests{{"./sql", "TestWhatFixesAColumn"}}},
	{"a generated column is kept whatever it is made from", "sql/functions/freeze.sql",
		"WHERE NOT EXISTS (SELECT FROM dp_int.fixed_by(s.relid, g.source))", "WHERE false", []tests{{"./sql", "TestWhatFixesAColumn"}}},
	{"a job does not look for what keeps rows in their blocks", "sql/functions/blocks.sql",
		"ELSIF d.block_fixed_by IS NOT NULL THEN", "ELSIF false THEN", []tests{{"./tests", "TestRowsStayInTheirBlocks"}}},
	{"a join's other row keeps a column", "sql/functions/freeze.sql",
		"WHERE NOT EXISTS (SELECT FROM dp_int.derived_views(p_relid));", ";", []tests{{"./sql", "TestWhatFixesAColumn"}}},

	// A budget for every block.
	{"blocks: intervals that the server takes for equal make the same blocks", "sql/functions/blocks.sql",
		`(d.block_source, dp_int.months(a.block_width), extract(day FROM a.block_width), a.block_origin)
         IS DISTINCT FROM (p_source, dp_int.months(p_width), extract(day FROM p_width), p_origin)`,
		`(d.block_source, a.block_width, a.block_origin) IS DISTINCT FROM (p_source, p_width, p_origin)`, []tests{{"./tests", "TestBlocksOfAChargedAccountStay"}}},
	{"blocks: a column is taken for the one whose name it has now", "sql/functions/blocks.sql",
		"o.number > 0 AND o.number <> s.attnum", "false", []tests{{"./tests", "TestBlocksOfAChargedAccountStay"}}},
	{"blocks: a view shows a row beside the block of another", "sql/functions/blocks.sql",
		"IF (dp_int.mixes_rows(p_relid) OR dp_int.mixes_rows(o.relid))\n", "IF false\n", []tests{{"./tests", "TestARowHasOneBlock"}}},
	{"blocks: a view that mixed rows is forgotten when it is gone", "sql/functions/blocks.sql",
		"l.event #> '{budget,mixes_rows}' = 'true'", "false", []tests{{"./tests", "TestARowHasOneBlock"}}},
	{"blocks: a request without a window is an error of whoever claims it", "sql/functions/blocks.sql",
		"CASE WHEN p_request ? 'over' THEN dp_int.window_of", "CASE WHEN a.block_width IS NOT NULL THEN dp_int.window_of", []tests{{"./tests", "TestAJobFromBeforeTheBlocksIsRefused"}}},
	{"blocks: the last block of a window is not looked at", "sql/functions/blocks.sql",
		"hi CONSTANT bigint := coalesce(upper(p_blocks) - 1, ", "hi CONSTANT bigint := coalesce(upper(p_blocks) - 2, ", []tests{{"./tests", "TestBlocksAgreeWithTheModel"}}},
	{"blocks: the last block of a window is not charged", "sql/functions/blocks.sql",
		"hi CONSTANT bigint := upper(e.blocks) - 1;", "hi CONSTANT bigint := upper(e.blocks) - 2;", []tests{{"./tests", "TestBlocksAgreeWithTheModel"}}},
	{"blocks: only the sums of the block that has spent most are looked at", "sql/functions/blocks.sql",
		"EXIT WHEN NOT FOUND;", "EXIT WHEN NOT FOUND OR front <> '{}';", []tests{{"./tests", "TestBlocksAgreeWithTheModel"}}},
	{"blocks: deltas of a block are not added", "sql/functions/blocks.sql",
		"spent_delta = b.spent_delta + e.delta", "spent_delta = b.spent_delta", []tests{{"./tests", "TestBlocksAgreeWithTheModel"}}},
	{"blocks: the hash leaves them out", "sql/functions/ledger.sql",
		" || CASE WHEN e.blocks IS NOT NULL THEN ARRAY[e.blocks::text] END)", ")", []tests{{"./tests", "TestVerifyNoticesChangedBlocks"}}},
	{"blocks: a refund is of the first one alone", "sql/functions/ledger.sql",
		"entry.refunds := p_charge;", "entry.refunds := p_charge; entry.blocks := int8range(lower(entry.blocks), lower(entry.blocks) + 1);", []tests{{"./tests", "TestBlocksAgreeWithTheModel"}}},
	{"blocks: a copy may ask about those that are less full", "sql/functions/adopt.sql",
		"CASE WHEN n.block_width IS NULL THEN least(n.epsilon, n.proven_epsilon) ELSE 0 END", "least(n.epsilon, n.proven_epsilon)", []tests{{"./tests", "TestVerifyNoticesChangedBlocks"}}},
	{"blocks: verify holds no charge against the budget", "sql/functions/verify.sql",
		"WHERE a.block_width IS NOT NULL) AS g(block)", "WHERE false) AS g(block)", []tests{{"./tests", "TestVerifyNoticesChangedBlocks"}}},
	{"blocks: what was charged does not count when it is gone", "sql/functions/blocks.sql",
		"WHERE d.account = p_account AND (d.unregistered_at IS NULL OR dp_int.ever_charged(d.id))\n", "WHERE d.account = p_account AND d.unregistered_at IS NULL\n", []tests{{"./tests", "TestBlocksOfAChargedAccountStay"}}},
	{"units: what was charged does not count when it is gone", "sql/functions/units.sql",
		"AND (d.unregistered_at IS NULL OR dp_int.ever_charged(d.id)) ORDER", "AND d.unregistered_at IS NULL ORDER", []tests{{"./tests", "TestBlocksOfAChargedAccountStay"}}},
	{"blocks: verify does not look at their sums", "sql/functions/blocks.sql",
		"WHERE (b.spent, b.spent_epsilon, b.rest, b.rest_rho, b.spent_delta) IS DISTINCT", "WHERE false AND (b.spent, b.spent_epsilon, b.rest, b.rest_rho, b.spent_delta) IS DISTINCT", []tests{{"./tests", "TestVerifyNoticesChangedBlocks"}}},
	{"blocks: verify outside the database looks at none", "internal/ledger/filters.go",
		"(l.Kind != \"charge\" || r.budget.admits(*t)) && within", "within", []tests{{"./internal/ledger", "TestReplayOfBlocks"}}},
	{"blocks: a charge without any is let pass among others", "internal/ledger/filters.go",
		"return r.blocks == nil && r.add(", "return r.add(", []tests{{"./internal/ledger", "TestReplayOfBlocks"}}},
	{"nodes: each statement on a server has a snapshot of its own", "internal/job/nodes.go",
		`"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"`, `"BEGIN READ ONLY"`, []tests{{"./internal/job", "TestNodesAddUpToOneTable"}}},
	{"nodes: two partitions may show the same rows", "internal/job/nodes.go",
		"			known[t] = true\n", "", []tests{{"./internal/job", "TestNodesAreWhatTheySeem"}}},
	{"nodes: a partition may be anything on its server", "internal/job/nodes.go",
		"c.relkind IN ('r', 'p', 'm') AND NOT pg_catalog.row_security_active(c.oid)", "true", []tests{{"./internal/job", "TestNodesAreWhatTheySeem"}, {"./tests", "TestForeignPartitions"}}},
	{"nodes: columns may have other types than those that were registered", "internal/job/nodes.go",
		"!got.Field(j).Metadata.Equal(field.Metadata)", "got.Field(j).Metadata.Len() != field.Metadata.Len()", []tests{{"./internal/job", "TestNodesAreWhatTheySeem"}}},
	{"nodes: nobody says why rows stay", "sql/functions/nodes.sql",
		"ELSIF how IS NOT NULL AND p_unit IS NULL AND p_rows_stay IS NULL THEN", "ELSIF false THEN", []tests{{"./tests", "TestForeignPartitions"}}},
	{"nodes: partitions on other servers may come after the registration", "sql/functions/register.sql",
		"IS DISTINCT FROM d.distribution THEN", "IS DISTINCT FROM d.distribution AND false THEN", []tests{{"./tests", "TestForeignPartitions"}}},
	{"blocks: the rows of all are read", "internal/job/attempt.go",
		"Where: c.window(), ", "", []tests{{"./tests", "TestWindowsOfBlocks"}}},
	{"blocks: a window of another size is charged than is read", "sql/functions/blocks.sql",
		"dp_int.block_of(a.block_origin, a.block_width, upper(w.days)))", "dp_int.block_of(a.block_origin, a.block_width, upper(w.days) - 1))", []tests{{"./tests", "TestWindowsOfBlocks"}}},
	{"blocks: what reads all rows is registered beside them", "sql/functions/register.sql",
		"  PERFORM dp_int.refuse_other_blocks(", "  PERFORM FROM dp_int.account WHERE false AND dp_int.refuse_other_blocks(", []tests{{"./tests", "TestWhatBlocksRefuse"}}},
	{"blocks: days are those of the session's time zone", "internal/arrowio/arrowio.go",
		"'%s 00:00:00+00'", "'%s 00:00:00'", []tests{{"./internal/arrowio", "TestWindowsAreOfDaysInUTC"}}},
	{"blocks: the day after a window is read", "internal/arrowio/arrowio.go",
		"AND %[1]s OPERATOR(pg_catalog.<) ", "AND %[1]s OPERATOR(pg_catalog.<=) ", []tests{{"./internal/arrowio", "TestWindowsAreOfDaysInUTC"}}},
	{"blocks: operators are those of the search path", "internal/arrowio/arrowio.go",
		"OPERATOR(pg_catalog.>=)", ">=", []tests{{"./internal/arrowio", "TestWindowsAreOfDaysInUTC"}}},
	{"blocks: months begin when they like", "sql/functions/blocks.sql",
		"- (extract(day FROM p_day) < extract(day FROM p_origin))::int)", ")", []tests{{"./sql", "TestBordersOfBlocks"}}},
	{"blocks: a column of another type makes them", "sql/functions/blocks.sql",
		" OR dp_int.column_type(d.relid, d.block) <> d.block_type THEN", " THEN", []tests{{"./tests", "TestWhatBlocksRefuse"}}},
	{"blocks: what keeps rows in them is not looked at again", "sql/functions/blocks.sql",
		"  ELSIF d.block_fixed_by IS NOT NULL THEN\n    PERFORM dp_int.refuse_unfixed(d.relid, d.block, d.block_fixed_by);\n", "", []tests{{"./tests", "TestWhatBlocksRefuse"}}},

	// Rows that stay in a database.
	{"elsewhere: long rows weigh as much as others", "internal/dpsco/descent_elsewhere.go",
		"	if leverage > 0 {\n", "	if leverage < 0 {\n", []tests{{"./internal/dpsco", "TestRowsElsewhereGiveTheSame"}}},
	{"elsewhere: a vector is not shortened", "internal/sqlsum/pass.go",
		"Max(Bound(v.Bound), Sqrt(square))", "Min(Bound(v.Bound), Max(Bound(v.Bound), Sqrt(square)))", []tests{{"./internal/sqlsum", "TestNoRowGivesMoreThanItMay"}, {"./internal/dpsco", "TestNeighboursOfRowsElsewhere"}}},
	{"elsewhere: rounding has no margin", "internal/sqlsum/pass.go",
		" - math.Ceil(math.Sqrt(float64(len(v.Of))))", "", []tests{{"./internal/sqlsum", "TestRoundingHasItsMargin"}}},
	{"elsewhere: a row takes part whatever its columns hold", "internal/sqlsum/text.go",
		`condition := "CASE WHEN "`, `condition := "CASE WHEN true OR "`, []tests{{"./internal/sqlsum", "TestStatementsAgreeWithTheirTwins"}}},
	{"elsewhere: tiny values stay what they are", "internal/sqlsum/expr.go",
		`" THEN " + args[0] + " * " + literal(inverse) + " ELSE '0'`, `" OR true THEN " + args[0] + " * " + literal(inverse) + " ELSE '0'`, []tests{{"./internal/sqlsum", "TestStatementsAgreeWithTheirTwins"}}},
	{"elsewhere: a sum is as far from 0 as its terms", "internal/sqlsum/expr.go",
		"s.least, s.zero = s.least*0x1p-54, true", "s.zero = true", []tests{{"./internal/sqlsum", "TestSumsCancelNoFurtherThanTheirSpans"}}},
	{"elsewhere: a difference is as far from 0 as its terms", "internal/sqlsum/expr.go",
		"least: min(a.least, b.least) * 0x1p-54", "least: min(a.least, b.least)", []tests{{"./internal/sqlsum", "TestSumsCancelNoFurtherThanTheirSpans"}}},
	{"elsewhere: what a failed pass leaves is released", "internal/dpsco/dpsco.go",
		"x.Elsewhere != nil && x.Elsewhere.err != nil {", "false {", []tests{{"./internal/dpsco", "TestAFailedPassReleasesNothing"}}},
	{"elsewhere: a numeric that rounds to 0 is cast", "internal/arrowio/expressions.go",
		"CASE WHEN pg_catalog.abs(%::pg_catalog.numeric) OPERATOR(pg_catalog.>=) '2.4703282292062328e-324'::pg_catalog.numeric THEN", "CASE WHEN true THEN", []tests{{"./internal/arrowio", "TestExpressionsOfTheLongestNumerics"}}},
	{"elsewhere: an infinite date is subtracted from", "internal/arrowio/expressions.go",
		"CASE WHEN pg_catalog.isfinite(%::pg_catalog.date) THEN", "CASE WHEN true THEN", []tests{{"./internal/arrowio", "TestExpressionsAreWhatPullReads"}}},
	{"elsewhere: an enum's own cast runs", "internal/arrowio/expressions.go",
		`pg_catalog.concat(%)`, `%::pg_catalog.text`, []tests{{"./internal/arrowio", "TestExpressionsOfCategories"}}},
	{"elsewhere: text is compared as its collation does", "internal/arrowio/expressions.go",
		`"text":              {` + "`%::pg_catalog.text COLLATE pg_catalog.\"C\"`", `"text":              {` + "`%::pg_catalog.text COLLATE \"C\"`", []tests{{"./internal/arrowio", "TestExpressionsOfCategories"}}},
	{"elsewhere: a quote ends a level", "internal/arrowio/expressions.go",
		"strings.NewReplacer(`\\`, `\\\\`, `'`, `''`)", "strings.NewReplacer(`'`, `''`)", []tests{{"./internal/arrowio", "TestExpressionsOfCategories"}}},
	{"elsewhere: rows of other levels take part", "internal/arrowio/expressions.go",
		"	if len(kept) > 0 {", "	if false {", []tests{{"./internal/arrowio", "TestExpressionsHaveTheWindow"}}},
	{"elsewhere: a view's functions are called as often as planners like", "internal/arrowio/expressions.go",
		"	if once {", "	if false {", []tests{{"./internal/job", "TestPassesCallFunctionsOfViewsOnceARow"}, {"./internal/job", "TestOtherServersAreAskedForAllRows"}}},
	{"elsewhere: operators are those of the search path", "internal/job/sums.go",
		"pg_catalog.concat_ws(', ', 'pg_catalog', nullif(", "pg_catalog.concat_ws(', ', nullif(", []tests{{"./internal/job", "TestAPassIsItsTwin"}}},
	{"elsewhere: more rows than sums are made for", "internal/job/sums.go",
		"most < 0 {", "false {", []tests{{"./internal/job", "TestAnswersAreReadExactly"}}},
	{"elsewhere: the server counts the bins that have rows", "internal/job/sums.go",
		"	results, err := x.conn.PgConn().Exec(ctx, oneRow(p.SQL(x.from, x.columns))).ReadAll()\n", "	results, err := x.conn.PgConn().Exec(ctx, strings.Replace(oneRow(p.SQL(x.from, x.columns)), \" AS answer\", \" AS answer GROUP BY g\", 1)).ReadAll()\n", []tests{{"./internal/job", "TestAPassIsItsTwin"}}},
	{"elsewhere: a pass finds rows with an index", "internal/sqlsum/text.go",
		"rows WHERE \" + condition", "rows WHERE \" + strings.NewReplacer(\"CASE WHEN fence IS NULL THEN false WHEN \", \"\", \"CASE WHEN \", \"\", \" THEN true ELSE false END\", \"\").Replace(condition)", []tests{{"./internal/job", "TestThePlannerExpectsRows"}}},
	{"elsewhere: what needs rows is charged", "internal/job/memory.go",
		"return inDatabase, mustLeave(why)", "return inDatabase, nil", []tests{{"./internal/job", "TestWhoseRowsStay"}}},
	{"elsewhere: rows that must stay are pulled", "internal/job/memory.go",
		"	case c.Dataset.Placement == string(inDatabase):\n", "	case c.Dataset.Placement == string(inDatabase) && why == \"\":\n", []tests{{"./internal/job", "TestWhoseRowsStay"}}},
	{"elsewhere: rows that came with a late partition are released", "internal/job/sums.go",
		"	return r, s.recheckRead(ctx, c)\n", "	return r, nil\n", []tests{{"./tests", "TestAPartitionOfOthersThatComesLate"}}},
	{"elsewhere: an error of a pass is told", "internal/job/sums.go",
		"		return r, s.asParked(ctx, err, notRead)\n	}\n	return r, s.recheckRead", "		return r, parked(err.Error())\n	}\n	return r, s.recheckRead", []tests{{"./tests", "TestAnOracleOfErrors"}}},
	{"a job that was charged is tried again at another cost", "internal/job/attempt.go",
		`err != nil || !sameEvent(event, plan.Event)`, `err != nil || false && !sameEvent(event, plan.Event)`, []tests{{"./tests", "TestAJobIsNotTriedAgainAtAnotherCost"}}},
	{"a job goes on in a copy of its database", "sql/functions/jobs.sql",
		"BEGIN\n  PERFORM dp_int.refuse_copy();\n  SELECT * INTO j FROM dp_int.job WHERE id = p_job AND token", "BEGIN\n  SELECT * INTO j FROM dp_int.job WHERE id = p_job AND token", []tests{{"./tests", "TestAJobUnderWayDoesNotEndInACopy"}}},
	{"jobs are claimed in a copy", "sql/functions/jobs.sql",
		"  IF dp_int.is_copy() THEN\n    RETURN NULL;", "  IF false THEN\n    RETURN NULL;", []tests{{"./tests", "TestAJobUnderWayDoesNotEndInACopy"}}},
	{"a job that reads may fail", "sql/functions/jobs.sql",
		"IF j.state NOT IN ('claimed', 'charged') THEN", "IF j.state NOT IN ('claimed', 'charged', 'reading') THEN", []tests{{"./tests", "TestAJobThatReadsEndsAtItsSteps"}}},
	{"a job ends at any time", "sql/functions/jobs.sql",
		" OR (p_step BETWEEN 0 AND j.last_step) IS NOT TRUE", "", []tests{{"./tests", "TestAJobThatReadsEndsAtItsSteps"}}},
	{"an error while rows are counted is told in the server's words", "internal/job/attempt.go",
		`return &failure{"DP004", "the data set cannot be read", "Ask`, `return &failure{"DP004", pg.Message, "Ask`, []tests{{"./tests", "TestAnErrorWhileRowsAreCounted"}}},
	{"what was pulled is not checked once more", "internal/job/attempt.go",
		"	return plan, x, s.recheckRead(ctx, c)\n", "	return plan, x, nil\n", []tests{{"./tests", "TestAPartitionOfOthersThatComesLate"}}},
	{"elsewhere: a job goes on over a table that has tripled", "internal/job/sums.go",
		"n > mostGrowth*(*c.RowCount)", "n < 0", []tests{{"./tests", "TestRowsStayInTheDatabase"}}},
}
