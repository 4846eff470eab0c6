package dpsco

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"dpsidecar/internal/dpsco/loss"
)

// models is the table of what can be asked for.
var models = map[string]recipe{
	"l1":       options[L1]{fields: l1Fields},
	"linear":   options[Regression]{Regression{Loss: loss.Squared{}}, regressionFields},
	"logistic": options[Regression]{Regression{Loss: loss.Logistic{}, Labels: true}, append(otherLossFields, labelFields...)},
	"huber":    options[Regression]{Regression{Loss: loss.Huber{}}, append(otherLossFields, huberFields...)},
}

// methods is the literature at a glance: every method of a Regression as an
// estimator of the mean gradient and a solver.
var methods = map[string]func(p *problem) (fit, error){
	// Ours.
	MethodAuto:         (*problem).auto,
	MethodJointMoments: (*problem).jointMoments,
	// Wang, Xiao, Devadas & Xu, ICML 2020: Algorithms 1, 3 and 4.
	"sample_aggregate": (*problem).aggregate,
	"trimmed":          func(p *problem) (fit, error) { return p.descent(p.trimmed(), p.gd()) },
	"catoni":           func(p *problem) (fit, error) { return p.descent(p.catoni(p.N), p.gd()) },
	// Kamath, Liu & Zhang 2021: Algorithm 4 and Appendix B.
	"ksu":      func(p *problem) (fit, error) { return p.descent(p.ksu(false), p.gd()) },
	"ksu_axis": func(p *problem) (fit, error) { return p.descent(p.ksu(true), p.gd()) },
	// Xie, Pietrosanu, Liu, Tu, Jiang & Kong, Statistica Sinica: Algorithms 1, 2 and 4.
	"spgd_clip":    func(p *problem) (fit, error) { return p.descent(p.clip(), p.spgd()) },
	"spgd_kamath":  func(p *problem) (fit, error) { return p.descent(p.kamath(), p.spgd()) },
	"spgd_holland": func(p *problem) (fit, error) { return p.descent(p.holland(), p.spgd()) },
	// Wang, Ye & Xu, NIPS 2017: Algorithms 1 to 4.
	"svrg":    func(p *problem) (fit, error) { return p.descent(p.differences(), p.svrg(1)) },
	"svrg_pp": func(p *problem) (fit, error) { return p.descent(p.differences(), p.svrg(2)) },
	"accmd":   func(p *problem) (fit, error) { return p.descent(p.clip(), p.accmd()) },
	"gd":      func(p *problem) (fit, error) { return p.descent(p.clip(), p.gd()) },
}

// Recipe returns the algorithm of a model with its options, a public parameter
// each; an option that is not given has its default. features are the request's,
// by which options name them.
//
// Errors: ErrParameter for an unknown model or option, a value of the wrong
// type or out of range, an option that the method of a Regression does not use;
// the text names it and what is allowed.
func Recipe(model string, given map[string]any, features []string) (Algorithm, error) {
	r, ok := models[model]
	if !ok {
		return nil, fmt.Errorf("%w: unknown model %q; models are %s", ErrParameter, model, strings.Join(Models(), ", "))
	}
	return r.build(given, features)
}

// Models lists the models, sorted.
func Models() []string { return slices.Sorted(maps.Keys(models)) }

// Options lists the options of a model in the order of their documentation,
// nil for an unknown model.
func Options(model string) []Option {
	if r, ok := models[model]; ok {
		return r.options()
	}
	return nil
}

// Classifies reports whether the target of a model is a label, which no scale
// applies to.
func Classifies(model string) bool {
	r, ok := models[model].(options[Regression])
	return ok && r.start.Labels
}

// Option is a public parameter of a request: a number between Minimum and
// Maximum, both allowed, or where there are Choices one of those strings, or
// lists of feature names.
type Option struct {
	Name             string
	Minimum, Maximum float64
	Integer          bool
	Choices          []string
	Groups           bool
}

func (o Option) checkNumber(v float64) error {
	if v >= o.Minimum && v <= o.Maximum && (!o.Integer || v == math.Trunc(v)) {
		return nil
	}
	if o.Integer {
		return fmt.Errorf("%w: option %q is %v; it must be a whole number from %g to %g", ErrParameter, o.Name, v, o.Minimum, o.Maximum)
	}
	return fmt.Errorf("%w: option %q is %v; it must be a number from %g to %g", ErrParameter, o.Name, v, o.Minimum, o.Maximum)
}

