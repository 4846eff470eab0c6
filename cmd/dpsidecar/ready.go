package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"time"
)

func setupReady(fs *flag.FlagSet) action {
	address := fs.String("admin-listen", "", "`ADDRESS` of the listener, as serve has it; required")
	return func(ctx context.Context, c console, _ []string) error {
		if *address == "" {
			return fmt.Errorf("%w: ready needs --admin-listen", errUsage)
		}
		if err := askReady(ctx, *address); err != nil {
			return err
		}
		_, err := fmt.Fprintln(c.out, "ready")
		return err
	}
}

// askReady returns nil if the sidecar that listens at the address is ready.
func askReady(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/ready", nil)
	if err != nil {
		return err
	}
	var direct http.Transport // without the proxy that a container's environment may set
	response, err := direct.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1000)) // a partial answer is still useful
		return fmt.Errorf("%s: %s", response.Status, bytes.TrimSpace(text))
	}
	return nil
}
