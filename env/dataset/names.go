package dataset

import (
	"fmt"
	"strings"
	"unicode"

	"vagen/internal/nearest"
)

// renamed maps names of the original systems to those of the registry, if they differ by
// more than case and underscores.
var renamed = map[string]string{"remoteenv": "remote"}

// onServices are environments of the original systems that are not part of this library, by
// their folded names.
var onServices = map[string]string{"alfworld": "ALFWorld", "spatialgym": "SpatialGym"}

var separators = strings.NewReplacer("_", "", "-", "")

// fold removes the differences in naming style between the systems.
func fold(name string) string {
	return strings.ToLower(separators.Replace(name))
}

// registered is the function registered, except that with Open an unknown name is
// returned unchanged.
func (o *Options) registered(name string) (string, error) {
	out, err := registered(name, o.Known)
	if err != nil && o.Open {
		return name, nil
	}
	return out, err
}

// registered returns the name in the registry for an environment's name in a file: the
// same name, or one that differs only in case, underscores and hyphens. If known is nil,
// the name is returned unchanged.
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
		if original, ok := onServices[wanted]; ok {
			return "", fmt.Errorf("environment %q: %s of the original runs on its own service; serve it and write "+
				"name: RemoteEnv with config: {base_urls: \"http://HOST:PORT\", …} and the other options unchanged",
				name, original)
		}
		return "", fmt.Errorf("environment %q is unknown%s; known are %s; to use an environment on a service, set the name remote and the service's address in the option base_urls", name, nearest.Hint(name, known), strings.Join(known, ", "))
	}
	return "", fmt.Errorf("%q is ambiguous: it may be any of %s", name, strings.Join(found, ", "))
}

// maxName is the maximum length of the name of an environment, a tag, a source or a split,
// in bytes.
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
			return fmt.Sprintf("%q contains %q; names are used in paths", s, r)
		}
	}
	return ""
}
