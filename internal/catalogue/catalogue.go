// Package catalogue defines the possible requests: the models, their options with ranges and defaults, and
// the options that each method reads. It is the only definition: package dpsco checks requests against it,
// every installation and upgrade writes it to tables of the database, and the reference prints it.
package catalogue

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// ErrRequest marks a model or option that is unknown or not allowed in the request.
var ErrRequest = errors.New("bad parameter")

// Model is a kind of regression, named by a request.
type Model struct {
	Name        string   `json:"name"`
	Delta       float64  `json:"delta"`       // default of a request; 0: the model is pure, and delta must be 0
	Labels      bool     `json:"labels"`      // its target is one of two public labels, which are not scaled
	Counts      bool     `json:"counts"`      // its target is a count, the logarithm of whose mean is linear
	Description string   `json:"description"` // of its SQL function
	Options     []Option `json:"options"`
}

// Kind is the type of an option's value.
type Kind string

// The types of options.
const (
	Number   Kind = "number"   // from Minimum to Maximum, inclusive
	Integer  Kind = "integer"  // a whole Number
	String   Kind = "string"   // one of Choices; without Choices, a registered column other than target and features
	Groups   Kind = "groups"   // lists of feature names, each name at most once
	Category Kind = "category" // the name of a registered category or boolean column
)

// Option is a public parameter of a request.
type Option struct {
	Name        string   `json:"name"`
	Kind        Kind     `json:"type"`
	Minimum     float64  `json:"minimum"`
	Maximum     float64  `json:"maximum"`
	Choices     []string `json:"choices,omitempty"`
	Default     any      `json:"default,omitempty"` // nil: computed from public facts
	DefaultText string   `json:"-"`                 // the reference's text for a nil Default
	Description string   `json:"description"`
}

// Find returns the model of a name.
//
// Errors: ErrRequest, which lists the models.
func Find(name string) (Model, error) {
	i := slices.IndexFunc(models, func(m Model) bool { return m.Name == name })
	if i < 0 {
		return Model{}, fmt.Errorf("%w: unknown model %q; models are %s", ErrRequest, name, strings.Join(slices.Sorted(slices.Values(Names())), ", "))
	}
	return models[i], nil
}

// Models returns all models, in the order of the reference.
func Models() []Model { return slices.Clone(models) }

// Names returns the names of all models.
func Names() (names []string) {
	for _, m := range models {
		names = append(names, m.Name)
	}
	return names
}

// Option returns one of the model's options by name.
func (m Model) Option(name string) (Option, bool) {
	i := slices.IndexFunc(m.Options, func(o Option) bool { return o.Name == name })
	if i < 0 {
		return Option{}, false
	}
	return m.Options[i], true
}

// Check refuses options that the model does not have, values that are not allowed, and options that would
// have no effect: with such an option the same fit would count as a different request, and be charged
// again.
//
// Errors: ErrRequest; the text names the option and what is allowed.
func (m Model) Check(given map[string]any) error {
	names := slices.Sorted(maps.Keys(given))
	for _, name := range names {
		o, known := m.Option(name)
		if !known {
			return fmt.Errorf("%w: unknown option %q; options are %s", ErrRequest, name, strings.Join(m.optionNames(), ", "))
		}
		if err := o.check(given[name]); err != nil {
			return err
		}
	}
	for _, o := range m.Options {
		if value, asked := given[o.Name]; asked {
			if err := m.refuseUseless(o, value, given); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m Model) optionNames() (names []string) {
	for _, o := range m.Options {
		names = append(names, o.Name)
	}
	return names
}

func (o Option) check(value any) error {
	switch o.Kind {
	case Number, Integer:
		v, ok := value.(float64)
		if !ok {
			return fmt.Errorf("%w: option %q must be a number", ErrRequest, o.Name)
		}
		return o.CheckNumber(v)
	case String:
		v, ok := value.(string)
		if !ok {
			return fmt.Errorf("%w: option %q must be a string", ErrRequest, o.Name)
		}
		return o.CheckChoice(v)
	case Category:
		if _, ok := value.(string); !ok {
			return fmt.Errorf("%w: option %q must be the name of a registered category or boolean column", ErrRequest, o.Name)
		}
	}
	return nil // groups name features of the request, which are unknown here
}

// CheckNumber refuses a number that is out of range.
func (o Option) CheckNumber(v float64) error {
	kind := "number"
	if o.Kind == Integer {
		kind = "whole number"
	}
	if v >= o.Minimum && v <= o.Maximum && (o.Kind != Integer || v == math.Trunc(v)) {
		return nil
	}
	return fmt.Errorf("%w: option %q is %v; it must be a %s from %g to %g", ErrRequest, o.Name, v, kind, o.Minimum, o.Maximum)
}

// CheckChoice refuses a string that is not among the choices.
func (o Option) CheckChoice(v string) error {
	if o.Choices == nil || slices.Contains(o.Choices, v) {
		return nil
	}
	return fmt.Errorf("%w: option %q is %q; it must be one of %s", ErrRequest, o.Name, v, strings.Join(o.Choices, ", "))
}

// ColumnOf returns the column that an option of a request names; empty if it is not set.
func ColumnOf(options map[string]any, option string) string {
	column, _ := options[option].(string)
	return column
}

// IsCount reports whether the target of a model is a count.
func IsCount(model string) bool {
	m, err := Find(model)
	return err == nil && m.Counts
}

// Classifies reports whether the target of a model is a label, which is not scaled.
func Classifies(model string) bool {
	m, err := Find(model)
	return err == nil && m.Labels
}
