package cli

import (
	"fmt"

	"vagen/internal/settings"
)

// Options reads arguments of the form key=value, with the value in YAML, into a
// mapping. Dots in a key select nested mappings.
func Options(args []string) (map[string]any, error) {
	o := struct {
		Options map[string]any `yaml:"options"`
	}{map[string]any{}}
	for _, arg := range args {
		if err := settings.Override(&o, "options."+arg); err != nil {
			return nil, Usagef("found %q, must be an option of the form key=value: %w", arg, err)
		}
	}
	return o.Options, nil
}

// StringList is a flag that may be repeated.
type StringList []string

// String implements flag.Value.
func (t *StringList) String() string { return fmt.Sprint([]string(*t)) }

// Set implements flag.Value.
func (t *StringList) Set(s string) error {
	*t = append(*t, s)
	return nil
}
