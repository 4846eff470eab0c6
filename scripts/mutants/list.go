package main

var mutants = []mutant{
	// The nine that lived.
	{"objective perturbation runs at twice the epsilon charged", "internal/dpsco/l1.go",
		`objpert.Params{Epsilon: below(epsilon)`, `objpert.Params{Epsilon: 2 * below(epsilon)`, []tests{{"./internal/dpsco", "TheChargedEpsilon"}}},
	{"the exponential mechanism runs at twice the epsilon charged", "internal/dpsco/l1.go",
		`expmech.Params{Epsilon: below(epsilon)`, `expmech.Params{Epsilon: 2 * below(epsilon)`, []tests{{"./internal/dpsco", "TheChargedEpsilon"}}},
	{"the leverage limit follows the mean row length", "internal/dpsco/oracle.go",
		"	weights := make([]float64, x.N)\n", "	weights := make([]float64, x.N)\n	total := 0.0\n	for _, column := range x.X {\n		for _, v := range column {\n			if square := v * v / float64(x.N); square < math.Inf(1) {\n				total += square\n			}\n		}\n	}\n	limit *= math.Sqrt(total)\n",
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
		"			points = append(points, exact(a.Loss, a.Psi, x.pick(rows)))\n",
		`			points = append(points, exact(a.Loss, a.Psi, x.pick(rows)))
			if k := len(points) - 1; k > 0 {
				for j := range points[k] {
					points[k][j] = .99*points[k][j] + .01*points[k-1][j]
				}
			}
`, []tests{{"./internal/dpsco", "TestANeighbourChangesOneBlocksFit"}}},
	{"all rows are whitened together before the blocks", "internal/dpsco/aggregate.go",
		`		points := make([][]float64, 0, a.Blocks)
		for _, rows := range mech.NewDeck(x.N, src).Blocks(a.Blocks) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			points = append(points, exact(a.Loss, a.Psi, x.pick(rows)))
`, `		all := newWhitener(exactMoments(x), 1e-6)
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
}
