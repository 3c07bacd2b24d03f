package dataset

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"vagen/internal/safeyaml"
)

// document is a YAML file with a mapping at the top level.
type document struct {
	keys   []string // in the order of the file
	values map[string]any
	lines  map[string]int // of the keys, and of entries of lists below them: envs[1]
	count  int            // values so far
}

// parse reads a YAML file of one document. Values are nil, bool, int64, float64,
// string, []any and map[string]any.
func parse(data []byte) (doc *document, err error) {
	defer func() { // the parser may panic on invalid input
		if p := recover(); p != nil {
			doc, err = nil, fmt.Errorf("it cannot be parsed: %v", p)
		}
	}()
	file, err := safeyaml.Parse(data)
	if err != nil {
		return nil, oneLine(err)
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil, errors.New("it is empty")
	}
	var refs references
	ast.Walk(&refs, file.Docs[0].Body)
	body, faults := safeyaml.Expand(file.Docs[0].Body, true)
	if err := errors.Join(append(refs.faults, faults...)...); err != nil {
		return nil, err
	}
	var items yaml.MapSlice
	if err := yaml.NodeToValue(body, &items); err != nil {
		return nil, oneLine(err)
	}
	return newDocument(items, body)
}

func newDocument(items yaml.MapSlice, body ast.Node) (*document, error) {
	doc := &document{values: make(map[string]any, len(items)), lines: safeyaml.LinesOf(body)}
	for _, item := range items {
		if err := doc.add(fmt.Sprint(item.Key), item.Value); err != nil {
			return nil, err
		}
	}
	return doc, nil
}

// add adds a key.
func (d *document) add(key string, value any) error {
	v, err := plain(value, &d.count, 0)
	if err != nil {
		return fmt.Errorf("%s%s: %w", d.at(key), key, err)
	}
	d.keys, d.values[key] = append(d.keys, key), v
	return nil
}

// at returns the line of a key as a prefix of messages.
func (d *document) at(key string) string {
	if line := d.lines[key]; line > 0 {
		return fmt.Sprintf("line %d: ", line)
	}
	return ""
}

// oneLine formats an error of the parser in one line, without an excerpt of the file.
func oneLine(err error) error {
	return errors.New(strings.TrimSpace(yaml.FormatError(err, false, false)))
}

// plain converts decoded values to few types. Entries of mappings with the value null are
// removed: null means that a key is not set.
func plain(v any, count *int, depth int) (any, error) {
	if *count++; *count > safeyaml.MaxValues || depth > safeyaml.MaxDepth {
		return nil, fmt.Errorf("it has more than %d values, or is nested more than %d deep", safeyaml.MaxValues,
			safeyaml.MaxDepth)
	}
	switch v := v.(type) {
	case nil, bool, int64, float64, string:
		return v, nil
	case int:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case uint32:
		return int64(v), nil
	case uint64:
		if v > math.MaxInt64 {
			return nil, fmt.Errorf("%d is above %d", v, int64(math.MaxInt64))
		}
		return int64(v), nil
	case float32:
		return float64(v), nil
	case []byte:
		return string(v), nil
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			x, err := plain(x, count, depth+1)
			if err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
			out[i] = x
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, x := range v {
			x, err := plain(x, count, depth+1)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			if x != nil {
				out[key] = x
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("a value of type %T is not supported", v)
}

// references finds references to anything but environment variables.
type references struct{ faults []error }

// Visit implements ast.Visitor.
func (r *references) Visit(n ast.Node) ast.Visitor {
	s, ok := n.(*ast.StringNode)
	if ok && strings.Contains(safeyaml.Variable.ReplaceAllString(s.Value, ""), "${") {
		r.faults = append(r.faults, fmt.Errorf("line %d: %q has a reference that is not of the form ${oc.env:NAME} or "+
			"${oc.env:NAME,default}", safeyaml.Line(n), s.Value))
	}
	return r
}
