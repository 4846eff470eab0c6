package job

import (
	"encoding/json"
	"slices"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco"
)

// unit is the unit of a column in a fit: a value x becomes (x - Center) / Scale. In JSON it is the scale
// alone, as a number, if the centre is 0.
type unit struct{ Center, Scale float64 }

// UnmarshalJSON reads both forms.
func (u *unit) UnmarshalJSON(text []byte) error {
	u.Center = 0
	if err := json.Unmarshal(text, &u.Scale); err == nil {
		return nil
	}
	type fields unit
	return json.Unmarshal(text, (*fields)(u))
}

// hasUnit reports whether a scale is registered for a column.
func (c *claim) hasUnit(column string) bool {
	_, ok := c.Dataset.Scales[column]
	return ok
}

// lacksScale reports whether a column of numbers has no registered scale.
func (c *claim) lacksScale(column string) bool { return !c.hasUnit(column) && !c.isFlag(column) }

// unit returns the unit of a column; scale 1 and centre 0 if none is registered.
func (c *claim) unit(column string) unit {
	if u, ok := c.Dataset.Scales[column]; ok {
		return u
	}
	return unit{Scale: 1}
}

// target returns the unit of the target. Labels are not scaled, and counts are scaled but not centred.
func (c *claim) target() unit {
	switch {
	case catalogue.Classifies(c.Model):
		return unit{Scale: 1}
	case catalogue.IsCount(c.Model):
		return unit{Scale: c.unit(c.Request.Target).Scale}
	}
	return c.unit(c.Request.Target)
}

// algorithm returns the algorithm of the request in the scales of the request.
func (c *claim) algorithm() (dpsco.Scaled, error) {
	algorithm, err := c.recipe()
	target := c.target()
	scaled := dpsco.Scaled{Algorithm: algorithm, Y: target.Scale, CentreY: target.Center, Sources: c.sources()}
	for _, f := range c.Request.Features {
		u := c.unit(f) // scale 1 for a category, since none is registered
		for range c.slopesOf(f) {
			if c.lacksScale(f) {
				scaled.UnscaledX = append(scaled.UnscaledX, len(scaled.X))
			}
			if c.isFlag(f) {
				scaled.Flags = append(scaled.Flags, len(scaled.X))
			}
			scaled.X, scaled.CentreX = append(scaled.X, u.Scale), append(scaled.CentreX, u.Center)
		}
	}
	scaled.FlagY = c.isFlag(c.Request.Target)
	scaled.UnscaledY = c.lacksScale(c.Request.Target) && !catalogue.Classifies(c.Model) && !catalogue.IsCount(c.Model)
	scaled.Counts = catalogue.IsCount(c.Model)
	if exposure := c.column(catalogue.Exposure); exposure != "" {
		scaled.Exposure = c.unit(exposure).Scale
	}
	if offset := c.column(catalogue.Offset); offset != "" {
		scaled.CentreOffset = c.unit(offset).Center
	}
	scaled.NoScales = !c.anyScale()
	return scaled, err
}

// anyScale reports whether a scale is registered for any column of the request.
func (c *claim) anyScale() bool {
	return slices.ContainsFunc(c.columns(), c.hasUnit)
}
