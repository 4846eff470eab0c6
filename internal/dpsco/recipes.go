package dpsco

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// recipes is the table of all models.
var recipes = map[string]recipe{
	"l1": fields[L1](l1Fields),
}

// Recipe returns the algorithm of a model with its options, a public parameter
// each; an option that is not given has its default.
//
// Errors: ErrParameter for an unknown model or option, a value of the wrong
// type or out of range; the text names it and what is allowed.
func Recipe(model string, options map[string]any) (Algorithm, error) {
	r, ok := recipes[model]
	if !ok {
		return nil, fmt.Errorf("%w: unknown model %q; models are %s", ErrParameter, model, strings.Join(slices.Sorted(maps.Keys(recipes)), ", "))
	}
	return r.build(options)
}

// Options lists the options of a model in the order of their documentation,
// nil for an unknown model.
func Options(model string) []Option {
	if r, ok := recipes[model]; ok {
		return r.options()
	}
	return nil
}

// Option is a public parameter of a request: a number between Minimum and
// Maximum, both allowed, or where there are Choices one of those strings.
type Option struct {
	Name             string
	Minimum, Maximum float64
	Choices          []string
}

func (o Option) checkNumber(v float64) error {
	if v >= o.Minimum && v <= o.Maximum {
		return nil
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
	build(options map[string]any) (Algorithm, error)
	options() []Option
}

// fields are an algorithm's options with the places where they go.
type fields[A Algorithm] []field[A]

type field[A Algorithm] struct {
	Option
	number func(*A) *float64
	choice func(*A) *string
}

func (fs fields[A]) options() []Option {
	list := make([]Option, len(fs))
	for i, f := range fs {
		list[i] = f.Option
	}
	return list
}

func (fs fields[A]) build(options map[string]any) (Algorithm, error) {
	var a A
	for _, name := range slices.Sorted(maps.Keys(options)) {
		i := slices.IndexFunc(fs, func(f field[A]) bool { return f.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("%w: unknown option %q; options are %s", ErrParameter, name, strings.Join(fs.names(), ", "))
		}
		if err := fs[i].set(&a, options[name]); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (fs fields[A]) names() []string {
	names := make([]string, len(fs))
	for i, f := range fs {
		names[i] = f.Name
	}
	return names
}

func (f field[A]) set(a *A, value any) error {
	switch v := value.(type) {
	case float64:
		if f.number != nil {
			*f.number(a) = v
			return f.checkNumber(v)
		}
	case string:
		if f.choice != nil {
			*f.choice(a) = v
			return f.checkChoice(v)
		}
	}
	want := "a number"
	if f.choice != nil {
		want = "a string"
	}
	return fmt.Errorf("%w: option %q must be %s", ErrParameter, f.Name, want)
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
