package sql

import (
	"encoding/json"
	"strings"

	"dpsidecar/internal/catalogue"
)

// catalogueTables returns statements that fill dp_int.model and dp_int.option from package catalogue.
func catalogueTables() string {
	text, err := json.Marshal(catalogue.Models())
	if err != nil {
		panic("sql: " + err.Error()) // cannot happen, because the catalogue is part of the program
	}
	models := "'" + strings.ReplaceAll(string(text), "'", "''") + "'"
	return strings.ReplaceAll(`DELETE FROM dp_int.option;
DELETE FROM dp_int.model;
INSERT INTO dp_int.model (name, delta, labels, description)
SELECT name, delta, labels, description
  FROM jsonb_to_recordset({{models}}) AS m(name text, delta float8, labels boolean, description text);
INSERT INTO dp_int.option (model, name, type, minimum, maximum, choices, "default", description)
SELECT m ->> 'name', o.name, o.type, o.minimum, o.maximum, o.choices, o."default", o.description
  FROM jsonb_array_elements({{models}}::jsonb) AS m,
       jsonb_to_recordset(m -> 'options') AS o(name text, type text, minimum float8, maximum float8, choices text[], "default" jsonb, description text);

`, "{{models}}", models)
}
