package dpsco

import (
	"fmt"
	"slices"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/plan"
)

// fields maps the option names of a model to the fields of an algorithm. Package catalogue defines
// the permitted values.
type fields[A any] struct {
	floats  map[string]func(*A) *float64
	choices map[string]func(*A) *string
	groups  map[string]func(*A) *[][]int
}

// set writes options that the catalogue has checked into an algorithm. Groups list names of
// features, which become positions.
func (f fields[A]) set(a *A, given map[string]any, features []string) error {
	for name, value := range given {
		switch {
		case f.floats[name] != nil:
			*f.floats[name](a) = value.(float64)
		case f.choices[name] != nil:
			*f.choices[name](a) = value.(string)
		case f.groups[name] != nil:
			groups, ok := positions(value, features)
			if !ok {
				return fmt.Errorf("%w: option %q must be lists of features, each named once", plan.ErrParameter, name)
			}
			*f.groups[name](a) = groups
		default:
			panic("dpsco: no field for option " + name)
		}
	}
	return nil
}

// check validates the options that a struct literal sets; zero means the default.
func (f fields[A]) check(a A, options []catalogue.Option) error {
	for _, o := range options {
		if place := f.floats[o.Name]; place != nil && *place(&a) != 0 {
			if err := o.CheckNumber(*place(&a)); err != nil {
				return err
			}
		}
		if place := f.choices[o.Name]; place != nil && o.Kind == catalogue.String && *place(&a) != "" && !allowed(options, o.Name, *place(&a)) {
			return o.CheckChoice(*place(&a))
		}
	}
	return nil
}

// allowed reports whether a choice is valid for any option with this name: models that share an
// option may differ in its choices.
func allowed(options []catalogue.Option, name, choice string) bool {
	return slices.ContainsFunc(options, func(o catalogue.Option) bool {
		return o.Name == name && (o.Choices == nil || slices.Contains(o.Choices, choice))
	})
}

// optionsOf returns the options of the given models of the catalogue.
func optionsOf(models ...string) (options []catalogue.Option) {
	for _, m := range catalogue.Models() {
		if slices.Contains(models, m.Name) {
			options = append(options, m.Options...)
		}
	}
	return options
}

// positions converts lists of feature names, as decoded from JSON, into lists of positions.
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
