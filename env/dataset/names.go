package dataset

import (
	"fmt"
	"strings"
	"unicode"

	"vagen/internal/nearest"
)

// renamed are environments whose names in the original systems are none of the
// registry's, also when case and underscores don't count.
var renamed = map[string]string{"remoteenv": "remote"}

// fold drops what the naming styles of the two systems differ in.
func fold(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

// registered is the function registered, where a name beyond those that are known may
// mean itself.
func (o *Options) registered(name string) (string, error) {
	out, err := registered(name, o.Known)
	if err != nil && o.Open {
		return name, nil
	}
	return out, err
}

// registered returns the name in the registry that an environment's name in a file
// means: the same, or the one that differs in case, underscores and hyphens alone.
// Without a list of known names every name means itself.
func registered(name string, known []string) (string, error) {
	if known == nil {
		return name, nil
	}
	wanted := fold(name)
	if other, ok := renamed[wanted]; ok {
		wanted = other
	}
	var found []string
	for _, k := range known {
		if k == name {
			return k, nil
		}
		if fold(k) == wanted {
			found = append(found, k)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fmt.Errorf("no environment is called %q%s; known are %s; others are played on a service, by the name remote with the address in the option base_urls", name, nearest.Hint(name, known), strings.Join(known, ", "))
	}
	return "", fmt.Errorf("%q may be any of %s", name, strings.Join(found, ", "))
}

// maxName is the longest name of an environment, a tag, a source or a split, in
// bytes.
const maxName = 128

// badName returns why a text is not a valid name, or "". Names are used in paths, so
// they must be valid file names without folders.
func badName(s string) string {
	switch {
	case s == "":
		return "it is empty"
	case len(s) > maxName:
		return fmt.Sprintf("it has %d bytes, %d are allowed", len(s), maxName)
	case s[0] == '.' || s[0] == ' ' || s[len(s)-1] == '.' || s[len(s)-1] == ' ':
		return fmt.Sprintf("%q begins or ends with a dot or a space", s)
	}
	for _, r := range s {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) || strings.ContainsRune(`/\:*?"<>|`, r) {
			return fmt.Sprintf("%q holds %q; names become parts of paths", s, r)
		}
	}
	return ""
}
