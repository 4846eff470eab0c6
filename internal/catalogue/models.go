package catalogue

import "slices"

// leastSquares is the model whose loss is squared.
const leastSquares = "linear"

// gradientDelta is the default delta of a request to a gradient model.
const gradientDelta = 1e-6

var models = []Model{
	{
		Name: "l1", Options: l1Options,
		Description: "Median regression under pure eps-differential privacy, made for heavy tails, or with option tau that of another quantile: coefficients in the table's units, (intercept) first.",
	},
	{
		Name: leastSquares, Delta: gradientDelta, Options: gradientOptions(true),
		Description: "Linear regression (least squares) under (eps, delta)-differential privacy, with penalties, by any method of the catalogue: coefficients in the table's units, (intercept) first.",
	},
	{
		Name: "logistic", Delta: gradientDelta, Labels: true, Options: slices.Concat(logisticOptions(), labelOptions),
		Description: "Logistic regression under (eps, delta)-differential privacy, with penalties, by any method of the catalogue: log-odds per unit of the table, (intercept) first. The target is boolean, or its two labels are named: at registration, or by options.",
	},
	{
		Name: "huber", Delta: gradientDelta, Options: slices.Concat(gradientOptions(false), huberOptions),
		Description: "Huber regression under (eps, delta)-differential privacy, with penalties, by any method of the catalogue: robust to heavy-tailed targets; coefficients in the table's units, (intercept) first.",
	},
	{
		Name: "poisson", Delta: gradientDelta, Counts: true, Options: poissonOptions(),
		Description: "Poisson regression under (eps, delta)-differential privacy, with penalties: the logarithm of a count's mean, for each unit of an exposure where one is named; log-means per unit of the table, (intercept) first. A target below zero says nothing.",
	},
}

// Options that name a column other than target and features, and the largest weight.
const (
	Exposure  = "exposure"
	Weight    = "weight"
	Offset    = "offset"
	MaxWeight = "max_weight"
)

// rowOptions are the options of every model for weights and known parts of predictions.
var rowOptions = []Option{
	{Name: Weight, Kind: String, Description: "registered column, neither target nor feature, of how much a row counts: its loss is multiplied by that; a row without a positive number there says nothing"},
	number(MaxWeight, 1e-9, 1e9, nil, "`weight`: public bound above which weights count as that; close to the largest ones it costs least"),
	{Name: Offset, Kind: String, Description: "registered column, neither target nor feature, that is a part of the prediction with coefficient 1: of the target, of log-odds, or of the logarithm of a mean count; a row without a number there says nothing"},
}

// The sets of coefficients of median regression.
const (
	SetBall = "ball"
	SetBox  = "box"
)

// SampleRows is the option that fits a random subset of the rows.
const SampleRows = "sample_rows"

var l1Options = slices.Concat([]Option{
	number("tau", 0.01, 0.99, 0.5, "quantile of the target that is fitted: 0.5 is the median; another one takes the method staged or objective_perturbation"),
	number("theta", 1.05, 2, 2., "moments the residuals have: 2 for a bounded second moment, less for heavier tails"),
	number("iota", 1e-9, 1e9, nil, "1 / the residual at which the loss saturates, in units of 1 / the target's scale").from("rows, columns, eps and `residual_scale`"),
	number("radius", 1e-6, 1e9, nil, "radius of the set of coefficients, in scaled units").from("the method: none for staged, 10 for the others"),
	number("pitch", 1e-12, 1e6, nil, "spacing of the public grid of coefficients, in scaled units").from("radius and rows"),
	text("set", SetBall, "shape of the set of coefficients", SetBall, SetBox),
	number("residual_scale", 1e-9, 1e9, 1., "typical residual in units of the target's scale, from public knowledge"),
	text("method", MethodAuto, "mechanism; auto is staged from some rows times eps on, with fewer the other one with the smaller expected error", MethodAuto, MethodStaged, MethodExponential, MethodObjective),
	number("clip", 1e-9, 1e9, nil, "objective perturbation: bound on the norm of one person's gradient").from("the number of columns"),
	number("smoothing", 1e-9, 1e9, nil, "objective perturbation: width over which the absolute loss is smoothed, in scaled units").from("public facts"),
	sampleRows,
}, groupOptions, rowOptions)

// sampleRows is an option of every model.
var sampleRows = whole(SampleRows, 1e12, "fit this many rows, or persons, drawn at random, where there are more: faster, and as private and as accurate as a table of that many").from("the data set: all of them")

// gradientOptions are the options of every model that is fitted by private gradients. Least squares and the
// other models each have a method that the others lack.
func gradientOptions(squares bool) []Option {
	method := "algorithm: auto, which is newton for dp_logistic_regress and dp_huber_regress and a descent, whitened or plain, where rows and budget are few; newton; or one of the papers' methods"
	if squares {
		method = "algorithm: auto, which for dp_linear_regress is joint_moments and a descent that clips gradients where rows and budget are few; dp_linear_regress only: joint_moments; or one of the papers' methods"
	}
	return slices.Concat([]Option{text("method", MethodAuto, method, gradientMethodNames(squares)...)}, rowOptions, commonOptions, groupOptions)
}

// groupOptions are the options of fits by groups.
var groupOptions = []Option{
	{Name: "by", Kind: Category, Description: "a registered category or boolean column: a fit of each of its levels, of the rows of that level"},
	text("pool", PoolShrink, "by: whether fits of groups are moved toward their mean as far as noise explains that they differ", PoolShrink, PoolNone),
}

// Radii of the ball of coefficients, in scaled units, for methods that whiten: LabelRadius for log-odds, CountRadius for
// logarithms of means, otherwise WhitenedRadius.
const (
	LabelRadius    = 300.
	CountRadius    = 30.
	WhitenedRadius = 100.
)

