package catalogue

import (
	"fmt"
	"slices"
	"strings"
)

// Names of the methods, penalties, aggregators and kinds of whitening in options.
const (
	MethodAuto            = "auto"
	MethodJointMoments    = "joint_moments" // only least squares
	MethodNewton          = "newton"        // only logistic, Huber and Poisson fits
	MethodStaged          = "staged"        // only l1
	MethodExponential     = "exponential_mechanism"
	MethodObjective       = "objective_perturbation"
	MethodSampleAggregate = "sample_aggregate"

	PenaltyNone       = "none"
	PenaltyL1         = "l1"
	PenaltyL2         = "l2"
	PenaltyElasticNet = "elastic_net"
	PenaltyGroupL1    = "group_l1"

	AggregatorRangeMean = "range_mean"
	AggregatorCentre    = "centre"

	WhiteningAuto = "auto"
	WhiteningOn   = "on"
	WhiteningOff  = "off"

	PoolShrink = "shrink"
	PoolNone   = "none"
)

// descent lists the options of every method that descends along private gradients.
var descent = []string{"residual_scale", "steps", "step_size", "whitening"}

// method is an algorithm of the gradient models, with the options that it reads in addition to those of all
// methods and those of penalty, whitening and labels.
type method struct {
	name  string
	reads []string
}

var gradientMethods = []method{
	{MethodAuto, append([]string{"clip"}, descent...)},
	{MethodJointMoments, []string{"residual_scale", "feature_norm"}},
	{MethodNewton, []string{"residual_scale", "feature_norm"}},
	{"catoni", append([]string{"moment", "truncation"}, descent...)},
	{"trimmed", append([]string{"range", "trim"}, descent...)},
	{"ksu", append([]string{"range", "truncation"}, descent...)},
	{"ksu_axis", append([]string{"range", "truncation"}, descent...)},
	{MethodSampleAggregate, []string{"blocks", "aggregator", "residual_scale"}},
	{"spgd_clip", append([]string{"clip", "batch"}, descent...)},
	{"spgd_kamath", append([]string{"range", "batch", "blocks"}, descent...)},
	{"spgd_holland", append([]string{"moment", "truncation", "batch"}, descent...)},
	{"svrg", append([]string{"clip", "batch"}, descent...)},
	{"svrg_pp", append([]string{"clip", "batch"}, descent...)},
	{"accmd", append([]string{"clip"}, descent...)},
	{"gd", append([]string{"clip"}, descent...)},
}

func gradientMethodNames(squares bool) (names []string) {
	other := MethodJointMoments // a method of the other models
	if squares {
		other = MethodNewton
	}
	for _, m := range gradientMethods {
		if m.name != other {
			names = append(names, m.name)
		}
	}
	return names
}

// choice holds the options of a request to a gradient model that determine which other options are read.
type choice struct {
	method, penalty, whitening, aggregator string
	labels                                 bool
	squares                                bool // the model is least squares
}

func (m Model) choiceOf(given map[string]any) choice {
	or := func(name, fallback string) string {
		if v, ok := given[name].(string); ok {
			return v
		}
		return fallback
	}
	return choice{or("method", MethodAuto), or("penalty", PenaltyNone), or("whitening", WhiteningAuto), or("aggregator", AggregatorRangeMean), m.Labels, m.Name == leastSquares}
}

// reads reports whether an option changes the fit for some number of rows. (The method auto whitens if
// there are many.)
func (c choice) reads(option string) bool {
	i := slices.IndexFunc(gradientMethods, func(m method) bool { return m.name == c.method })
	reads := gradientMethods[i].reads
	switch option {
	case "method", "penalty", "radius", "negative_label", "positive_label", "huber_delta", Exposure, Weight, MaxWeight, Offset, SampleRows:
		return true
	case "by":
		return c.method == MethodAuto && c.whitening != WhiteningOff || c.method == MethodJointMoments || c.method == MethodNewton
	case "lambda":
		return c.penalty != PenaltyNone
	case "l1_ratio":
		return c.penalty == PenaltyElasticNet
	case "groups":
		return c.penalty == PenaltyGroupL1
	case "residual_scale": // for labels only descents without whitening use it
		whitens := c.method == MethodNewton || c.method == MethodAuto && c.whitening == WhiteningOn
		if c.labels && whitens || c.method == MethodSampleAggregate && c.aggregator == AggregatorCentre {
			return false
		}
	case "clip", "steps", "step_size": // auto with whitening is joint moments for least squares
		if c.squares && c.method == MethodAuto && c.whitening == WhiteningOn {
			return false
		}
	case "feature_norm":
		if c.method == MethodJointMoments || c.method == MethodNewton {
			return true
		}
		whitens := c.whitening == WhiteningOn || c.whitening == WhiteningAuto && c.method == MethodAuto
		return whitens && slices.Contains(reads, "whitening")
	}
	return slices.Contains(reads, option)
}

// refuseUseless returns an error for an option that has no effect with the method, penalty and whitening of
// the request, for any number of rows. l1 chooses its method by the number of rows, and reads options where
// they apply.
func (m Model) refuseUseless(o Option, value any, given map[string]any) error {
	c := m.choiceOf(given)
	_, weighs := given[Weight]
	switch _, grouped := given["by"]; {
	case o.Name == MaxWeight && !weighs:
		return fmt.Errorf("%w: option %q is about weights; name their column with option %q, or leave it out", ErrRequest, o.Name, Weight)
	case o.Name == "pool" && grouped:
		return nil
	case o.Name == "pool":
		return fmt.Errorf("%w: option %q is about fits by groups; name their category with option \"by\", or leave it out", ErrRequest, o.Name)
	case m.Delta == 0, c.reads(o.Name) && !(o.Name == "l1_ratio" && value == 0.):
		return nil
	case o.Name == "l1_ratio" && value == 0.:
		return fmt.Errorf("%w: option %q is 0; ask for penalty %s, which is that, or for a share above 0", ErrRequest, o.Name, PenaltyL2)
	case o.Kind == Number && value == 0.: // lambda at its default
		return nil
	case o.Name == "whitening" && value == WhiteningOff: // true of methods that do not whiten
		return nil
	}
	return m.nameAlternative(o.Name, c)
}

// nameAlternative returns an error that names the choices with which an option has no effect, and other
// kinds of whitening, penalties, aggregators or methods that would read it.
func (m Model) nameAlternative(option string, c choice) error {
	beside := fmt.Sprintf("method %q", c.method)
	for _, other := range []struct {
		name   string
		chosen *string
	}{{"whitening", &c.whitening}, {"penalty", &c.penalty}, {"aggregator", &c.aggregator}, {"method", &c.method}} {
		chosen := *other.chosen
		var would []string
		o, _ := m.Option(other.name)
		for _, *other.chosen = range o.Choices {
			if c.reads(option) {
				would = append(would, *other.chosen)
			}
		}
		*other.chosen = chosen
		if len(would) == 0 {
			continue
		}
		if other.name != "method" {
			beside += fmt.Sprintf(" and %s %q", other.name, chosen)
		}
		return fmt.Errorf("%w: option %q does nothing with %s; leave it out, or choose another %s: %s", ErrRequest, option, beside, other.name, strings.Join(would, ", "))
	}
	return fmt.Errorf("%w: option %q does nothing with %s; leave it out", ErrRequest, option, beside)
}
