// Command installed prints which Postgres server this machine would run. If there is none it fails with
// installation advice.
package main

import (
	"context"
	"fmt"
	"os"

	"dpsidecar/internal/localpg"
)

func main() {
	s, err := localpg.Installed(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s)
}
