package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"vagen/internal/jsontext"
)

// JSON writes a value to Out, indented, without escaping of HTML characters.
func (c *Call) JSON(v any) error { return jsontext.Write(c.Out, v) }

// Show writes a value as JSON if the flag --json is given, and its rows in aligned columns otherwise.
func (c *Call) Show(v any, rows [][]string) error {
	if c.AsJSON {
		return c.JSON(v)
	}
	return c.Table(rows)
}

// Table writes rows to Out in aligned columns.
func (c *Call) Table(rows [][]string) error { return Table(c.Out, rows) }

// Table writes rows in aligned columns, two spaces apart.
func Table(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		if _, err := fmt.Fprintln(t, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return t.Flush()
}
