package wire

import (
	"vagen/env"
	"vagen/internal/floats"
)

// Float returns a number of an answer; true is 1.
func Float(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int64:
		return float64(v), true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// Metrics returns the finite numbers of an object, none of other values.
func Metrics(v any) env.Metrics {
	fields, _ := v.(map[string]any)
	m := make(env.Metrics, len(fields))
	for name, v := range fields {
		if f, ok := Float(v); ok && floats.Finite(f) {
			m[name] = f
		}
	}
	return m
}
