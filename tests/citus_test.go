package tests

import (
	"context"
	"testing"

	"dpsidecar/internal/dev"
)

func TestCitus(t *testing.T) {
	t.Parallel()
	d := newDistributed(t, dev.Options{})
	if _, err := d.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
}
