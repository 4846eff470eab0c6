// Command installed prints which Postgres server this machine would run. It
// fails, saying what to install, where there is none.
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