func (o Option) checkChoice(v string) error {
	if slices.Contains(o.Choices, v) {
		return nil
	}
	return fmt.Errorf("%w: option %q is %q; it must be one of %s", ErrParameter, o.Name, v, strings.Join(o.Choices, ", "))
}

type recipe interface {
	build(given map[string]any, features []string) (Algorithm, error)
	options() []Option
}

// options are an algorithm before any option is given, and where each goes.
type options[A Algorithm] struct {
	start  A
	fields fields[A]
}

type fields[A Algorithm] []field[A]

type field[A Algorithm] struct {
	Option
	number func(*A) *float64
	choice func(*A) *string
	groups func(*A) *[][]int
}

func number[A Algorithm](name string, minimum, maximum float64, place func(*A) *float64) field[A] {
	return field[A]{Option: Option{Name: name, Minimum: minimum, Maximum: maximum}, number: place}
}

func whole[A Algorithm](name string, minimum, maximum float64, place func(*A) *float64) field[A] {
	f := number(name, minimum, maximum, place)
	f.Integer = true
	return f
}

func choice[A Algorithm](name string, place func(*A) *string, choices ...string) field[A] {
	return field[A]{Option: Option{Name: name, Choices: choices}, choice: place}
}

func (r options[A]) options() []Option {
	list := make([]Option, len(r.fields))
	for i, f := range r.fields {
		list[i] = f.Option
	}
	return list
}

func (r options[A]) build(given map[string]any, features []string) (Algorithm, error) {
	a := r.start
	for _, name := range slices.Sorted(maps.Keys(given)) {
		i := slices.IndexFunc(r.fields, func(f field[A]) bool { return f.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("%w: unknown option %q; options are %s", ErrParameter, name, strings.Join(r.fields.names(), ", "))
		}
		if err := r.fields[i].set(&a, given[name], features); err != nil {
			return nil, err
		}
	}
	picky, ok := any(a).(interface{ refuse(field[A]) error })
	for _, f := range r.fields {
		if _, asked := given[f.Name]; ok && asked {
			if err := picky.refuse(f); err != nil {
				return nil, err
			}
		}
	}
	return a, nil
}

// named returns the field of a name that is there.
func (fs fields[A]) named(name string) field[A] {
	return fs[slices.IndexFunc(fs, func(f field[A]) bool { return f.Name == name })]
}

func (fs fields[A]) names() []string {
	names := make([]string, len(fs))
	for i, f := range fs {
		names[i] = f.Name
	}
	return names
}

func (f field[A]) set(a *A, value any, features []string) error {
	want := "a number"
	switch {
	case f.number != nil:
		if v, ok := value.(float64); ok {
			*f.number(a) = v
			return f.checkNumber(v)
		}
	case f.choice != nil:
		if v, ok := value.(string); ok {
			*f.choice(a) = v
			return f.checkChoice(v)
		}
		want = "a string"
	default:
		if v, ok := positions(value, features); ok {
			*f.groups(a) = v
			return nil
		}
		want = "lists of features, each named once"
	}
	return fmt.Errorf("%w: option %q must be %s", ErrParameter, f.Name, want)
}

// positions turns lists of feature names, as JSON has them, into lists of their
// positions.
func positions(value any, features []string) (groups [][]int, ok bool) {
	lists, ok := value.([]any)
	seen := map[int]bool{}
	for _, list := range lists {
		names, isList := list.([]any)
		ok = ok && isList && len(names) > 0
		var group []int
		for _, name := range names {
			text, isText := name.(string)
			i := slices.Index(features, text)
			ok = ok && isText && i >= 0 && !seen[i]
			seen[i] = true
			group = append(group, i)
		}
		groups = append(groups, group)
	}
	return groups, ok && len(groups) > 0
}

// check validates the options that a struct literal sets; zero is the default.
func (fs fields[A]) check(a A) error {
	for _, f := range fs {
		if f.number != nil && *f.number(&a) != 0 {
			if err := f.checkNumber(*f.number(&a)); err != nil {
				return err
			}
		}
		if f.choice != nil && *f.choice(&a) != "" {
			if err := f.checkChoice(*f.choice(&a)); err != nil {
				return err
			}
		}
	}
	return nil
}
