package job

import (
	"fmt"
	"math"
)

// footprint is about how many bytes a job needs, from public facts alone: the
// columns as they are read and as they are fitted, as much again for the fit and the
// collector, and ten of the fit's own, eight bytes a value. No method was seen to hold more
// than 15 values a row for 11 columns, nor 11 for two.
func footprint(rows int64, columns int) float64 { return 8 * float64(rows) * (2*float64(columns) + 10) }

// width is how many columns of numbers are held: the target, one a slope, and one for every
// category that is read.
func (c *claim) width() int {
	width := 1 + len(c.slopes())
	for _, f := range c.columns()[1:] {
		if _, ok := c.Request.Categories[f]; ok {
			width++
		}
	}
	return width
}

// samplerMemory is what the exact sampler may take beside its job's footprint, 0 for no
// limit. It fills it on hard tables only, which is why no job is refused for it.
func (s *Sidecar) samplerMemory(c *claim, n int64) int64 {
	const least = 64 << 20
	if s.config.Memory == 0 {
		return 0
	}
	return max(least, s.config.Memory-int64(footprint(n, c.width())))
}

// checkMemory refuses a job that would need more memory than one may have.
func (s *Sidecar) checkMemory(c *claim, n int64) error {
	need := footprint(n, c.width())
	if s.config.Memory == 0 || need <= float64(s.config.Memory) {
		return nil
	}
	return &failure{"DP005", fmt.Sprintf("%d rows of %d columns need about %s of memory, a job may have %s", n, c.width(), formatBytes(need), formatBytes(float64(s.config.Memory))),
		"Ask for fewer features, or let an operator raise job-memory. " + nothingSpent}
}

func formatBytes(bytes float64) string {
	const step = 1024
	if bytes < step*step*step {
		return fmt.Sprintf("%.0f MiB", math.Ceil(bytes/(step*step)))
	}
	return fmt.Sprintf("%.1f GiB", bytes/(step*step*step))
}
