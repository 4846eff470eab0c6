package main

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// nodes parses "SERVER=URL", several separated by blanks: foreign servers that may be queried directly, by
// name. Its errors do not repeat a URL, which may hold a password.
func nodes(text string) (map[string]*pgx.ConnConfig, error) {
	servers := map[string]*pgx.ConnConfig{}
	for one := range strings.FieldsSeq(text) {
		name, url, ok := strings.Cut(one, "=")
		if !ok || name == "" || url == "" || strings.ContainsAny(name, ":/@") {
			return nil, fmt.Errorf("%w: --node wants SERVER=URL", errUsage)
		}
		config, err := pgx.ParseConfig(url)
		if err != nil {
			return nil, fmt.Errorf("%w: --node: the URL of %s cannot be read", errUsage, name)
		}
		servers[name] = config
	}
	return servers, nil
}
