package privacy

import (
	"fmt"
	"regexp"
	"strconv"
)

// openGaussian is a Gaussian whose noise multiplier is left out. The text of an
// event has no strings but its keys, so it is found nowhere else.
var openGaussian = regexp.MustCompile(`"gaussian"\s*:\s*\{\s*(?:"noise_multiplier"\s*:\s*null\s*)?\}`)

// UnmarshalTemplate reads a history as UnmarshalHistory does, but with noise
// multipliers left out, as in {"gaussian":{}}, and returns the history for a
// common value of those.
//
// Errors: ErrEvent, also when none is left out.
func UnmarshalTemplate(text []byte) (func(z float64) (Event, error), error) {
	if !openGaussian.Match(text) {
		return nil, fmt.Errorf("%w: history: no noise_multiplier is left out", ErrEvent)
	}
	history := func(z float64) (Event, error) {
		full := `"gaussian":{"noise_multiplier":` + strconv.FormatFloat(z, 'g', -1, 64) + "}"
		return UnmarshalHistory(openGaussian.ReplaceAllLiteral(text, []byte(full)))
	}
	_, err := history(1)
	return history, err
}
