package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// nodes are foreign servers that may be asked directly, by their names.
type nodes map[string]*pgx.ConnConfig

// add takes "SERVER=URL", several with blanks between them. Its errors do not repeat a URL, which
// may hold a password.
func (n nodes) add(text string) error {
	for one := range strings.FieldsSeq(text) {
		name, url, ok := strings.Cut(one, "=")
		if !ok || name == "" || url == "" {
			return errors.New("want SERVER=URL")
		}
		config, err := pgx.ParseConfig(url)
		if err != nil {
			return fmt.Errorf("the URL of %s cannot be read", name)
		}
		n[name] = config
	}
	return nil
}
