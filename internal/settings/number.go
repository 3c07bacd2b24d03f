package settings

import (
	"strconv"
	"strings"
)

// number reads numbers, and texts that YAML does not take for one, such as 1e-6.
func number(value any) (float64, bool) {
	switch x := value.(type) {
	case float64:
		return x, x-x == 0
	case string:
		f, err := strconv.ParseFloat(strings.ReplaceAll(x, "_", ""), 64)
		return f, err == nil && f-f == 0
	}
	n, ok := whole(value)
	return float64(n), ok
}