// logisticOptions are the gradient options with another default of the radius.
func logisticOptions() []Option {
	options := gradientOptions(false)
	i := slices.IndexFunc(options, func(o Option) bool { return o.Name == "radius" })
	options[i] = options[i].from("the method: 300 for `auto` where rows and budget suffice to whiten, and `newton`, else 10")
	return options
}

// poissonOptions are the options that a Newton fit reads. The papers' methods require bounded gradients,
// and the gradient of a count's loss is not bounded.
func poissonOptions() []Option {
	options := append([]Option{
		text("method", MethodAuto, "algorithm: auto and newton are the same; no other method serves, for the derivative of a count's loss has no bound", MethodAuto, MethodNewton),
		{Name: Exposure, Kind: String, Description: "registered column, neither target nor feature, of what a count was counted over, such as years insured: means are proportional to it; a row without a positive number there says nothing"},
	}, rowOptions...)
	for _, o := range commonOptions {
		switch o.Name {
		case "radius":
			o.Default, o.DefaultText = CountRadius, ""
		case "residual_scale":
			o.Default, o.DefaultText = 1., ""
			o.Description = "dp_explain: root of a typical mean count, in units of the target's scale, from public knowledge"
		case "penalty", "lambda", "l1_ratio", "groups", "feature_norm", SampleRows:
		default:
			continue
		}
		options = append(options, o)
	}
	return append(options, groupOptions...)
}

// commonOptions are the remaining options of every model that is fitted by private gradients.
var commonOptions = []Option{
	text("penalty", PenaltyNone, "penalty on the coefficients but the intercept, in scaled units", PenaltyNone, PenaltyL1, PenaltyL2, PenaltyElasticNet, PenaltyGroupL1),
	number("lambda", 0, 1e9, 0., "weight of the penalty"),
	number("l1_ratio", 0, 1, 0.5, "elastic net: share of the l1 norm"),
	{Name: "groups", Kind: Groups, Description: `group l1: lists of feature names, for instance [["a", "b"], ["c"]]; a feature in none is not penalised`},
	number("radius", 1e-6, 1e9, nil, "radius of the ball of coefficients, in scaled units; where it is given, the default methods move no column to where its values lie").from("the method: 100 for `auto` where rows and budget suffice to whiten, `joint_moments` and `newton`, else 10"),
	number("residual_scale", 1e-9, 1e9, nil, "typical residual in units of the target's scale, from public knowledge").from("the loss: 1, or half its largest derivative if that is less; for the targets of the first pass of newton 0.5 at least"),
	number("feature_norm", 1e-9, 1e9, nil, "whitening, and means of a centred descent: length of a row of scaled features beyond which it weighs less there").from("the number of columns"),
	number("clip", 1e-9, 1e9, nil, "bound on the norm of one person's gradient").from("the method, `residual_scale` and the number of columns; of `auto` also rows and budget"),
	number("moment", 1e-12, 1e12, nil, "catoni, spgd_holland: second moment of one coordinate of a gradient, from public knowledge").from("`residual_scale`"),
	number("truncation", 1e-9, 1e9, nil, "catoni, spgd_holland: scale of a gradient's coordinate; ksu, ksu_axis: distance from the centre at which gradients are cut").from("public facts"),
	number("range", 1e-9, 1e9, nil, "trimmed, spgd_kamath, ksu, ksu_axis: width of the interval that holds a gradient's coordinate").from("`residual_scale`"),
	whole("trim", 1e9, "trimmed: records cut off at either end").from("public facts"),
	whole("steps", 500, "iterations").from("the method"),
	number("step_size", 1e-9, 1e9, nil, "step size, in scaled units").from("the number of columns"),
	whole("batch", 1e12, "spgd methods, svrg, svrg_pp: rows of a batch").from("the rows: all of them, except for svrg and svrg_pp under rdp accounting"),
	whole("blocks", 1e6, "sample_aggregate, spgd_kamath: disjoint blocks, at most one a row").from("public facts"),
	text("aggregator", AggregatorRangeMean, "sample_aggregate: how the fits of blocks become one answer: their clipped mean around where a noisy histogram shows most of them, or the printed centre", AggregatorRangeMean, AggregatorCentre),
	text("whitening", WhiteningAuto, "whether a part of the budget is spent on the second moments of the features", WhiteningAuto, WhiteningOn, WhiteningOff),
	sampleRows,
}

var labelOptions = []Option{
	number("negative_label", -1e300, 1e300, 0., "value of the target that counts as 0; a target that is neither boolean nor has declared labels needs both options"),
	number("positive_label", -1e300, 1e300, 1., "value of the target that counts as 1; any other value says nothing"),
}

var huberOptions = []Option{
	number("huber_delta", 1e-9, 1e9, 1., "residual beyond which the loss is linear, in units of the target's scale; the default method takes a smaller one where residuals are seen to be far smaller, and, where the target has no registered scale, 1 in units of the scale that it finds"),
}

func number(name string, minimum, maximum float64, fallback any, description string) Option {
	return Option{Name: name, Kind: Number, Minimum: minimum, Maximum: maximum, Default: fallback, Description: description}
}

// whole is an option whose values are the whole numbers from 1 to maximum.
func whole(name string, maximum float64, description string) Option {
	return Option{Name: name, Kind: Integer, Minimum: 1, Maximum: maximum, Description: description}
}

func text(name, fallback, description string, choices ...string) Option {
	return Option{Name: name, Kind: String, Choices: choices, Default: fallback, Description: description}
}

// from sets the description of a default that is computed from public facts.
func (o Option) from(facts string) Option {
	o.DefaultText = facts
	return o
}
