package sql

import (
	"encoding/json"
	"strings"

	"dpsidecar/internal/catalogue"
)

// catalogueTables returns statements that fill dp_int.model and dp_int.option from package catalogue, and the function
// that tells models of counts.
func catalogueTables() string {
	text, err := json.Marshal(catalogue.Models())
	if err != nil {
		panic("sql: " + err.Error()) // cannot happen, because the catalogue is part of the program
	}
	var counts []string
	for _, m := range catalogue.Models() {
		if m.Counts {
			counts = append(counts, m.Name)
		}
	}
	models := "'" + strings.ReplaceAll(string(text), "'", "''") + "'"
	return strings.NewReplacer("{{models}}", models, "{{counts}}", "'{"+strings.Join(counts, ",")+"}'").Replace(`DELETE FROM dp_int.option;
DELETE FROM dp_int.model;
INSERT INTO dp_int.model (name, delta, labels, description)
SELECT name, delta, labels, description
  FROM jsonb_to_recordset({{models}}) AS m(name text, delta float8, labels boolean, description text);
INSERT INTO dp_int.option (model, name, type, minimum, maximum, choices, "default", description)
SELECT m ->> 'name', o.name, o.type, o.minimum, o.maximum, o.choices, o."default", o.description
  FROM jsonb_array_elements({{models}}::jsonb) AS m,
       jsonb_to_recordset(m -> 'options') AS o(name text, type text, minimum float8, maximum float8, choices text[], "default" jsonb, description text);

-- Is the target of a model a count, with a linear logarithm of its mean?
CREATE OR REPLACE FUNCTION dp_int.is_count(p_model text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$ SELECT p_model = ANY ({{counts}}) $$;

`)
}
