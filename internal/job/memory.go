package job

import (
	"fmt"
	"math"
	"strings"

	"dpsidecar/internal/arrowio"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/spill"
)

// footprint estimates the bytes that a job needs, from public facts only, at eight bytes a value: for each
// row its columns as read and as fitted (see width), as many values again for copies in the fit and for the
// garbage collector, and ten values of the fit's own. The largest use seen of any method is 15 values a row
// for 11 columns and 11 for two.
func footprint(rows int64, columns int) float64 { return 8 * float64(rows) * (2*float64(columns) + 10) }

// width returns the number of columns of numbers that are held: the target, one for each slope, and one for
// each category that slopes or groups are made from or that decides which rows are used.
func (c *claim) width() int {
	width := 1 + len(c.slopes()) + len(c.filters())
	for _, f := range c.columns()[1:] {
		if _, ok := c.Request.Categories[f]; ok {
			width++
		}
	}
	for _, option := range auxiliaryOptions {
		if c.column(option) != "" {
			width++
		}
	}
	return width
}

// need estimates the bytes that the job needs for n persons. Each is assumed to have MaxRows rows, because
// the actual numbers are private.
func (c *claim) need(n int64) float64 {
	const person = 100
	if c.Dataset.MaxRows == 0 {
		return footprint(n, c.width())
	}
	return footprint(n*int64(c.Dataset.MaxRows), c.width()) + person*float64(n)
}

// samplerMemory returns the bytes that the exact sampler may use besides the footprint of its job; 0 means
// no limit. No job is refused for lack of this memory, because the sampler needs it for difficult tables
// only.
func (s *Sidecar) samplerMemory(c *claim, n int64) int64 {
	const least = 64 << 20
	if s.config.Memory == 0 {
		return 0
	}
	return max(least, s.config.Memory-int64(c.need(n)))
}

// placement is where the rows of a job are while it reads and fits.
type placement string

const (
	inMemory   placement = "memory"
	onDisk     placement = "disk"
	inDatabase placement = "database" // only sums leave the database
)

// bytesOnDisk returns the size of the file that holds the columns of a plan that streams its rows.
func (c *claim) bytesOnDisk(n int64) int64 { return spill.Bytes(c.width()+plan.StreamColumns, n) }

// place decides where n rows are during a job:
//
//   - in the database if the registration says so, or if the table is distributed over nodes and the method
//     needs only sums (a pull would send all rows through one node);
//   - otherwise in memory if they fit;
//   - otherwise on disk if there is a spill folder and the method can stream them;
//   - otherwise in the database if the method needs only sums and the registration does not exclude it.
//
// Errors: a failure if the job would need more memory than the limit, has more rows than can be numbered,
// or needs more than sums of rows that may not leave the database.
func (s *Sidecar) place(c *claim, p *plan.Plan, n int64) (placement, error) {
	why, unlisted := c.stays(p), s.unlisted(c)
	switch {
	case c.Dataset.Placement == string(inDatabase) && why == "" && len(unlisted) > 0:
		return "", notListed(c.Dataset.Name, unlisted)
	case c.Dataset.Placement == string(inDatabase):
		return inDatabase, mustLeave(c.Dataset.Name, why)
	case len(unlisted) > 0:
		return s.pulled(c, p, n)
	case c.Dataset.Distribution != nil && why == "" && c.Dataset.Placement != string(inMemory):
		return inDatabase, nil
	}
	at, err := s.pulled(c, p, n)
	if err != nil && why == "" && c.Dataset.Placement != string(inMemory) {
		return inDatabase, nil
	}
	return at, err
}

// mustLeave returns the failure of a job on a data set whose rows would have to leave the database for the reason why;
// nil if why is empty.
func mustLeave(dataset, why string) error {
	if why == "" {
		return nil
	}
	return &failure{"DP005", "the rows of this data set stay in the database: " + why,
		"What takes sums alone are the default methods of dp_linear_regress, dp_logistic_regress, dp_huber_regress and dp_poisson_regress, gd and accmd, without a unit, groups or a sample; ask for fewer features where those are many. Scores, descriptions and second moments need the rows. Or a steward lets the rows leave: " + setPlacement(dataset, "auto") + ". " + nothingSpent}
}

// setPlacement returns the call by which a steward says where the rows of a data set may be.
func setPlacement(dataset, to string) string {
	return fmt.Sprintf("SELECT dp_set_placement('%s', '%s')", strings.ReplaceAll(dataset, "'", "''"), to)
}

// pulled decides whether n rows that leave the database go to memory or to disk.
func (s *Sidecar) pulled(c *claim, p *plan.Plan, n int64) (placement, error) {
	rows, hint := fmt.Sprintf("%d rows", n), "Ask for fewer features or for a sample with option sample_rows"
	if c.Dataset.MaxRows > 0 {
		rows, hint = fmt.Sprintf("%d persons with up to %d rows", n, c.Dataset.MaxRows), hint+", have it registered with smaller max_rows"
	}
	need := c.need(n)
	switch {
	case c.Dataset.MaxRows > 0 && n > arrowio.MaxRows/int64(c.Dataset.MaxRows):
		return "", &failure{"DP005", rows + " are more than a job can take", "Have it registered with smaller max_rows. " + nothingSpent}
	case s.config.Memory == 0 || need <= float64(s.config.Memory):
		return inMemory, nil
	case s.config.SpillDir == "":
		hint += ", or let an operator raise job-memory or give a spill-dir. "
	case !p.Streams || c.Dataset.MaxRows > 0:
		hint += ", or let an operator raise job-memory: what keeps no rows in memory, and may have them on disk, are the default methods of dp_linear_regress, dp_logistic_regress, dp_huber_regress and dp_poisson_regress, and scores, without a unit and without groups. "
	default:
		return onDisk, nil
	}
	return "", &failure{"DP005", fmt.Sprintf("%s of %d columns need about %s of memory, a job may have %s", rows, c.width(), formatBytes(need), formatBytes(float64(s.config.Memory))), hint + nothingSpent}
}

// makeRoom allocates the file for the rows of a job if they go to disk.
func (s *Sidecar) makeRoom(c *claim, at placement, n int64) (err error) {
	if at != onDisk {
		return nil
	}
	if c.disk, err = spill.New(s.config.SpillDir, c.bytesOnDisk(n)); err == nil {
		return nil
	}
	s.log.Error("no room on disk", "error", err)
	return &failure{"DP005", fmt.Sprintf("%d rows of %d columns need %s on disk, and there is no room now", n, c.width(), formatBytes(float64(c.bytesOnDisk(n)))),
		"Ask again later, or for a sample with option sample_rows, or let an operator see the sidecar's log. " + nothingSpent}
}

func formatBytes(bytes float64) string {
	const step = 1024
	if bytes < step*step*step {
		return fmt.Sprintf("%.0f MiB", math.Ceil(bytes/(step*step)))
	}
	return fmt.Sprintf("%.1f GiB", bytes/(step*step*step))
}
